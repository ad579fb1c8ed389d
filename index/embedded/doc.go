// Package embedded is an index that lives in the process: an inverted index in
// memory, exact in its scores, behind an append-only log on disk.
//
// The log is the only truth (log.go): every Upsert and Delete is one batch in
// it, synced before the call returns, and Open replays it up to its last good
// commit. Postings are rebuilt at Open and never stored (inverted.go). What a
// ranking computes is in similarity.go; how text becomes terms is package
// analysis.
//
// It holds papers and postings in memory: SciFact's 5,183 abstracts take 18 MB
// with the stemming rankings, half of it text, and 77 MB with the reference
// ranking, most of it a vocabulary of bigrams (BenchmarkOpen). In proportion,
// 500,000 abstracts would take about 1.8 GB, and at most 7.5 GB with the
// reference ranking. Reading the text from the log instead would save the
// smaller half, for a read and a decoding each hit.
//
// One process opens a directory at a time. It is not distributed, and it knows
// one ranking at once: a directory may be opened with another any time, as the
// log holds papers alone.
package embedded
