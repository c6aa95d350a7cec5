package chat_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// steerMachine drives one thread with steers by every action that people, its
// host and time can take. It is the host's memory of what its turns took, which
// the log must agree with.
type steerMachine struct {
	*rig
	thread string
	n      int
	sent   []sent
	taken  map[string][]wire.Delivered // by turn, as the host names it
	given  []wire.Receipt              // receipts that were told or lost
	away   bool                        // the host was away at some time
}

func (m *steerMachine) send(t *rapid.T) {
	m.n++
	req := gateway.SendRequest{
		ThreadID: m.thread, ClientEventID: id(), UserMessage: text(fmt.Sprintf("m%d", m.n)),
		Mode: rapid.SampledFrom([]gateway.Mode{gateway.ModeSteer, gateway.ModeSteer, gateway.ModeSteer, gateway.ModeQueue, gateway.ModeInterrupt}).Draw(t, "mode"),
	}
	req.Now = req.Mode == gateway.ModeSteer && rapid.Bool().Draw(t, "now")
	reply, err := m.Send(m.ctx, ann, req)
	m.must(err)
	if reply.Disposition == gateway.DispositionSteering && m.rig.thread(m.thread).Turn == nil && m.rig.thread(m.thread).Waiting == 0 {
		t.Fatalf("reply %s in an idle thread", asJSON(t, reply))
	}
	m.sent = append(m.sent, sent{req, reply})
}

func (m *steerMachine) some(t *rapid.T) sent {
	if len(m.sent) == 0 {
		t.Skip("nothing was sent")
	}
	return rapid.SampledFrom(m.sent).Draw(t, "message")
}

func (m *steerMachine) resend(t *rapid.T) {
	one := m.some(t)
	reply, err := m.Send(m.ctx, ann, one.req)
	m.must(err)
	one.reply.Replayed = true
	if asJSON(m, reply) != asJSON(m, one.reply) {
		t.Fatalf("replay gave %s, first was %s", asJSON(m, reply), asJSON(m, one.reply))
	}
}

func (m *steerMachine) steer(t *rapid.T) {
	_, err := m.Steer(m.ctx, ann, gateway.SteerRequest{
		ThreadID: m.thread, EventID: m.some(t).reply.EventID, Now: rapid.Bool().Draw(t, "now"),
	})
	if code := wire.CodeOf(err); code != "" && code != gateway.CodeNotRecallable {
		t.Fatal(err)
	}
}

func (m *steerMachine) takeBack(t *rapid.T) {
	if code := wire.CodeOf(m.recall(m.thread, m.some(t).reply.EventID)); code != "" && code != gateway.CodeNotRecallable {
		t.Fatal(code)
	}
}

func (m *steerMachine) stop(t *rapid.T) {
	turn := m.rig.thread(m.thread).Turn
	if turn == nil {
		t.Skip("nothing runs")
	}
	if code := wire.CodeOf(interrupt(m.rig, m.thread, turn.TurnID)); code != "" && code != gateway.CodeTurnNotActive {
		t.Fatal(code)
	}
}

// ask lets the host ask for a steer. It takes it, unless its turn is over; what it
// says of that may be lost.
func (m *steerMachine) ask(t *rapid.T) {
	for _, run := range m.host.Runs() {
		offer, err := m.Poll(m.ctx, m.host.ID, run)
		m.must(err)
		if offer.Outcome != gateway.OfferReserved {
			continue
		}
		again, err := m.Poll(m.ctx, m.host.ID, run)
		m.must(err)
		if _, turn := m.host.Turn(run); turn.Ended && again.Outcome == gateway.OfferTerminal {
			continue // its end, which was on its way, has come between the two
		}
		if asJSON(m, again) != asJSON(m, offer) {
			t.Fatalf("asked again: %s, was %s", asJSON(m, again), asJSON(m, offer))
		}
		if rapid.Float64().Draw(t, "the offer is lost") < 0.2 {
			continue
		}
		q := m.answer(run, offer.Steer, rapid.Bool().Draw(t, "cut"))
		m.given = append(m.given, q)
		if rapid.Float64().Draw(t, "the receipt is lost") < 0.4 {
			continue
		}
		_, err = m.Receipt(m.ctx, m.host.ID, q)
		m.must(err)
	}
}

// answer is what the host makes of a steer: once it took it, always the same.
func (m *steerMachine) answer(run string, s *wire.Steer, cut bool) wire.Receipt {
	name, turn := m.host.Turn(run)
	q := receiptOf(s, 0)
	for _, d := range m.taken[s.TurnID] {
		if d.DeliveryID == s.DeliveryID {
			q.At, q.Cut = d.At, d.Cut
			return q
		}
	}
	if name != s.TurnID || turn.Ended || turn.Interrupted {
		q.Outcome, q.Reason = wire.ReceiptRejected, wire.ReasonTurnOver
		return q
	}
	q.At, q.Cut = uint64(len(turn.Text)), cut
	m.taken[name] = append(m.taken[name], wire.Delivered{DeliveryID: s.DeliveryID, At: q.At, Cut: cut})
	return q
}

func (m *steerMachine) receiptAgain(t *rapid.T) {
	if len(m.given) == 0 {
		t.Skip("no receipt")
	}
	q := rapid.SampledFrom(m.given).Draw(t, "receipt")
	if q.Outcome == wire.ReceiptDelivered || m.delivery(q.DeliveryID).State.Open() {
		_, err := m.Receipt(m.ctx, m.host.ID, q)
		m.must(err)
	}
}

func (m *steerMachine) finish(t *rapid.T) {
	for _, run := range m.host.Runs() {
		p := rapid.SampledFrom([]wire.CompletedPayload{
			gatewaytest.Completed(), gatewaytest.Failed(wire.CodeModelFailed), gatewaytest.Failed(wire.CodeModelOutputIncomplete),
		}).Draw(t, "end")
		m.endRun(run, p)
	}
}

func (m *steerMachine) endRun(run string, p wire.CompletedPayload) {
	name, _ := m.host.Turn(run)
	p.Outcome.Deliveries = m.taken[name]
	m.host.End(run, p)
}

func (m *steerMachine) eachRun(act func(run string)) func(*rapid.T) {
	return func(*rapid.T) {
		for _, run := range m.host.Runs() {
			act(run)
		}
	}
}

func (m *steerMachine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"send":          m.send,
		"send again":    m.resend,
		"steer":         m.steer,
		"recall":        m.takeBack,
		"interrupt":     m.stop,
		"ask":           m.ask,
		"ask, say":      func(t *rapid.T) { m.ask(t); m.eachRun(func(run string) { m.host.Say(run, "日 more ") })(t) },
		"receipt again": m.receiptAgain,
		"fetch":         func(*rapid.T) { m.must(m.host.Fetch(m.ctx, m.Service)) },
		"answer":        func(*rapid.T) { m.must(m.host.Answer(m.ctx, m.Service)) },
		"accept":        func(*rapid.T) { m.accept() },
		"say":           m.eachRun(func(run string) { m.host.Say(run, "日 text ") }),
		"end":           m.finish,
		"deliver some": func(t *rapid.T) {
			m.must(m.host.Deliver(m.ctx, m.Service, rapid.IntRange(0, 3).Draw(t, "envelopes")))
		},
		"deliver":                  func(*rapid.T) { m.deliver() },
		"send native events again": func(*rapid.T) { m.host.Renumber() },
		"host goes": func(t *rapid.T) {
			m.away = true
			m.eachRun(func(run string) { m.Waiting(m.ctx, run, "host_offline", time.Time{}) })(t)
		},
		"host comes": m.eachRun(func(run string) { m.Waiting(m.ctx, run, "", time.Time{}) }),
		"time passes": func(t *rapid.T) {
			m.tick(time.Duration(rapid.SampledFrom([]int{1, 60, 120, 200, 6900}).Draw(t, "seconds")) * time.Second)
			m.must(m.Sweep(m.ctx))
		},
		"restart": func(t *rapid.T) {
			if rapid.Float64().Draw(t, "really") < 0.3 {
				m.away = true // hosts count as away until they show themselves
				m.respawn()
			}
		},
		"": func(*rapid.T) { m.check() },
	}
}

// fates folds a log: what became of each message, and the turn that is active.
func (m *steerMachine) fates(log []gateway.Event) (fate, newest map[string]string, active string) {
	m.Helper()
	fate, newest = map[string]string{}, map[string]string{}
	origin := map[string]string{}
	settle := func(e gateway.Event, to string) {
		first, known := origin[e.RevokesEventID]
		if !known || fate[first] != "waits" {
			m.Fatalf("%s %s: %s is %q already", e.EventType, e.ID, e.RevokesEventID, fate[first])
		}
		origin[e.ID], newest[first], fate[first] = first, e.ID, to
	}
	for _, e := range log {
		switch e.EventType {
		case gateway.EventInputPrompt:
			switch {
			case e.RevokesEventID == "":
				origin[e.ID], newest[e.ID], fate[e.ID] = e.ID, e.ID, "waits"
			case e.TurnID == "":
				settle(e, "waits")
			case e.Mode == gateway.ModeSteer:
				settle(e, "steered "+e.TurnID)
			default:
				settle(e, "started "+e.TurnID)
				active = e.TurnID
			}
		case gateway.EventControlRevoke:
			if e.TurnID == "" {
				settle(e, "recalled")
			}
		case gateway.EventTurnCompleted, gateway.EventTurnFailed, gateway.EventTurnCancelled, gateway.EventTurnTimeout:
			active = ""
		}
	}
	return fate, newest, active
}

// check compares log and rows: each message is in one place alone.
func (m *steerMachine) check() {
	m.Helper()
	m.must(m.sql.Chat().View(m.ctx, func(tx gateway.ChatTx) error {
		log, _, err := tx.Events(m.ctx, gateway.EventQuery{ThreadID: m.thread, Limit: 10_000, MaxBytes: 1 << 30})
		if err != nil {
			return err
		}
		if err := gatewaytest.CheckLog(log); err != nil {
			m.Fatalf("log: %v\n%s", err, asJSON(m, log))
		}
		th, err := tx.Thread(m.ctx, m.thread)
		if err != nil {
			return err
		}
		fate, newest, active := m.fates(log)
		if (th.Active == nil) != (active == "") || (th.Active != nil && th.Active.TurnID != active) {
			m.Fatalf("active turn %s, the log says %q", asJSON(m, th.Active), active)
		}
		waits := 0
		for first, what := range fate {
			_, err := tx.QueueItem(m.ctx, newest[first])
			if inQueue := err == nil; inQueue != (what == "waits") {
				m.Fatalf("%s %s, in the queue: %t", first, what, inQueue)
			}
			if what == "waits" {
				waits++
			}
			d, err := tx.DeliveryOfEvent(m.ctx, newest[first])
			if err == nil && (what != "waits" || d.ThreadID != m.thread) {
				m.Fatalf("%s %s and is offered: %+v", first, what, d)
			}
			if err == nil && d.TurnID != active && !th.Recovering {
				m.Fatalf("%s is held by turn %s, and the thread is open", first, d.TurnID)
			}
		}
		if waits != th.Waiting {
			m.Fatalf("%d rows wait, the log says %d", th.Waiting, waits)
		}
		return m.checkTurns(tx, log)
	}))
}

// checkTurns compares deliveries with the log and with what the host took.
func (m *steerMachine) checkTurns(tx gateway.ChatTx, log []gateway.Event) error {
	m.Helper()
	steers, turns := map[string]int{}, map[string]bool{}
	for _, e := range log {
		if e.TurnID == "" {
			continue
		}
		turns[e.TurnID] = true
		if e.EventType == gateway.EventInputDeadline || (e.EventType == gateway.EventInputPrompt && e.Mode == gateway.ModeSteer) {
			steers[e.TurnID]++
		}
	}
	for turnID := range turns {
		t, err := tx.Turn(m.ctx, turnID)
		if err != nil {
			return err
		}
		list, err := tx.Deliveries(m.ctx, turnID)
		if err != nil {
			return err
		}
		open := 0
		for _, d := range list {
			took := false
			for _, mine := range m.taken[t.VirtualTurnID] {
				took = took || mine.DeliveryID == d.ID
			}
			switch {
			case d.State.Open():
				open++
			case d.State == gateway.DeliveryDelivered:
				steers[turnID]--
				if !took {
					m.Fatalf("turn %s never took %+v", turnID, d)
				}
			case took && d.State != gateway.DeliveryWaiting && t.Status != gateway.TurnTimeout && !m.away:
				m.Fatalf("turn %s (%s) took %+v", turnID, t.Status, d)
			}
		}
		if open > 1 || steers[turnID] != 0 {
			m.Fatalf("turn %s has %d open deliveries, and %d more steers in the log than rows", turnID, open, steers[turnID])
		}
	}
	return nil
}

// settle lets everything come to its end.
func (m *steerMachine) settle() {
	m.Helper()
	m.until("everything settles", func() bool {
		m.accept()
		for _, run := range m.host.Runs() {
			m.Waiting(m.ctx, run, "", time.Time{})
			m.endRun(run, gatewaytest.Completed())
		}
		m.deliver()
		m.tick(time.Second)
		m.must(m.Sweep(m.ctx))
		th := m.rig.thread(m.thread)
		open, err := m.OpenRuns(m.ctx, m.host.ID)
		m.must(err)
		return th.Waiting == 0 && th.Turn == nil && !th.CancellationRecoveryPending && len(open) == 0
	})
	m.check()
	m.checkTexts()
}

// checkTexts compares the answer of each turn that went well with what its host
// said, and sees that none was started twice.
func (m *steerMachine) checkTexts() {
	m.Helper()
	texts := map[string]*strings.Builder{}
	for _, e := range m.events(m.thread) {
		if e.Content != nil && e.TurnID != "" {
			if texts[e.TurnID] == nil {
				texts[e.TurnID] = &strings.Builder{}
			}
			texts[e.TurnID].WriteString(*e.Content)
		}
		if e.EventType != gateway.EventTurnCompleted {
			continue
		}
		said, found := "", false
		for _, turn := range m.host.Started() {
			if turn.Request.TurnID == m.virtual(e.TurnID) {
				said, found = turn.Text, true
			}
			if turn.Starts != 1 {
				m.Fatalf("%q started %d times", turn.Request.Prompt, turn.Starts)
			}
		}
		shown := ""
		if texts[e.TurnID] != nil {
			shown = texts[e.TurnID].String()
		}
		if !found || said != shown {
			m.Fatalf("turn %s shows %q, its host said %q", e.TurnID, shown, said)
		}
	}
}

func (m *steerMachine) virtual(turnID string) (name string) {
	m.Helper()
	m.must(m.sql.Chat().View(m.ctx, func(tx gateway.ChatTx) error {
		t, err := tx.Turn(m.ctx, turnID)
		name = t.VirtualTurnID
		return err
	}))
	return name
}

func TestF24_EveryOrderOfEventsKeepsEachSteerOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		rapid.Check(t, func(rt *rapid.T) {
			defer r.under(rt)()
			r.host = gatewaytest.NewHost("host-" + id())
			r.routes.Use(r.host.ID, "alpha")
			made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{})
			r.must(err)
			m := &steerMachine{rig: r, thread: made.ThreadID, taken: make(map[string][]wire.Delivered)}
			rt.Repeat(m.actions())
			m.settle()
		})
	})
}
