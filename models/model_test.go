package models

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verisci/verisci/models/tokenizer"
)

func open(t testing.TB, task Task) *Model {
	t.Helper()
	dir, err := FindBundle(string(task))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, task, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func infer(t testing.TB, m *Model, seqs ...tokenizer.Encoding) [][]float32 {
	t.Helper()
	out, err := m.Run(m.Pad(seqs))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type pair struct {
	ClaimID   int       `json:"claim_id"`
	DocID     int       `json:"doc_id"`
	Sentences []int     `json:"sentences"`
	Logits    []float64 `json:"logits"`
}

// parityPairs gives the texts behind testdata/parity.json, which
// training/parity.py wrote with Python's onnxruntime.
func parityPairs(t *testing.T, task Task) (pairs []pair, texts, claims []string, sha string) {
	t.Helper()
	data := os.Getenv("VERISCI_DATA")
	if data == "" {
		t.Skip("VERISCI_DATA is not set: the pairs' texts are SciFact's")
	}
	raw, err := os.ReadFile("testdata/parity.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	var section struct {
		SHA256 string `json:"sha256"`
		Pairs  []pair `json:"pairs"`
	}
	if err := json.Unmarshal(file[string(task)], &section); err != nil {
		t.Fatal(err)
	}
	abstracts, claimText := map[int][]string{}, map[int]string{}
	eachLine(t, filepath.Join(data, "scifact", "corpus.jsonl"), func(line []byte) error {
		var d struct {
			ID       int      `json:"doc_id"`
			Abstract []string `json:"abstract"`
		}
		err := json.Unmarshal(line, &d)
		abstracts[d.ID] = d.Abstract
		return err
	})
	eachLine(t, filepath.Join(data, "scifact", "claims_train.jsonl"), func(line []byte) error {
		var c struct {
			ID    int    `json:"id"`
			Claim string `json:"claim"`
		}
		err := json.Unmarshal(line, &c)
		claimText[c.ID] = c.Claim
		return err
	})
	for _, p := range section.Pairs {
		var text []string
		for _, s := range p.Sentences {
			text = append(text, strings.TrimSpace(abstracts[p.DocID][s]))
		}
		texts, claims = append(texts, strings.Join(text, " ")), append(claims, claimText[p.ClaimID])
	}
	return section.Pairs, texts, claims, section.SHA256
}

func eachLine(t *testing.T, path string, see func([]byte) error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if err := see(lines.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestLogitsAreThoseOfPythonsONNXRuntime(t *testing.T) {
	for _, task := range []Task{Rationale, Label} {
		t.Run(string(task), func(t *testing.T) {
			pairs, texts, claims, sha := parityPairs(t, task)
			m := open(t, task)
			if m.SHA256[modelFile] != sha {
				t.Fatal("testdata/parity.json is of another model: run training/parity.py")
			}
			if len(pairs) < 200 {
				t.Fatalf("%d pairs", len(pairs))
			}
			var worst float64
			for i, p := range pairs {
				seq, err := m.Encode(texts[i], claims[i])
				if err != nil {
					t.Fatal(err)
				}
				for j, got := range infer(t, m, seq)[0] {
					worst = math.Max(worst, math.Abs(float64(got)*m.Temperature-p.Logits[j]))
				}
			}
			t.Logf("%d pairs, largest difference %.2g", len(pairs), worst)
			if worst > 1e-4 {
				t.Errorf("a logit differs by %g", worst)
			}
		})
	}
}

func TestALogitDoesNotHangOnItsBatch(t *testing.T) {
	texts := []string{
		"Smoking was associated with lung cancer.",
		strings.Repeat("In this randomised trial of 1,204 adults the intervention lowered blood pressure. ", 6),
		"No.",
		strings.Repeat("Mice lacking the gene gained weight on a high-fat diet. ", 30),
	}
	for _, task := range []Task{Rationale, Label} {
		m := open(t, task)
		var seqs []tokenizer.Encoding
		for _, text := range texts {
			seq, err := m.Encode(text, "Smoking causes lung cancer.")
			if err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, seq)
		}
		together := infer(t, m, seqs...)
		for i, seq := range seqs {
			for j, alone := range infer(t, m, seq)[0] {
				if d := math.Abs(float64(alone - together[i][j])); d > 1e-3 {
					t.Errorf("%s: text %d alone and in a batch differ by %g", task, i, d)
				}
			}
		}
	}
}

func TestALongTextComesInWindowsAndALongClaimIsAnError(t *testing.T) {
	m := open(t, Rationale)
	long := strings.Repeat("the protein binds the receptor ", 400)
	windows, err := m.Windows(long, "A claim.")
	if err != nil {
		t.Fatal(err)
	}
	if len(windows) < 4 {
		t.Errorf("%d windows for about 2,000 tokens", len(windows))
	}
	for _, w := range windows {
		if len(w.IDs) > m.MaxLength {
			t.Errorf("a window of %d tokens", len(w.IDs))
		}
	}
	infer(t, m, windows...)
	if _, err := m.Windows("A sentence.", long); !errors.Is(err, ErrClaimTooLong) {
		t.Errorf("a claim over the length: %v", err)
	}
	if _, err := m.Windows(long, strings.Repeat("claim ", m.MaxLength-20)); !errors.Is(err, ErrClaimTooLong) {
		t.Errorf("a claim that leaves room for a few tokens: %v", err)
	}
}

func TestConcurrentRunsAreRight(t *testing.T) {
	m := open(t, Rationale)
	seq, err := m.Encode("Smoking was associated with lung cancer.", "Smoking causes lung cancer.")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(infer(t, m, seq))
	results := make(chan string)
	for range 8 {
		go func() {
			out, err := m.Run(m.Pad([]tokenizer.Encoding{seq}))
			results <- fmt.Sprint(out, err)
		}()
	}
	for range 8 {
		if got := <-results; got != want+" <nil>" {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestADeviceThatIsNotThereIsAnError(t *testing.T) {
	dir, err := FindBundle("label")
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range []Device{CUDA, "tpu"} {
		m, err := Open(dir, Label, Options{Device: device})
		if err == nil {
			m.Close()
			if device == CUDA {
				t.Skip("this machine has CUDA")
			}
			t.Fatal("no error")
		}
		if !strings.Contains(err.Error(), string(device)) {
			t.Errorf("the error does not name the device: %v", err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	m := open(b, Rationale)
	seq, err := m.Encode("In this randomised trial of 1,204 adults the intervention lowered systolic blood pressure by 4 mm Hg against placebo.", "The intervention lowers blood pressure in adults.")
	if err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{1, 8, 16, 32, 128} {
		seqs := make([]tokenizer.Encoding, rows)
		for i := range seqs {
			seqs[i] = seq
		}
		batch := m.Pad(seqs)
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			for b.Loop() {
				if _, err := m.Run(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*rows*batch.Length)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// A RoBERTa of random weights, exported by export/export_hf.py: byte-level BPE,
// no token types, the claim in front.
func TestAnExportedRoBERTaGivesPyTorchsLogits(t *testing.T) {
	m, err := Open("testdata/tiny-roberta", Label, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	raw, err := os.ReadFile("testdata/tiny-roberta/logits.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Claim, Text string
		IDs         []int64
		Logits      []float64
	}
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	var seqs []tokenizer.Encoding
	for _, r := range rows {
		seq, err := m.Encode(r.Text, r.Claim)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(seq.IDs, r.IDs) {
			t.Errorf("%q: ids %v, want %v", r.Claim, seq.IDs, r.IDs)
		}
		seqs = append(seqs, seq)
	}
	for i, got := range infer(t, m, seqs...) {
		for j := range got {
			if math.Abs(float64(got[j])-rows[i].Logits[j]) > 1e-4 {
				t.Errorf("%q: logits %v, want %v", rows[i].Claim, got, rows[i].Logits)
				break
			}
		}
	}
}
