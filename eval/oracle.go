package eval

import (
	"context"
	"fmt"
	"strconv"

	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

// Oracle is the retrieval stage of the paper's oracle setting: each claim gets
// its gold evidence abstracts, in the order of the file, and a claim without
// evidence gets none.
type Oracle struct {
	papers map[string][]*schemas.Paper // by claim id
}

// NewOracle finds the gold abstracts of all claims among papers; one that is missing is an error.
func NewOracle(claims []Claim, papers []schemas.Paper) (*Oracle, error) {
	byID := make(map[string]*schemas.Paper, len(papers))
	for i := range papers {
		byID[papers[i].ID] = &papers[i]
	}
	o := &Oracle{papers: make(map[string][]*schemas.Paper, len(claims))}
	for _, c := range claims {
		id := strconv.Itoa(c.ID)
		o.papers[id] = nil
		for _, g := range c.Evidence {
			p := byID[g.PaperID]
			if p == nil {
				return nil, fmt.Errorf("eval: claim %d: its evidence abstract %s is not in the corpus", c.ID, g.PaperID)
			}
			o.papers[id] = append(o.papers[id], p)
		}
	}
	return o, nil
}

func (o *Oracle) Name() string { return "oracle retrieval" }

// Run implements stages.Stage. A claim the oracle does not know is that item's error.
func (o *Oracle) Run(_ context.Context, batch []*stages.Work) error {
	for _, w := range batch {
		papers, known := o.papers[w.Claim.ID]
		if !known {
			w.Err = fmt.Errorf("the oracle does not know claim %q", w.Claim.ID)
			continue
		}
		w.Candidates = make([]stages.Candidate, len(papers))
		for i, p := range papers {
			w.Candidates[i] = stages.Candidate{Paper: p, Rank: i + 1, Score: 1}
		}
	}
	return nil
}
