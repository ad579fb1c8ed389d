package embedded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/embedded"
	"github.com/verisci/verisci/schemas"
)

// open opens an index that is closed at the test's end.
func open(tb testing.TB, o embedded.Options) *embedded.Index {
	tb.Helper()
	x, err := embedded.Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := x.Close(); err != nil {
			tb.Error(err)
		}
	})
	return x
}

func put(tb testing.TB, x *embedded.Index, papers ...schemas.Paper) {
	tb.Helper()
	if err := x.Upsert(tb.Context(), papers); err != nil {
		tb.Fatal(err)
	}
}

func remove(tb testing.TB, x *embedded.Index, ids ...string) {
	tb.Helper()
	if err := x.Delete(tb.Context(), ids); err != nil {
		tb.Fatal(err)
	}
}

func search(tb testing.TB, x *embedded.Index, k int, query string) []index.Hit {
	tb.Helper()
	result, err := x.Search(tb.Context(), []string{query}, k)
	if err != nil {
		tb.Fatal(err)
	}
	return result.Hits[0]
}

func version(tb testing.TB, x *embedded.Index) string {
	tb.Helper()
	stats, err := x.Stats(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return stats.Version
}

func ids(hits []index.Hit) string {
	var s []string
	for _, h := range hits {
		s = append(s, h.Paper.ID)
	}
	return strings.Join(s, " ")
}

func paper(id, title string, abstract ...string) schemas.Paper {
	return schemas.Paper{ID: id, Title: title, Abstract: abstract}
}

func TestReferenceScoresAreThoseOfScikitLearn(t *testing.T) {
	data, err := os.ReadFile("../analysis/testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Papers  []schemas.Paper `json:"papers"`
		Queries []string        `json:"queries"`
		Scores  [][]float64     `json:"scores"`
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	x := open(t, embedded.Options{Ranking: index.Reference})
	put(t, x, want.Papers...)
	result, err := x.Search(t.Context(), want.Queries, len(want.Papers))
	if err != nil {
		t.Fatal(err)
	}
	for q, query := range want.Queries {
		got := make(map[string]float64)
		for _, h := range result.Hits[q] {
			got[h.Paper.ID] = h.Score
		}
		for p, score := range want.Scores[q] {
			if id := want.Papers[p].ID; math.Abs(got[id]-score) > 1e-9 {
				t.Errorf("query %q, paper %s: score %v, want %v", query, id, got[id], score)
			}
		}
	}
}

// Each figure is computed here from the ranking's formula, with paper 2 of
// length 4 and 3 papers of mean length 8/3.
func TestScoresOfTheStemmingRankingsFollowTheirFormulas(t *testing.T) {
	papers := []schemas.Paper{paper("1", "zinc"), paper("2", "zinc", "zinc copper", "gold"), paper("3", "the gold silver", "iron")}
	idf := math.Log(4.0/3) + 1
	for ranking, want := range map[index.Ranking]float64{
		index.TFIDF: idf * idf * math.Sqrt(2) / math.Sqrt(4),
		index.BM25:  math.Log(1+1.5/2.5) * 2 * 2.2 / (2 + 1.2*(0.25+0.75*4/(8.0/3))),
	} {
		x := open(t, embedded.Options{Ranking: ranking})
		put(t, x, papers...)
		for _, h := range search(t, x, 3, "Zinc") {
			if h.Paper.ID == "2" && math.Abs(h.Score-want) > 1e-12 {
				t.Errorf("%s: score %v, want %v", ranking, h.Score, want)
			}
		}
		if once, twice := search(t, x, 1, "zinc")[0].Score, search(t, x, 1, "zinc zinc")[0].Score; math.Abs(twice-2*once) > 1e-12 {
			t.Errorf("%s: a repeated word scores %v, want twice %v", ranking, twice, once)
		}
	}
}

func TestEqualScoresComeInByteOrderOfIDs(t *testing.T) {
	for _, r := range rankings {
		x := open(t, embedded.Options{Ranking: r})
		for _, id := range []string{"9", "100", "b", "10", "a", "é"} {
			put(t, x, paper(id, "same words"))
		}
		put(t, x, paper("0", "other title"))
		if got := ids(search(t, x, 10, "words")); got != "10 100 9 a b é" {
			t.Errorf("%s: %s", r, got)
		}
		if got := ids(search(t, x, 3, "words")); got != "10 100 9" {
			t.Errorf("%s, k 3: %s", r, got)
		}
	}
}

func TestPapersWithoutAWordOfTheQueryAreNoHits(t *testing.T) {
	for _, r := range rankings {
		x := open(t, embedded.Options{Ranking: r})
		if hits := search(t, x, 5, "zinc"); len(hits) != 0 {
			t.Errorf("%s: %d hits in an empty index", r, len(hits))
		}
		put(t, x, paper("1", "zinc"), paper("2", ""))
		for _, q := range []string{"", "the", "copper", "\xff", "\x00"} {
			if hits := search(t, x, 5, q); len(hits) != 0 {
				t.Errorf("%s: %d hits for %q", r, len(hits), q)
			}
		}
		if got := ids(search(t, x, math.MaxInt, "zinc\xffzinc")); got != "1" {
			t.Errorf("%s: hits %q", r, got)
		}
		if _, err := x.Search(t.Context(), []string{"zinc"}, 0); err == nil {
			t.Errorf("%s: no error for k 0", r)
		}
		if result, err := x.Search(t.Context(), nil, 1); err != nil || len(result.Hits) != 0 {
			t.Errorf("%s: no queries give %v, %v", r, result, err)
		}
	}
}

// mutate makes random upserts and deletes, and returns what the index must hold.
func mutate(t *testing.T, x *embedded.Index, rnd *rand.Rand, steps int) map[string]schemas.Paper {
	t.Helper()
	words := strings.Fields("zinc copper gold silver iron tin lead zincs running runs of the cells")
	held := make(map[string]schemas.Paper)
	for range steps {
		var batch []schemas.Paper
		for range 1 + rnd.IntN(8) {
			p := paper(fmt.Sprint(rnd.IntN(40)), words[rnd.IntN(len(words))])
			for range rnd.IntN(4) {
				p.Abstract = append(p.Abstract, words[rnd.IntN(len(words))]+" "+words[rnd.IntN(len(words))])
			}
			batch = append(batch, p)
			held[p.ID] = p
		}
		put(t, x, batch...)
		id := fmt.Sprint(rnd.IntN(40))
		remove(t, x, id, "unknown")
		delete(held, id)
	}
	return held
}

func TestAChangedIndexEqualsAFreshOne(t *testing.T) {
	for _, r := range rankings {
		dir := t.TempDir()
		changed := open(t, embedded.Options{Ranking: r, Dir: dir})
		rnd := rand.New(rand.NewPCG(1, 2))
		held := mutate(t, changed, rnd, 300)
		fresh := open(t, embedded.Options{Ranking: r})
		for _, p := range held { // in the random order of a map
			put(t, fresh, p)
		}
		same(t, changed, fresh)
		if err := changed.Close(); err != nil {
			t.Fatal(err)
		}
		same(t, open(t, embedded.Options{Ranking: r, Dir: dir}), fresh)
	}
}

func same(t *testing.T, got, want *embedded.Index) {
	t.Helper()
	if g, w := version(t, got), version(t, want); g != w {
		t.Errorf("version %s, want %s", g, w)
	}
	for _, q := range []string{"zinc", "copper gold", "running cells cells", "tin lead iron silver"} {
		g, w := search(t, got, 50, q), search(t, want, 50, q)
		scores := make(map[string]float64)
		for _, h := range g {
			scores[h.Paper.ID] = h.Score
		}
		if len(g) != len(w) {
			t.Errorf("%q: %d hits, want %d", q, len(g), len(w))
		}
		for _, h := range w {
			if math.Abs(scores[h.Paper.ID]-h.Score) > 1e-12 {
				t.Errorf("%q: paper %s scores %v, want %v", q, h.Paper.ID, scores[h.Paper.ID], h.Score)
			}
		}
	}
}

func TestVersionTellsContentAlone(t *testing.T) {
	p := schemas.Paper{ID: "1", Title: "t", Abstract: []string{"a"}, Identifiers: map[string]string{"doi": "x", "pmid": "y"}}
	x := open(t, embedded.Options{Ranking: index.BM25})
	empty := version(t, x)
	put(t, x, p)
	first := version(t, x)
	seen := map[string]bool{empty: true, first: true}
	for name, edit := range map[string]func(*schemas.Paper){
		"title":       func(p *schemas.Paper) { p.Title = "u" },
		"abstract":    func(p *schemas.Paper) { p.Abstract = []string{"a", ""} },
		"identifiers": func(p *schemas.Paper) { p.Identifiers = map[string]string{"doi": "x"} },
		"retracted":   func(p *schemas.Paper) { p.Retracted = true },
		"date":        func(p *schemas.Paper) { p.Date = "2020" },
		"url":         func(p *schemas.Paper) { p.URL = "u" },
	} {
		edited := p
		edit(&edited)
		put(t, x, edited)
		if v := version(t, x); seen[v] {
			t.Errorf("the version doesn't change with the %s", name)
		} else {
			seen[v] = true
		}
	}
	put(t, x, p)
	if v := version(t, x); v != first {
		t.Errorf("version %s, want %s again", v, first)
	}
	remove(t, x, "1")
	if v := version(t, x); v != empty {
		t.Errorf("version %s, want %s again", v, empty)
	}
	result, err := x.Search(t.Context(), []string{"t"}, 1)
	if err != nil || result.Version != empty {
		t.Errorf("result's version %s, %v; want %s", result.Version, err, empty)
	}
	put(t, x, paper("1", "t"))
	none := version(t, x)
	put(t, x, schemas.Paper{ID: "1", Title: "t", Abstract: []string{}, Identifiers: map[string]string{}})
	if v := version(t, x); v != none {
		t.Errorf("empty and nil lists have versions %s and %s", v, none)
	}
}

func TestABadPaperIsNamedAndItsBatchNotApplied(t *testing.T) {
	x := open(t, embedded.Options{Ranking: index.BM25, Dir: t.TempDir()})
	put(t, x, paper("1", "zinc"))
	before := version(t, x)
	for name, bad := range map[string]schemas.Paper{
		"no id":          paper("", "zinc"),
		"id not UTF-8":   paper("\xff", "zinc"),
		"title":          paper("2", "zinc\xc3"),
		"sentence":       paper("2", "zinc", "\xed\xa0\x80"),
		"identifier":     {ID: "2", Identifiers: map[string]string{"doi": "\xff"}},
		"too large":      paper("2", strings.Repeat("a", index.MaxPaperBytes)),
		"many sentences": {ID: "2", Abstract: make([]string, index.MaxPaperBytes/16)},
	} {
		err := x.Upsert(t.Context(), []schemas.Paper{paper("3", "copper"), bad})
		pe, ok := errors.AsType[*index.PaperError](err)
		if !ok || pe.ID != bad.ID || !schemas.Permanent(err) {
			t.Errorf("%s: %v", name, err)
		}
		if v := version(t, x); v != before {
			t.Errorf("%s: the index has changed", name)
		}
	}
}

func TestTheLargestPaperSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	x := open(t, embedded.Options{Ranking: index.TFIDF, Dir: dir})
	put(t, x, paper("1", strings.Repeat("\x01", index.MaxPaperBytes-200))) // JSON writes each as six bytes
	v := version(t, x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got := version(t, open(t, embedded.Options{Ranking: index.TFIDF, Dir: dir})); got != v {
		t.Errorf("version %s, want %s", got, v)
	}
}

func TestPapersKeepAllFieldsAndNothingOfTheCaller(t *testing.T) {
	dir := t.TempDir()
	x := open(t, embedded.Options{Ranking: index.BM25, Dir: dir})
	p := schemas.Paper{ID: "a\x01\"<&\u2028", Title: "zinc \x00", Abstract: []string{" one ", ""}, Identifiers: map[string]string{"doi": "10/x"}, Date: "2020-03", URL: "u", Retracted: true}
	want, _ := json.Marshal(p)
	put(t, x, p)
	p.Abstract[0], p.Identifiers["doi"] = "changed", "changed"
	for range 2 {
		if got, _ := json.Marshal(search(t, x, 1, "zinc")[0].Paper); !bytes.Equal(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		x = open(t, embedded.Options{Ranking: index.BM25, Dir: dir})
	}
}

func TestTheLastOfDuplicatesInABatchCounts(t *testing.T) {
	x := open(t, embedded.Options{Ranking: index.BM25})
	put(t, x, paper("1", "zinc"), paper("2", "zinc"), paper("1", "copper"))
	if got := ids(search(t, x, 5, "zinc")) + ", " + ids(search(t, x, 5, "copper")); got != "2, 1" {
		t.Error(got)
	}
	remove(t, x, "1", "1")
	if got := ids(search(t, x, 5, "copper")); got != "" {
		t.Error(got)
	}
}

func TestARedeliveredBatchWritesNothing(t *testing.T) {
	dir := t.TempDir()
	x := open(t, embedded.Options{Ranking: index.BM25, Dir: dir})
	put(t, x, paper("1", "zinc"))
	size := logSize(t, dir)
	put(t, x, paper("1", "zinc"))
	remove(t, x, "unknown")
	if got := logSize(t, dir); got != size {
		t.Errorf("the log grew from %d to %d bytes", size, got)
	}
}

func logSize(tb testing.TB, dir string) int64 {
	tb.Helper()
	info, err := os.Stat(filepath.Join(dir, "papers.log"))
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

func TestACancelledContextChangesNothing(t *testing.T) {
	dir := t.TempDir()
	x := open(t, embedded.Options{Ranking: index.BM25, Dir: dir})
	put(t, x, paper("1", "zinc"))
	before := version(t, x)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Upsert(ctx, []schemas.Paper{paper("2", "zinc")}); !errors.Is(err, context.Canceled) {
		t.Errorf("Upsert: %v", err)
	}
	if err := x.Delete(ctx, []string{"1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: %v", err)
	}
	if _, err := x.Search(ctx, []string{"zinc"}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Search: %v", err)
	}
	if v := version(t, x); v != before {
		t.Error("the index has changed")
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Open(ctx, embedded.Options{Ranking: index.BM25, Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	open(t, embedded.Options{Ranking: index.BM25, Dir: dir}) // and the lock is free again
}

func TestAClosedIndexSaysSo(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		x := open(t, embedded.Options{Ranking: index.BM25, Dir: dir})
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		_, search := x.Search(t.Context(), []string{"zinc"}, 1)
		_, stats := x.Stats(t.Context())
		for _, err := range []error{search, stats, x.Upsert(t.Context(), nil), x.Delete(t.Context(), nil)} {
			if !errors.Is(err, embedded.ErrClosed) {
				t.Error(err)
			}
		}
	}
}

func TestUnknownRankingIsAnError(t *testing.T) {
	for _, r := range []index.Ranking{"", "best"} {
		if _, err := embedded.Open(t.Context(), embedded.Options{Ranking: r}); err == nil {
			t.Errorf("%q: no error", r)
		}
	}
}

// A search sees all of a batch or nothing of it, whatever goes on beside it.
func TestSearchesBesideChangesSeeWholeBatches(t *testing.T) {
	x := open(t, embedded.Options{Ranking: index.Reference, Dir: t.TempDir()})
	batch := func(word string) (papers []schemas.Paper) {
		for i := range 20 {
			papers = append(papers, paper(fmt.Sprint(i), "zinc "+word))
		}
		return papers
	}
	put(t, x, batch("copper")...)
	known := map[string]string{version(t, x): "copper"}
	put(t, x, batch("gold")...)
	known[version(t, x)] = "gold"

	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				result, err := x.Search(t.Context(), []string{"copper", "gold", "zinc"}, 50)
				if err != nil {
					t.Error(err)
					return
				}
				want := []int{0, 20, 20}
				if known[result.Version] == "copper" {
					want = []int{20, 0, 20}
				}
				var got []int
				for _, hits := range result.Hits {
					got = append(got, len(hits))
				}
				if known[result.Version] == "" || !slices.Equal(got, want) {
					t.Errorf("version %s (%s): hits %v", result.Version, known[result.Version], got)
					return
				}
			}
		})
	}
	for range 30 {
		put(t, x, batch("copper")...)
		put(t, x, batch("gold")...)
	}
	close(done)
	readers.Wait()
}
