package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestDecision8_AnAbsentHostsWorkIsNotMarkedAsSent while another host is linked: a
// cancel of it need not wait for anybody.
func TestDecision8_AnAbsentHostsWorkIsNotMarkedAsSent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		l := g.connect(g.host)
		g.at("run_2", "host_2")
		g.prompt("run_2")
		g.wake("run_2")
		if c := g.command("run_2", 1); c.state != "pending" || g.asked != 0 {
			t.Errorf("the command is %s, asked %d times", c.state, g.asked)
		}
		if got := g.last("run_2").reason; got != "host_offline" {
			t.Errorf("it waits for %q", got)
		}
		l.cut()
	})
}

// TestFR38_AD78_AHostIsOfferedWhatItUnderstands by the generations that it announced.
func TestFR38_AD78_AHostIsOfferedWhatItUnderstands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		announced []int
		prompt    int
		offered   bool
	}{
		{nil, 1, true},
		{nil, 2, false},
		{nil, 3, false},
		{[]int{1, 2}, 2, true},
		{[]int{1, 2}, 3, false},
		{[]int{1, 2, 3}, 3, true},
		{[]int{1, 2, 3}, 2, true},
		{[]int{1, 3}, 2, false},
	} {
		t.Run(fmt.Sprintf("%v takes %d", c.announced, c.prompt), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				g.generation, g.host.generations = c.prompt, c.announced
				before := g.prompt("run_0") // open when the host links
				l := g.connect(g.host)
				turn := g.prompt("run_1")
				g.wake("run_1")
				if c.offered {
					checkTurn(t, g, "run_0", before)
					checkTurn(t, g, "run_1", turn)
					l.cut()
					return
				}
				pass(time.Minute)
				if got := prompts(g.host); len(got) != 0 || g.last("run_1").reason != "host_outdated" || g.last("run_0").reason != "host_outdated" {
					t.Errorf("offered %q, waits for %q", got, g.last("run_1").reason)
				}
				if state := g.command("run_1", 1).state; state != "pending" {
					t.Errorf("the command counts as %s", state)
				}
				g.stop("run_1", turn)
				g.wake("run_1")
				pass(time.Minute)
				if r := g.snapshot("run_1"); !r.dropped[turn] || !r.idle() || len(prompts(g.host)) != 0 {
					t.Errorf("after a stop: %+v", r)
				}
				l.cut()
				g.host.change(func() { g.host.generations = []int{1, 2, 3} })
				l = g.connect(g.host) // it was upgraded
				checkTurn(t, g, "run_0", before)
				l.cut()
			})
		})
	}
}

// TestRH62_ADrainingHostGetsNoNewPrompt, whoever wished it; what runs there goes on.
func TestRH62_ADrainingHostGetsNoNewPrompt(t *testing.T) {
	t.Parallel()
	admin := func(g *rig, drains bool) {
		g.registry.Update(hosts.Host{ID: "host_1", Draining: drains})
	}
	itself := func(g *rig, drains bool) {
		if drains {
			g.host.change(func() { g.host.drain = "leaving" })
		}
	}
	for name, drain := range map[string]func(*rig, bool){"an admin": admin, "the host itself": itself} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				g.host.manual = true
				l := g.connect(g.host)
				running := g.prompt("run_1")
				g.wake("run_1")
				drain(g, true)
				synctest.Wait()
				waiting := g.prompt("run_2")
				g.wake("run_2")
				pass(time.Minute)
				if got := g.last("run_2").reason; got != "host_draining" || len(prompts(g.host)) != 1 || g.command("run_2", 1).state != "pending" {
					t.Errorf("waits for %q, %q were offered, the command is %s", got, prompts(g.host), g.command("run_2", 1).state)
				}
				if p := g.catalogs.places["host_1"]; !p.Draining {
					t.Errorf("placement knows %+v", p)
				}
				if row := g.row("host_1"); row.State != gateway.HostDraining || !row.Draining {
					t.Errorf("admins see %+v", row)
				}
				g.host.play("run_1", running)
				synctest.Wait()
				checkTurn(t, g, "run_1", running)
				if drain(g, false); name == "the host itself" {
					l.cut()
					g.host.drain = "" // the process was started anew
					l = g.connect(g.host)
				}
				synctest.Wait()
				g.host.play("run_2", waiting)
				synctest.Wait()
				checkTurn(t, g, "run_2", waiting)
				if p := g.catalogs.places["host_1"]; p.Draining {
					t.Errorf("placement knows %+v", p)
				}
				l.cut()
			})
		})
	}
}

// TestDrain_IsToldAgainAfterALink: the host does not remember what an admin wished.
func TestDrain_IsToldAgainAfterALink(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Update(hosts.Host{ID: "host_1", Name: "Ada", Labels: []string{"gpu"}, Draining: true})
		l := g.connect(g.host)
		l.cut()
		l = g.connect(g.host)
		g.registry.Update(hosts.Host{ID: "host_1", Name: "Ada", Labels: []string{"gpu"}})
		synctest.Wait()
		if !slices.Equal(g.host.asked, []bool{true, true, false}) {
			t.Errorf("the host was asked %v", g.host.asked)
		}
		if row := g.row("host_1"); row.Name != "Ada" || !slices.Equal(row.Labels, []string{"gpu"}) || row.Links != 2 || row.State != gateway.HostOnline {
			t.Errorf("admins see %+v", row)
		}
		l.cut()
	})
}

// TestRH62_APromptThatADrainingHostRefusesIsOfferedAgain: it was on its way when the
// host began to drain.
func TestRH62_APromptThatADrainingHostRefusesIsOfferedAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.drain = "leaving"
		h := g.dial("host_1")
		turn := g.prompt("run_1")
		g.wake("run_1")
		h.next()
		h.send(wire.Attached{RunID: "run_1"})
		h.next()
		h.send(wire.Ack{RunID: "run_1", CommandSeq: 1, CommandType: wire.TypePromptRequest, Status: wire.AckFailed, Error: body(wire.CodeShuttingDown)})
		if got := g.last("run_1").reason; got != "host_draining" {
			t.Errorf("waits for %q", got)
		}
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
		g.host.drain = ""
		l := g.connect(g.host)
		checkTurn(t, g, "run_1", turn)
		l.cut()
	})
}

// TestF25_OutputOfASupersededLinkIsRefused: the older link is closed with 4409, and
// what it sent that was not taken in by then never is.
func TestF25_OutputOfASupersededLinkIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		older := g.dial("host_1")
		turn := g.prompt("run_1")
		g.wake("run_1")
		older.take("run_1")
		stuck := make(chan struct{})
		g.mu.Lock()
		g.stuck = stuck
		g.mu.Unlock()
		older.say("run_1", turn, 1, wire.EventTurnStarted) // the ledger is at it
		older.say("run_1", turn, 2, wire.EventItemDelta)   // this one waits

		newer := g.call("host_1")
		g.mu.Lock()
		g.stuck = nil
		g.mu.Unlock()
		close(stuck)
		if _, e := older.ended(); e.Code != link.CloseSuperseded || !errors.Is(older.err, hosts.ErrSuperseded) {
			t.Errorf("the older link ended with %+v, %v", e, older.err)
		}
		if got := g.snapshot("run_1").taken; !slices.Equal(got, []uint64{1}) {
			t.Errorf("taken in %v", got)
		}
		newer.next() // welcome
		newer.next() // attach
		newer.send(wire.Attached{RunID: "run_1"})
		newer.say("run_1", turn, 2, wire.EventItemDelta)
		newer.say("run_1", turn, 3, wire.EventTurnCompleted)
		if r := g.snapshot("run_1"); !slices.Equal(r.taken, []uint64{1, 2, 3}) || r.ended[turn] != 1 {
			t.Errorf("taken in %v", r.taken)
		}
		if row := g.row("host_1"); row.Links != 2 || row.LastError != "" {
			t.Errorf("admins see %+v", row)
		}
		_ = newer.conn.Close(link.Ending{})
		newer.ends.Wait()
	})
}

// TestF25_OutputBehindASlowAnswerIsRefused: the driver had both in hand when the link
// was superseded.
func TestF25_OutputBehindASlowAnswerIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		older := g.dial("host_1")
		turn := g.prompt("run_1")
		g.wake("run_1")
		older.take("run_1")
		stuck, slow := make(chan struct{}), make(chan struct{})
		g.mu.Lock()
		g.stuck, g.slow = stuck, slow
		g.mu.Unlock()
		older.say("run_1", turn, 1, wire.EventTurnStarted) // the ledger is at it
		older.send(wire.Ack{RunID: "run_1", CommandSeq: 1, CommandType: wire.TypePromptRequest, Status: wire.AckApplied})
		older.say("run_1", turn, 2, wire.EventItemDelta)
		close(stuck) // the answer and the delta are the next
		synctest.Wait()
		newer := g.call("host_1")
		g.mu.Lock()
		g.stuck, g.slow = nil, nil
		g.mu.Unlock()
		close(slow)
		older.ended()
		if got := g.snapshot("run_1").taken; !slices.Equal(got, []uint64{1}) {
			t.Errorf("taken in %v", got)
		}
		newer.next()
		_ = newer.conn.Close(link.Ending{})
		newer.ends.Wait()
	})
}

// TestRevoke_EndsTheLinkAndTheRuns: the host is told, nothing of it is taken in any
// more, its turns end, and it is unknown until it is registered again.
func TestRevoke_EndsTheLinkAndTheRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		l := g.connect(g.host)
		h := g.dial("host_2")
		g.at("run_2", "host_2")
		turn := g.prompt("run_2")
		g.wake("run_2")
		h.take("run_2")
		h.say("run_2", turn, 1, wire.EventItemDelta)
		g.ledger.fail("Refused", 1)
		revoked := make(chan error, 1)
		go func() { revoked <- g.registry.Revoke(t.Context(), "host_2", "stolen") }()
		last, e := h.ended()
		if m, ok := last.(wire.Revoked); !ok || m.Reason != "stolen" || e.Code != link.CloseForbidden || !errors.Is(h.err, hosts.ErrRevoked) {
			t.Errorf("the host was told %+v, %+v, %v", last, e, h.err)
		}
		if err := <-revoked; wire.CodeOf(err) != wire.CodeStorageUnavailable {
			t.Errorf("a fault of the ledger is told as %v", err)
		}
		pass(time.Second)
		if r := g.snapshot("run_2"); !slices.Equal(g.refused["run_2"], []wire.Code{wire.CodeHostLost}) || !r.lost[turn] || len(r.taken) != 1 {
			t.Errorf("the run ended with %v, taken in %v", g.refused["run_2"], r.taken)
		}
		if _, known := g.catalogs.places["host_2"]; known {
			t.Error("placement still knows the host")
		}
		back := g.connect(newRelayHost("host_2"))
		back.cut()
		if !errors.Is(back.err, hosts.ErrUnknownHost) {
			t.Errorf("it linked again: %v", back.err)
		}
		late := g.prompt("run_2")
		g.wake("run_2") // for nobody: the other host is not asked
		if r := g.snapshot("run_2"); !r.lost[late] || slices.Contains(g.host.commands(), "attach run_2") {
			t.Errorf("lost %v; the other host was told %q", r.lost, g.host.commands())
		}
		if err := g.registry.Revoke(t.Context(), "host_2", "again"); err != nil {
			t.Errorf("revoked twice: %v", err)
		}
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		g.prompt("run_2")
		again := g.connect(newRelayHost("host_2"))
		if n := len(g.snapshot("run_2").ended); n != 1 {
			t.Errorf("%d turns ended after it joined again", n)
		}
		again.cut()
		l.cut()
	})
}

// TestF12_LeaveSendsHostsAwayInGoodOrder: those on other machines; nothing of theirs
// is lost.
func TestF12_LeaveSendsHostsAwayInGoodOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		l := g.connect(g.host)
		h := g.dial("host_2")
		left := make(chan struct{})
		go func() {
			defer close(left)
			g.registry.Leave(t.Context(), 1500*time.Millisecond)
		}()
		last, e := h.ended()
		<-left
		if m, ok := last.(wire.Goaway); !ok || m.RetryAfterMs != 1500 || e.Code != link.CloseRestart {
			t.Errorf("the host was told %+v, %+v", last, e)
		}
		late := g.connect(newRelayHost("host_2"))
		late.cut()
		if !errors.Is(late.err, hosts.ErrClosed) {
			t.Errorf("a late link ended with %v", late.err)
		}
		turn := g.prompt("run_1")
		g.wake("run_1")
		checkTurn(t, g, "run_1", turn) // the embedded host goes on
		l.cut()
	})
}

// TestF10_AHostThatTakesNothingHoldsUpNoOther, nor an admin, nor the shutdown.
func TestF10_AHostThatTakesNothingHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		l := g.connect(g.host)
		h := g.dial("host_2")
		for i := range 200 { // far more than the link holds
			run := fmt.Sprintf("stuck_%d", i)
			g.at(run, "host_2")
			g.prompt(run)
			g.registry.Wake(run)
		}
		synctest.Wait()
		start := time.Now()
		for i := range 50 {
			run := fmt.Sprintf("run_%d", i)
			turn := g.prompt(run)
			g.wake(run)
			checkTurn(t, g, run, turn)
		}
		g.registry.Update(hosts.Host{ID: "host_2", TargetRef: "host_2", Draining: true})
		if row := g.row("host_2"); row.State != gateway.HostDraining || row.OpenRuns != 200 {
			t.Errorf("admins see %+v", row)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the other host was held up for %s", took)
		}
		bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := g.registry.Revoke(bounded, "host_2", "stuck"); err != nil {
			t.Error(err)
		}
		h.ends.Wait()
		l.cut()
	})
}

// TestSQ41_WhatAHostSaysOfAnothersRunIsNotTaken: acknowledgements, envelopes and
// receipts of a run reach the ledger over the link of its own host alone.
func TestSQ41_WhatAHostSaysOfAnothersRunIsNotTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.manual = true
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "host_2"})
		l := g.connect(g.host)
		h := g.dial("host_2")
		turn := g.prompt("run_1")
		g.wake("run_1")
		delivery := g.steer("run_1", "left")
		g.wake("run_1")
		h.send(wire.Attached{RunID: "run_1"})
		h.say("run_1", turn, 1, wire.EventItemDelta)
		h.say("run_1", turn, 2, wire.EventTurnCompleted)
		h.send(wire.Receipt{RunID: "run_1", TurnID: turn, DeliveryID: delivery, Outcome: wire.ReceiptDelivered})
		h.send(wire.Ack{RunID: "run_1", CommandSeq: 1, CommandType: wire.TypePromptRequest, Status: wire.AckApplied})
		h.send(wire.Refused{RunID: "run_1", Error: body(wire.CodeOwnerMismatch)})
		if r := g.snapshot("run_1"); len(r.taken) != 0 || r.ended[turn] != 0 || len(g.refused["run_1"]) != 0 {
			t.Errorf("taken in %v, refused %v", r.taken, g.refused["run_1"])
		}
		if c := g.command("run_1", 1); c.acks != 1 {
			t.Errorf("the prompt was answered %d times", c.acks)
		}
		if s := g.steerState("run_1", delivery); s.outcome != "" {
			t.Errorf("the steer is %+v", s)
		}
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
		g.host.play("run_1", turn)
		synctest.Wait()
		checkTurn(t, g, "run_1", turn)
		l.cut()
	})
}

// TestDecision10_ALostHostIsShownAsLost with why and when its link ended; it takes
// its turns up again when it is back.
func TestDecision10_ALostHostIsShownAsLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		h := g.dial("host_1")
		turn := g.prompt("run_1")
		g.wake("run_1")
		h.take("run_1")
		pass(2 * time.Minute) // it is frozen
		h.ends.Wait()
		if !errors.Is(h.err, link.ErrSilent) {
			t.Errorf("the link ended with %v", h.err)
		}
		row := g.row("host_1")
		if row.State != gateway.HostLost || row.LastError == "" || row.Links != 1 {
			t.Errorf("admins see %+v", row)
		}
		if got := g.last("run_1"); got.reason != "host_offline" || !got.retryAt.Equal(row.SeenAt) {
			t.Errorf("the ledger was told %+v", got)
		}
		_ = h.conn.Close(link.Ending{})
		g.host.manual = true
		l := g.connect(g.host)
		if got := g.last("run_1").reason; got != "" {
			t.Errorf("back, and still %q", got)
		}
		g.host.play("run_1", turn)
		pass(time.Minute)
		if r := g.snapshot("run_1"); r.ended[turn] != 1 {
			t.Errorf("the turn ended %d times", r.ended[turn])
		}
		if row := g.row("host_1"); row.State != gateway.HostOnline || !row.Measured || row.Links != 2 {
			t.Errorf("admins see %+v", row)
		}
		l.cut()
	})
}

// row is what admins see of a host.
func (g *rig) row(hostID string) gateway.AdminHost {
	g.t.Helper()
	rows, err := g.registry.AdminHosts(g.t.Context(), gateway.Actor{})
	if err != nil {
		g.t.Fatal(err)
	}
	i := slices.IndexFunc(rows, func(r gateway.AdminHost) bool { return r.HostID == hostID })
	if i < 0 {
		g.t.Fatalf("no row of %s", hostID)
	}
	return rows[i]
}
