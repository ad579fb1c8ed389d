package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/embedded"
	"github.com/verisci/verisci/schemas"
)

func load(t *testing.T) ([]schemas.Paper, []Claim) {
	t.Helper()
	papers, err := Papers()
	if err != nil {
		t.Fatal(err)
	}
	claims, err := Claims()
	if err != nil {
		t.Fatal(err)
	}
	return papers, claims
}

func TestPapersAreValidAndNumbered(t *testing.T) {
	papers, _ := load(t)
	if len(papers) != 44 {
		t.Errorf("%d papers, want 44", len(papers))
	}
	titles, sentences := map[string]string{}, map[string]string{}
	for i, p := range papers {
		if want := fmt.Sprintf("demo-%03d", i+1); p.ID != want {
			t.Errorf("paper %d has id %q, want %q", i+1, p.ID, want)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", p.ID, err)
		}
		if p.Title == "" || p.Title != strings.TrimSpace(p.Title) {
			t.Errorf("%s: title %q is empty or padded", p.ID, p.Title)
		}
		if other, ok := titles[p.Title]; ok {
			t.Errorf("%s and %s have one title", other, p.ID)
		}
		titles[p.Title] = p.ID
		if n := len(p.Abstract); n < 4 || n > 7 {
			t.Errorf("%s: %d sentences, want 4 to 7", p.ID, n)
		}
		for j, s := range p.Abstract {
			if s != strings.TrimSpace(s) || !strings.HasSuffix(s, ".") || len(strings.Fields(s)) < 4 {
				t.Errorf("%s: sentence %d is not a trimmed sentence: %q", p.ID, j, s)
			}
			if other, ok := sentences[s]; ok {
				t.Errorf("%s and %s share a sentence: %q", other, p.ID, s)
			}
			sentences[s] = p.ID
		}
	}
}

// The summaries must not pass for publications.
func TestPapersCarryNothingThatCouldBeCited(t *testing.T) {
	papers, _ := load(t)
	for _, p := range papers {
		if len(p.Identifiers) > 0 || p.URL != "" || p.Date != "" {
			t.Errorf("%s has an identifier, an address or a date", p.ID)
		}
	}
}

func TestClaimsAreValidAndPointToPapers(t *testing.T) {
	papers, claims := load(t)
	byID := map[string]schemas.Paper{}
	for _, p := range papers {
		byID[p.ID] = p
	}
	labels := map[schemas.Label]int{}
	texts := map[string]bool{}
	for i, c := range claims {
		if want := fmt.Sprintf("demo-claim-%02d", i+1); c.ID != want {
			t.Errorf("claim %d has id %q, want %q", i+1, c.ID, want)
		}
		if err := c.Validate(0); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
		if texts[c.Text] {
			t.Errorf("%s repeats %q", c.ID, c.Text)
		}
		texts[c.Text] = true
		labels[c.Expected]++
		if (c.Expected == schemas.NotEnoughInfo) != (len(c.PaperIDs) == 0) {
			t.Errorf("%s: expected %s with papers %v", c.ID, c.Expected, c.PaperIDs)
		}
		for j, id := range c.PaperIDs {
			paper, ok := byID[id]
			if !ok || slices.Contains(c.PaperIDs[:j], id) {
				t.Errorf("%s: paper %s is missing or named twice", c.ID, id)
			}
			if slices.Contains(paper.Abstract, c.Text) {
				t.Errorf("%s is copied from %s", c.ID, id)
			}
		}
	}
	want := map[schemas.Label]int{schemas.Support: 7, schemas.Contradict: 5, schemas.NotEnoughInfo: 3}
	if len(claims) != 15 || fmt.Sprint(labels) != fmt.Sprint(want) {
		t.Errorf("%d claims with labels %v, want 15 with %v", len(claims), labels, want)
	}
}

// What the claims are about must come first, or the demo shows nothing.
func TestClaimsFindTheirPapersFirst(t *testing.T) {
	papers, claims := load(t)
	var queries []string
	for _, c := range claims {
		queries = append(queries, c.Text)
	}
	for _, ranking := range []index.Ranking{index.Reference, index.TFIDF, index.BM25} {
		x, err := embedded.Open(t.Context(), embedded.Options{Ranking: ranking})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if err := x.Upsert(t.Context(), papers); err != nil {
			t.Fatal(err)
		}
		result, err := x.Search(t.Context(), queries, 10)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range claims {
			var found []string
			for _, h := range result.Hits[i] {
				found = append(found, h.Paper.ID)
			}
			top := slices.Sorted(slices.Values(found[:min(len(c.PaperIDs), len(found))]))
			if !slices.Equal(top, c.PaperIDs) {
				t.Errorf("%s: %s finds %v, want %v first", ranking, c.Text, found, c.PaperIDs)
			}
		}
	}
}

func TestDecodeNamesTheBrokenRecord(t *testing.T) {
	for name, file := range map[string]string{
		"torn":          `{"id": "demo-001", "title": "a", "abstract": ["b."]}` + "\n" + `{"id": "demo-002", "ti`,
		"unknown field": `{"id": "demo-001", "title": "a", "abstract": ["b."]}` + "\n" + `{"doc_id": 2}`,
	} {
		_, err := decode[schemas.Paper]([]byte(file), "papers.jsonl")
		if err == nil || !strings.HasPrefix(err.Error(), "demo: papers.jsonl: record 2: ") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestCallersGetTheirOwnCopies(t *testing.T) {
	first, _ := load(t)
	first[0].Abstract[0] = "changed"
	again, _ := load(t)
	if again[0].Abstract[0] == "changed" {
		t.Error("a caller's change reached the next caller")
	}
}
