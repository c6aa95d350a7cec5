package relaytest

import (
	"context"
	"slices"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// offered is a steer that a turn knows of.
type offered struct {
	relay.Steer
	result  *relay.SteerResult // nil while it waits
	waiting []chan relay.SteerResult
}

func (o *offered) settle(res relay.SteerResult) {
	o.result = &res
	for _, c := range o.waiting {
		c <- res
		close(c)
	}
	o.waiting = nil
}

// OfferSteer implements relay.Runtime: the steer waits until Take, or the end of
// its turn.
func (r *Runtime) OfferSteer(_ context.Context, threadID, turnID string, s relay.Steer) (<-chan relay.SteerResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fails(OfferSteer, false); err != nil {
		return nil, err
	}
	t := r.threads[threadID]
	if t == nil || r.unreadable[threadID] {
		return nil, unavailable("no such thread")
	}
	settled := make(chan relay.SteerResult, 1)
	turn := t.turns[turnID]
	if turn == nil {
		settled <- relay.SteerResult{Reason: wire.ReasonTurnUnknown}
		close(settled)
		return settled, nil
	}
	o := turn.offered(s.DeliveryID)
	if o == nil {
		o = &offered{Steer: s}
		turn.steers = append(turn.steers, o)
		if !turn.status.Live() {
			o.settle(relay.SteerResult{Reason: wire.ReasonTurnOver})
		}
	}
	o.Now = o.Now || s.Now
	o.waiting = append(o.waiting, settled)
	if o.result != nil {
		o.settle(*o.result)
	}
	return settled, r.fails(OfferSteer, true)
}

func (t *nativeTurn) offered(deliveryID string) *offered {
	i := slices.IndexFunc(t.steers, func(o *offered) bool { return o.DeliveryID == deliveryID })
	if i < 0 {
		return nil
	}
	return t.steers[i]
}

// Offered gives the steers that a turn was offered, in order.
func (r *Runtime) Offered(threadID, turnID string) []relay.Steer {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []relay.Steer
	for _, o := range r.threads[threadID].turns[turnID].steers {
		out = append(out, o.Steer)
	}
	return out
}

// Take makes a turn take a steer that it was offered.
func (r *Runtime) Take(threadID, turnID, deliveryID string, at uint64, cut bool) {
	r.mu.Lock()
	r.threads[threadID].turns[turnID].offered(deliveryID).settle(relay.SteerResult{Taken: true, At: at, Cut: cut})
	r.mu.Unlock()
	r.Emit(threadID, turnID, "turn.steered", map[string]any{"delivery_id": deliveryID})
}
