package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// controlToken is what a control plane is given.
type controlToken struct {
	Token      string   `json:"token"`
	AccountRef string   `json:"accountRef"`
	Targets    []string `json:"targets"`
	TargetRef  string   `json:"targetRef"`
}

// controlPlane makes a token for the embedded host.
func controlPlane(t *testing.T, in *install, email string) controlToken {
	t.Helper()
	var hosts []struct {
		ID       string `json:"id"`
		Embedded bool   `json:"embedded"`
	}
	if err := json.Unmarshal([]byte(in.command("", "admin", "host", "list", "--json")), &hosts); err != nil || len(hosts) != 1 || !hosts[0].Embedded {
		t.Fatalf("hosts: %+v, %v", hosts, err)
	}
	in.command("a long enough password\n", "admin", "user", "create", "--email", email, "--role", "member", "--password-stdin")
	var made controlToken
	out := in.command("", "admin", "token", "create", "--email", email, "--scopes", "relay:control", "--targets", hosts[0].ID, "--ttl", "24h", "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	made.TargetRef = hosts[0].ID
	return made
}

// numbers is what the demo model answers to "count to n".
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " %d", i+1)
	}
	return b.String()[1:]
}

// TestRH47_AControlPlaneWrittenFromTheContractAlone runs the one in Node: attach,
// prompt, deltas, interrupt, reconnect, resume. The client itself holds every frame to
// the contract.
func TestRH47_AControlPlaneWrittenFromTheContractAlone(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node is not installed")
	}
	in := installWith(t)
	in.start()
	settings, err := json.Marshal(controlPlane(t, in, "node@example.com"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "control-client.mjs", in.url)
	cmd.Stdin = bytes.NewReader(settings)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var got struct {
		Connections int
		Turns       []struct {
			Started int
			Text    string
			Status  string
		}
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got.Turns) != 4 || got.Connections != 3 {
		t.Fatalf("%s, %v", out, err)
	}
	for i, want := range []struct{ text, status string }{
		{numbers(20), "completed"}, {"", "interrupted"}, {numbers(400), "completed"}, {numbers(30), "completed"},
	} {
		turn := got.Turns[i]
		if turn.Status != want.status || turn.Started != 1 || want.text != "" && turn.Text != want.text || !strings.HasPrefix(numbers(100_000), turn.Text) {
			t.Errorf("turn %d: %+v", i+1, turn)
		}
	}
}

var goProgram = regexp.MustCompile("(?s)```go\n(package main\n|// Command .*?package main\n)(.*?)```")

// plane builds the program of docs/control-plane.md.
func planeProgram(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/control-plane.md")
	if err != nil {
		t.Fatal(err)
	}
	m := goProgram.FindSubmatch(text)
	if m == nil {
		t.Fatal("there is no program in Go")
	}
	source := append(m[1], m[2]...)
	if pretty, err := format.Source(source); err != nil || !bytes.Equal(pretty, source) {
		t.Errorf("not as gofmt writes it: %v", err)
	}
	dir := t.TempDir()
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "plane")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := goBuild(t.Context(), program, file); err != nil {
		t.Fatal(err)
	}
	return program
}

// planeRun is one run of the program.
type planeRun struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	exited chan error

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *planeRun) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *planeRun) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func startPlane(t *testing.T, program, gateway, file, question string, token controlToken) *planeRun {
	t.Helper()
	p := &planeRun{cmd: exec.Command(program, file, question), exited: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), "FAIRLEAD_URL="+gateway, "FAIRLEAD_TOKEN="+token.Token,
		"FAIRLEAD_ACCOUNT="+token.AccountRef, "FAIRLEAD_TARGET="+token.TargetRef)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stdout, p.cmd.Stderr = p, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() { p.exited <- p.cmd.Wait() }()
	return p
}

// until waits for the program to have printed something.
func (p *planeRun) until(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !strings.Contains(p.text(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q was not printed:\n%s\n%s", text, p.text(), p.stderr.String())
		}
	}
}

// ended waits for the end and wants an answer and a status.
func (p *planeRun) ended(t *testing.T) (text, status string) {
	t.Helper()
	select {
	case err := <-p.exited:
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, p.text(), p.stderr.String())
		}
	case <-time.After(90 * time.Second):
		t.Fatalf("does not end:\n%s\n%s", p.text(), p.stderr.String())
	}
	text, status, _ = strings.Cut(strings.TrimSuffix(p.text(), "\n"), "\n")
	return text, status
}

func TestRH49_TheProgramOfTheDocsGoesOnWhateverBreaks(t *testing.T) {
	t.Parallel()
	program := planeProgram(t)
	in := installWith(t)
	in.start()
	token := controlPlane(t, in, "plane@example.com")

	t.Run("an answer over a line that is cut", func(t *testing.T) {
		t.Parallel()
		line := newProxy(t, in.url)
		p := startPlane(t, program, line.url(), filepath.Join(t.TempDir(), "state"), "count to 500", token)
		for _, at := range []string{" 20 ", " 100 ", " 250 "} {
			p.until(t, at)
			line.cut()
		}
		if text, status := p.ended(t); text != numbers(500) || status != "completed" {
			t.Errorf("%q: %s", text, status)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		p := startPlane(t, program, in.url, filepath.Join(t.TempDir(), "state"), "count to 100000", token)
		p.until(t, " 10 ")
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if text, status := p.ended(t); !strings.HasPrefix(numbers(100_000), text) || status != "interrupted" {
			t.Errorf("%q: %s", text, status)
		}
	})
	t.Run("killed and started again", func(t *testing.T) {
		t.Parallel()
		state := filepath.Join(t.TempDir(), "state")
		for _, at := range []string{" 30 ", " 120 "} {
			p := startPlane(t, program, in.url, state, "count to 300", token)
			p.until(t, at)
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		p := startPlane(t, program, in.url, state, "count to 300", token)
		if text, status := p.ended(t); text != numbers(300) || status != "completed" {
			t.Errorf("%q: %s", text, status)
		}
	})
}

// TestRH49_AKilledGatewayIsComeBackTo kills the gateway, and its embedded host with it,
// in the middle of a turn: the program finds it again by itself, and the turn has ended
// once.
func TestRH49_AKilledGatewayIsComeBackTo(t *testing.T) {
	t.Parallel()
	program := planeProgram(t)
	in := installWith(t).stayAt()
	in.start()
	token := controlPlane(t, in, "plane@example.com")
	p := startPlane(t, program, in.url, filepath.Join(t.TempDir(), "state"), "count to 100000", token)
	p.until(t, " 25 ")
	in.kill()
	in.start()
	text, status := p.ended(t)
	if !strings.HasPrefix(numbers(100_000), text) || status == "completed" || status == "" || strings.Contains(status, "\n") {
		t.Errorf("%q: %s", text, status)
	}
}
