package models

import (
	"sync"
	"time"
)

// Meter measures the wall time in which at least one Run of its models was in
// progress: how long ONNX Runtime was at work, however many batches it had. The
// zero value is ready; one Meter may serve several models.
type Meter struct {
	mu      sync.Mutex
	running int
	since   time.Time
	busy    time.Duration
}

func (m *Meter) enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running++; m.running == 1 {
		m.since = time.Now()
	}
}

func (m *Meter) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running--; m.running == 0 {
		m.busy += time.Since(m.since)
	}
}

// Busy is the time measured so far.
func (m *Meter) Busy() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running > 0 {
		return m.busy + time.Since(m.since)
	}
	return m.busy
}
