package stages

import (
	"context"
	"fmt"
	"time"
)

// Pipeline is the four stages in order. It is safe for concurrent use, and
// several batches in it at once share the models' batches.
type Pipeline struct {
	Retrieval, Rationale, Label, Aggregate Stage
}

// Verify takes a batch of claims from text to verdict. A returned error is the
// batch's, and the same batch may be verified again; an item's own error is in
// its Err, and such an item has no verdict.
func (p *Pipeline) Verify(ctx context.Context, batch []*Work) error {
	for _, w := range batch {
		w.Err = nil
	}
	retrieval, err := run(ctx, p.Retrieval, batch)
	if err != nil {
		return err
	}
	rationale, err := run(ctx, p.Rationale, batch)
	if err != nil {
		return err
	}
	label, err := run(ctx, p.Label, batch)
	if err != nil {
		return err
	}
	for _, w := range batch {
		w.Spent = Spent{retrieval, rationale, label}
	}
	_, err = run(ctx, p.Aggregate, batch)
	return err
}

// run gives a stage the items that no stage before it failed, and times it.
func run(ctx context.Context, s Stage, batch []*Work) (time.Duration, error) {
	live := make([]*Work, 0, len(batch))
	for _, w := range batch {
		if w.Err == nil {
			live = append(live, w)
		}
	}
	if len(live) == 0 {
		return 0, nil
	}
	start := time.Now()
	if err := s.Run(ctx, live); err != nil {
		return 0, fmt.Errorf("stages: %s: %w", s.Name(), err)
	}
	for _, w := range live {
		if w.Err != nil {
			w.Err = fmt.Errorf("stages: %s: %w", s.Name(), w.Err)
		}
	}
	return time.Since(start), nil
}
