package eval

import (
	"fmt"
	"slices"

	"github.com/verisci/verisci/schemas"
)

// rationaleCap is how many of an abstract's listed sentences may cover a gold
// rationale at the abstract level: the paper's three. A rationale of more
// sentences can never be covered by this rule; the leaderboard's evaluator caps
// at max(3, size of the shortest gold rationale), which differs only there.
const rationaleCap = 3

// Score is micro-averaged precision, recall and F1, in percent, 0 to 100. A
// ratio over nothing is 0.
type Score struct {
	P  float64 `json:"p"`
	R  float64 `json:"r"`
	F1 float64 `json:"f1"`
}

// Metrics are the four figures of the SciFact paper (section 5). Predicted are
// the abstracts not labelled NotEnoughInfo and their sentences; wanted are the
// gold evidence abstracts and all sentences of their rationales.
type Metrics struct {
	// SentenceSelection counts a predicted sentence as right when some gold
	// rationale holds it and that whole rationale is predicted.
	SentenceSelection Score `json:"sentence_selection"`
	// SentenceLabel also asks for the right label of the abstract.
	SentenceLabel Score `json:"sentence_label"`
	// AbstractLabel counts a predicted abstract as right when it is gold and
	// has the gold label.
	AbstractLabel Score `json:"abstract_label"`
	// AbstractRationale also asks that the first three predicted sentences
	// cover a whole gold rationale.
	AbstractRationale Score `json:"abstract_rationale"`
}

// Evaluate scores predictions against labelled claims. A claim without a
// prediction counts as missed. Predictions for unknown claims, two for one
// claim, and unlabelled claims are errors.
func Evaluate(claims []Claim, predictions []Prediction) (Metrics, error) {
	known, err := labelledIDs(claims)
	if err != nil {
		return Metrics{}, fmt.Errorf("eval: %w", err)
	}
	predicted, err := byClaim(predictions)
	if err != nil {
		return Metrics{}, fmt.Errorf("eval: %w", err)
	}
	for _, p := range predictions {
		if !known[p.ClaimID] {
			return Metrics{}, fmt.Errorf("eval: claim %d is predicted but not in the claims: check that both files are of one split", p.ClaimID)
		}
	}
	var sum tally
	for _, c := range claims {
		sum.add(tallyClaim(c, predicted[c.ID]))
	}
	return sum.metrics(), nil
}

// tally holds the counts behind Metrics. Tallies of claims add up, so a resample
// of claims is scored by adding theirs.
type tally struct {
	sentences, abstracts struct{ predicted, wanted int }

	selected         int // sentences right by selection
	selectedLabelled int // and by label
	labelled         int // abstracts right by label
	rationalised     int // and by rationale
}

func (t *tally) add(u tally) {
	t.sentences.predicted += u.sentences.predicted
	t.sentences.wanted += u.sentences.wanted
	t.abstracts.predicted += u.abstracts.predicted
	t.abstracts.wanted += u.abstracts.wanted
	t.selected += u.selected
	t.selectedLabelled += u.selectedLabelled
	t.labelled += u.labelled
	t.rationalised += u.rationalised
}

func (t tally) metrics() Metrics {
	return Metrics{
		SentenceSelection: score(t.selected, t.sentences.predicted, t.sentences.wanted),
		SentenceLabel:     score(t.selectedLabelled, t.sentences.predicted, t.sentences.wanted),
		AbstractLabel:     score(t.labelled, t.abstracts.predicted, t.abstracts.wanted),
		AbstractRationale: score(t.rationalised, t.abstracts.predicted, t.abstracts.wanted),
	}
}

func score(right, predicted, wanted int) Score {
	percent := func(n, of int) float64 {
		if of == 0 {
			return 0
		}
		return 100 * float64(n) / float64(of)
	}
	// 2·right/(predicted+wanted) is the harmonic mean of precision and recall.
	return Score{P: percent(right, predicted), R: percent(right, wanted), F1: percent(2*right, predicted+wanted)}
}

func tallyClaim(c Claim, p Prediction) tally {
	var t tally
	for _, g := range c.Evidence {
		t.abstracts.wanted++
		t.sentences.wanted += len(g.sentences())
	}
	for _, f := range p.Evidence {
		if f.Label == schemas.NotEnoughInfo {
			continue
		}
		g, isGold := c.gold(f.PaperID)
		right := g.selected(f.Sentences)
		t.abstracts.predicted++
		t.sentences.predicted += len(f.Sentences)
		t.selected += right
		if !isGold || f.Label != g.Label {
			continue
		}
		t.selectedLabelled += right
		t.labelled++
		if g.covered(f.Sentences[:min(rationaleCap, len(f.Sentences))]) {
			t.rationalised++
		}
	}
	return t
}

// sentences are those of all rationales, each once.
func (g Gold) sentences() []int {
	all := slices.Concat(g.Rationales...)
	slices.Sort(all)
	return slices.Compact(all)
}

// selected counts the predicted sentences that stand in a rationale predicted whole.
func (g Gold) selected(predicted []int) int {
	n := 0
	for _, s := range predicted {
		if slices.ContainsFunc(g.Rationales, func(set []int) bool {
			return slices.Contains(set, s) && contains(predicted, set)
		}) {
			n++
		}
	}
	return n
}

// covered says whether some whole rationale is among the sentences.
func (g Gold) covered(sentences []int) bool {
	return slices.ContainsFunc(g.Rationales, func(set []int) bool { return contains(sentences, set) })
}

func contains(all, subset []int) bool {
	return !slices.ContainsFunc(subset, func(s int) bool { return !slices.Contains(all, s) })
}
