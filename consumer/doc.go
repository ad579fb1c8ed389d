// Package consumer takes claims from Kafka to verdicts in Kafka, exactly once:
// a verdict, or a dead letter, and the offset of its claim are committed in one
// transaction, so that readers of committed records see one answer for each
// record of the claims topic whatever is killed when. A compressed batch of
// records that is too large to be unpacked gets one dead letter for all of them.
//
// It does not verify (it is given a Verifier) and does not know what the records
// look like (the producer package does).
package consumer
