package main

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead/fairlead/relay/wire"
)

// unitOf starts `fairlead host run` as systemd would, and gives what it notifies.
func unitOf(t *testing.T, m *machine, environ ...string) (*exec.Cmd, *syncBuffer, <-chan string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1024)
	go func() {
		defer close(told)
		buf := make([]byte, 4096)
		for {
			n, err := socket.Read(buf)
			if err != nil {
				return
			}
			told <- string(buf[:n])
		}
	}()
	log := &syncBuffer{}
	cmd := exec.CommandContext(t.Context(), "fairlead", "host", "run")
	cmd.Env = append(append(cmd.Environ(), m.environ()...), append(environ, "NOTIFY_SOCKET="+path)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = socket.Close()
		for range told { //nolint:revive // until it is closed
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return cmd, log, told
}

// awaits waits for a notification that begins so.
func awaits(t *testing.T, told <-chan string, want string) {
	t.Helper()
	for !strings.HasPrefix(got(t, want, told), want) {
	}
}

func signalTo(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func TestRH62_AProcessUnderSystemd(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.settings("host: {name: box, drain: 1h}\n")
	m.joined(d)
	cmd, _, told := unitOf(t, m, "WATCHDOG_USEC=200000")
	awaits(t, told, "READY=1")
	l := got(t, "the link", d.links)
	awaits(t, told, "STATUS=linked with")
	awaits(t, told, "WATCHDOG=1")

	signalTo(t, cmd, syscall.SIGHUP)
	got(t, "offline", l.offline)
	l = got(t, "the next link", d.links)
	l.attachDemo(t, 0, "")
	applied(t, l.prompt(t, 1, 1, "count to 2"))
	all := l.until(t, wire.EventTurnCompleted)

	signalTo(t, cmd, syscall.SIGTERM)
	awaits(t, told, "STOPPING=1")
	got(t, "draining", l.draining)
	l.acknowledge(t, all[len(all)-1])
	got(t, "offline", l.offline)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}

func TestRH62_ASecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.settings("host: {name: box, drain: 1h}\n")
	m.joined(d)
	cmd, _, _ := unitOf(t, m)
	l := got(t, "the link", d.links)
	l.attachDemo(t, 0, "")
	applied(t, l.prompt(t, 1, 1, "count to 1000000"))
	signalTo(t, cmd, syscall.SIGTERM)
	got(t, "draining", l.draining)
	signalTo(t, cmd, syscall.SIGTERM)
	_ = cmd.Wait()
	if cmd.ProcessState.Success() {
		t.Error("the process ended well")
	}
	// The next process goes on from there: the turn ends, and is told.
	cmd, _, _ = unitOf(t, m)
	l = got(t, "the link of the next process", d.links)
	l.attachDemo(t, 0, "")
	all := l.until(t, wire.EventTurnCompleted)
	if last := string(all[len(all)-1].Payload); !strings.Contains(last, string(wire.CodeHostRestarted)) {
		t.Errorf("the turn ended as %s", last)
	}
	if slices.ContainsFunc(all, func(e wire.Envelope) bool { return e.Seq == 0 }) {
		t.Error("an event has no place")
	}
	signalTo(t, cmd, syscall.SIGKILL)
}

func TestRH45_ARevokedProcessHasItsOwnExitCode(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	cmd, log, _ := unitOf(t, m)
	l := got(t, "the link", d.links)
	if err := l.Revoke(t.Context(), "lost\nlaptop"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitRefused {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(log.String(), "has revoked this host") || strings.Contains(log.String(), "lost\nlaptop") {
		t.Errorf("log is\n%s", log)
	}
}

// TestF12_ASignalWhileAServerStartsIsNoFault: who stops it at once is not told that its
// stores are damaged.
func TestF12_ASignalWhileAServerStartsIsNoFault(t *testing.T) {
	t.Parallel()
	d, m := newDoorway(t), newMachine(t)
	m.joined(d)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range [][]string{{"host", "run"}, {"serve", "--listen", "127.0.0.1:0"}} {
		var out, errs strings.Builder
		code := run(stopped, args, stdio{In: strings.NewReader(""), Out: &out, Err: &errs, Environ: m.environ()})
		if code != exitDone || strings.Contains(errs.String(), "fairlead:") {
			t.Errorf("%v: exit code %d\n%s", args, code, errs.String())
		}
	}
}
