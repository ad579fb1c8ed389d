package systemtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/eval"
	"github.com/verisci/verisci/producer"
	"github.com/verisci/verisci/schemas"
)

// badRecord makes records that are no claims. class is what their dead letters
// must have in exception.class.name.
type badRecord struct {
	name, class string
	make        func(r *rand.Rand) []byte
}

func avroLong(n int64) string { return string(binary.AppendVarint(nil, n)) }

func avroString(s string) string { return avroLong(int64(len(s))) + s }

// avroClaim is a claim's Avro body, by hand: what the codec refuses to write
// must be written, too.
func avroClaim(id, text string) string {
	return avroString(id) + avroString(text) + avroString("") + avroLong(0) + avroLong(0)
}

func entries(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(avroString(strconv.Itoa(i)) + avroString(""))
	}
	return b.String()
}

func badRecords(t *testing.T) []badRecord {
	t.Helper()
	schema, err := schemas.Schema(schemas.ClaimName)
	if err != nil {
		t.Fatal(err)
	}
	fingerprint, err := schemas.Fingerprint(schema)
	if err != nil {
		t.Fatal(err)
	}
	head := string(binary.LittleEndian.AppendUint64([]byte{0xC3, 1}, fingerprint))
	upToMap := head + avroString("1") + avroString("x") + avroString("") + avroLong(0)
	good := head + avroClaim("good", "Vitamin C cures the common cold.")
	if _, _, err := newCodec(t).DecodeClaim(t.Context(), []byte(good)); err != nil {
		t.Fatalf("what the bad records are made of is not good: %v", err)
	}
	paper, err := newCodec(t).EncodePaper(schemas.Paper{ID: "1", Title: "A paper", Abstract: []string{"It is no claim."}}, schemas.SingleObject, 0)
	if err != nil {
		t.Fatal(err)
	}
	one := func(texts ...string) func(*rand.Rand) []byte {
		return func(r *rand.Rand) []byte { return []byte(texts[r.IntN(len(texts))]) }
	}
	const malformed, invalid, tooLarge, notUTF8, unknown = "schemas.ErrMalformed", "schemas.ErrInvalid", "schemas.ErrTooLarge", "schemas.ErrNotUTF8", "schemas.ErrUnknownSchema"
	return []badRecord{
		{"random bytes", "schemas.ErrFormat", func(r *rand.Rand) []byte {
			b := make([]byte, 1+r.IntN(2000))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			b[0] = 'A' + b[0]%26 // neither of the formats' first bytes
			return b
		}},
		{"random body", malformed, func(r *rand.Rand) []byte {
			b := []byte(head)
			for range 200 {
				b = append(b, 0x80|byte(r.Uint32())) // numbers without end
			}
			return b
		}},
		{"truncated Avro", malformed, func(r *rand.Rand) []byte { return []byte(good[:2+r.IntN(len(good)-2)]) }},
		{"bytes after the Avro", malformed, func(r *rand.Rand) []byte { return append([]byte(good), make([]byte, 1+r.IntN(50))...) }},
		{"string of 1 TiB", malformed, one(head + avroLong(1<<40))},
		{"string of an impossible length", malformed, one(head+avroLong(math.MaxInt64), head+avroLong(-1), head+avroLong(math.MinInt64))},
		{"map of 2^62", tooLarge, one(upToMap + avroLong(1<<62))},
		{"map of an impossible size", malformed, one(upToMap+avroLong(math.MinInt64)+avroLong(0), upToMap+avroLong(-1)+avroLong(math.MaxInt64))},
		{"map of 60,000 entries", invalid, one(upToMap + avroLong(60_000) + entries(60_000) + avroLong(0))},
		{"another record's type", unknown, func(*rand.Rand) []byte { return paper }},
		{"unknown fingerprint", unknown, func(r *rand.Rand) []byte {
			return append(binary.LittleEndian.AppendUint64([]byte{0xC3, 1}, fingerprint+1+uint64(r.Uint32())), good[10:]...)
		}},
		{"Confluent frame without a registry", unknown, func(r *rand.Rand) []byte {
			return append(binary.BigEndian.AppendUint32([]byte{0}, r.Uint32()), good[10:]...)
		}},
		{"short Confluent frame", malformed, one("\x00", "\x00\x00\x00\x00")},
		{"empty", "schemas.ErrEmpty", func(*rand.Rand) []byte { return []byte{} }},
		{"null", "schemas.ErrEmpty", func(*rand.Rand) []byte { return nil }},
		{"white space", "schemas.ErrEmpty", one(" ", "\n\n", "\ufeff")},
		{"JSON, cut", malformed, one(`{`, `{"id": "1", "text": "x`, `{"id": "1", "text": "x"`)},
		{"JSON, not an object", "schemas.ErrFormat", one(`[1, 2]`, `"text"`, `null`, `17`)},
		{"JSON, wrong types", malformed, one(`{"id": 1, "text": "x"}`, `{"id": "1", "text": ["x"]}`, `{"id": "1", "text": "x", "attributes": 3}`)},
		{"JSON, deep", malformed, func(r *rand.Rand) []byte { return []byte(`{"a":` + strings.Repeat(`[`, 50_000)) }},
		{"JSON, two claims", malformed, one(`{"id": "1", "text": "x"}{"id": "2", "text": "y"}`)},
		{"JSON, nothing in it", invalid, one(`{}`, `{"id": "1"}`, `{"text": "x"}`)},
		{"Avro, text not UTF-8", notUTF8, one(head+avroClaim("1", "caf\xe9"), head+avroClaim("1", "\xff\xfe"))},
		{"Avro, id not UTF-8", notUTF8, one(head + avroClaim("\xc3\x28", "x"))},
		{"text over the limit", tooLarge, func(r *rand.Rand) []byte {
			return []byte(head + avroClaim("1", strings.Repeat("x", schemas.DefaultMaxText+1+r.IntN(10_000))))
		}},
		{"text blank", invalid, one(head+avroClaim("1", ""), head+avroClaim("1", " \t\n"), head+avroClaim("1", "\u00a0\u2003"))},
		{"text with a NUL", invalid, one(head + avroClaim("1", "a\x00b"))},
		{"id empty", invalid, one(head + avroClaim("", "x"))},
	}
}

// manyClaims are n of SciFact's claims under ids of their own.
func manyClaims(t *testing.T, n int) (list []schemas.Claim) {
	t.Helper()
	var texts []eval.Claim
	for _, name := range []string{"claims_train.jsonl", "claims_dev.jsonl", "claims_test.jsonl"} {
		claims, err := eval.LoadClaims(scifact(t, name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, claims...)
	}
	for i := range n {
		list = append(list, schemas.Claim{ID: fmt.Sprintf("good-%04d", i), Text: texts[i%len(texts)].Text})
	}
	return list
}

// atTheLimit sends the largest record that the claims topic takes.
func atTheLimit(t *testing.T, cl *kgo.Client) *kgo.Record {
	t.Helper()
	configs, err := kadm.NewClient(cl).DescribeTopicConfigs(t.Context(), topics.Claims)
	if err != nil {
		t.Fatal(err)
	}
	limit := 0
	for _, c := range configs[0].Configs {
		if c.Key == "max.message.bytes" {
			limit, _ = strconv.Atoi(c.MaybeValue())
		}
	}
	if limit == 0 {
		t.Fatal("the claims topic has no max.message.bytes")
	}
	before, after := `{"id": "1", "text": "`, `"}`
	for n := limit; n > limit-200; n-- {
		text := strings.Repeat("x", n-len(before)-len(after))
		record := &kgo.Record{Topic: topics.Claims, Key: []byte("limit"), Value: []byte(before + text + after)}
		err := cl.ProduceSync(t.Context(), record).FirstErr()
		if err == nil {
			t.Logf("the topic's limit is %d, the value has %d bytes", limit, n)
			return record
		}
		if !errors.Is(err, kerr.MessageTooLarge) {
			t.Fatal(err)
		}
	}
	t.Fatal("no record near the limit was taken")
	return nil
}

func TestBadRecordsBecomeDeadLettersAndStopNothing(t *testing.T) {
	t.Parallel()
	const n = 1000
	index := cheaplyIndexed(t)
	port, addr := freePort(t)
	service := start(t, command(t.Context(), "run", "--embedded", "--port", port, "--kafka-embedded-dir", filepath.Join(t.TempDir(), "broker"), "--index", index, "--k", "1"))
	service.says("running")

	sender := client(t, addr)
	zipper := client(t, addr, kgo.ProducerBatchMaxBytes(100<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	limited := client(t, addr, kgo.ProducerBatchMaxBytes(2<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	bad := map[string]*kgo.Record{} // by key, with the offsets they got
	class := map[string]string{}
	sent := func(key, cls string, cl *kgo.Client, value []byte) {
		record := &kgo.Record{
			Topic: topics.Claims, Key: []byte(key), Value: value, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(len(bad))),
			Headers: []kgo.RecordHeader{{Key: "sender", Value: []byte(key)}},
		}
		bad[key], class[key] = record, cls
		cl.Produce(t.Context(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
		})
	}

	limit := atTheLimit(t, limited)
	bad["limit"], class["limit"] = limit, "schemas.ErrTooLarge"
	const zipped = 32 << 20
	for i := range 4 {
		sent(fmt.Sprintf("32 MiB in a small batch %d", i), "schemas.ErrTooLarge", zipper, bytes.Repeat([]byte{'x'}, zipped))
	}
	random := chance(t)
	kinds := badRecords(t)
	codec := newCodec(t)
	for i, c := range manyClaims(t, n) {
		if kind := kinds[i%len(kinds)]; len(bad) < n {
			sent(fmt.Sprintf("%s %d", kind.name, i), kind.class, sender, kind.make(random))
		}
		format := []schemas.Format{schemas.SingleObject, schemas.JSON}[i%2]
		value, err := codec.EncodeClaim(c, format, 0)
		if err != nil {
			t.Fatal(err)
		}
		sender.Produce(t.Context(), &kgo.Record{Topic: topics.Claims, Key: []byte(c.ID), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("%s: %v", c.ID, err)
			}
		})
	}
	for _, cl := range []*kgo.Client{sender, zipper} {
		if err := cl.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(bad) != n || t.Failed() {
		t.Fatalf("%d bad records were sent, want %d", len(bad), n)
	}

	w := watch(t, addr)
	w.wait(n, service)
	eventually(t, 2*time.Minute, "no lag", func() bool { service.mustRun(); return lag(t, addr) == 0 })
	peak := service.peakMemory()
	t.Logf("peak memory of service and broker: %d MiB", peak)
	if peak > 1536 {
		t.Errorf("peak memory of %d MiB", peak)
	}
	count := map[string]int{}
	for _, v := range verdicts(t, addr) {
		count[v.ClaimID]++
	}
	for i := range n {
		if id := fmt.Sprintf("good-%04d", i); count[id] != 1 {
			t.Errorf("%d verdicts on %s", count[id], id)
		}
	}
	if len(count) != n {
		t.Errorf("verdicts on %d claims, want %d", len(count), n)
	}

	letters := committed(t, addr, topics.DeadLetters)
	if len(letters) != n {
		t.Errorf("%d dead letters, want %d", len(letters), n)
	}
	for _, letter := range letters {
		key := string(letter.Key)
		raw := bad[key]
		if raw == nil {
			t.Errorf("a dead letter for %q: sent once at most", key)
			continue
		}
		delete(bad, key)
		assertDeadLetter(t, letter, raw, class[key])
	}
	for key := range bad {
		t.Errorf("no dead letter for %s", key)
	}

	verisci(t, "produce", "--brokers", addr, claimsFile(t, devClaims(t)[:1]))
	w.wait(n+1, service)
	service.stop()
}

func assertDeadLetter(t *testing.T, letter, raw *kgo.Record, class string) {
	t.Helper()
	key := string(raw.Key)
	header := map[string]string{}
	for _, h := range letter.Headers {
		header[h.Key] = string(h.Value)
	}
	if cut, ok := header[producer.HeaderCut]; ok {
		if len(raw.Value) < 2<<20 || cut != strconv.Itoa(len(raw.Value)) || !bytes.HasPrefix(raw.Value, letter.Value) || len(letter.Value) < 1<<20 {
			t.Errorf("%s: %d bytes were cut to %d, the header says %s", key, len(raw.Value), len(letter.Value), cut)
		}
	} else if !bytes.Equal(letter.Value, raw.Value) || (letter.Value == nil) != (raw.Value == nil) {
		t.Errorf("%s: the dead letter has %d bytes, %.40q; sent were %d, %.40q", key, len(letter.Value), letter.Value, len(raw.Value), raw.Value)
	}
	if !letter.Timestamp.Equal(raw.Timestamp) {
		t.Errorf("%s: timestamp %s, sent with %s", key, letter.Timestamp, raw.Timestamp)
	}
	want := map[string]string{
		producer.HeaderTopic:     topics.Claims,
		producer.HeaderPartition: strconv.Itoa(int(raw.Partition)),
		producer.HeaderOffset:    strconv.FormatInt(raw.Offset, 10),
		producer.HeaderStage:     "decode",
		producer.HeaderClass:     class,
		producer.HeaderAttempts:  "1",
	}
	for _, h := range raw.Headers {
		want[h.Key] = string(h.Value)
	}
	for name, value := range want {
		if header[name] != value {
			t.Errorf("%s: %s is %q, want %q (%s)", key, name, header[name], value, header[producer.HeaderMessage])
		}
	}
	if !strings.HasPrefix(header[producer.HeaderMessage], "schemas: ") {
		t.Errorf("%s: the reason is %q", key, header[producer.HeaderMessage])
	}
}
