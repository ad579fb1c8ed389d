// Package eval measures VeriSci against labelled claims in SciFact's format:
// recall of retrieval, and the four precision, recall and F1 figures of the
// whole pipeline (SciFact paper, section 5). It also reads and writes
// predictions in the format that the paper's evaluator and leaderboard take.
//
// It runs no stage itself: retrieval is searched through the Searcher it is
// handed, and verdicts come from whoever ran the pipeline. It is not for
// training and picks no thresholds.
package eval
