package link_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH62_DrainingGoesBothWays(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		if err := l.session.Drain(t.Context(), "maintenance", false); err != nil {
			t.Fatal(err)
		}
		if got := take(t, l.draining); got.Reason != "maintenance" {
			t.Errorf("the host says %+v", got)
		}
		h.change(func() {}) // says nothing new
		if err := l.session.Drain(t.Context(), "", true); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.Equal(h.drains, []string{"maintenance/false", "/true"})
		})
		l.attach(t, "run_1", 0) // so that the end of draining was seen
		eventually(t, func() bool { return h.looked() })
		h.change(func() { h.leaving = "leaving" })
		if got := take(t, l.draining); got.Reason != "leaving" {
			t.Errorf("the host says %+v", got)
		}
		if n := len(l.draining); n != 0 {
			t.Errorf("it said so %d times too often", n)
		}
	})
}

func TestRH62_AHostThatDrainsSaysSoOnANewLink(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		h.leaving = "leaving"
		l := over.open(t, h)
		if got := take(t, l.draining); got.Reason != "leaving" {
			t.Errorf("the host says %+v", got)
		}
	})
}

// TestRH62_AHostThatLeavesWhileItsGatewayHasItDrainSaysSo: the gateway may take back what
// it asked for, and must not send prompts to a host that leaves.
func TestRH62_AHostThatLeavesWhileItsGatewayHasItDrainSaysSo(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		if err := l.session.Drain(t.Context(), "maintenance", false); err != nil {
			t.Fatal(err)
		}
		if got := take(t, l.draining); got.Reason != "maintenance" {
			t.Errorf("the host says %+v", got)
		}
		h.change(func() { h.leaving = "leaving" })
		if got := take(t, l.draining); got.Reason != "leaving" {
			t.Errorf("the host says %+v", got)
		}
	})
}

func TestGoawayAndRevoked_ReachTheHost(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		hostConn, gatewayConn := over(t)
		after, reason, ended := make(chan time.Duration, 1), make(chan string, 1), make(chan error, 1)
		go func() {
			ended <- link.ServeHost(context.WithoutCancel(t.Context()), hostConn, newScriptedHost(), link.HostOptions{
				Revoked: func(r string) { reason <- r }, Goaway: func(d time.Duration) { after <- d },
			})
		}()
		session, err := link.Open(t.Context(), gatewayConn, link.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- session.Serve(context.WithoutCancel(t.Context()), newRecorder()) }()
		if err := session.Goaway(t.Context(), "shutting down", 3*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := take(t, after); got != 3*time.Second {
			t.Errorf("away for %s", got)
		}
		if err := session.Revoke(t.Context(), "by an administrator"); err != nil {
			t.Fatal(err)
		}
		_ = session.End(link.Ending{Code: link.CloseForbidden, Reason: "revoked"})
		if got := take(t, reason); got != "by an administrator" {
			t.Errorf("revoked: %q", got)
		}
		var revoked *link.RevokedError
		if err := take(t, ended); !errors.As(err, &revoked) || revoked.Reason != "by an administrator" {
			t.Errorf("the host's end: %v", err)
		}
		take(t, served)
	})
}

// lateReader is a host's end whose reader is behind its writers: a write waits for
// the gateway to close, and the reader's third message for a write that failed.
type lateReader struct {
	link.Conn
	closed, failed chan struct{}
	reads          int
	once           sync.Once
}

func (c *lateReader) Send(ctx context.Context, m wire.LinkMessage) error {
	if _, hello := m.(wire.Hello); !hello {
		<-c.closed
	}
	err := c.Conn.Send(ctx, m)
	if err != nil {
		c.once.Do(func() { close(c.failed) })
	}
	return err
}

func (c *lateReader) Receive(ctx context.Context) (wire.LinkMessage, error) {
	if c.reads++; c.reads == 3 {
		<-c.failed
		synctest.Wait()
	}
	return c.Conn.Receive(ctx)
}

// What the gateway said before it closed counts, even if a write failed meanwhile.
func TestLastWords_AreTakenBeforeTheLinkEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hostConn, gatewayConn := link.Pipe()
		late := &lateReader{Conn: hostConn, closed: make(chan struct{}), failed: make(chan struct{})}
		go func() {
			defer close(late.closed)
			_, _ = gatewayConn.Receive(t.Context())
			for _, m := range []wire.LinkMessage{
				wire.Welcome{Protocol: wire.HostProtocol, HeartbeatMs: 1000}, attachOf("run_1", 0), wire.Revoked{Reason: "gone"},
			} {
				if err := gatewayConn.Send(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
			_ = gatewayConn.Close(link.Ending{Code: link.CloseForbidden})
		}()
		var revoked *link.RevokedError
		if err := link.ServeHost(t.Context(), late, newScriptedHost(), link.HostOptions{}); !errors.As(err, &revoked) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestRH45_AnotherHostOnTheLinkOfOneIsRefused(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		hostConn, gatewayConn := over(t)
		ended := make(chan error, 1)
		go func() {
			ended <- link.ServeHost(context.WithoutCancel(t.Context()), hostConn, newScriptedHost(), link.HostOptions{})
		}()
		var misuse *link.ProtocolError
		if _, err := link.Open(t.Context(), gatewayConn, link.SessionOptions{HostID: "host_2"}); !errors.As(err, &misuse) {
			t.Errorf("the gateway's end: %v", err)
		}
		var refused *link.EndedError
		if err := take(t, ended); !errors.As(err, &refused) || refused.Code != link.CloseForbidden {
			t.Errorf("the host's end: %v", err)
		}
	})
}

func TestRH45_ALinkDoesNotChangeItsHost(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		hostConn, gatewayConn := over(t)
		hello := newScriptedHost().hello
		if err := hostConn.Send(t.Context(), hello); err != nil {
			t.Fatal(err)
		}
		session, err := link.Open(t.Context(), gatewayConn, link.SessionOptions{HostID: hello.HostID})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- session.Serve(context.WithoutCancel(t.Context()), newRecorder()) }()
		hello.HostID = "host_2"
		if err := hostConn.Send(t.Context(), hello); err != nil {
			t.Fatal(err)
		}
		var misuse *link.ProtocolError
		if err := take(t, ended); !errors.As(err, &misuse) {
			t.Errorf("ended with %v", err)
		}
		if got := session.Hello().HostID; got != "host_1" {
			t.Errorf("the link is of %s now", got)
		}
		_ = hostConn.Close(link.Ending{})
	})
}

// The order of an attachment: the older one ends, the new one is answered, what is
// pending comes again from the cursor on, and commands follow the attach.
func TestRH47_OrderOfAnAttachment(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		r := h.lookup("run_1")
		r.emit(1, 2, 3, 4)
		l.attach(t, "run_1", 0)
		for range 4 {
			take(t, l.events)
		}
		for range 20 {
			if err := l.session.Attach(t.Context(), attachOf("run_1", 2)); err != nil {
				t.Fatal(err)
			}
			l.command(t, "run_1", 1)
			take(t, l.attached)
			if ack := take(t, l.acks); ack.Status != wire.AckApplied {
				t.Fatalf("answer %+v", ack)
			}
			for seq := uint64(3); seq <= 4; seq++ {
				if e := take(t, l.events); e.Envelope.Seq != seq {
					t.Fatalf("event %d, want %d", e.Envelope.Seq, seq)
				}
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open != 21 || r.closed != 20 || r.together > 1 {
			t.Errorf("%d attachments opened, %d closed, %d at once", r.open, r.closed, r.together)
		}
	})
}

// A run whose attach failed takes no command before it is attached; other runs and
// the link go on.
func TestRH47_AFailedAttachAdmitsNoCommand(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		l.attach(t, "run_2", 0)
		h.change(func() { h.attachErr = wire.NewError(wire.CodeStateUntrusted, "The stored state cannot be trusted.") })
		if err := l.session.Attach(t.Context(), attachOf("run_1", 0)); err != nil {
			t.Fatal(err)
		}
		l.command(t, "run_1", 1)
		if got := take(t, l.refused); got.RunID != "run_1" || got.Error.Code != wire.CodeStateUntrusted {
			t.Errorf("refused %+v", got)
		}
		if ack := take(t, l.acks); ack.Error == nil || ack.Error.Code != wire.CodeRunNotAuthorized {
			t.Errorf("answer %+v", ack)
		}
		l.command(t, "run_2", 1)
		if ack := take(t, l.acks); ack.RunID != "run_2" || ack.Status != wire.AckApplied {
			t.Errorf("answer %+v", ack)
		}
	})
}

func TestClock_ComesFromTheShortestRoundTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hostConn, gatewayConn := link.Pipe()
		if err := hostConn.Send(t.Context(), newScriptedHost().hello); err != nil {
			t.Fatal(err)
		}
		session, err := link.Open(t.Context(), gatewayConn, link.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := session.Clock(); ok {
			t.Error("the clock is known before a heartbeat")
		}
		served := make(chan error, 1)
		go func() { served <- session.Serve(t.Context(), newRecorder()) }()
		const ahead = time.Hour
		welcome(t, hostConn)
		for _, delay := range []time.Duration{400 * time.Millisecond, 20 * time.Millisecond, 900 * time.Millisecond} {
			beat := nextBeat(t, hostConn)
			came := time.Now().Add(delay / 2) // as if it had been on its way so long
			time.Sleep(delay + time.Second)   // held for a second, and back as long
			answer := wire.Heartbeat{
				ClockMs: came.Add(time.Second + ahead).UnixMilli(), EchoMs: beat.ClockMs, HeldMs: 1000,
			}
			if err := hostConn.Send(t.Context(), answer); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		offset, roundTrip, ok := session.Clock()
		if !ok || roundTrip != 20*time.Millisecond || (offset-ahead).Abs() > 2*time.Millisecond {
			t.Errorf("ahead by %s, round trip %s, %v", offset, roundTrip, ok)
		}
		// Nonsense counts for nothing.
		for _, m := range []wire.Heartbeat{{ClockMs: 1, EchoMs: 1 << 60}, {ClockMs: 1, EchoMs: 1, HeldMs: -1 << 50}, {ClockMs: 1, EchoMs: -1 << 63, HeldMs: -1 << 63}} {
			if err := hostConn.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if again, _, _ := session.Clock(); again != offset {
			t.Errorf("ahead by %s now", again)
		}
		_ = hostConn.Close(link.Ending{})
		<-served
	})
}

// Both ends of a real link know the round trip at once, not a beat later.
func TestClock_IsKnownSoon(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		start := time.Now()
		l := over.open(t, newScriptedHost())
		eventually(t, func() bool { _, _, ok := l.session.Clock(); return ok })
		offset, roundTrip, _ := l.session.Clock()
		// However slow the machine: no trip is longer than all of this took, and the
		// clocks, which are one, are known to half a trip, in milliseconds.
		if took := time.Since(start); offset.Abs() > roundTrip/2+5*time.Millisecond || roundTrip > took+5*time.Millisecond {
			t.Errorf("ahead by %s, round trip %s", offset, roundTrip)
		}
	})
}

func welcome(t *testing.T, conn link.Conn) {
	t.Helper()
	m, err := conn.Receive(t.Context())
	if _, ok := m.(wire.Welcome); !ok {
		t.Fatalf("%v, %v in place of the welcome", m, err)
	}
}

func nextBeat(t *testing.T, conn link.Conn) wire.Heartbeat {
	t.Helper()
	m, err := conn.Receive(t.Context())
	beat, ok := m.(wire.Heartbeat)
	if !ok {
		t.Fatalf("%v, %v in place of a heartbeat", m, err)
	}
	return beat
}
