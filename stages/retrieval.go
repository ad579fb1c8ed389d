package stages

import (
	"context"
	"fmt"

	"github.com/verisci/verisci/index"
)

// Searcher is what retrieval needs of an index.
type Searcher interface {
	Search(ctx context.Context, queries []string, k int) (index.Result, error)
}

// Retrieval finds the K best abstracts for each claim. An error of the index
// is the batch's: it may pass.
type Retrieval struct {
	Index Searcher
	K     int
}

func (r *Retrieval) Name() string { return "retrieval" }

func (r *Retrieval) Run(ctx context.Context, batch []*Work) error {
	queries := make([]string, len(batch))
	for i, w := range batch {
		queries[i] = w.Claim.Text
	}
	found, err := r.Index.Search(ctx, queries, r.K)
	if err != nil {
		return err
	}
	if len(found.Hits) != len(batch) {
		return fmt.Errorf("the index answered %d of %d queries", len(found.Hits), len(batch))
	}
	for i, w := range batch {
		w.IndexVersion = found.Version
		w.Candidates = make([]Candidate, len(found.Hits[i]))
		for rank, hit := range found.Hits[i] {
			w.Candidates[rank] = Candidate{Paper: hit.Paper, Rank: rank + 1, Score: hit.Score}
		}
	}
	return nil
}
