package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// plane is a control plane that writes down what it is told.
type plane struct {
	mu   sync.Mutex
	told []string
}

func (p *plane) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, fmt.Sprintf(format, args...))
}

func (p *plane) Attached(m wire.Attached)  { p.note("attached %s at %d", m.RunID, m.RuntimeCursor) }
func (p *plane) Refused(m wire.Refused)    { p.note("refused %s %s", m.RunID, m.Error.Code) }
func (p *plane) Ack(m wire.Ack)            { p.note("ack %s %d %s", m.RunID, m.CommandSeq, m.Status) }
func (p *plane) Event(m wire.EventMessage) { p.note("event %s %d", m.RunID, m.Envelope.Seq) }
func (p *plane) Gone(runID string)         { p.note("gone %s", runID) }

// heard gives what was told since the last call.
func (p *plane) heard() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told
	p.told = nil
	return told
}

func (p *plane) want(t *testing.T, want ...string) {
	t.Helper()
	if got := p.heard(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func attachOf(runID string, cursor uint64) wire.Attach {
	return wire.Attach{TargetRef: "target_1", SessionID: "plane:1", AccountRef: "account", RunID: runID, WorkspaceID: "w", Cursor: cursor}
}

func commandOf(runID string, seq uint64) wire.CommandMessage {
	body, _ := json.Marshal(map[string]string{"type": wire.TypePromptRequest, "turnId": fmt.Sprintf("%s/turn_%d", runID, seq)})
	return wire.CommandMessage{RunID: runID, Seq: seq, Command: body}
}

// TestRH47_AControlPlaneRunsBesideTheChat on the same link: it attaches, commands,
// gets all events in order and retires them, and attaches again after a lost link.
func TestRH47_RH49_AControlPlaneRunsBesideTheChat(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l := g.connect(g.host)
		p := &plane{}
		c := g.registry.OpenControl("ann", p)
		runner, err := c.Attach(t.Context(), attachOf("plane_run", 0))
		if err != nil || runner.HostID != "host_1" || runner.TargetRef != "target_1" || runner.Version != "1.0.0" || len(runner.Capabilities) == 0 {
			t.Fatalf("%+v, %v", runner, err)
		}
		check(t, c.Command(t.Context(), commandOf("plane_run", 1)))
		turn := g.prompt("run_1")
		g.wake("run_1")
		checkTurn(t, g, "run_1", turn)
		p.want(t, "attached plane_run at 0", "ack plane_run 1 applied",
			"event plane_run 1", "event plane_run 2", "event plane_run 3", "event plane_run 4", "event plane_run 5")
		g.mu.Lock()
		if g.runs["plane_run"] != nil {
			t.Error("the chat was told of the run")
		}
		g.mu.Unlock()
		check(t, c.Cursor(t.Context(), "plane_run", 3))
		synctest.Wait()
		if left, _ := g.host.pendingOf("plane_run"); left != 2 {
			t.Errorf("%d envelopes are left", left)
		}
		l.cut()
		p.want(t, "gone plane_run")
		if err := c.Command(t.Context(), commandOf("plane_run", 2)); wire.CodeOf(err) != wire.CodeRunNotAuthorized {
			t.Errorf("a command of a run that is gone: %v", err)
		}
		if _, err := c.Attach(t.Context(), attachOf("plane_run", 3)); wire.CodeOf(err) != wire.CodeHostOffline {
			t.Errorf("an attach while the host is away: %v", err)
		}
		l = g.connect(g.host)
		_, err = c.Attach(t.Context(), attachOf("plane_run", 3))
		check(t, err)
		p.want(t, "attached plane_run at 3", "event plane_run 4", "event plane_run 5")
		check(t, c.Command(t.Context(), commandOf("plane_run", 1))) // a replay
		p.want(t, "ack plane_run 1 applied")
		c.Close()
		synctest.Wait()
		if _, attachments := g.host.pendingOf("plane_run"); attachments != 0 {
			t.Errorf("%d attachments after the end", attachments)
		}
		l.cut()
		p.want(t)
	})
}

// TestSQ41_WhatAControlPlaneMayNotAttach.
func TestSQ41_WhatAControlPlaneMayNotAttach(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "target_2"})
		l := g.connect(g.host)
		g.host.manual = true
		g.prompt("run_1")
		g.wake("run_1")
		g.at("run_idle", "host_1")
		other := g.registry.OpenControl("bob", &plane{})
		_, err := other.Attach(t.Context(), attachOf("bobs", 0))
		check(t, err)
		p := &plane{}
		c := g.registry.OpenControl("ann", p)
		for _, x := range []struct {
			name   string
			change func(*wire.Attach)
			code   wire.Code
		}{
			{"an unknown target", func(a *wire.Attach) { a.TargetRef = "nobody's" }, wire.CodeNotFound},
			{"a host that is away", func(a *wire.Attach) { a.TargetRef = "target_2" }, wire.CodeHostOffline},
			{"a session of the chat", func(a *wire.Attach) { a.SessionID = "chat:thread_1" }, wire.CodeForbidden},
			{"a run of the chat", func(a *wire.Attach) { a.RunID = "run_1" }, wire.CodeForbidden},
			{"a run of the chat that is idle", func(a *wire.Attach) { a.RunID = "run_idle" }, wire.CodeForbidden},
			{"a run of another account", func(a *wire.Attach) { a.RunID = "bobs" }, wire.CodeForbidden},
		} {
			a := attachOf("mine", 0)
			x.change(&a)
			if _, err := c.Attach(t.Context(), a); wire.CodeOf(err) != x.code {
				t.Errorf("%s: %v", x.name, err)
			}
		}
		g.ledger.fail("HostOf", 1)
		if _, err := c.Attach(t.Context(), attachOf("mine", 0)); err == nil {
			t.Error("attached without knowing whose the run is")
		}
		for _, runID := range []string{"bobs", "run_1", "nobody's"} {
			for name, err := range map[string]error{
				"command": c.Command(t.Context(), commandOf(runID, 9)), "cursor": c.Cursor(t.Context(), runID, 9), "detach": c.Detach(t.Context(), runID),
			} {
				if wire.CodeOf(err) != wire.CodeRunNotAuthorized {
					t.Errorf("%s of %s: %v", name, runID, err)
				}
			}
		}
		p.want(t)
		c.Close()
		other.Close()
		l.cut()
	})
}

// TestControl_ANewerConnectionTakesARunOver: the older one is told, and gets nothing
// of the new attachment; the newer one gets nothing of the old.
func TestControl_ANewerConnectionTakesARunOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		h := g.dial("host_1")
		older, newer := &plane{}, &plane{}
		a, b := g.registry.OpenControl("ann", older), g.registry.OpenControl("ann", newer)
		_, err := a.Attach(t.Context(), attachOf("r", 0))
		check(t, err)
		h.next()
		h.send(wire.Attached{RunID: "r"})
		h.say("r", "t", 1, wire.EventItemDelta)
		older.want(t, "attached r at 0", "event r 1")

		_, err = b.Attach(t.Context(), attachOf("r", 0))
		check(t, err)
		older.want(t, "refused r superseded")
		h.say("r", "t", 2, wire.EventItemDelta) // still of the first attachment
		h.next()
		h.send(wire.Attached{RunID: "r"})
		h.say("r", "t", 1, wire.EventItemDelta)
		newer.want(t, "attached r at 0", "event r 1")
		older.want(t)
		if err := a.Command(t.Context(), commandOf("r", 1)); wire.CodeOf(err) != wire.CodeRunNotAuthorized {
			t.Errorf("a command of the older one: %v", err)
		}
		a.Close()
		check(t, b.Command(t.Context(), commandOf("r", 1)))
		if _, ok := h.next().(wire.CommandMessage); !ok {
			t.Error("the end of the older one reached the host")
		}

		// Attached again before the host has answered: only the last answer counts.
		for range 2 {
			_, err = b.Attach(t.Context(), attachOf("r", 1))
			check(t, err)
		}
		check(t, b.Detach(t.Context(), "r"))
		_, err = b.Attach(t.Context(), attachOf("r", 1))
		check(t, err)
		h.send(wire.Attached{RunID: "r"})
		h.send(wire.Refused{RunID: "r", Error: body(wire.CodeRunNotAuthorized)})
		h.say("r", "t", 2, wire.EventItemDelta)
		newer.want(t)
		h.send(wire.Attached{RunID: "r", RuntimeCursor: 1})
		newer.want(t, "attached r at 1")
		h.send(wire.Refused{RunID: "r", Error: body(wire.CodePersistFailed)})
		newer.want(t, "refused r relay_persist_failed")
		h.say("r", "t", 3, wire.EventItemDelta)
		newer.want(t)
		b.Close()
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
	})
}

// TestControl_OfARevokedHost: its runs are gone with it.
func TestControl_OfARevokedHost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l := g.connect(g.host)
		p := &plane{}
		c := g.registry.OpenControl("ann", p)
		_, err := c.Attach(t.Context(), attachOf("r", 0))
		check(t, err)
		p.want(t, "attached r at 0")
		check(t, g.registry.Revoke(t.Context(), "host_1", "stolen"))
		p.want(t, "gone r")
		if _, err := c.Attach(t.Context(), attachOf("r", 0)); wire.CodeOf(err) != wire.CodeNotFound {
			t.Errorf("an attach at a revoked host: %v", err)
		}
		c.Close()
		l.ends.Wait()
	})
}

// TestF25_ARevokedHostIsNotHeardAnyMore, also not while it does not take that it is
// revoked.
func TestF25_ARevokedHostIsNotHeardAnyMore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		h := g.dial("host_1")
		p := &plane{}
		c := g.registry.OpenControl("ann", p)
		_, err := c.Attach(t.Context(), attachOf("r", 0))
		check(t, err)
		h.send(wire.Attached{RunID: "r"})
		p.want(t, "attached r at 0")
		full, cancel := context.WithTimeout(t.Context(), time.Second)
		for seq := uint64(1); c.Command(full, commandOf("r", seq)) == nil; seq++ {
		}
		cancel()
		revoked := make(chan error, 1)
		go func() { revoked <- g.registry.Revoke(t.Context(), "host_1", "stolen") }()
		synctest.Wait()
		h.say("r", "t", 1, wire.EventItemDelta)
		check(t, <-revoked)
		h.ends.Wait()
		p.want(t, "gone r")
		_ = h.conn.Close(link.Ending{})
	})
}

// TestF10_AControlPlaneAtAStuckHostHoldsUpNobody: its calls end with their contexts
// and with the link, the chat goes on elsewhere.
func TestF10_AControlPlaneAtAStuckHostHoldsUpNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "target_2"})
		h := g.dial("host_2")
		l := g.connect(g.host)
		c := g.registry.OpenControl("ann", &plane{})
		a := attachOf("r", 0)
		a.TargetRef = "target_2"
		_, err := c.Attach(t.Context(), a)
		check(t, err)
		var stuck sync.WaitGroup
		for i := range 100 {
			stuck.Go(func() {
				bounded, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = c.Command(bounded, commandOf("r", uint64(i+1)))
			})
		}
		synctest.Wait()
		turn := g.prompt("run_1")
		g.wake("run_1")
		checkTurn(t, g, "run_1", turn)
		start := time.Now()
		stuck.Wait()
		c.Close()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
		l.cut()
	})
}
