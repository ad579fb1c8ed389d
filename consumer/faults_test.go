package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/verisci/verisci/stages"
)

func TestFailedRequestsLoseAndDoubleNothing(t *testing.T) {
	type fault struct {
		key kmsg.Key
		err *kerr.Error
	}
	for _, f := range []fault{
		{kmsg.Produce, kerr.NotLeaderForPartition},
		{kmsg.Produce, kerr.RequestTimedOut}, // kfake appends before it answers this one
		{kmsg.Produce, kerr.NotEnoughReplicasAfterAppend},
		{kmsg.Produce, kerr.OutOfOrderSequenceNumber},
		{kmsg.Produce, kerr.CorruptMessage},
		{kmsg.Produce, kerr.UnknownServerError},
		{kmsg.TxnOffsetCommit, kerr.IllegalGeneration},
		{kmsg.TxnOffsetCommit, kerr.UnknownMemberID},
		{kmsg.TxnOffsetCommit, kerr.RebalanceInProgress},
		{kmsg.TxnOffsetCommit, kerr.CoordinatorLoadInProgress},
		{kmsg.TxnOffsetCommit, kerr.RequestTimedOut},
		{kmsg.TxnOffsetCommit, kerr.UnknownServerError},
		{kmsg.EndTxn, kerr.CoordinatorNotAvailable},
		{kmsg.EndTxn, kerr.ConcurrentTransactions},
		{kmsg.EndTxn, kerr.NotCoordinator},
		{kmsg.EndTxn, kerr.RequestTimedOut}, // ended before it is answered
		{kmsg.EndTxn, kerr.UnknownServerError},
		{kmsg.EndTxn, kerr.TransactionAbortable},
		{kmsg.InitProducerID, kerr.CoordinatorLoadInProgress},
		{kmsg.InitProducerID, kerr.UnknownServerError},
		{kmsg.Heartbeat, kerr.UnknownMemberID},
		{kmsg.OffsetFetch, kerr.UnstableOffsetCommit},
		{kmsg.JoinGroup, kerr.CoordinatorLoadInProgress},
		{kmsg.Fetch, kerr.UnknownServerError},
	} {
		t.Run(fmt.Sprintf("%s/%s", kmsg.NameForKey(int16(f.key)), f.err.Message), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			cs := claims(0, 48)
			b.send(cs)
			handle := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{f.key}, Err: f.err, Count: 2}, kfake.Fault{Keys: []kmsg.Key{f.key}, Err: f.err, TopLevel: true, Count: 2})
			r := b.start(b.config(), echo)
			b.eventuallyNoLag()
			r.finish(t)
			if handle.Hits() == 0 {
				t.Fatal("the fault met no request")
			}
			b.assertOnce(cs)
			b.assertLeft()
		})
	}
}

func TestErrorsThatNoRetryMendsEndRun(t *testing.T) {
	for name, f := range map[string]kfake.Fault{
		"no right to the group":            {Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, TopLevel: true, Count: -1},
		"no right to the transactional id": {Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.TransactionalIDAuthorizationFailed, TopLevel: true, Count: -1},
		"no right to write verdicts":       {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"no right to read claims":          {Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"the topic's limit was lowered":    {Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge, Count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.send(claims(0, 4))
			b.cluster.Fault(f)
			r := b.start(b.config(), echo)
			if err := r.wait(t); !errors.Is(err, f.Err) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

func TestASecondInstanceOfTheSameNameIsFenced(t *testing.T) {
	b := newBench(t)
	cfg := b.config()
	cfg.Lanes, cfg.Batch = 1, 1
	slow := func(ctx context.Context, batch []*stages.Work) error {
		time.Sleep(5 * time.Millisecond)
		return echo(ctx, batch)
	}
	first := b.start(cfg, slow)
	b.send(claims(0, 8))
	eventually(t, "8 claims", func() bool { return first.Counters().Claims.Load() == 8 })
	second := b.start(cfg, slow)
	b.send(claims(8, 100))
	var fencedErr error
	other := second
	select {
	case fencedErr = <-first.done:
	case fencedErr = <-second.done:
		other = first
	case <-time.After(20 * time.Second):
		t.Fatal("both instances go on")
	}
	if fencedErr == nil || !strings.Contains(fencedErr.Error(), "instance name") {
		t.Errorf("the fenced instance says: %v", fencedErr)
	}
	b.eventuallyNoLag()
	other.finish(t)
	b.assertOnce(claims(0, 100))
}

func TestInstancesJoinAndLeave(t *testing.T) {
	b := newBench(t)
	slow := func(ctx context.Context, batch []*stages.Work) error {
		time.Sleep(3 * time.Millisecond)
		return echo(ctx, batch)
	}
	cfg := b.config()
	cfg.Batch = 2
	b.send(claims(0, 100))
	a := b.start(cfg, slow)
	eventually(t, "a first commit", func() bool { return a.Counters().Commits.Load() > 0 })
	cfg.Instance = "second"
	other := b.start(cfg, slow)
	b.send(claims(100, 200))
	eventually(t, "work in both", func() bool { return other.Counters().Commits.Load() > 0 })
	a.finish(t)
	b.send(claims(200, 250))
	b.eventuallyNoLag()
	other.finish(t)
	b.assertOnce(claims(0, 250))
	if n := a.Counters().Claims.Load() + other.Counters().Claims.Load(); n != 250 {
		t.Errorf("%d claims counted", n)
	}
}

func TestABatchSlowerThanTheRebalanceIsDoneAgain(t *testing.T) {
	b := newBench(t)
	cs := claims(0, 16)
	b.send(cs)
	cfg := b.config()
	cfg.Lanes, cfg.RebalanceTimeout = 1, 300*time.Millisecond
	entered, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	a := b.start(cfg, func(ctx context.Context, batch []*stages.Work) error {
		if !once.Swap(true) {
			close(entered)
			<-release
		}
		return echo(ctx, batch)
	})
	<-entered
	cfg.Instance = "second"
	other := b.start(cfg, echo)
	eventually(t, "the second takes over", func() bool { return other.Counters().Claims.Load() > 0 })
	close(release)
	b.eventuallyNoLag()
	a.finish(t)
	other.finish(t)
	b.assertOnce(cs)
	if a.Counters().Aborts.Load() == 0 {
		t.Error("the slow batch was not aborted")
	}
}

func TestALongBatchIsCommitted(t *testing.T) {
	b := newBench(t)
	cs := claims(0, 16)
	b.send(cs)
	cfg := b.config()
	cfg.Lanes, cfg.SessionTimeout = 1, 200*time.Millisecond
	r := b.start(cfg, func(ctx context.Context, batch []*stages.Work) error {
		time.Sleep(600 * time.Millisecond)
		return echo(ctx, batch)
	})
	eventually(t, "16 claims", func() bool { return r.Counters().Claims.Load() == 16 })
	r.finish(t)
	b.assertOnce(cs)
	if n := r.Counters().Aborts.Load(); n != 0 {
		t.Errorf("%d batches aborted", n)
	}
}

func TestAPanicEndsRunAndTheOtherLanesCommit(t *testing.T) {
	b := newBench(t)
	cs := claims(0, 40)
	b.send(cs)
	cfg := b.config()
	cfg.Batch = 1
	r := b.start(cfg, func(ctx context.Context, batch []*stages.Work) error {
		if batch[0].Claim.ID == "c0017" {
			panic("no such tensor")
		}
		return echo(ctx, batch)
	})
	err := r.wait(t)
	if err == nil || !strings.Contains(err.Error(), "no such tensor") || !strings.Contains(err.Error(), "faults_test.go") {
		t.Errorf("Run: %v", err)
	}
	if members, _ := b.group(); members != 0 {
		t.Errorf("%d members left in the group", members)
	}
	again := b.start(b.config(), echo)
	b.eventuallyNoLag()
	again.finish(t)
	b.assertOnce(cs)
}

func TestStoppingCommitsTheBatchInHand(t *testing.T) {
	b := newBench(t)
	b.send(claims(0, 8))
	cfg := b.config()
	cfg.Lanes = 1
	entered, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	r := b.start(cfg, func(ctx context.Context, batch []*stages.Work) error {
		if !once.Swap(true) {
			close(entered)
			<-release
		}
		return echo(ctx, batch)
	})
	<-entered
	r.stop()
	close(release)
	if err := r.wait(t); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if n := r.Counters().Commits.Load(); n != 1 {
		t.Errorf("%d commits, want that of the batch in hand", n)
	}
	if members, _ := b.group(); members != 0 {
		t.Errorf("%d members left in the group", members)
	}
	again := b.start(cfg, echo)
	b.eventuallyNoLag()
	again.finish(t)
	b.assertOnce(claims(0, 8))
}

func TestStoppingGivesUpAfterTheTimeout(t *testing.T) {
	b := newBench(t)
	b.send(claims(0, 8))
	cfg := b.config()
	cfg.Lanes, cfg.StopTimeout = 1, 100*time.Millisecond
	entered := make(chan struct{})
	var once atomic.Bool
	r := b.start(cfg, func(ctx context.Context, batch []*stages.Work) error {
		if !once.Swap(true) {
			close(entered)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	<-entered
	r.stop()
	if err := r.wait(t); !errors.Is(err, errStopTimeout) {
		t.Errorf("Run: %v", err)
	}
	again := b.start(b.config(), echo)
	b.eventuallyNoLag()
	again.finish(t)
	b.assertOnce(claims(0, 8))
}
