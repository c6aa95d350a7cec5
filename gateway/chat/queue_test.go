package chat_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func gatewaytestCompleted() wire.CompletedPayload { return gatewaytest.Completed() }

func TestSQ50_RecallTakesAWaitingMessageBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th := r.say("", "one").ThreadID
	waiting := r.say(th, "two")
	recall := func(event, client string) (gateway.SendReply, error) {
		return r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: th, RevokesEventID: event, ClientEventID: client})
	}
	client := id()
	reply, err := recall(waiting.EventID, client)
	r.must(err)
	if reply.TurnID != nil || reply.Disposition != gateway.DispositionRecalled || reply.EventID != client {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	log := "input:one start:one input:two control.revoke"
	r.wantLog(th, log)
	t.Run("CG79: repeating it is answered alike and appends nothing", func(t *testing.T) {
		for _, client := range []string{id(), client, ""} {
			again, err := recall(waiting.EventID, client)
			r.must(err)
			if again.Disposition != gateway.DispositionRecalled || again.TurnID != nil {
				t.Fatalf("reply %s", asJSON(t, again))
			}
		}
		r.wantLog(th, log)
	})
	t.Run("SQ51: what a turn took is not recallable, by either id", func(t *testing.T) {
		for _, e := range r.events(th)[:2] {
			_, err := recall(e.ID, id())
			wantCode(t, err, gateway.CodeNotRecallable)
		}
	})
	t.Run("SQ54: not through another thread of one's own", func(t *testing.T) {
		other := r.say("", "other").ThreadID
		queued := r.say(th, "three")
		_, err := r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: other, RevokesEventID: queued.EventID})
		wantCode(t, err, gateway.CodeNotRecallable)
		if r.thread(th).Waiting != 1 {
			t.Fatal("it does not wait any more")
		}
	})
	t.Run("an unknown event and another account's are not found", func(t *testing.T) {
		foreign, err := r.Send(r.ctx, bob, gateway.SendRequest{ClientEventID: id(), UserMessage: text("x")})
		r.must(err)
		for _, event := range []string{id(), foreign.EventID} {
			_, err := recall(event, id())
			wantCode(t, err, wire.CodeNotFound)
		}
	})
}

func TestSQ53_CG78_SequenceNumbersRise(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th := r.say("", "one").ThreadID
	waiting := r.say(th, "two")
	_, err := r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: th, RevokesEventID: waiting.EventID})
	r.must(err)
	r.say(th, "three")
	events := r.events(th)
	if last := events[len(events)-1]; last.SeqID != events[len(events)-2].SeqID+1 {
		t.Fatal("a recall burnt a sequence number")
	}
}

func TestCG73_F23_QueueDrainsInOrderOneMessageForATurn(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*rig, string, string){
		"completed": func(r *rig, _, turn string) { r.end(turn, gatewaytest.Completed()) },
		"CG58 failed": func(r *rig, _, turn string) {
			r.end(turn, gatewaytest.Failed(wire.CodeModelOverloaded))
		},
		"cancelled": func(r *rig, th, turn string) {
			r.stop(th, turn)
			r.accept()
			r.end(turn, gatewaytest.Completed())
		},
		"host away": func(r *rig, _, turn string) {
			r.Waiting(r.ctx, r.runOf(turn), "host_offline", time.Time{})
			r.tick(180 * time.Second)
			r.must(r.Sweep(r.ctx))
		},
		"restart of the gateway": func(r *rig, _, turn string) {
			r.restart()
			r.end(turn, gatewaytest.Completed())
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			th, turnID := r.streaming("first", "text")
			r.say(th, "a")
			b := r.say(th, "b")
			r.say(th, "c")
			end(r, th, turnID)
			turnA := r.wantTurn(th, "a")
			if got := r.thread(th); got.Waiting != 2 || got.Turn.TurnID != turnA {
				t.Fatalf("thread %s", asJSON(t, got))
			}
			_, err := r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: th, RevokesEventID: b.EventID})
			r.must(err)
			r.host = gatewaytest.NewHost(hostID) // another process of the host
			r.accept()
			r.end(turnA, gatewaytest.Completed())
			r.wantTurn(th, "c")
		})
	}
}

func TestCG76_ASendDoesNotOvertakeTheQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("first", "text")
	r.say(th, "a")
	r.host.End(r.runOf(turnID), gatewaytest.Completed())
	r.must(r.host.Deliver(r.ctx, r.Service, -1))
	b := r.say(th, "b") // in the race with the drain
	if b.TurnID != nil {
		t.Fatalf("reply %s", asJSON(t, b))
	}
	r.wantTurn(th, "a")
	r.until("envelopes are durable", r.host.Settled)
	if r.thread(th).Waiting != 1 {
		t.Fatal("b does not wait")
	}
}

func TestCG77_CG78_RecallAgainstClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 20 {
		th, turnID := r.streaming("first", "text")
		a := r.say(th, "a")
		r.host.End(r.runOf(turnID), gatewaytest.Completed())
		r.must(r.host.Deliver(r.ctx, r.Service, -1))
		_, err := r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: th, RevokesEventID: a.EventID})
		r.until("envelopes are durable", r.host.Settled)
		switch wire.CodeOf(err) {
		case "":
			if started := r.thread(th).Turn; started != nil && started.TurnID != turnID {
				t.Fatal("recalled, and started all the same")
			}
		case gateway.CodeNotRecallable:
			r.wantTurn(th, "a")
		default:
			t.Fatal(err)
		}
		r.events(th)
	}
}

func TestSend_ReplacesAWaitingMessageInItsPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("first", "text")
	a := r.say(th, "a")
	r.say(th, "b")
	edited := r.say(th, "A", func(q *gateway.SendRequest) { q.RevokesEventID = a.EventID })
	if edited.Disposition != gateway.DispositionQueued || r.thread(th).Waiting != 2 {
		t.Fatalf("reply %s", asJSON(t, edited))
	}
	r.end(turnID, gatewaytest.Completed())
	next := r.wantTurn(th, "A")
	r.wantLog(th, "input:first start:first input:a input:b input:A output.message:text turn.completed start:A")
	t.Run("its first id stands for the whole chain", func(t *testing.T) {
		_, err := r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: th, RevokesEventID: a.EventID})
		wantCode(t, err, gateway.CodeNotRecallable)
	})
	t.Run("what does not wait is not recallable, and nothing is stored", func(t *testing.T) {
		for _, event := range []string{a.EventID, edited.EventID, id(), r.events(th)[1].ID} {
			req := gateway.SendRequest{ThreadID: th, ClientEventID: id(), UserMessage: text("x"), RevokesEventID: event}
			_, err := r.Send(r.ctx, ann, req)
			wantCode(t, err, gateway.CodeNotRecallable)
			req.RevokesEventID = ""
			req.UserMessage = text("y")
		}
		if n := r.thread(th).Waiting; n != 1 {
			t.Fatalf("%d wait", n)
		}
	})
	r.accept()
	r.end(next, gatewaytest.Completed())
	r.wantTurn(th, "b")
}

func TestDrain_FailsAMessageThatNoRouteServes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("first", "text")
	r.say(th, "a")
	r.say(th, "b")
	r.routes.Fail(wire.NewError(gateway.CodeRouteUnavailable, "Not ready."))
	r.end(turnID, gatewaytest.Completed())
	r.until("both have failed", func() bool { return r.thread(th).Waiting == 0 })
	r.wantLog(th, "input:first start:first input:a input:b output.message:text turn.completed "+
		"start:a turn.failed!route_unavailable start:b turn.failed!route_unavailable")
}

func TestDrain_WaitsForHostsAfterAStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.limits.RouteGrace = 30 * time.Second })
	th, turnID := r.streaming("first", "text")
	r.say(th, "a")
	r.routes.Fail(wire.NewError(wire.CodeNoHost, "None yet."))
	r.end(turnID, gatewaytest.Completed())
	r.restart()
	if got := r.thread(th); got.Waiting != 1 {
		t.Fatal("the message failed because its host was not back yet")
	}
	r.routes.Fail(nil)
	t.Run("CG76: a send into the idle thread goes behind it", func(t *testing.T) {
		if b := r.say(th, "b"); b.TurnID != nil || b.Disposition != gateway.DispositionQueued {
			t.Fatalf("reply %s", asJSON(t, b))
		}
	})
	r.wantTurn(th, "a")
	if got := r.thread(th); got.Waiting != 1 {
		t.Fatalf("thread %s", asJSON(t, got))
	}
}

func TestBinding_IsPinnedToItsRouteAndContinued(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th := ""
	turn := func(prompt, model string) wire.PromptRequest {
		reply := r.say(th, prompt, func(q *gateway.SendRequest) { q.Model = model })
		th = reply.ThreadID
		r.accept()
		run := r.runOf(*reply.TurnID)
		_, at := r.host.Turn(run)
		r.host.Say(run, "ok")
		r.end(*reply.TurnID, gatewaytest.Completed())
		return at.Request
	}
	first := turn("one", "alpha")
	second := turn("two", "")
	third := turn("three", "beta")
	fourth := turn("four", "alpha")
	if first.ContinueFrom != nil || second.RuntimeBindingID != first.RuntimeBindingID || second.RuntimeThreadID != first.RuntimeThreadID ||
		second.ContinueFrom != nil || second.OperationKey == first.OperationKey || second.TurnID == first.TurnID {
		t.Fatalf("the same route: %+v then %+v", first, second)
	}
	if third.RuntimeBindingID == first.RuntimeBindingID || third.ContinueFrom == nil || *third.ContinueFrom != first.RuntimeBindingID || third.RunID != first.RunID {
		t.Fatalf("another route: %+v", third)
	}
	if fourth.RuntimeBindingID == first.RuntimeBindingID || fourth.ContinueFrom == nil || *fourth.ContinueFrom != third.RuntimeBindingID {
		t.Fatalf("back to the first route, which has not seen the third turn: %+v", fourth)
	}
	t.Run("a binding that never took effect is left behind", func(t *testing.T) {
		reply := r.say(th, "five", func(q *gateway.SendRequest) { q.Model = "beta" })
		work, err := r.Work(r.ctx, r.runOf(*reply.TurnID))
		r.must(err)
		r.must(r.Ack(r.ctx, wire.Ack{
			RunID: work.RunID, CommandSeq: work.Commands[0].Seq, Status: wire.AckFailed,
			Error: wire.NewError(wire.CodeProviderNotReady, "").Body(),
		}))
		if got := r.turn(*reply.TurnID); got.Status != gateway.TurnFailed || got.Error != gateway.CodeRouteUnavailable {
			t.Fatalf("turn %s", asJSON(t, got))
		}
		if again := turn("six", "beta"); again.ContinueFrom == nil || *again.ContinueFrom != fourth.RuntimeBindingID {
			t.Fatalf("request %+v", again)
		}
	})
}

func TestOptions_ReachTheHostOrAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "x", func(q *gateway.SendRequest) {
		q.Options = &gateway.Options{MaxOutputTokens: 7, ReasoningEffort: "high"}
	})
	r.accept()
	_, turn := r.host.Turn(r.runOf(*reply.TurnID))
	if turn.Request.MaxOutputTokens == nil || *turn.Request.MaxOutputTokens != 7 || *turn.Request.ReasoningEffort != "high" {
		t.Fatalf("request %+v", turn.Request)
	}
}
