package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/schemas"
)

// TailOptions say what Tail reads.
type TailOptions struct {
	Connection kafka.Connection
	Topic      string
	Codec      *schemas.Codec
	FromStart  bool // from the first record kept; otherwise what is published from now on
}

// tailTimeout bounds the wait for the brokers at the start.
const tailTimeout = 15 * time.Second

// Tail reads verdicts as any subscriber should, committed transactions alone,
// and gives each to see until ctx ends (then the error is nil) or see returns
// an error. It belongs to no group, creates no topic and commits nothing. A topic
// that is not there is an error, and so is a record that cannot be decoded.
func Tail(ctx context.Context, o TailOptions, see func(schemas.Verdict) error) error {
	start := kgo.NewOffset().AtEnd()
	if o.FromStart {
		start = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(append(o.Connection.Options(),
		kgo.ConsumeTopics(o.Topic),
		kgo.ConsumeResetOffset(start),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)...)
	if err != nil {
		return fmt.Errorf("consumer: tail: %w", err)
	}
	defer client.Close()
	if err := checkTopic(ctx, client, o.Topic); err != nil && ctx.Err() == nil {
		return err
	}
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consumer: tail %s: %w", o.Topic, err)
		}
		for r := range fetches.RecordsAll() {
			v, _, err := o.Codec.DecodeVerdict(ctx, r.Value)
			if err != nil {
				return fmt.Errorf("consumer: tail %s, partition %d, offset %d: %w", r.Topic, r.Partition, r.Offset, err)
			}
			if err := see(v); err != nil {
				return err
			}
		}
	}
}

func checkTopic(ctx context.Context, client *kgo.Client, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	topics, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		return fmt.Errorf("consumer: tail: the brokers do not answer: %w", err)
	}
	if err := topics[topic].Err; err != nil {
		return fmt.Errorf("consumer: tail: topic %s: %w: 'verisci run' creates it", topic, err)
	}
	return nil
}
