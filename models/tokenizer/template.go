package tokenizer

// template is how special tokens and segments make up one input sequence.
type template struct {
	pieces []piece
	added  int // special tokens in all
}

// piece is a run of special tokens, or a whole segment.
type piece struct {
	source source
	ids    []int64 // of special
	typeID int64
}

type source uint8

const (
	special source = iota
	first
	second
)

func newTemplate(pieces ...piece) template {
	t := template{pieces: pieces}
	for _, p := range pieces {
		t.added += len(p.ids)
	}
	return t
}

// count returns how often the template has a segment.
func (t template) count(s source) (n int) {
	for _, p := range t.pieces {
		if p.source == s {
			n++
		}
	}
	return n
}

func (t template) build(a, b []int64) Encoding {
	n := t.added + len(a) + len(b)
	both := make([]int64, 0, 2*n)
	ids, types := both[:0:n], both[n:n]
	for _, p := range t.pieces {
		part := p.ids
		switch p.source {
		case first:
			part = a
		case second:
			part = b
		}
		ids = append(ids, part...)
		for range part {
			types = append(types, p.typeID)
		}
	}
	return Encoding{IDs: ids, TypeIDs: types}
}
