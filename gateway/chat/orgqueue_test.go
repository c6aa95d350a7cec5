package chat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
)

// orgQueue lists the turns that wait for ann's org, as ann sees them.
func (r *rig) orgQueue() []gateway.OrgQueueItem {
	r.Helper()
	reply, err := r.OrgQueue(r.ctx, ann)
	r.must(err)
	return reply.Queue
}

// wantStatus waits until a turn of ann has a status.
func (r *rig) wantStatus(turnID string, status gateway.TurnStatus) {
	r.Helper()
	r.until("the turn is "+string(status), func() bool { return r.turn(turnID).Status == status })
}

// full gives ann's org one place and takes it.
func (r *rig) full() gateway.SendReply {
	r.Helper()
	r.limit(gateway.Limits{ConcurrentTurns: 1}, gateway.Limits{})
	return r.say("", "blocker")
}

func TestSQ56_AFullOrgLetsTurnsWait(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		blocker := r.full()
		reply := r.say("", "hello")
		if reply.TurnID == nil || reply.Status != gateway.TurnQueued || reply.Disposition != gateway.DispositionOrgQueued {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
		rows, err := r.AdminTurns(r.ctx, ann, gateway.Page{TurnID: *reply.TurnID})
		r.must(err)
		if row := rows.Rows[0]; row.RunID == "" || row.BindingID == "" || row.InputID != reply.EventID {
			t.Fatalf("turn %s", asJSON(t, row))
		}
		r.accept()
		if started := r.host.Started(); len(started) != 1 || started[0].Request.Prompt != "blocker" {
			t.Fatalf("the host was told %+v", started)
		}
		t.Run("SQ57: an original, a replacement and a marker", func(t *testing.T) {
			events := r.events(reply.ThreadID)
			if len(events) != 3 {
				t.Fatalf("events %s", asJSON(t, events))
			}
			for _, e := range events[:2] {
				if e.EventType != gateway.EventInputPrompt || e.Content != nil || e.UserMessage.Parts[0].Text != "hello" {
					t.Errorf("event %s", asJSON(t, e))
				}
			}
			marker := events[2]
			if events[0].TurnID != "" || events[1].TurnID != *reply.TurnID || events[1].RevokesEventID != events[0].ID ||
				marker.EventType != gateway.EventTurnQueued || marker.Marker != "queue:queued" || marker.TurnID != *reply.TurnID ||
				marker.Content == nil || *marker.Content == "" {
				t.Fatalf("events %s", asJSON(t, events))
			}
		})
		t.Run("SQ58: it is the active turn of its thread", func(t *testing.T) {
			next := r.say(reply.ThreadID, "next")
			if next.TurnID != nil || next.Disposition != gateway.DispositionQueued {
				t.Fatalf("reply %s", asJSON(t, next))
			}
			queue := r.orgQueue()
			if len(queue) != 1 || queue[0].TurnID != *reply.TurnID || queue[0].ThreadID != reply.ThreadID {
				t.Fatalf("queue %s", asJSON(t, queue))
			}
			open, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: reply.ThreadID})
			r.must(err)
			if open.Turn == nil || open.Turn.Status != gateway.TurnQueued {
				t.Fatalf("turn %s", asJSON(t, open.Turn))
			}
			r.must(r.recall(reply.ThreadID, next.EventID))
			others, err := r.OrgQueue(r.ctx, bob)
			r.must(err)
			if len(others.Queue) != 1 || others.Queue[0].ThreadID != "" {
				t.Fatalf("bob sees %s", asJSON(t, others))
			}
			foreign, err := r.OrgQueue(r.ctx, eve)
			r.must(err)
			if len(foreign.Queue) != 0 {
				t.Fatalf("eve sees %s", asJSON(t, foreign))
			}
		})
		t.Run("SQ59: a freed place lets it go on", func(t *testing.T) {
			r.stop(blocker.ThreadID, *blocker.TurnID)
			r.wantStatus(*reply.TurnID, gateway.TurnPending)
			events := r.events(reply.ThreadID)
			last := events[len(events)-1]
			if last.EventType != gateway.EventTurnDequeued || last.Marker != "queue:dequeued" || last.Content != nil ||
				last.TurnID != *reply.TurnID || last.RevokesEventID != events[2].ID || len(r.orgQueue()) != 0 {
				t.Fatalf("event %s", asJSON(t, last))
			}
			r.stop(reply.ThreadID, *reply.TurnID)
			r.wantStatus(*reply.TurnID, gateway.TurnCancelled)
		})
	})
}

// TestSQ59_EveryEndFreesAPlace: however the turn ends, the next of the org goes on.
func TestSQ59_EveryEndFreesAPlace(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig, blocker gateway.SendReply){
		"completed": func(r *rig, b gateway.SendReply) { r.accept(); r.end(*b.TurnID, gatewaytest.Completed()) },
		"failed":    func(r *rig, b gateway.SendReply) { r.accept(); r.end(*b.TurnID, gatewaytest.Failed("model_failed")) },
		"cancelled": func(r *rig, b gateway.SendReply) {
			_, err := r.CancelTurn(r.ctx, ann, gateway.TurnRequest{TurnID: *b.TurnID})
			r.must(err)
		},
		"never taken": func(r *rig, _ gateway.SendReply) { r.tick(10 * time.Minute); r.must(r.Sweep(r.ctx)) },
		"host lost": func(r *rig, b gateway.SendReply) {
			r.accept()
			r.Waiting(r.ctx, r.runOf(*b.TurnID), "host_offline", time.Time{})
			r.tick(180 * time.Second)
			r.must(r.Sweep(r.ctx))
		},
		"thread deleted": func(r *rig, b gateway.SendReply) {
			r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: b.ThreadID}))
		},
		"limit raised": func(r *rig, _ gateway.SendReply) {
			r.limit(gateway.Limits{ConcurrentTurns: 2}, gateway.Limits{})
			r.must(r.Promote(r.ctx, ann.OrgID))
		},
		"limit raised, found by a sweep": func(r *rig, _ gateway.SendReply) {
			r.limit(gateway.Limits{ConcurrentTurns: 2}, gateway.Limits{})
			r.must(r.Sweep(r.ctx))
		},
		"limit raised, found at the next start": func(r *rig, _ gateway.SendReply) {
			r.limit(gateway.Limits{ConcurrentTurns: 2}, gateway.Limits{})
			r.respawn()
		},
		"after a restart": func(r *rig, b gateway.SendReply) {
			r.respawn()
			r.accept()
			r.end(*b.TurnID, gatewaytest.Completed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			blocker := r.full()
			waiting := r.say("", "waiting")
			end(r, blocker)
			r.wantStatus(*waiting.TurnID, gateway.TurnPending)
			r.accept()
			r.wantStatus(*waiting.TurnID, gateway.TurnRunning)
			r.end(*waiting.TurnID, gatewaytest.Completed())
			if log := r.story(waiting.ThreadID); !strings.HasSuffix(log, "turn.dequeued turn.completed") {
				t.Fatalf("log %s", log)
			}
		})
	}
}

// TestOrgQueue_AWaitingTurnCanBeStopped: no host is told, nothing is to recover,
// and its marker goes before its end.
func TestOrgQueue_AWaitingTurnCanBeStopped(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(r *rig, w gateway.SendReply){
		"interrupted": func(r *rig, w gateway.SendReply) { r.stop(w.ThreadID, *w.TurnID) },
		"cancelled": func(r *rig, w gateway.SendReply) {
			_, err := r.CancelTurn(r.ctx, ann, gateway.TurnRequest{TurnID: *w.TurnID})
			r.must(err)
		},
		"by a message with mode interrupt": func(r *rig, w gateway.SendReply) {
			next := r.say(w.ThreadID, "instead", mode(gateway.ModeInterrupt))
			r.until("the next message waits for the org", func() bool { return r.thread(w.ThreadID).Turn != nil })
			r.must(r.recallQuietly(w.ThreadID, next.EventID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			blocker := r.full()
			w := r.say("", "waiting")
			stop(r, w)
			r.wantStatus(*w.TurnID, gateway.TurnCancelled)
			log := r.story(w.ThreadID)
			if !strings.Contains(log, "turn.dequeued turn.cancelled") || r.thread(w.ThreadID).CancellationRecoveryPending {
				t.Fatalf("log %s", log)
			}
			for _, item := range r.orgQueue() {
				if item.TurnID == *w.TurnID {
					t.Fatal("it still waits for the org")
				}
			}
			r.accept()
			for _, turn := range r.host.Started() {
				if turn.Request.Prompt == "waiting" {
					t.Fatal("the host was told of it")
				}
			}
			if got := r.turn(*blocker.TurnID); got.Status != gateway.TurnRunning {
				t.Fatalf("blocker %s", asJSON(t, got))
			}
		})
	}
}

// recallQuietly recalls what may have become a turn already.
func (r *rig) recallQuietly(threadID, eventID string) error {
	err := r.recall(threadID, eventID)
	if err != nil && !strings.Contains(err.Error(), string(gateway.CodeNotRecallable)) {
		return err
	}
	return nil
}

// TestOrgQueue_IsFairAndFIFO: the oldest goes first; a member at its own limit is
// passed over; a new turn takes no place that a waiting one could have.
func TestOrgQueue_IsFairAndFIFO(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		r.limit(gateway.Limits{ConcurrentTurns: 2}, gateway.Limits{ConcurrentTurns: 1})
		say := func(actor gateway.Actor, prompt string) gateway.SendReply {
			r.tick(time.Millisecond)
			reply, err := r.Send(r.ctx, actor, gateway.SendRequest{ClientEventID: id(), UserMessage: text(prompt)})
			r.must(err)
			return reply
		}
		a1, a2, a3 := say(ann, "a1"), say(ann, "a2"), say(ann, "a3")
		if a1.Status != gateway.TurnPending || a2.Status != gateway.TurnQueued || a3.Status != gateway.TurnQueued {
			t.Fatalf("%s %s %s", a1.Status, a2.Status, a3.Status)
		}
		if b1 := say(bob, "b1"); b1.Status != gateway.TurnPending {
			t.Fatalf("bob waits for a place that only ann lacks: %s", b1.Status)
		}
		if b2 := say(bob, "b2"); b2.Status != gateway.TurnQueued {
			t.Fatalf("b2 %s", b2.Status)
		}
		r.stop(a1.ThreadID, *a1.TurnID)
		r.wantStatus(*a2.TurnID, gateway.TurnPending)
		if a3 := r.turn(*a3.TurnID); a3.Status != gateway.TurnQueued {
			t.Fatalf("a3 %s", a3.Status)
		}
		if n := len(r.orgQueue()); n != 2 {
			t.Fatalf("%d turns wait", n)
		}
	})
}

// TestOrgQueue_TheSettingIsTheDefault: limits.org_concurrent_turns counts where the
// org has no limit of its own.
func TestOrgQueue_TheSettingIsTheDefault(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.limits.OrgConcurrentTurns = 1 })
	r.say("", "one")
	if reply := r.say("", "two"); reply.Disposition != gateway.DispositionOrgQueued {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	elsewhere, err := r.Send(r.ctx, eve, gateway.SendRequest{ClientEventID: id(), UserMessage: text("x")})
	r.must(err)
	if elsewhere.Disposition != gateway.DispositionStarted {
		t.Fatalf("another org: %s", asJSON(t, elsewhere))
	}
}

// TestPendingTimeout_CountsFromWhenTheTurnCouldGo: what waited for its org has its
// whole time left, also after a restart, and so has one whose host has just left.
func TestPendingTimeout_CountsFromWhenTheTurnCouldGo(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"in one process": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(r *rig) { r.limits.PendingTimeout = 10 * time.Minute })
			blocker := r.full()
			r.accept()
			w := r.say("", "waiting")
			r.tick(20 * time.Minute)
			r.must(r.Sweep(r.ctx))
			r.stop(blocker.ThreadID, *blocker.TurnID)
			r.wantStatus(*w.TurnID, gateway.TurnPending)
			if restart {
				r.respawn()
			}
			r.tick(9 * time.Minute)
			r.must(r.Sweep(r.ctx))
			if got := r.turn(*w.TurnID); got.Status != gateway.TurnPending {
				t.Fatalf("too early: %s", asJSON(t, got))
			}
			r.Waiting(r.ctx, r.runOf(*w.TurnID), "host_offline", time.Time{})
			r.tick(9 * time.Minute)
			r.must(r.Sweep(r.ctx))
			if got := r.turn(*w.TurnID); got.Status != gateway.TurnPending {
				t.Fatalf("its host left nine minutes ago: %s", asJSON(t, got))
			}
			r.tick(time.Minute)
			r.must(r.Sweep(r.ctx))
			r.wantStatus(*w.TurnID, gateway.TurnFailed)
		})
	}
}
