package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/verisci/verisci/stages"
)

// Verifier turns claims into verdicts. *stages.Pipeline implements it.
//
// A returned error is the batch's and taken to pass: the batch is verified again
// until it works. Work.Err is that claim's own and permanent: it becomes a dead
// letter. Verify is called by all lanes at once, and again with claims it has
// seen.
type Verifier interface {
	Verify(ctx context.Context, batch []*stages.Work) error
}

// Consumer runs the lanes of one process.
type Consumer struct {
	cfg      Config
	verifier Verifier
	counters Counters
}

// New reports every mistake of the configuration.
func New(cfg Config, verifier Verifier) (*Consumer, error) {
	if err := cfg.finalize(); err != nil {
		return nil, err
	}
	if verifier == nil {
		return nil, errors.New("consumer: no verifier")
	}
	return &Consumer{cfg: cfg, verifier: verifier}, nil
}

// Counters of this consumer.
func (c *Consumer) Counters() *Counters { return &c.counters }

// Run consumes until ctx ends or something fails for good: then every lane
// finishes and commits the batch it has in hand, within StopTimeout, and leaves
// the group. The error is nil when ctx was the reason and all lanes stopped in
// time. After an error the process should exit and be started again.
//
// Each lane is a group member of its own; a partition is in one lane at a time,
// and its answers are published in its order.
func (c *Consumer) Run(ctx context.Context) error {
	lanes, ctx := errgroup.WithContext(ctx)
	work, cancel := outlive(ctx, c.cfg.StopTimeout)
	defer cancel()
	for n := range c.cfg.Lanes {
		lanes.Go(func() error {
			l := newLane(c, n)
			if err := l.run(ctx, work); err != nil {
				return fmt.Errorf("consumer: lane %d: %w", n, err)
			}
			return nil
		})
	}
	return lanes.Wait()
}

// outlive is a context that ends some time after its parent does.
func outlive(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(errStopTimeout)
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel(context.Canceled) }
}

var errStopTimeout = errors.New("the batch in hand was not committed within the stop timeout: it is left to the next start")
