package eval

import (
	"bytes"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

func TestReadClaimsKeepsTheFilesOrder(t *testing.T) {
	in := `{"id": 3, "claim": "b", "evidence": {"20": [{"sentences": [5, 2], "label": "SUPPORT"}, {"sentences": [7], "label": "SUPPORT"}], "4": [{"sentences": [0], "label": "CONTRADICT"}]}, "cited_doc_ids": [20, 4, 20]}
{"id": 1, "claim": "a", "evidence": {}, "cited_doc_ids": []}
{"id": 2, "claim": "c"}`
	got, err := ReadClaims(strings.NewReader(in), "claims.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := []Claim{
		{ID: 3, Text: "b", Cited: []string{"20", "4"}, Evidence: []Gold{
			{"20", sup, [][]int{{5, 2}, {7}}},
			{"4", con, [][]int{{0}}},
		}},
		{ID: 1, Text: "a"},
		{ID: 2, Text: "c", Unlabelled: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReadClaimsNamesFileLineAndFault(t *testing.T) {
	good := `{"id": 1, "claim": "a", "evidence": {}, "cited_doc_ids": []}`
	claim := func(evidence string) string {
		return `{"id": 2, "claim": "a", "evidence": ` + evidence + `, "cited_doc_ids": [7]}`
	}
	cases := []struct{ name, in, at, want string }{
		{"empty file", "", "c.jsonl", "is empty"},
		{"empty line", good + "\n\n", "c.jsonl:2: ", "empty line"},
		{"torn line", good + "\n" + good[:30], "c.jsonl:2: ", "cut short"},
		{"not JSON", "id,claim", "c.jsonl:1: ", "invalid character"},
		{"array", "[1]", "c.jsonl:1: ", "cannot unmarshal array"},
		{"two values on a line", good + good, "c.jsonl:1: ", "more than one JSON value"},
		{"Latin-1", "{\"id\": 1, \"claim\": \"caf\xe9\"}", "c.jsonl:1: ", "not UTF-8"},
		{"byte order mark", "\ufeff" + good, "c.jsonl:1: ", "invalid character"},
		{"UTF-16", "{\x00\"\x00i\x00", "c.jsonl:1: ", "invalid character"},
		{"huge line", good + "\n" + `{"id": 1, "claim": "` + strings.Repeat("a", maxLine) + `"}`, "c.jsonl:2: ", "longer than"},
		{"unknown field", `{"id": 1, "claim": "a", "evidance": {}}`, "c.jsonl:1: ", "evidance"},
		{"no id", `{"claim": "a"}`, "c.jsonl:1: ", "no id"},
		{"id as text", `{"id": "1", "claim": "a"}`, "c.jsonl:1: ", "cannot unmarshal string"},
		{"id as fraction", `{"id": 1.5, "claim": "a"}`, "c.jsonl:1: ", "cannot unmarshal number"},
		{"no text", `{"id": 1}`, "c.jsonl:1: ", "no text"},
		{"claim twice", good + "\n" + good, "c.jsonl:2: ", "claim 1 appears twice"},
		{"evidence as list", claim(`[]`), "c.jsonl:1: ", "want a JSON object"},
		{"abstract twice", claim(`{"7": [{"sentences": [1], "label": "SUPPORT"}], "7": [{"sentences": [2], "label": "SUPPORT"}]}`), "c.jsonl:1: ", `"7" appears twice`},
		{"abstract id as text", claim(`{"x": [{"sentences": [1], "label": "SUPPORT"}]}`), "c.jsonl:1: ", `paper id "x"`},
		{"abstract id with zeros", claim(`{"007": [{"sentences": [1], "label": "SUPPORT"}]}`), "c.jsonl:1: ", `paper id "007"`},
		{"no rationale", claim(`{"7": []}`), "c.jsonl:1: ", "abstract 7 has no rationale"},
		{"empty rationale", claim(`{"7": [{"sentences": [], "label": "SUPPORT"}]}`), "c.jsonl:1: ", "empty rationale"},
		{"sentence twice", claim(`{"7": [{"sentences": [1, 1], "label": "SUPPORT"}]}`), "c.jsonl:1: ", "sentence 1 appears twice"},
		{"negative sentence", claim(`{"7": [{"sentences": [-1], "label": "SUPPORT"}]}`), "c.jsonl:1: ", "sentence -1 is negative"},
		{"unknown label", claim(`{"7": [{"sentences": [1], "label": "REFUTE"}]}`), "c.jsonl:1: ", `"REFUTE"`},
		{"both labels", claim(`{"7": [{"sentences": [1], "label": "SUPPORT"}, {"sentences": [2], "label": "CONTRADICT"}]}`), "c.jsonl:1: ", "both labels"},
		{"unknown field in a rationale", claim(`{"7": [{"sentence": [1], "label": "SUPPORT"}]}`), "c.jsonl:1: ", "unknown field"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadClaims(strings.NewReader(c.in), "c.jsonl")
			wantError(t, err, "eval: "+c.at, c.want)
		})
	}
}

func TestLoadClaimsSaysWhichFileIsMissing(t *testing.T) {
	_, err := LoadClaims("testdata/absent.jsonl")
	wantError(t, err, "eval: ", "testdata/absent.jsonl")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap fs.ErrNotExist", err)
	}
}

func TestLoadClaimsReadsEverySciFactSplit(t *testing.T) {
	for name, want := range map[string]struct{ claims, pairs, support, contradict, none int }{
		"claims_train.jsonl": {809, 564, 332, 173, 304},
		"claims_dev.jsonl":   {300, 209, 124, 64, 112},
	} {
		claims := loadSciFact(t, name)
		pairs, labels := 0, map[any]int{}
		for _, c := range claims {
			pairs += len(c.Evidence)
			if len(c.Evidence) == 0 {
				labels[nei]++
			} else {
				labels[c.Evidence[0].Label]++
			}
		}
		if len(claims) != want.claims || pairs != want.pairs || labels[sup] != want.support || labels[con] != want.contradict || labels[nei] != want.none {
			t.Errorf("%s: %d claims, %d pairs, labels %v, want %+v", name, len(claims), pairs, labels, want)
		}
	}
	for _, c := range loadSciFact(t, "claims_test.jsonl") {
		if !c.Unlabelled {
			t.Fatalf("claim %d of the test split has evidence", c.ID)
		}
	}
}

func FuzzReadClaims(f *testing.F) {
	f.Add([]byte(`{"id": 3, "claim": "b", "evidence": {"20": [{"sentences": [5, 2], "label": "SUPPORT"}]}, "cited_doc_ids": [20]}`))
	f.Add([]byte(`{"id": 1, "claim": "a", "evidence": {"7": [], "7": null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		claims, err := ReadClaims(bytes.NewReader(data), "f")
		if err != nil {
			return
		}
		for i := range claims {
			claims[i].Unlabelled = false
		}
		if _, err := Evaluate(claims, nil); err != nil {
			t.Errorf("claims that were read cannot be scored: %v", err)
		}
	})
}
