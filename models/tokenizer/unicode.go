package tokenizer

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// undecomposed has a canonical decomposition since Unicode 13, which the
// reference does not know of.
const undecomposed = '\U00011938'

func isWord(r rune) bool { return unicode.Is(word, r) }

// combiningClass returns the canonical combining class of a character that is
// not in nonspacing.
func combiningClass(r rune) uint8 {
	i := sort.Search(len(reordered), func(i int) bool { return reordered[i].high >= r })
	if i < len(reordered) && reordered[i].low <= r {
		return reordered[i].class
	}
	return 0
}

// replaceInvalid puts one U+FFFD in the place of each maximal ill-formed part of
// s. (Go's own conversions put one for each byte, or one for a run of them.)
func replaceInvalid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			size = illFormed(s)
		}
		b.WriteRune(r)
		s = s[size:]
	}
	return b.String()
}

// illFormed returns the length of the maximal subpart at the start of s, which
// is not well-formed: the longest start of any well-formed sequence, or one byte.
func illFormed(s string) int {
	n, low, high := 0, byte(0x80), byte(0xBF) // bytes that should follow; bounds of the next
	switch c := s[0]; {
	case 0xC2 <= c && c <= 0xDF:
		n = 1
	case 0xE0 <= c && c <= 0xEF:
		n = 2
		switch c {
		case 0xE0:
			low = 0xA0
		case 0xED:
			high = 0x9F
		}
	case 0xF0 <= c && c <= 0xF4:
		n = 3
		switch c {
		case 0xF0:
			low = 0x90
		case 0xF4:
			high = 0x8F
		}
	}
	size := 1
	for size <= n && size < len(s) && low <= s[size] && s[size] <= high {
		size, low, high = size+1, 0x80, 0xBF
	}
	return size
}
