package embedded

import (
	"math"

	"github.com/verisci/verisci/index"
)

// similarity is the arithmetic of one ranking. The score of a paper is the sum,
// over the query's terms, of the term's weight times part.
type similarity interface {
	// weigh sets the weight of each term of a query against so many papers.
	weigh(query []queryTerm, papers int)
	// norms gives a number for each slot. It is computed at the first search after a change.
	norms(x *inverted) []float64
	// part is what tf occurrences of a term of weight 1 add to a paper's score; always > 0.
	part(tf uint32, norm float64) float64
}

type queryTerm struct {
	id     uint32
	tf     int // occurrences in the query, at least 1
	df     int // papers that have the term, at least 1
	weight float64
}

func newSimilarity(r index.Ranking) similarity {
	switch r {
	case index.Reference:
		return cosine{}
	case index.TFIDF:
		return classic{}
	default:
		return bm25{k1: 1.2, b: 0.75}
	}
}

// cosine is scikit-learn's TfidfVectorizer with its defaults: raw tf, smoothed
// idf, both vectors of length 1. Terms that no paper has don't count towards
// the query's length.
type cosine struct{}

func smoothIDF(papers, df int) float64 {
	return math.Log(float64(1+papers)/float64(1+df)) + 1
}

func (cosine) weigh(query []queryTerm, papers int) {
	var sum float64
	for i := range query {
		t := &query[i]
		idf := smoothIDF(papers, t.df)
		w := float64(t.tf) * idf
		sum += w * w
		t.weight = w * idf // the paper's idf and the query's
	}
	for i := range query {
		query[i].weight /= math.Sqrt(sum)
	}
}

// norms are the inverse lengths of the papers' vectors. Each hangs on the idf of
// all its terms, so any change to the index changes all of them.
func (cosine) norms(x *inverted) []float64 {
	norms := make([]float64, len(x.docs))
	for i := range x.terms {
		t := &x.terms[i]
		idf := smoothIDF(x.live(), t.df)
		for _, p := range t.postings {
			w := float64(p.tf) * idf
			norms[p.slot] += w * w
		}
	}
	for i, sum := range norms {
		if sum > 0 {
			norms[i] = 1 / math.Sqrt(sum)
		}
	}
	return norms
}

func (cosine) part(tf uint32, norm float64) float64 { return float64(tf) * norm }

// classic is Lucene's ClassicSimilarity without the factors that are the same
// for all papers: sqrt(tf), idf twice, 1/sqrt(length). The length is exact,
// where Lucene rounds it to a byte.
type classic struct{}

func (classic) weigh(query []queryTerm, papers int) {
	for i := range query {
		t := &query[i]
		idf := smoothIDF(papers, t.df)
		t.weight = float64(t.tf) * idf * idf
	}
}

func (classic) norms(x *inverted) []float64 {
	norms := make([]float64, len(x.docs))
	for i := range x.docs {
		norms[i] = 1 / math.Sqrt(float64(max(1, x.docs[i].length)))
	}
	return norms
}

func (classic) part(tf uint32, norm float64) float64 { return math.Sqrt(float64(tf)) * norm }

// bm25 is Okapi BM25 with Lucene's idf, which is never negative.
type bm25 struct{ k1, b float64 }

func (bm25) weigh(query []queryTerm, papers int) {
	for i := range query {
		t := &query[i]
		idf := math.Log(1 + (float64(papers-t.df)+0.5)/(float64(t.df)+0.5))
		t.weight = float64(t.tf) * idf
	}
}

func (s bm25) norms(x *inverted) []float64 {
	norms := make([]float64, len(x.docs))
	mean := float64(max(1, x.length)) / float64(max(1, x.live()))
	for i := range x.docs {
		norms[i] = s.k1 * (1 - s.b + s.b*float64(x.docs[i].length)/mean)
	}
	return norms
}

func (s bm25) part(tf uint32, norm float64) float64 {
	return float64(tf) * (s.k1 + 1) / (float64(tf) + norm)
}
