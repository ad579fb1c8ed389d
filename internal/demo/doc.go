// Package demo holds the abstracts and claims that a newcomer tries VeriSci
// with, so that a first run needs no download.
//
// The abstracts are short summaries of well-established findings, written for
// this demo in the style of a research abstract. They are not publications: they
// name no authors, journals or identifiers, and must not be cited. They are for
// looking at, not for measuring: quality is measured on SciFact, by package eval.
package demo
