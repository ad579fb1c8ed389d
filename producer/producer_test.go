package producer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/schemas"
)

func newCluster(t *testing.T) (*kfake.Cluster, kafka.Connection) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster, kafka.Connection{Brokers: cluster.ListenAddrs()}
}

func newRecords(t *testing.T, connection kafka.Connection) *Records {
	t.Helper()
	limits, err := EnsureTopics(t.Context(), connection, kafka.DefaultTopics(), TopicOptions{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	codec, err := schemas.NewCodec(schemas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &Records{Codec: codec, Format: schemas.SingleObject, Topics: kafka.DefaultTopics(), Limits: limits}
}

func client(t *testing.T, connection kafka.Connection, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(connection.Options(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// read returns the first n records of a topic.
func read(t *testing.T, connection kafka.Connection, topic string, n int) []*kgo.Record {
	t.Helper()
	cl := client(t, connection, kgo.ConsumeTopics(topic))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records of %s: %v", len(records), n, topic, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func header(r *kgo.Record, key string) string {
	var values []string
	for _, h := range r.Headers {
		if h.Key == key {
			values = append(values, string(h.Value))
		}
	}
	return strings.Join(values, " and ")
}

func TestMissingTopicsAreCreatedAndOthersLeft(t *testing.T) {
	_, connection := newCluster(t)
	admin := kadm.NewClient(client(t, connection))
	topics := kafka.Topics{Claims: "c", Verdicts: "v", DeadLetters: "d"}
	small := "5000"
	if _, err := admin.CreateTopic(t.Context(), 7, 1, map[string]*string{maxMessageBytes: &small}, "v"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		limits, err := EnsureTopics(t.Context(), connection, topics, TopicOptions{Partitions: 3, Replication: 1})
		if err != nil {
			t.Fatal(err)
		}
		if limits != (Limits{Claims: 1048588, Verdicts: 5000, DeadLetters: 1048588 + deadLetterRoom}) {
			t.Errorf("limits %+v", limits)
		}
	}
	details, err := admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]int{"c": 3, "v": 7, "d": 3} {
		if got := len(details[topic].Partitions); got != want {
			t.Errorf("%s has %d partitions, want %d", topic, got, want)
		}
	}
}

func TestATopicThatIsNotKnownEverywhereYetIsWaitedFor(t *testing.T) {
	cluster, connection := newCluster(t)
	late := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.UnknownTopicOrPartition, Count: 2})
	if _, err := EnsureTopics(t.Context(), connection, kafka.DefaultTopics(), TopicOptions{}); err != nil {
		t.Fatal(err)
	}
	if late.Hits() < 2 {
		t.Errorf("the topics were asked for %d times too early", late.Hits())
	}
}

func TestATopicThatCannotBeCreatedIsNamed(t *testing.T) {
	cluster, connection := newCluster(t)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	_, err := EnsureTopics(t.Context(), connection, kafka.DefaultTopics(), TopicOptions{})
	if !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), "verisci.claims") {
		t.Errorf("got %v", err)
	}
}

func TestAVerdictIsKeyedByItsClaim(t *testing.T) {
	_, connection := newCluster(t)
	records := newRecords(t, connection)
	now := time.Now().UTC().Truncate(time.Millisecond)
	v := schemas.Verdict{ClaimID: "c1", Claim: "A holds.", Label: schemas.NotEnoughInfo, Times: schemas.Times{Received: now, Produced: now}}
	for format, media := range map[schemas.Format]string{schemas.SingleObject: "application/avro", schemas.Confluent: "application/avro", schemas.JSON: "application/json"} {
		records.Format = format
		r, err := records.Verdict(v)
		if err != nil {
			t.Fatal(err)
		}
		if r.Topic != "verisci.verdicts" || string(r.Key) != "c1" || header(r, HeaderContentType) != media || header(r, HeaderFormat) != format.String() {
			t.Errorf("%s: record %v", format, r)
		}
	}
	v.Evidence = []schemas.Evidence{{PaperID: "1", Label: schemas.Support, Title: strings.Repeat("t", 4000)}}
	records.Limits.Verdicts = 4000
	if _, err := records.Verdict(v); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), `"c1"`) {
		t.Errorf("a verdict over the topic's limit: %v", err)
	}
	v.Label = "MAYBE"
	if _, err := records.Verdict(v); !errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("a verdict that is none: %v", err)
	}
}

func TestEveryRecordTheClaimsTopicTakesFitsTheDeadLetterTopic(t *testing.T) {
	_, connection := newCluster(t)
	records := newRecords(t, connection)
	raw := client(t, connection, kgo.ProducerBatchMaxBytes(64<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	packed := client(t, connection, kgo.ProducerBatchMaxBytes(64<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	letters := client(t, connection, append(records.Options(), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	sent := 0
	letter := func(cl *kgo.Client, r *kgo.Record) (*kgo.Record, bool) {
		t.Helper()
		r.Topic = records.Topics.Claims
		switch err := cl.ProduceSync(t.Context(), r).FirstErr(); {
		case errors.Is(err, kerr.MessageTooLarge):
			return nil, false
		case err != nil:
			t.Fatal(err)
		}
		l := records.DeadLetter(r, Failure{"decode", "class", errors.New(strings.Repeat("é", maxReason))})
		if err := letters.ProduceSync(t.Context(), l).FirstErr(); err != nil {
			t.Fatalf("a record with a value of %d bytes and a key of %d: %v", len(r.Value), len(r.Key), err)
		}
		sent++
		return read(t, connection, records.Topics.DeadLetters, sent)[sent-1], true
	}
	zeros := make([]byte, 20<<20)
	for n := records.Limits.Claims; ; n-- { // the largest there is
		if got, ok := letter(raw, &kgo.Record{Partition: 0, Value: zeros[:n]}); ok {
			if len(got.Value) != n || header(got, HeaderCut) != "" {
				t.Errorf("the value of %d bytes has %d bytes", n, len(got.Value))
			}
			break
		}
	}
	// What was compressed may be larger than any topic's limit.
	got, ok := letter(packed, &kgo.Record{Value: zeros, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("kept")}}})
	if !ok || header(got, HeaderCut) != strconv.Itoa(len(zeros)) || header(got, "h") != "kept" || len(got.Value) < 1<<20 {
		t.Errorf("a large value: %d bytes, %s", len(got.Value), header(got, HeaderCut))
	}
	got, ok = letter(packed, &kgo.Record{Key: zeros, Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h", Value: zeros}}})
	if !ok || header(got, HeaderCut) != "1" || len(got.Key) < 1<<20 {
		t.Errorf("a large key: %d bytes, %s", len(got.Key), header(got, HeaderCut))
	}
	got, ok = letter(packed, &kgo.Record{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h", Value: zeros}}})
	if !ok || string(got.Key) != "k" || header(got, "h") != "" {
		t.Errorf("large headers: key %q", got.Key)
	}
}

func TestADeadLetterThatFailsAgainCountsAndReplacesItsReason(t *testing.T) {
	records := &Records{Topics: kafka.DefaultTopics(), Limits: Limits{DeadLetters: 1 << 20}}
	raw := &kgo.Record{Topic: "t", Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "own", Value: []byte("1")}}}
	first := records.DeadLetter(raw, Failure{"decode", "a", errors.New("first")})
	replayed := &kgo.Record{Topic: "t", Partition: 2, Offset: 9, Key: first.Key, Value: first.Value, Headers: first.Headers}
	second := records.DeadLetter(replayed, Failure{"verify", "b", errors.New("second")})
	if len(second.Headers) != len(first.Headers) || header(second, HeaderMessage) != "second" || header(second, HeaderAttempts) != "2" || header(second, HeaderOffset) != "9" || header(second, "own") != "1" {
		t.Errorf("headers %v", second.Headers)
	}
	hostile := &kgo.Record{Headers: []kgo.RecordHeader{{Key: HeaderAttempts, Value: []byte("-7x")}}}
	if got := header(records.DeadLetter(hostile, Failure{"decode", "a", errors.New("x")}), HeaderAttempts); got != "1" {
		t.Errorf("attempts %s", got)
	}
}

func all(ids ...string) iter.Seq2[schemas.Claim, error] {
	return func(yield func(schemas.Claim, error) bool) {
		for _, id := range ids {
			if !yield(schemas.Claim{ID: id, Text: "Claim " + id + "."}, nil) {
				return
			}
		}
	}
}

func TestSendReportsWhatIsAcknowledged(t *testing.T) {
	cluster, connection := newCluster(t)
	records := newRecords(t, connection)
	sender, err := NewSender(connection, records)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	// The answer to the first request is lost: the second try must not double it.
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut})
	var ids []string
	for i := range 500 {
		ids = append(ids, fmt.Sprint(i))
	}
	if n, err := sender.Send(t.Context(), all(ids...)); n != 500 || err != nil {
		t.Fatalf("%d acknowledged: %v", n, err)
	}
	ends, err := kadm.NewClient(client(t, connection)).ListEndOffsets(t.Context(), records.Topics.Claims)
	if err != nil {
		t.Fatal(err)
	}
	stored := int64(0)
	ends.Each(func(o kadm.ListedOffset) { stored += o.Offset })
	if stored != 500 {
		t.Errorf("%d records stored", stored)
	}
	for _, r := range read(t, connection, records.Topics.Claims, 500) {
		c, format, err := records.Codec.DecodeClaim(t.Context(), r.Value)
		if err != nil || format != schemas.SingleObject || !bytes.Equal(r.Key, []byte(c.ID)) {
			t.Errorf("key %q, claim %q, %s: %v", r.Key, c.ID, format, err)
		}
	}
}

func TestSendStopsAtTheFirstErrorAndNamesTheClaim(t *testing.T) {
	cluster, connection := newCluster(t)
	records := newRecords(t, connection)
	sender, err := NewSender(connection, records)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	invalid := func(yield func(schemas.Claim, error) bool) {
		_ = yield(schemas.Claim{ID: "good", Text: "x"}, nil) && yield(schemas.Claim{ID: "bad"}, nil) && yield(schemas.Claim{ID: "later", Text: "x"}, nil)
	}
	if n, err := sender.Send(t.Context(), invalid); n != 1 || !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("%d acknowledged: %v", n, err)
	}
	unreadable := errors.New("line 2 is not JSON")
	torn := func(yield func(schemas.Claim, error) bool) {
		_ = yield(schemas.Claim{ID: "good", Text: "x"}, nil) && yield(schemas.Claim{}, unreadable)
	}
	if n, err := sender.Send(t.Context(), torn); n != 1 || !errors.Is(err, unreadable) {
		t.Errorf("%d acknowledged: %v", n, err)
	}
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if n, err := sender.Send(t.Context(), all("refused")); n != 0 || !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), `"refused"`) {
		t.Errorf("%d acknowledged: %v", n, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if n, err := sender.Send(stopped, all("a")); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d acknowledged: %v", n, err)
	}
}
