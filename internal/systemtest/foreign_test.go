package systemtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/verisci/verisci/schemas"
)

// python finds an interpreter that has what requirements.txt names. Without one
// the test is skipped, and fails where CI is set.
func python(t *testing.T) string {
	t.Helper()
	interpreter := cmp.Or(os.Getenv("VERISCI_PYTHON"), "python3")
	out, err := exec.Command(interpreter, "-c", "import confluent_kafka, fastavro").CombinedOutput()
	if err != nil {
		message := fmt.Sprintf("no foreign Kafka client: %s: %v\n%sinstall internal/systemtest/requirements.txt and name the interpreter with VERISCI_PYTHON", interpreter, err, out)
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return interpreter
}

func TestAForeignClientReadsVerdictsAndWritesClaims(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	port, addr := freePort(t)
	service := start(t, command(t.Context(), "run", "--demo", "--embedded", "--port", port, "--kafka-embedded-dir", filepath.Join(t.TempDir(), "broker")))
	service.says("running")

	// What a reader of committed records must not see.
	aborting := client(t, addr, kgo.TransactionalID("aborting"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := aborting.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for partition := range int32(4) {
		record := &kgo.Record{Topic: topics.Verdicts, Partition: partition, Key: []byte("aborted"), Value: []byte("not a verdict")}
		if err := aborting.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := aborting.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}

	produce := command(t.Context(), "produce", "--brokers", addr)
	produce.Stdin = strings.NewReader("Smoking causes lung cancer.\nVitamin C cures the common cold.\nÄgyptische Mumien trugen rosa Turnschuhe ☃.\n")
	if r := finish(t, time.Minute, produce); r.code != 0 {
		t.Fatal(r.stderr)
	}
	const id, text = "ausländisch/1", "Smoking does not cause lung cancer."
	r := finish(t, 2*time.Minute, exec.Command(interpreter, "read_verdicts.py", "--brokers", addr, "--schemas", "../../schemas/avsc", "-n", "4", "--send", id, text))
	if r.code != 0 {
		t.Fatalf("read_verdicts.py: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}

	type foreign struct {
		schemas.Verdict
		Key string `json:"key"`
	}
	got := map[string]foreign{}
	lines := json.NewDecoder(strings.NewReader(r.stdout))
	for lines.More() {
		var v foreign
		if err := lines.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if v.Key != v.ClaimID {
			t.Errorf("the verdict on %q has the key %q", v.ClaimID, v.Key)
		}
		got[v.ClaimID] = v
	}
	ours := verdicts(t, addr)
	if len(ours) != 4 || len(got) != 4 {
		t.Errorf("there are %d verdicts, %d of them in the foreign client: want 4", len(ours), len(got))
	}
	for _, want := range ours {
		// JSON levels how the two write times and floats.
		if a, b := asJSON(t, got[want.ClaimID].Verdict), asJSON(t, want); a != b {
			t.Errorf("the foreign client reads\n%s\nand we\n%s", a, b)
		}
	}
	if got[id].Claim != text {
		t.Errorf("the foreign client's claim came back as %q", got[id].Claim)
	}
	service.stop()
}

func asJSON(t *testing.T, v schemas.Verdict) string {
	t.Helper()
	b, err := newCodec(t).EncodeVerdict(v, schemas.JSON, 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
