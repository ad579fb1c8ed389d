package models

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Task is the stage a bundle is made for.
type Task string

const (
	Rationale Task = "rationale" // labels NOT_RATIONALE, RATIONALE
	Label     Task = "label"     // labels CONTRADICT, NOT_ENOUGH_INFO, SUPPORT, in any order
)

// Names of the logits that the stages look for.
const (
	LabelRationale     = "RATIONALE"
	LabelSupport       = "SUPPORT"
	LabelContradict    = "CONTRADICT"
	LabelNotEnoughInfo = "NOT_ENOUGH_INFO"
)

// Spec is bundle.json.
type Spec struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	Task      Task     `json:"task"`
	Layout    string   `json:"layout"`     // "pair": two texts in one sequence
	Pair      []string `json:"pair"`       // the order of the two: "sentence" or "rationale", and "claim"
	MaxLength int      `json:"max_length"` // tokens, special ones included
	PadID     int64    `json:"pad_id"`
	Inputs    []string `json:"inputs"` // of input_ids, attention_mask, token_type_ids
	Labels    []string `json:"labels"` // the name of each logit

	// Threshold is the least score of a rationale sentence; for a label model
	// the least probability of SUPPORT or CONTRADICT that counts as evidence.
	Threshold float64 `json:"threshold"`
	// Temperature divides the logits before the softmax (Guo et al. 2017); 1 leaves them.
	Temperature float64 `json:"temperature"`

	Licence      string            `json:"licence"`
	Base         string            `json:"base"`
	TrainingData json.RawMessage   `json:"training_data,omitempty"`
	Seed         json.RawMessage   `json:"seed,omitempty"`
	Figures      json.RawMessage   `json:"figures,omitempty"`
	SHA256       map[string]string `json:"sha256"` // of model.onnx and tokenizer.json
}

// Bundle is a bundle folder that has been read and checked.
type Bundle struct {
	Spec
	Dir  string
	Hash string // hex SHA-256 over the three files: any change of weights, tokenizer or threshold changes it

	tokenizerJSON []byte
	model         []byte
}

const (
	modelFile     = "model.onnx"
	tokenizerFile = "tokenizer.json"
	specFile      = "bundle.json"

	maxSpecBytes      = 1 << 20
	maxTokenizerBytes = 64 << 20
	maxModelBytes     = 2 << 30 // the limit of a protobuf message, and so of a model.onnx without external data
)

// LoadBundle reads the bundle in dir and checks it: files present, hashes as
// bundle.json says, every field usable. All mistakes are reported at once.
func LoadBundle(dir string) (*Bundle, error) {
	b := &Bundle{Dir: dir}
	spec, err := readBounded(filepath.Join(dir, specFile), maxSpecBytes)
	if err != nil {
		return nil, fmt.Errorf("models: bundle %s: %w", dir, err)
	}
	dec := json.NewDecoder(bytes.NewReader(spec))
	if err := dec.Decode(&b.Spec); err != nil {
		return nil, fmt.Errorf("models: bundle %s: %s is not valid: %w", dir, specFile, err)
	}
	if b.Temperature == 0 {
		b.Temperature = 1
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("models: bundle %s: %s: %w", dir, specFile, err)
	}
	if b.tokenizerJSON, err = readBounded(filepath.Join(dir, tokenizerFile), maxTokenizerBytes); err != nil {
		return nil, fmt.Errorf("models: bundle %s: %w", dir, err)
	}
	if b.model, err = readBounded(filepath.Join(dir, modelFile), maxModelBytes); err != nil {
		return nil, fmt.Errorf("models: bundle %s: %w", dir, err)
	}
	all := sha256.New()
	for _, f := range []struct {
		name string
		data []byte
	}{{specFile, spec}, {tokenizerFile, b.tokenizerJSON}, {modelFile, b.model}} {
		sum := sha256.Sum256(f.data)
		all.Write(sum[:])
		if want, ok := b.SHA256[f.name]; ok && want != hex.EncodeToString(sum[:]) {
			return nil, fmt.Errorf("models: bundle %s: %s is not the file that %s describes (SHA-256 differs): fetch or export the bundle again", dir, f.name, specFile)
		}
	}
	b.Hash = hex.EncodeToString(all.Sum(nil))
	return b, nil
}

func (s *Spec) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Name == "" {
		bad("name is missing")
	}
	if s.Layout != "pair" {
		bad("layout %q is not known: this version runs \"pair\"", s.Layout)
	}
	if s.MaxLength < 8 || s.MaxLength > 8192 {
		bad("max_length %d is not between 8 and 8192", s.MaxLength)
	}
	if s.Temperature < 0 {
		bad("temperature %g is negative", s.Temperature)
	}
	if s.Threshold < 0 || s.Threshold > 1 {
		bad("threshold %g is not between 0 and 1", s.Threshold)
	}
	if !slices.Contains(s.Inputs, "input_ids") {
		bad("inputs must name input_ids")
	}
	for _, in := range s.Inputs {
		if in != "input_ids" && in != "attention_mask" && in != "token_type_ids" {
			bad("input %q is not known: use input_ids, attention_mask, token_type_ids", in)
		}
	}
	var text string
	var labels []string
	switch s.Task {
	case Rationale:
		text, labels = "sentence", []string{LabelRationale}
	case Label:
		text, labels = "rationale", []string{LabelSupport, LabelContradict, LabelNotEnoughInfo}
	default:
		bad("task %q is not known: use rationale or label", s.Task)
		return errors.Join(errs...)
	}
	if len(s.Pair) != 2 || !slices.Contains(s.Pair, text) || !slices.Contains(s.Pair, "claim") {
		bad("pair must be [%q, \"claim\"] in the order the model was trained with", text)
	}
	for _, l := range labels {
		if n := count(s.Labels, l); n != 1 {
			bad("labels must name %s once, in the order of the logits", l)
		}
	}
	if s.Task == Label && len(s.Labels) != 3 || s.Task == Rationale && len(s.Labels) != 2 {
		bad("labels has %d names", len(s.Labels))
	}
	return errors.Join(errs...)
}

func count(list []string, want string) (n int) {
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// LabelIndex is the position of a label's logit.
func (s *Spec) LabelIndex(label string) int { return slices.Index(s.Labels, label) }

// ClaimFirst reports whether the claim is the first segment of the pair.
func (s *Spec) ClaimFirst() bool { return s.Pair[0] == "claim" }

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is over %d bytes", path, limit)
	}
	return data, nil
}
