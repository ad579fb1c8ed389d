// Package producer makes the records that VeriSci writes to Kafka (verdicts,
// dead letters and claims), creates the topics, and sends claims.
//
// It does not decide what is published when: the transactions around verdicts
// and dead letters are the consumer's.
package producer
