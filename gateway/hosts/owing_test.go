package hosts_test

import (
	"testing"
	"testing/synctest"

	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestRH49_ACursorThatWasLostIsToldAgain loses the cursor of a turn's end with its
// link, or with the gateway: the run is idle, and still the host is told, so that it
// does not keep the end for ever. What comes above the cursor is taken in as well.
func TestRH49_ACursorThatWasLostIsToldAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		above int
	}{{"all is durable", 0}, {"something is not", 1}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				g.host.tellsOwing = true
				l := g.connect(g.host)
				g.prompt("run_1")
				g.wake("run_1")
				synctest.Wait()
				checkIdle(t, g, "run_1")
				l.cut()

				g.host.forgetCursor("run_1", c.above)
				l = g.connect(g.host)
				synctest.Wait()
				checkIdle(t, g, "run_1")
				if attached := g.host.attaches("run_1"); attached != 2 {
					t.Errorf("the run was attached %d times", attached)
				}
				l.cut()
			})
		})
	}
}

// TestOwing_OfARunThatIsNotKnownIsLeftAlone is about a run of a control plane.
func TestOwing_OfARunThatIsNotKnownIsLeftAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.tellsOwing = true
		g.host.mu.Lock()
		s := g.host.scope("run_other")
		s.journal = append(s.journal, wire.Envelope{Seq: 1, Event: wire.EventTurnCompleted})
		g.host.mu.Unlock()
		l := g.connect(g.host)
		synctest.Wait()
		if attached := g.host.attaches("run_other"); attached != 0 {
			t.Errorf("the run was attached %d times", attached)
		}
		l.cut()
	})
}

// forgetCursor takes the host back to before its last cursor, and gives it more that
// it has not sent yet.
func (h *relayHost) forgetCursor(run string, more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.scope(run)
	s.cursor = s.seq - 1
	s.journal = append(s.journal, wire.Envelope{
		SchemaVersion: wire.EnvelopeSchemaVersion, Seq: s.seq, Event: wire.EventTurnCompleted, TurnID: "turn",
		SourceEventID: "again", Payload: []byte(`{}`),
	})
	for range more {
		s.emit("late", wire.EventItemDelta)
	}
}

// attaches counts the attaches of a run.
func (h *relayHost) attaches(run string) (n int) {
	for _, what := range h.commands() {
		if what == "attach "+run {
			n++
		}
	}
	return n
}

// TestSQ41_OwingOpensNoRunOfAnotherHost: a host that names one is told nothing of it,
// and its prompt does not count as sent.
func TestSQ41_OwingOpensNoRunOfAnotherHost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		g.host.tellsOwing = true
		g.host.mu.Lock()
		s := g.host.scope("run_2")
		s.journal = append(s.journal, wire.Envelope{Seq: 1, Event: wire.EventTurnCompleted})
		g.host.mu.Unlock()
		g.registry.Register(hosts.Host{ID: "host_2", TargetRef: "target_2"})
		g.at("run_2", "host_2")
		g.prompt("run_2")
		l := g.connect(g.host)
		if c := g.command("run_2", 1); c.state != "pending" || len(g.host.commands()) != 0 {
			t.Errorf("the command is %s, the host was told %q", c.state, g.host.commands())
		}
		l.cut()
	})
}

// TestRH42_AnEndThatComesOnceMoreIsWaitedFor is about a host that was killed between
// the handing off of a turn's end and its own note of that: it sends the end again
// under another number, once the run is attached.
func TestRH42_AnEndThatComesOnceMoreIsWaitedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, g *rig) {
		l := g.connect(g.host)
		turn := g.prompt("run_1")
		g.wake("run_1")
		synctest.Wait()
		checkIdle(t, g, "run_1")
		l.cut()

		g.host.mu.Lock()
		s := g.host.scope("run_1")
		s.unsettled = 1
		g.host.mu.Unlock()
		l = g.connect(g.host)
		synctest.Wait()
		if _, attachments := g.host.pendingOf("run_1"); attachments != 1 {
			t.Fatalf("%d attachments while an end is to come", attachments)
		}
		g.host.mu.Lock()
		s.emit(turn, "filler", "filler", "filler", "filler", wire.EventTurnCompleted) // the end as it was
		g.host.mu.Unlock()
		synctest.Wait()
		checkTurn(t, g, "run_1", turn)
		checkIdle(t, g, "run_1")
		l.cut()
	})
}

// TestRH49_AGatewayFromABackupEndsWhatItMissed: the host was told, before the gateway
// was restored, that all is durable, and brings nothing back. A turn that is open in the
// backup would wait for ever for an end that came already.
func TestRH49_AGatewayFromABackupEndsWhatItMissed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		open bool // the backup has the turn as running
	}{{"a turn was open", true}, {"the run was idle", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, g *rig) {
				l := g.connect(g.host)
				g.host.manual = c.open
				turn := g.prompt("run_1")
				g.wake("run_1")
				synctest.Wait()
				l.cut()
				g.host.mu.Lock()
				s := g.host.scope("run_1")
				s.emit(turn, wire.EventItemDelta, wire.EventTurnCompleted)
				s.retire(s.seq)
				g.host.manual = false
				g.host.mu.Unlock()

				l = g.connect(g.host)
				synctest.Wait()
				g.ledger.mu.Lock()
				lost := g.ledger.run("run_1").lost[turn]
				g.ledger.mu.Unlock()
				if lost != c.open {
					t.Errorf("the turn was given up: %t", lost)
				}
				next := g.prompt("run_1")
				g.wake("run_1")
				synctest.Wait()
				checkTurn(t, g, "run_1", next)
				checkIdle(t, g, "run_1")
				l.cut()
			})
		})
	}
}
