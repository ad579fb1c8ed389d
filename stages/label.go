package stages

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/verisci/verisci/models"
	"github.com/verisci/verisci/models/tokenizer"
	"github.com/verisci/verisci/schemas"
)

// PairLabel labels each abstract by its rationale sentences, joined with a
// blank in the order of the abstract, and the claim (SciFact paper, section
// 4.3). An abstract without a rationale is NOT_ENOUGH_INFO with probability 1
// and costs no inference. A pair over the model's length is cut in the
// rationale alone.
type PairLabel struct {
	Model     *models.Model
	Infer     Inferer
	Threshold float64 // a SUPPORT or CONTRADICT below it is NOT_ENOUGH_INFO; 0 takes the most probable label
}

func (l *PairLabel) Name() string { return "label" }

func (l *PairLabel) Run(ctx context.Context, batch []*Work) error {
	var seqs []tokenizer.Encoding
	var from []*Candidate
	var owner []*Work
	for _, work := range batch {
		start := len(seqs)
		for c := range work.Candidates {
			cand := &work.Candidates[c]
			cand.Label, cand.Probabilities = schemas.NotEnoughInfo, schemas.Probabilities{NotEnoughInfo: 1}
			if len(cand.Rationale) == 0 {
				continue
			}
			seq, err := l.Model.Encode(inAbstractOrder(cand.Rationale), work.Claim.Text)
			if err != nil {
				work.Err = err
				seqs, from, owner = seqs[:start], from[:start], owner[:start]
				break
			}
			seqs, from, owner = append(seqs, seq), append(from, cand), append(owner, work)
		}
	}
	logits, err := l.Infer.Infer(ctx, seqs)
	if err != nil {
		return err
	}
	support, contradict, nei := l.Model.LabelIndex(models.LabelSupport), l.Model.LabelIndex(models.LabelContradict), l.Model.LabelIndex(models.LabelNotEnoughInfo)
	for i, cand := range from {
		p, err := probabilities(logits[i])
		if err != nil {
			owner[i].Err = err
			continue
		}
		cand.Probabilities = schemas.Probabilities{Contradict: p[contradict], NotEnoughInfo: p[nei], Support: p[support]}
		cand.Label = decide(cand.Probabilities, l.Threshold)
	}
	return nil
}

// decide is the most probable label, where an equal NOT_ENOUGH_INFO goes first:
// no evidence is claimed on a tie.
func decide(p schemas.Probabilities, threshold float64) schemas.Label {
	label, best := schemas.NotEnoughInfo, p.NotEnoughInfo
	if p.Contradict > best {
		label, best = schemas.Contradict, p.Contradict
	}
	if p.Support > best {
		label, best = schemas.Support, p.Support
	}
	if float64(best) < threshold {
		return schemas.NotEnoughInfo
	}
	return label
}

func inAbstractOrder(rationale []schemas.RationaleSentence) string {
	sorted := slices.SortedFunc(slices.Values(rationale), func(x, y schemas.RationaleSentence) int {
		return cmp.Compare(x.Index, y.Index)
	})
	texts := make([]string, len(sorted))
	for i, s := range sorted {
		texts[i] = s.Text
	}
	return strings.Join(texts, " ")
}
