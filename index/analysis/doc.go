// Package analysis turns papers and queries into the terms that they are
// indexed and searched by. Every index implementation uses it, so that all of
// them see the same terms.
//
// It doesn't weigh or count terms: the arithmetic of a ranking is the index's.
package analysis
