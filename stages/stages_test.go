package stages

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/embedded"
	"github.com/verisci/verisci/models"
	"github.com/verisci/verisci/models/tokenizer"
	"github.com/verisci/verisci/schemas"
)

// counting counts the sequences that go through a batcher.
type counting struct {
	*Batcher
	sequences atomic.Int64
}

func (c *counting) Infer(ctx context.Context, seqs []tokenizer.Encoding) ([][]float32, error) {
	c.sequences.Add(int64(len(seqs)))
	return c.Batcher.Infer(ctx, seqs)
}

func openModel(t *testing.T, task models.Task) (*models.Model, *counting) {
	t.Helper()
	dir, err := models.FindBundle(string(task))
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.Open(dir, task, models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatcher(m, BatcherOptions{})
	t.Cleanup(func() { b.Close(); m.Close() })
	return m, &counting{Batcher: b}
}

func paper(id string, sentences ...string) schemas.Paper {
	return schemas.Paper{ID: id, Title: "On " + id, Abstract: sentences}
}

func work(text string, papers ...schemas.Paper) *Work {
	w := &Work{Claim: schemas.Claim{ID: "c", Text: text}}
	for i := range papers {
		w.Candidates = append(w.Candidates, Candidate{Paper: &papers[i], Rank: i + 1, Score: 1})
	}
	return w
}

func TestRationaleScoresEverySentenceAndListsThemBestFirst(t *testing.T) {
	m, infer := openModel(t, models.Rationale)
	r := &PairRationale{Model: m, Infer: infer, Threshold: 0}
	w := work("Smoking causes lung cancer.",
		paper("a", " The weather was mild. ", "", "Smoking caused lung cancer in this cohort.", "\n\t", "We thank the reviewers."),
		paper("b"))
	if err := r.Run(context.Background(), []*Work{w}); err != nil {
		t.Fatal(err)
	}
	got := w.Candidates[0].Rationale
	if len(got) != 3 || infer.sequences.Load() != 3 {
		t.Fatalf("%d sentences of 3 that are not blank: %+v", len(got), got)
	}
	for i, s := range got {
		if i > 0 && s.Score > got[i-1].Score {
			t.Errorf("not best first: %+v", got)
		}
		if s.Text != strings.TrimSpace(w.Candidates[0].Paper.Abstract[s.Index]) {
			t.Errorf("sentence %d has text %q", s.Index, s.Text)
		}
	}
	if len(w.Candidates[1].Rationale) != 0 {
		t.Errorf("an abstract without sentences has a rationale")
	}

	// The threshold keeps what reaches it, and a second run starts afresh.
	r.Threshold = float64(got[0].Score)
	if err := r.Run(context.Background(), []*Work{w}); err != nil {
		t.Fatal(err)
	}
	if kept := w.Candidates[0].Rationale; len(kept) != 1 || kept[0].Index != got[0].Index {
		t.Errorf("threshold %g keeps %+v", r.Threshold, kept)
	}
}

func TestALongSentenceHasTheScoreOfItsBestWindow(t *testing.T) {
	m, infer := openModel(t, models.Rationale)
	r := &PairRationale{Model: m, Infer: infer}
	long := strings.Repeat("the weather in the region was mild and dry ", 120) + "smoking caused lung cancer"
	w := work("Smoking causes lung cancer.", paper("a", long, "Short."))
	if err := r.Run(context.Background(), []*Work{w}); err != nil {
		t.Fatal(err)
	}
	windows, err := m.Windows(long, w.Claim.Text)
	if err != nil {
		t.Fatal(err)
	}
	logits, err := infer.Infer(context.Background(), windows)
	if err != nil {
		t.Fatal(err)
	}
	var best float32
	for _, l := range logits {
		best = max(best, models.Softmax(l)[m.LabelIndex(models.LabelRationale)])
	}
	if len(windows) < 2 {
		t.Fatalf("%d windows", len(windows))
	}
	for _, s := range w.Candidates[0].Rationale {
		if s.Index == 0 && math.Abs(float64(s.Score-best)) > 1e-3 {
			t.Errorf("score %g, best window %g", s.Score, best)
		}
	}
}

func TestAClaimTooLongForTheModelFailsAlone(t *testing.T) {
	m, infer := openModel(t, models.Rationale)
	r := &PairRationale{Model: m, Infer: infer}
	sentence := paper("a", "Smoking caused lung cancer in this cohort.")
	long, good := work(strings.Repeat("claim ", 600), sentence), work("Smoking causes lung cancer.", sentence)
	if err := r.Run(context.Background(), []*Work{long, good}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(long.Err, ErrClaimTooLong) {
		t.Errorf("the long claim's error: %v", long.Err)
	}
	if good.Err != nil || len(good.Candidates[0].Rationale) != 1 {
		t.Errorf("the other claim: %v, %+v", good.Err, good.Candidates[0])
	}
}

func TestNoRationaleIsNotEnoughInfoWithoutInference(t *testing.T) {
	m, infer := openModel(t, models.Label)
	l := &PairLabel{Model: m, Infer: infer}
	w := work("Smoking causes lung cancer.", paper("a", "One.", "Two."), paper("b", "Three."))
	w.Candidates[1].Rationale = []schemas.RationaleSentence{{Index: 0, Text: "Three.", Score: .9}}
	if err := l.Run(context.Background(), []*Work{w}); err != nil {
		t.Fatal(err)
	}
	if n := infer.sequences.Load(); n != 1 {
		t.Errorf("%d sequences inferred, want 1", n)
	}
	if c := w.Candidates[0]; c.Label != schemas.NotEnoughInfo || c.Probabilities.NotEnoughInfo != 1 {
		t.Errorf("no rationale: %+v", c)
	}
	p := w.Candidates[1].Probabilities
	if sum := p.Contradict + p.NotEnoughInfo + p.Support; math.Abs(float64(sum-1)) > 1e-5 {
		t.Errorf("probabilities sum to %g", sum)
	}
}

func TestTheLabelReadsTheRationaleInTheAbstractsOrder(t *testing.T) {
	got := inAbstractOrder([]schemas.RationaleSentence{{Index: 4, Text: "Last."}, {Index: 0, Text: "First."}, {Index: 2, Text: "Middle."}})
	if got != "First. Middle. Last." {
		t.Errorf("got %q", got)
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		contradict, nei, support float32
		threshold                float64
		want                     schemas.Label
	}{
		{.1, .2, .7, 0, schemas.Support},
		{.7, .2, .1, 0, schemas.Contradict},
		{.2, .6, .2, 0, schemas.NotEnoughInfo},
		{.3, .4, .4, 0, schemas.NotEnoughInfo}, // no evidence is claimed on a tie
		{.1, .35, .55, .6, schemas.NotEnoughInfo},
		{.1, .25, .65, .6, schemas.Support},
		{.4, .4, .2, 0, schemas.NotEnoughInfo},
		{0, .25, .75, .75, schemas.Support}, // the threshold itself is enough
	} {
		p := schemas.Probabilities{Contradict: c.contradict, NotEnoughInfo: c.nei, Support: c.support}
		if got := decide(p, c.threshold); got != c.want {
			t.Errorf("%+v at %g: %s, want %s", p, c.threshold, got, c.want)
		}
	}
}

func TestAggregate(t *testing.T) {
	candidate := func(rank int, label schemas.Label, p float32) Candidate {
		c := Candidate{Paper: &schemas.Paper{ID: string(rune('a' + rank))}, Rank: rank, Label: label, Probabilities: schemas.Probabilities{NotEnoughInfo: 1 - p}}
		switch label {
		case schemas.Support:
			c.Probabilities.Support = p
		case schemas.Contradict:
			c.Probabilities.Contradict = p
		default:
			c.Probabilities.NotEnoughInfo = p
		}
		return c
	}
	s, c, n := schemas.Support, schemas.Contradict, schemas.NotEnoughInfo
	for _, x := range []struct {
		name       string
		candidates []Candidate
		label      schemas.Label
		confidence float64
		counts     schemas.Counts
		ranks      []int // of the evidence, in order
	}{
		{"nothing retrieved", nil, n, 1, schemas.Counts{}, nil},
		{"nothing bears on it", []Candidate{candidate(1, n, .9), candidate(2, n, .6)}, n, .6, schemas.Counts{Retrieved: 2, NotEnoughInfo: 2}, nil},
		{"supported", []Candidate{candidate(1, s, .6), candidate(2, n, .9), candidate(3, s, .8)}, s, .8, schemas.Counts{Retrieved: 3, Support: 2, NotEnoughInfo: 1}, []int{3, 1}},
		{"contradicted", []Candidate{candidate(1, c, .7)}, c, .7, schemas.Counts{Retrieved: 1, Contradict: 1}, []int{1}},
		{"both, however weak one side", []Candidate{candidate(1, s, .99), candidate(2, s, .98), candidate(3, c, .51)}, schemas.Conflicting, .51, schemas.Counts{Retrieved: 3, Support: 2, Contradict: 1}, []int{1, 2, 3}},
		{"equal strength goes by rank", []Candidate{candidate(1, c, .75), candidate(2, s, .75)}, schemas.Conflicting, .75, schemas.Counts{Retrieved: 2, Support: 1, Contradict: 1}, []int{1, 2}},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := &Work{Claim: schemas.Claim{ID: "c"}, Candidates: x.candidates, IndexVersion: "v"}
			a := &Aggregate{Provenance: schemas.Provenance{K: 3}}
			if err := a.Run(context.Background(), []*Work{w}); err != nil {
				t.Fatal(err)
			}
			v := w.Verdict
			if v.Label != x.label || math.Abs(v.Confidence-x.confidence) > 1e-6 || v.Counts != x.counts {
				t.Errorf("%s %g %+v", v.Label, v.Confidence, v.Counts)
			}
			if v.Provenance.K != 3 || v.Provenance.IndexVersion != "v" {
				t.Errorf("provenance %+v", v.Provenance)
			}
			var ranks []int
			for _, e := range v.Evidence {
				ranks = append(ranks, e.RetrievalRank)
			}
			if len(ranks) != len(x.ranks) {
				t.Fatalf("evidence of ranks %v, want %v", ranks, x.ranks)
			}
			for i := range ranks {
				if ranks[i] != x.ranks[i] {
					t.Errorf("evidence of ranks %v, want %v", ranks, x.ranks)
				}
			}
		})
	}
}

// wholeAbstract is a rationale stage that reads an abstract at once and judges
// it as a whole: what the contract must carry without the others noticing.
type wholeAbstract struct{ relevant string }

func (wholeAbstract) Name() string { return "rationale" }

func (s wholeAbstract) Run(_ context.Context, batch []*Work) error {
	for _, w := range batch {
		for i := range w.Candidates {
			c := &w.Candidates[i]
			relevance := float32(.1)
			c.Rationale = nil
			if c.Paper.ID == s.relevant {
				relevance = .9
				c.Rationale = []schemas.RationaleSentence{{Index: 1, Text: c.Paper.Abstract[1], Score: .8}}
			}
			c.Relevance = &relevance
		}
	}
	return nil
}

func testIndex(t *testing.T) index.Index {
	t.Helper()
	x, err := embedded.Open(context.Background(), embedded.Options{Ranking: index.TFIDF})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	if err := x.Upsert(context.Background(), []schemas.Paper{
		paper("lungs", "We followed smokers for ten years.", "Smoking caused lung cancer."),
		paper("weather", "Smoking chimneys were counted.", "The weather was mild."),
	}); err != nil {
		t.Fatal(err)
	}
	return x
}

func TestAWholeAbstractRationaleStageFitsTheContract(t *testing.T) {
	m, infer := openModel(t, models.Label)
	p := &Pipeline{
		Retrieval: &Retrieval{Index: testIndex(t), K: 3},
		Rationale: wholeAbstract{"lungs"},
		Label:     &PairLabel{Model: m, Infer: infer},
		Aggregate: &Aggregate{},
	}
	w := &Work{Claim: schemas.Claim{ID: "c", Text: "Smoking causes lung cancer."}}
	if err := p.Verify(context.Background(), []*Work{w}); err != nil {
		t.Fatal(err)
	}
	if n := infer.sequences.Load(); n != 1 {
		t.Errorf("%d abstracts went to the label model, want the one with a rationale", n)
	}
	for _, e := range w.Verdict.Evidence {
		if e.PaperID != "lungs" || e.Relevance == nil || *e.Relevance != .9 {
			t.Errorf("evidence %+v", e)
		}
	}
	if w.Verdict.Counts.Retrieved != 2 || w.Verdict.Provenance.IndexVersion == "" {
		t.Errorf("verdict %+v", w.Verdict)
	}
}

// failing fails the batch, or one item of it.
type failing struct{ batch, item error }

func (failing) Name() string { return "failing" }
func (f failing) Run(_ context.Context, batch []*Work) error {
	if f.item != nil {
		batch[0].Err = f.item
	}
	return f.batch
}

// recording keeps the ids it was given.
type recording struct{ seen *[]string }

func (recording) Name() string { return "recording" }
func (r recording) Run(_ context.Context, batch []*Work) error {
	for _, w := range batch {
		*r.seen = append(*r.seen, w.Claim.ID)
	}
	return nil
}

func TestAnItemsErrorIsItsOwnAndABatchErrorIsAll(t *testing.T) {
	var seen []string
	rest := recording{&seen}
	bad := errors.New("bad item")
	batch := []*Work{{Claim: schemas.Claim{ID: "1"}}, {Claim: schemas.Claim{ID: "2"}}}
	p := &Pipeline{Retrieval: failing{item: bad}, Rationale: rest, Label: rest, Aggregate: rest}
	if err := p.Verify(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(batch[0].Err, bad) || batch[1].Err != nil || strings.Join(seen, "") != "222" {
		t.Errorf("errors %v and %v, later stages saw %v", batch[0].Err, batch[1].Err, seen)
	}

	seen = nil
	down := errors.New("index down")
	p.Retrieval = failing{batch: down}
	if err := p.Verify(context.Background(), batch); !errors.Is(err, down) || len(seen) != 0 {
		t.Errorf("got %v, later stages saw %v", err, seen)
	}

	// The same batch again, once what failed is well.
	p.Retrieval = rest
	if err := p.Verify(context.Background(), batch); err != nil || batch[0].Err != nil {
		t.Errorf("again: %v, %v", err, batch[0].Err)
	}
}

// broken gives logits that are no numbers.
type broken struct{}

func (broken) Infer(_ context.Context, seqs []tokenizer.Encoding) ([][]float32, error) {
	out := make([][]float32, len(seqs))
	for i := range out {
		out[i] = []float32{0, float32(math.NaN()), 0}
	}
	return out, nil
}

func TestLogitsThatAreNoNumbersAreTheItemsError(t *testing.T) {
	rationale, _ := openModel(t, models.Rationale)
	label, _ := openModel(t, models.Label)
	w := work("Smoking causes lung cancer.", paper("a", "Smoking caused lung cancer."))
	if err := (&PairRationale{Model: rationale, Infer: broken{}}).Run(context.Background(), []*Work{w}); err != nil || !errors.Is(w.Err, ErrNotFinite) {
		t.Errorf("rationale: %v, %v", err, w.Err)
	}
	w.Err = nil
	w.Candidates[0].Rationale = []schemas.RationaleSentence{{Text: "Smoking caused lung cancer.", Score: 1}}
	if err := (&PairLabel{Model: label, Infer: broken{}}).Run(context.Background(), []*Work{w}); err != nil || !errors.Is(w.Err, ErrNotFinite) {
		t.Errorf("label: %v, %v", err, w.Err)
	}
}
