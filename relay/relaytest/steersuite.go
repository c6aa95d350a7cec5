package relaytest

import (
	"context"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// checkSteers: a steer is answered, whatever its turn is, and as it was before.
func checkSteers(t *testing.T, h RuntimeHarness) {
	ctx, r := context.Background(), h.Runtime()
	thread := suiteThread(t, r)
	s := suiteStart(thread, 1)
	steer := relay.Steer{DeliveryID: "00000000-0000-4000-8000-000000000001", Text: "more"}
	offer := func() <-chan relay.SteerResult {
		t.Helper()
		settled, err := r.OfferSteer(ctx, thread, s.TurnID, steer)
		suiteOK(t, err)
		return settled
	}
	want := func(settled <-chan relay.SteerResult, reason string) {
		t.Helper()
		if got, known := <-settled; !known || got != (relay.SteerResult{Reason: reason}) {
			t.Fatalf("settled as %+v (%v), want %q", got, known, reason)
		}
	}
	want(offer(), wire.ReasonTurnUnknown)
	suiteOK(t, r.StartTurn(ctx, s))
	waiting := offer()
	again := offer()
	suiteOK(t, r.InterruptTurn(ctx, thread, s.TurnID))
	want(waiting, wire.ReasonTurnOver)
	want(again, wire.ReasonTurnOver)
	awaitEnd(t, r, s)
	want(offer(), wire.ReasonTurnOver)
	h.Restart()
	r = h.Runtime()
	want(offer(), wire.ReasonTurnOver)
}
