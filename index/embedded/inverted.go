package embedded

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/schemas"
)

// inverted is the index in memory: for each term, the papers that have it. It
// does no locking. A paper takes a slot; an update or a delete leaves the old
// slot dead, with its postings, until purge.
type inverted struct {
	sim    similarity
	vocab  map[string]uint32 // term to its position in terms
	terms  []term
	slots  map[string]uint32 // id of a live paper to its position in docs
	docs   []doc
	length int               // sum over the live papers
	hash   [sha256.Size]byte // exclusive or over the live papers: any order gives the same
}

type term struct {
	df       int       // live papers only
	postings []posting // ascending slots, dead ones among them
}

type posting struct{ slot, tf uint32 }

type doc struct {
	paper  *schemas.Paper // nil in a dead slot
	hash   [sha256.Size]byte
	length int   // terms, repeated ones counted
	logged int64 // size of the paper's record in the log
}

// count is a term of a paper and how often it occurs.
type count struct {
	term string
	tf   uint32
}

// countTerms sorts terms, and counts them in that order.
func countTerms(terms []string) []count {
	slices.Sort(terms)
	counts := make([]count, 0, len(terms))
	for _, t := range terms {
		if n := len(counts); n > 0 && counts[n-1].term == t {
			counts[n-1].tf++
		} else {
			counts = append(counts, count{t, 1})
		}
	}
	return counts
}

func newInverted(sim similarity) *inverted {
	return &inverted{sim: sim, vocab: make(map[string]uint32), slots: make(map[string]uint32)}
}

func (x *inverted) live() int { return len(x.slots) }

// get gives the live paper with that id, or nil.
func (x *inverted) get(id string) *doc {
	if slot, ok := x.slots[id]; ok {
		return &x.docs[slot]
	}
	return nil
}

// add adds a paper whose id has no live slot.
func (x *inverted) add(d doc, counts []count) {
	slot := uint32(len(x.docs))
	for _, c := range counts {
		id, ok := x.vocab[c.term]
		if !ok {
			id = uint32(len(x.terms))
			// The clone lets go of the paper's text, which the term may be a piece of.
			x.vocab[strings.Clone(c.term)] = id
			x.terms = append(x.terms, term{})
		}
		t := &x.terms[id]
		t.df++
		t.postings = append(t.postings, posting{slot, c.tf})
	}
	x.docs = append(x.docs, d)
	x.slots[d.paper.ID] = slot
	x.length += d.length
	x.toggle(d.hash)
}

// remove takes away a live paper; counts are its terms, as they were added.
func (x *inverted) remove(id string, counts []count) {
	d := &x.docs[x.slots[id]]
	for _, c := range counts {
		x.terms[x.vocab[c.term]].df--
	}
	delete(x.slots, id)
	x.length -= d.length
	x.toggle(d.hash)
	*d = doc{}
}

func (x *inverted) toggle(hash [sha256.Size]byte) {
	for i := range hash {
		x.hash[i] ^= hash[i]
	}
}

// records yields the live papers as they are written to a log.
func (x *inverted) records(yield func(record, error) bool) {
	for i := range x.docs {
		if p := x.docs[i].paper; p != nil {
			payload, err := encode(p)
			if !yield(record{upsert, payload}, err) {
				return
			}
		}
	}
}

// purge drops the dead slots, their postings and the terms that are left
// without any, once there are more of them than live ones.
func (x *inverted) purge() {
	if dead := len(x.docs) - x.live(); dead <= x.live()+1000 {
		return
	}
	moved := make([]uint32, len(x.docs)) // old slot to new
	docs := make([]doc, 0, x.live())
	for slot, d := range x.docs {
		if d.paper != nil {
			moved[slot] = uint32(len(docs))
			x.slots[d.paper.ID] = moved[slot]
			docs = append(docs, d)
		}
	}
	terms := make([]term, 0, len(x.terms))
	renamed := make([]uint32, len(x.terms))
	for id, t := range x.terms { // in order, so that sums over terms keep theirs
		if t.df == 0 {
			continue
		}
		kept := make([]posting, 0, t.df)
		for _, p := range t.postings {
			if x.docs[p.slot].paper != nil {
				kept = append(kept, posting{moved[p.slot], p.tf})
			}
		}
		renamed[id] = uint32(len(terms))
		terms = append(terms, term{t.df, kept})
	}
	for word, id := range x.vocab {
		if x.terms[id].df == 0 {
			delete(x.vocab, word)
		} else {
			x.vocab[word] = renamed[id]
		}
	}
	x.docs, x.terms = docs, terms
}

// scratch is the working memory of one search.
type scratch struct {
	scores  []float64 // by slot; all zero between searches
	touched []uint32  // the slots whose score is not zero
}

// search finds the best k papers for a query's terms; norms are x.sim.norms(x).
func (x *inverted) search(ctx context.Context, terms []string, k int, norms []float64, s *scratch) ([]index.Hit, error) {
	if n := len(x.docs); len(s.scores) < n {
		s.scores = make([]float64, n+n/4)
	}
	defer func() {
		for _, slot := range s.touched {
			s.scores[slot] = 0
		}
		s.touched = s.touched[:0]
	}()
	for _, q := range x.query(terms) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, p := range x.terms[q.id].postings {
			if s.scores[p.slot] == 0 {
				s.touched = append(s.touched, p.slot)
			}
			s.scores[p.slot] += q.weight * x.sim.part(p.tf, norms[p.slot])
		}
	}
	return x.best(k, s), nil
}

// query counts and weighs those of a query's terms that some paper has.
func (x *inverted) query(terms []string) []queryTerm {
	var query []queryTerm
	for _, c := range countTerms(terms) {
		if id, ok := x.vocab[c.term]; ok && x.terms[id].df > 0 {
			query = append(query, queryTerm{id: id, tf: int(c.tf), df: x.terms[id].df})
		}
	}
	x.sim.weigh(query, x.live())
	return query
}

func (x *inverted) best(k int, s *scratch) []index.Hit {
	hits := make(worstFirst, 0, min(k, len(s.touched)))
	for _, slot := range s.touched {
		hit := index.Hit{Paper: x.docs[slot].paper, Score: s.scores[slot]}
		switch {
		case hit.Paper == nil:
		case len(hits) < k:
			heap.Push(&hits, hit)
		case compareHits(hit, hits[0]) < 0:
			hits[0] = hit
			heap.Fix(&hits, 0)
		}
	}
	slices.SortFunc(hits, compareHits)
	return hits
}

// compareHits puts the better hit first: the higher score, or among equal ones
// the smaller id in byte order ("10" before "9").
func compareHits(a, b index.Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Paper.ID, b.Paper.ID))
}

// worstFirst is a heap with the worst hit on top.
type worstFirst []index.Hit

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(i, j int) bool { return compareHits(h[i], h[j]) > 0 }
func (h worstFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worstFirst) Push(v any)        { *h = append(*h, v.(index.Hit)) }
func (h *worstFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
