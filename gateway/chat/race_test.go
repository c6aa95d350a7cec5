package chat_test

import (
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// emptyThread makes a thread of ann.
func (r *rig) emptyThread() string {
	r.Helper()
	made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{})
	r.must(err)
	return made.ThreadID
}

func TestSQ52_TwoSendsOfOneIDBehindTheThreadsLock(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th := r.emptyThread()
		req := message(th, "hello")
		free := r.hold(th)
		a, b := r.sendAside(ann, req), r.sendAside(ann, req)
		r.place.AwaitWaiters(t, 2)
		free()
		<-a.done
		<-b.done
		r.must(a.err)
		r.must(b.err)
		if a.reply.TurnID == nil || b.reply.TurnID == nil || *a.reply.TurnID != *b.reply.TurnID || a.reply.Replayed == b.reply.Replayed {
			t.Fatalf("replies %s and %s", asJSON(t, a.reply), asJSON(t, b.reply))
		}
		r.wantLog(th, "input:hello start:hello")
		t.Run("SQ53: sequence numbers rise, and the loser left no trace", func(t *testing.T) {
			events := r.events(th) // checks that they rise
			if len(events) != 2 {
				t.Fatalf("%d events", len(events))
			}
		})
	})
}

func TestSQ55_TwoSendsBehindTheThreadsLock(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th := r.emptyThread()
		free := r.hold(th)
		a, b := r.sendAside(ann, message(th, "a")), r.sendAside(ann, message(th, "b"))
		r.place.AwaitWaiters(t, 2)
		free()
		<-a.done
		<-b.done
		r.must(a.err)
		r.must(b.err)
		won, lost := a.reply, b.reply
		if won.TurnID == nil {
			won, lost = lost, won
		}
		if won.TurnID == nil || won.Disposition != gateway.DispositionStarted || lost.TurnID != nil || lost.Disposition != gateway.DispositionQueued {
			t.Fatalf("replies %s and %s", asJSON(t, a.reply), asJSON(t, b.reply))
		}
		r.accept()
		reply, err := r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: th, RevokesEventID: lost.EventID, ClientEventID: id()})
		r.must(err)
		if reply.Disposition != gateway.DispositionRecalled || reply.TurnID != nil {
			t.Fatalf("recall %s", asJSON(t, reply))
		}
	})
}

// TestCG76_ASendBehindADrain holds the org's lock: the host's end is answered, the
// drain of its thread waits, and a new send is in the log and waits behind it.
func TestCG76_ASendBehindADrain(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		g := gated(r)
		th, anchor := r.streaming("anchor", "text")
		r.say(th, "a")
		free := g.hold(orgLock, ann.OrgID)
		r.end(anchor, gatewaytest.Completed()) // answered although admission is blocked
		g.await(1)
		b := r.sendAside(ann, message(th, "b"))
		g.await(2)
		r.until("b is in the log", func() bool { return len(r.eventsOf(th, gateway.EventInputPrompt)) == 4 })
		if th := r.thread(th); th.Turn != nil || th.Waiting != 2 {
			t.Fatalf("thread %s", asJSON(t, th))
		}
		free()
		<-b.done
		r.must(b.err)
		turnA := r.wantTurn(th, "a")
		if b.reply.TurnID != nil || b.reply.Disposition != gateway.DispositionQueued {
			t.Fatalf("reply %s", asJSON(t, b.reply))
		}
		r.wantLog(th, "input:anchor start:anchor input:a output.message:text turn.completed input:b start:a")
		if got := r.thread(th); got.Waiting != 1 || got.Turn.TurnID != turnA {
			t.Fatalf("thread %s", asJSON(t, got))
		}
		r.must(r.recall(th, b.reply.EventID))
	})
}

// TestCG77_TheClaimIsFirst holds the queue row: the claim is first in line, and the
// recall behind it finds a turn.
func TestCG77_TheClaimIsFirst(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		g := gated(r)
		th, anchor := r.streaming("anchor", "text")
		a := r.say(th, "a")
		free := g.hold(rowLock, a.EventID)
		r.end(anchor, gatewaytest.Completed())
		g.await(1)
		recalled := make(chan error, 1)
		go func() { recalled <- r.recall(th, a.EventID) }()
		g.await(2)
		free()
		wantCode(t, <-recalled, gateway.CodeNotRecallable)
		r.wantTurn(th, "a")
		events := r.events(th)
		last := events[len(events)-1]
		if events[2].TurnID != "" || last.RevokesEventID != a.EventID || last.Content != nil || last.UserMessage.Parts[0].Text != "a" {
			t.Fatalf("events %s", asJSON(t, events))
		}
	})
}

// TestCG78_TheRecallIsFirst holds the org's lock before a drain: a recall does not
// wait for it, and the claim is lost without a trace.
func TestCG78_TheRecallIsFirst(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		g := gated(r)
		th, anchor := r.streaming("anchor", "text")
		a := r.say(th, "a")
		free := g.hold(orgLock, ann.OrgID)
		r.end(anchor, gatewaytest.Completed())
		g.await(1)
		recall := gateway.RecallRequest{ThreadID: th, RevokesEventID: a.EventID, ClientEventID: id()}
		reply, err := r.Recall(r.ctx, ann, recall)
		r.must(err)
		if reply.TurnID != nil || reply.ThreadID != th || reply.Disposition != gateway.DispositionRecalled {
			t.Fatalf("recall %s", asJSON(t, reply))
		}
		free()
		r.must(r.Sweep(r.ctx))
		next := r.say(th, "next")
		if next.Disposition != gateway.DispositionStarted {
			t.Fatalf("reply %s", asJSON(t, next))
		}
		r.wantLog(th, "input:anchor start:anchor input:a output.message:text turn.completed control.revoke input:next start:next")
		events := r.events(th)
		revoke, after := events[5], events[6]
		if revoke.Content != nil || revoke.RevokesEventID != a.EventID || revoke.TurnID != "" || after.SeqID != revoke.SeqID+1 {
			t.Fatalf("events %s", asJSON(t, events))
		}
		turns, err := r.AdminTurns(r.ctx, ann, gateway.Page{})
		r.must(err)
		for _, turn := range turns.Rows {
			if turn.InputID == a.EventID {
				t.Fatalf("turn %s", asJSON(t, turn))
			}
		}
	})
}

// TestAD29_ThePlanEndsWhileASendWaits: a follow-up passed the first look and waits
// for its thread.
func TestAD29_ThePlanEndsWhileASendWaits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		g := gated(r)
		first := r.say("", "one")
		r.accept()
		r.end(*first.TurnID, gatewaytest.Completed())
		before := r.story(first.ThreadID)
		free := g.hold(threadLock, first.ThreadID)
		req := message(first.ThreadID, "two")
		send := r.sendAside(ann, req)
		g.await(1)
		r.entitle(gateway.EntitlementSuspended, nil)
		free()
		<-send.done
		wantCode(t, send.err, gateway.CodeInsufficientCredits)
		if status := gateway.HTTPStatus(wire.CodeOf(send.err)); status != 402 {
			t.Fatalf("status %d", status)
		}
		t.Run("AD30: nothing of it is stored", func(t *testing.T) {
			if after := r.story(first.ThreadID); after != before {
				t.Fatalf("log %s", after)
			}
			turns, err := r.AdminTurns(r.ctx, ann, gateway.Page{})
			r.must(err)
			if len(turns.Rows) != 1 {
				t.Fatalf("%d turns", len(turns.Rows))
			}
		})
		t.Run("the same id may be tried again", func(t *testing.T) {
			r.entitle(gateway.EntitlementActive, nil)
			again, err := r.Send(r.ctx, ann, req)
			r.must(err)
			if again.Replayed || again.Disposition != gateway.DispositionStarted {
				t.Fatalf("reply %s", asJSON(t, again))
			}
		})
	})
}
