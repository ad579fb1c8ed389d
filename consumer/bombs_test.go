package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/verisci/verisci/producer"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

// frame is a zstd frame (RFC 8878) of head, zeros and tail: an RLE block makes
// 128 KiB of four bytes, which no encoder is needed for.
func frame(windowLog byte, head []byte, zeros int, tail []byte) []byte {
	const raw, rle, blockSize = 0, 1, 128 << 10
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (windowLog - 10) << 3}
	block := func(kind, size, last int) {
		h := last | kind<<1 | size<<3
		out = append(out, byte(h), byte(h>>8), byte(h>>16))
	}
	block(raw, len(head), 0)
	out = append(out, head...)
	for ; zeros > 0; zeros -= blockSize {
		block(rle, min(zeros, blockSize), 0)
		out = append(out, 0)
	}
	block(raw, len(tail), 1)
	return append(out, tail...)
}

// recordWithZeros is the frame of one record whose only header is that many zeros.
func recordWithZeros(windowLog byte, value []byte, zeros int) []byte {
	head := []byte{0}                    // attributes
	head = binary.AppendVarint(head, 0)  // timestamp delta
	head = binary.AppendVarint(head, 0)  // offset delta
	head = binary.AppendVarint(head, -1) // no key
	head = binary.AppendVarint(head, int64(len(value)))
	head = append(head, value...)
	head = binary.AppendVarint(head, 1) // headers
	head = binary.AppendVarint(head, 1)
	head = append(head, 'h')
	head = binary.AppendVarint(head, int64(zeros))
	return frame(windowLog, append(binary.AppendVarint(nil, int64(len(head)+zeros)), head...), zeros, nil)
}

// sendZstd produces a batch of records as it is, as a hostile client can, and
// reports its offset.
func (b *bench) sendZstd(partition int32, records int32, compressed []byte) int64 {
	b.t.Helper()
	const zstd = 4
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: zstd, LastOffsetDelta: records - 1, NumRecords: records, Records: compressed,
		FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
	}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))

	// Below version 13 a request names the topic instead of its id.
	cl, err := kgo.NewClient(append(b.connection.Options(), kgo.MaxVersions(kversion.V3_0_0()))...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(b.t.Context(), b.records.Topics.Claims)
	if err != nil {
		b.t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{
		Topic:      b.records.Topics.Claims,
		Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: batch.AppendTo(nil)}},
	}}
	leader := topics[b.records.Topics.Claims].Partitions[partition].Leader
	resp, err := cl.Broker(int(leader)).Request(b.t.Context(), req)
	if err != nil {
		b.t.Fatal(err)
	}
	answer := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		b.t.Fatal(err)
	}
	return answer.BaseOffset
}

// smallBound makes small bombs enough.
const smallBound = 2 << 20

// bomb has three records in a hundred bytes, and a byte more than smallBound.
func (b *bench) bomb(partition int32) int64 {
	b.t.Helper()
	return b.sendZstd(partition, 3, frame(20, nil, smallBound+1, nil))
}

// sendTo produces claims to one partition.
func (b *bench) sendTo(partition int32, cs []schemas.Claim) {
	b.t.Helper()
	cl, err := kgo.NewClient(append(b.connection.Options(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	for _, c := range cs {
		r, err := b.records.Claim(c)
		if err != nil {
			b.t.Fatal(err)
		}
		r.Partition = partition
		if err := cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestABatchThatIsTooLargeUnpackedIsOneDeadLetterAndSkipped(t *testing.T) {
	flaky := func() verifier {
		var calls atomic.Int32
		return func(ctx context.Context, batch []*stages.Work) error {
			if calls.Add(1)%2 == 1 {
				return errors.New("the index is away")
			}
			return echo(ctx, batch)
		}
	}
	for name, v := range map[string]struct {
		verifier verifier
		fault    *kfake.Fault
	}{
		"all is well":          {verifier: echo},
		"batches tried again":  {verifier: flaky()},
		"rebalances":           {echo, &kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.RebalanceInProgress, Count: 6}},
		"aborted transactions": {echo, &kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.TransactionAbortable, TopLevel: true, Count: 4}},
		"failed dead letters":  {echo, &kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			want := map[string]string{} // offset by partition
			bomb := func(partition int32) { want[strconv.Itoa(int(partition))] = strconv.FormatInt(b.bomb(partition), 10) }
			cs := claims(0, 50)
			b.sendTo(0, cs[:10])
			bomb(0) // in between
			b.sendTo(0, cs[10:20])
			bomb(1) // before anything is committed
			b.sendTo(1, cs[20:30])
			b.sendTo(2, cs[30:40])
			b.sendTo(3, cs[40:])
			bomb(3) // at the end
			var handle interface{ Hits() int }
			if v.fault != nil {
				handle = b.cluster.Fault(*v.fault)
			}

			cfg := b.config()
			cfg.maxUnpacked = smallBound
			r := b.start(cfg, v.verifier)
			b.eventuallyNoLag()
			r.finish(t)
			if handle != nil && handle.Hits() == 0 {
				t.Fatal("the fault met no request")
			}
			b.assertOnce(cs)
			b.assertLeft()
			b.assertInOrder()
			letters := b.committed(b.records.Topics.DeadLetters)
			if len(letters) != len(want) {
				t.Errorf("%d dead letters on %d batches", len(letters), len(want))
			}
			for _, letter := range letters {
				partition := header(letter, producer.HeaderPartition)
				if offset, ok := want[partition]; !ok || header(letter, producer.HeaderOffset) != offset {
					t.Errorf("a dead letter of partition %s, offset %s", partition, header(letter, producer.HeaderOffset))
				}
				delete(want, partition)
				if letter.Key != nil || letter.Value != nil || letter.Timestamp.IsZero() || len(letter.Headers) != 7 {
					t.Errorf("the dead letter is %+v", letter)
				}
				if message := header(letter, producer.HeaderMessage); header(letter, producer.HeaderTopic) != b.records.Topics.Claims ||
					header(letter, producer.HeaderStage) != "fetch" || header(letter, producer.HeaderClass) != "kgo.ErrDecompressTooLarge" ||
					!strings.Contains(message, "3 in all") || !strings.Contains(message, "not kept") {
					t.Errorf("headers %v", letter.Headers)
				}
			}
			if got := r.Counters().DeadLetters(); !maps.Equal(got, map[string]int64{"kgo.ErrDecompressTooLarge": 3}) || r.Counters().Claims.Load() != 53 {
				t.Errorf("counted %v of %d", got, r.Counters().Claims.Load())
			}
		})
	}
}

// assertInOrder fails unless the verdicts on the claims of partition 0, which are
// numbered 0 to 19, were produced in the claims' order.
func (b *bench) assertInOrder() {
	b.t.Helper()
	produced := map[string]time.Time{}
	for _, v := range b.verdicts() {
		produced[v.ClaimID] = v.Times.Produced
	}
	cs := claims(0, 20)
	for i := 1; i < len(cs); i++ {
		if produced[cs[i].ID].Before(produced[cs[i-1].ID]) {
			b.t.Errorf("the verdict on claim %d comes before that on claim %d", i, i-1)
		}
	}
}

func TestUnpackingIsBoundedInMemory(t *testing.T) {
	b := newBench(t)
	b.sendZstd(0, 1, frame(27, nil, 8<<30, nil)) // 8 GiB in 256 KiB
	b.sendTo(0, claims(0, 1))
	var peak atomic.Uint64
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, stop := heap(), make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				peak.Store(max(peak.Load(), heap()))
			}
		}
	}()
	r := b.start(b.config(), echo)
	b.eventuallyNoLag()
	r.finish(t)
	b.assertOnce(claims(0, 1))
	if grown := int64(peak.Load() - before); grown > 12*maxUnpacked {
		t.Errorf("the heap grew by %d MiB, want at most a few times %d", grown>>20, maxUnpacked>>20)
	}
}

// Some MiB unpacked, and the largest window that brokers take, are no reason to
// skip a batch.
func TestLargeBatchesBelowTheBoundAreRead(t *testing.T) {
	b := newBench(t)
	cs := claims(0, 2)
	for i, zeros := range []int{0, 64 << 20} {
		value, err := b.records.Codec.EncodeClaim(cs[i], schemas.SingleObject, 0)
		if err != nil {
			t.Fatal(err)
		}
		b.sendZstd(int32(i), 1, recordWithZeros(27, value, zeros))
	}
	r := b.start(b.config(), echo)
	b.eventuallyNoLag()
	r.finish(t)
	b.assertOnce(cs)
	if letters := b.committed(b.records.Topics.DeadLetters); len(letters) != 0 {
		t.Errorf("%d dead letters", len(letters))
	}
}

func TestABatchThatCannotBeUnpackedIsReportedAndHoldsUpOnlyItsPartition(t *testing.T) {
	b := newBench(t)
	b.sendZstd(0, 1, []byte("no zstd frame"))
	b.sendTo(0, claims(0, 1))
	b.sendTo(1, claims(1, 20))
	r := b.start(b.config(), echo)
	eventually(t, "19 claims", func() bool { return r.Counters().Claims.Load() == 19 && r.Counters().FetchErrors.Load() > 1 })
	r.finish(t)
	b.assertOnce(claims(1, 20))
}

func TestATopicThatIsMadeAnewIsReadFromItsStart(t *testing.T) {
	b := newBench(t)
	r := b.start(b.config(), echo)
	b.sendTo(0, claims(0, 5))
	b.eventuallyNoLag()
	cl, err := kgo.NewClient(b.connection.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	if _, err := admin.DeleteTopic(t.Context(), b.records.Topics.Claims); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 4, 1, nil, b.records.Topics.Claims); err != nil {
		t.Fatal(err)
	}
	b.sendTo(0, claims(5, 15))
	eventually(t, "15 claims", func() bool { return r.Counters().Claims.Load() == 15 })
	r.finish(t)
	b.assertOnce(claims(0, 15))
}
