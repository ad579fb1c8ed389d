package eval

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/verisci/verisci/schemas"
)

// Claim is one line of a SciFact claims file.
type Claim struct {
	ID       int
	Text     string
	Evidence []Gold   // in the file's order; empty where no cited abstract is evidence
	Cited    []string // paper ids, each once, in the file's order

	// Unlabelled says that the line has no evidence key, as in SciFact's test
	// split. Such claims can be run but not scored.
	Unlabelled bool
}

// Gold is what annotators found in one abstract. PaperID is the decimal doc_id,
// as in schemas.Paper.ID.
type Gold struct {
	PaperID string
	Label   schemas.Label // Support or Contradict

	// Rationales are sets of zero-based sentence positions. Each set alone is
	// enough to justify the label; none is empty.
	Rationales [][]int
}

// gold finds the claim's evidence in one abstract; the zero Gold has no rationales.
func (c Claim) gold(paperID string) (Gold, bool) {
	i := slices.IndexFunc(c.Evidence, func(g Gold) bool { return g.PaperID == paperID })
	if i < 0 {
		return Gold{}, false
	}
	return c.Evidence[i], true
}

// labelledIDs checks that claims can be scored: each has gold labels and an id of its own.
func labelledIDs(claims []Claim) (map[int]bool, error) {
	ids := make(map[int]bool, len(claims))
	for _, c := range claims {
		if c.Unlabelled {
			return nil, fmt.Errorf("claim %d has no gold evidence to score against: use a labelled split", c.ID)
		}
		if ids[c.ID] {
			return nil, fmt.Errorf("claim %d appears twice", c.ID)
		}
		ids[c.ID] = true
	}
	return ids, nil
}

// LoadClaims reads a claims file; see ReadClaims.
func LoadClaims(path string) ([]Claim, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	defer f.Close()
	return ReadClaims(f, path)
}

// ReadClaims reads SciFact claims, one JSON object a line: id, claim, evidence
// and cited_doc_ids. The last two may be missing (test split). Anything else
// out of place is an error that starts with name:line: unknown fields and
// labels, a claim id, evidence abstract or rationale sentence given twice, two
// labels for one abstract. Cited abstracts may repeat (SciFact's dev split has
// one that does) and are kept once.
func ReadClaims(r io.Reader, name string) ([]Claim, error) {
	var claims []Claim
	seen := map[int]bool{}
	err := eachLine(r, name, func(line []byte) error {
		c, err := parseClaim(line)
		if err != nil {
			return err
		}
		if seen[c.ID] {
			return fmt.Errorf("claim %d appears twice", c.ID)
		}
		seen[c.ID] = true
		claims = append(claims, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

func parseClaim(line []byte) (Claim, error) {
	var row struct {
		ID       *int   `json:"id"`
		Claim    string `json:"claim"`
		Evidence *object[[]struct {
			Sentences []int         `json:"sentences"`
			Label     schemas.Label `json:"label"`
		}] `json:"evidence"`
		Cited []int `json:"cited_doc_ids"`
	}
	if err := decodeStrict(line, &row); err != nil {
		return Claim{}, err
	}
	if row.ID == nil {
		return Claim{}, errors.New("the claim has no id")
	}
	if row.Claim == "" {
		return Claim{}, fmt.Errorf("claim %d has no text", *row.ID)
	}
	c := Claim{ID: *row.ID, Text: row.Claim, Unlabelled: row.Evidence == nil}
	for _, id := range row.Cited {
		if paper := strconv.Itoa(id); !slices.Contains(c.Cited, paper) {
			c.Cited = append(c.Cited, paper)
		}
	}
	if c.Unlabelled {
		return c, nil
	}
	for _, m := range *row.Evidence {
		gold := Gold{PaperID: m.key}
		if err := checkPaperID(m.key); err != nil {
			return Claim{}, fmt.Errorf("claim %d: %w", c.ID, err)
		}
		if len(m.value) == 0 {
			return Claim{}, fmt.Errorf("claim %d: abstract %s has no rationale", c.ID, m.key)
		}
		for _, set := range m.value {
			if err := checkSentences(set.Sentences); err != nil {
				return Claim{}, fmt.Errorf("claim %d: abstract %s: %w", c.ID, m.key, err)
			}
			switch {
			case len(set.Sentences) == 0:
				return Claim{}, fmt.Errorf("claim %d: abstract %s has an empty rationale", c.ID, m.key)
			case set.Label != schemas.Support && set.Label != schemas.Contradict:
				return Claim{}, fmt.Errorf("claim %d: abstract %s has label %q: use SUPPORT or CONTRADICT", c.ID, m.key, set.Label)
			case gold.Label != "" && set.Label != gold.Label:
				return Claim{}, fmt.Errorf("claim %d: abstract %s has both labels", c.ID, m.key)
			}
			gold.Label = set.Label
			gold.Rationales = append(gold.Rationales, set.Sentences)
		}
		c.Evidence = append(c.Evidence, gold)
	}
	return c, nil
}

// checkPaperID holds ids to SciFact's: the decimal form of a non-negative
// integer, so that 7 and 007 cannot be taken for two papers.
func checkPaperID(id string) error {
	if n, err := strconv.Atoi(id); err != nil || n < 0 || strconv.Itoa(n) != id {
		return fmt.Errorf("paper id %q is not SciFact's: use a decimal integer", id)
	}
	return nil
}

func checkSentences(sentences []int) error {
	for i, s := range sentences {
		if s < 0 {
			return fmt.Errorf("sentence %d is negative: positions start at 0", s)
		}
		if slices.Contains(sentences[:i], s) {
			return fmt.Errorf("sentence %d appears twice", s)
		}
	}
	return nil
}
