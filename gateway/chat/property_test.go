package chat_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// sent is a message as its client remembers it.
type sent struct {
	req   gateway.SendRequest
	reply gateway.SendReply
}

// machine drives one thread by every action that people, hosts and time can
// take, in any order, and checks the log and the rows after each.
type machine struct {
	*rig
	thread string
	sent   []sent
	n      int
}

func (m *machine) send(t *rapid.T) {
	m.n++
	req := gateway.SendRequest{
		ThreadID: m.thread, ClientEventID: id(), UserMessage: text(fmt.Sprintf("m%d", m.n)),
		Mode:  rapid.SampledFrom([]gateway.Mode{gateway.ModeAuto, gateway.ModeQueue, gateway.ModeInterrupt}).Draw(t, "mode"),
		Model: rapid.SampledFrom([]string{"", "alpha", "beta"}).Draw(t, "model"),
	}
	if len(m.sent) > 0 && rapid.Float64().Draw(t, "replace") < 0.15 {
		req.RevokesEventID = rapid.SampledFrom(m.sent).Draw(t, "replaced").reply.EventID
	}
	reply, err := m.Send(m.ctx, ann, req)
	if code := wire.CodeOf(err); code == gateway.CodeNotRecallable && req.RevokesEventID != "" {
		return
	}
	m.must(err)
	m.sent = append(m.sent, sent{req, reply})
}

func (m *machine) resend(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing was sent")
	}
	one := rapid.SampledFrom(m.sent).Draw(t, "message")
	reply, err := m.Send(m.ctx, ann, one.req)
	m.must(err)
	want := one.reply
	want.Replayed = true
	if asJSON(m, reply) != asJSON(m, want) {
		t.Fatalf("replay gave %s, first was %s", asJSON(m, reply), asJSON(m, want))
	}
}

func (m *machine) recall(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("nothing was sent")
	}
	event := rapid.SampledFrom(m.sent).Draw(t, "message").reply.EventID
	_, err := m.Recall(m.ctx, ann, gateway.RecallRequest{ThreadID: m.thread, RevokesEventID: event, ClientEventID: id()})
	if code := wire.CodeOf(err); code != "" && code != gateway.CodeNotRecallable {
		t.Fatal(err)
	}
}

func (m *machine) interrupt(t *rapid.T) {
	active := m.Service
	th, err := active.Open(m.ctx, ann, gateway.OpenRequest{ThreadID: m.thread})
	m.must(err)
	if th.Thread.Turn == nil {
		t.Skip("nothing runs")
	}
	_, err = m.Interrupt(m.ctx, ann, gateway.InterruptRequest{ThreadID: m.thread, TurnID: th.Thread.Turn.TurnID, ClientEventID: id()})
	if code := wire.CodeOf(err); code != "" && code != gateway.CodeTurnNotActive {
		t.Fatal(err)
	}
}

func (m *machine) hostDoes(act func(run string)) func(*rapid.T) {
	return func(*rapid.T) {
		for _, run := range m.host.Runs() {
			act(run)
		}
	}
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"send":       m.send,
		"send again": m.resend,
		"recall":     m.recall,
		"interrupt":  m.interrupt,
		"fetch":      func(*rapid.T) { m.must(m.host.Fetch(m.ctx, m.Service)) },
		"answer":     func(*rapid.T) { m.must(m.host.Answer(m.ctx, m.Service)) },
		"lose answers": func(*rapid.T) {
			m.host.LoseAnswers()
		},
		"say": m.hostDoes(func(run string) { m.host.Say(run, "日 text ") }),
		"end": func(t *rapid.T) {
			p := rapid.SampledFrom([]wire.CompletedPayload{
				gatewaytest.Completed(), gatewaytest.Failed(wire.CodeModelFailed), gatewaytest.Failed(wire.CodeModelOutputIncomplete),
			}).Draw(t, "end")
			m.hostDoes(func(run string) { m.host.End(run, p) })(t)
		},
		"deliver some": func(t *rapid.T) {
			m.must(m.host.Deliver(m.ctx, m.Service, rapid.IntRange(0, 3).Draw(t, "envelopes")))
		},
		"deliver": func(*rapid.T) { m.deliver() },
		"send native events again": func(*rapid.T) {
			m.host.Renumber()
		},
		"host goes":  m.hostDoes(func(run string) { m.Waiting(m.ctx, run, "host_offline", time.Time{}) }),
		"host comes": m.hostDoes(func(run string) { m.Waiting(m.ctx, run, "", time.Time{}) }),
		"time passes": func(t *rapid.T) {
			m.tick(time.Duration(rapid.SampledFrom([]int{1, 60, 120, 200, 700}).Draw(t, "seconds")) * time.Second)
			m.must(m.Sweep(m.ctx))
		},
		"restart": func(t *rapid.T) {
			if rapid.Float64().Draw(t, "really") < 0.3 {
				m.restart()
			}
		},
		"limits change": func(t *rapid.T) {
			m.limit(gateway.Limits{ConcurrentTurns: rapid.IntRange(0, 2).Draw(t, "turns of the org")}, gateway.Limits{})
			m.must(m.Promote(m.ctx, ann.OrgID))
		},
		"another thread is busy": func(t *rapid.T) {
			if rapid.Float64().Draw(t, "really") < 0.3 {
				m.say("", "elsewhere")
			}
		},
		"the plan changes": func(t *rapid.T) {
			status := rapid.SampledFrom([]gateway.EntitlementStatus{
				gateway.EntitlementActive, gateway.EntitlementActive, gateway.EntitlementSuspended,
			}).Draw(t, "plan")
			m.entitle(status, nil)
		},
		"": func(*rapid.T) { m.check() },
	}
}

// check compares the log with the rows.
func (m *machine) check() {
	m.Helper()
	m.must(m.sql.Chat().View(m.ctx, func(tx gateway.ChatTx) error {
		events, _, err := tx.Events(m.ctx, gateway.EventQuery{ThreadID: m.thread, Limit: 10_000, MaxBytes: 1 << 30})
		if err != nil {
			return err
		}
		if err := gatewaytest.CheckLog(events); err != nil {
			m.Fatalf("log: %v\n%s", err, asJSON(m, events))
		}
		waiting := gatewaytest.Waiting(events)
		th, err := tx.Thread(m.ctx, m.thread)
		if err != nil {
			return err
		}
		if th.Waiting != len(waiting) {
			m.Fatalf("%d rows wait, the log says %d", th.Waiting, len(waiting))
		}
		for event := range waiting {
			if _, err := tx.QueueItem(m.ctx, event); err != nil {
				m.Fatalf("%s waits in the log alone: %v", event, err)
			}
		}
		active := ""
		for _, e := range events {
			switch {
			case e.EventType == gateway.EventInputPrompt && e.TurnID != "":
				active = e.TurnID
			case e.EventType == gateway.EventTurnCompleted, e.EventType == gateway.EventTurnFailed,
				e.EventType == gateway.EventTurnCancelled, e.EventType == gateway.EventTurnTimeout:
				active = ""
			}
		}
		if (th.Active == nil) != (active == "") || (th.Active != nil && th.Active.TurnID != active) {
			m.Fatalf("active turn %s, the log says %q", asJSON(m, th.Active), active)
		}
		return nil
	}))
}

// settle lets everything come to its end.
func (m *machine) settle() {
	m.Helper()
	m.entitle(gateway.EntitlementActive, nil)
	m.until("everything settles", func() bool {
		m.accept()
		for _, run := range m.host.Runs() {
			m.host.End(run, gatewaytest.Completed())
		}
		m.deliver()
		m.tick(time.Second)
		m.must(m.Sweep(m.ctx))
		th := m.thread0()
		open, err := m.OpenRuns(m.ctx, m.host.ID)
		m.must(err)
		return th.Waiting == 0 && th.Turn == nil && len(m.orgQueue()) == 0 && !th.CancellationRecoveryPending && len(open) == 0
	})
	m.check()
	for _, turn := range m.host.Started() {
		if turn.Starts != 1 {
			m.Fatalf("%q started %d times", turn.Request.Prompt, turn.Starts)
		}
	}
}

func (m *machine) thread0() gateway.Thread { return m.rig.thread(m.thread) }

func TestF23_EveryOrderOfEventsKeepsTheLogWhole(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		rapid.Check(t, func(rt *rapid.T) {
			defer r.under(rt)()
			r.limit(gateway.Limits{}, gateway.Limits{})
			r.host = gatewaytest.NewHost("host-" + id())
			r.routes.Use(r.host.ID, "alpha", "beta")
			made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{})
			r.must(err)
			m := &machine{rig: r, thread: made.ThreadID}
			rt.Repeat(m.actions())
			m.settle()
		})
	})
}
