package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const chatLimit = time.Minute

// chatting is a running fairlead chat.
type chatting struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *watched
	errs *watched
}

// watched keeps what is written and tells when it is more.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newWatched() *watched { return &watched{more: make(chan struct{}, 1)} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// until waits until the text is what it should be.
func (w *watched) until(t *testing.T, what string, good func(string) bool) {
	t.Helper()
	late := time.After(chatLimit)
	for !good(w.String()) {
		select {
		case <-w.more:
		case <-late:
			t.Fatalf("waited in vain for %s:\n%q", what, w.String())
		}
	}
}

// chatEnv is the surroundings of a chat: a token, and nothing of the person who
// runs the tests.
func chatEnv(t *testing.T, token string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=xterm", "FAIRLEAD_TOKEN=" + token,
	}
}

func startChat(t *testing.T, url, token, stdin string, args ...string) *chatting {
	t.Helper()
	c := &chatting{t: t, out: newWatched(), errs: newWatched()}
	c.cmd = exec.Command(binary, append([]string{"chat", "--url", url}, args...)...)
	c.cmd.Env = chatEnv(t, token)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = strings.NewReader(stdin), c.out, c.errs
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

// wait gives the exit code.
func (c *chatting) wait() int {
	c.t.Helper()
	late := time.AfterFunc(chatLimit, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

// cutter is a line to a server that is cut again and again.
type cutter struct {
	net.Listener
	to    string
	wg    sync.WaitGroup
	mu    sync.Mutex
	cuts  int
	conns map[net.Conn]bool
}

// newCutter cuts each connection after a random number of bytes from the server;
// the first one lives for its welcome, without which a program has found no server.
func newCutter(t *testing.T, url string, most int64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: strings.TrimPrefix(url, "http://"), conns: map[net.Conn]bool{}}
	c.wg.Go(func() {
		for least := int64(2_000); ; least = 300 {
			near, err := l.Accept()
			if err != nil {
				return
			}
			bytes := least + rand.Int64N(most)
			c.wg.Go(func() { c.serve(near, bytes) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		for conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) url() string { return "http://" + c.Addr().String() }

func (c *cutter) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

func (c *cutter) serve(near net.Conn, bytes int64) {
	defer near.Close()
	far, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer far.Close()
	c.mu.Lock()
	c.conns[near], c.conns[far] = true, true
	c.cuts++
	c.mu.Unlock()
	var up sync.WaitGroup
	up.Go(func() { _, _ = io.Copy(far, near) })
	_, _ = io.CopyN(near, far, bytes)
	_ = near.(*net.TCPConn).SetLinger(0)
	_, _ = near.Close(), far.Close()
	up.Wait()
}

// TestF03_ATerminalPrintsAnAnswerOnceOverManyCuts cuts the line at random bytes:
// also before the receipt of the message, which is sent again, and runs once.
func TestF03_ATerminalPrintsAnAnswerOnceOverManyCuts(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:1000+delay=2ms"})
	in.start()
	token := in.user("chat@example.com")
	for _, form := range []string{"text", "json"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			line := newCutter(t, in.url, 30_000)
			prompt := "over cuts as " + form
			args := []string{prompt}
			if form == "json" {
				args = append(args, "--json")
			}
			c := startChat(t, line.url(), token, "", args...)
			if code := c.wait(); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, c.errs)
			}
			got := strings.TrimSuffix(c.out.String(), "\n")
			if form == "json" {
				got = checkLines(t, c.out.String())
			}
			if got != strings.TrimSuffix(counted(1000), "\n") && got != counted(1000) {
				t.Errorf("printed %d bytes of %d:\n%q", len(got), len(counted(1000)), got)
			}
			if n := p.requests(t, prompt); n != 1 {
				t.Errorf("%d requests at the provider", n)
			}
			t.Logf("%d connections", line.connections())
		})
	}
}

// checkLines reads what --json printed: every event once and in order, every byte
// once, one end. It gives the text.
func checkLines(t *testing.T, out string) string {
	t.Helper()
	var text, logged strings.Builder
	var seq, next int64
	ends := 0
	for raw := range strings.Lines(out) {
		var line struct {
			Type, Text, Outcome string
			Offset, Next        int64
			Mine                bool
			Event               event
		}
		if err := json.Unmarshal([]byte(raw), &line); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		switch line.Type {
		case "event":
			if line.Event.SeqID <= seq {
				t.Errorf("event %d after %d", line.Event.SeqID, seq)
			}
			seq = line.Event.SeqID
			if line.Event.EventType == "output.message" && line.Event.Content != nil {
				logged.WriteString(*line.Event.Content)
			}
		case "delta":
			if line.Offset != next || line.Next != next+int64(len(line.Text)) {
				t.Errorf("delta [%d,%d) after %d", line.Offset, line.Next, next)
			}
			next = line.Next
			text.WriteString(line.Text)
		case "end":
			if ends++; line.Outcome != "completed" {
				t.Errorf("ended as %s", line.Outcome)
			}
		}
	}
	if ends != 1 || !strings.HasPrefix(logged.String(), text.String()) {
		t.Errorf("%d ends, %d bytes streamed, %d logged", ends, text.Len(), logged.Len())
	}
	return logged.String()
}

// TestF22_ATerminalSeesAKilledServerComeBack kills the server, with its embedded
// host, in the middle of an answer. What was streamed is printed once; the turn
// ends as recovery says.
func TestF22_ATerminalSeesAKilledServerComeBack(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:500+delay=2ms"}).stayAt()
	in.start()
	token := in.user("kill@example.com")
	c := startChat(t, in.url, token, "over a kill\n", "--json")
	c.out.until(t, "some text", func(s string) bool { return strings.Count(s, `"delta"`) > 20 })
	in.kill()
	c.out.until(t, "the loss", func(s string) bool { return strings.Contains(s, `"disconnected"`) })
	in.start()
	if code := c.wait(); code != 4 {
		t.Errorf("exit code %d:\n%s%s", code, c.out, c.errs)
	}
	v := &view{threadID: field(t, c.out.String(), "thread", "threadId")}
	ctx, cancel := context.WithTimeout(t.Context(), chatLimit)
	defer cancel()
	turn := field(t, c.out.String(), "end", "turnId")
	if err := follow(ctx, in, token, v, func() bool { return v.terminal(turn) != nil }); err != nil {
		t.Fatal(err)
	}
	if end := v.terminal(turn); end.Error != "host_restarted" {
		t.Errorf("ended with %q", end.Error)
	}
	streamed := ""
	for raw := range strings.Lines(c.out.String()) {
		if strings.Contains(raw, `"type":"delta"`) {
			streamed += field(t, raw, "delta", "text")
		}
	}
	if answer := v.answer(turn); !strings.HasPrefix(answer, streamed) || !strings.HasPrefix(counted(500), answer) {
		t.Errorf("streamed %q\nkept %q", streamed, answer)
	}
	if n := p.requests(t, "over a kill"); n != 1 {
		t.Errorf("%d requests at the provider", n)
	}
}

// field gives a field of the first line of a kind.
func field(t *testing.T, out, kind, name string) string {
	t.Helper()
	for raw := range strings.Lines(out) {
		var line map[string]any
		if json.Unmarshal([]byte(raw), &line) == nil && line["type"] == kind {
			s, _ := line[name].(string)
			return s
		}
	}
	t.Fatalf("no line %s in\n%s", kind, out)
	return ""
}

// TestTerminal_CtrlCStopsTheTurn stops a script's message with SIGINT.
func TestTerminal_CtrlCStopsTheTurn(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"hang", "count:500+stall=3"})
	in.start()
	token := in.user("stop@example.com")
	c := startChat(t, in.url, token, "", "--json", "stop me")
	c.out.until(t, "text", func(s string) bool { return strings.Contains(s, `"delta"`) })
	_ = c.cmd.Process.Signal(os.Interrupt)
	if code := c.wait(); code != 5 || !strings.Contains(c.out.String(), "turn.cancelled") {
		t.Errorf("exit code %d:\n%s", code, c.out)
	}
}

// TestTerminal_LoginAndExitCodes logs in, and looks at how each end is told.
func TestTerminal_LoginAndExitCodes(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:5"}, model{"empty", "count:0"})
	in.start()
	token := in.user("codes@example.com")
	home := t.TempDir()
	chat := func(stdin string, env []string, args ...string) (int, string, string) {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"chat"}, args...)...)
		var out, errs bytes.Buffer
		cmd.Env = append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String(), errs.String()
	}
	if code, _, errs := chat("", nil, "--url", in.url, "hi"); code != 8 {
		t.Errorf("without a token: %d %s", code, errs)
	}
	if code, _, errs := chat("fl_wrong\n", nil, "--login", in.url); code != 8 {
		t.Errorf("login with a wrong token: %d %s", code, errs)
	}
	code, out, errs := chat(token+"\n", nil, "--login", in.url+"/")
	if code != 0 || strings.Contains(out+errs, token) {
		t.Fatalf("login: %d %s %s", code, out, errs)
	}
	file := filepath.Join(home, ".config", "fairlead", "logins.json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the login is kept as %v, %v", info, err)
	}
	tokenFile := filepath.Join(home, "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, stdin string
		env, args   []string
		code        int
		out         string
	}{
		{"argument", "", nil, []string{"--model", "counter", "hi"}, 0, counted(5)},
		{"token file", "hi\n", nil, []string{"--token-file", tokenFile, "--url", in.url}, 0, counted(5)},
		{"the last of some threads", "hi\n", nil, []string{"--thread", "last"}, 0, counted(5)},
		{"unknown model", "", nil, []string{"--model", "nope", "hi"}, 7, ""},
		{"unknown assistant", "", nil, []string{"--assistant", "nobody", "hi"}, 7, ""},
		{"unknown thread", "", nil, []string{"--thread", newID(), "hi"}, 7, ""},
		{"no thread id", "", nil, []string{"--thread", "x", "hi"}, 7, ""},
		{"wrong token", "", []string{"FAIRLEAD_TOKEN=fl_wrong"}, []string{"hi"}, 8, ""},
		{"the stored token is of one server", "", nil, []string{"--url", "http://127.0.0.1:1", "hi"}, 8, ""},
		{"nobody there", "", []string{"FAIRLEAD_TOKEN=t"}, []string{"--url", "http://127.0.0.1:1", "hi"}, 9, ""},
		{"no prompt", " \n", nil, nil, 2, ""},
		{"no address", "", nil, []string{"--url", "ftp://x", "hi"}, 2, ""},
		{"a failed turn", "", nil, []string{"--model", "empty", "hi"}, 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := chat(c.stdin, c.env, c.args...)
			if code != c.code || strings.TrimSpace(out) != strings.TrimSpace(c.out) || c.code != 0 && errs == "" {
				t.Errorf("exit code %d, want %d; %q, %s", code, c.code, out, errs)
			}
		})
	}
	if _, out, _ := chat("", nil, "--list"); strings.Count(out, "\n") < 2 || !strings.Contains(out, "hi") {
		t.Errorf("the list: %s", out)
	}
}

// TestTerminal_AnAnswerThatIsNotWrittenIsNoSuccess: a script whose disk is full must not
// go on with half an answer.
func TestTerminal_AnAnswerThatIsNotWrittenIsNoSuccess(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer func() { _ = full.Close() }()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:5"})
	in.start()
	token := in.user("full@example.com")
	for _, args := range [][]string{{"hi"}, {"--json", "hi"}, {"--list"}} {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"chat", "--url", in.url}, args...)...)
		var errs bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr = chatEnv(t, token), full, &errs
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit code %d: %s", args, code, errs.String())
		}
	}
}

// TestF10_ATerminalPrintsTheWholeAnswerOverAKilledGateway kills the gateway in the
// middle of an answer that a host elsewhere goes on with: the whole of it is
// printed, once.
func TestF10_ATerminalPrintsTheWholeAnswerOverAKilledGateway(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	f := newFleet(t, p, gatewayAlone(t), 1, "count:1000+delay=4ms")
	c := startChat(t, f.url, f.token, "", "--model", "counter", "over a killed gateway")
	for _, word := range []string{" 30 ", " 60 "} {
		c.out.until(t, "some text", func(s string) bool { return strings.Contains(s, word) })
		f.gw.kill()
		f.gw.start()
	}
	if code := c.wait(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, c.errs)
	}
	if got := strings.TrimSuffix(c.out.String(), "\n"); got != counted(1000) {
		t.Errorf("printed %d bytes of %d:\n%q", len(got), len(counted(1000)), got)
	}
	if n := p.requests(t, "over a killed gateway"); n != 1 {
		t.Errorf("%d requests at the provider", n)
	}
}
