package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/verisci/verisci/index"
)

// Searcher finds the best k papers for each query, best first; every
// index.Index is one.
type Searcher interface {
	Search(ctx context.Context, queries []string, k int) (index.Result, error)
}

// cutoffs are the numbers of hits looked at, those of the published tables.
var cutoffs = [...]int{1, 3, 5, 10, 20}

// searchBatch is how many queries go into one search, so that a remote index
// gets requests of bounded size.
const searchBatch = 64

// AtK is a measure at each cutoff, fractions from 0 to 1. In JSON it is an
// object whose keys are in numeric order: {"1": 0.5, "3": 0.6, ...}.
type AtK []Point

// Point is a measure over the best K hits.
type Point struct {
	K     int
	Value float64
}

// At returns the value at one cutoff; false where it was not measured.
func (a AtK) At(k int) (float64, bool) {
	i := slices.IndexFunc(a, func(p Point) bool { return p.K == k })
	if i < 0 {
		return 0, false
	}
	return a[i].Value, true
}

// MarshalJSON writes the object in the order of the points.
func (a AtK) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, p := range a {
		if i > 0 {
			out = append(out, ',')
		}
		value, err := json.Marshal(p.Value)
		if err != nil {
			return nil, err
		}
		out = append(strconv.AppendQuote(out, strconv.Itoa(p.K)), ':')
		out = append(out, value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *AtK) UnmarshalJSON(data []byte) error {
	var o object[float64]
	if err := o.UnmarshalJSON(data); err != nil {
		return fmt.Errorf("eval: measure at k: %w", err)
	}
	*a = AtK{}
	for _, m := range o {
		k, err := strconv.Atoi(m.key)
		if err != nil {
			return fmt.Errorf("eval: measure at k: %q is not a number of hits", m.key)
		}
		*a = append(*a, Point{k, m.value})
	}
	return nil
}

// RetrievalReport measures abstract retrieval.
type RetrievalReport struct {
	Recall AtK `json:"recall"`  // fraction of the pairs of a claim and an evidence abstract that were found
	HitOne AtK `json:"hit_one"` // fraction of the claims with some evidence abstract found, or with none to find
	HitAll AtK `json:"hit_all"` // fraction of the claims with every evidence abstract found

	Claims       int    `json:"claims"`
	Pairs        int    `json:"pairs"` // of a claim and an evidence abstract
	IndexVersion string `json:"index_version"`
}

// EvaluateRetrieval searches for every claim and reports what was found at 1,
// 3, 5, 10 and 20 hits. It is an error if a claim is unlabelled or doubled, if
// no claim has evidence, or if the index changes while it is measured.
func EvaluateRetrieval(ctx context.Context, s Searcher, claims []Claim) (RetrievalReport, error) {
	if _, err := labelledIDs(claims); err != nil {
		return RetrievalReport{}, fmt.Errorf("eval: %w", err)
	}
	ranks, version, err := evidenceRanks(ctx, s, claims)
	if err != nil {
		return RetrievalReport{}, err
	}
	report := RetrievalReport{Claims: len(claims), IndexVersion: version}
	for _, claim := range ranks {
		report.Pairs += len(claim)
	}
	if report.Pairs == 0 {
		return RetrievalReport{}, errors.New("eval: the claims have no evidence to retrieve")
	}
	for _, k := range cutoffs {
		var pairs, one, all int
		for _, claim := range ranks {
			found := 0
			for _, rank := range claim {
				if rank <= k {
					found++
				}
			}
			pairs += found
			if found > 0 || len(claim) == 0 {
				one++
			}
			if found == len(claim) {
				all++
			}
		}
		report.Recall = append(report.Recall, Point{k, float64(pairs) / float64(report.Pairs)})
		report.HitOne = append(report.HitOne, Point{k, float64(one) / float64(len(claims))})
		report.HitAll = append(report.HitAll, Point{k, float64(all) / float64(len(claims))})
	}
	return report, nil
}

// evidenceRanks gives, for every claim, the rank at which each evidence abstract
// was found; one past the last cutoff where it was not.
func evidenceRanks(ctx context.Context, s Searcher, claims []Claim) (ranks [][]int, version string, err error) {
	depth := cutoffs[len(cutoffs)-1]
	for batch := range slices.Chunk(claims, searchBatch) {
		queries := make([]string, len(batch))
		for i, c := range batch {
			queries[i] = c.Text
		}
		result, err := s.Search(ctx, queries, depth)
		if err != nil {
			return nil, "", fmt.Errorf("eval: retrieval: %w", err)
		}
		if len(result.Hits) != len(queries) {
			return nil, "", fmt.Errorf("eval: retrieval: %d queries got %d lists of hits", len(queries), len(result.Hits))
		}
		if len(ranks) > 0 && result.Version != version {
			return nil, "", fmt.Errorf("eval: retrieval: the index changed from %s to %s while it was measured: stop its writers", version, result.Version)
		}
		version = result.Version
		for i, c := range batch {
			claim := make([]int, len(c.Evidence))
			for j, g := range c.Evidence {
				claim[j] = depth + 1
				if at := slices.IndexFunc(result.Hits[i], func(h index.Hit) bool { return h.Paper.ID == g.PaperID }); at >= 0 {
					claim[j] = at + 1
				}
			}
			ranks = append(ranks, claim)
		}
	}
	return ranks, version, nil
}
