package hosts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// running links the host and starts a turn that stays open.
func (g *rig) running() (l *linked, turn string) {
	g.host.manual = true
	l = g.connect(g.host)
	turn = g.prompt("run_1")
	g.wake("run_1")
	return l, turn
}

func TestSQ28_SteersReachTheTurnOneAfterTheOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l, turn := g.running()
		first, second := g.steer("run_1", "shorter"), g.steer("run_1", "in French")
		g.wake("run_1")
		if got := g.host.offers("run_1"); len(got) != 1 || got[0] != (wire.Steer{RunID: "run_1", TurnID: turn, DeliveryID: first, Text: "shorter"}) {
			t.Fatalf("offered %+v", got)
		}
		g.host.settle("run_1", turn, first, wire.ReceiptDelivered)
		pass(0)
		if got := g.host.offers("run_1"); len(got) != 2 || got[1].DeliveryID != second {
			t.Fatalf("SQ28: after the receipt the host was offered %+v", got)
		}
		g.host.settle("run_1", turn, second, wire.ReceiptRejected)
		pass(0)
		for delivery, want := range map[string]wire.ReceiptOutcome{first: wire.ReceiptDelivered, second: wire.ReceiptRejected} {
			if s := g.steerState("run_1", delivery); s.outcome != want || s.receipts != 1 {
				t.Errorf("%s is %+v", s.text, s)
			}
		}
		l.cut()
	})
}

func TestSteer_WaitsForThePromptBeforeIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.steer("run_1", "early")
		l, _ := g.running() // no wake after the turn has begun
		if got := g.host.offers("run_1"); len(got) != 1 {
			t.Errorf("offered %+v", got)
		}
		l.cut()
	})
}

func TestSteer_IsNotRepeatedInOneAttachment(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l, turn := g.running()
		delivery := g.steer("run_1", "shorter")
		for range 5 {
			g.wake("run_1")
		}
		if got := g.host.offers("run_1"); len(got) != 1 {
			t.Errorf("offered %d times", len(got))
		}
		g.hurry("run_1", delivery)
		g.wake("run_1")
		if got := g.host.offers("run_1"); len(got) != 2 || !got[1].Now {
			t.Errorf("hurried, the host was offered %+v", got)
		}
		polls := g.polls()
		pass(10 * time.Minute)
		if g.polls() != polls {
			t.Errorf("%d polls in ten minutes in which nothing happened", g.polls()-polls)
		}
		g.host.settle("run_1", turn, delivery, wire.ReceiptDelivered)
		pass(0)
		// Both offers are answered; the second receipt changes nothing.
		if s := g.steerState("run_1", delivery); s.outcome != wire.ReceiptDelivered || s.receipts != 2 {
			t.Errorf("the steer is %+v", s)
		}
		l.cut()
	})
}

func TestSQ26_AfterALostLinkTheSameSteerIsOfferedAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(g *rig, turn, delivery string){
		"before the host took it": func(*rig, string, string) {},
		"F24 with its receipt": func(g *rig, turn, delivery string) {
			g.ledger.fail("Receipt", 1)
			g.host.settle("run_1", turn, delivery, wire.ReceiptDelivered)
		},
	} {
		t.Run("SQ26 "+name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				l, turn := g.running()
				delivery := g.steer("run_1", "shorter")
				g.wake("run_1")
				lose(g, turn, delivery)
				l.cut()
				l = g.connect(g.host)
				pass(10 * time.Second)
				if got := g.host.offers("run_1"); len(got) != 2 || got[0] != got[1] {
					t.Fatalf("offered %+v", got)
				}
				g.host.settle("run_1", turn, delivery, wire.ReceiptDelivered)
				pass(0)
				if s := g.steerState("run_1", delivery); s.outcome != wire.ReceiptDelivered {
					t.Errorf("the steer is %+v", s)
				}
				l.cut()
			})
		})
	}
}

func TestSteer_FaultsOfTheLedgerAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Poll", "Receipt"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				l, turn := g.running()
				delivery := g.steer("run_1", "shorter")
				g.ledger.fail(method, 5)
				polls := g.polls()
				g.wake("run_1")
				g.host.settle("run_1", turn, delivery, wire.ReceiptDelivered)
				pass(time.Minute)
				if s := g.steerState("run_1", delivery); s.outcome != wire.ReceiptDelivered || s.receipts != 1 {
					t.Errorf("the steer is %+v", s)
				}
				if n := g.polls() - polls; n > 8 {
					t.Errorf("%d polls", n)
				}
				if got := g.host.offers("run_1"); len(got) != 1 {
					t.Errorf("offered %d times", len(got))
				}
				l.cut()
			})
		})
	}
}

// TestF24_AReceiptOutlivesTheRunsWork: the turn ends while the ledger cannot record
// what became of the steer.
func TestF24_AReceiptOutlivesTheRunsWork(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l, turn := g.running()
		delivery := g.steer("run_1", "shorter")
		g.wake("run_1")
		g.ledger.fail("Receipt", 3)
		g.host.settle("run_1", turn, delivery, wire.ReceiptDelivered)
		pass(0)
		g.host.play("run_1", turn)
		pass(time.Minute)
		if s := g.steerState("run_1", delivery); s.outcome != wire.ReceiptDelivered {
			t.Errorf("the steer is %+v", s)
		}
		checkIdle(t, g, "run_1")
		l.cut()
	})
}

func TestSQ39_AForbiddenReceiptIsDropped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.took = func(m wire.Steer) (wire.Receipt, bool) { // of another turn
			return wire.Receipt{RunID: m.RunID, TurnID: "run_1/turn_9", DeliveryID: m.DeliveryID, Outcome: wire.ReceiptDelivered}, true
		}
		l, turn := g.running()
		delivery := g.steer("run_1", "shorter")
		g.wake("run_1")
		polls := g.polls()
		pass(time.Minute)
		if s := g.steerState("run_1", delivery); s.receipts != 0 || g.polls() != polls {
			t.Errorf("the steer is %+v after %d more polls", s, g.polls()-polls)
		}
		g.host.play("run_1", turn)
		pass(time.Second)
		checkTurn(t, g, "run_1", turn)
		l.cut()
	})
}

// TestSteer_StopsNothing: commands and text pass while a steer waits.
func TestSteer_StopsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l, turn := g.running()
		g.steer("run_1", "shorter")
		g.wake("run_1")
		g.stop("run_1", turn)
		g.wake("run_1")
		if got := g.host.commands(); got[len(got)-1] != "run_1 2 run.control" {
			t.Errorf("the host was told %q", got)
		}
		other := g.prompt("run_2")
		g.wake("run_2")
		g.host.play("run_2", other)
		pass(time.Second)
		checkTurn(t, g, "run_2", other)
		l.cut()
	})
}

func TestSteer_HostsWithoutTheCapabilityAreNotPolledFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.old = true
		l, _ := g.running()
		g.steer("run_1", "shorter")
		g.wake("run_1")
		if g.polls() != 0 || len(g.host.offers("run_1")) != 0 {
			t.Error("a host that takes no steers was offered one")
		}
		l.cut()
	})
}

func TestSteer_ManyRunsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		const runs, each = 12, 5
		g.host.manual, g.host.room = true, wire.Room{Max: runs}
		g.host.took = func(m wire.Steer) (wire.Receipt, bool) {
			return wire.Receipt{RunID: m.RunID, TurnID: m.TurnID, DeliveryID: m.DeliveryID, Outcome: wire.ReceiptDelivered}, true
		}
		l := g.connect(g.host)
		for i := range runs {
			run := fmt.Sprintf("run_%d", i)
			g.prompt(run)
			for n := range each {
				g.steer(run, fmt.Sprintf("steer %d", n))
			}
			g.registry.Wake(run)
		}
		pass(time.Second)
		for i := range runs {
			offers := g.host.offers(fmt.Sprintf("run_%d", i))
			if len(offers) != each {
				t.Fatalf("run %d was offered %d steers", i, len(offers))
			}
			for n, m := range offers {
				if want := fmt.Sprintf("steer %d", n); m.Text != want {
					t.Errorf("run %d: %q in the place of %q", i, m.Text, want)
				}
			}
		}
		l.cut()
	})
}
