package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/analysis"
	"github.com/verisci/verisci/schemas"
)

var (
	// ErrClosed is what every call after Close returns.
	ErrClosed = errors.New("index: closed")
	// ErrLocked is wrapped in Open's error while the directory is open elsewhere.
	ErrLocked = errors.New("in use by another process")
)

// Options are the choices of Open.
type Options struct {
	Dir     string        // where the log is, created if missing; "" keeps everything in memory only
	Ranking index.Ranking // required
	Logger  *slog.Logger  // nil logs nothing
}

// Index implements index.Index.
type Index struct {
	analyzer analysis.Analyzer
	ranking  index.Ranking
	logger   *slog.Logger

	// writing is held for a whole Upsert or Delete, so that the log's order is
	// the order of changes; state is held only while memory changes.
	writing   sync.Mutex
	log       *papersLog // nil: in memory only
	lock      *flock.Flock
	live      int64 // size in the log of the live papers' records
	compactAt int64 // no compaction before the log has this size

	state    sync.RWMutex
	inverted *inverted
	closed   bool

	// normsMu guards norms while state is held for reading. A change sets it to nil.
	normsMu sync.Mutex
	norms   []float64

	scratch sync.Pool
}

var _ index.Index = (*Index)(nil)

// Open opens the index in a directory, or an empty one. It reports ErrLocked,
// ErrDamaged, or an error that tells of a directory that is no index or has an
// unknown format. A batch that was not written to its end is cut off, with a
// warning to the logger.
func Open(ctx context.Context, o Options) (*Index, error) {
	analyzer, err := analysis.New(o.Ranking)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	x := &Index{
		analyzer: analyzer,
		ranking:  o.Ranking,
		logger:   o.Logger,
		inverted: newInverted(newSimilarity(o.Ranking)),
		scratch:  sync.Pool{New: func() any { return new(scratch) }},
	}
	if o.Dir == "" {
		return x, nil
	}
	if err := x.load(ctx, o.Dir); err != nil {
		return nil, fmt.Errorf("index: open %s: %w", o.Dir, err)
	}
	return x, nil
}

// load takes the directory's lock and replays its log.
func (x *Index) load(ctx context.Context, dir string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	x.lock = flock.New(filepath.Join(dir, "lock"))
	if ok, err := x.lock.TryLock(); err != nil {
		return err
	} else if !ok {
		return fmt.Errorf("%w: stop that one, or use another directory", ErrLocked)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.lock.Close())
		}
	}()
	if x.log, err = openLog(dir, x.logger); err != nil {
		return err
	}
	if err := x.replay(ctx); err != nil {
		return errors.Join(err, x.log.file.Close())
	}
	return nil
}

// replay applies the log. Batches are small where papers come one by one, so
// several are gathered to keep all cores busy.
func (x *Index) replay(ctx context.Context) error {
	const enough = 512
	var gathered []record
	apply := func() error {
		changes := make([]*change, len(gathered))
		err := inParallel(ctx, len(gathered), func(i int) (err error) {
			changes[i], err = decodeChange(gathered[i])
			return err
		})
		if err != nil {
			return err
		}
		gathered = nil
		return x.apply(ctx, changes, nil)
	}
	err := x.log.replay(func(batch []record) error {
		gathered = append(gathered, batch...)
		if len(gathered) < enough {
			return nil
		}
		return apply()
	})
	if err != nil {
		return err
	}
	return apply()
}

// Upsert implements index.Index. Of papers with the same id the last counts. A
// paper that no index takes is reported as an *index.PaperError; it, a failed
// write, or a context that ends before the write leaves the index as it was.
// What was written is synced to disk. The batch is held in memory twice: upsert
// a large collection in batches of some thousands.
func (x *Index) Upsert(ctx context.Context, papers []schemas.Paper) error {
	changes := make([]*change, len(papers))
	err := inParallel(ctx, len(papers), func(i int) (err error) {
		changes[i], err = newUpsert(&papers[i])
		return err
	})
	if err != nil {
		return err
	}
	return x.change(ctx, changes)
}

// Delete implements index.Index, with Upsert's promises.
func (x *Index) Delete(ctx context.Context, ids []string) error {
	changes := make([]*change, len(ids))
	for i, id := range ids {
		var err error
		if changes[i], err = newDelete(id); err != nil {
			return err
		}
	}
	return x.change(ctx, changes)
}

func (x *Index) change(ctx context.Context, changes []*change) error {
	x.writing.Lock()
	defer x.writing.Unlock()
	if x.closed {
		return ErrClosed
	}
	err := x.apply(ctx, changes, x.log)
	if err == nil {
		x.compact()
	}
	return err
}

// apply is the one way in which memory changes. With a log, the changes are
// written to it first. writing is held.
func (x *Index) apply(ctx context.Context, changes []*change, log *papersLog) error {
	changes = x.effective(changes)
	if len(changes) == 0 {
		return ctx.Err()
	}
	added := make([][]count, len(changes))
	removed := make([][]count, len(changes))
	lengths := make([]int, len(changes))
	err := inParallel(ctx, len(changes), func(i int) error {
		c := changes[i]
		if old := x.inverted.get(c.id); old != nil {
			removed[i] = countTerms(x.analyzer.Paper(old.paper))
		}
		if c.paper != nil {
			terms := x.analyzer.Paper(c.paper)
			added[i], lengths[i] = countTerms(terms), len(terms)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if log != nil {
		if err := log.append(changes); err != nil {
			return fmt.Errorf("index: nothing was changed, as writing failed; free or mend the disk and try again: %w", err)
		}
	}
	x.state.Lock()
	defer x.state.Unlock()
	for i, c := range changes {
		if old := x.inverted.get(c.id); old != nil {
			x.live -= old.logged
			x.inverted.remove(c.id, removed[i])
		}
		if c.paper != nil {
			x.live += c.record.size()
			x.inverted.add(doc{c.paper, c.hash, lengths[i], c.record.size()}, added[i])
		}
	}
	x.inverted.purge()
	x.norms = nil
	return nil
}

// effective keeps the last change of each id, unless it changes nothing: a
// record delivered twice costs no write.
func (x *Index) effective(changes []*change) []*change {
	last := make(map[string]*change, len(changes))
	for _, c := range changes {
		last[c.id] = c
	}
	return slices.DeleteFunc(changes, func(c *change) bool {
		d := x.inverted.get(c.id)
		same := d == nil && c.paper == nil || d != nil && c.paper != nil && d.hash == c.hash
		return last[c.id] != c || same
	})
}

// compact rewrites the log once more than half of it, and at least a megabyte,
// is garbage. If that fails, the old log serves on. writing is held.
func (x *Index) compact() {
	if x.log == nil || x.log.size < max(2*x.live+1<<20, x.compactAt) {
		return
	}
	before := x.log.size
	if err := x.log.rewrite(x.inverted.records); err != nil {
		x.compactAt = before + before/4
		x.logger.Warn("index: compaction failed; it is tried again when the log has grown by a quarter", "error", err)
		return
	}
	x.compactAt = 0
	x.logger.Info("index: compacted", "bytes_before", before, "bytes_after", x.log.size)
}

// Search implements index.Index. k is at least 1. The papers of the hits are
// shared: don't change them. Scores of the same papers are the same up to
// rounding, whatever the order they came in.
func (x *Index) Search(ctx context.Context, queries []string, k int) (index.Result, error) {
	if k < 1 {
		return index.Result{}, fmt.Errorf("index: search for %d papers: ask for at least 1", k)
	}
	x.state.RLock()
	defer x.state.RUnlock()
	if x.closed {
		return index.Result{}, ErrClosed
	}
	norms := x.currentNorms()
	result := index.Result{Hits: make([][]index.Hit, len(queries)), Version: x.version()}
	err := inParallel(ctx, len(queries), func(i int) (err error) {
		s := x.scratch.Get().(*scratch)
		defer x.scratch.Put(s)
		result.Hits[i], err = x.inverted.search(ctx, x.analyzer.Query(queries[i]), k, norms, s)
		return err
	})
	if err != nil {
		return index.Result{}, err
	}
	return result, nil
}

// currentNorms is called with state held for reading.
func (x *Index) currentNorms() []float64 {
	x.normsMu.Lock()
	defer x.normsMu.Unlock()
	if x.norms == nil {
		x.norms = x.inverted.sim.norms(x.inverted)
	}
	return x.norms
}

// version is called with state held.
func (x *Index) version() string {
	return fmt.Sprintf("%d-%x", x.inverted.live(), x.inverted.hash[:8])
}

// Stats implements index.Index.
func (x *Index) Stats(context.Context) (index.Stats, error) {
	x.state.RLock()
	defer x.state.RUnlock()
	if x.closed {
		return index.Stats{}, ErrClosed
	}
	return index.Stats{Papers: x.inverted.live(), Ranking: x.ranking, Version: x.version()}, nil
}

// Close waits for calls under way and lets go of the directory. Closing twice is no error.
func (x *Index) Close() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.state.Lock()
	defer x.state.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	x.inverted, x.norms = nil, nil
	if x.log == nil {
		return nil
	}
	return errors.Join(x.log.close(), x.lock.Close())
}

// inParallel calls f with 0 to n-1 on all cores, until one fails or ctx ends.
func inParallel(ctx context.Context, n int, f func(int) error) error {
	g, stop := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := 0; i < n && stop.Err() == nil; i++ {
		g.Go(func() error { return f(i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
