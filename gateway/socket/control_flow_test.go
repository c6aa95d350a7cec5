package socket_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestControl_TheTokensEndEndsTheSocket(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.attach(0)
	r.bus.Publish(gateway.CredentialTopic("cred-plane"), gateway.Push{})
	if code := p.closed(); code != 4401 {
		t.Errorf("revoked: closed with %d", code)
	}
	short := r.plane("short")
	if code := short.closed(); code != 4401 {
		t.Errorf("expired: closed with %d", code)
	}
}

func TestControl_AShutdownTellsWhenToReturn(t *testing.T) {
	t.Parallel()
	r := newControlRig(t)
	p := r.plane("plane")
	p.attach(0)
	p.pinged()
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(context.Background()) }()
	if m := p.untilType("goaway"); m.RetryMs < 1 {
		t.Errorf("goaway: %s", m.raw)
	}
	if code := p.closed(); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d", code)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, res, err := r.tryPlane(bearer("plane")); err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after: %v, %v", res, err)
	}
}

func TestControl_TooManyFrames(t *testing.T) {
	t.Parallel()
	r := newControlRig(t, func(c *socket.Config) { c.Limits.ControlPerSecond = 1 })
	p := r.plane("plane")
	var m pushed
	for i := uint64(1); m.code() != wire.CodeRateLimited; i++ {
		if m.CommandSeq > 50 {
			t.Fatal("no frame is one too many")
		}
		p.command(i, relaytest.Prompt(1, 1))
		if m = p.untilType("ack"); m.CommandSeq != i {
			t.Errorf("the %d. command: %s", i, m.raw)
		}
	}
	if m.Error.RetryAfterMs == 0 || !m.Error.Retryable {
		t.Errorf("one too many: %s", m.raw)
	}
	for range 200 {
		if p.ws.Write(context.Background(), websocket.MessageText, []byte(`{"type":"ping"}`)) != nil {
			break
		}
	}
	if code := p.closed(); code != 4429 {
		t.Errorf("closed with %d", code)
	}
}

func TestControl_OfCursorsInARowTheNewestCounts(t *testing.T) {
	t.Parallel()
	host := &busy{goOn: make(chan struct{}), told: make(chan uint64, 1000)}
	r := newControlRig(t, func(c *socket.Config) {
		c.OpenControl = func(_ string, e gateway.ControlEvents) socket.Control {
			host.events = e
			return host
		}
	})
	p := r.plane("plane")
	p.attach(5)
	p.cursor(1)
	host.goOn <- struct{}{} // it is at the host now, and the worker with it
	for i := range uint64(900) {
		p.cursor(900 - i) // a lower one takes nothing back
	}
	p.write(`{"type":"detach","runId":"r","id":"x"}`)
	p.write(`{"type":"cursor"}`)
	p.until("an answer of the reader", func(m pushed) bool { return m.code() == wire.CodeBadRequest })
	close(host.goOn)
	p.until("an answer of the worker", func(m pushed) bool { return m.Re == "x" })
	if len(host.told) != 2 || <-host.told != 1 || <-host.told != 900 {
		t.Errorf("%d more cursors were forwarded", len(host.told))
	}
}

// busy is a host that takes a cursor in two steps, when the test says so.
type busy struct {
	early
	goOn chan struct{}
	told chan uint64
}

func (b *busy) Cursor(_ context.Context, _ string, cursor uint64) error {
	<-b.goOn
	<-b.goOn
	b.told <- cursor
	return nil
}

func TestControl_FramesUpTo8MiB(t *testing.T) {
	t.Parallel()
	p := newControlRig(t).plane("plane")
	frame := func(size int) string {
		const head, tail = `{"type":"ping","pad":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	p.write(frame(wire.MaxControlFrameBytes))
	if m := p.read(); m.code() != wire.CodeBadRequest || m.Error.Fields[0].Rule != "unknown" {
		t.Errorf("the largest: %.300s", m.raw)
	}
	p.write(frame(wire.MaxControlFrameBytes + 1))
	if m := p.read(); m.code() != wire.CodeFrameTooLarge || m.Error.Limit != wire.MaxControlFrameBytes {
		t.Errorf("one more: %.300s", m.raw)
	}
}

// TestF10_AControlPlaneThatStopsReadingHurtsItselfAlone floods one that does not read,
// while another one gets every event at once.
func TestF10_AControlPlaneThatStopsReadingHurtsItselfAlone(t *testing.T) {
	t.Parallel()
	var opened sync.Map // the sessions' events by account
	r := newControlRig(t, func(c *socket.Config) {
		c.Limits.QueueBytes, c.Limits.ControlRunBytes = 256<<10, 1
		c.OpenControl = func(account string, e gateway.ControlEvents) socket.Control {
			opened.Store(account, e)
			return &early{events: e}
		}
	})
	stuck, well := r.plane("plane"), r.plane("rival")
	stuck.attach(0)
	well.attach(0)
	event := func(account string, seq uint64, payload []byte) {
		e, _ := opened.Load(account)
		e.(gateway.ControlEvents).Event(wire.EventMessage{
			RunID: relaytest.Run, Envelope: wire.Envelope{Seq: seq, Payload: payload},
		})
	}
	large := []byte(`"` + strings.Repeat("x", 128<<10) + `"`)
	var slowest time.Duration
	seq := uint64(6)
	for ; r.Stats().TooSlow == 0; seq++ {
		if seq > 1000 {
			t.Fatal("the slow one is not cut")
		}
		start := time.Now()
		event("acc-plane", seq, large)
		slowest = max(slowest, time.Since(start))
		event("acc-rival", seq, []byte(`{}`))
		well.until("its event", func(m pushed) bool { return m.Envelope.Seq == seq })
	}
	if slowest > time.Second {
		t.Errorf("a host waited for %v", slowest)
	}
	eventually(t, "the slow one is gone", func() bool { return r.Stats().Sessions == 1 })
	if code := stuck.closed(); code != 4408 && code != -1 {
		t.Errorf("closed with %d", code)
	}
	well.pinged()
}

// TestF10_ABurstOfManyRunsIsNoSlowReader resumes eight runs at once, each with all
// that its host may send unasked.
func TestF10_ABurstOfManyRunsIsNoSlowReader(t *testing.T) {
	t.Parallel()
	host := &burst{}
	r := newControlRig(t, func(c *socket.Config) {
		c.Limits.QueueBytes, c.Limits.ControlRunBytes = 64<<10, 1<<20
		c.OpenControl = func(_ string, e gateway.ControlEvents) socket.Control {
			host.events = e
			return host
		}
	})
	p := r.plane("plane")
	for i := range 8 {
		p.say(p.attachment(fmt.Sprintf("run_%d", i), fmt.Sprintf("session %d", i), 0))
	}
	eventually(t, "all of it is under way", func() bool { return host.attached.Load() == 8 })
	for range 8 * 192 {
		p.untilType("event")
	}
	p.pinged()
}

// burst is hosts that send 192 events of 4 KiB for each run at once.
type burst struct {
	early
	attached atomic.Int32
}

func (b *burst) Attach(_ context.Context, a wire.Attach) (gateway.Runner, error) {
	payload := []byte(`"` + strings.Repeat("x", 4<<10) + `"`)
	b.events.Attached(wire.Attached{RunID: a.RunID})
	for i := range 192 {
		b.events.Event(wire.EventMessage{RunID: a.RunID, Envelope: wire.Envelope{Seq: uint64(i) + 1, Payload: payload}})
	}
	b.attached.Add(1)
	return gateway.Runner{HostID: "quick"}, nil
}

// early is a host that answers an attach before anybody could name it.
type early struct {
	events gateway.ControlEvents
	fail   error
}

func (e *early) Attach(_ context.Context, a wire.Attach) (gateway.Runner, error) {
	e.events.Attached(wire.Attached{RunID: a.RunID, RuntimeCursor: 5})
	e.events.Event(wire.EventMessage{RunID: a.RunID, Envelope: wire.Envelope{Seq: 6, Payload: []byte(`{}`)}})
	return gateway.Runner{HostID: "quick"}, e.fail
}
func (*early) Command(context.Context, wire.CommandMessage) error { panic("as told") }
func (*early) Cursor(context.Context, string, uint64) error       { return nil }
func (*early) Detach(context.Context, string) error               { return nil }
func (*early) Close()                                             {}

func TestRH47_AttachedNamesTheRunnerHoweverQuickItsHostIs(t *testing.T) {
	t.Parallel()
	host := &early{}
	r := newControlRig(t, func(c *socket.Config) {
		c.OpenControl = func(_ string, e gateway.ControlEvents) socket.Control {
			host.events = e
			return host
		}
	})
	p := r.plane("plane")
	if m := p.attach(5); m.Runner == nil || m.Runner.ID != "quick" || len(p.skipped) > 0 {
		t.Errorf("attached: %s after %v", m.raw, p.skipped)
	}
	if m := p.read(); m.Envelope.Seq != 6 {
		t.Errorf("then %s", m.raw)
	}
	// A fault of this server takes nobody down.
	p.command(1, relaytest.Prompt(1, 1))
	if m := p.read(); m.code() != wire.CodeInternal {
		t.Errorf("a panic: %s", m.raw)
	}
	p.pinged()
}

// stalled is a host whose commands wait until the test lets them go.
type stalled struct {
	early
	begun, goOn chan struct{}
	told        chan uint64
}

func (h *stalled) Command(context.Context, wire.CommandMessage) error {
	h.begun <- struct{}{}
	<-h.goOn
	return nil
}

func (h *stalled) Cursor(_ context.Context, _ string, cursor uint64) error {
	h.told <- cursor
	return nil
}

// TestRH49_ACursorThatFoundNoRoomDoesNotBarTheNext: the line is full of commands, the
// cursor is refused; once there is room the next one reaches the host.
func TestRH49_ACursorThatFoundNoRoomDoesNotBarTheNext(t *testing.T) {
	t.Parallel()
	host := &stalled{begun: make(chan struct{}, 1), goOn: make(chan struct{}), told: make(chan uint64, 8)}
	r := newControlRig(t, func(c *socket.Config) {
		c.Limits.ControlLineBytes = 32 << 10
		c.OpenControl = func(_ string, e gateway.ControlEvents) socket.Control {
			host.events = e
			return host
		}
	})
	p := r.plane("plane")
	p.attach(5)
	p.command(1, relaytest.Prompt(1, 1))
	<-host.begun
	for range 32 {
		p.write(fmt.Sprintf(`{"type":"command","runId":%q,"seq":2,"command":{}}`, relaytest.Run))
	}
	p.cursor(6)
	p.until("a refusal of the cursor", func(m pushed) bool { return m.Type != "ack" && m.code() == wire.CodeRateLimited })
	close(host.goOn)
	p.pinged()
	p.cursor(7)
	p.pinged()
	select {
	case got := <-host.told:
		if got != 7 {
			t.Errorf("told %d", got)
		}
	default:
		t.Error("the next cursor did not reach the host")
	}
}

// chatty is a host that talks without end before its attach was sent.
type chatty struct{ early }

func (h *chatty) Attach(_ context.Context, a wire.Attach) (gateway.Runner, error) {
	for seq := range uint64(5000) {
		h.events.Ack(wire.Ack{RunID: a.RunID, CommandSeq: seq + 1, Status: wire.AckApplied})
	}
	return gateway.Runner{HostID: "chatty"}, nil
}

func TestF10_AHostThatTalksBeforeItIsNamedFillsNoMemory(t *testing.T) {
	t.Parallel()
	host := &chatty{}
	r := newControlRig(t, func(c *socket.Config) {
		c.OpenControl = func(_ string, e gateway.ControlEvents) socket.Control {
			host.events = e
			return host
		}
	})
	p := r.plane("plane")
	p.say(p.attachment(relaytest.Run, relaytest.Session, 0))
	if code := p.closed(); code != 4408 && code != -1 {
		t.Errorf("closed with %d", code)
	}
}
