package analysis

import (
	"strings"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/schemas"
)

// Analyzer turns text into terms, repeated as often as they occur. It is safe
// for concurrent use. Bytes that are not UTF-8 separate words.
type Analyzer interface {
	Paper(p *schemas.Paper) []string
	Query(text string) []string
}

// New gives the analyzer of a ranking: Reference has its own, TFIDF and BM25
// share English. An unknown ranking is an error.
func New(r index.Ranking) (Analyzer, error) {
	r, err := index.ParseRanking(string(r))
	if err != nil {
		return nil, err
	}
	if r == index.Reference {
		return reference{stop: wordSet(scikitStopWords)}, nil
	}
	return english{stop: wordSet(luceneStopWords)}, nil
}

func wordSet(words string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}
