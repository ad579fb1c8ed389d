package analysis_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/analysis"
	"github.com/verisci/verisci/schemas"
)

func analyzer(tb testing.TB, r index.Ranking) analysis.Analyzer {
	tb.Helper()
	a, err := analysis.New(r)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func TestReferenceTermsAreThoseOfScikitLearn(t *testing.T) {
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Papers     []schemas.Paper `json:"papers"`
		PaperTerms [][]string      `json:"paper_terms"`
		Queries    []string        `json:"queries"`
		QueryTerms [][]string      `json:"query_terms"`
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	a := analyzer(t, index.Reference)
	for i, p := range want.Papers {
		if got := a.Paper(&p); !slices.Equal(got, want.PaperTerms[i]) {
			t.Errorf("paper %s:\n got %q\nwant %q", p.ID, got, want.PaperTerms[i])
		}
	}
	for i, q := range want.Queries {
		if got := a.Query(q); !slices.Equal(got, want.QueryTerms[i]) {
			t.Errorf("query %q:\n got %q\nwant %q", q, got, want.QueryTerms[i])
		}
	}
}

func TestEnglishTerms(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "",
		"The of and to":                         "",
		"Patients' outcomes, the patient's":     "patient outcom patient",
		"ponies relational conditional":         "poni relat condit", // Porter 1980
		"vitamin D, T-cells":                    "vitamin d t cell",
		"don't don’t 'quoted' ''' ’s":           "don't don't quot s",
		"1,200 IL-1β x²":                        "1 200 il 1β x²",
		"Öl O\u0308l":                           "öl o\u0308l",
		"bad\xffutf8 \xc3":                      "bad utf8",
		"ΟΔΟΣ 東京":                               "οδοσ 東京",
		strings.Repeat("a", 1<<20) + " running": strings.Repeat("a", 1<<20) + " run",
	} {
		for _, r := range []index.Ranking{index.TFIDF, index.BM25} {
			if got := strings.Join(analyzer(t, r).Query(text), " "); got != want {
				t.Errorf("%s of %.40q: got %.80q, want %.80q", r, text, got, want)
			}
		}
	}
}

func TestOnlyReferenceFusesTheTitleWithTheFirstSentence(t *testing.T) {
	p := &schemas.Paper{Title: "zinc", Abstract: []string{"copper", "gold"}}
	if got := analyzer(t, index.Reference).Paper(p); !slices.Equal(got, []string{"zinccopper", "gold", "zinccopper gold"}) {
		t.Errorf("reference: %q", got)
	}
	if got := analyzer(t, index.BM25).Paper(p); !slices.Equal(got, []string{"zinc", "copper", "gold"}) {
		t.Errorf("bm25: %q", got)
	}
}

func TestUnknownRankingIsAnError(t *testing.T) {
	if _, err := analysis.New("best"); err == nil {
		t.Error("no error")
	}
}

// No input may panic, and analysis of the joined text is analysis of the paper.
func FuzzAnalyzers(f *testing.F) {
	f.Add("Vitamin D's İΣ effect")
	f.Add("\xff'’'s\u0300")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range []index.Ranking{index.Reference, index.BM25} {
			a := analyzer(t, r)
			for _, term := range a.Query(text) {
				if term == "" {
					t.Errorf("%s: empty term", r)
				}
			}
			if !slices.Equal(a.Query(text), a.Paper(&schemas.Paper{Abstract: []string{text}})) {
				t.Errorf("%s: the paper has other terms than the query", r)
			}
		}
	})
}

func BenchmarkQuery(b *testing.B) {
	for _, r := range []index.Ranking{index.Reference, index.BM25} {
		b.Run(string(r), func(b *testing.B) {
			a := analyzer(b, r)
			for b.Loop() {
				a.Query("Deregulation of adaptive immune responses by 1,25-dihydroxyvitamin D raises the patients' mortality.")
			}
		})
	}
}
