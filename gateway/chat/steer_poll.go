package chat

import (
	"context"
	"errors"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// reasonNotRunning is a poll's answer for a turn that its host has not begun.
const reasonNotRunning = "run_not_running"

// polled is what a poll has found: the answer, or next, which is to be reserved.
type polled struct {
	offer  gateway.SteerOffer
	turnID string
	next   *gateway.DeliveryRow
}

// Poll gives the steer that is to be offered to a running turn; see
// gateway.Ledger. It reads a snapshot first and takes locks only if something is
// to be reserved, so a host that asks never waits for others (SQ24).
func (s *Service) Poll(ctx context.Context, hostID, runID string) (gateway.SteerOffer, error) {
	var p polled
	look := func(tx gateway.ChatTx) (err error) {
		p, err = s.poll(ctx, tx, hostID, runID)
		return err
	}
	if err := s.store.View(ctx, look); err != nil || p.next == nil {
		return p.offer, err
	}
	turnID := p.turnID
	err := s.update(ctx, func(u *unit) error {
		t, err := u.lockTurn(ctx, turnID)
		if err != nil {
			return err
		}
		if err := look(u); err != nil || p.next == nil {
			return err
		}
		if p.turnID != turnID {
			p.offer = gateway.SteerOffer{Outcome: gateway.OfferEmpty} // asked again when that one runs
			return nil
		}
		if err := u.reserve(ctx, *p.next); err != nil {
			return err
		}
		p.offer = reservedOffer(t, *p.next)
		return nil
	})
	return p.offer, err
}

// poll looks at the turn of a run and at what could be offered to it.
func (s *Service) poll(ctx context.Context, tx gateway.ChatTx, hostID, runID string) (polled, error) {
	run, err := ownRun(ctx, tx, hostID, runID)
	if err != nil {
		return polled{}, err
	}
	t, err := tx.ActiveTurn(ctx, run.ThreadID)
	if errors.Is(err, gateway.ErrNoRow) || (err == nil && t.RunID != runID) {
		offer, err := pollEnded(ctx, tx, run)
		return polled{offer: offer}, err
	}
	if err != nil {
		return polled{}, err
	}
	if t.Status != gateway.TurnRunning {
		return polled{offer: gateway.SteerOffer{Outcome: gateway.OfferRejected, Reason: reasonNotRunning}}, nil
	}
	d, err := tx.OpenDelivery(ctx, t.ID)
	if err == nil {
		return polled{offer: s.openOffer(t, d)}, nil
	}
	if !errors.Is(err, gateway.ErrNoRow) {
		return polled{}, err
	}
	p := polled{turnID: t.ID}
	tooLarge := false
	if p.next, tooLarge, err = nextFor(ctx, tx, t); err != nil || p.next != nil {
		return p, err
	}
	p.offer.Outcome = gateway.OfferEmpty
	if tooLarge {
		p.offer = gateway.SteerOffer{Outcome: gateway.OfferRejected, Reason: reasonTooLarge}
	}
	return p, nil
}

// ownRun reads a run that a host owns; all else is forbidden to it, whether it
// exists or not (SQ41).
func ownRun(ctx context.Context, tx gateway.ChatTx, hostID, runID string) (gateway.RunRow, error) {
	run, err := tx.Run(ctx, runID)
	if errors.Is(err, gateway.ErrNoRow) || (err == nil && run.HostID != hostID) {
		return run, wire.NewError(wire.CodeForbidden, "This run is not this host's.")
	}
	return run, err
}

// pollEnded answers for a run without a turn in progress (SQ40).
func pollEnded(ctx context.Context, tx gateway.ChatTx, run gateway.RunRow) (gateway.SteerOffer, error) {
	held, err := tx.RecoveringTurns(ctx, run.ThreadID)
	if err != nil {
		return gateway.SteerOffer{}, err
	}
	for _, t := range held {
		if t.RunID != run.ID {
			continue
		}
		d, err := tx.OpenDelivery(ctx, t.ID)
		if err == nil {
			return gateway.SteerOffer{Outcome: gateway.OfferHeld, DeliveryID: d.ID, EventIDs: []string{d.EventID}}, nil
		}
		if !errors.Is(err, gateway.ErrNoRow) {
			return gateway.SteerOffer{}, err
		}
	}
	return gateway.SteerOffer{Outcome: gateway.OfferTerminal}, nil
}

// openOffer gives a reserved steer again. One that its host has taken already, as
// a receipt that waits for its text says, is not offered any more.
func (s *Service) openOffer(t gateway.TurnRow, d gateway.DeliveryRow) gateway.SteerOffer {
	if lt := s.lives.turn(t.ID); lt != nil && lt.taken(d.ID) {
		return gateway.SteerOffer{Outcome: gateway.OfferEmpty}
	}
	return reservedOffer(t, d)
}

func reservedOffer(t gateway.TurnRow, d gateway.DeliveryRow) gateway.SteerOffer {
	return gateway.SteerOffer{
		Outcome: gateway.OfferReserved, DeliveryID: d.ID, EventIDs: []string{d.EventID},
		Steer: &wire.Steer{RunID: t.RunID, TurnID: t.VirtualTurnID, DeliveryID: d.ID, Text: d.Prompt, Now: d.Now},
	}
}

// nextFor gives what a running turn would be offered next, by time (SQ33): the
// first steer of its thread, or the warning of its deadline. A steer that is too
// large keeps those behind it waiting, but not the warning; so does an owner who is
// disabled, since every steer is one more request to the model.
func nextFor(ctx context.Context, tx gateway.ChatTx, t gateway.TurnRow) (next *gateway.DeliveryRow, large bool, err error) {
	warning, err := waitingWarning(ctx, tx, t.ID)
	if err != nil {
		return nil, false, err
	}
	steers, err := tx.Steers(ctx, t.ThreadID)
	if err != nil || len(steers) == 0 {
		return warning, false, err
	}
	th, err := tx.Thread(ctx, t.ThreadID)
	if err != nil || th.Disabled {
		return warning, false, err
	}
	q := steers[0]
	if warning != nil && warning.CreatedAt < q.CreatedAt {
		return warning, false, nil
	}
	e, err := tx.Event(ctx, q.EventID)
	if err != nil {
		return nil, false, err
	}
	if tooLarge(e.UserMessage) {
		return warning, warning == nil, nil
	}
	return &gateway.DeliveryRow{
		ID: newID(), TurnID: t.ID, ThreadID: t.ThreadID, EventID: q.EventID, Kind: gateway.DeliveryMessage,
		Prompt: steerText(*e.UserMessage), Now: q.Now,
	}, false, nil
}

// reserve binds an input to the turn that it is offered to.
func (u *unit) reserve(ctx context.Context, d gateway.DeliveryRow) error {
	waits := d.State == gateway.DeliveryWaiting
	d.State = gateway.DeliveryReserved
	if waits {
		return u.UpdateDelivery(ctx, d)
	}
	if err := u.LockQueueRow(ctx, d.EventID); err != nil {
		return err
	}
	d.CreatedAt = u.now
	return u.InsertDelivery(ctx, d)
}

// steerText is what the model is told of a steer: the parts of the message in
// order, with one blank line between them (SQ28).
func steerText(m gateway.UserMessage) string {
	var blocks []string
	for _, p := range m.Parts {
		if p.Type == "text" && strings.TrimSpace(p.Text) != "" {
			blocks = append(blocks, p.Text)
		}
	}
	return strings.Join(blocks, "\n\n")
}
