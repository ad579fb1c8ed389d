package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/producer"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

// largest is a record whose batch is as large as the claims topic takes.
func (b *bench) largest(key string) *kgo.Record {
	b.t.Helper()
	limit := b.records.Limits.Claims
	cl, err := kgo.NewClient(append(b.connection.Options(), kgo.ProducerBatchMaxBytes(int32(limit)), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	value := make([]byte, limit)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	value[0] = 'x'
	for n := limit - 60; n > limit-200; n-- {
		r := &kgo.Record{Topic: b.records.Topics.Claims, Key: []byte(key), Value: value[:n], Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("kept")}}}
		err := cl.ProduceSync(b.t.Context(), r).FirstErr()
		if err == nil {
			return r
		}
		if !errors.Is(err, kerr.MessageTooLarge) {
			b.t.Fatal(err)
		}
	}
	b.t.Fatal("no record is small enough")
	return nil
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

func TestBadRecordsBecomeDeadLettersAndGoodOnesVerdicts(t *testing.T) {
	b := newBench(t)
	good := claims(0, 30)
	whole, err := b.records.Codec.EncodeClaim(good[0], schemas.SingleObject, 0)
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 300)
	for i := range noise {
		noise[i] = byte(rand.Uint32()) | 0x80
	}
	noise[0] = 0x7f
	bad := map[string]struct {
		value []byte
		class string
	}{
		"noise":           {noise, "schemas.ErrFormat"},
		"cut":             {whole[:len(whole)-3], "schemas.ErrMalformed"},
		"header-only":     {whole[:10], "schemas.ErrMalformed"},
		"other-schema":    {append([]byte{0xc3, 1, 1, 2, 3, 4, 5, 6, 7, 8}, whole[10:]...), "schemas.ErrUnknownSchema"},
		"confluent":       {append([]byte{0, 0, 0, 0, 9}, whole[10:]...), "schemas.ErrUnknownSchema"},
		"wrong-types":     {[]byte(`{"id": 17, "text": ["a"]}`), "schemas.ErrMalformed"},
		"blank-text":      {[]byte(`{"id": "x", "text": "  "}`), "schemas.ErrInvalid"},
		"not-utf8":        {[]byte("{\"id\": \"x\", \"text\": \"caf\xe9\"}"), "schemas.ErrNotUTF8"},
		"long-text":       {[]byte(`{"id": "x", "text": "` + strings.Repeat("a", 100_000) + `"}`), "schemas.ErrTooLarge"},
		"empty":           {[]byte{}, "schemas.ErrEmpty"},
		"null":            {nil, "schemas.ErrEmpty"},
		"too-long-for-it": {[]byte(`{"id": "too-long-for-it", "text": "long"}`), "stages.ErrClaimTooLong"},
		"unpublishable":   {[]byte(`{"id": "unpublishable", "text": "bad verdict"}`), "schemas.ErrInvalid"},
		"huge-verdict":    {[]byte(`{"id": "huge-verdict", "text": "huge verdict"}`), "schemas.ErrTooLarge"},
		"odd":             {[]byte(`{"id": "odd", "text": "odd"}`), "verify"},
	}
	stage := map[string]string{"too-long-for-it": "verify", "odd": "verify", "unpublishable": "publish", "huge-verdict": "publish"}
	want := map[string]*kgo.Record{}
	stamp := time.UnixMilli(1_600_000_000_123)
	names := slices.Sorted(maps.Keys(bad))
	for i, c := range good {
		r, err := b.records.Claim(c)
		if err != nil {
			t.Fatal(err)
		}
		b.sendRaw(r)
		if i < len(names) {
			name := names[i]
			want[name] = &kgo.Record{
				Topic: b.records.Topics.Claims, Key: []byte(name), Value: bad[name].value, Timestamp: stamp.Add(time.Duration(i) * time.Second),
				Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte(name)}, {Key: "trace", Value: nil}},
			}
			b.sendRaw(want[name])
		}
	}
	want["largest"] = b.largest("largest")
	bad["largest"] = struct {
		value []byte
		class string
	}{want["largest"].Value, "schemas.ErrFormat"}

	r := b.start(b.config(), func(ctx context.Context, batch []*stages.Work) error {
		if err := echo(ctx, batch); err != nil {
			return err
		}
		for _, w := range batch {
			switch w.Claim.ID {
			case "too-long-for-it":
				w.Err = fmt.Errorf("stages: label: %w", stages.ErrClaimTooLong)
			case "odd":
				w.Err = errors.New("something odd")
			case "unpublishable":
				w.Verdict.Label = "MAYBE"
			case "huge-verdict":
				e := schemas.Evidence{PaperID: "1", Label: schemas.Support, Title: strings.Repeat("t", 1<<20)}
				w.Verdict.Evidence = []schemas.Evidence{e}
			}
		}
		return nil
	})
	b.eventuallyNoLag()
	r.finish(t)
	b.assertOnce(good)

	classes := map[string]int64{}
	letters := b.committed(b.records.Topics.DeadLetters)
	for _, letter := range letters {
		name := string(letter.Key)
		raw := want[name]
		if raw == nil {
			t.Errorf("a dead letter with key %q", name)
			continue
		}
		delete(want, name)
		classes[bad[name].class]++
		if !bytes.Equal(letter.Value, raw.Value) || (letter.Value == nil) != (raw.Value == nil) {
			t.Errorf("%s: the value is not the raw one", name)
		}
		if !letter.Timestamp.Equal(raw.Timestamp) {
			t.Errorf("%s: timestamp %v, want %v", name, letter.Timestamp, raw.Timestamp)
		}
		if len(letter.Headers) != len(raw.Headers)+7 {
			t.Errorf("%s: headers %v", name, letter.Headers)
		}
		for i, h := range raw.Headers {
			if letter.Headers[i].Key != h.Key || !bytes.Equal(letter.Headers[i].Value, h.Value) {
				t.Errorf("%s: header %v, want %v", name, letter.Headers[i], h)
			}
		}
		wantStage := stage[name]
		if wantStage == "" {
			wantStage = "decode"
		}
		for key, value := range map[string]string{
			producer.HeaderTopic:     raw.Topic,
			producer.HeaderPartition: strconv.Itoa(int(raw.Partition)),
			producer.HeaderOffset:    strconv.FormatInt(raw.Offset, 10),
			producer.HeaderStage:     wantStage,
			producer.HeaderClass:     bad[name].class,
			producer.HeaderAttempts:  "1",
		} {
			if got := header(letter, key); got != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got, value)
			}
		}
		if header(letter, producer.HeaderMessage) == "" {
			t.Errorf("%s: no message", name)
		}
	}
	for name := range want {
		t.Errorf("%s: no dead letter", name)
	}
	if got := r.Counters().DeadLetters(); !maps.Equal(got, classes) {
		t.Errorf("counted %v, want %v", got, classes)
	}
}

// Keys need not be claim ids, and need not be there.
func TestARecordWithoutAKeyIsAClaim(t *testing.T) {
	b := newBench(t)
	for _, c := range claims(0, 3) {
		r, err := b.records.Claim(c)
		if err != nil {
			t.Fatal(err)
		}
		r.Key = nil
		b.sendRaw(r, &kgo.Record{Topic: r.Topic, Value: []byte("junk")})
	}
	r := b.start(b.config(), echo)
	b.eventuallyNoLag()
	r.finish(t)
	b.assertOnce(claims(0, 3))
	letters := b.committed(b.records.Topics.DeadLetters)
	for _, letter := range letters {
		if letter.Key != nil {
			t.Errorf("key %q", letter.Key)
		}
	}
	if len(letters) != 3 {
		t.Errorf("%d dead letters", len(letters))
	}
}

// What a producer aborted is no claim.
func TestAbortedClaimsAreNotRead(t *testing.T) {
	b := newBench(t)
	cl, err := kgo.NewClient(append(b.connection.Options(), kgo.TransactionalID("source"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, c := range claims(10*i, 10*i+10) {
			r, err := b.records.Claim(c)
			if err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	r := b.start(b.config(), echo)
	eventually(t, "10 claims", func() bool { return r.Counters().Claims.Load() >= 10 })
	r.finish(t)
	b.assertOnce(claims(10, 20))
}

type registry func() (string, error)

func (f registry) SchemaByID(context.Context, int) (string, error) { return f() }

func TestASchemaRegistryThatIsAwayIsWaitedFor(t *testing.T) {
	b := newBench(t)
	text, err := schemas.Schema(schemas.ClaimName)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	codec, err := schemas.NewCodec(schemas.Options{Resolver: registry(func() (string, error) {
		if calls++; calls < 4 {
			return "", errors.New("connection refused")
		}
		return text, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	b.records.Format = schemas.Confluent
	b.send(claims(0, 20))
	b.records.Codec, b.records.Format = codec, schemas.SingleObject
	cfg := b.config()
	cfg.Lanes = 1
	r := b.start(cfg, echo)
	b.eventuallyNoLag()
	r.finish(t)
	b.assertOnce(claims(0, 20))
	if n := r.Counters().Retries.Load(); n != 3 {
		t.Errorf("%d retries", n)
	}
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := New(Config{
		Lanes: -1, Batch: 20_000, StopTimeout: -1, MinBackoff: time.Second, MaxBackoff: time.Millisecond,
		Records: &producer.Records{Codec: new(schemas.Codec), Topics: kafka.Topics{Claims: "a", Verdicts: "a"}},
	}, verifier(echo))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"brokers", "instance", "lanes", "batches", "StopTimeout", "MaxBackoff", `"a" is the topic`, "dead letters has no name", "limits"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
	b := newBench(t)
	if _, err := New(b.config(), nil); err == nil {
		t.Error("no error without a verifier")
	}
	if _, err := New(Config{Connection: b.connection, Instance: "i"}, verifier(echo)); err == nil || !strings.Contains(err.Error(), "Records") {
		t.Errorf("without records: %v", err)
	}
}
