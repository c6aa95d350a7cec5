package link_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestHandshake_AgreesOnWhatBothKnow(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		l := over.open(t, newScriptedHost())
		want := []string{wire.CapabilityOutcome, wire.CapabilityReasoning, wire.CapabilitySteer}
		if got := l.session.Capabilities(); !slices.Equal(got, want) {
			t.Errorf("capabilities %q, want %q", got, want)
		}
		if got := l.session.Hello().HostID; got != "host_1" {
			t.Errorf("host %q", got)
		}
		l.attach(t, "run_1", 0)
		if got := l.lookup("run_1").capabilities; !slices.Equal(got, want) {
			t.Errorf("the host attaches with %q, want %q", got, want)
		}
	})
}

func TestHandshake_NamesAVersionGapOnBothEnds(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		h.hello.Protocols = []string{"fairlead.host.v9"}
		hostConn, gatewayConn := over(t)
		ended := make(chan error, 1)
		go func() { ended <- link.ServeHost(t.Context(), hostConn, h, link.HostOptions{}) }()
		_, gatewayErr := link.Open(t.Context(), gatewayConn, link.SessionOptions{})
		for end, err := range map[string]error{"gateway": gatewayErr, "host": <-ended} {
			var misuse *link.ProtocolError
			if !errors.As(err, &misuse) || !strings.Contains(err.Error(), "fairlead.host.v9") || !strings.Contains(err.Error(), wire.HostProtocol) {
				t.Errorf("the %s says %v", end, err)
			}
		}
	})
}

func TestHandshake_RefusesAnotherFirstWord(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		for name, m := range map[string]wire.LinkMessage{"a room": wire.Room{}, "a hello without a host": wire.Hello{Name: "x", Version: "1", Protocols: []string{wire.HostProtocol}, Capabilities: []string{}}} {
			hostConn, gatewayConn := over(t)
			if err := hostConn.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			var misuse *link.ProtocolError
			if _, err := link.Open(t.Context(), gatewayConn, link.SessionOptions{}); !errors.As(err, &misuse) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestHandshake_DoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hostConn, gatewayConn := link.Pipe()
		start := time.Now()
		if _, err := link.Open(t.Context(), gatewayConn, link.SessionOptions{}); err == nil {
			t.Error("opened without a hello")
		}
		_ = hostConn.Close(link.Ending{})
		hostConn, gatewayConn = link.Pipe()
		if err := link.ServeHost(t.Context(), hostConn, newScriptedHost(), link.HostOptions{}); err == nil {
			t.Error("served without a welcome")
		}
		_ = gatewayConn.Close(link.Ending{})
		if waited := time.Since(start); waited > time.Minute {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestRH53_EachCommandGetsOneAnswerInOrder(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		l := over.open(t, newScriptedHost())
		l.attach(t, "run_1", 0)
		const n = 100
		for seq := uint64(1); seq <= n; seq++ {
			l.command(t, "run_1", seq)
		}
		for seq := uint64(1); seq <= n; seq++ {
			if ack := take(t, l.acks); ack.CommandSeq != seq || ack.Status != wire.AckApplied {
				t.Fatalf("answer %+v, want to %d", ack, seq)
			}
		}
		if extra := len(l.acks); extra != 0 {
			t.Errorf("%d answers too many", extra)
		}
	})
}

func TestSlowRun_DoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		l.attach(t, "run_slow", 0)
		l.attach(t, "run_fast", 0)
		gate := make(chan struct{})
		slow := h.lookup("run_slow")
		slow.mu.Lock()
		slow.gate = gate
		slow.mu.Unlock()
		l.command(t, "run_slow", 1)
		l.command(t, "run_slow", 2)
		for seq := uint64(1); seq <= 20; seq++ {
			l.command(t, "run_fast", seq)
			if ack := take(t, l.acks); ack.RunID != "run_fast" || ack.CommandSeq != seq {
				t.Fatalf("answer %+v", ack)
			}
		}
		slow.emit(1)
		if e := take(t, l.events); e.RunID != "run_slow" {
			t.Errorf("event of %s: a command in progress holds up its run's events", e.RunID)
		}
		close(gate)
		for seq := uint64(1); seq <= 2; seq++ {
			if ack := take(t, l.acks); ack.RunID != "run_slow" || ack.CommandSeq != seq {
				t.Fatalf("answer %+v", ack)
			}
		}
	})
}

func TestRH54_ACommandOfARunThatIsNotAttachedFails(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		l := over.open(t, newScriptedHost())
		for range 3 { // the run's worker comes and goes
			l.command(t, "run_1", 7)
			ack := take(t, l.acks)
			if ack.Status != wire.AckFailed || ack.CommandSeq != 7 || ack.Error == nil || ack.Error.Code != wire.CodeRunNotAuthorized {
				t.Fatalf("answer %+v", ack)
			}
		}
	})
}

func TestRH42_HandedOffFollowsTheTransport(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		r := h.lookup("run_1")
		r.emit(1, 2, 3, 4, 5)
		l.attach(t, "run_1", 0)
		for seq := uint64(1); seq <= 5; seq++ {
			if e := take(t, l.events); e.Envelope.Seq != seq {
				t.Fatalf("event %d, want %d", e.Envelope.Seq, seq)
			}
		}
		eventually(t, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Equal(r.confirmed, []uint64{3, 5})
		})
	})
}

func TestRH49_WhatIsAboveTheCursorComesAgain(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		r := h.lookup("run_1")
		l.attach(t, "run_1", 0)
		r.emit(1, 2, 3)
		for range 3 {
			take(t, l.events)
		}
		if err := l.session.Cursor(t.Context(), "run_1", 2); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.acknowledged == 2
		})
		l.attach(t, "run_1", 2)
		if e := take(t, l.events); e.Envelope.Seq != 3 {
			t.Errorf("event %d comes again, want 3", e.Envelope.Seq)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open != 2 || r.closed != 1 {
			t.Errorf("%d attachments opened, %d closed; want 2 and 1", r.open, r.closed)
		}
	})
}

func TestDetach_ClosesTheAttachment(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		for round := 1; round <= 20; round++ {
			l.attach(t, "run_1", 0)
			if err := l.session.Detach(t.Context(), "run_1"); err != nil {
				t.Fatal(err)
			}
		}
		r := h.lookup("run_1")
		eventually(t, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.open == 20 && r.closed == 20
		})
	})
}

func TestAttach_Refused(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		h.attachErr = wire.NewError(wire.CodeOwnerMismatch, "Another account owns this scope.")
		l := over.open(t, h)
		if err := l.session.Attach(t.Context(), attachOf("run_1", 0)); err != nil {
			t.Fatal(err)
		}
		got := take(t, l.refused)
		if got.RunID != "run_1" || got.Error.Code != wire.CodeOwnerMismatch || got.Error.Retryable {
			t.Errorf("refused with %+v", got)
		}
	})
}

func TestBrokenPump_EndsTheAttachmentAlone(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		l.attach(t, "run_1", 0)
		l.attach(t, "run_2", 0)
		h.lookup("run_1").fail(wire.NewError(wire.CodePersistFailed, "The store is full."))
		if got := take(t, l.refused); got.RunID != "run_1" || got.Error.Code != wire.CodePersistFailed || !got.Error.Retryable {
			t.Fatalf("refused with %+v", got)
		}
		h.lookup("run_2").emit(1)
		take(t, l.events)
		l.attach(t, "run_1", 0)
		h.lookup("run_1").emit(1)
		if e := take(t, l.events); e.RunID != "run_1" {
			t.Errorf("event of %s", e.RunID)
		}
	})
}

func TestRoomAndCatalog_ArePushedWhenTheyChange(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		if got := take(t, l.rooms); got != (wire.Room{Max: 8}) {
			t.Errorf("first room %+v", got)
		}
		h.change(func() { h.catalog.Routes = []wire.Route{{Model: "m", Ready: true}} })
		challenge := wire.NewChallenge()
		if err := l.session.RequestCatalog(t.Context(), challenge); err != nil {
			t.Fatal(err)
		}
		if got := take(t, l.catalogs); got.Challenge != challenge || len(got.Routes) != 1 {
			t.Fatalf("catalog %+v", got)
		}
		h.change(func() { h.room.Inflight = 1 })
		if got := take(t, l.rooms); got.Inflight != 1 {
			t.Errorf("room %+v", got)
		}
		h.change(func() { h.catalog.Routes = []wire.Route{{Model: "m", Ready: false, Reason: "cooling"}} })
		if got := take(t, l.catalogs); got.Challenge != challenge || got.Routes[0].Ready {
			t.Errorf("changed catalog %+v", got)
		}
		h.change(func() { h.catalog = wire.CatalogMessage{Error: &wire.ErrorBody{Code: wire.CodeProviderNotReady}} })
		if got := take(t, l.catalogs); got.Error == nil || got.Error.Code != wire.CodeProviderNotReady || got.Challenge != challenge {
			t.Errorf("failed catalog %+v", got)
		}
		if n := len(l.catalogs) + len(l.rooms); n != 0 {
			t.Errorf("%d pushes of what did not change", n)
		}
	})
}

func TestShutdown_SaysOfflineAndWaitsForEveryone(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		for i := range 5 {
			l.attach(t, fmt.Sprintf("run_%d", i), 0)
		}
		l.stopHost()
		if err := take(t, l.hostEnds); err != nil {
			t.Errorf("the host ends with %v", err)
		}
		if got := take(t, l.offline); got.Reason != "shutting_down" {
			t.Errorf("last word %+v", got)
		}
		if err := take(t, l.gatewayEnds); !errors.Is(err, link.ErrClosed) {
			t.Errorf("the gateway's end says %v", err)
		}
		for i := range 5 {
			if r := h.lookup(fmt.Sprintf("run_%d", i)); r.closed != 1 {
				t.Errorf("run_%d was closed %d times", i, r.closed)
			}
		}
		if err := l.session.Attach(t.Context(), attachOf("late", 0)); !errors.Is(err, link.ErrClosed) {
			t.Errorf("a late attach gives %v", err)
		}
	})
}

func TestGatewayGone_EndsTheHostsEnd(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		h := newScriptedHost()
		l := over.open(t, h)
		l.attach(t, "run_1", 0)
		h.lookup("run_1").gate = make(chan struct{})
		l.command(t, "run_1", 1)
		l.stopGateway()
		if err := take(t, l.hostEnds); !errors.Is(err, link.ErrClosed) {
			t.Errorf("the host ends with %v", err)
		}
		if closed := h.lookup("run_1").closed; closed != 1 {
			t.Errorf("the attachment was closed %d times", closed)
		}
	})
}

func TestMisuse_EndsTheLink(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		hostConn, gatewayConn := over(t)
		ended := make(chan error, 1)
		go func() { ended <- link.ServeHost(t.Context(), hostConn, newScriptedHost(), link.HostOptions{}) }()
		if _, err := link.Open(t.Context(), gatewayConn, link.SessionOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := gatewayConn.Send(t.Context(), wire.Attached{RunID: "x"}); err == nil {
			var misuse *link.ProtocolError
			if err := take(t, ended); !errors.As(err, &misuse) {
				t.Errorf("the host ends with %v", err)
			}
		}
		_ = gatewayConn.Close(link.Ending{})
	})
}

func TestHeartbeats_KeepAnIdleLinkAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := transport(overPipe).open(t, newScriptedHost())
		time.Sleep(10 * time.Minute)
		select {
		case err := <-l.hostEnds:
			t.Errorf("the host's end ended: %v", err)
		case err := <-l.gatewayEnds:
			t.Errorf("the gateway's end ended: %v", err)
		default:
		}
		l.attach(t, "run_1", 0)
	})
}

func TestSilence_EndsTheLinkAtBothEnds(t *testing.T) {
	t.Parallel()
	// Decision 10: an end that is silent for 90 s is given up at its next beat.
	const latest = link.MaxSilence + link.HeartbeatEvery
	for name, serve := range map[string]func(ctx context.Context, host, gateway link.Conn) error{
		"a silent gateway": func(ctx context.Context, host, gateway link.Conn) error {
			go func() {
				_, _ = gateway.Receive(ctx)
				_ = gateway.Send(ctx, wire.Welcome{Protocol: wire.HostProtocol, HeartbeatMs: link.HeartbeatEvery.Milliseconds()})
			}()
			return link.ServeHost(ctx, host, newScriptedHost(), link.HostOptions{})
		},
		"a silent host": func(ctx context.Context, host, gateway link.Conn) error {
			if err := host.Send(ctx, newScriptedHost().hello); err != nil {
				return err
			}
			s, err := link.Open(ctx, gateway, link.SessionOptions{})
			if err != nil {
				return err
			}
			return s.Serve(ctx, newRecorder())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				host, gateway := link.Pipe()
				start := time.Now()
				if err := serve(t.Context(), host, gateway); !errors.Is(err, link.ErrSilent) {
					t.Errorf("ended with %v", err)
				}
				if waited := time.Since(start); waited < link.MaxSilence || waited > latest {
					t.Errorf("given up after %s", waited)
				}
			})
		})
	}
}

// eventually waits for what another goroutine brings about.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("it never came to hold")
		}
		time.Sleep(time.Millisecond)
	}
}
