// Package index finds the abstracts that bear on a claim: the interface that
// every index implements and the types it speaks.
//
// The embedded implementation is in index/embedded, the analyzers that any
// implementation shares are in index/analysis. It is not a general search
// engine: queries are plain text, every hit is scored exactly.
package index
