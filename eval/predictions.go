package eval

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/verisci/verisci/schemas"
)

// Prediction is what the pipeline says of one claim.
type Prediction struct {
	ClaimID  int
	Evidence []Finding // best first, at most one an abstract
}

// Finding is what the pipeline says of one abstract.
type Finding struct {
	PaperID string
	Label   schemas.Label // NotEnoughInfo is allowed, counts for nothing and is not written

	// Sentences are zero-based and best first: the abstract-level metric with
	// rationales looks only at the first few.
	Sentences []int
}

// check refuses what no metric defines. It is the one place where predictions are
// held to a shape, whether read, written or scored.
func (p Prediction) check() error {
	papers := map[string]bool{}
	for _, f := range p.Evidence {
		if papers[f.PaperID] {
			return fmt.Errorf("claim %d: paper %s is predicted twice", p.ClaimID, f.PaperID)
		}
		papers[f.PaperID] = true
		if err := checkPaperID(f.PaperID); err != nil {
			return fmt.Errorf("claim %d: %w", p.ClaimID, err)
		}
		switch f.Label {
		case schemas.Support, schemas.Contradict, schemas.NotEnoughInfo:
		default:
			return fmt.Errorf("claim %d: paper %s has label %q: use SUPPORT, CONTRADICT or NOT_ENOUGH_INFO", p.ClaimID, f.PaperID, f.Label)
		}
		if err := checkSentences(f.Sentences); err != nil {
			return fmt.Errorf("claim %d: paper %s: %w", p.ClaimID, f.PaperID, err)
		}
	}
	return nil
}

// byClaim checks all predictions, among them that no claim has two.
func byClaim(predictions []Prediction) (map[int]Prediction, error) {
	claims := make(map[int]Prediction, len(predictions))
	for _, p := range predictions {
		if _, twice := claims[p.ClaimID]; twice {
			return nil, fmt.Errorf("claim %d is predicted twice", p.ClaimID)
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		claims[p.ClaimID] = p
	}
	return claims, nil
}

// FromVerdict keeps of a verdict what is scored: the abstracts that support or
// contradict the claim and their rationale sentences, in the verdict's order.
// The claim's and the papers' ids must be SciFact's integers.
func FromVerdict(v schemas.Verdict) (Prediction, error) {
	id, err := strconv.Atoi(v.ClaimID)
	if err != nil {
		return Prediction{}, fmt.Errorf("eval: claim id %q is not SciFact's: use a decimal integer", v.ClaimID)
	}
	p := Prediction{ClaimID: id}
	for _, e := range v.Evidence {
		f := Finding{PaperID: e.PaperID, Label: e.Label}
		for _, s := range e.Rationale {
			f.Sentences = append(f.Sentences, s.Index)
		}
		p.Evidence = append(p.Evidence, f)
	}
	if err := p.check(); err != nil {
		return Prediction{}, fmt.Errorf("eval: %w", err)
	}
	return p, nil
}

// submitted is an abstract in the submission format.
type submitted struct {
	Sentences []int         `json:"sentences"`
	Label     schemas.Label `json:"label"`
}

// WritePredictions writes the submission format of the SciFact evaluator and
// leaderboard: a line {"id", "evidence": {doc_id: {"sentences", "label"}}} for
// every prediction, in the order given, claims without evidence among them. It
// writes nothing if a prediction is malformed or a claim has two.
// Documents are in the order of their ids as text, so equal predictions give
// equal bytes. NotEnoughInfo is dropped. The leaderboard wants the claims in the
// order of its file, each once.
func WritePredictions(w io.Writer, predictions []Prediction) error {
	if _, err := byClaim(predictions); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	for _, p := range predictions {
		evidence := map[string]submitted{}
		for _, f := range p.Evidence {
			if f.Label != schemas.NotEnoughInfo {
				evidence[f.PaperID] = submitted{Sentences: append([]int{}, f.Sentences...), Label: f.Label}
			}
		}
		if err := enc.Encode(struct {
			ID       int                  `json:"id"`
			Evidence map[string]submitted `json:"evidence"`
		}{p.ClaimID, evidence}); err != nil {
			return fmt.Errorf("eval: write predictions: %w", err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("eval: write predictions: %w", err)
	}
	return nil
}

// LoadPredictions reads a predictions file; see ReadPredictions.
func LoadPredictions(path string) ([]Prediction, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	defer f.Close()
	return ReadPredictions(f, path)
}

// ReadPredictions reads the submission format. Documents keep the file's order.
// Errors start with name:line; a claim, document or sentence given twice is one.
func ReadPredictions(r io.Reader, name string) ([]Prediction, error) {
	var predictions []Prediction
	seen := map[int]bool{}
	err := eachLine(r, name, func(line []byte) error {
		p, err := parsePrediction(line)
		if err != nil {
			return err
		}
		if seen[p.ClaimID] {
			return fmt.Errorf("claim %d is predicted twice", p.ClaimID)
		}
		seen[p.ClaimID] = true
		predictions = append(predictions, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return predictions, nil
}

func parsePrediction(line []byte) (Prediction, error) {
	var row struct {
		ID       *int               `json:"id"`
		Evidence *object[submitted] `json:"evidence"`
	}
	if err := decodeStrict(line, &row); err != nil {
		return Prediction{}, err
	}
	if row.ID == nil {
		return Prediction{}, errors.New("the prediction has no id")
	}
	if row.Evidence == nil {
		return Prediction{}, fmt.Errorf("claim %d has no evidence key: use {} for none", *row.ID)
	}
	p := Prediction{ClaimID: *row.ID}
	for _, m := range *row.Evidence {
		p.Evidence = append(p.Evidence, Finding{PaperID: m.key, Label: m.value.Label, Sentences: m.value.Sentences})
	}
	return p, p.check()
}
