package hosts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestF25_TheNewestOfSeveralLinksWins: those that wait for the end of an older one may
// be of connections that the host gave up long ago, and must not end the newest.
func TestF25_TheNewestOfSeveralLinksWins(t *testing.T) {
	t.Parallel()
	for range 10 {
		inBubble(t, func(t *testing.T, g *rig) {
			oldest := g.dial("host_1")
			turn := g.prompt("run_1")
			g.wake("run_1")
			oldest.take("run_1")
			stuck := make(chan struct{})
			g.mu.Lock()
			g.stuck = stuck
			g.mu.Unlock()
			oldest.say("run_1", turn, 1, wire.EventTurnStarted) // its end waits for the ledger
			var dead []*raw
			for range 4 {
				dead = append(dead, g.call("host_1"))
			}
			newest := g.call("host_1")
			g.mu.Lock()
			g.stuck = nil
			g.mu.Unlock()
			close(stuck)
			oldest.ended()
			for _, h := range dead {
				if _, e := h.ended(); e.Code != link.CloseSuperseded || !errors.Is(h.err, hosts.ErrSuperseded) {
					t.Errorf("a link that was given up ended with %+v, %v", e, h.err)
				}
			}
			newest.next() // welcome
			if a, ok := newest.next().(wire.Attach); !ok || a.RunID != "run_1" {
				t.Error("the newest link does not drive the run")
			}
			_ = newest.conn.Close(link.Ending{})
			newest.ends.Wait()
		})
	}
}

// TestRevoke_AHostThatJoinsAgainWaitsForTheEndOfItsOldRuns, so that what it begins then
// does not end with them.
func TestRevoke_AHostThatJoinsAgainWaitsForTheEndOfItsOldRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		g.at("run_2", "host_2")
		old := g.prompt("run_2")
		g.ledger.fail("Refused", 3)
		if err := g.registry.Revoke(t.Context(), "host_2", "stolen"); err == nil {
			t.Error("the fault of the ledger was not told")
		}
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		back := newRelayHost("host_2")
		l := g.connect(back)
		if row := g.row("host_2"); row.State != gateway.HostOffline {
			t.Errorf("it is %s with runs of its past", row.State)
		}
		pass(10 * time.Second)
		if row := g.row("host_2"); row.State != gateway.HostOnline {
			t.Errorf("it is %s after them", row.State)
		}
		turn := g.prompt("run_2")
		g.wake("run_2")
		if r := g.snapshot("run_2"); !r.lost[old] || r.lost[turn] || r.ended[turn] != 1 || len(prompts(back)) != 1 {
			t.Errorf("lost %v, ended %v, %q were offered", r.lost, r.ended, prompts(back))
		}
		l.cut()
	})
}

// TestRevoke_ATurnThatWasPlacedAtThatMomentEndsToo, as soon as the host is looked for.
func TestRevoke_ATurnThatWasPlacedAtThatMomentEndsToo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		check(t, g.registry.Revoke(t.Context(), "host_2", "stolen"))
		g.at("run_2", "host_2")
		turn := g.prompt("run_2")
		g.ledger.fail("Refused", 1)
		g.wake("run_2")
		pass(time.Second)
		if r := g.snapshot("run_2"); !r.lost[turn] {
			t.Errorf("the turn waits for %q", g.last("run_2").reason)
		}
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		next := g.prompt("run_2")
		g.wake("run_2")
		if r := g.snapshot("run_2"); r.lost[next] || g.last("run_2").reason != "host_offline" {
			t.Errorf("after it joined again: lost %v, waits for %q", r.lost, g.last("run_2").reason)
		}
	})
}

// TestControl_AnAttachThatWasNotSentIsNotWaitedFor: the next one has the host's answer.
func TestControl_AnAttachThatWasNotSentIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		h := g.dial("host_1")
		p := &plane{}
		c := g.registry.OpenControl("ann", p)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 40 { // some get as far as the link
			if _, err := c.Attach(gone, attachOf("r", 0)); err == nil {
				t.Fatal("an attach of a caller who is gone was sent")
			}
		}
		_, err := c.Attach(t.Context(), attachOf("r", 0))
		check(t, err)
		h.next()
		h.send(wire.Attached{RunID: "r"})
		h.say("r", "t", 1, wire.EventItemDelta)
		p.want(t, "attached r at 0", "event r 1")
		c.Close()
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
	})
}

// TestSQ41_AHostThatFloodsFillsNoMemory: neither with answers that nobody asked for nor
// with envelopes ahead of its cursor (RH56).
func TestSQ41_AHostThatFloodsFillsNoMemory(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		h := g.dial("host_1")
		turn := g.prompt("run_1")
		g.wake("run_1")
		h.take("run_1")
		slow := make(chan struct{})
		g.mu.Lock()
		g.slow, g.lazy = slow, true
		g.mu.Unlock()
		for range 1000 {
			h.send(wire.Ack{RunID: "run_1", CommandSeq: 1, CommandType: wire.TypePromptRequest, Status: wire.AckApplied})
		}
		g.mu.Lock()
		g.slow = nil
		g.mu.Unlock()
		close(slow)
		synctest.Wait()
		if acks := g.command("run_1", 1).acks; acks > 100 {
			t.Errorf("%d answers waited", acks)
		}
		h.next() // attach: what was dropped is asked for again
		h.send(wire.Attached{RunID: "run_1"})
		for range 5 { // each with the number of the one before, and as new ones
			for i := range 1000 {
				h.send(wire.EventMessage{RunID: "run_1", Envelope: wire.Envelope{
					SchemaVersion: wire.EnvelopeSchemaVersion, Seq: 1 + uint64(i%2), Event: wire.EventItemDelta, TurnID: turn,
					SourceEventID: fmt.Sprint("flood/", i), Payload: json.RawMessage(`{}`),
				}})
			}
		}
		if taken := len(g.snapshot("run_1").taken); taken > 1100 {
			t.Errorf("the ledger was given %d envelopes that are not durable", taken)
		}
		g.settle()
		pass(10 * time.Second)
		h.next() // cursor
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
	})
}

// TestSQ41_WhatAHostCallsACodeIsStoredOnlyIfItIsOne: a database may refuse it, and the
// turn would never end.
func TestSQ41_WhatAHostCallsACodeIsStoredOnlyIfItIsOne(t *testing.T) {
	t.Parallel()
	for code, want := range map[wire.Code]wire.Code{
		"model_failed": "model_failed", "new_code_9": "new_code_9",
		"": wire.CodeInternal, "nul\x00": wire.CodeInternal, "Two words": wire.CodeInternal, wire.Code(strings.Repeat("x", 65)): wire.CodeInternal,
	} {
		inBubble(t, func(t *testing.T, g *rig) {
			h := g.dial("host_1")
			g.prompt("run_1")
			g.prompt("run_2")
			g.wake("run_1")
			g.wake("run_2")
			h.next() // attach
			h.next()
			h.send(wire.Attached{RunID: "run_1"})
			h.next() // command
			h.send(wire.Ack{RunID: "run_1", CommandSeq: 1, Status: wire.AckFailed, Error: &wire.ErrorBody{Code: code}})
			h.send(wire.Refused{RunID: "run_2", Error: &wire.ErrorBody{Code: code}})
			if got := g.command("run_1", 1).code; got != want {
				t.Errorf("%q is stored as %q", code, got)
			}
			if got := g.refused["run_2"]; !slices.Equal(got, []wire.Code{want}) {
				t.Errorf("%q is told as %q", code, got)
			}
			_ = h.conn.Close(link.Ending{})
			h.ends.Wait()
		})
	}
}

// TestDecision8_APromptGoesOutOnlyOnceItCountsAsSent, also one that its host did not
// take and that comes due while its driver is at something else: a cancel in between
// would count it as never sent.
func TestDecision8_APromptGoesOutOnlyOnceItCountsAsSent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		h := g.dial("host_1")
		turn := g.prompt("run_1")
		g.wake("run_1")
		h.next() // attach
		h.send(wire.Attached{RunID: "run_1"})
		h.next() // command
		h.send(wire.Ack{
			RunID: "run_1", CommandSeq: 1, CommandType: wire.TypePromptRequest, Status: wire.AckFailed, Error: body(wire.CodeInferenceBusy),
		})
		if state := g.command("run_1", 1).state; state != "pending" {
			t.Fatalf("a prompt that was not taken counts as %s", state)
		}
		stuck := make(chan struct{})
		g.mu.Lock()
		g.stuck = stuck
		g.mu.Unlock()
		h.say("run_1", turn, 1, wire.EventItemDelta)
		pass(time.Second) // it is due
		g.mu.Lock()
		g.stuck = nil
		g.mu.Unlock()
		close(stuck)
		synctest.Wait()
		for {
			if _, ok := h.next().(wire.CommandMessage); ok {
				break
			}
		}
		if state := g.command("run_1", 1).state; state != "sent" {
			t.Errorf("a prompt that is at its host counts as %s", state)
		}
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
	})
}

// TestRH48_ARunIsNotMadeUselessByALeap: with its cursor at the greatest number it would
// take no event any more, whoever is its host later.
func TestRH48_ARunIsNotMadeUselessByALeap(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		h := g.dial("host_1")
		turn := g.prompt("run_1")
		g.wake("run_1")
		h.take("run_1")
		h.say("run_1", turn, 1, wire.EventTurnStarted)
		h.say("run_1", turn, wire.MaxSeq, wire.EventItemDelta)
		pass(10 * time.Second)
		for {
			if _, ok := h.next().(wire.Attach); ok {
				break
			}
		}
		h.send(wire.Attached{RunID: "run_1", RuntimeCursor: wire.MaxSeq})
		pass(10 * time.Second)
		if r := g.snapshot("run_1"); r.cursor != 1 || !slices.Equal(r.taken, []uint64{1}) {
			t.Errorf("cursor %d, taken in %v", r.cursor, r.taken)
		}
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
	})
}

// TestRH19_RH20_ACatalogIsTakenAsFarAsItIsSafe: names that no command could hold, and
// texts that a database or a terminal stumbles over, reach nobody.
func TestRH19_RH20_ACatalogIsTakenAsFarAsItIsSafe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		good := wire.Route{ModelProvider: "p", ModelProviderID: "p-id", Model: "m", Ready: true}
		with := func(change func(*wire.Route)) wire.Route {
			r := good
			change(&r)
			return r
		}
		g.host.routes = []wire.Route{
			with(func(r *wire.Route) {
				r.DisplayName, r.Family, r.Reason = "Na\x1b[31mme", "fam\x00ily", "why\n"
				r.ImageInput, r.ReasoningLevels = "perhaps", []string{"low", "\x00", "low", "HIGH"}
			}),
			good, // once more
			with(func(r *wire.Route) { r.Model = "m\x00" }),
			with(func(r *wire.Route) { r.Model = "" }),
			with(func(r *wire.Route) { r.Model = "two\nlines" }),
			with(func(r *wire.Route) { r.ModelProvider = "a b" }),
			with(func(r *wire.Route) { r.ModelProviderID = "../secret" }),
			with(func(r *wire.Route) { r.Model = "m2" }),
		}
		l := g.connect(g.host)
		got := g.catalogs.routes["host_1"]
		if len(got) != 2 || got[0].Model != "m" || got[1].Model != "m2" {
			t.Fatalf("taken were %+v", got)
		}
		if r := got[0]; r.DisplayName != "Na[31mme" || r.Family != "family" || r.Reason != "why" || r.ImageInput != wire.Unknown ||
			!slices.Equal(r.ReasoningLevels, []string{"low"}) {
			t.Errorf("taken was %+v", r)
		}
		l.cut()
	})
}

// TestF10_AControlPlaneThatFloodsARunEndsNoLink: a host takes too many messages of a run
// that wait for misuse, and the link is everybody's.
func TestF10_AControlPlaneThatFloodsARunEndsNoLink(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		goOn := make(chan struct{})
		held := &heldHost{relayHost: g.host, goOn: goOn}
		l := g.connectAs(held)
		p := &plane{}
		c := g.registry.OpenControl("ann", p)
		_, err := c.Attach(t.Context(), attachOf("r", 0))
		check(t, err)
		p.want(t, "attached r at 0")
		refused := 0
		for seq := range uint64(300) {
			err := c.Command(t.Context(), commandOf("r", seq+1))
			if err != nil && wire.CodeOf(err) != wire.CodeRateLimited {
				t.Fatal(err)
			}
			if err != nil {
				refused++
			}
			check(t, c.Cursor(t.Context(), "r", seq))
			synctest.Wait()
		}
		for range 300 {
			if _, err := c.Attach(t.Context(), attachOf("r", 0)); err != nil && wire.CodeOf(err) != wire.CodeRateLimited {
				t.Fatal(err)
			}
			_ = c.Detach(t.Context(), "r") // the link is asked below
			synctest.Wait()
		}
		if refused == 0 || g.row("host_1").State != gateway.HostOnline {
			t.Errorf("%d commands were refused, the host is %s", refused, g.row("host_1").State)
		}
		close(goOn)
		synctest.Wait()
		_, err = c.Attach(t.Context(), attachOf("r", 0))
		check(t, err)
		synctest.Wait()
		p.heard()
		check(t, c.Command(t.Context(), commandOf("r", 1000)))
		if told := p.heard(); !slices.Contains(told, "ack r 1000 applied") {
			t.Errorf("after the flood it is told %q", told)
		}
		c.Close()
		l.cut()
	})
}

// heldHost takes no command until goOn is closed.
type heldHost struct {
	*relayHost
	goOn chan struct{}
}

func (h *heldHost) Attach(ctx context.Context, a wire.Attach, capabilities []string) (link.Attachment, error) {
	got, err := h.relayHost.Attach(ctx, a, capabilities)
	if err != nil {
		return nil, err
	}
	return &heldAttachment{Attachment: got, goOn: h.goOn}, nil
}

type heldAttachment struct {
	link.Attachment
	goOn chan struct{}
}

func (a *heldAttachment) Command(ctx context.Context, m wire.CommandMessage) wire.Ack {
	<-a.goOn
	return a.Attachment.Command(ctx, m)
}
