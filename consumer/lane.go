package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/verisci/verisci/producer"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

// lane is one group member with its own transactions.
type lane struct {
	cfg      *Config
	verifier Verifier
	counters *Counters
	txnID    string
	log      *slog.Logger
	failures int      // in a row
	refused  *refused // of the session
}

func newLane(c *Consumer, n int) *lane {
	id := fmt.Sprintf("%s-%d", c.cfg.Instance, n)
	return &lane{cfg: &c.cfg, verifier: c.verifier, counters: &c.counters, txnID: id, log: c.cfg.Connection.Logger.With("lane", id)}
}

// item is one record of a batch on its way.
type item struct {
	raw  *kgo.Record
	work *stages.Work      // nil if the record is no claim, or was not read
	fail *producer.Failure // why it becomes a dead letter
}

// run opens sessions until ctx ends. The work in hand then may take until the
// end of work.
func (l *lane) run(ctx, work context.Context) error {
	for ctx.Err() == nil {
		session, err := l.open()
		if err != nil {
			return err // the options are wrong: nothing was sent yet
		}
		err = l.consume(ctx, work, session)
		l.close(session)
		switch {
		case err == nil:
		case work.Err() != nil:
			return context.Cause(work)
		case isFatal(err) || errors.As(err, new(*panicked)):
			return explain(err)
		default:
			l.log.Warn("consumer: opening a new session", "error", err)
			l.backoff(ctx)
		}
	}
	return nil
}

// maxUnpacked bounds what one compressed batch of records may grow to in memory:
// zstd makes a gigabyte of a few kilobytes. A producer's batch is at most the
// topic's max.message.bytes before compression, some MiB. The bound is that of
// the windows that brokers take of zstd (2^27 bytes), because a bound below a
// batch's window would make it unreadable, whatever its size.
const maxUnpacked = 128 << 20

func (l *lane) open() (*kgo.GroupTransactSession, error) {
	l.refused = &refused{seen: map[int32]time.Time{}}
	opts := append(l.cfg.Connection.Options(), l.cfg.Records.Options()...)
	return kgo.NewGroupTransactSession(append(opts,
		kgo.ConsumerGroup(l.cfg.Group),
		// A static member (KIP-345): one that was killed is replaced by its
		// successor at once, instead of holding its partitions until the session
		// times out.
		kgo.InstanceID(l.txnID),
		kgo.ConsumeTopics(l.cfg.Records.Topics.Claims),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.MaxDecompressBatchBytes(l.cfg.maxUnpacked),
		kgo.WithHooks(l.refused),
		kgo.TransactionalID(l.txnID),
		kgo.TransactionTimeout(l.cfg.TransactionTimeout),
		kgo.RebalanceTimeout(l.cfg.RebalanceTimeout),
		kgo.SessionTimeout(l.cfg.SessionTimeout),
		kgo.HeartbeatInterval(l.cfg.SessionTimeout/10),
		// A rebalance waits for the batch in hand: without this its inference
		// would be thrown away and done again elsewhere.
		kgo.BlockRebalanceOnPoll(),
	)...)
}

// leaveTimeout bounds the goodbye to the group, which a broker that is away would
// never answer: the group then waits for the session timeout.
const leaveTimeout = 5 * time.Second

// close leaves the group and drops the transaction if one is open: the next
// session under the transactional id aborts it. The client by itself never says
// goodbye for a static member, so that is done here, in the name of this very
// member: a successor that has taken its place stays.
func (l *lane) close(session *kgo.GroupTransactSession) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	session.AllowRebalance()
	client := session.Client()
	id, _ := client.GroupMetadata()
	_ = client.LeaveGroupContext(ctx) // ends heartbeats; if the rest fails the group times the member out
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.InstanceID = id, &l.txnID // no id yet: whoever has the instance's place
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.Members = l.cfg.Group, []kmsg.LeaveGroupRequestMember{member}
	_, _ = leave.RequestWith(ctx, client)
	session.Close()
}

// consume takes batches through the session until ctx ends, or the session can't
// go on. Inference is done before the transaction begins, so that its timeout
// has only the producing to cover.
func (l *lane) consume(ctx, work context.Context, session *kgo.GroupTransactSession) error {
	// Before anything else: this aborts the transaction that a killed
	// predecessor left open. The client alone would do it with the first record
	// it produces, which may wait for the transaction's timeout, because the
	// group gives out no offsets that an open transaction may still change.
	if _, _, err := session.Client().ProducerID(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("get a producer id: %w", err)
	}
	for ctx.Err() == nil {
		batch, err := l.poll(ctx, session)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			continue
		}
		err = l.decode(work, batch)
		if err == nil {
			err = l.verify(work, batch)
		}
		if err != nil {
			if err := l.giveBack(ctx, work, session, err); err != nil {
				return err
			}
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		err = l.publish(work, session, batch)
		if err := l.end(ctx, work, session, batch, err); err != nil {
			return err
		}
	}
	return nil
}

// pollTimeout is how often a lane without records looks for refused batches.
const pollTimeout = time.Second

// poll waits for records. From here on, rebalances wait until the batch ends.
func (l *lane) poll(ctx context.Context, session *kgo.GroupTransactSession) ([]item, error) {
	waiting, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fetches := session.PollRecords(waiting, l.cfg.Batch)
	received := time.Now()
	var batch []item
	fetches.EachRecord(func(r *kgo.Record) {
		batch = append(batch, item{raw: r, work: &stages.Work{Received: received}})
	})
	var broken error
	failed := false
	fetches.EachError(func(topic string, partition int32, err error) {
		l.refused.polled(partition)
		tooLarge, isTooLarge := errors.AsType[*kgo.ErrDecompressTooLarge](err)
		switch {
		case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil:
		case isTooLarge:
			skip(session, tooLarge)
			batch = append(batch, unread(tooLarge, l.cfg.maxUnpacked))
		case isFatal(err) || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, kerr.UnknownTopicID):
			// The last one is a topic that was made anew: this session knows
			// only the old one.
			broken = fmt.Errorf("fetch %s/%d: %w", topic, partition, err)
		default:
			failed = true
			l.counters.FetchErrors.Add(1)
			l.log.Error("consumer: fetch: until this passes nothing of the partition is read", "topic", topic, "partition", partition, "error", err)
		}
	})
	// A poll that is not full has everything that was fetched.
	if due, ok := l.refused.deadline(); ok && broken == nil && len(batch) < l.cfg.Batch && time.Now().After(due) {
		broken = errors.New("fetch: the client lost a batch of records that it could not unpack")
	}
	if len(batch) == 0 {
		session.AllowRebalance()
		if failed && broken == nil {
			l.backoff(ctx) // the client itself would try again at once
		}
	}
	return batch, broken
}

// skip moves the session past a batch of records that the client refuses, as if
// it had been polled: the next commit takes the position along, an abort goes
// back to the batch. The client by itself would never read the partition again.
func skip(session *kgo.GroupTransactSession, b *kgo.ErrDecompressTooLarge) {
	// The first offset is set before the next one for a partition of which
	// nothing is committed: an abort goes back to the first position it knows.
	for _, offset := range []int64{b.Offset, b.NextOffset} {
		session.Client().SetOffsets(map[string]map[int32]kgo.EpochOffset{
			b.Topic: {b.Partition: {Epoch: b.Epoch, Offset: offset}},
		})
	}
}

// unread stands for all records of a batch that was skipped.
func unread(b *kgo.ErrDecompressTooLarge, limit int) item {
	err := fmt.Errorf("offsets %d to %d, %d in all, are in one batch of records of more than %d bytes uncompressed: it was skipped unread and its bytes are not kept: %w",
		b.Offset, b.NextOffset-1, b.NextOffset-b.Offset, limit, kgo.ErrMaxDecompress)
	return item{
		raw:  &kgo.Record{Topic: b.Topic, Partition: b.Partition, Offset: b.Offset},
		fail: failure(stageFetch, err),
	}
}

// decode reads the claims. An error is the batch's: it may pass.
func (l *lane) decode(ctx context.Context, batch []item) error {
	for i := range batch {
		if batch[i].fail != nil {
			continue
		}
		claim, _, err := l.cfg.Records.Codec.DecodeClaim(ctx, batch[i].raw.Value)
		switch {
		case err == nil:
			batch[i].work.Claim = claim
		case schemas.Permanent(err):
			batch[i].work, batch[i].fail = nil, failure(stageDecode, err)
		default:
			return fmt.Errorf("decode: %w", err)
		}
	}
	return nil
}

// panicked is a panic of the verifier, kept from killing the process before the
// other lanes have committed what they hold.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string {
	return fmt.Sprintf("the verifier panicked: %v\n%s", p.value, p.stack)
}

// verify runs the verifier over the claims of a batch. An error is the batch's:
// it may pass, unless it is a panic.
func (l *lane) verify(ctx context.Context, batch []item) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p, debug.Stack()}
		}
	}()
	works := make([]*stages.Work, 0, len(batch))
	for _, it := range batch {
		if it.work != nil {
			works = append(works, it.work)
		}
	}
	if len(works) == 0 {
		return nil
	}
	if err := l.verifier.Verify(ctx, works); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for i := range batch {
		if w := batch[i].work; w != nil && w.Err != nil {
			batch[i].fail = failure(stageVerify, w.Err)
		}
	}
	return nil
}

// publish produces a verdict or a dead letter for every record of the batch, in
// its order, and waits for them. A verdict that can't be written is a dead
// letter: it would stop the lane for good.
func (l *lane) publish(ctx context.Context, session *kgo.GroupTransactSession, batch []item) (err error) {
	produced := kgo.AbortingFirstErrPromise(session.Client())
	for i := range batch {
		it := &batch[i]
		var record *kgo.Record
		if it.fail == nil {
			it.work.Verdict.Times.Produced = time.Now()
			if record, err = l.cfg.Records.Verdict(it.work.Verdict); err != nil {
				it.fail = failure(stagePublish, err)
			}
		}
		if it.fail != nil {
			record = l.cfg.Records.DeadLetter(it.raw, *it.fail)
		}
		session.Produce(ctx, record, produced.Promise())
	}
	return produced.Err()
}

// end commits the batch, or aborts it where producing failed. A batch that was
// not committed comes back with the next poll.
func (l *lane) end(ctx, work context.Context, session *kgo.GroupTransactSession, batch []item, failed error) error {
	committed, err := session.End(work, kgo.TransactionEndTry(failed == nil))
	session.AllowRebalance()
	if committed {
		l.failures = 0
		l.count(batch)
		return nil
	}
	l.counters.Aborts.Add(1)
	if err := errors.Join(failed, err); err != nil {
		return err // of the session, or of what it produced: both want a new one
	}
	l.log.Info("consumer: the group rebalanced: the batch is not committed", "records", len(batch))
	l.backoff(ctx)
	return nil
}

// giveBack rewinds the session to what is committed and waits, as a live member
// of the group, before the same records are polled again.
func (l *lane) giveBack(ctx, work context.Context, session *kgo.GroupTransactSession, cause error) error {
	if work.Err() != nil || errors.As(cause, new(*panicked)) {
		return cause
	}
	l.counters.Retries.Add(1)
	_, err := session.End(work, kgo.TryAbort) // no transaction is open: this is the rewind alone
	session.AllowRebalance()
	if err != nil {
		return err
	}
	l.log.Warn("consumer: the batch is tried again", "failures", l.failures+1, "error", cause)
	l.backoff(ctx)
	return nil
}

// backoff waits between half and all of MinBackoff doubled with each failure in
// a row, so that lanes that failed together do not come back together.
func (l *lane) backoff(ctx context.Context) {
	wait := l.cfg.MaxBackoff
	if l.failures < 16 {
		wait = min(wait, l.cfg.MinBackoff<<l.failures)
	}
	l.failures++
	timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (l *lane) count(batch []item) {
	verdicts, deadLetters := 0, []string(nil)
	for _, it := range batch {
		if it.fail == nil {
			verdicts++
		} else {
			deadLetters = append(deadLetters, it.fail.Class)
		}
	}
	l.counters.committed(verdicts, deadLetters)
}
