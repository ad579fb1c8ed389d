package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/verisci/verisci/models"
	"github.com/verisci/verisci/models/tokenizer"
)

// Runner is what a Batcher needs of a model. *models.Model implements it.
type Runner interface {
	Pad([]tokenizer.Encoding) models.Batch
	Run(models.Batch) ([][]float32, error)
}

// BatcherOptions bound what a Batcher runs at once.
type BatcherOptions struct {
	// TokenBudget is the most padded tokens (rows times the longest row) of one
	// batch; a single sequence over it runs alone. Default 512: on a CPU small
	// batches beat large ones, on a GPU 16,384 is a better start.
	TokenBudget int
	// Runners is the number of batches run at once. Default 1.
	Runners int
}

// ErrClosed is returned by Infer once the Batcher is closed.
var ErrClosed = errors.New("stages: the batcher is closed")

// Batcher runs the sequences of all callers in common batches: those waiting
// are sorted by length and cut where the padded size would pass the budget, so
// that little of a batch is padding. There is no timer: a batch is cut as soon
// as a runner is free, and one batch is always prepared while others run.
// The rule is that of text-embeddings-inference's queue.
type Batcher struct {
	model  Runner
	budget int

	mu      sync.Mutex
	waiting []item
	wake    chan struct{} // capacity 1: something waits
	closed  bool

	ready chan prepared
	done  chan struct{}
	wg    sync.WaitGroup
}

// call is one Infer; item one of its sequences; prepared a batch of items of any calls.
type call struct {
	ctx     context.Context
	out     [][]float32
	mu      sync.Mutex
	missing int
	err     error
	done    chan struct{}
}

type item struct {
	seq  tokenizer.Encoding
	call *call
	at   int
}

type prepared struct {
	items []item
	batch models.Batch
}

// NewBatcher starts the batcher's goroutines; Close stops them.
func NewBatcher(model Runner, opts BatcherOptions) *Batcher {
	if opts.TokenBudget <= 0 {
		opts.TokenBudget = 512
	}
	b := &Batcher{
		model:  model,
		budget: opts.TokenBudget,
		wake:   make(chan struct{}, 1),
		ready:  make(chan prepared), // unbuffered: exactly one batch is prepared ahead
		done:   make(chan struct{}),
	}
	b.wg.Add(1)
	go b.form()
	for range max(1, opts.Runners) {
		b.wg.Add(1)
		go b.run()
	}
	return b
}

// Infer gives the logits of each sequence. An error is that of the whole call:
// the context's, the model's, or ErrClosed.
func (b *Batcher) Infer(ctx context.Context, seqs []tokenizer.Encoding) ([][]float32, error) {
	if len(seqs) == 0 {
		return nil, ctx.Err()
	}
	c := &call{ctx: ctx, out: make([][]float32, len(seqs)), missing: len(seqs), done: make(chan struct{})}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, ErrClosed
	}
	for i, s := range seqs {
		b.waiting = append(b.waiting, item{s, c, i})
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	select {
	case <-c.done:
		return c.out, c.err
	case <-ctx.Done():
		return nil, ctx.Err() // its items are passed by when their turn comes
	case <-b.done:
		return nil, ErrClosed
	}
}

// Close stops the batcher; calls in progress return ErrClosed.
func (b *Batcher) Close() {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		close(b.done)
	}
	b.wg.Wait()
}

// form takes all that waits as one wave, and cuts the wave into batches. What
// comes in meanwhile is the next wave, so that no length waits for ever.
func (b *Batcher) form() {
	defer b.wg.Done()
	for {
		select {
		case <-b.wake:
		case <-b.done:
			return
		}
		b.mu.Lock()
		wave := b.waiting
		b.waiting = nil
		b.mu.Unlock()
		// Longest first: the last batches of a wave are short, and the runners end together.
		slices.SortStableFunc(wave, func(x, y item) int { return len(y.seq.IDs) - len(x.seq.IDs) })
		for {
			// Again for each batch: calls may end while the wave is worked off.
			wave = slices.DeleteFunc(wave, func(it item) bool { return it.call.over() })
			if len(wave) == 0 {
				break
			}
			n := cut(wave, b.budget)
			p := b.prepare(wave[:n:n])
			wave = wave[n:]
			select {
			case b.ready <- p:
			case <-b.done:
				return
			}
		}
	}
}

// cut is the number of items of the first batch of a wave sorted longest first.
func cut(wave []item, budget int) int {
	longest := max(1, len(wave[0].seq.IDs))
	return min(len(wave), max(1, budget/longest))
}

func (b *Batcher) prepare(items []item) prepared {
	seqs := make([]tokenizer.Encoding, len(items))
	for i, it := range items {
		seqs[i] = it.seq
	}
	return prepared{items, b.model.Pad(seqs)}
}

func (b *Batcher) run() {
	defer b.wg.Done()
	for {
		select {
		case p := <-b.ready:
			out, err := b.model.Run(p.batch)
			if err == nil && len(out) != len(p.items) {
				err = fmt.Errorf("the model gave %d rows for %d sequences", len(out), len(p.items))
			}
			for i, it := range p.items {
				var row []float32
				if err == nil {
					row = out[i]
				}
				it.call.finish(it.at, row, err)
			}
		case <-b.done:
			return
		}
	}
}

// over reports whether nobody waits for the rest of the call any more.
func (c *call) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx.Err() != nil || c.err != nil
}

func (c *call) finish(at int, row []float32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out[at] = row
	if c.err != nil {
		return // done was closed with the error
	}
	c.err = err
	if c.missing--; c.missing == 0 || err != nil {
		close(c.done)
	}
}

// ErrNotFinite is the permanent error of a claim for which a model gives no number.
var ErrNotFinite = errors.New("the model's output is not a finite number")

// probabilities is the softmax of a row of logits.
func probabilities(logits []float32) ([]float32, error) {
	for _, x := range logits {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, ErrNotFinite
		}
	}
	return models.Softmax(logits), nil
}
