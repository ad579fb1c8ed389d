//go:build unix

package embedded_test

import (
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/embedded"
	"github.com/verisci/verisci/schemas"
)

// limitFileSize lets the kernel refuse writes behind so many bytes of a file,
// for this process. It gives back the way to lift the limit.
func limitFileSize(t *testing.T, bytes int64) (lift func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // so that a write reports an error, after what fits
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = uint64(bytes)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	lift = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(lift)
	return lift
}

func TestAFailedWriteLeavesTheIndexAsItWasAndUsable(t *testing.T) {
	o := embedded.Options{Ranking: index.BM25, Dir: t.TempDir()}
	x := open(t, o)
	put(t, x, paper("1", "zinc"))
	before, size := version(t, x), logSize(t, o.Dir)

	lift := limitFileSize(t, size+100)
	for range 3 {
		err := x.Upsert(t.Context(), []schemas.Paper{paper("2", "copper"), paper("3", strings.Repeat("gold ", 1000))})
		if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
			t.Fatalf("error %v", err)
		}
		if v := version(t, x); v != before {
			t.Errorf("version %s, want %s", v, before)
		}
		if got := logSize(t, o.Dir); got != size {
			t.Errorf("the log has %d bytes, want %d", got, size)
		}
	}
	if got := ids(search(t, x, 5, "zinc copper gold")); got != "1" {
		t.Errorf("hits %q", got)
	}
	put(t, x, paper("4", "z")) // what fits is taken
	lift()
	put(t, x, paper("2", "copper"))
	want := version(t, x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got := version(t, open(t, o)); got != want {
		t.Errorf("version %s, want %s", got, want)
	}
}
