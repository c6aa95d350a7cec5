package native

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// maxTaken is how many steers one turn takes: its turn.completed names them all, and
// has to fit an envelope. What comes beyond waits for the next turn.
const maxTaken = 100

// errSteered is the cause with which a steer cuts a request.
var errSteered = errors.New("native: a steer cut the response")

// offer is a steer that a live turn knows of and has neither taken nor refused.
type offer struct {
	relay.Steer
	waiting []chan<- relay.SteerResult // one for each time that it was offered
}

// answer tells everybody who offered it what became of it.
func (o *offer) answer(res relay.SteerResult) {
	for _, settled := range o.waiting {
		settled <- res
		close(settled)
	}
}

// OfferSteer implements relay.Runtime. A steer without text is refused with
// relay_command_invalid. A turn that never was accepted, and a delivery that another
// turn took, are rejected as turn_unknown; a turn that is over, was told to stop or
// has taken its hundred as turn_over. relay_native_unavailable, shutting_down: nobody
// can know for now.
func (r *Runtime) OfferSteer(ctx context.Context, threadID, turnID string, s relay.Steer) (<-chan relay.SteerResult, error) {
	if s.Text = strings.TrimSpace(s.Text); s.Text == "" {
		return nil, invalid("The message is empty.")
	}
	if err := r.usable(); err != nil {
		return nil, err
	}
	live := r.engines.activeTurn(threadID)
	known, err := r.store.Delivery(ctx, s.DeliveryID)
	settled := make(chan relay.SteerResult, 1)
	switch {
	case err == nil && known.TurnID == turnID && known.ThreadID == threadID:
		settled <- taken(known.Delivered)
	case err == nil:
		settled <- relay.SteerResult{Reason: wire.ReasonTurnUnknown}
	case !errors.Is(err, ErrNotFound):
		return nil, r.failure(err)
	case live != nil && live.record.ID == turnID:
		live.offer(s, settled)
		return settled, nil
	default:
		res, err := r.offerGone(ctx, threadID, turnID)
		if err != nil {
			return nil, err
		}
		settled <- res
	}
	close(settled)
	return settled, nil
}

// offerGone answers for a turn that does not run here.
func (r *Runtime) offerGone(ctx context.Context, threadID, turnID string) (relay.SteerResult, error) {
	t, ok, err := r.ReadTurn(ctx, threadID, turnID)
	switch {
	case err != nil:
		return relay.SteerResult{}, err
	case !ok:
		return relay.SteerResult{Reason: wire.ReasonTurnUnknown}, nil
	case t.Status.Live():
		return relay.SteerResult{}, unavailable(errors.New("the turn is neither running nor over"))
	}
	return relay.SteerResult{Reason: wire.ReasonTurnOver}, nil
}

func taken(d wire.Delivered) relay.SteerResult {
	return relay.SteerResult{Taken: true, At: d.At, Cut: d.Cut}
}

// offer makes the turn know of a steer. Here is where it is in time or too late: no
// other step stands between this and the decision of next.
func (t *turn) offer(s relay.Steer, settled chan<- relay.SteerResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.taken {
		if d.DeliveryID == s.DeliveryID {
			(&offer{waiting: []chan<- relay.SteerResult{settled}}).answer(taken(d))
			return
		}
	}
	i := slices.IndexFunc(t.offers, func(o *offer) bool { return o.DeliveryID == s.DeliveryID })
	switch {
	case t.lost:
		close(settled)
		return
	case i >= 0:
		t.offers[i].waiting = append(t.offers[i].waiting, settled)
		t.offers[i].Now = t.offers[i].Now || s.Now
	case t.sealed || t.interrupted || len(t.taken)+len(t.offers) >= maxTaken:
		settled <- relay.SteerResult{Reason: wire.ReasonTurnOver}
		close(settled)
		return
	default:
		t.offers = append(t.offers, &offer{Steer: s, waiting: []chan<- relay.SteerResult{settled}})
	}
	if s.Now && t.cutNow != nil {
		t.cutNow()
	}
}

// begin opens a provider request, unless a person stopped the turn, the runtime
// closes, or a steer is to cut the response: then it is not made at all.
func (t *turn) begin() (ctx context.Context, done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := context.Cause(t.ctx); err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(t.offers, func(o *offer) bool { return o.Now }) {
		return nil, nil, errSteered
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	t.cutNow = func() { cancel(errSteered) }
	return ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.cutNow = nil
		cancel(nil)
	}, nil
}

// next gives the steer that the turn takes after a response, in the order in which
// they were offered. Without one the end is decided, in the same step: what is
// offered from then on is too late. A response that failed, an incomplete one too,
// ends the turn whatever was offered.
func (t *turn) next(a response) *offer {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := t.interrupted || t.recordErr != nil || context.Cause(t.ctx) != nil
	if !a.cut {
		over = over || t.settle(a).Status != wire.NativeCompleted
	}
	if over || len(t.offers) == 0 {
		t.seal()
		return nil
	}
	t.taking = true
	return t.offers[0]
}

// seal is called with mu held.
func (t *turn) seal() {
	t.sealed, t.taking = true, false
	if t.lost = errors.Is(t.recordErr, ErrIndeterminate); t.lost {
		for _, o := range t.offers {
			for _, settled := range o.waiting {
				close(settled)
			}
		}
		t.offers = nil
	}
	t.refuseOffers()
}

// refuseOffers rejects what was offered, but for the one that is being taken. It is
// called with mu held.
func (t *turn) refuseOffers() {
	kept := 0
	if t.taking {
		kept = 1
	}
	for _, o := range t.offers[kept:] {
		o.answer(relay.SteerResult{Reason: wire.ReasonTurnOver})
	}
	t.offers = t.offers[:kept]
}

// take stores a steer: in one step the response before it ends, the delivery is
// known, and the next round begins with the person's message. Then the turn goes on
// with it. If that cannot be stored the turn ends: as its response did if that was
// whole, else failed.
func (r *Runtime) take(t *turn, a response, o *offer) (ok bool) {
	s := t.step(a, o)
	s.Event = Event{Name: eventSteered, At: r.now(), Payload: steeredPayload(t.record.ID, s.Delivered)}
	err := r.persist(recordPatience, func(ctx context.Context) error { return r.store.TakeSteer(ctx, s) })
	if err != nil {
		if a.cut || errors.Is(err, ErrIndeterminate) {
			t.recordErr = err
		}
		t.mu.Lock()
		t.seal()
		t.mu.Unlock()
		if !errors.Is(err, ErrOver) { // a person stopped the turn
			r.log.Error("a steer could not be stored", slog.String("turn", t.record.ID), slog.Any("error", err))
		}
		return false
	}
	t.engine.conv.add(s.round(t))
	t.advance(a, s)
	t.mu.Lock()
	t.taking, t.offers = false, t.offers[1:]
	t.taken = append(t.taken, s.Delivered)
	o.answer(taken(s.Delivered))
	if t.interrupted {
		t.refuseOffers()
	}
	t.mu.Unlock()
	r.watchers.notify(t.record.ThreadID)
	return true
}

// step is what is stored when o is taken after a.
func (t *turn) step(a response, o *offer) Steering {
	return Steering{
		Step: Step{
			Delivered: wire.Delivered{
				DeliveryID: o.DeliveryID, At: t.shown + uint64(t.answer.Len()), Cut: a.cut,
			},
			ThreadID: t.record.ThreadID, TurnID: t.record.ID,
			Usage: a.result.Usage, ResponseID: a.result.ResponseID, ResponseModel: a.result.Model,
		},
		Answer: t.answer.String(), Reasoning: t.reasoning.String(),
		ItemID: wire.NewNativeID("item"), Text: o.Text,
	}
}

// round is the round that ends with a step.
func (s Steering) round(t *turn) Round {
	round := Round{
		Status: relay.NativeCompleted, Prompt: t.prompt, Images: t.images,
		Answer: s.Answer, Reasoning: s.Reasoning, Route: t.route,
	}
	if s.Cut {
		round.Status, round.Cut = relay.NativeInterrupted, true
	}
	return round
}

// advance makes a stored step the turn's present.
func (t *turn) advance(a response, s Steering) {
	t.request.Messages = append(slices.Clip(t.request.Messages),
		s.round(t).reply(t.route), provider.Message{Role: provider.RoleUser, Text: s.Text})
	if !a.cut {
		if finish := t.settle(a).Finish; finish != "" {
			t.finish = finish
		}
	}
	t.prompt, t.images = s.Text, nil
	t.steps = append(t.steps, s.Step)
	t.shown = s.At
	t.answer, t.reasoning = text{}, text{}
}
