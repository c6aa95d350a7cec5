package chat_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// offered is a turn that has said "before" and is offered a steer.
func (r *rig) offered(prompt string) (threadID, turnID, run string, offer gateway.SteerOffer) {
	r.Helper()
	threadID, turnID = r.streaming("hello", "before")
	run = r.runOf(turnID)
	r.asSteer(threadID, prompt)
	return threadID, turnID, run, r.reserve(run, prompt)
}

const began = "input:hello start:hello input:A "

func TestSQ30_AReceiptAndTheEndThatListsIt(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID, run, offer := r.offered("A")
		r.took(offer.Steer, 6, wire.ReceiptDelivered)
		name := hostName(r, run)
		r.endFor(run, name, listing(gatewaytest.Completed(), offer.DeliveryID, 6, false))
		r.took(offer.Steer, 6, wire.ReceiptDelivered)
		r.endFor(run, name, listing(gatewaytest.Failed(wire.CodeModelFailed), offer.DeliveryID, 6, false))
		r.wantLog(th, began+"output.message:before steer:A turn.completed")
		if turn := r.turn(turnID); turn.Status != gateway.TurnCompleted {
			t.Fatalf("turn %s", asJSON(t, turn))
		}
	})
}

func TestSQ31_TheEndAloneSettlesIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		at   int
		cut  bool
		end  wire.CompletedPayload
		want string
	}{
		{"after a whole response", 6, false, gatewaytest.Completed(), "output.message:before steer:A output.message: after turn.completed"},
		{"after a cut one", 3, true, gatewaytest.Completed(), "output.partial:bef steer:A output.message:ore after turn.completed"},
		{"before all text", 0, false, gatewaytest.Completed(), "steer:A output.message:before after turn.completed"},
		{"behind all text", 12, false, gatewaytest.Completed(), "output.message:before after steer:A turn.completed"},
		{"beyond what came", 99, false, gatewaytest.Completed(), "output.message:before after steer:A turn.completed"},
		{"the turn failed", 6, false, gatewaytest.Failed(wire.CodeModelFailed), "output.message:before steer:A output.partial: after turn.failed!model_failed"},
		{"the text after it does not stand", 6, false, gatewaytest.Failed(wire.CodeModelOutputIncomplete), "output.message:before steer:A turn.failed!model_output_incomplete"},
	} {
		t.Run("SQ31 "+c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			th, turnID, run, offer := r.offered("A")
			r.host.Say(run, " after")
			r.deliver()
			r.endFor(run, hostName(r, run), listing(c.end, offer.DeliveryID, c.at, c.cut))
			r.wantLog(th, began+c.want)
			r.took(offer.Steer, c.at, wire.ReceiptDelivered)
			if p := r.turn(turnID).Partial; p != nil && *p != " after" {
				t.Fatalf("partial %q", *p)
			}
		})
	}
}

func TestSQ32_AnEndAfterTheEndSettlesItToo(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID, run, offer := r.offered("A")
		name := hostName(r, run)
		// A process that wrote the status and ended before anything else.
		r.Stop()
		r.must(r.sql.Chat().Update(r.ctx, func(tx gateway.ChatTx) error {
			row, err := tx.Turn(r.ctx, turnID)
			if err != nil {
				return err
			}
			row.Status, row.EndedAt = gateway.TurnCompleted, r.now().UnixMilli()
			return tx.UpdateTurn(r.ctx, row)
		}))
		r.begin()
		r.endFor(run, name, listing(gatewaytest.Failed(wire.CodeModelFailed), offer.DeliveryID, 6, false))
		steers := r.eventsOf(th, gateway.EventInputPrompt)
		n := 0
		for _, e := range steers {
			if e.Mode == gateway.ModeSteer && e.TurnID == turnID {
				n++
			}
		}
		if turn := r.turn(turnID); n != 1 || turn.Status != gateway.TurnCompleted {
			t.Fatalf("%d replacements, turn %s", n, asJSON(t, turn))
		}
		r.took(offer.Steer, 6, wire.ReceiptDelivered)
	})
}

func TestSQ35_AHeldSteerKeepsTheThreadClosed(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID, run, offer := r.offered("A")
		name := hostName(r, run)
		r.must(interrupt(r, th, turnID))
		r.accept()
		r.tick(120*time.Second + 1)
		r.must(r.Sweep(r.ctx))
		later := wantDisposition(t, r.say(th, "later"), gateway.DispositionQueued)
		r.must(r.Sweep(r.ctx))
		if th := r.thread(th); later.TurnID != nil || th.Turn != nil || !th.CancellationRecoveryPending || th.Waiting != 2 {
			t.Fatalf("thread %s", asJSON(t, th))
		}
		r.respawn()
		r.must(r.Sweep(r.ctx))
		r.wantPoll(run, gateway.OfferHeld, "")
		wantCode(t, r.recall(th, offer.EventIDs[0]), gateway.CodeNotRecallable)
		again, err := r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: th, EventID: offer.EventIDs[0], Now: true})
		r.must(err)
		wantDisposition(t, again, gateway.DispositionSteering)
		t.Run("SQ36 the end that lists it binds it to the cancelled turn", func(t *testing.T) {
			r.endFor(run, name, listing(wire.CompletedPayload{Turn: wire.CompletedTurn{Status: wire.NativeInterrupted}}, offer.DeliveryID, 6, true))
			r.took(offer.Steer, 6, wire.ReceiptDelivered)
			r.wantTurn(th, "later")
			r.wantLog(th, began+"control.interrupt output.partial:before turn.cancelled input:later steer:A start:later")
			if e := r.events(th)[7]; e.TurnID != turnID || e.RevokesEventID != offer.EventIDs[0] {
				t.Fatalf("replacement %s", asJSON(t, e))
			}
		})
	})
}

func TestSteer_HeldAndThen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		then func(r *rig, run, virtual string, offer gateway.SteerOffer)
		want string
	}{
		{"the end does not list it", func(r *rig, run, virtual string, _ gateway.SteerOffer) {
			r.endFor(run, virtual, wire.CompletedPayload{Turn: wire.CompletedTurn{Status: wire.NativeInterrupted}})
		}, "input:A?turn_ended start:A"},
		{"a receipt says it was taken", func(r *rig, _, _ string, offer gateway.SteerOffer) {
			r.took(offer.Steer, 6, wire.ReceiptDelivered)
			r.tick(120 * time.Second)
			r.must(r.Sweep(r.ctx))
		}, "steer:A start:later"},
		{"its host stays away", func(r *rig, run, _ string, _ gateway.SteerOffer) {
			r.Waiting(r.ctx, run, "host_offline", time.Time{})
			r.tick(179 * time.Second)
			r.must(r.Sweep(r.ctx))
			r.wantPoll(run, gateway.OfferHeld, "")
			r.tick(time.Second)
			r.must(r.Sweep(r.ctx))
		}, "input:A?turn_ended start:A"},
		{"its host stays away after a restart", func(r *rig, run, _ string, _ gateway.SteerOffer) {
			r.respawn()
			r.tick(180 * time.Second)
			r.must(r.Sweep(r.ctx))
		}, "input:A?turn_ended start:A"},
		{"its host comes back", func(r *rig, run, virtual string, offer gateway.SteerOffer) {
			r.Waiting(r.ctx, run, "host_offline", time.Time{})
			r.tick(170 * time.Second)
			r.Waiting(r.ctx, run, "", time.Time{})
			r.tick(170 * time.Second)
			r.must(r.Sweep(r.ctx))
			r.wantPoll(run, gateway.OfferHeld, "")
			r.endFor(run, virtual, listing(wire.CompletedPayload{Turn: wire.CompletedTurn{Status: wire.NativeInterrupted}}, offer.DeliveryID, 6, false))
		}, "steer:A start:later"},
		{"its host refuses the run", func(r *rig, run, _ string, _ gateway.SteerOffer) {
			r.must(r.Refused(r.ctx, run, nil))
		}, "input:A?turn_ended start:A"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			th, turnID, run, offer := r.offered("A")
			name := hostName(r, run)
			r.must(interrupt(r, th, turnID))
			r.say(th, "later")
			c.then(r, run, name, offer)
			want := began + "control.interrupt output.partial:before turn.cancelled input:later " + c.want
			r.until("the next turn starts", func() bool { return r.thread(th).Turn != nil })
			r.wantLog(th, want)
			if d := r.delivery(offer.DeliveryID); d.Prompt != "" || d.SettledAt == 0 {
				t.Fatalf("delivery %+v", d)
			}
		})
	}
}

func TestSQ37_ATimeoutGivesItBackAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID, run, offer := r.offered("A")
		r.Waiting(r.ctx, run, "host_offline", time.Time{})
		r.tick(3 * minute)
		swept, err := r.SweepTimeouts(r.ctx)
		r.must(err)
		if swept.Cleaned != 1 || swept.Errors != 0 {
			t.Fatalf("swept %+v", swept)
		}
		if turn := r.turn(turnID); turn.Status != gateway.TurnTimeout {
			t.Fatalf("turn %s", asJSON(t, turn))
		}
		r.took(offer.Steer, 6, wire.ReceiptRejected)
		r.wantTurn(th, "A")
		r.wantLog(th, began+"output.partial:before turn.timeout!host_lost input:A?turn_ended start:A")
		t.Run("SQ38 what is sent then waits behind it", func(t *testing.T) {
			late := wantDisposition(t, r.say(th, "late"), gateway.DispositionQueued)
			if late.TurnID != nil {
				t.Fatalf("reply %s", asJSON(t, late))
			}
			r.must(r.recall(th, late.EventID))
		})
		t.Run("a late list changes nothing", func(t *testing.T) {
			before := r.story(th)
			r.endFor(run, offer.Steer.TurnID, listing(gatewaytest.Completed(), offer.DeliveryID, 6, false))
			r.wantLog(th, before)
		})
	})
}

func TestSQ39_ADeletedThreadForgetsIt(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, _, run, offer := r.offered("A")
		name := hostName(r, run)
		r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: th}))
		_, err := r.Receipt(r.ctx, r.host.ID, receiptOf(offer.Steer, 6))
		wantCode(t, err, wire.CodeForbidden)
		r.endFor(run, name, listing(gatewaytest.Failed(wire.CodeModelFailed), offer.DeliveryID, 6, false))
		if d := r.delivery(offer.DeliveryID); d.State.Open() || d.Prompt != "" {
			t.Fatalf("delivery %+v", d)
		}
		next := r.say("", "next")
		r.accept()
		if turn := r.turn(*next.TurnID); turn.Status != gateway.TurnRunning {
			t.Fatalf("turn %s", asJSON(t, turn))
		}
	})
}

func TestReceipt_WaitsForItsText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		then func(r *rig, th, turnID, run string, offer gateway.SteerOffer)
		want string
	}{
		{"it comes", func(r *rig, th, _, run string, _ gateway.SteerOffer) {
			r.host.Say(run, "+more+after")
			r.deliver()
			r.until("the steer is settled", func() bool { return len(r.eventsOf(th, gateway.EventOutputMessage)) == 1 })
		}, "output.message:before+more steer:A"},
		{"the turn is stopped first", func(r *rig, th, turnID, run string, _ gateway.SteerOffer) {
			r.must(interrupt(r, th, turnID))
			r.wantPoll(run, gateway.OfferTerminal, "")
		}, "control.interrupt output.partial:before steer:A turn.cancelled"},
		{"the end comes first", func(r *rig, _, _, run string, offer gateway.SteerOffer) {
			r.endFor(run, hostName(r, run), listing(gatewaytest.Completed(), offer.DeliveryID, 11, false))
		}, "output.message:before steer:A turn.completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			th, turnID, run, offer := r.offered("A")
			r.took(offer.Steer, 11, wire.ReceiptDelivered)
			r.wantLog(th, began[:len(began)-1])
			r.wantPoll(run, gateway.OfferEmpty, "")
			c.then(r, th, turnID, run, offer)
			r.wantLog(th, began+c.want)
			r.took(offer.Steer, 11, wire.ReceiptDelivered)
		})
	}
}

func TestReceipt_Rejected(t *testing.T) {
	t.Parallel()
	for why, note := range map[string]string{
		wire.ReasonTurnOver: "turn_ended", wire.ReasonTurnUnknown: "turn_ended",
		wire.ReasonSteerTooLarge: "payload_too_large", wire.ReasonSteerUnsupported: "steer_unsupported",
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			th, turnID, run, offer := r.offered("A")
			q := receiptOf(offer.Steer, 0)
			q.Outcome, q.Reason = wire.ReceiptRejected, why
			for range 2 {
				got, err := r.Receipt(r.ctx, r.host.ID, q)
				r.must(err)
				if got != wire.ReceiptRejected {
					t.Fatalf("answered %s", got)
				}
			}
			r.wantLog(th, began+"input:A?"+note)
			r.wantPoll(run, gateway.OfferEmpty, "")
			r.over(turnID)
			r.wantTurn(th, "A")
		})
	}
}

func TestOpen_InMidTurnAfterASteer(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.blocks = func() chat.Splitter { return &lines{} } })
	th, turnID, run, offer := r.offered("A")
	r.took(offer.Steer, 6, wire.ReceiptDelivered)
	r.host.Say(run, "one\ntwo")
	r.deliver()
	check := func(t *testing.T) {
		t.Helper()
		for offset, want := range map[int64]string{0: "beforeone\ntwo", 6: "one\ntwo", 9: "\ntwo", 13: ""} {
			reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, HTML: true, Turn: &gateway.TurnOffset{TurnID: turnID, Offset: offset}})
			r.must(err)
			if v := reply.Turn; v.Text != want || v.Next != 13 || v.Offset != offset || v.Resync {
				t.Fatalf("turn from %d: %s", offset, asJSON(t, v))
			}
			if b := reply.Turn.Blocks; len(b) != 1 || b[0].From != 6 || b[0].To != 10 {
				t.Fatalf("blocks %s", asJSON(t, b))
			}
		}
	}
	check(t)
	t.Run("after a restart too", func(t *testing.T) {
		r.restart()
		check(t)
		r.host.Say(run, "!")
		r.over(turnID)
		log := r.eventsOf(th, gateway.EventOutputMessage)
		if e := log[len(log)-1]; *e.From != 6 || *e.To != 14 || *e.Content != "one\ntwo!" {
			t.Fatalf("event %s", asJSON(t, e))
		}
	})
}

func TestSteer_MarkdownBeginsAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.blocks = func() chat.Splitter { return &lines{} } })
	th, _, run, offer := r.offered("A")
	r.host.Say(run, " more\nrest\n") // before the receipt is here
	r.deliver()
	r.took(offer.Steer, 9, wire.ReceiptDelivered)
	reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, HTML: true})
	r.must(err)
	want := []gateway.Block{{From: 9, To: 12, HTML: "<p>re</p>"}, {From: 12, To: 17, HTML: "<p>rest</p>"}}
	if !slices.Equal(reply.Turn.Blocks, want) {
		t.Fatalf("blocks %s", asJSON(t, reply.Turn.Blocks))
	}
}
