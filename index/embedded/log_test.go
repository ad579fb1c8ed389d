package embedded_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/embedded"
	"github.com/verisci/verisci/schemas"
)

const headerSize = 16

// history is a log of some batches, and what the index was after each.
type history struct {
	log      []byte
	ends     []int // where each batch ends; ends[0] is the header's end
	versions []string
}

func writeHistory(tb testing.TB) history {
	tb.Helper()
	dir := tb.TempDir()
	x := open(tb, embedded.Options{Ranking: index.BM25, Dir: dir})
	var h history
	committed := func() {
		h.ends = append(h.ends, int(logSize(tb, dir)))
		h.versions = append(h.versions, version(tb, x))
	}
	committed()
	put(tb, x, paper("1", "zinc", "One."), paper("2", "copper", "Two.", "Three."))
	committed()
	put(tb, x, paper("1", "gold"))
	committed()
	remove(tb, x, "2", "unknown")
	committed()
	put(tb, x, paper("3", "tin"), paper("4", "iron"))
	committed()
	if err := x.Close(); err != nil {
		tb.Fatal(err)
	}
	var err error
	if h.log, err = os.ReadFile(filepath.Join(dir, "papers.log")); err != nil {
		tb.Fatal(err)
	}
	return h
}

// openLog opens an index whose log has these bytes.
func openLog(tb testing.TB, log []byte, logger *slog.Logger) (*embedded.Index, string, error) {
	tb.Helper()
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "papers.log"), log, 0o644); err != nil {
		tb.Fatal(err)
	}
	x, err := embedded.Open(tb.Context(), embedded.Options{Ranking: index.BM25, Dir: dir, Logger: logger})
	return x, dir, err
}

func TestALogCutAnywhereIsReadUpToItsLastCommit(t *testing.T) {
	h := writeHistory(t)
	last := 0
	for cut := headerSize; cut <= len(h.log); cut++ {
		if last+1 < len(h.ends) && cut == h.ends[last+1] {
			last++
		}
		var warnings bytes.Buffer
		x, dir, err := openLog(t, h.log[:cut], slog.New(slog.NewTextHandler(&warnings, nil)))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if got := version(t, x); got != h.versions[last] {
			t.Errorf("cut at %d: version %s, want %s", cut, got, h.versions[last])
		}
		if torn := cut != h.ends[last]; torn != strings.Contains(warnings.String(), fmt.Sprintf("cut_bytes=%d", cut-h.ends[last])) {
			t.Errorf("cut at %d: logged %q", cut, warnings.String())
		}
		if got := logSize(t, dir); got != int64(h.ends[last]) {
			t.Errorf("cut at %d: the log has %d bytes, want %d", cut, got, h.ends[last])
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABatchWrittenAfterATornTailIsKept(t *testing.T) {
	h := writeHistory(t)
	x, dir, err := openLog(t, h.log[:len(h.log)-3], nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, x, paper("5", "lead"))
	want := version(t, x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got := version(t, open(t, embedded.Options{Ranking: index.BM25, Dir: dir})); got != want {
		t.Errorf("version %s, want %s", got, want)
	}
}

// A disk may write a batch's last sector and not its first.
func TestATornBatchWhoseCommitWasWrittenIsCutOff(t *testing.T) {
	h := writeHistory(t)
	start := h.ends[len(h.ends)-2]
	clear(h.log[start : start+20])
	x, _, err := openLog(t, h.log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if got, want := version(t, x), h.versions[len(h.versions)-2]; got != want {
		t.Errorf("version %s, want %s", got, want)
	}
}

func TestDamageBeforeTheLastBatchIsAnErrorAndNothingIsCut(t *testing.T) {
	h := writeHistory(t)
	for at := headerSize; at < h.ends[len(h.ends)-2]; at++ {
		log := bytes.Clone(h.log)
		log[at] ^= 0x10
		_, dir, err := openLog(t, log, nil)
		if !errors.Is(err, embedded.ErrDamaged) {
			t.Errorf("byte %d: %v", at, err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "papers.log")); !bytes.Equal(got, log) {
			t.Errorf("byte %d: the log was changed", at)
		}
	}
}

func TestDamageFarFromALaterCommitIsFound(t *testing.T) {
	dir := t.TempDir()
	x := open(t, embedded.Options{Ranking: index.BM25, Dir: dir})
	put(t, x, paper("1", strings.Repeat("zinc ", 150_000)))
	put(t, x, paper("2", strings.Repeat("gold ", 150_000)), paper("3", strings.Repeat("gold ", 150_000)))
	put(t, x, paper("4", "iron"))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "papers.log"))
	if err != nil {
		t.Fatal(err)
	}
	log[100] ^= 1
	if _, _, err := openLog(t, log, nil); !errors.Is(err, embedded.ErrDamaged) {
		t.Error(err)
	}
}

func TestAFileThatIsNoLogOrOfAnUnknownFormatIsAnError(t *testing.T) {
	newer := binary.LittleEndian.AppendUint16([]byte("VeriSci papers"), 2)
	for want, content := range map[string][]byte{
		"has format version 2":   append(newer, "whatever it has"...),
		"is not a log of papers": []byte("PK\x03\x04 something else entirely"),
	} {
		_, dir, err := openLog(t, content, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "papers.log")); !bytes.Equal(got, content) {
			t.Error("the file was changed")
		}
	}
	for n := range headerSize {
		if _, _, err := openLog(t, []byte("VeriSci papers\x01\x00")[:n], nil); err == nil {
			t.Errorf("no error for %d bytes", n)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Open(t.Context(), embedded.Options{Ranking: index.BM25, Dir: file}); err == nil {
		t.Error("no error for a file in place of a directory")
	}
}

func TestADirectoryIsOpenOnlyOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	o := embedded.Options{Ranking: index.BM25, Dir: dir}
	x := open(t, o)
	put(t, x, paper("1", "zinc"))
	if _, err := embedded.Open(t.Context(), o); !errors.Is(err, embedded.ErrLocked) {
		t.Errorf("second Open: %v", err)
	}
	put(t, x, paper("2", "zinc"))
	want := version(t, x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got := version(t, open(t, o)); got != want {
		t.Errorf("version %s, want %s", got, want)
	}
}

// grow replaces a paper of 100 kB until the log has grown that often, and returns its largest size.
func grow(t *testing.T, x *embedded.Index, dir string, times int) (largest int64) {
	t.Helper()
	for i := range times {
		put(t, x, paper("big", fmt.Sprint(i), strings.Repeat("zinc ", 20_000)))
		largest = max(largest, logSize(t, dir))
	}
	return largest
}

func TestGarbageInTheLogIsCompacted(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "papers.log.new"), []byte("left by a crash"), 0o644); err != nil {
		t.Fatal(err)
	}
	x := open(t, embedded.Options{Ranking: index.BM25, Dir: dir})
	var many []schemas.Paper
	put(t, x, paper("gone", "gold"))
	remove(t, x, "gone")
	for i := range 1500 { // more than one batch of a rewritten log
		many = append(many, paper(fmt.Sprint(i), "gold"))
	}
	put(t, x, many...)
	if largest := grow(t, x, dir, 40); largest > 2<<20 {
		t.Errorf("the log grew to %d bytes", largest)
	}
	put(t, x, paper("after", "gold"))
	want := version(t, x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	reopened := open(t, embedded.Options{Ranking: index.BM25, Dir: dir})
	if got := version(t, reopened); got != want {
		t.Errorf("version %s, want %s", got, want)
	}
	if n := len(search(t, reopened, 2000, "gold")); n != 1501 {
		t.Errorf("%d hits, want 1501", n)
	}
}

func TestACompactionThatFailsLosesNothing(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "papers.log.new")
	var log bytes.Buffer
	x := open(t, embedded.Options{Ranking: index.BM25, Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := os.MkdirAll(filepath.Join(blocked, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if largest := grow(t, x, dir, 25); largest < 2<<20 {
		t.Errorf("compacted in spite of the obstacle: %d bytes", largest)
	}
	if n := strings.Count(log.String(), "compaction failed"); n < 1 || n > 8 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	grow(t, x, dir, 25)
	if size := logSize(t, dir); size > 2<<20 {
		t.Errorf("not compacted when it could be: %d bytes", size)
	}
	want := version(t, x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got := version(t, open(t, embedded.Options{Ranking: index.BM25, Dir: dir})); got != want {
		t.Errorf("version %s, want %s", got, want)
	}
}

// FuzzReplay cuts a log and flips bits in it: what opens is the state of some
// commit, works on, and reopens as it was left.
func FuzzReplay(f *testing.F) {
	h := writeHistory(f)
	known := make(map[string]bool)
	for _, v := range h.versions {
		known[v] = true
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		flips := make([]byte, 3*rnd.IntN(4))
		for i := range flips {
			flips[i] = byte(rnd.Uint32())
		}
		f.Add(uint16(rnd.IntN(2*len(h.log))), flips)
	}
	f.Fuzz(func(t *testing.T, cut uint16, flips []byte) {
		log := bytes.Clone(h.log[:min(int(cut), len(h.log))])
		for ; len(flips) >= 3 && len(log) > 0; flips = flips[3:] {
			log[int(binary.LittleEndian.Uint16(flips))%len(log)] ^= 1 << (flips[2] % 8)
		}
		x, dir, err := openLog(t, log, nil)
		if err != nil {
			header := bytes.HasPrefix(log, h.log[:headerSize])
			if header && !errors.Is(err, embedded.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if v := version(t, x); !known[v] {
			t.Errorf("version %s is no commit's", v)
		}
		put(t, x, paper("9", "lead"))
		want := version(t, x)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if got := version(t, open(t, embedded.Options{Ranking: index.BM25, Dir: dir})); got != want {
			t.Errorf("reopened as %s, want %s", got, want)
		}
	})
}
