package e2e

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// typist types into a pseudo-terminal.
type typist struct {
	t      *testing.T
	cmd    *exec.Cmd
	tty    *os.File
	screen *watched
}

func newTypist(t *testing.T, in *install, token string, env ...string) *typist {
	t.Helper()
	k := &typist{t: t, cmd: exec.Command(binary, "chat", "--url", in.url), screen: newWatched()}
	k.cmd.Env = append(chatEnv(t, token), env...)
	var err error
	if k.tty, err = pty.StartWithSize(k.cmd, &pty.Winsize{Rows: 24, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(k.screen, k.tty)
	}()
	t.Cleanup(func() {
		_ = k.cmd.Process.Kill()
		_ = k.tty.Close()
		<-read
	})
	return k
}

func (k *typist) types(s string) { _, _ = io.WriteString(k.tty, s) }

func (k *typist) shows(text string, times int) {
	k.t.Helper()
	k.screen.until(k.t, text, func(s string) bool { return strings.Count(s, text) >= times })
}

// TestTerminal_ATalk types into a pseudo-terminal.
func TestTerminal_ATalk(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:9000+delay=3ms"})
	in.start()
	token := in.user("talk@example.com")
	k := newTypist(t, in, token)
	k.shows("A new thread begins", 1)
	k.types("first é\r")
	k.shows("> first é", 1)
	k.shows("21 22 23", 1)
	k.types("/now louder\r")
	k.shows("» louder", 1)
	k.screen.until(t, "the answer to that", func(s string) bool {
		_, after, _ := strings.Cut(s, "» louder")
		return strings.Contains(after, "31 32 33")
	})
	k.types("second\r")
	k.shows("1 waiting (/queue)", 1)
	k.types("\x1b[200~third\rwith two lines\x1b[201~\r")
	k.shows("2 waiting", 1)
	k.types("/queue\r")
	k.shows("2  third", 1)
	k.types("/queue recall 2\r")
	k.shows("taken back: third", 1)
	k.types("/stop\r")
	k.shows("! stopped", 1)
	k.shows("> second", 1) // what waited runs
	k.types("\x03")
	k.shows("once more leaves", 1)
	k.shows("! stopped", 2)
	k.types("/threads\r")
	k.shows("1  ", 1)
	k.types("/model\r")
	k.shows("counter", 1)
	k.types("/new\r/open 1\r")
	k.shows("· Thread ", 1)
	k.types("\x04")
	if err := k.cmd.Wait(); err != nil {
		t.Errorf("left with %v", err)
	}
	k.screen.until(t, "the end", func(s string) bool { return strings.HasSuffix(s, "\x1b[?2004l") })
}

// TestTerminal_CtrlCTwiceLeaves leaves a turn that goes on at the server, without
// colours.
func TestTerminal_CtrlCTwiceLeaves(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"hang", "count:500+stall=3"})
	in.start()
	k := newTypist(t, in, in.user("twice@example.com"), "NO_COLOR=1")
	k.shows("A new thread begins", 1)
	k.types("hang\r")
	k.shows("0 1 2", 1)
	k.types("\x03\x03")
	if err := k.cmd.Wait(); err != nil {
		t.Errorf("left with %v", err)
	}
	if regexp.MustCompile("\x1b\\[[0-9;]*m").MatchString(k.screen.String()) {
		t.Errorf("styles in %q", k.screen)
	}
}

// TestTerminal_ADumbTerminalGetsTextAlone talks line by line.
func TestTerminal_ADumbTerminalGetsTextAlone(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"hang", "count:500+stall=3"})
	in.start()
	k := newTypist(t, in, in.user("dumb@example.com"), "TERM=dumb")
	k.shows("A new thread begins", 1)
	k.types("hello\n")
	k.shows("> hello", 1)
	k.shows("0 1 2", 1)
	k.types("\x03") // a signal here
	k.shows("! stopped", 1)
	if err := k.cmd.Wait(); err != nil {
		t.Errorf("left with %v", err)
	}
	if strings.Contains(k.screen.String(), "\x1b") {
		t.Errorf("sequences in %q", k.screen)
	}
}
