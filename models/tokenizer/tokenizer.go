package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// maxFileSize bounds what Load reads: a multilingual vocabulary of 250,000
// tokens takes some 10 MB.
const maxFileSize = 64 << 20

var (
	// ErrSecondTooLong is returned for a pair whose second segment and special
	// tokens leave no room for a single token of the first. The first segment
	// alone may be cut, so the caller has to shorten the second.
	ErrSecondTooLong = errors.New("tokenizer: the second segment leaves no room for the first: shorten it or raise the maximum length")

	// ErrFirstTooLong is ErrSecondTooLong for a pair whose second segment is cut.
	ErrFirstTooLong = errors.New("tokenizer: the first segment leaves no room for the second: shorten it or raise the maximum length")

	// ErrMaxLength is returned where the special tokens alone exceed the
	// maximum length.
	ErrMaxLength = errors.New("tokenizer: the maximum length does not hold the special tokens: raise it")

	// ErrStride is returned where windows that overlap by the stride would not
	// advance.
	ErrStride = errors.New("tokenizer: the stride must be at least 0 and less than a window's room for the first segment")
)

// Encoding is one input sequence, special tokens included. Both slices have the
// same length. Every position holds a token, so the attention mask is all ones.
type Encoding struct {
	IDs     []int64 // in [0, VocabSize)
	TypeIDs []int64 // segment of each position, as the file's post-processor has it
}

// Tokenizer gives the ids of one tokenizer.json. It is safe for concurrent use.
type Tokenizer struct {
	model        model
	raw          *matcher // added tokens looked for in the text as given; nil if none
	normalized   *matcher // added tokens looked for in the normalised text; nil if none
	single, pair template
	vocabSize    int
	padID        int64
	scratch      sync.Pool // of *scratch
}

// model is a family of tokenizers: what happens to text between added tokens.
type model interface {
	// normalize appends the normalised text to dst.
	normalize(dst []byte, text string) []byte
	// encode splits normalised text into words and appends their ids to dst.
	encode(dst []int64, text []byte, s *scratch) []int64
}

// scratch holds the buffers of one call, reused between calls.
type scratch struct {
	text   []byte // normalised
	prefix []byte // text with a blank put before it
	a, b   []int64
	spans  []span
	inner  []span
	bpe    bpeScratch
}

// Load reads a tokenizer.json of at most 64 MiB.
func Load(path string) (*Tokenizer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: read %s: %w", path, err)
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("tokenizer: %s exceeds %d MiB: is it a tokenizer.json?", path, maxFileSize>>20)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return t, nil
}

// VocabSize is one more than the largest id that can occur, added tokens
// included: the number of rows a model's embedding needs.
func (t *Tokenizer) VocabSize() int { return t.vocabSize }

// PadID is the id of the token [PAD] or <pad>. It is 0 for a vocabulary that
// has neither, such as GPT-2's, where any id will do under the attention mask.
func (t *Tokenizer) PadID() int64 { return t.padID }

// Encode returns the ids of text without special tokens around it. Special
// tokens written out in the text are recognised. Each maximal ill-formed part
// of invalid UTF-8 counts as one U+FFFD (Unicode Standard, section 3.9, table
// 3-8), as it does in Python with errors='replace'.
func (t *Tokenizer) Encode(text string) []int64 {
	s := t.borrow()
	defer t.scratch.Put(s)
	s.a = t.appendIDs(s.a[:0], text, s)
	return append([]int64{}, s.a...)
}

// EncodeSingle encodes one segment with its special tokens, cut at the end to
// maxLength tokens in all.
func (t *Tokenizer) EncodeSingle(text string, maxLength int) (Encoding, error) {
	room := maxLength - t.single.added
	if room < 0 {
		return Encoding{}, ErrMaxLength
	}
	s := t.borrow()
	defer t.scratch.Put(s)
	s.a = t.appendIDs(s.a[:0], text, s)
	return t.single.build(s.a[:min(len(s.a), room)], nil), nil
}

// EncodePair encodes two segments with their special tokens in at most
// maxLength tokens. Where they do not fit, the first alone is cut, at its end
// (truncation 'only_first'), and must keep at least one token: ErrSecondTooLong
// otherwise.
func (t *Tokenizer) EncodePair(a, b string, maxLength int) (Encoding, error) {
	s := t.borrow()
	defer t.scratch.Put(s)
	room, err := t.encodeBoth(a, b, maxLength, s)
	if err != nil {
		return Encoding{}, err
	}
	return t.pair.build(s.a[:min(len(s.a), room)], s.b), nil
}

// Windows encodes a pair without losing any of the first segment: a segment
// that does not fit is cut into consecutive windows, each encoded with the whole
// of b in at most maxLength tokens. stride is the number of tokens that a window
// repeats from the one before it, at least 0 and less than the room that b leaves
// (ErrStride). A pair that fits gives one window. Other errors are EncodePair's.
func (t *Tokenizer) Windows(a, b string, maxLength, stride int) ([]Encoding, error) {
	s := t.borrow()
	defer t.scratch.Put(s)
	room, err := t.encodeBoth(a, b, maxLength, s)
	if err != nil {
		return nil, err
	}
	return windows(s.a, room, stride, func(part []int64) Encoding { return t.pair.build(part, s.b) })
}

// WindowsOfSecond is Windows for models that have the text in the second
// segment: b is cut, each window is encoded with the whole of a, and
// ErrFirstTooLong says that a leaves no room. The first window is the pair under
// truncation 'only_second'.
func (t *Tokenizer) WindowsOfSecond(a, b string, maxLength, stride int) ([]Encoding, error) {
	s := t.borrow()
	defer t.scratch.Put(s)
	room, err := t.encodeBoth(b, a, maxLength, s) // s.a holds what is cut
	if errors.Is(err, ErrSecondTooLong) {
		err = ErrFirstTooLong
	}
	if err != nil {
		return nil, err
	}
	return windows(s.a, room, stride, func(part []int64) Encoding { return t.pair.build(s.b, part) })
}

func windows(ids []int64, room, stride int, build func([]int64) Encoding) ([]Encoding, error) {
	if stride < 0 {
		return nil, ErrStride
	}
	if len(ids) <= room {
		return []Encoding{build(ids)}, nil
	}
	if stride >= room {
		return nil, ErrStride
	}
	var out []Encoding
	for start := 0; ; start += room - stride {
		end := min(start+room, len(ids))
		out = append(out, build(ids[start:end]))
		if end == len(ids) {
			return out, nil
		}
	}
}

// encodeBoth fills s.a and s.b and returns how many tokens of s.a fit.
func (t *Tokenizer) encodeBoth(a, b string, maxLength int, s *scratch) (room int, err error) {
	if maxLength < t.pair.added {
		return 0, ErrMaxLength
	}
	s.b = t.appendIDs(s.b[:0], b, s)
	s.a = t.appendIDs(s.a[:0], a, s)
	room = maxLength - t.pair.added - len(s.b)
	if room < 0 || room == 0 && len(s.a) > 0 {
		return 0, ErrSecondTooLong
	}
	return room, nil
}

func (t *Tokenizer) borrow() *scratch {
	if s, ok := t.scratch.Get().(*scratch); ok {
		return s
	}
	return new(scratch)
}

// appendIDs appends the ids of text to dst. Added tokens come first: those
// matched in the text as given, then, between them, those matched in the
// normalised text. What is left over goes to the model piece by piece.
func (t *Tokenizer) appendIDs(dst []int64, text string, s *scratch) []int64 {
	text = replaceInvalid(text)
	s.spans = t.raw.split(s.spans[:0], text)
	for _, outer := range s.spans {
		if outer.id >= 0 {
			dst = append(dst, outer.id)
			continue
		}
		s.text = t.model.normalize(s.text[:0], text[outer.start:outer.end])
		if t.normalized == nil {
			dst = t.model.encode(dst, s.text, s)
			continue
		}
		s.inner = t.normalized.split(s.inner[:0], string(s.text))
		for _, inner := range s.inner {
			if inner.id >= 0 {
				dst = append(dst, inner.id)
				continue
			}
			dst = t.model.encode(dst, s.text[inner.start:inner.end], s)
		}
	}
	return dst
}
