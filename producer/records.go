package producer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/schemas"
)

// Headers of verdicts and claims.
const (
	HeaderContentType = "content-type"   // media type of the value
	HeaderFormat      = "verisci.format" // name of the schemas.Format
)

// Headers of dead letters: the record's own, then these. The names under
// __connect.errors. are Kafka Connect's (KIP-298).
const (
	connectErrors   = "__connect.errors."
	HeaderTopic     = connectErrors + "topic"
	HeaderPartition = connectErrors + "partition"
	HeaderOffset    = connectErrors + "offset"
	HeaderStage     = connectErrors + "stage"
	HeaderClass     = connectErrors + "exception.class.name"
	HeaderMessage   = connectErrors + "exception.message"
	HeaderAttempts  = "verisci.attempts" // how often this record became a dead letter: 1, or more after replays
	HeaderCut       = "verisci.cut"      // only where the value was cut to fit: its length in bytes before
)

const (
	maxReason = 4 << 10 // bytes of HeaderMessage

	// recordOverhead bounds what a record batch of one record adds to key, value
	// and headers (61 bytes of batch, the rest are varints).
	recordOverhead = 128
	headerOverhead = 10
)

// ErrTooLarge is the permanent error of a verdict that its topic cannot take.
var ErrTooLarge = errors.New("larger than the topic takes: raise its max.message.bytes")

// Records makes records. The zero value of SchemaID is only for formats other
// than schemas.Confluent.
type Records struct {
	Codec    *schemas.Codec
	Format   schemas.Format // of verdicts and claims
	SchemaID int            // registry's id of the schema, for schemas.Confluent
	Topics   kafka.Topics
	Limits   Limits
}

// Options are the client options for a producer of these records, beside those
// of the connection.
func (r *Records) Options() []kgo.Opt {
	return []kgo.Opt{kgo.ProducerBatchMaxBytesFn(r.Limits.of(r.Topics))}
}

// Claim makes the record of a claim, keyed by its id.
func (r *Records) Claim(c schemas.Claim) (*kgo.Record, error) {
	value, err := r.Codec.EncodeClaim(c, r.Format, r.SchemaID)
	if err != nil {
		return nil, fmt.Errorf("producer: claim %q: %w", c.ID, err)
	}
	return r.record(r.Topics.Claims, r.Limits.Claims, "claim", c.ID, value)
}

// Verdict makes the record of a verdict, keyed by the claim's id. Its errors are
// permanent.
func (r *Records) Verdict(v schemas.Verdict) (*kgo.Record, error) {
	value, err := r.Codec.EncodeVerdict(v, r.Format, r.SchemaID)
	if err != nil {
		return nil, fmt.Errorf("producer: verdict on claim %q: %w", v.ClaimID, err)
	}
	return r.record(r.Topics.Verdicts, r.Limits.Verdicts, "verdict on claim", v.ClaimID, value)
}

func (r *Records) record(topic string, limit int, what, id string, value []byte) (*kgo.Record, error) {
	media := "application/avro"
	if r.Format == schemas.JSON {
		media = "application/json"
	}
	record := &kgo.Record{Topic: topic, Key: []byte(id), Value: value, Headers: []kgo.RecordHeader{
		{Key: HeaderContentType, Value: []byte(media)},
		{Key: HeaderFormat, Value: []byte(r.Format.String())},
	}}
	if n := size(record); n > limit {
		return nil, fmt.Errorf("producer: %s %q: %d bytes, the limit of %s is %d: %w", what, id, n, topic, limit, ErrTooLarge)
	}
	return record, nil
}

// Failure says why a record became a dead letter.
type Failure struct {
	Stage string // of the pipeline: fetch, decode, verify or publish
	Class string // kind of error, stable across versions
	Err   error
}

// DeadLetter makes the dead letter of a record that can't be verified: key,
// value, headers and timestamp are the record's own. Headers of an earlier
// failure, in a record that was replayed, are replaced.
//
// A record that does not fit into the topic, which a topic made by EnsureTopics
// leaves to records that were compressed a great deal, has its value cut (see
// HeaderCut), and its own headers dropped and key cut where that is not enough.
func (r *Records) DeadLetter(raw *kgo.Record, f Failure) *kgo.Record {
	attempts := 1
	var own []kgo.RecordHeader
	for _, h := range raw.Headers {
		switch {
		case h.Key == HeaderAttempts:
			if n, err := strconv.Atoi(string(h.Value)); err == nil && n > 0 {
				attempts = n + 1
			}
		case !strings.HasPrefix(h.Key, connectErrors) && h.Key != HeaderCut:
			own = append(own, h)
		}
	}
	header := func(key, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: key, Value: []byte(value)}
	}
	added := []kgo.RecordHeader{
		header(HeaderTopic, raw.Topic),
		header(HeaderPartition, strconv.Itoa(int(raw.Partition))),
		header(HeaderOffset, strconv.FormatInt(raw.Offset, 10)),
		header(HeaderStage, f.Stage),
		header(HeaderClass, f.Class),
		header(HeaderMessage, cutText(f.Err.Error(), maxReason)),
		header(HeaderAttempts, strconv.Itoa(attempts)),
	}
	letter := &kgo.Record{
		Topic: r.Topics.DeadLetters, Key: raw.Key, Value: raw.Value, Timestamp: raw.Timestamp,
		Headers: slices.Concat(own, added),
	}
	if over := size(letter) - r.Limits.DeadLetters; over > 0 {
		added = append(added, header(HeaderCut, strconv.Itoa(len(raw.Value))))
		letter.Headers = slices.Concat(own, added)
		over = size(letter) - r.Limits.DeadLetters
		letter.Value = raw.Value[:max(0, len(raw.Value)-over)]
		if over = size(letter) - r.Limits.DeadLetters; over > 0 {
			letter.Headers = added
			over = size(letter) - r.Limits.DeadLetters
			letter.Key = raw.Key[:max(0, len(raw.Key)-max(0, over))]
		}
	}
	return letter
}

// size bounds the bytes of the uncompressed batch that has this record alone.
func size(r *kgo.Record) int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += headerOverhead + len(h.Key) + len(h.Value)
	}
	return n
}

// cutText cuts a text at n bytes, without leaving half a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
