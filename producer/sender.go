package producer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/schemas"
)

// Sender sends claims. It is idempotent within a session of the client: a
// request that is tried again is stored once. A claim that is sent twice is
// verified twice.
type Sender struct {
	client  *kgo.Client
	records *Records
}

// NewSender connects on the first Send.
func NewSender(connection kafka.Connection, records *Records) (*Sender, error) {
	// kgo's defaults are idempotent writes acknowledged by all replicas in sync.
	client, err := kgo.NewClient(append(connection.Options(), records.Options()...)...)
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	return &Sender{client, records}, nil
}

// Close drops what is not acknowledged; Send waits for everything it sent.
func (s *Sender) Close() { s.client.Close() }

// Send sends claims in their order until the first error, of the claims or of
// sending, waits for those under way and reports how many were acknowledged.
// Every error of a claim names it.
func (s *Sender) Send(ctx context.Context, claims iter.Seq2[schemas.Claim, error]) (acknowledged int, err error) {
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var (
		acked  atomic.Int64
		mu     sync.Mutex
		errs   []error
		failed = func(err error) {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
			stop()
		}
	)
	for claim, err := range claims {
		if sending.Err() != nil {
			break
		}
		var record *kgo.Record
		if err == nil {
			record, err = s.records.Claim(claim)
		}
		if err != nil {
			failed(err)
			break
		}
		// Records under way keep ctx: what was handed over is not called back
		// because of another claim's error.
		s.client.Produce(ctx, record, func(r *kgo.Record, err error) {
			if err != nil {
				failed(fmt.Errorf("producer: claim %q: %w", r.Key, err))
				return
			}
			acked.Add(1)
		})
	}
	if err := s.client.Flush(ctx); err != nil {
		failed(fmt.Errorf("producer: flush: %w", err))
	}
	mu.Lock()
	defer mu.Unlock()
	return int(acked.Load()), errors.Join(errs...)
}
