package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// wordPiece is the family of BERT: a word becomes the longest token that starts
// it, then the longest that continues it, and so on; a word that does not come
// out whole is unknown.
type wordPiece struct {
	normalizer   *bertNormalizer // nil leaves text as it is
	starts       map[string]int32
	continuing   map[string]int32 // without their prefix
	longest      int              // bytes of the longest key
	unknown      int64
	maxWordChars int
}

func (w *wordPiece) normalize(dst []byte, text string) []byte {
	if w.normalizer == nil {
		return append(dst, text...)
	}
	return w.normalizer.append(dst, text)
}

// encode splits text at white space, which is dropped, and at punctuation, each
// character of which is a word.
func (w *wordPiece) encode(dst []int64, text []byte, _ *scratch) []int64 {
	start := 0
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		space := unicode.IsSpace(r)
		if !space && !isPunctuation(r) {
			i += size
			continue
		}
		if start < i {
			dst = w.encodeWord(dst, text[start:i])
		}
		start = i + size
		if !space {
			dst = w.encodeWord(dst, text[i:start])
		}
		i = start
	}
	if start < len(text) {
		dst = w.encodeWord(dst, text[start:])
	}
	return dst
}

func (w *wordPiece) encodeWord(dst []int64, word []byte) []int64 {
	if len(word) > w.maxWordChars && utf8.RuneCount(word) > w.maxWordChars {
		return append(dst, w.unknown)
	}
	before := len(dst)
	tokens := w.starts
	for len(word) > 0 {
		n := min(len(word), w.longest)
		for n < len(word) && !utf8.RuneStart(word[n]) {
			n--
		}
		id, ok := tokens[string(word[:n])]
		for !ok {
			_, size := utf8.DecodeLastRune(word[:n])
			if n -= size; n <= 0 {
				return append(dst[:before], w.unknown)
			}
			id, ok = tokens[string(word[:n])]
		}
		dst = append(dst, int64(id))
		word = word[n:]
		tokens = w.continuing
	}
	return dst
}

// isPunctuation counts every ASCII character that is neither letter, digit,
// control nor blank, also symbols such as $ and ^.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return '!' <= r && r <= '/' || ':' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
	}
	return unicode.Is(punctuation, r)
}
