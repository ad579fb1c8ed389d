package systemtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the path of the program under test.
var program string

func TestMain(m *testing.M) {
	code, err := build(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "systemtest:", err)
		code = 1
	}
	os.Exit(code)
}

func build(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "verisci-systemtest-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "verisci")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/verisci/verisci/cmd/verisci").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return run(), nil
}

// command is the program with these arguments. It finds bundles and ONNX Runtime
// above its working directory, this package's folder; of the settings in the
// environment only the library's path is passed on.
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "VERISCI_") || strings.HasPrefix(v, "VERISCI_ONNXRUNTIME=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

// result is what a command that ended left behind.
type result struct {
	stdout, stderr string
	code           int
}

// finish runs a command to its end, which must come within limit.
func finish(t *testing.T, limit time.Duration, cmd *exec.Cmd) result {
	t.Helper()
	p := start(t, cmd)
	return p.wait(limit)
}

// verisci runs the program to its end and expects success.
func verisci(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	r := finish(t, 5*time.Minute, command(t.Context(), args...))
	if r.code != 0 {
		t.Fatalf("verisci %s: exit code %d\n%s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r.stdout
}

// process is a running command.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{} // closed when it has ended
}

// start starts a command. The end of the test kills it.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.stdout
	}
	cmd.Stderr = &p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait() // its error is in cmd.ProcessState
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s (pid %d) said:\n%s", strings.Join(cmd.Args[1:], " "), cmd.Process.Pid, p.stderr.tail())
		}
	})
	return p
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// wait waits for the end of the process.
func (p *process) wait(limit time.Duration) result {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("%s did not end within %s", strings.Join(p.cmd.Args[1:], " "), limit)
	}
	return result{p.stdout.String(), p.stderr.String(), p.cmd.ProcessState.ExitCode()}
}

// stop asks the process to stop, which it must do by itself, without an error.
func (p *process) stop() result {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	r := p.wait(40 * time.Second) // --kafka-stop-timeout is 30 s, then it leaves the group
	if r.code != 0 {
		p.t.Errorf("exit code %d after SIGTERM", r.code)
	}
	return r
}

// says waits until the process has logged a text.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, time.Minute, fmt.Sprintf("%q in the log of %s", text, p.cmd.Args[1]), func() bool {
		p.mustRun()
		return strings.Contains(p.stderr.String(), text)
	})
}

// mustRun fails the test if the process has ended by itself.
func (p *process) mustRun() {
	p.t.Helper()
	select {
	case <-p.done:
		p.t.Fatalf("%s ended by itself: %v", p.cmd.Args[1], p.cmd.ProcessState)
	default:
	}
}

// peakMemory is the most physical memory the process has held, in MiB.
func (p *process) peakMemory() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if !found || len(fields) < 2 || fields[1] != "kB" {
		p.t.Fatalf("no VmHWM in\n%s", status)
	}
	kB, err := strconv.Atoi(fields[0])
	if err != nil {
		p.t.Fatal(err)
	}
	return kB >> 10
}

// output collects what a process writes while others read it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func (o *output) tail() string {
	s := o.String()
	return s[max(0, len(s)-8<<10):]
}

// eventually polls a condition that other processes bring about.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// freePort finds a port for a broker that comes back on it after a kill. It lies
// below those that systems give to outgoing connections, one of which could
// otherwise take it in between.
func freePort(t *testing.T) (port, addr string) {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(10_000))
		addr := net.JoinHostPort("127.0.0.1", port)
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return port, addr
		} else if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	t.Fatal("no free port")
	return "", ""
}
