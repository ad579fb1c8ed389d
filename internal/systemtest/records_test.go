package systemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/eval"
	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/schemas"
)

var topics = kafka.DefaultTopics()

// scifact gives the path of one of SciFact's files. Without the data the test is
// skipped; with VERISCI_DATA set, the file must be there.
func scifact(t *testing.T, name string) string {
	t.Helper()
	data := os.Getenv("VERISCI_DATA")
	if data == "" {
		t.Skip("VERISCI_DATA is not set: it names the folder that has scifact/" + name)
	}
	path := filepath.Join(data, "scifact", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("VERISCI_DATA is set: %v", err)
	}
	return path
}

// indexed builds an index of SciFact's corpus.
func indexed(t *testing.T) (dir string) {
	t.Helper()
	corpus := scifact(t, "corpus.jsonl")
	dir = filepath.Join(t.TempDir(), "index")
	verisci(t, "index", "--index", dir, corpus)
	return dir
}

// cheaplyIndexed builds an index of the same papers with one sentence each: what
// is tested with it hangs on the number of claims, not on inference.
func cheaplyIndexed(t *testing.T) (dir string) {
	t.Helper()
	corpus, err := os.ReadFile(scifact(t, "corpus.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var cut bytes.Buffer
	out, in := json.NewEncoder(&cut), json.NewDecoder(bytes.NewReader(corpus))
	for in.More() {
		var paper struct {
			DocID    int      `json:"doc_id"`
			Title    string   `json:"title"`
			Abstract []string `json:"abstract"`
		}
		if err := in.Decode(&paper); err != nil {
			t.Fatal(err)
		}
		paper.Abstract = paper.Abstract[:1]
		if err := out.Encode(paper); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	path := filepath.Join(dir, "corpus.jsonl")
	if err := os.WriteFile(path, cut.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "index")
	verisci(t, "index", "--index", dir, path)
	return dir
}

// devClaims are SciFact's 300 dev claims.
func devClaims(t *testing.T) []eval.Claim {
	t.Helper()
	claims, err := eval.LoadClaims(scifact(t, "claims_dev.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(claims) != 300 {
		t.Fatalf("%d dev claims, want 300", len(claims))
	}
	return claims
}

// claimsFile writes claims as 'verisci produce' reads them.
func claimsFile(t *testing.T, claims []eval.Claim) (path string) {
	t.Helper()
	var lines bytes.Buffer
	for _, c := range claims {
		if err := json.NewEncoder(&lines).Encode(map[string]any{"id": c.ID, "claim": c.Text}); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(t.TempDir(), "claims.jsonl")
	if err := os.WriteFile(path, lines.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func ids(claims []eval.Claim) (ids []string) {
	for _, c := range claims {
		ids = append(ids, strconv.Itoa(c.ID))
	}
	return ids
}

func newCodec(t *testing.T) *schemas.Codec {
	t.Helper()
	codec, err := schemas.NewCodec(schemas.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// client is a Kafka client of the test's own.
func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(kafka.Connection{Brokers: []string{addr}}.Options(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// committed reads the committed records of a topic, from its start to its end.
func committed(t *testing.T, addr, topic string) (records []*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(client(t, addr)).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			t.Fatal(end.Err)
		}
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	reader := client(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer reader.Close()
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s up to %v: %v", topic, left, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
	return records
}

// verdicts are the committed verdicts.
func verdicts(t *testing.T, addr string) (list []schemas.Verdict) {
	t.Helper()
	codec := newCodec(t)
	for _, r := range committed(t, addr, topics.Verdicts) {
		v, _, err := codec.DecodeVerdict(t.Context(), r.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// assertVerdicts fails unless the committed verdicts are one for each of the
// claims' ids, and there are no dead letters. repeats is how many verdicts too
// many are only reported: see killedBroker.
func assertVerdicts(t *testing.T, addr string, want []string, repeats int) {
	t.Helper()
	count := map[string]int{}
	for _, v := range verdicts(t, addr) {
		count[v.ClaimID]++
	}
	for _, id := range want {
		count[id]--
	}
	var lost, extra []string
	for id, n := range count {
		for ; n < 0; n++ {
			lost = append(lost, id)
		}
		for ; n > 0; n-- {
			extra = append(extra, id)
		}
	}
	if len(extra) > 0 && len(extra) <= repeats {
		t.Logf("the kill of a broker in the middle of a commit repeated %d verdicts: %v", len(extra), extra)
		extra = nil
	}
	if len(lost)+len(extra) > 0 {
		slices.Sort(lost)
		slices.Sort(extra)
		t.Errorf("%d claims: no verdict on %d of them: %v; %d verdicts too many: %v", len(want), len(lost), lost, len(extra), extra)
	}
	if letters := committed(t, addr, topics.DeadLetters); len(letters) > 0 {
		t.Errorf("%d dead letters, the first: %v", len(letters), letters[0].Headers)
	}
}

func keys(records []*kgo.Record) (keys []string) {
	for _, r := range records {
		keys = append(keys, string(r.Key))
	}
	return keys
}

// assertAll fails unless each claim's id is among got.
func assertAll(t *testing.T, claims []eval.Claim, got []string) {
	t.Helper()
	for _, id := range ids(claims) {
		if !slices.Contains(got, id) {
			t.Errorf("claim %s is lost", id)
		}
	}
}

// lag is how many records of the claims topic the group has not committed.
func lag(t *testing.T, addr string) (lag int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	admin := kadm.NewClient(client(t, addr))
	ends, err := admin.ListEndOffsets(ctx, topics.Claims)
	if err != nil {
		t.Fatal(err)
	}
	offsets, err := admin.FetchOffsets(ctx, "verisci")
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		at, _ := offsets.Lookup(end.Topic, end.Partition)
		lag += end.Offset - max(0, at.At)
	})
	return lag
}

// watcher follows the committed verdicts, across restarts of the broker.
type watcher struct {
	t    *testing.T
	mu   sync.Mutex
	seen []string // claims' ids
}

func watch(t *testing.T, addr string) *watcher {
	t.Helper()
	w := &watcher{t: t}
	ctx, cancel := context.WithCancel(t.Context())
	reader := client(t, addr, kgo.ConsumeTopics(topics.Verdicts), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fetches := reader.PollFetches(ctx) // errors pass when the broker is back
			w.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) { w.seen = append(w.seen, string(r.Key)) })
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

// patience is longer than a group waits for members that were killed while it
// was giving out partitions: their session timeout, 45 s, then a rebalance that
// counts on them, 60 s.
const patience = 3 * time.Minute

// wait waits until there are n verdicts.
func (w *watcher) wait(n int, alive ...*process) {
	w.t.Helper()
	for last, since := -1, time.Now(); ; time.Sleep(time.Millisecond) {
		switch now := w.count(); {
		case now >= n:
			return
		case now != last:
			last, since = now, time.Now()
		case time.Since(since) > patience:
			w.t.Fatalf("%d verdicts of %d, and no more for %s", now, n, patience)
		}
		for _, p := range alive {
			p.mustRun()
		}
	}
}

// assertSeen fails unless the watcher, too, has seen one verdict for each id.
func (w *watcher) assertSeen(want []string, repeats int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got, want := slices.Sorted(slices.Values(w.seen)), slices.Sorted(slices.Values(want))
	if len(got) > len(want) && len(got) <= len(want)+repeats {
		got, want = slices.Compact(got), slices.Compact(want)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("a reader that was there all the time saw %d verdicts on %d claims", len(got), len(want))
	}
}
