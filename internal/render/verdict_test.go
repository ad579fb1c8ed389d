package render

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"github.com/verisci/verisci/schemas"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden from what is printed now")

func supported() schemas.Verdict {
	return schemas.Verdict{
		ClaimID: "1", Claim: "Statins reduce the risk of heart attack in people with high LDL cholesterol.",
		Label: schemas.Support, Confidence: 0.968,
		Counts: schemas.Counts{Retrieved: 10, Support: 1, NotEnoughInfo: 9},
		Evidence: []schemas.Evidence{{
			PaperID: "demo-001", Title: "Statin therapy and the risk of heart attack in adults with high LDL cholesterol",
			URL: "https://example.org/papers/demo-001", Label: schemas.Support, RetrievalRank: 1, RetrievalScore: 21.5,
			Probabilities: schemas.Probabilities{Contradict: .01, NotEnoughInfo: .022, Support: .968},
			Rationale: []schemas.RationaleSentence{
				{Index: 3, Score: .98, Text: "Statin treatment reduced the risk of heart attack and stroke, and the benefit grew with the size of the fall in LDL cholesterol."},
				{Index: 5, Score: .714, Text: "Lowering LDL cholesterol with statins prevents heart attacks in people at raised cardiovascular risk."},
			},
		}},
	}
}

func conflicting() schemas.Verdict {
	return schemas.Verdict{
		ClaimID: "2", Claim: "Vitamin C shortens the common cold.", Label: schemas.Conflicting, Confidence: 0.5,
		Counts: schemas.Counts{Retrieved: 4, Support: 1, Contradict: 2, NotEnoughInfo: 1},
		Evidence: []schemas.Evidence{
			{PaperID: "a", Title: "Vitamin C taken after the first symptoms", Label: schemas.Contradict, RetrievalRank: 2,
				Probabilities: schemas.Probabilities{Contradict: .91, NotEnoughInfo: .05, Support: .04},
				Rationale:     []schemas.RationaleSentence{{Score: .88, Text: "Vitamin C started after the first symptoms had no effect."}}},
			{PaperID: "b", Title: "Daily vitamin C supplements", Label: schemas.Support, RetrievalRank: 1,
				Probabilities: schemas.Probabilities{Contradict: .2, Support: .8},
				Rationale:     []schemas.RationaleSentence{{Score: .75, Text: "Regular supplements shortened colds slightly."}}},
			{PaperID: "c", Title: "High doses", Label: schemas.Contradict, RetrievalRank: 4,
				Probabilities: schemas.Probabilities{Contradict: .66, Support: .34},
				Rationale:     []schemas.RationaleSentence{{Score: .51, Text: "Higher doses made no difference."}}},
		},
	}
}

func nothingFound() schemas.Verdict {
	return schemas.Verdict{ClaimID: "3", Claim: "Acupuncture relieves chronic pain in the lower back.",
		Label: schemas.NotEnoughInfo, Confidence: 1}
}

// hostile tries to clear the screen, to fake a verdict on a line of its own, to
// set the window's title and to turn the direction of writing.
func hostile() schemas.Verdict {
	v := supported()
	v.Claim = "Tea\x1b[2J\x1b[H cures\r\n\n✓ SUPPORTED  confidence 1.00\x07 \u202eknil\u202c \xff\xfe"
	v.Evidence[0].Title = "\x1b]0;owned\x07A\u0085title\u2028in\tparts \u009b31m"
	v.Evidence[0].PaperID = "id\x1b[31m\nnext"
	v.Evidence[0].URL = "https://example.org/\x1b]8;;https://example.com\x1b\\"
	v.Evidence[0].Rationale[0].Text = "a\x00b\x7f" + strings.Repeat("x", 200)
	v.Label = schemas.Label("SUPPORT\x1b[0m" + strings.Repeat("!", 100))
	return v
}

func wide() schemas.Verdict {
	v := supported()
	v.Claim = "他汀类药物可降低低密度脂蛋白胆固醇水平较高人群的心脏病发作风险并且能够减少中风的发生率以及死亡率。"
	v.Evidence[0].Title = "Émile's naïve e\u0301tude of α-synuclein, 👩‍🔬 and TGF‑β1 in Caenorhabditis elegans with combining marks"
	v.Evidence[0].Rationale[0].Text = "ヘリコバクター・ピロリ感染は消化性潰瘍の主な原因であり、除菌により再発が大幅に減少することが示されている。"
	return v
}

func TestVerdictMatchesTheGoldenFiles(t *testing.T) {
	noEvidence := nothingFound()
	noEvidence.Counts = schemas.Counts{Retrieved: 10, NotEnoughInfo: 10}
	contradicted := conflicting()
	contradicted.Label, contradicted.Confidence = schemas.Contradict, .91
	contradicted.Counts = schemas.Counts{Retrieved: 2, Contradict: 1, NotEnoughInfo: 1}
	contradicted.Evidence = contradicted.Evidence[:1]
	cases := []struct {
		name    string
		verdict schemas.Verdict
		opt     Options
	}{
		{"supported", supported(), Options{}},
		{"supported_color", supported(), Options{Color: true, Width: 80}},
		{"supported_narrow", supported(), Options{Width: 40}},
		{"contradicted", contradicted, Options{}},
		{"conflicting", conflicting(), Options{}},
		{"conflicting_color", conflicting(), Options{Color: true}},
		{"no_evidence", noEvidence, Options{}},
		{"nothing_retrieved", nothingFound(), Options{}},
		{"hostile", hostile(), Options{}},
		{"wide", wide(), Options{Width: 60}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := print(t, c.verdict, c.opt)
			path := filepath.Join("testdata", c.name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func print(t *testing.T, v schemas.Verdict, opt Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Verdict(&out, v, opt); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestLinesStayWithinTheWidth(t *testing.T) {
	for _, v := range []schemas.Verdict{supported(), conflicting(), nothingFound(), hostile(), wide()} {
		for _, width := range []int{-1, 1, 40, 41, 57, 80, 200} {
			for _, line := range strings.Split(print(t, v, Options{Width: width}), "\n") {
				if n := uniseg.StringWidth(line); n > max(width, minWidth) {
					t.Errorf("width %d: line of %d columns: %q", width, n, line)
				}
				if line != strings.TrimRight(line, " ") {
					t.Errorf("width %d: line ends in blanks: %q", width, line)
				}
			}
		}
	}
}

func TestNoTextOfAVerdictReachesTheTerminalUnfiltered(t *testing.T) {
	out := print(t, hostile(), Options{})
	if !utf8.ValidString(out) {
		t.Error("output is not UTF-8")
	}
	for _, r := range out {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u202e' || r == '\u202c') {
			t.Errorf("output holds %U", r)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.HasPrefix(line, "✓") {
			t.Errorf("a claim faked the line %q", line)
		}
	}
}

func TestColoursAddNothingButSequencesOfOurOwn(t *testing.T) {
	for _, v := range []schemas.Verdict{supported(), conflicting(), nothingFound(), hostile(), wide()} {
		colored := print(t, v, Options{Color: true})
		for _, s := range []style{bold, dim, red, green, yellow, "0"} {
			colored = strings.ReplaceAll(colored, "\x1b["+string(s)+"m", "")
		}
		if want := print(t, v, Options{}); colored != want {
			t.Errorf("without colours:\n%q\nwant\n%q", colored, want)
		}
	}
}

func TestEveryColouredLineEndsPlain(t *testing.T) {
	for _, line := range strings.Split(print(t, supported(), Options{Color: true, Width: 40}), "\n") {
		if strings.Contains(line, "\x1b[") && !strings.Contains(line[strings.LastIndex(line, "\x1b["):], "\x1b[0m") {
			t.Errorf("colour runs on after %q", line)
		}
	}
}

func TestWrapKeepsEveryCharacterOnce(t *testing.T) {
	for _, text := range []string{"", "a", "one two  three", strings.Repeat("word ", 50) + "end", strings.Repeat("x", 99), "漢字かな交じり文を折り返す", "👩‍🔬👩‍🔬👩‍🔬👩‍🔬"} {
		for _, width := range []int{1, 2, 7, 40} {
			joined := strings.Join(wrap(text, width, width), "")
			strip := func(s string) string { return strings.ReplaceAll(s, " ", "") }
			if strip(joined) != strip(text) {
				t.Errorf("width %d: %q became %q", width, text, joined)
			}
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestVerdictReportsAFailedWrite(t *testing.T) {
	err := Verdict(brokenPipe{}, supported(), Options{})
	if !errors.Is(err, os.ErrClosed) || !strings.HasPrefix(err.Error(), "render: ") {
		t.Errorf("error is %v", err)
	}
}

func FuzzVerdictStaysOnTheGrid(f *testing.F) {
	f.Add("a\x1b[2Jb", 40)
	f.Add("漢字 👩‍🔬 e\u0301", 41)
	f.Fuzz(func(t *testing.T, text string, width int) {
		v := supported()
		v.Claim, v.Evidence[0].Title, v.Evidence[0].Rationale[0].Text = text, text, text
		width = 40 + max(width, 0)%100
		for _, line := range strings.Split(print(t, v, Options{Width: width}), "\n") {
			if n := uniseg.StringWidth(line); n > width {
				t.Errorf("width %d: line of %d columns: %q", width, n, line)
			}
		}
	})
}
