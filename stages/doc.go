// Package stages is a claim's way from text to verdict: retrieval, rationale,
// label, aggregate, and the batching of inference across all claims in flight.
//
// It knows neither Kafka nor files: the consumer brings claims in batches and
// publishes what comes back, `verisci verify` and the evaluation do the same
// without a broker.
package stages
