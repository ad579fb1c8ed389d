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

// Inferer runs sequences through a model. *Batcher implements it.
type Inferer interface {
	Infer(ctx context.Context, seqs []tokenizer.Encoding) ([][]float32, error)
}

// PairRationale scores each sentence of each abstract in a sequence of its own,
// (sentence, claim), and keeps those whose probability of being a rationale
// reaches the threshold (SciFact paper, section 4.2). A sentence over the
// model's length is scored in windows and has the best window's score.
type PairRationale struct {
	Model     *models.Model
	Infer     Inferer
	Threshold float64 // 0 to 1
}

func (r *PairRationale) Name() string { return "rationale" }

func (r *PairRationale) Run(ctx context.Context, batch []*Work) error {
	type source struct{ work, candidate, sentence int }
	var seqs []tokenizer.Encoding
	var from []source
	for w, work := range batch {
		start := len(seqs)
	candidates:
		for c := range work.Candidates {
			for s, text := range work.Candidates[c].Paper.Abstract {
				if text = strings.TrimSpace(text); text == "" {
					continue
				}
				windows, err := r.Model.Windows(text, work.Claim.Text)
				if err != nil {
					work.Err = err
					break candidates
				}
				for _, seq := range windows {
					seqs = append(seqs, seq)
					from = append(from, source{w, c, s})
				}
			}
		}
		if work.Err != nil {
			seqs, from = seqs[:start], from[:start]
		}
	}
	logits, err := r.Infer.Infer(ctx, seqs)
	if err != nil {
		return err
	}
	for _, work := range batch {
		for c := range work.Candidates {
			work.Candidates[c].Rationale = nil
		}
	}
	column := r.Model.LabelIndex(models.LabelRationale)
	for i := 0; i < len(from); {
		at, score := from[i], float32(0)
		for ; i < len(from) && from[i] == at; i++ { // the windows of one sentence
			p, err := probabilities(logits[i])
			if err != nil {
				batch[at.work].Err = err
				continue
			}
			score = max(score, p[column])
		}
		if float64(score) < r.Threshold {
			continue
		}
		cand := &batch[at.work].Candidates[at.candidate]
		cand.Rationale = append(cand.Rationale, schemas.RationaleSentence{
			Index: at.sentence,
			Text:  strings.TrimSpace(cand.Paper.Abstract[at.sentence]),
			Score: score,
		})
	}
	for _, work := range batch {
		for c := range work.Candidates {
			BestFirst(work.Candidates[c].Rationale)
		}
	}
	return nil
}

// BestFirst puts rationale sentences in the order they are published in: by
// score, then by place in the abstract. The first three are what the paper's
// abstract-level metric looks at.
func BestFirst(rationale []schemas.RationaleSentence) {
	slices.SortFunc(rationale, func(x, y schemas.RationaleSentence) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(x.Index, y.Index))
	})
}
