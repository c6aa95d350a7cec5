package chat

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Receipt records what a host says of a steer; see gateway.Ledger. Where the text
// that the turn had shown before it took the steer is not here yet, the receipt
// waits for it in memory; the end of the turn would list the steer again.
func (s *Service) Receipt(ctx context.Context, hostID string, r wire.Receipt) (wire.ReceiptOutcome, error) {
	var d gateway.DeliveryRow
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		d, err = ownDelivery(ctx, tx, hostID, r)
		return err
	})
	if err != nil {
		return "", err
	}
	s.lives.hostBack(r.RunID)
	if !d.State.Open() {
		return outcomeOf(d.State), nil
	}
	if r.Outcome != wire.ReceiptDelivered {
		return s.rejected(ctx, d, r.Reason)
	}
	took := taking{deliveryID: d.ID, at: count(r.At), cut: r.Cut}
	lt := s.lives.turn(d.TurnID)
	if lt != nil && lt.await(took) {
		return wire.ReceiptDelivered, nil
	}
	return s.took(ctx, lt, d.TurnID, took)
}

// ownDelivery reads a delivery that was offered to a host; all else is forbidden
// to it, whether it exists or not (SQ39, SQ41).
func ownDelivery(ctx context.Context, tx gateway.ChatTx, hostID string, r wire.Receipt) (gateway.DeliveryRow, error) {
	forbidden := wire.NewError(wire.CodeForbidden, "There is no such delivery.")
	if _, err := ownRun(ctx, tx, hostID, r.RunID); err != nil {
		return gateway.DeliveryRow{}, err
	}
	d, err := tx.Delivery(ctx, r.DeliveryID)
	if errors.Is(err, gateway.ErrNoRow) {
		return d, forbidden
	}
	if err != nil {
		return d, err
	}
	t, err := tx.Turn(ctx, d.TurnID)
	if err != nil {
		return d, err
	}
	if t.RunID != r.RunID || t.VirtualTurnID != r.TurnID || d.State == gateway.DeliveryWaiting {
		return d, forbidden
	}
	th, err := tx.Thread(ctx, d.ThreadID)
	if err == nil && th.DeletedAt != 0 {
		err = forbidden
	}
	return d, err
}

func outcomeOf(state gateway.DeliveryState) wire.ReceiptOutcome {
	if state == gateway.DeliveryDelivered {
		return wire.ReceiptDelivered
	}
	return wire.ReceiptRejected
}

// taking is what a host says of a steer that it took: how much text the turn had
// shown by then, and whether the response before it was cut short.
type taking struct {
	deliveryID string
	at         int64
	cut        bool
}

// took settles a steer that a turn has taken, and what stands before it in the
// log. It holds the turn's gate, so that whoever ends the turn meanwhile knows
// which text has its events.
func (s *Service) took(ctx context.Context, lt *live, turnID string, took taking) (wire.ReceiptOutcome, error) {
	if lt != nil {
		lt.gate.Lock()
		defer lt.gate.Unlock()
	}
	text, err := s.textOf(ctx, lt, turnID)
	if err != nil {
		return "", err
	}
	at, before := s.before(turnID, text, took)
	var outcome wire.ReceiptOutcome
	err = s.update(ctx, func(u *unit) error {
		t, err := u.lockTurn(ctx, turnID)
		if err != nil {
			return err
		}
		th, err := u.Thread(ctx, t.ThreadID)
		if err != nil {
			return err
		}
		if th.DeletedAt != 0 {
			return wire.NewError(wire.CodeForbidden, "There is no such delivery.")
		}
		d, err := u.Delivery(ctx, took.deliveryID)
		if err != nil {
			return err
		}
		if outcome = outcomeOf(d.State); !d.State.Open() {
			return nil
		}
		outcome = wire.ReceiptDelivered
		if !t.Status.Final() && len(before) > 0 {
			if err := u.append(ctx, before...); err != nil {
				return err
			}
		}
		return s.deliver(ctx, u, t, d, at)
	})
	if err == nil && lt != nil {
		lt.resplit(s.bus)
	}
	return outcome, err
}

// settleArrived settles, in the background, a steer whose text has come.
func (s *Service) settleArrived(lt *live) {
	took, ok := lt.arrived()
	if !ok {
		return
	}
	s.spawn(func(ctx context.Context) {
		if _, err := s.took(context.WithoutCancel(ctx), lt, lt.turnID, took); err != nil {
			s.log.Error("a steer could not be settled; the end of its turn will", "turn", lt.turnID, "error", err)
		}
	})
}

// before makes the events that stand in the log before a steer, for the text from
// the last one on: a message, or a part of one that was cut. at is where the
// steer stands, as far as there is text, and between characters.
func (s *Service) before(turnID string, text answer, took taking) (at int64, events []*gateway.Event) {
	at = min(took.at, int64(len(text.text)))
	for at > text.from && !runeStart([]byte(text.text), at) {
		at--
	}
	kind := gateway.EventOutputMessage
	if took.cut {
		kind = gateway.EventOutputPartial
	}
	if at <= text.from {
		return text.from, nil
	}
	return at, s.outputs(turnID, kind, answer{text: text.text[:at], from: text.from})
}

// deliver binds an input to the turn that has taken it (SQ29): the message leaves
// the queue, its replacement enters the log. The turn may be final (SQ32, SQ36).
func (s *Service) deliver(ctx context.Context, u *unit, t gateway.TurnRow, d gateway.DeliveryRow, at int64) error {
	e := &gateway.Event{ID: newID(), TurnID: t.ID, RevokesEventID: d.EventID}
	if d.Kind == gateway.DeliveryDeadline {
		e.EventType, e.UserMessage = gateway.EventInputDeadline, plain(d.Prompt)
	} else if err := u.bindSteer(ctx, d.EventID, e); err != nil {
		return err
	}
	if err := u.append(ctx, e); err != nil {
		return err
	}
	d.State, d.Prompt, d.At, d.SettledAt = gateway.DeliveryDelivered, "", at, u.now
	if err := u.UpdateDelivery(ctx, d); err != nil {
		return err
	}
	if err := u.AddMoment(ctx, t.ID, u.now, "steered", string(d.Kind)); err != nil {
		return err
	}
	u.afterCommit(func() {
		s.lives.unhold(t.RunID)
		if lt := s.lives.turn(t.ID); lt != nil {
			lt.flush(d.ID, at)
		}
	})
	if t.Status.Final() {
		return nil
	}
	next, _, err := nextFor(ctx, u, t)
	if next != nil {
		u.wakes = append(u.wakes, t.RunID)
	}
	return err
}

// bindSteer takes a message out of the queue and makes e its replacement.
func (u *unit) bindSteer(ctx context.Context, eventID string, e *gateway.Event) error {
	q, err := u.QueueItem(ctx, eventID)
	if err != nil {
		return err
	}
	if err := u.LockQueueRow(ctx, eventID); err != nil {
		return err
	}
	input, err := u.Event(ctx, eventID)
	if err != nil {
		return err
	}
	if ok, err := u.Dequeue(ctx, eventID); err != nil {
		return err
	} else if !ok {
		return fmt.Errorf("steer %s: the message is gone", eventID)
	}
	e.EventType, e.Mode = gateway.EventInputPrompt, gateway.ModeSteer
	e.OriginID, e.UserMessage = originOf(q), input.UserMessage
	return nil
}

// plain is a message of one text.
func plain(text string) *gateway.UserMessage {
	return &gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "text", Text: text}}}
}

// rejected gives back a steer that its host will never take.
func (s *Service) rejected(ctx context.Context, d gateway.DeliveryRow, why string) (wire.ReceiptOutcome, error) {
	reason := reasonTurnEnded
	switch why {
	case wire.ReasonSteerTooLarge:
		reason = reasonTooLarge
	case wire.ReasonSteerUnsupported:
		reason = reasonUnsupported
	}
	var outcome wire.ReceiptOutcome
	err := s.update(ctx, func(u *unit) error {
		t, err := u.lockTurn(ctx, d.TurnID)
		if err != nil {
			return err
		}
		now, err := u.Delivery(ctx, d.ID)
		if err != nil {
			return err
		}
		outcome = outcomeOf(now.State)
		if !now.State.Open() {
			return nil
		}
		if err := s.giveBack(ctx, u, t, now, reason); err != nil || t.Status.Final() {
			return err
		}
		next, _, err := nextFor(ctx, u, t)
		if next != nil {
			u.wakes = append(u.wakes, t.RunID)
		}
		return err
	})
	return outcome, err
}
