package models

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/verisci/verisci/models/tokenizer"
)

// Device names where a model runs.
type Device string

const (
	CPU  Device = "cpu"
	CUDA Device = "cuda"
)

// Options say how a bundle is run.
type Options struct {
	Library  string // path of ONNX Runtime's shared library; see Start
	Device   Device // "" is CPU
	DeviceID int    // CUDA only
	// Threads is the number of threads inside one Run (ONNX Runtime's intra-op
	// pool). 0 is 1: parallelism then comes from concurrent calls of Run.
	Threads int
	Meter   *Meter // nil measures nothing
}

// Model is a bundle ready to run. It is safe for concurrent use.
type Model struct {
	*Bundle
	RuntimeVersion string // ONNX Runtime's: kernels, and so the last digits of a logit, differ between versions

	tok     *tokenizer.Tokenizer
	session *ort.DynamicAdvancedSession
	meter   *Meter
}

// Open loads the runtime if need be and makes a session of the bundle in dir,
// which must be made for task. A device that is not there is an error, never a
// fall back to another.
func Open(dir string, task Task, opts Options) (*Model, error) {
	b, err := LoadBundle(dir)
	if err != nil {
		return nil, err
	}
	if b.Task != task {
		return nil, fmt.Errorf("models: bundle %s is for the %s stage, not for %s", dir, b.Task, task)
	}
	tok, err := tokenizer.Parse(b.tokenizerJSON)
	if err != nil {
		return nil, fmt.Errorf("models: bundle %s: %w", dir, err)
	}
	runtime, err := Start(opts.Library)
	if err != nil {
		return nil, err
	}
	so, err := sessionOptions(opts)
	if err != nil {
		return nil, err
	}
	defer so.Destroy()
	if err := checkGraph(b, so); err != nil {
		return nil, fmt.Errorf("models: bundle %s: %w", dir, err)
	}
	session, err := ort.NewDynamicAdvancedSessionWithONNXData(b.model, b.Inputs, []string{"logits"}, so)
	if err != nil {
		return nil, fmt.Errorf("models: bundle %s: %w", dir, err)
	}
	b.model, b.tokenizerJSON = nil, nil // the session and the tokenizer hold their own copies
	return &Model{Bundle: b, RuntimeVersion: runtime, tok: tok, session: session, meter: cmp.Or(opts.Meter, &Meter{})}, nil
}

// checkGraph finds a bundle.json that does not fit its model.onnx at start rather than at the first claim.
func checkGraph(b *Bundle, so *ort.SessionOptions) error {
	ins, outs, err := ort.GetInputOutputInfoWithONNXData(b.model)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, in := range ins {
		have[in.Name] = true
	}
	var errs []error
	for _, name := range b.Inputs {
		if !have[name] {
			errs = append(errs, fmt.Errorf("%s has no input %q, which %s names", modelFile, name, specFile))
		}
		delete(have, name)
	}
	for name := range have {
		errs = append(errs, fmt.Errorf("%s wants an input %q, which %s does not name", modelFile, name, specFile))
	}
	for _, out := range outs {
		if out.Name != "logits" {
			continue
		}
		if d := out.Dimensions; len(d) == 2 && d[1] > 0 && int(d[1]) != len(b.Labels) {
			errs = append(errs, fmt.Errorf("%s gives %d logits, %s names %d labels", modelFile, d[1], specFile, len(b.Labels)))
		}
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, fmt.Errorf("%s has no output \"logits\"", modelFile))...)
}

func sessionOptions(opts Options) (_ *ort.SessionOptions, err error) {
	so, err := ort.NewSessionOptions()
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	defer func() {
		if err != nil {
			so.Destroy()
		}
	}()
	if err := errors.Join(
		so.SetIntraOpNumThreads(max(1, opts.Threads)),
		so.SetInterOpNumThreads(1),
		so.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll),
		// Spinning threads would take the cores from the Kafka client and the tokenizer.
		so.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
	); err != nil {
		return nil, fmt.Errorf("models: session options: %w", err)
	}
	switch opts.Device {
	case "", CPU:
	case CUDA:
		cuda, err := ort.NewCUDAProviderOptions()
		if err != nil {
			return nil, fmt.Errorf("models: device cuda is not available in this ONNX Runtime (the CPU library cannot run it; use the library of onnxruntime-gpu, or device cpu): %w", err)
		}
		defer cuda.Destroy()
		if err := cuda.Update(map[string]string{"device_id": strconv.Itoa(opts.DeviceID), "arena_extend_strategy": "kSameAsRequested"}); err != nil {
			return nil, fmt.Errorf("models: device cuda: %w", err)
		}
		if err := so.AppendExecutionProviderCUDA(cuda); err != nil {
			return nil, fmt.Errorf("models: device cuda is not available (needs onnxruntime-gpu's library, its CUDA provider beside it, and a GPU; or use device cpu): %w", err)
		}
	default:
		return nil, fmt.Errorf("models: unknown device %q: use cpu or cuda", opts.Device)
	}
	return so, nil
}

// Close frees the session. No Run may be in progress.
func (m *Model) Close() error { return m.session.Destroy() }

// ErrClaimTooLong is returned for a claim that leaves too little of the model's
// length (an eighth or less) for a text that does not fit beside it.
var ErrClaimTooLong = errors.New("the claim is too long for the model: shorten it")

// Encode makes the sequence of a text (a sentence, or a rationale) and a claim,
// in the bundle's pair order. A pair over MaxLength is cut at the text's end,
// never in the claim.
func (m *Model) Encode(text, claim string) (tokenizer.Encoding, error) {
	windows, err := m.Windows(text, claim)
	if err != nil {
		return tokenizer.Encoding{}, err
	}
	return windows[0], nil
}

// Windows is Encode, but a text too long for one sequence comes in several, so
// that nothing of it is dropped. Each repeats an eighth of MaxLength of the one
// before it, so that a clause cut by one window's end stands whole in the next.
func (m *Model) Windows(text, claim string) ([]tokenizer.Encoding, error) {
	cut := m.tok.Windows
	if m.ClaimFirst() {
		cut = func(text, claim string, length, stride int) ([]tokenizer.Encoding, error) {
			return m.tok.WindowsOfSecond(claim, text, length, stride)
		}
	}
	windows, err := cut(text, claim, m.MaxLength, m.MaxLength/8)
	if errors.Is(err, tokenizer.ErrSecondTooLong) || errors.Is(err, tokenizer.ErrFirstTooLong) || errors.Is(err, tokenizer.ErrStride) {
		return nil, ErrClaimTooLong
	}
	return windows, err
}

// Batch is a rectangle of padded sequences, row after row.
type Batch struct {
	Rows, Length     int
	IDs, Mask, Types []int64 // Rows*Length each
}

// Pad lays sequences side by side, each padded at its end to the longest.
func (m *Model) Pad(seqs []tokenizer.Encoding) Batch {
	b := Batch{Rows: len(seqs)}
	for _, s := range seqs {
		b.Length = max(b.Length, len(s.IDs))
	}
	n := b.Rows * b.Length
	flat := make([]int64, 3*n)
	b.IDs, b.Mask, b.Types = flat[:n:n], flat[n:2*n:2*n], flat[2*n:]
	for r, s := range seqs {
		at := r * b.Length
		copy(b.IDs[at:], s.IDs)
		copy(b.Types[at:], s.TypeIDs)
		for i := range s.IDs {
			b.Mask[at+i] = 1
		}
		for i := len(s.IDs); i < b.Length; i++ {
			b.IDs[at+i] = m.PadID
		}
	}
	return b
}

// Run gives the logits of each row, in the order of Labels and divided by the temperature.
func (m *Model) Run(b Batch) ([][]float32, error) {
	if b.Rows == 0 {
		return nil, nil
	}
	inputs := make([]ort.Value, 0, 3)
	defer func() {
		for _, v := range inputs {
			v.Destroy()
		}
	}()
	shape := ort.NewShape(int64(b.Rows), int64(b.Length))
	for _, name := range m.Inputs {
		data := b.IDs
		switch name {
		case "attention_mask":
			data = b.Mask
		case "token_type_ids":
			data = b.Types
		}
		t, err := ort.NewTensor(shape, data)
		if err != nil {
			return nil, fmt.Errorf("models: %s: %w", m.Name, err)
		}
		inputs = append(inputs, t)
	}
	outputs := []ort.Value{nil}
	m.meter.enter()
	err := m.session.Run(inputs, outputs)
	m.meter.leave()
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", m.Name, err)
	}
	defer outputs[0].Destroy()
	out, ok := outputs[0].(*ort.Tensor[float32])
	if !ok {
		return nil, fmt.Errorf("models: %s: logits are not float32", m.Name)
	}
	data := out.GetData()
	if len(data) != b.Rows*len(m.Labels) {
		return nil, fmt.Errorf("models: %s: %d logits for %d rows of %d labels", m.Name, len(data), b.Rows, len(m.Labels))
	}
	rows := make([][]float32, b.Rows)
	t := float32(m.Temperature)
	for r := range rows {
		rows[r] = make([]float32, len(m.Labels))
		for c := range rows[r] {
			rows[r][c] = data[r*len(m.Labels)+c] / t
		}
	}
	return rows, nil
}

// Softmax turns logits into probabilities.
func Softmax(logits []float32) []float32 {
	top := float32(math.Inf(-1))
	for _, x := range logits {
		top = max(top, x)
	}
	out := make([]float32, len(logits))
	var sum float64
	for i, x := range logits {
		e := math.Exp(float64(x - top))
		out[i] = float32(e)
		sum += e
	}
	for i := range out {
		out[i] = float32(float64(out[i]) / sum)
	}
	return out
}
