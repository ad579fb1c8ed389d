package kafka

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"
)

// Connection is what every client of one Kafka cluster shares.
type Connection struct {
	Brokers  []string     // host:port, at least one
	ClientID string       // default "verisci"
	Logger   *slog.Logger // default: nothing is logged
}

// Options are the client options of the connection, for kgo.NewClient and its kin.
func (c Connection) Options() []kgo.Opt {
	id := c.ClientID
	if id == "" {
		id = "verisci"
	}
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID(id)}
	if c.Logger != nil {
		opts = append(opts, kgo.WithLogger(kslog.New(c.Logger)))
	}
	return opts
}

// Topics are the names of the topics.
type Topics struct {
	Claims      string // read by the consumer
	Verdicts    string // one record for every claim that could be verified
	DeadLetters string // one record for every other record of the claims topic
}

// DefaultTopics are the names used where nothing else is configured.
func DefaultTopics() Topics {
	return Topics{Claims: "verisci.claims", Verdicts: "verisci.verdicts", DeadLetters: "verisci.claims.dlq"}
}

// Validate reports missing names and names used twice: a verdict on the claims
// topic would be read as a claim.
func (t Topics) Validate() error {
	var errs []error
	seen := map[string]string{}
	for _, topic := range []struct{ use, name string }{{"claims", t.Claims}, {"verdicts", t.Verdicts}, {"dead letters", t.DeadLetters}} {
		if topic.name == "" {
			errs = append(errs, fmt.Errorf("the topic of the %s has no name: set one", topic.use))
		} else if other, twice := seen[topic.name]; twice {
			errs = append(errs, fmt.Errorf("%q is the topic of the %s and of the %s: use two topics", topic.name, other, topic.use))
		}
		seen[topic.name] = topic.use
	}
	return errors.Join(errs...)
}
