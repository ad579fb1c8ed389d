package broker

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const brokerDir = "VERISCI_TEST_BROKER_DIR"

// TestMain is also the broker that the tests kill: see startProcess.
func TestMain(m *testing.M) {
	if dir := os.Getenv(brokerDir); dir != "" {
		b, err := Start(Options{Dir: dir})
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString(b.Addr() + "\n")
		select {}
	}
	os.Exit(m.Run())
}

// startProcess runs a broker in a process of its own. kill ends it with SIGKILL.
func startProcess(t *testing.T, dir string) (addr string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), brokerDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the broker did not start: %v", err)
	}
	return strings.TrimSpace(line), kill
}

func assertCommitted(t *testing.T, addr, topic string, want ...string) {
	t.Helper()
	if got := committed(t, addr, topic); !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", topic, got, want)
	}
}

func transaction(t *testing.T, cl *kgo.Client, end kgo.TransactionEndTry, values ...string) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "t", values...)
	if err := cl.EndTransaction(t.Context(), end); err != nil {
		t.Fatal(err)
	}
}

func TestAKillLosesNothingAcknowledged(t *testing.T) {
	dir := t.TempDir()
	addr, kill := startProcess(t, dir)
	admin := kadm.NewClient(client(t, addr))
	limit := "2000000"
	if _, err := admin.CreateTopic(t.Context(), 1, -1, map[string]*string{"max.message.bytes": &limit}, "t"); err != nil {
		t.Fatal(err)
	}
	produce(t, client(t, addr), "t", "a", "b")
	transaction(t, client(t, addr, kgo.TransactionalID("x")), kgo.TryCommit, "c")
	transaction(t, client(t, addr, kgo.TransactionalID("y")), kgo.TryAbort, "aborted")
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "t", Partition: 0, At: 2, LeaderEpoch: -1})
	if err := admin.CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}

	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(addr), kgo.ConsumerGroup("eos"), kgo.ConsumeTopics("t"),
		kgo.TransactionalID("z"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // the broker it would say goodbye to is dead
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		session.Client().LeaveGroupContext(gone)
		session.Close()
	}()
	session.PollFetches(t.Context())
	if err := session.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := session.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("d")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if ok, err := session.End(t.Context(), kgo.TryCommit); !ok || err != nil {
		t.Fatalf("committed %v: %v", ok, err)
	}
	before, err := admin.FetchOffsets(t.Context(), "eos")
	if err != nil {
		t.Fatal(err)
	}
	kill()

	b := start(t, Options{Dir: dir})
	assertCommitted(t, b.Addr(), "t", "a", "b", "c", "d")
	admin = kadm.NewClient(client(t, b.Addr()))
	for group, want := range map[string]int64{"g": 2, "eos": before.Offsets()["t"][0].At} {
		got, err := admin.FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		if at := got.Offsets()["t"][0].At; at != want || at == 0 {
			t.Errorf("group %s is at %d, want %d", group, at, want)
		}
	}
	configs, err := admin.DescribeTopicConfigs(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(configs[0].Configs, func(c kadm.Config) bool { return c.Key == "max.message.bytes" && c.MaybeValue() == limit }) {
		t.Error("the topic's configuration is lost")
	}
}

// A transaction that was open at a kill stays aborted, and what its
// transactional id commits later is seen, also after more kills.
func TestATransactionOpenAtAKillIsAbortedForGood(t *testing.T) {
	dir := t.TempDir()
	var kill func()
	addr, kill := startProcess(t, dir)
	createTopic(t, addr, "t")
	var want []string
	for _, round := range []string{"1", "2", "3"} {
		cl := client(t, addr, kgo.TransactionalID("lane"))
		transaction(t, cl, kgo.TryCommit, "committed "+round, "and "+round)
		want = append(want, "committed "+round, "and "+round)
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, cl, "t", "open "+round)
		kill()
		addr, kill = startProcess(t, dir)
		assertCommitted(t, addr, "t", want...)
	}
	transaction(t, client(t, addr, kgo.TransactionalID("lane")), kgo.TryCommit, "last")
	kill()
	b := start(t, Options{Dir: dir})
	assertCommitted(t, b.Addr(), "t", append(want, "last")...)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = start(t, Options{Dir: dir})
	assertCommitted(t, b.Addr(), "t", append(want, "last")...)
}

// A producer that outlives the broker goes on where it was.
func TestAnIdempotentProducerGoesOnAfterAKill(t *testing.T) {
	dir := t.TempDir()
	addr, kill := startProcess(t, dir)
	createTopic(t, addr, "t")
	kill()
	first := start(t, Options{Dir: dir})
	produce(t, client(t, first.Addr()), "t", "a")
	if err := first.Close(); err != nil { // writes the sequence windows
		t.Fatal(err)
	}
	addr, kill = startProcess(t, dir)
	moved := addr
	cl := client(t, addr, kgo.Dialer(dialTo(&moved)))
	produce(t, cl, "t", "b", "c")
	kill()
	b := start(t, Options{Dir: dir})
	moved = b.Addr()
	produce(t, cl, "t", "d")
	assertCommitted(t, b.Addr(), "t", "a", "b", "c", "d")
}

func TestATornTailIsCutOff(t *testing.T) {
	dir := t.TempDir()
	addr, kill := startProcess(t, dir)
	createTopic(t, addr, "t")
	produce(t, client(t, addr), "t", "a", "b")
	kill()
	segments, err := filepath.Glob(filepath.Join(dir, "partitions", "t-0", "*.dat"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments %v: %v", segments, err)
	}
	whole, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segments[0], whole[:len(whole)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"groups.log", "pids.log"} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString("torn")
		f.Close()
	}
	b := start(t, Options{Dir: dir})
	produce(t, client(t, b.Addr()), "t", "c")
	assertCommitted(t, b.Addr(), "t", "a", "c")
}

// dialTo sends every connection to where addr points now: the broker comes back
// on another port than the one it advertised.
func dialTo(addr *string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *addr)
	}
}
