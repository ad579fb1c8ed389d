package analysis

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/verisci/verisci/schemas"
)

// reference analyzes as scikit-learn's TfidfVectorizer(stop_words='english',
// ngram_range=(1, 2)) does: str.lower, the token pattern (?u)\b\w\w+\b, stop
// words dropped, then unigrams followed by bigrams of the words left.
//
// Python's and Go's versions of Unicode may differ in characters added since
// Unicode 14.
type reference struct {
	stop map[string]bool
}

// Paper joins the title and the sentences as the SciFact paper's code did,
// without a blank after the title.
func (a reference) Paper(p *schemas.Paper) []string {
	return a.Query(p.Title + strings.Join(p.Abstract, " "))
}

func (a reference) Query(text string) []string {
	var terms []string
	// A maximal run of two or more word characters is what the pattern matches.
	for _, w := range strings.FieldsFunc(pythonLower(text), notWord) {
		if moreThanOneRune(w) && !a.stop[w] {
			terms = append(terms, w)
		}
	}
	return appendBigrams(terms)
}

func appendBigrams(words []string) []string {
	terms := words
	for i := 1; i < len(words); i++ {
		terms = append(terms, words[i-1]+" "+words[i])
	}
	return terms
}

// notWord is the complement of Python's \w: letters, everything numeric and _.
func notWord(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '_'
}

func moreThanOneRune(w string) bool {
	_, n := utf8.DecodeRuneInString(w)
	return n < len(w)
}

// pythonLower is Python's str.lower. It differs from strings.ToLower in two
// characters: İ becomes two characters, and Σ becomes ς at the end of a word
// (Unicode Standard, section 3.13, Final_Sigma).
func pythonLower(s string) string {
	if !strings.ContainsAny(s, "İΣ") {
		return strings.ToLower(s)
	}
	runes := []rune(s)
	var b strings.Builder
	cased := false // whether a cased letter precedes, ignorable ones between
	for i, r := range runes {
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ' && cased && !casedFollows(runes[i+1:]):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
		if !caseIgnorable(r) {
			cased = isCased(r)
		}
	}
	return b.String()
}

func casedFollows(runes []rune) bool {
	for _, r := range runes {
		if !caseIgnorable(r) {
			return isCased(r)
		}
	}
	return false
}

func isCased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Uppercase, unicode.Other_Lowercase)
}

// caseIgnorable is Unicode's property of that name: marks, format characters,
// modifiers, and what may stand inside a word (Word_Break = MidLetter,
// MidNumLet or Single_Quote).
func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r)
}
