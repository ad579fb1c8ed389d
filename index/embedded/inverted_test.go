package embedded

import (
	"context"
	"fmt"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/schemas"
)

func TestDeadSlotsAndTheirTermsArePurged(t *testing.T) {
	x, err := Open(t.Context(), Options{Ranking: index.BM25})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for i := range 5000 {
		papers := []schemas.Paper{{ID: fmt.Sprint(i % 100), Title: fmt.Sprint("zinc word", i)}}
		if err := x.Upsert(t.Context(), papers); err != nil {
			t.Fatal(err)
		}
	}
	if slots, terms := len(x.inverted.docs), len(x.inverted.terms); slots > 1300 || terms > 1300 || len(x.inverted.vocab) != terms {
		t.Errorf("%d slots, %d terms, %d words for 100 papers", slots, terms, len(x.inverted.vocab))
	}
	result, err := x.Search(t.Context(), []string{"zinc", "word4999", "word4899"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for q, want := range []int{100, 1, 0} {
		if n := len(result.Hits[q]); n != want {
			t.Errorf("query %d: %d hits, want %d", q, n, want)
		}
	}
}

func TestASearchCutShortLeavesNoScoresBehind(t *testing.T) {
	x := newInverted(newSimilarity(index.BM25))
	x.add(doc{paper: &schemas.Paper{ID: "1"}, length: 2}, []count{{"a", 1}, {"b", 1}})
	norms := x.sim.norms(x)
	var s scratch
	whole, err := x.search(t.Context(), []string{"a", "b"}, 1, norms, &s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.search(endsAtSecondLook{t.Context(), new(int)}, []string{"a", "b"}, 1, norms, &s); err == nil {
		t.Fatal("no error")
	}
	again, err := x.search(t.Context(), []string{"a", "b"}, 1, norms, &s)
	if err != nil || again[0].Score != whole[0].Score {
		t.Errorf("score %v, %v; want %v", again, err, whole[0].Score)
	}
}

// endsAtSecondLook is a context that ends while a search is under way.
type endsAtSecondLook struct {
	context.Context
	looks *int
}

func (c endsAtSecondLook) Err() error {
	if *c.looks++; *c.looks > 1 {
		return context.Canceled
	}
	return nil
}
