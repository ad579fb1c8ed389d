package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verisci/verisci/schemas"
)

const (
	sup = schemas.Support
	con = schemas.Contradict
	nei = schemas.NotEnoughInfo
)

func labelled(id int, gold ...Gold) Claim { return Claim{ID: id, Text: "x", Evidence: gold} }

func predicted(id int, found ...Finding) Prediction { return Prediction{ClaimID: id, Evidence: found} }

// prf is the expected score from counts, with F1 as the harmonic mean.
func prf(right, predicted, wanted float64) Score {
	var s Score
	if predicted > 0 {
		s.P = 100 * right / predicted
	}
	if wanted > 0 {
		s.R = 100 * right / wanted
	}
	if s.P+s.R > 0 {
		s.F1 = 2 * s.P * s.R / (s.P + s.R)
	}
	return s
}

func near(a, b Metrics) bool {
	close := func(x, y Score) bool {
		return math.Abs(x.P-y.P) < 1e-9 && math.Abs(x.R-y.R) < 1e-9 && math.Abs(x.F1-y.F1) < 1e-9
	}
	return close(a.SentenceSelection, b.SentenceSelection) && close(a.SentenceLabel, b.SentenceLabel) &&
		close(a.AbstractLabel, b.AbstractLabel) && close(a.AbstractRationale, b.AbstractRationale)
}

func TestEvaluateFollowsThePaper(t *testing.T) {
	one := labelled(1, Gold{"7", sup, [][]int{{2, 5}, {7}}}) // three gold sentences, one abstract
	cases := []struct {
		name        string
		claims      []Claim
		predictions []Prediction
		want        Metrics
	}{
		{"all gold sentences and the label are perfect",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", sup, []int{2, 5, 7}})},
			Metrics{prf(3, 3, 3), prf(3, 3, 3), prf(1, 1, 1), prf(1, 1, 1)}},
		{"half of a rationale counts for nothing",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", sup, []int{2}})},
			Metrics{prf(0, 1, 3), prf(0, 1, 3), prf(1, 1, 1), prf(0, 1, 1)}},
		{"one of two rationales is enough for the abstract but not for sentence recall",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", sup, []int{7}})},
			Metrics{prf(1, 1, 3), prf(1, 1, 3), prf(1, 1, 1), prf(1, 1, 1)}},
		{"a whole rationale beside half of another",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", sup, []int{7, 2}})},
			Metrics{prf(1, 2, 3), prf(1, 2, 3), prf(1, 1, 1), prf(1, 1, 1)}},
		{"a wrong label keeps only sentence selection",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", con, []int{2, 5, 7}})},
			Metrics{prf(3, 3, 3), prf(0, 3, 3), prf(0, 1, 1), prf(0, 1, 1)}},
		{"the rationale within the first three sentences",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", sup, []int{0, 5, 2, 1}})},
			Metrics{prf(2, 4, 3), prf(2, 4, 3), prf(1, 1, 1), prf(1, 1, 1)}},
		{"the same sentences with the rationale ending fourth",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", sup, []int{0, 5, 1, 2}})},
			Metrics{prf(2, 4, 3), prf(2, 4, 3), prf(1, 1, 1), prf(0, 1, 1)}},
		{"a rationale of four sentences is beyond the cap",
			[]Claim{labelled(1, Gold{"7", sup, [][]int{{0, 1, 2, 3}}})},
			[]Prediction{predicted(1, Finding{"7", sup, []int{0, 1, 2, 3}})},
			Metrics{prf(4, 4, 4), prf(4, 4, 4), prf(1, 1, 1), prf(0, 1, 1)}},
		{"an abstract that is not evidence costs precision",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", sup, []int{7}}, Finding{"8", sup, []int{7, 9}})},
			Metrics{prf(1, 3, 3), prf(1, 3, 3), prf(1, 2, 1), prf(1, 2, 1)}},
		{"an omitted claim counts as missed",
			[]Claim{one, labelled(2, Gold{"9", con, [][]int{{0}}})},
			[]Prediction{predicted(2, Finding{"9", con, []int{0}})},
			Metrics{prf(1, 1, 4), prf(1, 1, 4), prf(1, 1, 2), prf(1, 1, 2)}},
		{"evidence for a claim without evidence costs precision",
			[]Claim{one, labelled(2)},
			[]Prediction{predicted(1, Finding{"7", sup, []int{2, 5, 7}}), predicted(2, Finding{"9", con, []int{0}})},
			Metrics{prf(3, 4, 3), prf(3, 4, 3), prf(1, 2, 1), prf(1, 2, 1)}},
		{"an abstract without enough information is not a prediction",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", nei, []int{2, 5}})},
			Metrics{prf(0, 0, 3), prf(0, 0, 3), prf(0, 0, 1), prf(0, 0, 1)}},
		{"a label without sentences scores by label alone",
			[]Claim{one}, []Prediction{predicted(1, Finding{"7", sup, nil})},
			Metrics{prf(0, 0, 3), prf(0, 0, 3), prf(1, 1, 1), prf(0, 1, 1)}},
		{"rationales that overlap count their sentences once",
			[]Claim{labelled(1, Gold{"7", sup, [][]int{{1, 2}, {2, 3}}})},
			[]Prediction{predicted(1, Finding{"7", sup, []int{1, 2, 3}})},
			Metrics{prf(3, 3, 3), prf(3, 3, 3), prf(1, 1, 1), prf(1, 1, 1)}},
		{"the same paper under two claims is judged by claim",
			[]Claim{one, labelled(2, Gold{"7", con, [][]int{{0}}})},
			[]Prediction{predicted(1, Finding{"7", sup, []int{7}}), predicted(2, Finding{"7", sup, []int{7}})},
			Metrics{prf(1, 2, 4), prf(1, 2, 4), prf(1, 2, 2), prf(1, 2, 2)}},
		{"nothing predicted and nothing wanted is 0",
			[]Claim{labelled(1)}, []Prediction{predicted(1)}, Metrics{}},
		{"no predictions at all",
			[]Claim{one}, nil, Metrics{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := Evaluate(c.claims, c.predictions)
			if err != nil {
				t.Fatal(err)
			}
			if !near(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestEvaluateRefusesWhatItCannotScore(t *testing.T) {
	claims := []Claim{labelled(1, Gold{"7", sup, [][]int{{2}}})}
	cases := []struct {
		name        string
		claims      []Claim
		predictions []Prediction
		want        string
	}{
		{"unknown claim", claims, []Prediction{predicted(5)}, "claim 5 is predicted but not in the claims"},
		{"claim predicted twice", claims, []Prediction{predicted(1), predicted(1)}, "claim 1 is predicted twice"},
		{"paper predicted twice", claims, []Prediction{predicted(1, Finding{"7", sup, nil}, Finding{"7", con, nil})}, "paper 7 is predicted twice"},
		{"sentence predicted twice", claims, []Prediction{predicted(1, Finding{"7", sup, []int{2, 2}})}, "sentence 2 appears twice"},
		{"negative sentence", claims, []Prediction{predicted(1, Finding{"7", sup, []int{-1}})}, "sentence -1 is negative"},
		{"verdict label on an abstract", claims, []Prediction{predicted(1, Finding{"7", schemas.Conflicting, []int{2}})}, `label "CONFLICTING"`},
		{"unlabelled claims", []Claim{{ID: 3, Text: "x", Unlabelled: true}}, nil, "claim 3 has no gold evidence"},
		{"claim twice", append(claims, claims...), nil, "claim 1 appears twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Evaluate(c.claims, c.predictions)
			wantError(t, err, "eval: ", c.want)
		})
	}
}

func TestEvaluateAgreesWithASecondComputation(t *testing.T) {
	path := "testdata/crosscheck.jsonl" // by crosscheck.py
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	cases := 0
	for sc.Scan() {
		cases++
		var c struct {
			Claims, Predictions []json.RawMessage
			Want                Metrics
		}
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		claims, err := ReadClaims(strings.NewReader(lines(c.Claims)), "claims")
		if err != nil {
			t.Fatal(err)
		}
		var predictions []Prediction
		if len(c.Predictions) > 0 {
			if predictions, err = ReadPredictions(strings.NewReader(lines(c.Predictions)), "predictions"); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Evaluate(claims, predictions)
		if err != nil {
			t.Fatal(err)
		}
		if !near(got, c.Want) {
			t.Errorf("case %d:\ngot  %+v\nwant %+v", cases, got, c.Want)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	if cases != 80 {
		t.Errorf("%d cases in %s, want 80", cases, path)
	}
}

func lines(rows []json.RawMessage) string {
	var b strings.Builder
	for _, r := range rows {
		b.Write(r)
		b.WriteByte('\n')
	}
	return b.String()
}

func TestOraclePredictionsArePerfectOnSciFactDev(t *testing.T) {
	claims := loadSciFact(t, "claims_dev.jsonl")
	var predictions []Prediction
	pairs := 0
	for _, c := range claims {
		p := Prediction{ClaimID: c.ID}
		for _, g := range c.Evidence {
			pairs++
			p.Evidence = append(p.Evidence, Finding{g.PaperID, g.Label, slices.Concat(g.Rationales...)})
		}
		predictions = append(predictions, p)
	}
	if len(claims) != 300 || pairs != 209 {
		t.Errorf("%d claims with %d evidence pairs, want 300 with 209", len(claims), pairs)
	}

	// Through the submission format, as a user would score a file.
	var file bytes.Buffer
	if err := WritePredictions(&file, predictions); err != nil {
		t.Fatal(err)
	}
	read, err := ReadPredictions(&file, "predictions")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Evaluate(claims, read)
	if err != nil {
		t.Fatal(err)
	}
	perfect := Score{100, 100, 100}
	if want := (Metrics{perfect, perfect, perfect, perfect}); got != want {
		t.Errorf("got %+v, want 100 throughout", got)
	}

	got, err = Evaluate(claims, read[:150])
	if err != nil {
		t.Fatal(err)
	}
	if got.AbstractLabel.P != 100 || got.AbstractLabel.R >= 100 {
		t.Errorf("with half of the claims omitted: %+v, want full precision and less recall", got.AbstractLabel)
	}
}

// loadSciFact reads a file of the SciFact data that VERISCI_DATA points to, and
// skips where it is unset.
func loadSciFact(t *testing.T, name string) []Claim {
	t.Helper()
	root := os.Getenv("VERISCI_DATA")
	if root == "" {
		t.Skip("VERISCI_DATA is unset: it names the folder that holds scifact/")
	}
	claims, err := LoadClaims(filepath.Join(root, "scifact", name))
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
