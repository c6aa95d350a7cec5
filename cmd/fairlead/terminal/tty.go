package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// TTY is a terminal that gives each key as it is pressed.
type TTY struct {
	in    *os.File
	out   io.Writer
	saved *term.State
	keys  chan []byte
	wake  func()
	done  sync.WaitGroup
}

const readSize = 4096

// OpenTTY takes the terminal over until Close.
func OpenTTY(in, out *os.File) (*TTY, error) {
	saved, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("use the terminal: %w", err)
	}
	t := &TTY{in: in, out: out, saved: saved, keys: make(chan []byte)}
	_, _ = io.WriteString(out, pasteOn)
	quit := make(chan struct{})
	wait, wake, err := waiter(in)
	if err != nil {
		t.restore()
		return nil, fmt.Errorf("use the terminal: %w", err)
	}
	t.wake = func() {
		close(quit)
		wake()
	}
	t.done.Go(func() {
		defer close(t.keys)
		read(in, wait, t.keys, quit)
	})
	return t, nil
}

// Keys brings what is pressed; it is closed at the end of the input.
func (t *TTY) Keys() <-chan []byte { return t.keys }

// Close gives the terminal back as it was.
func (t *TTY) Close() {
	t.wake()
	t.done.Wait()
	t.restore()
}

func (t *TTY) restore() {
	_, _ = io.WriteString(t.out, pasteOff)
	_ = term.Restore(int(t.in.Fd()), t.saved)
}

// read hands on what comes, until the input or quit ends. wait gives false when
// there is nothing more to wait for.
func read(in io.Reader, wait func() bool, keys chan<- []byte, quit <-chan struct{}) {
	for wait() {
		buf := make([]byte, readSize)
		n, err := in.Read(buf)
		if n > 0 {
			select {
			case keys <- buf[:n]:
			case <-quit:
				return
			}
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// IsTerminal tells whether the stream is a terminal.
func IsTerminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	return f, true
}

// Columns is the width of the terminal.
func Columns(f *os.File) int {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// ReadSecret reads a line from a terminal without showing it.
func ReadSecret(f *os.File) ([]byte, error) { return term.ReadPassword(int(f.Fd())) }

// Lines are the lines of a terminal that cannot do more.
type Lines struct {
	keys chan []byte
	quit chan struct{}
	wake func()
	done sync.WaitGroup
}

// OpenLines reads lines until Close.
func OpenLines(in *os.File) *Lines {
	l := &Lines{keys: make(chan []byte), quit: make(chan struct{}), wake: func() {}}
	wait, wake, err := waiter(in)
	if err != nil {
		close(l.keys)
		return l
	}
	l.wake = wake
	l.done.Go(func() {
		defer close(l.keys)
		read(in, wait, l.keys, l.quit)
	})
	return l
}

// Keys brings one line at a time; it is closed at the end of the input.
func (l *Lines) Keys() <-chan []byte { return l.keys }

// Close ends the reading.
func (l *Lines) Close() {
	close(l.quit)
	l.wake()
	l.done.Wait()
}
