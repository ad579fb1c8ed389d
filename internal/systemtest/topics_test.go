package systemtest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// metrics runs the evaluation and gives what it reports, but for the speed.
func metrics(t *testing.T, args ...string) map[string]any {
	t.Helper()
	report := map[string]any{}
	args = append([]string{"eval", "pipeline", "--json", "--claims", scifact(t, "claims_dev.jsonl")}, args...)
	r := finish(t, 10*time.Minute, command(t.Context(), args...))
	if r.code != 0 {
		t.Fatal(r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	maps.DeleteFunc(report, func(key string, _ any) bool { return key == "claims_per_second" || key == "inference_share" })
	return report
}

// TestDevClaimsThroughTheTopics sends all dev claims the whole way, with the
// settings a user gets who sets nothing.
func TestDevClaimsThroughTheTopics(t *testing.T) {
	t.Parallel()
	claims := devClaims(t)
	index := indexed(t)
	port, addr := freePort(t)
	dir := t.TempDir()
	brokerDir := filepath.Join(dir, "broker")
	service := start(t, command(t.Context(), "run", "--embedded", "--port", port, "--kafka-embedded-dir", brokerDir, "--index", index))
	service.says("running")
	if out := verisci(t, "produce", "--brokers", addr, scifact(t, "claims_dev.jsonl")); out != "300 claims acknowledged\n" {
		t.Errorf("produce says %q", out)
	}
	since := time.Now()
	tail := finish(t, 10*time.Minute, command(t.Context(), "tail", "--brokers", addr, "--from-start", "--json", "-n", "300"))
	if tail.code != 0 {
		t.Fatal(tail.stderr)
	}
	t.Logf("300 verdicts in %.1f s", time.Since(since).Seconds())
	if n := strings.Count(tail.stdout, "\n"); n != 300 {
		t.Errorf("tail -n 300 prints %d lines", n)
	}
	file := filepath.Join(dir, "verdicts.jsonl")
	if err := os.WriteFile(file, []byte(tail.stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "no lag", func() bool { return lag(t, addr) == 0 })

	since = time.Now()
	if r := service.stop(); !strings.Contains(r.stderr, "msg=stopped claims=300 verdicts=300") {
		t.Errorf("the service does not say that it stopped:\n%s", r.stderr)
	}
	t.Logf("stopped in %.2f s", time.Since(since).Seconds())
	broker := start(t, command(t.Context(), "broker", "--port", port, "--kafka-embedded-dir", brokerDir))
	broker.says("embedded broker")
	assertVerdicts(t, addr, ids(claims), 0)
	if n := lag(t, addr); n != 0 {
		t.Errorf("after a restart of the broker the lag is %d", n)
	}
	broker.stop()

	direct, through := metrics(t, "--corpus", scifact(t, "corpus.jsonl")), metrics(t, "--verdicts", file)
	if !reflect.DeepEqual(direct, through) {
		t.Errorf("through the topics %v\ndirectly %v", through, direct)
	}
	t.Log(through)
}
