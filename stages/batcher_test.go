package stages

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verisci/verisci/models"
	"github.com/verisci/verisci/models/tokenizer"
)

// echo answers each row with its first id and its unpadded length, so that a
// result given to the wrong caller, or computed over padding, shows.
type echo struct {
	mu      sync.Mutex
	batches []models.Batch
	fail    atomic.Bool
	entered atomic.Int32
	hold    chan struct{} // when set, every run waits for it
}

func (e *echo) Pad(seqs []tokenizer.Encoding) models.Batch {
	return (&models.Model{Bundle: &models.Bundle{}}).Pad(seqs)
}

func (e *echo) Run(b models.Batch) ([][]float32, error) {
	e.entered.Add(1)
	if e.hold != nil {
		<-e.hold
	}
	if e.fail.Load() {
		return nil, errors.New("out of memory")
	}
	e.mu.Lock()
	e.batches = append(e.batches, b)
	e.mu.Unlock()
	out := make([][]float32, b.Rows)
	for r := range out {
		var n float32
		for _, m := range b.Mask[r*b.Length : (r+1)*b.Length] {
			n += float32(m)
		}
		out[r] = []float32{float32(b.IDs[r*b.Length]), n}
	}
	return out, nil
}

func sequence(first, length int) tokenizer.Encoding {
	ids := make([]int64, length)
	ids[0] = int64(first)
	return tokenizer.Encoding{IDs: ids, TypeIDs: make([]int64, length)}
}

func TestEveryCallerGetsItsOwnRowsInItsOwnOrder(t *testing.T) {
	e := &echo{}
	b := NewBatcher(e, BatcherOptions{TokenBudget: 64, Runners: 3})
	defer b.Close()
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(caller)))
			for round := range 20 {
				var seqs []tokenizer.Encoding
				for i := range 1 + rng.IntN(40) {
					seqs = append(seqs, sequence(caller*100000+round*1000+i, 1+rng.IntN(90)))
				}
				out, err := b.Infer(context.Background(), seqs)
				if err != nil {
					t.Error(err)
					return
				}
				for i, s := range seqs {
					if out[i][0] != float32(s.IDs[0]) || out[i][1] != float32(len(s.IDs)) {
						t.Errorf("row %d: got %v for id %d of length %d", i, out[i], s.IDs[0], len(s.IDs))
					}
				}
			}
		})
	}
	wg.Wait()
	for _, batch := range e.batches {
		if batch.Rows > 1 && batch.Rows*batch.Length > 64 {
			t.Errorf("a batch of %d x %d is over the budget", batch.Rows, batch.Length)
		}
	}
}

func TestCallersShareBatches(t *testing.T) {
	e := &echo{hold: make(chan struct{})}
	b := NewBatcher(e, BatcherOptions{TokenBudget: 1000})
	defer b.Close()
	var wg sync.WaitGroup
	infer := func(lengths ...int) {
		wg.Go(func() {
			var seqs []tokenizer.Encoding
			for _, n := range lengths {
				seqs = append(seqs, sequence(1, n))
			}
			if _, err := b.Infer(context.Background(), seqs); err != nil {
				t.Error(err)
			}
		})
	}
	// Two sequences that do not go together: one runs, the other is prepared,
	// and the ten calls after them wait together.
	infer(600, 600)
	waitFor(t, func() bool { return e.entered.Load() == 1 })
	for range 10 {
		infer(10, 10, 10)
	}
	waitFor(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.waiting) == 30 })
	close(e.hold)
	wg.Wait()
	if len(e.batches) != 3 || e.batches[2].Rows != 30 {
		t.Errorf("%d batches, want 3 with 30 rows in the last", len(e.batches))
	}
}

func TestASequenceOverTheBudgetRunsAlone(t *testing.T) {
	e := &echo{}
	b := NewBatcher(e, BatcherOptions{TokenBudget: 16})
	defer b.Close()
	if _, err := b.Infer(context.Background(), []tokenizer.Encoding{sequence(1, 500), sequence(2, 3), sequence(3, 400)}); err != nil {
		t.Fatal(err)
	}
	if len(e.batches) != 3 {
		t.Errorf("%d batches, want 3", len(e.batches))
	}
}

func TestAModelErrorIsTheCallsAndTheBatcherGoesOn(t *testing.T) {
	e := &echo{}
	b := NewBatcher(e, BatcherOptions{})
	defer b.Close()
	e.fail.Store(true)
	if _, err := b.Infer(context.Background(), []tokenizer.Encoding{sequence(1, 5)}); err == nil {
		t.Fatal("no error")
	}
	e.fail.Store(false)
	if _, err := b.Infer(context.Background(), []tokenizer.Encoding{sequence(1, 5)}); err != nil {
		t.Fatal(err)
	}
}

func TestACancelledCallReturnsAtOnceAndIsNotRun(t *testing.T) {
	e := &echo{hold: make(chan struct{})}
	b := NewBatcher(e, BatcherOptions{TokenBudget: 1})
	defer b.Close()
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 1)
	go func() {
		_, err := b.Infer(ctx, slices.Repeat([]tokenizer.Encoding{sequence(1, 5)}, 50))
		errs <- err
	}()
	waitFor(t, func() bool { return e.entered.Load() == 1 })
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(e.hold)
	if _, err := b.Infer(context.Background(), []tokenizer.Encoding{sequence(3, 5)}); err != nil {
		t.Fatal(err)
	}
	// One was running and one prepared when the call ended.
	if n := len(e.batches); n > 3 {
		t.Errorf("%d batches were run", n)
	}
}

func TestCloseEndsCallsInProgress(t *testing.T) {
	e := &echo{hold: make(chan struct{})}
	b := NewBatcher(e, BatcherOptions{})
	errs := make(chan error, 1)
	go func() {
		_, err := b.Infer(context.Background(), []tokenizer.Encoding{sequence(1, 5)})
		errs <- err
	}()
	waitFor(t, func() bool { return e.entered.Load() == 1 })
	go func() { time.Sleep(10 * time.Millisecond); close(e.hold) }()
	b.Close()
	b.Close()
	if err := <-errs; err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := b.Infer(context.Background(), []tokenizer.Encoding{sequence(1, 5)}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out")
		}
	}
}
