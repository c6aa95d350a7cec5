package hosts_test

import (
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

// checkTurn tells whether a turn ran once and arrived whole.
func checkTurn(t *testing.T, g *rig, runID, turn string) {
	t.Helper()
	r := g.snapshot(runID)
	if r.text[turn] != wholeTurn || r.ended[turn] != 1 {
		t.Errorf("turn %s arrived as %q and ended %d times", turn, r.text[turn], r.ended[turn])
	}
	g.host.mu.Lock()
	defer g.host.mu.Unlock()
	if n := g.host.scope(runID).started[turn]; n != 1 {
		t.Errorf("turn %s ran %d times", turn, n)
	}
}

func checkIdle(t *testing.T, g *rig, runID string) {
	t.Helper()
	if unacknowledged, attachments := g.host.pendingOf(runID); unacknowledged != 0 || attachments != 0 {
		t.Errorf("%s: %d envelopes not acknowledged, %d attachments open", runID, unacknowledged, attachments)
	}
}

func TestRun_OfOneTurn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		checkTurn(t, g, "run_1", turn)
		checkIdle(t, g, "run_1")
		if got := g.host.commands(); !slices.Equal(got, []string{"attach run_1", "run_1 1 prompt.request"}) {
			t.Errorf("the host was told %q", got)
		}
		second := g.prompt("run_1")
		g.wake("run_1")
		checkTurn(t, g, "run_1", second)
		checkIdle(t, g, "run_1")
		l.cut()
	})
}

func TestLink_DrivesWhatIsOpen(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		turns := map[string]string{}
		for i := range 20 {
			run := fmt.Sprintf("run_%02d", i)
			turns[run] = g.prompt(run)
		}
		g.ledger.fail("OpenRuns", 1)
		l := g.connect(g.host)
		pass(time.Second)
		for run, turn := range turns {
			checkTurn(t, g, run, turn)
			checkIdle(t, g, run)
		}
		l.cut()
	})
}

func TestRH53_LostAcknowledgementIsAskedForAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.manual = true
		first := g.connect(g.host)
		turn := g.prompt("run_1")
		// The host applies the command, and the link is gone before it answers.
		g.host.busy = func(wire.CommandMessage) *wire.ErrorBody {
			_ = first.gatewayConn.Close(link.Ending{})
			return nil
		}
		g.wake("run_1")
		first.cut()
		if c := g.command("run_1", 1); c.state != "sent" || c.acks != 0 {
			t.Fatalf("after the cut the command is %+v", c)
		}
		g.host.busy = nil
		second := g.connect(g.host)
		if c := g.command("run_1", 1); c.state != "acked" || c.acks != 1 {
			t.Errorf("after the reconnect the command is %+v", c)
		}
		g.host.play("run_1", turn)
		synctest.Wait()
		checkTurn(t, g, "run_1", turn)
		checkIdle(t, g, "run_1")
		second.cut()
	})
}

func TestRH49_WhatWasNotDurableComesAgainAndIsPassedOn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.lazy = true
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		if unacknowledged, _ := g.host.pendingOf("run_1"); unacknowledged != 5 {
			t.Errorf("%d envelopes wait for a cursor, want 5: nothing is durable yet", unacknowledged)
		}
		l.cut()
		l = g.connect(g.host)
		g.settle()
		synctest.Wait()
		checkTurn(t, g, "run_1", turn)
		checkIdle(t, g, "run_1")
		want := []uint64{1, 2, 3, 4, 5, 1, 2, 3, 4, 5}
		if got := g.snapshot("run_1").taken; !slices.Equal(got, want) {
			t.Errorf("the ledger was given %v, want %v", got, want)
		}
		l.cut()
	})
}

func TestDetach_WaitsForTheCursor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.lazy = true
		l := g.connect(g.host)
		g.prompt("run_1")
		g.wake("run_1")
		if _, attachments := g.host.pendingOf("run_1"); attachments != 1 {
			t.Errorf("%d attachments while nothing is durable", attachments)
		}
		g.settle()
		synctest.Wait()
		checkIdle(t, g, "run_1")
		l.cut()
	})
}

func TestCommands_GoOneAtATime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.manual = true
		inHost, most := 0, 0
		g.host.busy = func(wire.CommandMessage) *wire.ErrorBody {
			inHost++
			most = max(most, inHost)
			inHost--
			return nil
		}
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		g.stop("run_1", turn)
		g.stop("run_1", turn)
		g.wake("run_1")
		want := []string{"attach run_1", "run_1 1 prompt.request", "run_1 2 run.control", "run_1 3 run.control"}
		if got := g.host.commands(); !slices.Equal(got, want) || most != 1 {
			t.Errorf("the host was told %q, %d at once", got, most)
		}
		l.cut()
	})
}

func TestDecision8_WorkOfAnAbsentHostIsNotAskedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		turn := g.prompt("run_1")
		g.wake("run_1")
		if g.asked != 0 || g.last("run_1").reason != "host_offline" {
			t.Errorf("asked %d times, said %q", g.asked, g.last("run_1").reason)
		}
		l := g.connect(g.host)
		checkTurn(t, g, "run_1", turn)
		if g.last("run_1").reason != "" {
			t.Errorf("after the link: %q", g.last("run_1").reason)
		}
		l.cut()
	})
}

func TestSQ37_OpenRunsAreToldThatTheirHostIsAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.manual = true
		g.prompt("run_before")
		g.registry.Register(hosts.Host{ID: "host_2"})
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		g.prompt("run_2")
		g.wake("run_2")
		pass(40 * time.Second)
		heard := time.Now()
		l.cut()
		synctest.Wait()
		for _, run := range []string{"run_1", "run_2", "run_before"} {
			got := g.last(run)
			if got.reason != "host_offline" || heard.Sub(got.retryAt) > link.HeartbeatEvery || got.retryAt.IsZero() {
				t.Errorf("%s: %q, heard %s before", run, got.reason, heard.Sub(got.retryAt))
			}
		}
		l = g.connect(g.host)
		if got := g.last("run_1").reason; got != "" {
			t.Errorf("after the return: %q", got)
		}
		g.host.play("run_1", turn)
		synctest.Wait()
		checkTurn(t, g, "run_1", turn)
		l.cut()
	})
}

func TestWake_NeverBlocks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l := g.connect(g.host)
		for i := range 50 {
			g.prompt(fmt.Sprintf("run_%d", i))
		}
		g.ledger.mu.Lock() // nothing that asks the ledger gets on
		for range 10 {
			for i := range 50 {
				g.registry.Wake(fmt.Sprintf("run_%d", i))
			}
		}
		g.ledger.mu.Unlock()
		synctest.Wait()
		for i := range 50 {
			run := fmt.Sprintf("run_%d", i)
			checkTurn(t, g, run, run+"/turn_1")
		}
		l.cut()
		g.wake("nobody's run")
	})
}

func TestRH45_AHostCannotLinkAsAnother(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		stranger := g.connect(newRelayHost("host_9"))
		stranger.cut()
		if !errors.Is(stranger.err, hosts.ErrUnknownHost) {
			t.Errorf("an unknown host: %v", stranger.err)
		}
		hostConn, gatewayConn := link.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- link.ServeHost(t.Context(), hostConn, newRelayHost("host_9"), link.HostOptions{}) }()
		var misuse *link.ProtocolError
		if err := g.registry.Serve(t.Context(), "host_1", gatewayConn); !errors.As(err, &misuse) {
			t.Errorf("a host under another's name: %v", err)
		}
		<-ended
	})
}

func TestServe_ANewerLinkSupersedesTheOlder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.manual = true
		older := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		newer := g.connect(g.host)
		older.ends.Wait()
		if !errors.Is(older.err, hosts.ErrSuperseded) {
			t.Errorf("the older link ended with %v", older.err)
		}
		g.host.play("run_1", turn)
		synctest.Wait()
		checkTurn(t, g, "run_1", turn)
		if slices.Contains(g.reasons("run_1"), "host_offline") {
			t.Errorf("said %q in a change of links", g.reasons("run_1"))
		}
		newer.cut()
	})
}

func TestSeveralHosts_EachRunGoesToItsOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		other := newRelayHost("host_2")
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "target_2"})
		l := g.connect(g.host)
		g.mu.Lock()
		g.run("run_2").host = "host_2"
		g.mu.Unlock()
		first, second := g.prompt("run_1"), g.prompt("run_2")
		g.ledger.fail("Work", 1)
		g.wake("run_1")
		g.wake("run_2")
		pass(time.Second)
		checkTurn(t, g, "run_1", first)
		if got := g.last("run_2").reason; got != "host_offline" {
			t.Errorf("a run of the absent host waits for %q", got)
		}
		l2 := g.connect(other)
		if r := g.snapshot("run_2"); r.text[second] != wholeTurn || len(g.host.commands()) != 2 {
			t.Errorf("turn of the second host: %q; the first was told %q", r.text[second], g.host.commands())
		}
		third := g.prompt("run_2")
		g.wake("run_2")
		if r := g.snapshot("run_2"); r.text[third] != wholeTurn {
			t.Errorf("next turn of the second host: %q", r.text[third])
		}
		l.cut()
		l2.cut()
	})
}

func TestCatalogs_AreTold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.routes = []wire.Route{{ModelProvider: "p", ModelProviderID: "p-id", Model: "m", Ready: true}}
		l := g.connect(g.host)
		if !g.catalogs.online["host_1"] || len(g.catalogs.routes["host_1"]) != 1 || len(g.catalogs.caps) != 3 {
			t.Errorf("told %+v", g.catalogs)
		}
		g.host.change(func() { g.host.routes = nil })
		synctest.Wait()
		if len(g.catalogs.routes["host_1"]) != 0 {
			t.Error("not told of the changed catalog")
		}
		l.cut()
		if g.catalogs.online["host_1"] {
			t.Error("not told that the host is away")
		}
	})
}

func TestAdminHosts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		row := func() gateway.AdminHost {
			rows, err := g.registry.AdminHosts(t.Context(), gateway.Actor{})
			if err != nil || len(rows) != 1 {
				t.Fatalf("%+v, %v", rows, err)
			}
			return rows[0]
		}
		if r := row(); r.State != gateway.HostOffline || r.Name != "host_1" || !r.Embedded || r.TargetRef != "target_1" {
			t.Errorf("before the first link: %+v", r)
		}
		g.host.manual, g.host.room = true, wire.Room{Inflight: 1, Max: 4}
		start := time.Now()
		l := g.connect(g.host)
		g.prompt("run_1")
		g.wake("run_1")
		pass(time.Minute)
		if r := row(); r.State != gateway.HostOnline || r.Name != "Host host_1" || r.Version != "1.0.0" || r.Inflight != 1 ||
			r.Max != 4 || r.OpenRuns != 1 || !r.Since.Equal(start) || time.Since(r.SeenAt) > link.HeartbeatEvery {
			t.Errorf("while linked: %+v", r)
		}
		l.cut()
		if r := row(); r.State != gateway.HostOffline || r.Version != "1.0.0" {
			t.Errorf("just after the cut: %+v", r)
		}
		pass(link.MaxSilence)
		if r := row(); r.State != gateway.HostLost {
			t.Errorf("90 s after the cut: %+v", r)
		}
		l = g.connect(g.host)
		l.stopHost()
		l.ends.Wait()
		pass(link.MaxSilence)
		if r := row(); r.State != gateway.HostOffline {
			t.Errorf("after it left in good order: %+v", r)
		}
	})
}

func TestClose_EndsEveryLink(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.manual = true
		l := g.connect(g.host)
		g.prompt("run_1")
		g.wake("run_1")
		g.registry.Close()
		l.ends.Wait()
		if !errors.Is(l.err, hosts.ErrClosed) {
			t.Errorf("the link ended with %v", l.err)
		}
		late := g.connect(g.host)
		late.cut()
		if !errors.Is(late.err, hosts.ErrClosed) {
			t.Errorf("a late link ended with %v", late.err)
		}
		g.wake("run_1")
	})
}
