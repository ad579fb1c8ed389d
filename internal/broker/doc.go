// Package broker runs a Kafka broker inside the process, for demos, single
// machines and tests: franz-go's kfake, listening on the loopback interface and
// keeping its data in a folder. Any Kafka client can use it.
//
// It is not a cluster and not for data that must outlive the machine: there is
// one copy, and its author calls it a broker for testing. What survives what
// stands at Start.
package broker
