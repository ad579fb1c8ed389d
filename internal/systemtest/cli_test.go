package systemtest

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDemoShowsFifteenVerdictsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	text := finish(t, 2*time.Minute, command(t.Context(), "demo"))
	if text.code != 0 {
		t.Fatalf("exit code %d\n%s", text.code, text.stderr)
	}
	if !strings.Contains(text.stderr, "15 verdicts in ") {
		t.Errorf("standard error does not count the verdicts:\n%s", text.stderr)
	}
	if n := strings.Count(text.stdout, " retrieved"); n != 15 {
		t.Errorf("demo shows %d verdicts, want 15:\n%s", n, text.stdout)
	}
	lines := strings.Split(strings.TrimSpace(verisci(t, "demo", "--json")), "\n")
	if len(lines) != 15 {
		t.Errorf("demo --json prints %d lines, want 15", len(lines))
	}
	for _, line := range lines {
		if _, _, err := newCodec(t).DecodeVerdict(t.Context(), []byte(line)); err != nil {
			t.Errorf("demo --json prints %s: %v", line, err)
		}
	}
}

func TestVerifyReadsArgumentsAndStandardInput(t *testing.T) {
	t.Parallel()
	const first, second = "Smoking causes lung cancer.", "Vitamin C cures the common cold."
	claims := func(stdout string) (claims []string) {
		t.Helper()
		lines := json.NewDecoder(strings.NewReader(stdout))
		for lines.More() {
			var raw json.RawMessage
			if err := lines.Decode(&raw); err != nil {
				t.Fatal(err)
			}
			v, _, err := newCodec(t).DecodeVerdict(t.Context(), raw)
			if err != nil {
				t.Fatal(err)
			}
			claims = append(claims, v.Claim)
		}
		return claims
	}
	for name, input := range map[string]string{
		"text":                  first + "\n" + second + "\n",
		"no newline at the end": first + "\n" + second,
		"Windows":               "\ufeff" + first + "\r\n\r\n" + second + "\r\n",
		"JSON":                  `{"id": "a", "text": "` + first + `"}` + "\n" + `{"id": 7, "claim": "` + second + `"}`,
	} {
		cmd := command(t.Context(), "verify", "--demo", "--json")
		cmd.Stdin = strings.NewReader(input)
		r := finish(t, time.Minute, cmd)
		if got := claims(r.stdout); r.code != 0 || len(got) != 2 || got[0] != first || got[1] != second {
			t.Errorf("%s: exit code %d, verdicts on %q\n%s", name, r.code, got, r.stderr)
		}
	}
	if got := claims(verisci(t, "verify", "--demo", "--json", first, second)); len(got) != 2 || got[0] != first || got[1] != second {
		t.Errorf("arguments: verdicts on %q", got)
	}
	if text := verisci(t, "verify", "--demo", first); !strings.Contains(text, first) {
		t.Errorf("the text does not show the claim:\n%s", text)
	}
}

// TestMistakesAreErrorsThatSayWhatIsWrong runs commands that cannot work: each
// ends soon, with a failure's exit code and one message that names the cause.
func TestMistakesAreErrorsThatSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing := filepath.Join(dir, "missing")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, takenPort, _ := net.SplitHostPort(taken.Addr().String())
	const claim = "Smoking causes lung cancer."
	for name, tt := range map[string]struct {
		args  string
		stdin string
		env   string
		says  string
	}{
		"unknown command":             {args: "verfy", says: "verfy"},
		"unknown flag":                {args: "run --demo --no-such-flag", says: "--no-such-flag"},
		"flag of the wrong type":      {args: "verify --demo --k three x", says: "--k"},
		"setting out of range":        {args: "verify --demo --k 0 x", says: "index.k"},
		"environment out of range":    {args: "verify --demo x", env: "VERISCI_INDEX_K=0", says: "index.k"},
		"environment of a wrong type": {args: "verify --demo x", env: "VERISCI_INDEX_K=three", says: "index.k"},
		"bad key in the file":         {args: "verify --demo x --config " + file("key.yaml", "index: {kk: 3}\n"), says: "kk"},
		"file is no YAML":             {args: "verify --demo x --config " + file("torn.yaml", "index: ["), says: "torn.yaml"},
		"no such file":                {args: "verify --demo x --config " + missing, says: missing},
		"run without a broker":        {args: "run --demo", says: "--brokers"},
		"produce without a broker":    {args: "produce", stdin: claim, says: "--brokers"},
		"tail without a broker":       {args: "tail", says: "--brokers"},
		"two brokers":                 {args: "run --demo --embedded --brokers 127.0.0.1:1", says: "kafka.embedded"},
		"run, broker away":            {args: "run --demo --brokers 127.0.0.1:1", says: "127.0.0.1:1"},
		"produce, broker away":        {args: "produce --brokers 127.0.0.1:1", stdin: claim, says: "127.0.0.1:1"},
		"tail, broker away":           {args: "tail --brokers 127.0.0.1:1", says: "127.0.0.1:1"},
		"no index":                    {args: "verify x --index " + missing, says: missing},
		"run without an index":        {args: "run --embedded --port 0 --kafka-embedded-dir= --index " + missing, says: missing},
		"index of nothing":            {args: "index --index " + missing, says: "file"},
		"index of a missing file":     {args: "index --index " + filepath.Join(dir, "x") + " " + missing, says: missing},
		"index of no papers":          {args: "index --index " + filepath.Join(dir, "y") + " " + file("bad.jsonl", "{\"doc_id\": 1\n"), says: "bad.jsonl"},
		"no such bundle":              {args: "verify --demo x --label nowhere", says: "nowhere"},
		"another stage's bundle":      {args: "verify --demo x --label rationale", says: "rationale"},
		"no GPU":                      {args: "verify --demo x --device cuda", says: "cuda"},
		"no ONNX Runtime":             {args: "verify --demo x", env: "VERISCI_ONNXRUNTIME=" + missing, says: missing},
		"ONNX Runtime is a text":      {args: "verify --demo x", env: "VERISCI_ONNXRUNTIME=" + file("lib.so", "no library"), says: "lib.so"},
		"port in use":                 {args: "run --demo --embedded --kafka-embedded-dir= --port " + takenPort, says: takenPort},
		"broker's port in use":        {args: "broker --kafka-embedded-dir= --port " + takenPort, says: takenPort},
		"broker's folder is a file":   {args: "broker --port 0 --kafka-embedded-dir " + file("afile", ""), says: "afile"},
		"claim too long":              {args: "verify --demo", stdin: strings.Repeat("x", 5000), says: "5000 bytes"},
		"line too long":               {args: "verify --demo", stdin: strings.Repeat("x", 5<<20), says: "standard input:1: the line is over"},
		"claim not UTF-8":             {args: "verify --demo", stdin: "caf\xe9", says: "UTF-8"},
		"claim no JSON":               {args: "verify --demo", stdin: "\n{\"id\": 1,\n", says: "standard input:2"},
		"labelled claims missing":     {args: "eval pipeline --corpus " + missing + " --claims " + missing, says: missing},
		"index without a name":        {args: "index --index= " + missing, says: "index.dir"},
		"statistics and files":        {args: "index --stats " + missing, says: "--stats"},
		"verdicts and a corpus":       {args: "eval pipeline --corpus x --verdicts x --claims " + missing, says: "verdicts"},
		"eval without a corpus":       {args: "eval retrieval", says: "corpus"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t.Context(), strings.Fields(tt.args)...)
			cmd.Stdin = strings.NewReader(tt.stdin)
			if tt.env != "" {
				cmd.Env = append(cmd.Env, tt.env)
			}
			r := finish(t, 30*time.Second, cmd)
			if r.code != 1 {
				t.Errorf("exit code %d, want 1", r.code)
			}
			if r.stdout != "" && !strings.HasPrefix(tt.args, "produce") {
				t.Errorf("standard output: %s", r.stdout)
			}
			if !strings.Contains(r.stderr, tt.says) || strings.Count(r.stderr, "verisci: ") != 1 || strings.Contains(r.stderr, "goroutine ") {
				t.Errorf("standard error, which should name %q once and no more:\n%s", tt.says, r.stderr)
			}
			t.Log(strings.TrimSpace(r.stderr[:min(len(r.stderr), 500)]))
		})
	}
}

// TestAFullDiskIsAnError writes to /dev/full, which takes nothing.
func TestAFullDiskIsAnError(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("/dev/full is Linux's")
	}
	addr := demoService(t)
	for name, args := range map[string][]string{
		"verify":        {"verify", "--demo", "Smoking causes lung cancer."},
		"verify --json": {"verify", "--demo", "--json", "Smoking causes lung cancer."},
		"tail":          {"tail", "--brokers", addr, "--from-start"},
		"tail --json":   {"tail", "--brokers", addr, "--from-start", "--json"},
		"produce":       {"produce", "--brokers", addr, claimsFile(t, nil)},
		"demo":          {"demo"},
		"config":        {"config"},
		"version":       {"version"},
		"index":         {"index", "--stats", "--index", demoIndex(t)},
	} {
		t.Run(name, func(t *testing.T) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			cmd := command(t.Context(), args...)
			cmd.Stdout = full
			r := finish(t, 30*time.Second, cmd)
			if r.code != 1 || !strings.Contains(r.stderr, "no space left on device") {
				t.Errorf("exit code %d\n%s", r.code, r.stderr)
			}
		})
	}
}

// demoService runs a service over the demo's papers that has published a verdict.
func demoService(t *testing.T) (addr string) {
	t.Helper()
	port, addr := freePort(t)
	service := start(t, command(t.Context(), "run", "--demo", "--embedded", "--port", port, "--kafka-embedded-dir", filepath.Join(t.TempDir(), "broker")))
	service.says("running")
	produce := command(t.Context(), "produce", "--brokers", addr)
	produce.Stdin = strings.NewReader("Smoking causes lung cancer.\n")
	if r := finish(t, time.Minute, produce); r.code != 0 {
		t.Fatal(r.stderr)
	}
	watch(t, addr).wait(1, service)
	return addr
}

// demoIndex is an index of one paper.
func demoIndex(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	papers := filepath.Join(dir, "papers.jsonl")
	if err := os.WriteFile(papers, []byte(`{"doc_id": 1, "title": "Smoking", "abstract": ["Smoking causes lung cancer."]}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	verisci(t, "index", "--index", filepath.Join(dir, "index"), papers)
	return filepath.Join(dir, "index")
}

func TestASecondServiceOnAFolderOrPortIsAnError(t *testing.T) {
	t.Parallel()
	port, _ := freePort(t)
	otherPort, _ := freePort(t)
	dir := t.TempDir()
	args := func(port, broker string) []string {
		return []string{"run", "--demo", "--embedded", "--port", port, "--kafka-embedded-dir", filepath.Join(dir, broker)}
	}
	first := start(t, command(t.Context(), args(port, "broker")...))
	first.says("running")
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"same folder and port": {args(port, "broker"), "another process runs a broker on this folder"},
		"same folder":          {args(otherPort, "broker"), "another process runs a broker on this folder"},
		"same port":            {args(port, "other"), "address already in use"},
	} {
		r := finish(t, 30*time.Second, command(t.Context(), tt.args...))
		if r.code != 1 || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("%s: exit code %d\n%s", name, r.code, r.stderr)
		}
	}
	first.mustRun()
	first.stop()
}

func TestClaimsBeforeABadLineAreAnswered(t *testing.T) {
	t.Parallel()
	cmd := command(t.Context(), "verify", "--demo", "--json")
	cmd.Stdin = strings.NewReader("Smoking causes lung cancer.\nStatins lower cholesterol.\n{\n")
	r := finish(t, 30*time.Second, cmd)
	if r.code != 1 || strings.Count(r.stdout, "\n") != 2 || !strings.Contains(r.stderr, "standard input:3") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// A person at a terminal, or a pipe that stays open, gets an answer after each
// claim, and can stop the program while it waits for the next.
func TestVerifyAnswersAsItReads(t *testing.T) {
	t.Parallel()
	cmd := command(t.Context(), "verify", "--demo", "--json")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, cmd)
	if _, err := io.WriteString(in, "Smoking causes lung cancer.\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "a verdict", func() bool { return strings.Count(p.stdout.String(), "\n") == 1 })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := p.wait(10 * time.Second); r.code != 1 || !strings.Contains(r.stderr, "interrupted") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}
