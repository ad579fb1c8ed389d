package eval

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/verisci/verisci/schemas"
)

func TestWritePredictionsIsTheSubmissionFormat(t *testing.T) {
	predictions := []Prediction{
		predicted(9, Finding{"20", con, []int{4, 0}}, Finding{"5", nei, []int{1}}, Finding{"11", sup, []int{3}}),
		predicted(2),
		predicted(4, Finding{"1", sup, nil}),
	}
	want := `{"id":9,"evidence":{"11":{"sentences":[3],"label":"SUPPORT"},"20":{"sentences":[4,0],"label":"CONTRADICT"}}}
{"id":2,"evidence":{}}
{"id":4,"evidence":{"1":{"sentences":[],"label":"SUPPORT"}}}
`
	var got bytes.Buffer
	if err := WritePredictions(&got, predictions); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestPredictionsSurviveWritingAndReading(t *testing.T) {
	want := []Prediction{
		predicted(9, Finding{"11", sup, []int{3, 1, 2}}, Finding{"20", con, []int{4, 0}}),
		predicted(2),
	}
	path := filepath.Join(t.TempDir(), "predictions.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(WritePredictions(f, want), f.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := LoadPredictions(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReadPredictionsNamesFileLineAndFault(t *testing.T) {
	good := `{"id": 1, "evidence": {}}`
	finding := func(s string) string { return `{"id": 2, "evidence": {"7": ` + s + `}}` }
	cases := []struct{ name, in, at, want string }{
		{"empty file", "", "p.jsonl", "is empty"},
		{"torn line", good + "\n" + good[:15], "p.jsonl:2: ", "cut short"},
		{"no id", `{"evidence": {}}`, "p.jsonl:1: ", "no id"},
		{"no evidence", `{"id": 1}`, "p.jsonl:1: ", "no evidence key"},
		{"a claims line", `{"id": 1, "claim": "a", "evidence": {}}`, "p.jsonl:1: ", "unknown field"},
		{"claim twice", good + "\n" + good, "p.jsonl:2: ", "claim 1 is predicted twice"},
		{"paper twice", `{"id": 2, "evidence": {"7": {"sentences": [], "label": "SUPPORT"}, "7": {"sentences": [], "label": "SUPPORT"}}}`, "p.jsonl:1: ", `"7" appears twice`},
		{"paper id as text", `{"id": 2, "evidence": {"demo": {"sentences": [], "label": "SUPPORT"}}}`, "p.jsonl:1: ", `paper id "demo"`},
		{"no label", finding(`{"sentences": [1]}`), "p.jsonl:1: ", `label ""`},
		{"sentence twice", finding(`{"sentences": [1, 1], "label": "SUPPORT"}`), "p.jsonl:1: ", "sentence 1 appears twice"},
		{"sentence out of any range", finding(`{"sentences": [99999999999999999999], "label": "SUPPORT"}`), "p.jsonl:1: ", "cannot unmarshal number"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadPredictions(strings.NewReader(c.in), "p.jsonl")
			wantError(t, err, "eval: "+c.at, c.want)
		})
	}
}

func TestWritePredictionsRefusesWhatCannotBeSubmitted(t *testing.T) {
	for want, predictions := range map[string][]Prediction{
		"claim 1 is predicted twice":  {predicted(1), predicted(1)},
		`paper id "demo-001"`:         {predicted(1, Finding{"demo-001", sup, []int{0}})},
		"paper 7 is predicted twice":  {predicted(1, Finding{"7", sup, []int{0}}, Finding{"7", sup, []int{1}})},
		`paper 7 has label "PERHAPS"`: {predicted(1, Finding{"7", "PERHAPS", []int{0}})},
	} {
		var out bytes.Buffer
		wantError(t, WritePredictions(&out, append([]Prediction{predicted(99)}, predictions...)), "eval: ", want)
		if out.Len() > 0 {
			t.Errorf("%q was written before the error", out.String())
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWritePredictionsReportsAFailedWrite(t *testing.T) {
	err := WritePredictions(brokenPipe{}, []Prediction{predicted(1)})
	wantError(t, err, "eval: write predictions: ")
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v does not wrap the writer's error", err)
	}
}

func TestFromVerdictKeepsEvidenceAndItsOrder(t *testing.T) {
	v := schemas.Verdict{ClaimID: "13", Label: schemas.Conflicting, Evidence: []schemas.Evidence{
		{PaperID: "20", Label: con, Rationale: []schemas.RationaleSentence{{Index: 6, Score: .9}, {Index: 1, Score: .6}}},
		{PaperID: "3", Label: sup, Rationale: []schemas.RationaleSentence{{Index: 0, Score: .7}}},
	}}
	got, err := FromVerdict(v)
	if err != nil {
		t.Fatal(err)
	}
	want := predicted(13, Finding{"20", con, []int{6, 1}}, Finding{"3", sup, []int{0}})
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFromVerdictRefusesForeignIDs(t *testing.T) {
	_, err := FromVerdict(schemas.Verdict{ClaimID: "demo-claim-01"})
	wantError(t, err, "eval: ", `claim id "demo-claim-01"`)
	_, err = FromVerdict(schemas.Verdict{ClaimID: "1", Evidence: []schemas.Evidence{{PaperID: "demo-001", Label: sup}}})
	wantError(t, err, "eval: ", `paper id "demo-001"`)
}
