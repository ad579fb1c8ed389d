package tokenizer

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer cleans text the way BERT's basic tokenizer does.
type bertNormalizer struct {
	cleanText    bool // drop control characters, make all white space blanks
	chineseChars bool // put blanks around ideographs
	stripAccents bool // canonical decomposition, then drop nonspacing marks
	lowercase    bool
}

// append appends the normalised text to dst. The steps run in the order of the
// reference, but one character at a time through all of them.
func (n *bertNormalizer) append(dst []byte, text string) []byte {
	w := bertWriter{bertNormalizer: n, dst: dst}
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			i++
			w.ascii(c)
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		if n.cleanText {
			if r == utf8.RuneError || unicode.Is(removed, r) {
				continue
			}
			if unicode.IsSpace(r) {
				w.starter(' ')
				continue
			}
		}
		ideograph := n.chineseChars && isIdeograph(r)
		if ideograph {
			w.starter(' ')
		}
		if n.stripAccents {
			w.decompose(r)
		} else {
			w.starter(r)
		}
		if ideograph {
			w.starter(' ')
		}
	}
	w.flush()
	return w.dst
}

// bertWriter collects normalised text. Canonical reordering is the one step that
// needs more than one character: marks holds those since the last starter.
type bertWriter struct {
	*bertNormalizer
	dst   []byte
	marks []mark
}

// mark is a character with a canonical combining class other than 0 that is not
// dropped as an accent.
type mark struct {
	r     rune
	class uint8
}

func (w *bertWriter) ascii(c byte) {
	if len(w.marks) > 0 {
		w.flush()
	}
	if w.cleanText && (c < ' ' || c == 0x7f) {
		if c != '\t' && c != '\n' && c != '\r' {
			return
		}
		c = ' '
	}
	if w.lowercase && 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	w.dst = append(w.dst, c)
}

// decompose writes the canonical decomposition of r without nonspacing marks.
func (w *bertWriter) decompose(r rune) {
	if hangulBase <= r && r < hangulEnd {
		w.hangul(r - hangulBase)
		return
	}
	var buf [utf8.UTFMax]byte
	whole := utf8.AppendRune(buf[:0], r)
	if d := norm.NFD.Properties(whole).Decomposition(); d != nil && r != undecomposed {
		whole = d
	}
	for len(whole) > 0 {
		r, size := utf8.DecodeRune(whole)
		switch class := combiningClass(r); {
		case unicode.Is(nonspacing, r):
			if norm.NFD.Properties(whole).CCC() == 0 {
				w.flush() // dropped, but a starter all the same
			}
		case class != 0:
			w.marks = append(w.marks, mark{r, class})
		default:
			w.starter(r)
		}
		whole = whole[size:]
	}
}

// Hangul syllables are decomposed by rule (Unicode Standard, section 3.12).
const (
	hangulBase = 0xAC00
	vowels     = 21
	tails      = 28 // the first stands for none
	hangulEnd  = hangulBase + 19*vowels*tails
)

func (w *bertWriter) hangul(index rune) {
	w.starter(0x1100 + index/(vowels*tails))
	w.starter(0x1161 + index%(vowels*tails)/tails)
	if tail := index % tails; tail != 0 {
		w.starter(0x11A7 + tail)
	}
}

func (w *bertWriter) starter(r rune) {
	w.flush()
	w.write(r)
}

// flush writes the marks since the last starter in canonical order.
func (w *bertWriter) flush() {
	if len(w.marks) == 0 {
		return
	}
	slices.SortStableFunc(w.marks, func(x, y mark) int { return int(x.class) - int(y.class) })
	for _, m := range w.marks {
		w.write(m.r)
	}
	w.marks = w.marks[:0]
}

func (w *bertWriter) write(r rune) {
	if w.lowercase {
		if r == 'İ' { // the one character whose lower case is two
			w.dst = append(w.dst, "i\u0307"...)
			return
		}
		r = lowerCase.ToLower(r)
	}
	w.dst = utf8.AppendRune(w.dst, r)
}

// isIdeograph follows BERT's list of CJK blocks. It leaves out U+2B820 to
// U+2B91F: the reference has 2B920 where the block starts at 2B820.
func isIdeograph(r rune) bool {
	return r >= 0x3400 && unicode.Is(ideographs, r)
}

var ideographs = &unicode.RangeTable{
	R16: []unicode.Range16{{0x3400, 0x4DBF, 1}, {0x4E00, 0x9FFF, 1}, {0xF900, 0xFAFF, 1}},
	R32: []unicode.Range32{
		{0x20000, 0x2A6DF, 1}, {0x2A700, 0x2B73F, 1}, {0x2B740, 0x2B81F, 1},
		{0x2B920, 0x2CEAF, 1}, {0x2F800, 0x2FA1F, 1},
	},
}
