package embedded_test

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/embedded"
	"github.com/verisci/verisci/index/papers"
	"github.com/verisci/verisci/schemas"
)

type scifactClaim struct {
	Claim    string                     `json:"claim"`
	Evidence map[string]json.RawMessage `json:"evidence"`
}

// scifact reads SciFact's corpus and dev claims, or skips where there is no data.
func scifact(tb testing.TB) ([]schemas.Paper, []scifactClaim) {
	tb.Helper()
	data := os.Getenv("VERISCI_DATA")
	if data == "" {
		tb.Skip("VERISCI_DATA is not set: it names the folder that holds scifact/")
	}
	var corpus []schemas.Paper
	err := papers.Load(tb.Context(), []string{filepath.Join(data, "scifact", "corpus.jsonl")}, papers.Options{}, func(batch []schemas.Paper) error {
		corpus = append(corpus, batch...)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	f, err := os.Open(filepath.Join(data, "scifact", "claims_dev.jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var claims []scifactClaim
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c scifactClaim
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			tb.Fatal(err)
		}
		claims = append(claims, c)
	}
	if len(corpus) != 5183 || len(claims) != 300 {
		tb.Fatalf("%d papers and %d claims, want 5183 and 300", len(corpus), len(claims))
	}
	return corpus, claims
}

func texts(claims []scifactClaim) []string {
	var t []string
	for _, c := range claims {
		t = append(t, c.Claim)
	}
	return t
}

// Recall of the 209 evidence abstracts of the dev claims at 1, 3, 5, 10 and 20
// hits. Those of Reference are scikit-learn's own; the others have floors.
func TestRecallOnSciFact(t *testing.T) {
	corpus, claims := scifact(t)
	cutoffs := []int{1, 3, 5, 10, 20}
	for _, test := range []struct {
		ranking index.Ranking
		exact   []float64
		floor   map[int]float64
	}{
		{ranking: index.Reference, exact: []float64{.5359, .6938, .7560, .8373, .8947}},
		{ranking: index.TFIDF, floor: map[int]float64{3: .775, 20: .92}},
		{ranking: index.BM25, floor: map[int]float64{3: .795}},
	} {
		t.Run(string(test.ranking), func(t *testing.T) {
			x := open(t, embedded.Options{Ranking: test.ranking})
			if err := x.Upsert(t.Context(), corpus); err != nil {
				t.Fatal(err)
			}
			result, err := x.Search(t.Context(), texts(claims), 20)
			if err != nil {
				t.Fatal(err)
			}
			for i, k := range cutoffs {
				found, all := 0, 0
				for q, c := range claims {
					all += len(c.Evidence)
					for _, hit := range result.Hits[q][:min(k, len(result.Hits[q]))] {
						if _, ok := c.Evidence[hit.Paper.ID]; ok {
							found++
						}
					}
				}
				recall := math.Round(float64(found)/float64(all)*1e4) / 1e4
				t.Logf("R@%d %.4f (%d of %d)", k, recall, found, all)
				if test.exact != nil && recall != test.exact[i] {
					t.Errorf("R@%d is %.4f, want %.4f", k, recall, test.exact[i])
				}
				if recall < test.floor[k] {
					t.Errorf("R@%d is %.4f, want at least %.4f", k, recall, test.floor[k])
				}
			}
		})
	}
}

var rankings = []index.Ranking{index.Reference, index.TFIDF, index.BM25}

// BenchmarkSearch searches the 300 dev claims in one batch.
func BenchmarkSearch(b *testing.B) {
	corpus, claims := scifact(b)
	for _, r := range rankings {
		b.Run(string(r), func(b *testing.B) {
			x := open(b, embedded.Options{Ranking: r})
			if err := x.Upsert(b.Context(), corpus); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := x.Search(b.Context(), texts(claims), 20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpsert adds the 5,183 papers to an empty index on disk, in batches of 1000.
func BenchmarkUpsert(b *testing.B) {
	corpus, _ := scifact(b)
	for _, r := range rankings {
		b.Run(string(r), func(b *testing.B) {
			for b.Loop() {
				x := open(b, embedded.Options{Ranking: r, Dir: b.TempDir()})
				for from := 0; from < len(corpus); from += 1000 {
					if err := x.Upsert(b.Context(), corpus[from:min(from+1000, len(corpus))]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkUpdate replaces 100 of the 5,183 papers on disk, then searches once:
// with Reference, the first search after a change computes all norms again.
func BenchmarkUpdate(b *testing.B) {
	corpus, claims := scifact(b)
	for _, r := range rankings {
		b.Run(string(r), func(b *testing.B) {
			x := open(b, embedded.Options{Ranking: r, Dir: b.TempDir()})
			if err := x.Upsert(b.Context(), corpus); err != nil {
				b.Fatal(err)
			}
			batch := slices.Clone(corpus[:100])
			for b.Loop() {
				for i := range batch {
					batch[i].Retracted = !batch[i].Retracted
				}
				if err := x.Upsert(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				if _, err := x.Search(b.Context(), texts(claims[:1]), 20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen replays a log of the 5,183 papers, and reports what the open
// index holds in memory and on disk.
func BenchmarkOpen(b *testing.B) {
	corpus, _ := scifact(b)
	for _, r := range rankings {
		b.Run(string(r), func(b *testing.B) {
			dir := b.TempDir()
			x := open(b, embedded.Options{Ranking: r, Dir: dir})
			if err := x.Upsert(b.Context(), corpus); err != nil {
				b.Fatal(err)
			}
			if err := x.Close(); err != nil {
				b.Fatal(err)
			}
			before := heap()
			for b.Loop() {
				if err := x.Close(); err != nil {
					b.Fatal(err)
				}
				x = open(b, embedded.Options{Ranking: r, Dir: dir})
			}
			info, err := os.Stat(filepath.Join(dir, "papers.log"))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric((heap()-before)/1e6, "heap-MB")
			b.ReportMetric(float64(info.Size())/1e6, "log-MB")
			runtime.KeepAlive(x)
		})
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
