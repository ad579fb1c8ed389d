package consumer

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/producer"
	"github.com/verisci/verisci/schemas"
)

const victimBrokers = "VERISCI_TEST_BROKERS"

// TestMain is also the consumer that the tests kill: see startVictim.
func TestMain(m *testing.M) {
	if brokers := os.Getenv(victimBrokers); brokers != "" {
		os.Stderr.WriteString(victim(strings.Split(brokers, ",")).Error())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func victim(brokers []string) error {
	connection := kafka.Connection{Brokers: brokers}
	topics := kafka.DefaultTopics()
	limits, err := producer.EnsureTopics(context.Background(), connection, topics, producer.TopicOptions{})
	if err != nil {
		return err
	}
	codec, err := schemas.NewCodec(schemas.Options{})
	if err != nil {
		return err
	}
	c, err := New(Config{
		Connection: connection, Instance: "test", Lanes: 2, Batch: 4, SessionTimeout: time.Second, RebalanceTimeout: 2 * time.Second,
		Records: &producer.Records{Codec: codec, Format: schemas.SingleObject, Topics: topics, Limits: limits},
	}, verifier(echo))
	if err != nil {
		return err
	}
	return c.Run(context.Background())
}

// TestAKilledConsumerLosesAndDoublesNothing kills a consumer process with
// SIGKILL as the broker receives one of its requests, which the broker then
// still carries out or does not.
func TestAKilledConsumerLosesAndDoublesNothing(t *testing.T) {
	for name, at := range map[string]struct {
		request    kmsg.Key
		carriedOut bool
		before     int32 // requests of the kind let through
	}{
		"before a verdict is written":   {request: kmsg.Produce},
		"after verdicts are written":    {request: kmsg.Produce, carriedOut: true, before: 3},
		"before offsets are added":      {request: kmsg.TxnOffsetCommit, before: 1},
		"after offsets are added":       {request: kmsg.TxnOffsetCommit, carriedOut: true, before: 1},
		"before the commit":             {request: kmsg.EndTxn, before: 2},
		"after the commit, unconfirmed": {request: kmsg.EndTxn, carriedOut: true, before: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			cs := claims(0, 60)
			b.send(cs)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), victimBrokers+"="+strings.Join(b.connection.Brokers, ","))
			cmd.Stderr = os.Stderr
			var seen atomic.Int32
			killed := make(chan struct{})
			b.cluster.ControlKey(int16(at.request), func(kmsg.Request) (kmsg.Response, error, bool) {
				b.cluster.KeepControl()
				if seen.Add(1) != at.before+1 {
					return nil, nil, false
				}
				cmd.Process.Kill()
				cmd.Wait()
				close(killed)
				if at.carriedOut {
					return nil, nil, false
				}
				return nil, errors.New("the client is gone"), true
			})
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-killed
			again := b.start(b.config(), echo)
			b.eventuallyNoLag()
			again.finish(t)
			b.assertOnce(cs)
		})
	}
}
