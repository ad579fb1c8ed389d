package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/embedded"
	"github.com/verisci/verisci/index/papers"
	"github.com/verisci/verisci/schemas"
)

// ranked is a searcher that knows the papers for each query in advance.
type ranked struct {
	papers  map[string][]string // by query
	version string
	largest int // batch seen
}

func (r *ranked) Search(_ context.Context, queries []string, k int) (index.Result, error) {
	r.largest = max(r.largest, len(queries))
	result := index.Result{Version: r.version}
	for _, q := range queries {
		var hits []index.Hit
		for i, id := range r.papers[q] {
			if i < k {
				hits = append(hits, index.Hit{Paper: &schemas.Paper{ID: id}, Score: 1 / float64(i+1)})
			}
		}
		result.Hits = append(result.Hits, hits)
	}
	return result, nil
}

type searchFunc func(queries []string, k int) (index.Result, error)

func (f searchFunc) Search(_ context.Context, queries []string, k int) (index.Result, error) {
	return f(queries, k)
}

func TestEvaluateRetrievalCountsEvidenceWithinEachCutoff(t *testing.T) {
	long := make([]string, 30) // evidence at rank 20 and, past the last cutoff, at 21
	for i := range long {
		long[i] = fmt.Sprint(1000 + i)
	}
	claims := []Claim{
		{ID: 1, Text: "first and fourth", Evidence: []Gold{{PaperID: "1"}, {PaperID: "4"}}},
		{ID: 2, Text: "deep", Evidence: []Gold{{PaperID: "1019"}, {PaperID: "1020"}}},
		{ID: 3, Text: "nothing found", Evidence: []Gold{{PaperID: "1"}}},
		{ID: 4, Text: "nothing to find"},
	}
	s := &ranked{version: "v1", papers: map[string][]string{
		"first and fourth": {"1", "2", "3", "4"},
		"deep":             long,
		"nothing to find":  {"1"},
	}}
	got, err := EvaluateRetrieval(context.Background(), s, claims)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"recall":{"1":0.2,"3":0.2,"5":0.4,"10":0.4,"20":0.6},` +
		`"hit_one":{"1":0.5,"3":0.5,"5":0.5,"10":0.5,"20":0.75},` +
		`"hit_all":{"1":0.25,"3":0.25,"5":0.5,"10":0.5,"20":0.5},` +
		`"claims":4,"pairs":5,"index_version":"v1"}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}

	var back RetrievalReport
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if v, ok := back.Recall.At(20); v != 0.6 || !ok {
		t.Errorf("recall at 20 is %v, %v after a round trip, want 0.6", v, ok)
	}
	if _, ok := back.Recall.At(7); ok {
		t.Error("recall at 7 was never measured")
	}
}

// The reference ranking is the SciFact paper's, so its published recall must come out.
func TestEvaluateRetrievalGivesThePublishedRecallOnSciFactDev(t *testing.T) {
	claims := loadSciFact(t, "claims_dev.jsonl")
	x, err := embedded.Open(t.Context(), embedded.Options{Ranking: index.Reference})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	corpus := filepath.Join(os.Getenv("VERISCI_DATA"), "scifact", "corpus.jsonl")
	err = papers.Load(t.Context(), []string{corpus}, papers.Options{}, func(batch []schemas.Paper) error {
		return x.Upsert(t.Context(), batch)
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := EvaluateRetrieval(t.Context(), x, claims)
	if err != nil {
		t.Fatal(err)
	}
	if got.Claims != 300 || got.Pairs != 209 || got.IndexVersion == "" {
		t.Errorf("%d claims, %d pairs, index version %q, want 300, 209 and some version", got.Claims, got.Pairs, got.IndexVersion)
	}
	for k, want := range map[int]float64{1: .5359, 3: .6938, 5: .7560, 10: .8373, 20: .8947} {
		if v, ok := got.Recall.At(k); !ok || math.Abs(v-want) > 5e-5 {
			t.Errorf("recall at %d is %.4f, want %.4f", k, v, want)
		}
	}
}

func TestEvaluateRetrievalSearchesInBoundedBatches(t *testing.T) {
	s := &ranked{papers: map[string][]string{}}
	var claims []Claim
	for i := range 3*searchBatch + 1 {
		q := fmt.Sprintf("claim %d", i)
		claims = append(claims, Claim{ID: i, Text: q, Evidence: []Gold{{PaperID: fmt.Sprint(i)}}})
		s.papers[q] = []string{fmt.Sprint(i)}
	}
	got, err := EvaluateRetrieval(context.Background(), s, claims)
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := got.Recall.At(1); v != 1 || got.Pairs != len(claims) {
		t.Errorf("recall at 1 is %v over %d pairs, want 1 over %d", v, got.Pairs, len(claims))
	}
	if s.largest != searchBatch {
		t.Errorf("largest batch was %d queries, want %d", s.largest, searchBatch)
	}
}

func TestEvaluateRetrievalReportsWhatMakesNumbersMeaningless(t *testing.T) {
	gold := func(n int) (claims []Claim) {
		for i := range n {
			claims = append(claims, Claim{ID: i, Text: "q", Evidence: []Gold{{PaperID: "1"}}})
		}
		return claims
	}
	down := errors.New("connection refused")
	calls := 0
	cases := []struct {
		name   string
		claims []Claim
		search searchFunc
		want   string
	}{
		{"no claims", nil, func([]string, int) (index.Result, error) { return index.Result{}, nil }, "no evidence to retrieve"},
		{"no evidence", []Claim{{ID: 1, Text: "q"}}, func([]string, int) (index.Result, error) { return index.Result{Hits: make([][]index.Hit, 1)}, nil }, "no evidence to retrieve"},
		{"unlabelled claim", append(gold(1), Claim{ID: 1, Text: "q", Unlabelled: true}), nil, "claim 1 has no gold evidence"},
		{"search fails", gold(1), func([]string, int) (index.Result, error) { return index.Result{}, down }, "connection refused"},
		{"lists missing", gold(2), func([]string, int) (index.Result, error) { return index.Result{Hits: make([][]index.Hit, 1)}, nil }, "2 queries got 1 lists"},
		{"index changes", gold(searchBatch + 1), func(q []string, _ int) (index.Result, error) {
			calls++
			return index.Result{Hits: make([][]index.Hit, len(q)), Version: fmt.Sprint("v", calls)}, nil
		}, "index changed from v1 to v2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := EvaluateRetrieval(context.Background(), c.search, c.claims)
			wantError(t, err, "eval: ", c.want)
		})
	}
}

func TestAtKRefusesKeysThatAreNoNumbers(t *testing.T) {
	for in, want := range map[string]string{
		`{"ten": 0.5}`:         `"ten" is not a number`,
		`{"1": "x"}`:           "cannot unmarshal string",
		`{"1": 0.1, "1": 0.2}`: `"1" appears twice`,
		`[0.1]`:                "want a JSON object",
	} {
		var a AtK
		wantError(t, json.Unmarshal([]byte(in), &a), want)
	}
}

func TestPipelineReportHasTheDocumentedKeys(t *testing.T) {
	r := NewPipelineReport(Metrics{SentenceSelection: Score{50, 25, 100. / 3}}, 300, 2*time.Minute)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"sentence_selection":{"p":50,"r":25,"f1":33.333333333333336},` +
		`"sentence_label":{"p":0,"r":0,"f1":0},"abstract_label":{"p":0,"r":0,"f1":0},"abstract_rationale":{"p":0,"r":0,"f1":0},` +
		`"claims":300,"claims_per_second":2.5,"inference_share":0}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}

	r = NewPipelineReport(Metrics{}, 300, 0)
	if r.ClaimsPerSecond != 0 {
		t.Errorf("%v claims a second in no time", r.ClaimsPerSecond)
	}
}
