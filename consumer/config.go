package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/producer"
)

// Config of a Consumer. Zero fields get the defaults named.
type Config struct {
	Connection kafka.Connection
	Records    *producer.Records // what is written, and the topics; required

	Group string // default "verisci"

	// Instance makes the transactional ids, "<instance>-<lane>". It must be
	// unique among the instances of the group and the same after a restart: a
	// second instance of the name fences the first, and one that comes back
	// under a new name leaves its last transaction to time out. Required.
	Instance string

	Lanes int // concurrent transactions; default 2
	Batch int // most claims of one transaction, 1 to 10,000; default 64

	// RebalanceTimeout bounds the time a batch may take, from poll to commit,
	// before the group gives its partitions to another member and the batch is
	// done again there. Default 60 s.
	RebalanceTimeout time.Duration

	// TransactionTimeout bounds the time from the first record produced to the
	// commit; inference is over by then. Default 40 s.
	TransactionTimeout time.Duration

	// SessionTimeout is how long a killed member keeps its partitions. Default 45 s.
	SessionTimeout time.Duration

	// StopTimeout bounds the wait for the batches in hand once Run is told to
	// stop; what is not committed by then is left to the next start. Leaving the
	// group may take 5 s more. Default 30 s.
	StopTimeout time.Duration

	// MinBackoff and MaxBackoff bound the wait before a batch that failed is
	// tried again; it doubles with each failure in a row. Default 250 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration

	maxUnpacked int // default maxUnpacked; tests have no need of batches as large
}

// finalize sets the defaults and reports every mistake.
func (c *Config) finalize() error {
	if c.Connection.Logger == nil {
		c.Connection.Logger = slog.New(slog.DiscardHandler)
	}
	orDefault(&c.Group, "verisci")
	orDefault(&c.Lanes, 2)
	orDefault(&c.Batch, 64)
	orDefault(&c.RebalanceTimeout, 60*time.Second)
	orDefault(&c.TransactionTimeout, 40*time.Second)
	orDefault(&c.SessionTimeout, 45*time.Second)
	orDefault(&c.StopTimeout, 30*time.Second)
	orDefault(&c.MinBackoff, 250*time.Millisecond)
	orDefault(&c.MaxBackoff, 30*time.Second)
	orDefault(&c.maxUnpacked, maxUnpacked)

	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("consumer: "+format, args...))
		}
	}
	check(len(c.Connection.Brokers) > 0, "no brokers: name at least one as host:port")
	check(c.Instance != "", "no instance name: give one that is unique and the same after a restart")
	check(c.Lanes > 0, "%d lanes: use at least 1", c.Lanes)
	check(c.Batch > 0 && c.Batch <= 10_000, "batches of %d: use 1 to 10,000 claims", c.Batch)
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"RebalanceTimeout", c.RebalanceTimeout}, {"TransactionTimeout", c.TransactionTimeout}, {"SessionTimeout", c.SessionTimeout},
		{"StopTimeout", c.StopTimeout}, {"MinBackoff", c.MinBackoff},
	} {
		check(d.value > 0, "%s %s: use a positive duration", d.name, d.value)
	}
	check(c.MaxBackoff >= c.MinBackoff, "MaxBackoff %s: use at least MinBackoff, %s", c.MaxBackoff, c.MinBackoff)
	if c.Records == nil || c.Records.Codec == nil {
		check(false, "no records: set Records with a Codec")
	} else {
		if err := c.Records.Topics.Validate(); err != nil {
			check(false, "topics: %w", err)
		}
		l := c.Records.Limits
		check(l.Verdicts > 0 && l.DeadLetters > 0, "no limits: set Records.Limits to what producer.EnsureTopics reports")
	}
	return errors.Join(errs...)
}

func orDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
