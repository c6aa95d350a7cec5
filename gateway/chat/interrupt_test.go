package chat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

func (r *rig) stop(threadID, turnID string) gateway.SendReply {
	r.Helper()
	reply, err := r.Interrupt(r.ctx, ann, gateway.InterruptRequest{ThreadID: threadID, TurnID: turnID, ClientEventID: id()})
	r.must(err)
	return reply
}

func TestSQ16_F20_InterruptIsVisibleAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "par", "tial")
	req := gateway.InterruptRequest{ThreadID: th, TurnID: turnID, ClientEventID: id()}
	reply, err := r.Interrupt(r.ctx, ann, req)
	r.must(err)
	if reply.TurnID != nil || reply.ThreadID != th || reply.Disposition != gateway.DispositionInterrupted {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	if turn := r.turn(turnID); turn.Status != gateway.TurnCancelled || turn.Reason != "interrupted" {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
	t.Run("SQ17: one control.interrupt, the text that was shown, one turn.cancelled", func(t *testing.T) {
		r.wantLog(th, "input:hello start:hello control.interrupt output.partial:partial turn.cancelled")
		e := r.events(th)[2]
		if e.ID != req.ClientEventID || e.Content != nil || e.InterruptsTurnID != turnID || e.TurnID != "" {
			t.Fatalf("event %s", asJSON(t, e))
		}
	})
	t.Run("SQ19: repeating it adds nothing", func(t *testing.T) {
		again, err := r.Interrupt(r.ctx, ann, req)
		r.must(err)
		if !again.Replayed || again.TurnID != nil {
			t.Fatalf("reply %s", asJSON(t, again))
		}
		if fresh := r.stop(th, turnID); fresh.Disposition != gateway.DispositionInterrupted || fresh.Replayed {
			t.Fatalf("reply %s", asJSON(t, fresh))
		}
		r.wantLog(th, "input:hello start:hello control.interrupt output.partial:partial turn.cancelled")
	})
	t.Run("SQ21: the id is spent for a send", func(t *testing.T) {
		_, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: th, ClientEventID: req.ClientEventID, UserMessage: text("x")})
		wantCode(t, err, gateway.CodeClientEventIDInUse)
	})
	t.Run("SQ18: the host's late end changes nothing but usage", func(t *testing.T) {
		r.accept() // takes the interrupt
		if _, turn := r.host.Turn(r.runOf(turnID)); !turn.Interrupted {
			t.Fatal("the host was not told")
		}
		r.host.Say(r.runOf(turnID), "more")
		r.end(turnID, gatewaytestCompleted())
		r.wantLog(th, "input:hello start:hello control.interrupt output.partial:partial turn.cancelled")
		turn := r.turn(turnID)
		if turn.Status != gateway.TurnCancelled || len(turn.Usage) != 2 {
			t.Fatalf("turn %s", asJSON(t, turn))
		}
	})
}

func TestCG81_TheThreadStaysClosedUntilTheHostTellsTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("one", "text")
	r.stop(th, turnID)
	reply := r.say(th, "two")
	if reply.Disposition != gateway.DispositionQueued || reply.TurnID != nil {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	if got := r.thread(th); !got.CancellationRecoveryPending || got.Turn != nil || got.Waiting != 1 {
		t.Fatalf("thread %s", asJSON(t, got))
	}
	r.must(r.Sweep(r.ctx))
	if got := r.thread(th); got.Waiting != 1 {
		t.Fatal("the message started while the thread was closed")
	}
	r.accept()
	r.end(turnID, gatewaytestCompleted())
	r.wantTurn(th, "two")
	if got := r.thread(th); got.CancellationRecoveryPending || got.Waiting != 0 {
		t.Fatalf("thread %s", asJSON(t, got))
	}
}

func TestCancelRecovery_EndsByTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("one", "text")
	r.stop(th, turnID)
	r.say(th, "two")
	r.tick(120*time.Second - time.Millisecond)
	r.must(r.Sweep(r.ctx))
	if got := r.thread(th); got.Waiting != 1 || !got.CancellationRecoveryPending {
		t.Fatalf("too early: %s", asJSON(t, got))
	}
	r.restart()
	r.tick(time.Millisecond)
	r.must(r.Sweep(r.ctx))
	r.wantTurn(th, "two")
	t.Run("the interrupt still reaches the host, before the next prompt", func(t *testing.T) {
		work, err := r.Work(r.ctx, r.runOf(turnID))
		r.must(err)
		if len(work.Commands) != 2 || !strings.Contains(string(work.Commands[0].Command), wire.TypeRunControl) ||
			!strings.Contains(string(work.Commands[1].Command), `"prompt":"two"`) {
			t.Fatalf("commands %s", asJSON(t, work.Commands))
		}
	})
}

func TestSQ23_AnUnsentTurnLeavesNothingToRecover(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.say("", "one")
	r.say(first.ThreadID, "two")
	r.stop(first.ThreadID, *first.TurnID)
	second := r.wantTurn(first.ThreadID, "two")
	r.accept()
	if started := r.host.Started(); len(started) != 1 || started[0].Request.Prompt != "two" {
		t.Fatalf("the host started %+v", started)
	}
	r.end(second, gatewaytestCompleted())
	r.wantLog(first.ThreadID, "input:one start:one input:two control.interrupt turn.cancelled start:two turn.completed")
}

func TestD21_InterruptWaitsBehindAPromptThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.say("", "one")
	run := r.runOf(*first.TurnID)
	r.must(r.host.Fetch(r.ctx, r.Service)) // the host has it, its answer is on the way
	r.stop(first.ThreadID, *first.TurnID)
	work, err := r.Work(r.ctx, run)
	r.must(err)
	if len(work.Commands) != 2 || !strings.Contains(string(work.Commands[0].Command), wire.TypePromptRequest) {
		t.Fatalf("commands %s", asJSON(t, work.Commands))
	}
	if !r.thread(first.ThreadID).CancellationRecoveryPending {
		t.Fatal("the thread is open although the host may run the turn")
	}
	r.must(r.host.Answer(r.ctx, r.Service))
	r.accept()
	r.end(*first.TurnID, gatewaytestCompleted())
	r.until("the run is idle", func() bool {
		work, err := r.Work(r.ctx, run)
		r.must(err)
		return work.Idle && len(work.Commands) == 0
	})
	if n := r.host.Started()[0].Starts; n != 1 {
		t.Fatalf("started %d times", n)
	}
}

func TestInterrupt_OfAPromptThatTheHostHasNoRoomFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.say("", "one")
	run := r.runOf(*first.TurnID)
	refuse := func(code wire.Code) {
		work, err := r.Work(r.ctx, run)
		r.must(err)
		r.must(r.Ack(r.ctx, wire.Ack{
			RunID: run, CommandSeq: work.Commands[0].Seq, CommandType: wire.TypePromptRequest,
			Status: wire.AckFailed, Error: wire.NewError(code, "").Body(),
		}))
	}
	refuse(wire.CodeInferenceBusy)
	if turn := r.turn(*first.TurnID); turn.Status != gateway.TurnPending || turn.Reason != "no_room" {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
	r.stop(first.ThreadID, *first.TurnID)
	if r.thread(first.ThreadID).CancellationRecoveryPending {
		t.Fatal("the host has nothing of the turn, and the thread is closed all the same")
	}
	if next := r.say(first.ThreadID, "two"); next.Disposition != gateway.DispositionStarted {
		t.Fatalf("reply %s", asJSON(t, next))
	}
}

func TestInterrupt_OfAPromptThatTheHostThenRefuses(t *testing.T) {
	t.Parallel()
	for _, code := range []wire.Code{wire.CodeInferenceBusy, wire.CodeRouteNotActive} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			first := r.say("", "one")
			r.say(first.ThreadID, "two")
			run := r.runOf(*first.TurnID)
			work, err := r.Work(r.ctx, run)
			r.must(err)
			r.stop(first.ThreadID, *first.TurnID)
			r.must(r.Ack(r.ctx, wire.Ack{
				RunID: run, CommandSeq: work.Commands[0].Seq, Status: wire.AckFailed, Error: wire.NewError(code, "").Body(),
			}))
			r.wantTurn(first.ThreadID, "two")
		})
	}
}

func TestSQ20_ATurnThatEndedOtherwiseIsNotActive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "text")
	r.end(turnID, gatewaytestCompleted())
	req := gateway.InterruptRequest{ThreadID: th, TurnID: turnID, ClientEventID: id()}
	_, err := r.Interrupt(r.ctx, ann, req)
	wantCode(t, err, gateway.CodeTurnNotActive)
	t.Run("and the id is not spent", func(t *testing.T) {
		r.say(th, "next", func(q *gateway.SendRequest) { q.ClientEventID = req.ClientEventID })
	})
}

func TestModeInterrupt_StopsTheTurnAndGoesFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("one", "half")
	r.say(th, "two")
	reply := r.say(th, "now", mode(gateway.ModeInterrupt))
	if reply.Disposition != gateway.DispositionQueued || reply.TurnID != nil {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	if turn := r.turn(turnID); turn.Status != gateway.TurnCancelled {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
	r.accept()
	r.end(turnID, gatewaytestCompleted())
	next := r.wantTurn(th, "now")
	r.accept()
	r.end(next, gatewaytestCompleted())
	r.wantTurn(th, "two")
	r.wantLog(th, "input:one start:one input:two input:now control.interrupt output.partial:half turn.cancelled "+
		"start:now turn.completed start:two")
	t.Run("on an idle thread it just starts", func(t *testing.T) {
		if reply := r.say("", "x", mode(gateway.ModeInterrupt)); reply.Disposition != gateway.DispositionStarted {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
	})
	t.Run("on a closing thread it waits, first in line", func(t *testing.T) {
		th, turnID := r.streaming("a", "b")
		r.stop(th, turnID)
		r.say(th, "later")
		if reply := r.say(th, "sooner", mode(gateway.ModeInterrupt)); reply.Disposition != gateway.DispositionQueued {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
		r.accept()
		r.end(turnID, gatewaytestCompleted())
		r.wantTurn(th, "sooner")
	})
}

func TestNoDeltaFollowsTheTerminalEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "a")
	run := r.runOf(turnID)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			r.host.Say(run, "x")
			if err := r.host.Deliver(r.ctx, r.Service, -1); err != nil {
				t.Error(err)
			}
		}
	}()
	r.stop(th, turnID)
	<-done
	shown, over := 0, false
	for _, p := range r.published(gateway.ThreadTopic(th)) {
		switch {
		case p.Type == "turn.delta" && over:
			t.Fatal("a delta was published after turn.cancelled")
		case p.Type == "turn.delta":
			shown = int(p.Next)
		case p.Type == "thread.events" && strings.Contains(string(p.Raw), "turn.cancelled"):
			over = true
		}
	}
	for _, e := range r.events(th) {
		if e.EventType == gateway.EventOutputPartial && len(*e.Content) != shown {
			t.Fatalf("kept %d bytes of %d that were shown", len(*e.Content), shown)
		}
	}
	r.until("envelopes are durable", r.host.Settled)
}
