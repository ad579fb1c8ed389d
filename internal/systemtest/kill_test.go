package systemtest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/verisci/verisci/eval"
)

const (
	kills = 5
	batch = 8 // of a transaction

	// killedBroker is how many verdicts a broker killed with its service may
	// repeat: kfake writes a transaction's commit markers before its offsets, and
	// a kill within that half of a millisecond makes one batch be answered again
	// (DESIGN.md, "Embedded broker"). It loses nothing. A broker that lives
	// repeats nothing.
	killedBroker = batch
)

// TestKilledProcessesLoseAndDoubleNothing kills the service with SIGKILL while it
// works, with or without the broker inside it, and starts it again.
func TestKilledProcessesLoseAndDoubleNothing(t *testing.T) {
	claims := devClaims(t)
	for _, tt := range []struct {
		name              string
		embedded, sending bool
	}{
		{"service, claims sent before", false, false},
		{"service, claims being sent", false, true},
		{"service and broker, claims sent before", true, false},
		{"service and broker, claims being sent", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // a group waits for a killed member, idle
			random := chance(t)
			index := cheaplyIndexed(t) // of its own: an index serves one process
			port, addr := freePort(t)
			brokerDir := filepath.Join(t.TempDir(), "broker")
			args := []string{"run", "--index", index, "--k", "1", "--kafka-batch", strconv.Itoa(batch), "--kafka-instance", "victim"}
			var others []*process
			if tt.embedded {
				args = append(args, "--embedded", "--port", port, "--kafka-embedded-dir", brokerDir)
			} else {
				broker := start(t, command(t.Context(), "broker", "--port", port, "--kafka-embedded-dir", brokerDir))
				broker.says("embedded broker")
				others = append(others, broker)
				args = append(args, "--brokers", addr)
			}
			service := start(t, command(t.Context(), args...))
			service.says("running")
			w := watch(t, addr)
			var sender *process
			if tt.sending {
				sender = send(t, addr, claims, w)
			} else {
				verisci(t, "produce", "--brokers", addr, claimsFile(t, claims))
			}
			for i, after := range moments(random, len(claims)) {
				w.wait(after, append(others, service)...)
				time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
				service.kill()
				done := w.count()
				if !tt.embedded {
					done = len(committed(t, addr, topics.Verdicts))
				}
				if done == 0 || done >= len(claims) {
					t.Errorf("kill %d hit no work in progress: %d verdicts were committed", i+1, done)
				}
				since := time.Now()
				service = start(t, command(t.Context(), args...))
				w.wait(done+1, append(others, service)...)
				t.Logf("kill %d at %d verdicts of %d; the next one %.1f s later", i+1, done, len(claims), time.Since(since).Seconds())
			}
			want := ids(claims)
			if sender != nil {
				if r := sender.wait(2 * time.Minute); r.code != 0 || r.stdout != fmt.Sprintf("%d claims acknowledged\n", len(claims)) {
					t.Errorf("produce: exit code %d, %q\n%s", r.code, r.stdout, r.stderr)
				}
				want = keys(committed(t, addr, topics.Claims))
				assertAll(t, claims, want)
				// A sender that outlives the embedded broker may repeat what a
				// killed one had stored (see broker.Start); nobody else may.
				if n := len(want) - len(claims); n > 0 {
					t.Logf("%d claims are on the topic twice", n)
					if !tt.embedded {
						t.Errorf("though the broker lived")
					}
				}
			}
			w.wait(len(want), append(others, service)...)
			eventually(t, time.Minute, "no lag", func() bool { return lag(t, addr) == 0 })
			repeats := 0
			if tt.embedded {
				repeats = killedBroker
			}
			assertVerdicts(t, addr, want, repeats)
			w.assertSeen(want, repeats)
			service.stop()
		})
	}
}

// chance is a source of random moments. Its seed is in the log and another one
// in every run: the moments that were tried before are known to be safe.
func chance(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// moments are numbers of committed verdicts after which to kill, apart enough
// for each to fall into the work of a process of its own.
func moments(random *rand.Rand, total int) (after []int) {
	slice := (total - 40) / kills
	for i := range kills {
		after = append(after, 10+i*slice+random.IntN(slice/2))
	}
	return after
}

// send starts a sender and gives it claims as the verdicts come, some ahead of
// them: it is sending whatever is killed.
func send(t *testing.T, addr string, claims []eval.Claim, w *watcher) *process {
	t.Helper()
	cmd := command(t.Context(), "produce", "--brokers", addr)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, cmd)
	go func() {
		defer stdin.Close()
		for i, c := range claims {
			for i > w.count()+60 {
				select {
				case <-t.Context().Done():
					return
				case <-time.After(time.Millisecond):
				}
			}
			if _, err := fmt.Fprintf(stdin, "{\"id\": %d, \"claim\": %q}\n", c.ID, c.Text); err != nil {
				return // the sender has ended, which its exit code tells
			}
		}
	}()
	return p
}

// TestStoppedServiceGoesOnWhereItWas stops the service with SIGTERM in the
// middle of its work.
func TestStoppedServiceGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	claims := devClaims(t)
	index := cheaplyIndexed(t)
	port, addr := freePort(t)
	args := []string{"run", "--index", index, "--k", "1", "--kafka-batch", strconv.Itoa(batch), "--embedded", "--port", port, "--kafka-embedded-dir", filepath.Join(t.TempDir(), "broker")}
	service := start(t, command(t.Context(), args...))
	service.says("running")
	w := watch(t, addr)
	verisci(t, "produce", "--brokers", addr, claimsFile(t, claims))
	w.wait(50, service)
	since := time.Now()
	service.stop()
	t.Logf("stopped in %.2f s at %d verdicts", time.Since(since).Seconds(), w.count())
	if n := w.count(); n >= len(claims) {
		t.Fatalf("%d verdicts: there was nothing left to do", n)
	}
	service = start(t, command(t.Context(), args...))
	w.wait(len(claims), service)
	assertVerdicts(t, addr, ids(claims), 0)
	w.assertSeen(ids(claims), 0)
	service.stop()
}
