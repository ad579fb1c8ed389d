package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is looked for in the text before the model sees it.
type addedToken struct {
	content        string // what to look for
	id             int64
	singleWord     bool // not where it is part of a longer word
	lstrip, rstrip bool // takes the white space on that side with it
}

// span is a part of a text: an added token, or what lies between two of them.
type span struct {
	start, end int
	id         int64 // -1 between added tokens
}

// matcher finds added tokens, the longest at the leftmost place first. A nil
// matcher finds none.
type matcher struct {
	byFirst [256][]addedToken // by first byte, the longest first
}

func newMatcher(tokens []addedToken) *matcher {
	if len(tokens) == 0 {
		return nil
	}
	m := new(matcher)
	for _, t := range tokens {
		m.byFirst[t.content[0]] = append(m.byFirst[t.content[0]], t)
	}
	for _, list := range m.byFirst {
		slices.SortFunc(list, func(x, y addedToken) int { return len(y.content) - len(x.content) })
	}
	return m
}

// at returns the longest added token that starts at text[i], or nil.
func (m *matcher) at(text string, i int) *addedToken {
	list := m.byFirst[text[i]]
	for k := range list {
		if strings.HasPrefix(text[i:], list[k].content) {
			return &list[k]
		}
	}
	return nil
}

// split appends the spans of text to dst, those of length 0 left out. A span of
// an added token covers the white space it strips, and may so overlap the added
// token after it.
func (m *matcher) split(dst []span, text string) []span {
	done := 0 // everything before it is in some span
	for i := 0; m != nil && i < len(text); {
		t := m.at(text, i)
		if t == nil {
			i++
			continue
		}
		start, end := i, i+len(t.content)
		i = end
		if t.singleWord && (endsInWord(text[:start]) || startsInWord(text[end:])) {
			continue
		}
		if t.lstrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if t.rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if done < start {
			dst = append(dst, span{done, start, -1})
		}
		dst = append(dst, span{start, end, t.id})
		done = end
	}
	if done < len(text) {
		dst = append(dst, span{done, len(text), -1})
	}
	return dst
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsInWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}
