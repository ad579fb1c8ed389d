package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// nextWord returns the length of the word at the start of text, which must not
// be empty, by GPT-2's pattern
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// written out by hand because Go's regular expressions have no look-ahead.
func nextWord(text []byte) int {
	if n := contraction(text); n > 0 {
		return n
	}
	start := 0
	if text[0] == ' ' && len(text) > 1 {
		start = 1
	}
	class, size := classAt(text[start:])
	if class != space {
		return start + runLength(text[start:], class, size)
	}
	// White space: up to the end of the text, or all but the last character,
	// which the next word may take as its blank.
	_, size = classAt(text)
	end := runLength(text, space, size)
	if end == len(text) || end == size {
		return end
	}
	_, last := utf8.DecodeLastRune(text[:end])
	return end - last
}

func contraction(text []byte) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	switch text[1] {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v', 'l':
		if len(text) > 2 && (text[2] == 'e' && text[1] != 'l' || text[2] == 'l' && text[1] == 'l') {
			return 3
		}
	}
	return 0
}

type class uint8

const (
	other class = iota
	letters
	numbers
	space
)

// classAt returns the class and the length of the first character of text.
func classAt(text []byte) (class, int) {
	if c := text[0]; c < utf8.RuneSelf {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			return letters, 1
		case '0' <= c && c <= '9':
			return numbers, 1
		case c == ' ' || '\t' <= c && c <= '\r':
			return space, 1
		}
		return other, 1
	}
	r, size := utf8.DecodeRune(text)
	switch {
	case unicode.Is(letter, r):
		return letters, size
	case unicode.Is(number, r):
		return numbers, size
	case unicode.IsSpace(r):
		return space, size
	}
	return other, size
}

// runLength returns the length of the run of characters of class c at the start
// of text, the first of which takes n bytes.
func runLength(text []byte, c class, n int) int {
	for n < len(text) {
		next, size := classAt(text[n:])
		if next != c {
			break
		}
		n += size
	}
	return n
}

// byteAlphabet maps GPT-2's alphabet to bytes: printable Latin-1 characters stand
// for their own byte, those from U+0100 onwards for the others in order.
func byteAlphabet() map[rune]byte {
	m := make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !('!' <= r && r <= '~' || '¡' <= r && r <= '¬' || '®' <= r && r <= 'ÿ') {
			r, next = next, next+1
		}
		m[r] = byte(b)
	}
	return m
}

// rawBytes returns the bytes that a token stands for. A token with a character
// outside the alphabet, such as an added one, stands for none.
func rawBytes(alphabet map[rune]byte, token string) (string, bool) {
	raw := make([]byte, 0, len(token))
	for _, r := range token {
		c, ok := alphabet[r]
		if !ok {
			return "", false
		}
		raw = append(raw, c)
	}
	return string(raw), true
}
