package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/schemas"
)

var errEnough = errors.New("enough")

func (b *bench) tail(topic string, see func(schemas.Verdict) error) error {
	return Tail(b.t.Context(), TailOptions{Connection: b.connection, Topic: topic, Codec: b.records.Codec, FromStart: true}, see)
}

func TestTailSeesCommittedVerdictsAlone(t *testing.T) {
	b := newBench(t)
	produce := func(id string, end kgo.TransactionEndTry) {
		t.Helper()
		client, err := kgo.NewClient(append(b.connection.Options(), kgo.TransactionalID("writer"))...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		record, err := b.records.Verdict(schemas.Verdict{ClaimID: id, Claim: "A claim.", Label: schemas.NotEnoughInfo, Confidence: 1, Evidence: []schemas.Evidence{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	produce("aborted", kgo.TryAbort)
	produce("committed", kgo.TryCommit)
	var seen []string
	err := b.tail(b.records.Topics.Verdicts, func(v schemas.Verdict) error {
		seen = append(seen, v.ClaimID)
		return errEnough
	})
	if !errors.Is(err, errEnough) || strings.Join(seen, " ") != "committed" {
		t.Errorf("saw %q, error %v", seen, err)
	}
}

func TestTailSaysWhatIsWrong(t *testing.T) {
	b := newBench(t)
	fail := func(schemas.Verdict) error { return errors.New("a verdict came from nowhere") }
	if err := b.tail("no.such.topic", fail); err == nil || !strings.Contains(err.Error(), "no.such.topic") {
		t.Errorf("missing topic: %v", err)
	}
	b.sendRaw(&kgo.Record{Topic: b.records.Topics.Verdicts, Value: []byte("garbage")})
	if err := b.tail(b.records.Topics.Verdicts, fail); err == nil || !errors.Is(err, schemas.ErrFormat) || !strings.Contains(err.Error(), "offset 0") {
		t.Errorf("garbage: %v", err)
	}
}

func TestTailEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Tail(ctx, TailOptions{Connection: b.connection, Topic: b.records.Topics.Verdicts, Codec: b.records.Codec}, func(schemas.Verdict) error { return nil })
	}()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
}
