package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/verisci/verisci/internal/kafka"
)

func start(t *testing.T, opts Options) *Broker {
	t.Helper()
	b, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.cluster.Close(); b.release() })
	return b
}

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(kafka.Connection{Brokers: []string{addr}}.Options(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func createTopic(t *testing.T, addr, topic string) {
	t.Helper()
	if _, err := kadm.NewClient(client(t, addr)).CreateTopic(t.Context(), 1, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, cl *kgo.Client, topic string, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// committed reads partition 0 of a topic up to its end, in one session from the
// start and in another from each offset on, which must agree: fetches from
// different places are told of aborted transactions in different ways.
func committed(t *testing.T, addr, topic string) []string {
	t.Helper()
	end, err := kadm.NewClient(client(t, addr)).ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	last, ok := end.Lookup(topic, 0)
	if !ok || last.Err != nil {
		t.Fatalf("%s has no partition 0: %v", topic, last.Err)
	}
	from := func(offset int64) (values []string) {
		if offset >= last.Offset {
			return nil
		}
		cl := client(t, addr, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}}))
		defer cl.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for at := offset; at < last.Offset; {
			fetches := cl.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatalf("%s from offset %d of %d: %v", topic, at, last.Offset, err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if !r.Attrs.IsControl() {
					values = append(values, string(r.Value))
				}
				at = r.Offset + 1
			})
		}
		return values
	}
	all := from(0)
	for offset := int64(1); offset < last.Offset; offset++ {
		rest := from(offset)
		if len(rest) > len(all) {
			t.Fatalf("%s: %q from offset %d, but %q from the start", topic, rest, offset, all)
		}
		for i := range rest {
			if rest[len(rest)-1-i] != all[len(all)-1-i] {
				t.Fatalf("%s: %q from offset %d, but %q from the start", topic, rest, offset, all)
			}
		}
	}
	return all
}

func TestAClientUsesTheBrokerThroughItsAddress(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	host, _, err := net.SplitHostPort(b.Addr())
	if err != nil || host != "127.0.0.1" || b.Port() == 0 {
		t.Fatalf("address %q, port %d", b.Addr(), b.Port())
	}
	meta, err := kadm.NewClient(client(t, b.Addr())).Metadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(meta.Brokers) != 1 || meta.Brokers[0].Host != host || int(meta.Brokers[0].Port) != b.Port() {
		t.Errorf("the broker advertises %+v and listens on %s", meta.Brokers, b.Addr())
	}
	if len(meta.Topics) != 0 {
		t.Errorf("a new broker has topics: %v", meta.Topics.Names())
	}
}

func TestTopicsAreNotCreatedByMentioningThem(t *testing.T) {
	b := start(t, Options{})
	cl := client(t, b.Addr(), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
	err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "typo", Value: []byte("x")}).FirstErr()
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("got %v", err)
	}
	topics, err := kadm.NewClient(cl).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(topics) != 0 {
		t.Errorf("topics %v", topics.Names())
	}
}

func TestAFolderServesOneBroker(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	if _, err := Start(Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Fatalf("a second broker on the folder: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: dir})
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	b := start(t, Options{})
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(dir, "torn")
	if err := os.Mkdir(torn, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(torn, "meta.json"), []byte(`{"version":`), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]Options{
		"port in use":       {Port: b.Port()},
		"port out of range": {Port: 70000},
		"no partitions":     {Partitions: -1},
		"folder is a file":  {Dir: file},
		"torn meta.json":    {Dir: torn},
	} {
		if b, err := Start(opts); err == nil {
			b.Close()
			t.Errorf("%s: no error", name)
		}
	}
	// What failed must not keep the folder.
	if err := os.Remove(filepath.Join(torn, "meta.json")); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: torn})
}

func TestBytesThatAreNotKafkaLeaveTheBrokerRunning(t *testing.T) {
	b := start(t, Options{})
	createTopic(t, b.Addr(), "t")
	request := func(key int16, rest ...byte) []byte {
		body := append(binary.BigEndian.AppendUint16(nil, uint16(key)), rest...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	for name, sent := range map[string][]byte{
		"nothing":         nil,
		"half a length":   {0, 0},
		"huge length":     {0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0},
		"no request":      {0, 0, 0, 0},
		"unknown key":     request(9999, make([]byte, 20)...),
		"negative key":    request(-1, make([]byte, 20)...),
		"unknown version": request(0, append([]byte{0x7f, 0xff}, make([]byte, 20)...)...),
		"cut request":     request(3, 0, 9, 0, 0, 0, 1, 0, 3, 'a', 'b', 'c', 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"ones":            bytes.Repeat([]byte{1}, 4096),
	} {
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := conn.Write(sent); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if tcp := conn.(*net.TCPConn); tcp.CloseWrite() == nil {
			conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: the connection stays open", name)
			}
		}
		conn.Close()
	}
	if resp, err := http.Get("http://" + b.Addr()); err == nil {
		resp.Body.Close()
		t.Error("the broker answers HTTP")
	}
	produce(t, client(t, b.Addr()), "t", "still here")
}

func TestARequestCutAtAnyByteIsReadWhole(t *testing.T) {
	b := start(t, Options{})
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	request := kmsg.NewPtrApiVersionsRequest()
	message := kmsg.NewRequestFormatter().AppendRequest(nil, request, 7)
	for range 2 {
		for _, c := range message {
			if _, err := conn.Write([]byte{c}); err != nil {
				t.Fatal(err)
			}
		}
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:]))); err != nil {
			t.Fatal(err)
		}
	}
}
