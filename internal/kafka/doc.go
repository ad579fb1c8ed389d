// Package kafka is the one place where Kafka clients get their connection
// settings and where the names of the topics stand, so that security settings
// are added once. What a client reads and writes belongs to the producer and
// consumer packages.
package kafka
