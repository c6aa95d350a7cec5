package link

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestF08_ASetClockIsNoSilence: a clock that steps, back by an hour or forward, must
// neither hide a line that is half open nor end one that is well.
func TestF08_ASetClockIsNoSilence(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	defer func() { _ = far.Close() }()
	g := &guard{ReadWriteCloser: near, timeout: time.Minute}
	go func() {
		_, _ = far.Write([]byte("x"))
		_, _ = far.Read(make([]byte, 1))
	}()
	if _, err := g.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	came, went := (&socket{raw: g}).moved()
	s := &Session{peer: newPeer(nil, 0)}
	for what, at := range map[string]time.Time{"came": came, "went": went, "heard": s.Heard()} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s: %s goes by a clock that can be set", what, at)
		}
	}
}
