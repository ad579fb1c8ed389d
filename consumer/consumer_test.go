package consumer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/producer"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

// bench is a broker with the topics, and what a test does with it.
type bench struct {
	t          *testing.T
	cluster    *kfake.Cluster
	connection kafka.Connection
	records    *producer.Records
}

func newBench(t *testing.T) *bench {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := &bench{t: t, cluster: cluster, connection: kafka.Connection{Brokers: cluster.ListenAddrs(), Logger: testLogger(t)}}
	topics := kafka.DefaultTopics()
	limits, err := producer.EnsureTopics(t.Context(), b.connection, topics, producer.TopicOptions{Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	codec, err := schemas.NewCodec(schemas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.records = &producer.Records{Codec: codec, Format: schemas.SingleObject, Topics: topics, Limits: limits}
	return b
}

// testLogger logs to the test until it ends: clients log a little longer.
func testLogger(t *testing.T) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(func() { w.mu.Lock(); w.t = nil; w.mu.Unlock() })
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct {
	mu sync.Mutex
	t  *testing.T
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func (b *bench) config() Config {
	return Config{
		Connection: b.connection, Records: b.records, Instance: "test", Lanes: 2, Batch: 8,
		MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond, StopTimeout: 10 * time.Second,
	}
}

// echo is a Verifier whose verdicts depend on the claim's text alone.
func echo(_ context.Context, batch []*stages.Work) error {
	for _, w := range batch {
		w.Verdict = schemas.Verdict{
			ClaimID: w.Claim.ID, Claim: w.Claim.Text, Label: schemas.NotEnoughInfo, Confidence: 1,
			Evidence: []schemas.Evidence{}, Times: schemas.Times{Received: w.Received},
		}
	}
	return nil
}

type verifier func(context.Context, []*stages.Work) error

func (f verifier) Verify(ctx context.Context, batch []*stages.Work) error { return f(ctx, batch) }

// running is a Consumer under way.
type running struct {
	*Consumer
	stop context.CancelFunc
	done chan error
}

func (b *bench) start(cfg Config, v verifier) *running {
	b.t.Helper()
	c, err := New(cfg, v)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Consumer: c, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- c.Run(ctx) }()
	b.t.Cleanup(stop)
	return r
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the consumer did not stop")
		return nil
	}
}

func (r *running) finish(t *testing.T) {
	t.Helper()
	r.stop()
	if err := r.wait(t); err != nil {
		t.Fatalf("Run: %v", err)
	}
}

func claims(from, to int) []schemas.Claim {
	var cs []schemas.Claim
	for i := from; i < to; i++ {
		cs = append(cs, schemas.Claim{ID: fmt.Sprintf("c%04d", i), Text: fmt.Sprintf("Claim number %d holds.", i)})
	}
	return cs
}

func each(cs []schemas.Claim) iter.Seq2[schemas.Claim, error] {
	return func(yield func(schemas.Claim, error) bool) {
		for _, c := range cs {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (b *bench) send(cs []schemas.Claim) {
	b.t.Helper()
	s, err := producer.NewSender(b.connection, b.records)
	if err != nil {
		b.t.Fatal(err)
	}
	defer s.Close()
	if n, err := s.Send(b.t.Context(), each(cs)); err != nil || n != len(cs) {
		b.t.Fatalf("sent %d of %d claims: %v", n, len(cs), err)
	}
}

// sendRaw produces records as they are, in their order.
func (b *bench) sendRaw(records ...*kgo.Record) {
	b.t.Helper()
	cl, err := kgo.NewClient(append(b.connection.Options(), kgo.ProducerBatchMaxBytes(1<<20+12))...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(b.t.Context(), records...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// committed reads a topic as far as it is committed now, and fails on a
// transaction that is still open.
func (b *bench) committed(topic string) []*kgo.Record {
	b.t.Helper()
	cl, err := kgo.NewClient(append(b.connection.Options(), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	admin := kadm.NewClient(cl)
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		b.t.Fatal(err)
	}
	stable, err := admin.ListCommittedOffsets(ctx, topic)
	if err != nil {
		b.t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := stable.Lookup(topic, o.Partition); s.Offset != o.Offset {
			b.t.Fatalf("%s/%d: a transaction is open: committed to %d of %d", topic, o.Partition, s.Offset, o.Offset)
		}
		if o.Offset > 0 {
			left[o.Partition] = o.Offset - 1
		}
	})
	var out []*kgo.Record
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			b.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if r.Offset >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

func (b *bench) verdicts() []schemas.Verdict {
	b.t.Helper()
	var out []schemas.Verdict
	for _, r := range b.committed(b.records.Topics.Verdicts) {
		v, _, err := b.records.Codec.DecodeVerdict(b.t.Context(), r.Value)
		if err != nil {
			b.t.Fatalf("verdict %q: %v", r.Key, err)
		}
		if string(r.Key) != v.ClaimID {
			b.t.Errorf("verdict on %q has key %q", v.ClaimID, r.Key)
		}
		out = append(out, v)
	}
	return out
}

// eventually polls a condition: what it waits for happens in other goroutines
// and on the broker.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// assertOnce fails unless the verdicts are one for every claim.
func (b *bench) assertOnce(cs []schemas.Claim) {
	b.t.Helper()
	var got, want []string
	for _, v := range b.verdicts() {
		got = append(got, v.ClaimID)
	}
	for _, c := range cs {
		want = append(want, c.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("%d verdicts on %d claims:\n got %v\nwant %v", len(got), len(want), got, want)
	}
}

// group is how many members the group has and how many records of the claims
// topic it has not committed.
func (b *bench) group() (members int, lag int64) {
	b.t.Helper()
	cl, err := kgo.NewClient(b.connection.Options()...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	described, err := admin.DescribeGroups(b.t.Context(), "verisci")
	if err != nil {
		b.t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(b.t.Context(), b.records.Topics.Claims)
	if err != nil {
		b.t.Fatal(err)
	}
	offsets, err := admin.FetchOffsets(b.t.Context(), "verisci")
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		b.t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		at, _ := offsets.Lookup(end.Topic, end.Partition)
		lag += end.Offset - max(0, at.At)
	})
	return len(described["verisci"].Members), lag
}

func (b *bench) eventuallyNoLag() {
	b.t.Helper()
	eventually(b.t, "no lag", func() bool { _, lag := b.group(); return lag == 0 })
}

func (b *bench) assertLeft() {
	b.t.Helper()
	if members, lag := b.group(); members != 0 || lag != 0 {
		b.t.Errorf("%d members left in the group, lag %d", members, lag)
	}
}

func TestEveryClaimGetsOneVerdict(t *testing.T) {
	b := newBench(t)
	cs := claims(0, 100)
	b.send(cs[:50])
	r := b.start(b.config(), echo)
	b.send(cs[50:])
	eventually(t, "100 claims", func() bool { return r.Counters().Claims.Load() == 100 })
	r.finish(t)
	b.assertOnce(cs)
	for _, v := range b.verdicts() {
		if v.Times.Received.IsZero() || v.Times.Produced.Before(v.Times.Received) {
			t.Errorf("%s: received %v, produced %v", v.ClaimID, v.Times.Received, v.Times.Produced)
		}
	}
	if n := r.Counters().Verdicts.Load(); n != 100 {
		t.Errorf("%d verdicts counted", n)
	}
	b.assertLeft()
}

func TestClaimsOfOneKeyKeepTheirOrder(t *testing.T) {
	b := newBench(t)
	var cs []schemas.Claim
	for i := range 60 {
		cs = append(cs, schemas.Claim{ID: fmt.Sprintf("k%d", i%3), Text: fmt.Sprintf("%03d", i)})
	}
	b.send(cs)
	r := b.start(b.config(), echo)
	eventually(t, "60 claims", func() bool { return r.Counters().Claims.Load() == 60 })
	r.finish(t)
	last, n := map[string]string{}, 0
	for _, v := range b.verdicts() {
		n++
		if v.Claim <= last[v.ClaimID] {
			t.Errorf("%s: %s after %s", v.ClaimID, v.Claim, last[v.ClaimID])
		}
		last[v.ClaimID] = v.Claim
	}
	if n != 60 {
		t.Errorf("%d verdicts on 60 claims, of which many have the same key", n)
	}
}

func TestATransientErrorLosesAndDoublesNothing(t *testing.T) {
	b := newBench(t)
	cs := claims(0, 40)
	b.send(cs)
	var mu sync.Mutex
	calls := 0
	r := b.start(b.config(), func(ctx context.Context, batch []*stages.Work) error {
		mu.Lock()
		calls++
		n := calls
		mu.Unlock()
		if n <= 5 || n%3 == 0 {
			return errors.New("the index is away")
		}
		return echo(ctx, batch)
	})
	eventually(t, "40 claims", func() bool { return r.Counters().Claims.Load() == 40 })
	r.finish(t)
	b.assertOnce(cs)
	if n := r.Counters().Retries.Load(); n < 5 {
		t.Errorf("%d retries counted", n)
	}
	if letters := b.committed(b.records.Topics.DeadLetters); len(letters) != 0 {
		t.Errorf("%d dead letters from an error that passed", len(letters))
	}
}
