package producer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/internal/kafka"
)

const (
	maxMessageBytes = "max.message.bytes"

	// deadLetterRoom is what a dead letter may add to a record: its headers
	// come to at most maxReason and a few topic names.
	deadLetterRoom = 64 << 10
)

// TopicOptions are for topics that do not exist yet.
type TopicOptions struct {
	Partitions  int // default 4
	Replication int // default -1, the broker's own default
}

// Limits are the largest record batches, in bytes, that the topics take
// (Kafka's max.message.bytes).
type Limits struct{ Claims, Verdicts, DeadLetters int }

// of is the limit of a topic, for kgo.ProducerBatchMaxBytesFn.
func (l Limits) of(topics kafka.Topics) func(topic string) int32 {
	return func(topic string) int32 {
		limit := l.Claims
		switch topic {
		case topics.Verdicts:
			limit = l.Verdicts
		case topics.DeadLetters:
			limit = l.DeadLetters
		}
		return int32(min(max(limit, 512), 1<<30)) // what kgo takes
	}
}

// EnsureTopics creates the topics that are missing and reports the limits of
// all three. Topics that exist are left as they are. A dead-letter topic that is
// created takes larger records than the claims topic, so that every claim fits
// into it with the headers that say what was wrong.
func EnsureTopics(ctx context.Context, connection kafka.Connection, topics kafka.Topics, opts TopicOptions) (Limits, error) {
	if opts.Partitions == 0 {
		opts.Partitions = 4
	}
	if opts.Replication == 0 {
		opts.Replication = -1
	}
	cl, err := kgo.NewClient(connection.Options()...)
	if err != nil {
		return Limits{}, fmt.Errorf("producer: topics: %w", err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	// What exists is not asked for: creating takes a permission that the service
	// may well lack where somebody else makes the topics.
	have, err := admin.ListTopics(ctx, topics.Claims, topics.Verdicts, topics.DeadLetters)
	if err != nil {
		return Limits{}, fmt.Errorf("producer: topics: the brokers do not answer: %w", err)
	}
	create := func(topic string, configs map[string]*string) error {
		if have.Has(topic) {
			return nil
		}
		_, err := admin.CreateTopic(ctx, int32(opts.Partitions), int16(opts.Replication), configs, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("producer: create topic %s: %w", topic, err)
		}
		return nil
	}
	if err := errors.Join(create(topics.Claims, nil), create(topics.Verdicts, nil)); err != nil {
		return Limits{}, err
	}
	limits, err := limitsOf(ctx, admin, topics.Claims, topics.Verdicts)
	if err != nil {
		return Limits{}, err
	}
	room := strconv.Itoa(limits[topics.Claims] + deadLetterRoom)
	if err := create(topics.DeadLetters, map[string]*string{maxMessageBytes: &room}); err != nil {
		return Limits{}, err
	}
	letters, err := limitsOf(ctx, admin, topics.DeadLetters)
	if err != nil {
		return Limits{}, err
	}
	return Limits{Claims: limits[topics.Claims], Verdicts: limits[topics.Verdicts], DeadLetters: letters[topics.DeadLetters]}, nil
}

// limitsOf waits a little for topics that the broker asked does not know yet: a
// topic is created before all brokers have heard of it.
func limitsOf(ctx context.Context, admin *kadm.Client, topics ...string) (map[string]int, error) {
	for try := 1; ; try++ {
		limits, err := describeLimits(ctx, admin, topics)
		if !errors.Is(err, kerr.UnknownTopicOrPartition) || try == 10 {
			return limits, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func describeLimits(ctx context.Context, admin *kadm.Client, topics []string) (map[string]int, error) {
	configs, err := admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("producer: describe topics: %w", err)
	}
	limits := map[string]int{}
	for _, topic := range topics {
		resource, err := configs.On(topic, nil)
		if err == nil {
			err = resource.Err
		}
		if err != nil {
			return nil, fmt.Errorf("producer: describe topic %s: %w", topic, err)
		}
		for _, c := range resource.Configs {
			if c.Key == maxMessageBytes {
				if limits[topic], err = strconv.Atoi(c.MaybeValue()); err != nil {
					return nil, fmt.Errorf("producer: describe topic %s: %w", topic, err)
				}
			}
		}
		if limits[topic] == 0 {
			return nil, fmt.Errorf("producer: describe topic %s: the broker does not say its %s", topic, maxMessageBytes)
		}
	}
	return limits, nil
}
