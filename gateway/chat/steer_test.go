package chat_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestSQ24_APollWithNothingToOfferWaitsForNobody(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID := r.streaming("hello", "x")
		run := r.runOf(turnID)
		r.say(th, "waits for its own turn")
		r.hold(th)
		r.wantPoll(run, gateway.OfferEmpty, "")
		if n := r.waiters(); n != 0 {
			t.Fatalf("%d wait for a lock", n)
		}
	})
}

func TestSteer_OfferedAndTaken(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID := r.streaming("hello", "One. ")
		run := r.runOf(turnID)
		a := wantDisposition(t, r.asSteer(th, "A"), gateway.DispositionSteering)
		r.tick(1)
		b := gateway.SendRequest{ThreadID: th, ClientEventID: id(), Mode: gateway.ModeSteer, UserMessage: gateway.UserMessage{
			Version: 1, Parts: []gateway.Part{{Type: "text", Text: "first block"}, {Type: "text", Text: "second block"}},
		}}
		sentB, err := r.Send(r.ctx, ann, b)
		r.must(err)
		wantDisposition(t, sentB, gateway.DispositionSteering)

		var offers [2]gateway.SteerOffer
		free := r.hold(th)
		var polls sync.WaitGroup
		for i := range offers {
			polls.Go(func() { offers[i] = r.poll(run) })
		}
		r.place.AwaitWaiters(t, 1)
		free()
		polls.Wait()
		t.Run("SQ25 polls at once get the same delivery", func(t *testing.T) {
			if asJSON(t, offers[0]) != asJSON(t, offers[1]) || offers[0].Outcome != gateway.OfferReserved {
				t.Fatalf("offers %s", asJSON(t, offers))
			}
			if s := offers[0].Steer; s.Text != "A" || s.TurnID != hostName(r, run) || offers[0].EventIDs[0] != a.EventID || s.DeliveryID != offers[0].DeliveryID {
				t.Fatalf("offer %s", asJSON(t, offers[0]))
			}
		})
		t.Run("SQ26 a poll before the receipt gives it again", func(t *testing.T) {
			if got := r.poll(run); asJSON(t, got) != asJSON(t, offers[0]) {
				t.Fatalf("offer %s", asJSON(t, got))
			}
		})
		first := offers[0].Steer
		t.Run("SQ27 receipts at once and later settle it once", func(t *testing.T) {
			woken := r.wakes.of(run)
			free := r.hold(th)
			var answers [2]wire.ReceiptOutcome
			var receipts sync.WaitGroup
			for i := range answers {
				receipts.Go(func() {
					var err error
					if answers[i], err = r.Receipt(r.ctx, r.host.ID, receiptOf(first, 5)); err != nil {
						t.Error(err)
					}
				})
			}
			r.place.AwaitWaiters(t, 1)
			free()
			receipts.Wait()
			r.took(first, 5, wire.ReceiptDelivered)
			if answers != [2]wire.ReceiptOutcome{wire.ReceiptDelivered, wire.ReceiptDelivered} {
				t.Fatalf("answers %v", answers)
			}
			if n := r.pushesOf(th, r.events(th)[5]); n != 1 {
				t.Fatalf("%d pushes", n)
			}
			if n := r.wakes.of(run) - woken; n != 1 {
				t.Fatalf("the host was woken %d times for B", n)
			}
		})
		r.host.Say(run, "Two. ")
		r.deliver()
		second := r.poll(run)
		t.Run("SQ28 the next one is B, its parts a blank line apart", func(t *testing.T) {
			if s := second.Steer; s == nil || s.Text != "first block\n\nsecond block" || s.DeliveryID == first.DeliveryID || second.EventIDs[0] != sentB.EventID {
				t.Fatalf("offer %s", asJSON(t, second))
			}
		})
		r.took(second.Steer, 10, wire.ReceiptDelivered)
		t.Run("SQ29 then nothing is left, and each has one replacement", func(t *testing.T) {
			r.wantPoll(run, gateway.OfferEmpty, "")
			r.wantLog(th, "input:hello start:hello input:A input:first block output.message:One.  steer:A output.message:Two.  steer:first block")
			log := r.events(th)
			for i, want := range map[int]string{5: a.EventID, 7: sentB.EventID} {
				if e := log[i]; e.RevokesEventID != want || e.TurnID != turnID || e.Content != nil {
					t.Fatalf("replacement %s, want it to revoke %s", asJSON(t, e), want)
				}
			}
			if th := r.thread(th); th.Waiting != 0 || th.Turn.TurnID != turnID {
				t.Fatalf("thread %s", asJSON(t, th))
			}
		})
		r.host.Say(run, "Three.")
		r.over(turnID)
		r.wantLog(th, "input:hello start:hello input:A input:first block output.message:One.  steer:A output.message:Two.  steer:first block output.message:Three. turn.completed")
	})
}

func TestSQ40_WhatAPollSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "hello")
	run, turnID := r.runOf(*reply.TurnID), *reply.TurnID
	th := reply.ThreadID
	r.asSteer(th, "early")
	r.wantPoll(run, gateway.OfferRejected, "run_not_running")
	r.accept()
	r.deliver()
	steer := r.reserve(run, "early")
	r.took(steer.Steer, 0, wire.ReceiptDelivered)
	r.wantPoll(run, gateway.OfferEmpty, "")
	r.asSteer(th, "late")
	open := r.reserve(run, "late")
	r.must(interrupt(r, th, turnID))
	held := r.wantPoll(run, gateway.OfferHeld, "")
	if held.DeliveryID != open.DeliveryID || len(held.EventIDs) != 1 || held.EventIDs[0] != open.EventIDs[0] || held.Steer != nil {
		t.Fatalf("held %s", asJSON(t, held))
	}
	r.took(open.Steer, 0, wire.ReceiptDelivered)
	r.wantPoll(run, gateway.OfferTerminal, "")
}

func interrupt(r *rig, threadID, turnID string) error {
	_, err := r.Interrupt(r.ctx, ann, gateway.InterruptRequest{ThreadID: threadID, TurnID: turnID, ClientEventID: id()})
	return err
}

func TestSQ41_OnlyTheHostOfARunMayAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "x")
	run := r.runOf(turnID)
	r.asSteer(th, "A")
	steer := r.reserve(run, "A").Steer
	other, otherTurn := r.streaming("another thread", "y")
	otherRun := r.runOf(otherTurn)
	r.asSteer(other, "B")
	foreign := r.reserve(otherRun, "B").Steer

	for _, c := range []struct{ name, host, run string }{
		{"another host", "host-2", run}, {"an unknown run", r.host.ID, id()}, {"no run", r.host.ID, ""},
	} {
		_, err := r.Poll(r.ctx, c.host, c.run)
		wantCode(t, err, wire.CodeForbidden)
	}
	for _, c := range []struct {
		name   string
		host   string
		change func(*wire.Receipt)
	}{
		{"another host", "host-2", func(*wire.Receipt) {}},
		{"an unknown delivery", r.host.ID, func(q *wire.Receipt) { q.DeliveryID = id() }},
		{"an unknown run", r.host.ID, func(q *wire.Receipt) { q.RunID = id() }},
		{"another turn's delivery", r.host.ID, func(q *wire.Receipt) { q.DeliveryID = foreign.DeliveryID }},
		{"another run's", r.host.ID, func(q *wire.Receipt) { q.RunID = otherRun }},
		{"another turn", r.host.ID, func(q *wire.Receipt) { q.TurnID = foreign.TurnID }},
	} {
		t.Run("SQ41 "+c.name, func(t *testing.T) {
			q := receiptOf(steer, 0)
			c.change(&q)
			_, err := r.Receipt(r.ctx, c.host, q)
			wantCode(t, err, wire.CodeForbidden)
		})
	}
	r.took(steer, 1, wire.ReceiptDelivered)
}

// sized is a text whose envelope has exactly n bytes.
func sized(n int) string {
	const raw = "<>&\u2028\u2029日\"\\\n"
	text := raw + strings.Repeat("x", n)
	return text[:len(text)-(wire.SteerSize(id(), text)-n)]
}

func TestSQ42_TheLimitCountsBytesOfTheEnvelope(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "x")
	run := r.runOf(turnID)
	fits, large := sized(wire.MaxSteerBytes), sized(wire.MaxSteerBytes+1)
	envelope, err := json.Marshal(map[string]string{"type": "active-input", "deliveryId": id(), "text": "plain"})
	r.must(err)
	if n := wire.SteerSize(id(), "plain"); n != len(envelope) {
		t.Fatalf("size %d of %s", n, envelope)
	}
	wantDisposition(t, r.asSteer(th, fits), gateway.DispositionSteering)
	r.took(r.reserve(run, fits).Steer, 1, wire.ReceiptDelivered)

	over := wantDisposition(t, r.asSteer(th, large), gateway.DispositionQueued)
	behind := wantDisposition(t, r.asSteer(th, "behind it"), gateway.DispositionSteering)
	r.wantPoll(run, gateway.OfferRejected, "payload_too_large")
	last := r.eventsOf(th, gateway.EventInputPrompt)
	if e := last[len(last)-2]; e.Reason != "payload_too_large" || e.Mode != gateway.ModeSteer || e.ID != over.EventID {
		t.Fatalf("event %s", asJSON(t, e.Reason))
	}
	again, err := r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: th, EventID: over.EventID})
	r.must(err)
	wantDisposition(t, again, gateway.DispositionQueued)
	r.must(r.recall(th, over.EventID))
	if got := r.reserve(run, "behind it"); got.EventIDs[0] != behind.EventID {
		t.Fatalf("offer %s", asJSON(t, got))
	}
}

func TestSQ33_SteersAndWarningsGoByTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "x")
	run := r.runOf(turnID)
	r.tick(115*minute - 1)
	a := r.asSteer(th, "A")
	r.tick(1)
	r.wantDeadlines(1, 1)
	r.tick(1)
	b := wantDisposition(t, r.asSteer(th, "B"), gateway.DispositionSteering)
	if b.TurnID != nil {
		t.Fatalf("reply %s", asJSON(t, b))
	}
	open := r.reserve(run, "A")
	if open.EventIDs[0] != a.EventID {
		t.Fatalf("offer %s", asJSON(t, open))
	}

	t.Run("SQ34 a turn that ends without it", func(t *testing.T) {
		r.over(turnID)
		r.took(open.Steer, 1, wire.ReceiptRejected) // (a)
		revokes := r.eventsOf(th, gateway.EventControlRevoke)
		if len(revokes) != 1 || revokes[0].TurnID != turnID || revokes[0].RevokesEventID == a.EventID || revokes[0].RevokesEventID == "" { // (b)
			t.Fatalf("revokes %s", asJSON(t, revokes))
		}
		next := r.wantTurn(th, "A") // (c)
		r.wantLog(th, "input:hello start:hello input:A input:B output.message:x turn.completed control.revoke input:A?turn_ended input:B?turn_ended start:A")
		for _, e := range r.events(th)[7:9] {
			if e.Mode != gateway.ModeQueue || e.Rank != -1 || e.OriginID == "" || e.RevokesEventID != e.OriginID {
				t.Fatalf("note %s", asJSON(t, e))
			}
		}
		r.accept()
		if turn := r.turn(next); turn.Status != gateway.TurnRunning {
			t.Fatalf("turn %s", asJSON(t, turn))
		}
		r.wantPoll(run, gateway.OfferEmpty, "") // (d)
		r.must(r.recall(th, b.EventID))         // (e)
	})
}

func TestSteer_ChangesAWaitingMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "x")
	run := r.runOf(turnID)
	first := r.say(th, "first")
	second := r.say(th, "second")
	steer := func(event string, now bool) gateway.SendReply {
		t.Helper()
		reply, err := r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: th, EventID: event, Now: now})
		r.must(err)
		return reply
	}
	changed := wantDisposition(t, steer(second.EventID, false), gateway.DispositionSteering)
	if changed.EventID == second.EventID || changed.TurnID != nil {
		t.Fatalf("reply %s", asJSON(t, changed))
	}
	log := r.events(th)
	if e := log[len(log)-1]; e.ID != changed.EventID || e.RevokesEventID != second.EventID || e.OriginID != second.EventID || e.Mode != gateway.ModeSteer || e.Rank != 0 {
		t.Fatalf("event %s", asJSON(t, e))
	}
	t.Run("again by any id of its chain changes nothing", func(t *testing.T) {
		for _, event := range []string{second.EventID, changed.EventID} {
			if again := steer(event, false); asJSON(t, again) != asJSON(t, changed) {
				t.Fatalf("reply %s", asJSON(t, again))
			}
		}
		if n := len(r.events(th)); n != len(log) {
			t.Fatalf("%d events, want %d", n, len(log))
		}
	})
	offer := r.reserve(run, "second")
	t.Run("an offered one cannot be taken back", func(t *testing.T) {
		wantCode(t, r.recall(th, second.EventID), gateway.CodeNotRecallable)
		_, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: th, ClientEventID: id(), UserMessage: text("instead"), RevokesEventID: second.EventID})
		wantCode(t, err, gateway.CodeNotRecallable)
	})
	t.Run("now hastens an offered one", func(t *testing.T) {
		woken := r.wakes.of(run)
		wantDisposition(t, steer(second.EventID, true), gateway.DispositionSteering)
		again := r.reserve(run, "second")
		if again.DeliveryID != offer.DeliveryID || !again.Steer.Now || offer.Steer.Now || r.wakes.of(run) == woken {
			t.Fatalf("offer %s", asJSON(t, again))
		}
	})
	r.took(offer.Steer, 1, wire.ReceiptDelivered)
	taken := wantDisposition(t, steer(second.EventID, false), gateway.DispositionSteering)
	if taken.TurnID == nil || *taken.TurnID != turnID {
		t.Fatalf("reply %s", asJSON(t, taken))
	}
	r.must(r.recall(th, first.EventID))
	_, err := r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: th, EventID: first.EventID})
	wantCode(t, err, gateway.CodeNotRecallable)
	_, err = r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: th, EventID: id()})
	wantCode(t, err, wire.CodeNotFound)
	_, err = r.Steer(r.ctx, eve, gateway.SteerRequest{ThreadID: th, EventID: second.EventID})
	wantCode(t, err, wire.CodeNotFound)
	_, err = r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: r.say("", "elsewhere").ThreadID, EventID: second.EventID})
	wantCode(t, err, gateway.CodeNotRecallable)
}

func TestSteer_OfAMessageThatHasItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sent := r.say("", "hello")
	reply, err := r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: sent.ThreadID, EventID: sent.EventID})
	r.must(err)
	if wantDisposition(t, reply, gateway.DispositionStarted); *reply.TurnID != *sent.TurnID {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
}

func TestSteer_ByTheStateOfItsThread(t *testing.T) {
	t.Parallel()
	t.Run("an idle one starts", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		reply := wantDisposition(t, r.asSteer("", "hello"), gateway.DispositionStarted)
		if reply.TurnID == nil {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
		r.wantLog(reply.ThreadID, "input:hello start:hello")
	})
	t.Run("a closing one queues it, with a note", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		th, turnID := r.streaming("hello", "x")
		waits := r.say(th, "waits")
		r.must(interrupt(r, th, turnID))
		wantDisposition(t, r.asSteer(th, "too late"), gateway.DispositionQueued)
		reply, err := r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: th, EventID: waits.EventID})
		r.must(err)
		wantDisposition(t, reply, gateway.DispositionQueued)
		again, err := r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: th, EventID: waits.EventID})
		r.must(err)
		if asJSON(t, again) != asJSON(t, reply) {
			t.Fatalf("again %s", asJSON(t, again))
		}
		r.wantLog(th, "input:hello start:hello input:waits control.interrupt output.partial:x turn.cancelled input:too late?turn_ended input:waits?turn_ended")
	})
	t.Run("now belongs to a steer", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		_, err := r.Send(r.ctx, ann, gateway.SendRequest{ClientEventID: id(), UserMessage: text("x"), Now: true})
		wantField(t, err, "now", "unknown")
	})
	t.Run("a replay gets the first reply", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		th, turnID := r.streaming("hello", "x")
		req := gateway.SendRequest{ThreadID: th, ClientEventID: id(), UserMessage: text("A"), Mode: gateway.ModeSteer}
		first, err := r.Send(r.ctx, ann, req)
		r.must(err)
		r.over(turnID)
		r.wantTurn(th, "A")
		again, err := r.Send(r.ctx, ann, req)
		r.must(err)
		first.Replayed = true
		if asJSON(t, again) != asJSON(t, first) {
			t.Fatalf("again %s, first %s", asJSON(t, again), asJSON(t, first))
		}
	})
}
