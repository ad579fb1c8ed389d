// Package render shows verdicts to people, on a terminal of any width. For
// programs a verdict's JSON and Avro forms are in package schemas.
//
// Whether to colour is the caller's decision, who knows about NO_COLOR and
// whether the writer is a terminal. All text of a verdict comes from strangers
// (claims and papers), so none of it reaches the terminal unfiltered.
package render
