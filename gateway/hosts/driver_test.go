package hosts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

func body(code wire.Code) *wire.ErrorBody { return wire.NewError(code, "refused").Body() }

// prompts gives the prompts that came to the host, in order.
func prompts(h *relayHost) []string {
	return slices.DeleteFunc(h.commands(), func(s string) bool { return !strings.HasSuffix(s, wire.TypePromptRequest) })
}

func TestDecision7_PromptsWaitForRoomInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		const runs = 8
		var applied []string
		g.host.manual, g.host.room = true, wire.Room{Inflight: 2, Max: 2}
		g.host.busy = func(m wire.CommandMessage) *wire.ErrorBody {
			if g.host.room.Inflight >= g.host.room.Max {
				return body(wire.CodeInferenceBusy)
			}
			g.host.room.Inflight++
			applied = append(applied, m.RunID)
			return nil
		}
		l := g.connect(g.host)
		var want []string
		for i := range runs {
			run := fmt.Sprintf("run_%d", i)
			want = append(want, run)
			g.prompt(run)
			g.wake(run)
			if got := g.last(run).reason; got != "no_room" {
				t.Errorf("%s waits for %q", run, got)
			}
		}
		if got := prompts(g.host); len(got) != 0 {
			t.Fatalf("offered to a host without room: %q", got)
		}
		for range runs {
			g.host.change(func() { g.host.room.Inflight-- })
			synctest.Wait()
			g.host.change(func() {}) // the host says again what room it has
			pass(10 * time.Second)
		}
		if !slices.Equal(applied, want) {
			t.Errorf("served in the order %q", applied)
		}
		if got := g.last("run_0").reason; got != "" {
			t.Errorf("a turn that runs waits for %q", got)
		}
		l.cut()
	})
}

func TestDecision7_TheHostHasTheLastWordOnItsRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.room = wire.Room{Inflight: 1, Max: 1} // and it never says otherwise
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		if got := prompts(g.host); len(got) != 0 {
			t.Errorf("offered %q at once", got)
		}
		pass(time.Minute)
		checkTurn(t, g, "run_1", turn)
		l.cut()
	})
}

func TestRH34_ABusyHostIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []wire.Code{wire.CodeInferenceBusy, wire.CodeTurnActive, wire.CodePersistFailed} {
		t.Run("RH34 "+string(code), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				g.host.busy = func(wire.CommandMessage) *wire.ErrorBody { return body(code) }
				l := g.connect(g.host)
				turn := g.prompt("run_1")
				g.wake("run_1")
				if c := g.command("run_1", 1); c.state != "pending" || g.last("run_1").reason != "no_room" {
					t.Errorf("refused, the command is %+v and waits for %q", c, g.last("run_1").reason)
				}
				pass(10 * time.Second)
				offers := len(prompts(g.host))
				if offers < 4 || offers > 12 {
					t.Errorf("offered %d times in 10 s", offers)
				}
				g.host.busy = nil
				g.host.change(func() { g.host.room.Inflight = 1 })
				synctest.Wait()
				checkTurn(t, g, "run_1", turn)
				l.cut()
			})
		})
	}
}

func TestRefusal_IsFinal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.busy = func(wire.CommandMessage) *wire.ErrorBody { return body(wire.CodeRouteNotActive) }
		l := g.connect(g.host)
		g.prompt("run_1")
		g.wake("run_1")
		pass(time.Minute)
		if c := g.command("run_1", 1); c.state != "failed" || c.code != wire.CodeRouteNotActive || c.acks != 1 {
			t.Errorf("the command is %+v", c)
		}
		checkIdle(t, g, "run_1")
		l.cut()
	})
}

func coolingRoute(until time.Time) []wire.Route {
	return []wire.Route{{
		Model: "m", ModelProvider: "p", ModelProviderID: "p-id", Ready: true, AvailableAt: until.UTC().Format("2006-01-02T15:04:05.000Z"),
	}}
}

func TestRouteCooling_HoldsPromptsBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		until := time.Now().Add(20 * time.Second)
		g.host.routes = coolingRoute(until)
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		if got := g.last("run_1"); got.reason != "route_cooling" || !got.retryAt.Equal(until) {
			t.Errorf("waits for %+v", got)
		}
		pass(19 * time.Second)
		if got := prompts(g.host); len(got) != 0 {
			t.Errorf("offered %q too early", got)
		}
		pass(2 * time.Second)
		checkTurn(t, g, "run_1", turn)
		l.cut()
	})
}

func TestRouteCooling_HoldsNobodyLongerThanAllowed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.routes = coolingRoute(time.Now().Add(time.Hour))
		l := g.connect(g.host)
		g.prompt("run_1")
		g.wake("run_1")
		pass(59 * time.Second)
		if got := prompts(g.host); len(got) != 0 {
			t.Errorf("offered %q too early", got)
		}
		// A later moment does not start the wait anew.
		g.host.change(func() { g.host.routes = coolingRoute(time.Now().Add(2 * time.Hour)) })
		g.wake("run_1")
		pass(2 * time.Second)
		if got := prompts(g.host); len(got) != 1 {
			t.Errorf("offered %q after 61 s", got)
		}
		l.cut()
	})
}

func TestStop_OfAPromptThatWasHeldBack(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*relayHost){
		"by a cooling route":     func(h *relayHost) { h.routes = coolingRoute(time.Now().Add(time.Hour)) },
		"by a host without room": func(h *relayHost) { h.room = wire.Room{Inflight: 1, Max: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				prepare(g.host)
				g.host.manual = true
				l := g.connect(g.host)
				turn := g.prompt("run_1")
				g.wake("run_1")
				g.stop("run_1", turn)
				g.wake("run_1")
				pass(time.Second)
				if got := g.host.commands(); len(prompts(g.host)) != 0 {
					t.Errorf("F20: a turn was started that was stopped before: %q", got)
				}
				checkIdle(t, g, "run_1")
				l.cut()
			})
		})
	}
}

// TestStop_OfAPromptThatMayBeAtTheHost: after a new link nobody knows what the host
// took, also before the open runs are read again.
func TestStop_OfAPromptThatMayBeAtTheHost(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]int{"at once": 0, "before the open runs are known": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				g.host.manual = true
				l := g.connect(g.host)
				turn := g.prompt("run_1")
				g.ledger.fail("Ack", 1)
				g.wake("run_1") // the answer is lost
				l.cut()
				g.ledger.fail("OpenRuns", faults)
				l = g.connect(g.host)
				g.stop("run_1", turn)
				g.wake("run_1")
				pass(10 * time.Second)
				if told := g.host.commands(); told[len(told)-1] != "run_1 2 run.control" {
					t.Errorf("F20: the turn goes on at its host, which was told %q", told)
				}
				l.cut()
			})
		})
	}
}

func TestStop_ThatFailsIsNotRepeatedInAHurry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.manual = true
		g.host.busy = func(m wire.CommandMessage) *wire.ErrorBody {
			if m.Seq == 2 {
				return body(wire.CodeInterruptFailed)
			}
			return nil
		}
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		g.stop("run_1", turn)
		g.wake("run_1")
		pass(10 * time.Second)
		if n := len(g.host.commands()); n < 5 || n > 14 {
			t.Errorf("%d messages in 10 s", n)
		}
		if slices.Contains(g.reasons("run_1"), "no_room") {
			t.Error("a stop was said to wait for room")
		}
		l.cut()
	})
}

func TestAttach_RefusedForNow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		left := 3
		g.host.refuse = func(wire.Attach) error {
			if left--; left >= 0 {
				return wire.NewError(wire.CodePersistFailed, "The disk is full.")
			}
			return nil
		}
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		g.wake("run_1") // a wake does not shorten the wait
		if n := len(g.host.commands()); n != 1 {
			t.Errorf("attached %d times at once", n)
		}
		pass(10 * time.Second)
		checkTurn(t, g, "run_1", turn)
		if len(g.refused) != 0 {
			t.Errorf("the ledger was told of refusals: %v", g.refused)
		}
		l.cut()
	})
}

func TestAttach_RefusedForGood(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.refuse = func(wire.Attach) error { return wire.NewError(wire.CodeOwnerMismatch, "Another account owns it.") }
		g.ledger.fail("Refused", 1)
		l := g.connect(g.host)
		g.prompt("run_1")
		g.wake("run_1")
		pass(time.Minute)
		if got := g.refused["run_1"]; !slices.Equal(got, []wire.Code{wire.CodeOwnerMismatch}) {
			t.Errorf("the ledger was told %v", got)
		}
		if n := len(g.host.commands()); n != 2 {
			t.Errorf("the host was asked %d times", n)
		}
		l.cut()
	})
}

func TestLedgerFaults_LoseNothing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Work", "Ack", "Intake"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				g.ledger.fail(method, 3)
				l := g.connect(g.host)
				turn := g.prompt("run_1")
				g.wake("run_1")
				pass(30 * time.Second)
				checkTurn(t, g, "run_1", turn)
				checkIdle(t, g, "run_1")
				if c := g.command("run_1", 1); c.state != "acked" {
					t.Errorf("the command is %+v", c)
				}
				l.cut()
			})
		})
	}
}

func TestOverflow_IsSentAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.manual = true
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		const deltas = 5000 // more than wait for a ledger that is stuck
		stuck := make(chan struct{})
		g.stuck = stuck
		g.host.mu.Lock()
		events := make([]string, deltas)
		for i := range events {
			events[i] = wire.EventItemDelta
		}
		g.host.scope("run_1").emit(turn, append(events, wire.EventTurnCompleted)...)
		g.host.mu.Unlock()
		pass(time.Second)
		g.host.mu.Lock()
		attaches := len(g.host.log)
		g.host.mu.Unlock()
		close(stuck)
		pass(time.Minute)
		if again := g.host.commands()[attaches:]; len(again) == 0 || again[0] != "attach run_1" {
			t.Errorf("nothing overflowed: the host was told %q", again)
		}
		var want []byte
		for i := range deltas {
			want = fmt.Appendf(want, "%d ", i)
		}
		if got := g.snapshot("run_1"); got.text[turn] != string(want) || got.ended[turn] != 1 {
			t.Errorf("%d bytes of %d arrived, %d ends", len(got.text[turn]), len(want), got.ended[turn])
		}
		checkIdle(t, g, "run_1")
		l.cut()
	})
}

// TestRH49_NothingIsTakenInAfterAGap: what waits behind envelopes that the ledger
// could not take is dropped with them, so that the cursor passes over none.
func TestRH49_NothingIsTakenInAfterAGap(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		h := g.dial("host_1")
		turn := g.prompt("run_1")
		g.wake("run_1")
		h.take("run_1")
		stuck := make(chan struct{})
		g.mu.Lock()
		g.stuck, g.faults["Intake"] = stuck, 1
		g.mu.Unlock()
		h.say("run_1", turn, 1, wire.EventItemDelta) // the ledger is at it, and will fail
		h.say("run_1", turn, 2, wire.EventItemDelta)
		close(stuck)
		if a, ok := h.next().(wire.Attach); !ok || a.Cursor != 0 {
			t.Errorf("attached again at %+v", a)
		}
		if got := g.snapshot("run_1").taken; len(got) != 0 {
			t.Errorf("taken in %v", got)
		}
		_ = h.conn.Close(link.Ending{})
		h.ends.Wait()
	})
}
