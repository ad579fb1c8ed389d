// Package papers reads papers from files, in batches, for an index to take in.
//
// It knows SciFact's corpus and lines of schemas.Paper, one JSON object a line,
// and tells them apart by the first line. It doesn't index, and it draws no
// progress bar: it calls back.
package papers
