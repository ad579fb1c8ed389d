package index

import (
	"context"
	"fmt"

	"github.com/verisci/verisci/schemas"
)

// Ranking names how hits are scored.
type Ranking string

const (
	Reference Ranking = "reference" // scikit-learn's TF-IDF over unigrams and bigrams, as the SciFact paper ran it
	TFIDF     Ranking = "tfidf"     // TF-IDF with stemming, damped tf and an idf-free length norm (Lucene's classic similarity)
	BM25      Ranking = "bm25"      // Okapi BM25 (k1 1.2, b 0.75) with stemming
)

// ParseRanking reports an error that lists the rankings there are.
func ParseRanking(s string) (Ranking, error) {
	switch r := Ranking(s); r {
	case Reference, TFIDF, BM25:
		return r, nil
	}
	return "", fmt.Errorf("index: unknown ranking %q: use reference, tfidf or bm25", s)
}

// Hit is one abstract found for a query.
type Hit struct {
	Paper *schemas.Paper
	Score float64 // > 0; comparable only within one query of one ranking
}

// Stats describe an index at one moment.
type Stats struct {
	Papers  int     `json:"papers"`
	Ranking Ranking `json:"ranking"`
	Version string  `json:"version"` // the same for the same papers, whatever the order they came in; changes with any paper
}

// Result is what a batch of queries found, and the version of the index that it was found in.
type Result struct {
	Hits    [][]Hit // one list a query, best first; equal scores in the order of paper ids
	Version string
}

// Index is a collection of papers that can be searched. Implementations are
// safe for concurrent use.
type Index interface {
	// Upsert adds papers or replaces those with the same id; a batch is applied whole or not at all.
	Upsert(ctx context.Context, papers []schemas.Paper) error
	// Delete removes papers by id; unknown ids are passed over.
	Delete(ctx context.Context, ids []string) error
	// Search finds the best k papers for each query. A paper with score 0 is not a hit.
	Search(ctx context.Context, queries []string, k int) (Result, error)
	Stats(ctx context.Context) (Stats, error)
	Close() error
}
