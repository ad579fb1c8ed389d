package stages

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/verisci/verisci/schemas"
)

// Aggregate makes one verdict of a claim's labelled abstracts.
//
// The rule: every abstract labelled SUPPORT or CONTRADICT is evidence. Evidence
// of one kind alone gives the verdict that label, with the probability of its
// strongest abstract as confidence. Evidence of both kinds is CONFLICTING, with
// the strongest probability of the weaker side as confidence: nothing is
// averaged away, and both sides are listed. Without evidence the verdict is
// NOT_ENOUGH_INFO, with the least probability of that label over the abstracts
// as confidence (1 where nothing was retrieved). Evidence is listed by the
// probability of its label, then by retrieval rank.
type Aggregate struct {
	Provenance schemas.Provenance // what is the same for every claim; the index version is added
}

func (a *Aggregate) Name() string { return "aggregate" }

func (a *Aggregate) Run(_ context.Context, batch []*Work) error {
	for _, w := range batch {
		w.Verdict = a.verdict(w)
	}
	return nil
}

func (a *Aggregate) verdict(w *Work) schemas.Verdict {
	v := schemas.Verdict{
		ClaimID: w.Claim.ID, Claim: w.Claim.Text,
		Counts:     schemas.Counts{Retrieved: len(w.Candidates)},
		Evidence:   []schemas.Evidence{},
		Provenance: a.Provenance,
		Times: schemas.Times{
			Created: w.Claim.Created, Received: w.Received,
			RetrievalMs: milliseconds(w.Spent.Retrieval),
			RationaleMs: milliseconds(w.Spent.Rationale),
			LabelMs:     milliseconds(w.Spent.Label),
		},
	}
	v.Provenance.IndexVersion = w.IndexVersion
	var support, contradict float32
	nothing := float32(1)
	for i := range w.Candidates {
		c := &w.Candidates[i]
		nothing = min(nothing, c.Probabilities.NotEnoughInfo)
		switch c.Label {
		case schemas.Support:
			v.Counts.Support++
			support = max(support, c.Probabilities.Support)
		case schemas.Contradict:
			v.Counts.Contradict++
			contradict = max(contradict, c.Probabilities.Contradict)
		default:
			v.Counts.NotEnoughInfo++
			continue
		}
		v.Evidence = append(v.Evidence, schemas.Evidence{
			PaperID: c.Paper.ID, Title: c.Paper.Title, URL: c.Paper.URL,
			Label: c.Label, Probabilities: c.Probabilities, Rationale: c.Rationale,
			RetrievalRank: c.Rank, RetrievalScore: c.Score, Relevance: c.Relevance,
		})
	}
	slices.SortStableFunc(v.Evidence, func(x, y schemas.Evidence) int {
		return cmp.Or(cmp.Compare(strength(y), strength(x)), cmp.Compare(x.RetrievalRank, y.RetrievalRank))
	})
	switch {
	case v.Counts.Support > 0 && v.Counts.Contradict > 0:
		v.Label, v.Confidence = schemas.Conflicting, float64(min(support, contradict))
	case v.Counts.Support > 0:
		v.Label, v.Confidence = schemas.Support, float64(support)
	case v.Counts.Contradict > 0:
		v.Label, v.Confidence = schemas.Contradict, float64(contradict)
	default:
		v.Label, v.Confidence = schemas.NotEnoughInfo, float64(nothing)
	}
	return v
}

// strength is the probability of the label an abstract was given.
func strength(e schemas.Evidence) float32 {
	if e.Label == schemas.Support {
		return e.Probabilities.Support
	}
	return e.Probabilities.Contradict
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
