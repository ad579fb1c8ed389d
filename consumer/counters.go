package consumer

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Counters count what a Consumer did since it was made. They are safe to read
// at any time. Claims, verdicts and dead letters count when their transaction
// is committed, so each counts once; a commit whose answer was lost is not counted.
type Counters struct {
	Claims      atomic.Int64 // records taken from the claims topic: Verdicts plus dead letters
	Verdicts    atomic.Int64
	Commits     atomic.Int64 // transactions
	Aborts      atomic.Int64 // batches given back after they were produced: a rebalance, or Kafka refused something
	Retries     atomic.Int64 // batches given back before: the verifier, or a schema registry, failed for the moment
	FetchErrors atomic.Int64 // failed reads of a partition: if they go on, it is stuck and its lag grows

	mu          sync.Mutex
	deadLetters map[string]int64
}

// DeadLetters are the dead letters by the class of their error.
func (c *Counters) DeadLetters() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.deadLetters)
}

func (c *Counters) committed(verdicts int, deadLetters []string) {
	c.Commits.Add(1)
	c.Claims.Add(int64(verdicts + len(deadLetters)))
	c.Verdicts.Add(int64(verdicts))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadLetters == nil {
		c.deadLetters = map[string]int64{}
	}
	for _, class := range deadLetters {
		c.deadLetters[class]++
	}
}
