package chat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestF24_ASteerIsNeverLostNorTakenTwice gives a steer at each moment at which it
// could get lost. Taken by the turn or first in line with a note: the log says
// which, and one of them alone.
func TestF24_ASteerIsNeverLostNorTakenTwice(t *testing.T) {
	t.Parallel()
	const taken, queued = "steer:A", "input:A?turn_ended start:A"
	for _, c := range []struct {
		name string
		give func(r *rig, th, turnID, run string)
		want string
	}{
		{"before the claim", func(r *rig, th, turnID, run string) {
			r.asSteer(th, "A")
			r.accept()
			r.host.Say(run, "text")
			r.deliver()
			r.took(r.reserve(run, "A").Steer, 4, wire.ReceiptDelivered)
			r.over(turnID)
		}, taken},
		{"before the claim, of a turn that never begins", func(r *rig, th, _, _ string) {
			r.asSteer(th, "A")
			r.tick(10 * minute)
			r.must(r.Sweep(r.ctx))
		}, queued},
		{"after the last delta, unasked", func(r *rig, th, turnID, _ string) {
			r.accept()
			r.asSteer(th, "A")
			r.over(turnID)
		}, queued},
		{"after the last delta, offered too late", func(r *rig, th, turnID, run string) {
			r.accept()
			r.asSteer(th, "A")
			offer := r.reserve(run, "A")
			r.host.End(run, gatewaytest.Completed())
			q := receiptOf(offer.Steer, 0)
			q.Outcome, q.Reason = wire.ReceiptRejected, wire.ReasonTurnOver
			_, err := r.Receipt(r.ctx, r.host.ID, q)
			r.must(err)
			r.deliver()
		}, "input:A?turn_ended turn.completed start:A"},
		{"in the same tick as the end", func(r *rig, th, turnID, run string) {
			r.accept()
			done := make(chan error, 1)
			free := r.hold(th)
			go func() {
				_, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: th, ClientEventID: id(), UserMessage: text("A"), Mode: gateway.ModeSteer})
				done <- err
			}()
			r.host.End(run, gatewaytest.Completed())
			r.must(r.host.Deliver(r.ctx, r.Service, -1))
			free()
			r.must(<-done)
			r.until("the end is durable", r.host.Settled)
		}, ""},
		{"the receipt is lost", func(r *rig, th, _, run string) {
			r.accept()
			r.asSteer(th, "A")
			offer := r.reserve(run, "A")
			r.endFor(run, hostName(r, run), listing(gatewaytest.Completed(), offer.DeliveryID, 0, false))
		}, taken},
		{"the receipt is lost, and the turn stopped", func(r *rig, th, turnID, run string) {
			r.accept()
			r.asSteer(th, "A")
			offer := r.reserve(run, "A")
			r.must(interrupt(r, th, turnID))
			r.restart()
			r.endFor(run, hostName(r, run), listing(wire.CompletedPayload{Turn: wire.CompletedTurn{Status: wire.NativeInterrupted}}, offer.DeliveryID, 0, false))
		}, taken},
		{"the host ends after it was used, and recovers", func(r *rig, th, _, run string) {
			r.accept()
			r.asSteer(th, "A")
			offer := r.reserve(run, "A")
			r.Waiting(r.ctx, run, "host_offline", time.Time{})
			r.tick(minute)
			r.must(r.Sweep(r.ctx))
			r.wantPoll(run, gateway.OfferReserved, "")
			r.endFor(run, hostName(r, run), listing(gatewaytest.Failed(wire.CodeHostRestarted), offer.DeliveryID, 0, false))
		}, taken},
		{"the host ends after it was used, and says so again", func(r *rig, th, turnID, run string) {
			r.accept()
			r.asSteer(th, "A")
			offer := r.reserve(run, "A")
			r.took(offer.Steer, 0, wire.ReceiptDelivered)
			r.restart()
			r.wantPoll(run, gateway.OfferEmpty, "")
			r.took(offer.Steer, 0, wire.ReceiptDelivered)
			r.over(turnID)
		}, taken},
		{"the host ends and stays away", func(r *rig, th, _, run string) {
			r.accept()
			r.asSteer(th, "A")
			r.reserve(run, "A")
			r.Waiting(r.ctx, run, "host_offline", time.Time{})
			r.tick(3 * minute)
			r.must(r.Sweep(r.ctx))
		}, queued},
		{"the gateway ends while it is offered", func(r *rig, th, turnID, run string) {
			r.accept()
			r.asSteer(th, "A")
			offer := r.reserve(run, "A")
			r.restart()
			if again := r.reserve(run, "A"); again.DeliveryID != offer.DeliveryID {
				r.Fatalf("offer %s", asJSON(r, again))
			}
			r.took(offer.Steer, 0, wire.ReceiptDelivered)
			r.over(turnID)
		}, taken},
		{"the turn fails", func(r *rig, th, turnID, run string) {
			r.accept()
			r.asSteer(th, "A")
			r.reserve(run, "A")
			r.end(turnID, gatewaytest.Failed(wire.CodeModelFailed))
		}, queued},
	} {
		t.Run("F24 "+c.name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, r *rig) {
				reply := r.say("", "hello")
				c.give(r, reply.ThreadID, *reply.TurnID, r.runOf(*reply.TurnID))
				r.until("it is taken or started", func() bool {
					log := r.story(reply.ThreadID)
					return strings.Contains(log, "steer:A") || strings.Contains(log, "start:A")
				})
				log := r.story(reply.ThreadID)
				if n := strings.Count(log, "steer:A") + strings.Count(log, "start:A"); n != 1 || !strings.Contains(log, c.want) {
					t.Fatalf("log %s", log)
				}
				if th := r.thread(reply.ThreadID); th.Waiting != 0 {
					t.Fatalf("thread %s", asJSON(t, th))
				}
			})
		})
	}
}
