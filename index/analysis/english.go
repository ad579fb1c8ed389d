package analysis

import (
	"strings"
	"unicode"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/porter"

	"github.com/verisci/verisci/schemas"
)

// Only words of minStemmed to maxStemmed bytes are stemmed. Porter's own program
// leaves shorter ones alone, of which nothing might be left; a longer one is no
// English word, and the stemmer copies a word at every step.
const (
	minStemmed = 3
	maxStemmed = 64
)

// english follows Lucene's EnglishAnalyzer: words, possessive 's removed, lower
// case, stop words removed, Porter's stemmer. Unlike there, a number is cut at
// its points and commas, and words of one letter count: vitamin D, T cells.
type english struct {
	stop map[string]bool
}

func (a english) Paper(p *schemas.Paper) []string {
	return a.Query(p.Title + " " + strings.Join(p.Abstract, " "))
}

func (a english) Query(text string) []string {
	var terms []string
	stemmer := snowballstem.NewEnv("")
	for _, w := range strings.FieldsFunc(strings.ToLower(text), notEnglishWord) {
		w = strings.TrimSuffix(strings.Trim(strings.ReplaceAll(w, "’", "'"), "'"), "'s")
		if w == "" || a.stop[w] {
			continue
		}
		if minStemmed <= len(w) && len(w) <= maxStemmed {
			stemmer.SetCurrent(w)
			porter.Stem(stemmer)
			w = stemmer.Current()
		}
		terms = append(terms, w)
	}
	return terms
}

// notEnglishWord keeps marks in a word, so that a letter and its accent stay
// together, and apostrophes, which are trimmed at the word's ends.
func notEnglishWord(r rune) bool {
	return !unicode.In(r, unicode.Letter, unicode.Number, unicode.Mark) && r != '\'' && r != '’'
}
