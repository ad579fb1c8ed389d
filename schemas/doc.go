// Package schemas holds VeriSci's records (Claim, Paper, Verdict), their Avro
// schemas and the only code that turns records into bytes and back.
//
// It is the one place that imports an Avro library, so that every bound on
// decoding untrusted bytes stands here. It is not for Kafka: topics, keys and
// headers belong to the producer and consumer packages.
package schemas
