package chat

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// answer is the text that was shown of a turn. Output events stand for the bytes
// before from, those before its last steer; after a restart the text may for a
// moment be shorter than that.
type answer struct {
	text string
	from int64
}

// rest is the text that no output event stands for yet.
func (a answer) rest() string { return a.text[min(a.from, int64(len(a.text))):] }

// answerOf puts the stored text of a turn together.
func answerOf(ctx context.Context, tx gateway.ChatTx, turnID string, deltas []gateway.DeltaRow) (a answer, err error) {
	for _, d := range deltas {
		a.text += d.Text
	}
	a.from, err = flushedTo(ctx, tx, turnID)
	return a, err
}

// flushedTo is up to where output events stand for the text of a turn in progress.
func flushedTo(ctx context.Context, tx gateway.ChatTx, turnID string) (at int64, err error) {
	list, err := tx.Deliveries(ctx, turnID)
	for _, d := range list {
		if d.State == gateway.DeliveryDelivered {
			at = max(at, d.At)
		}
	}
	return at, err
}

// openListed finds among the steers that the end of a turn lists the one that is
// open, if any: of a turn only one can be.
func openListed(ctx context.Context, tx gateway.ChatTx, turnID string, listed []wire.Delivered) (*taking, error) {
	d, err := tx.OpenDelivery(ctx, turnID)
	if errors.Is(err, gateway.ErrNoRow) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, l := range listed {
		if l.DeliveryID == d.ID {
			return &taking{deliveryID: d.ID, at: count(l.At), cut: l.Cut}, nil
		}
	}
	return nil, nil
}

// prepareListed finds where the open steer stands that the end of a turn in
// progress lists: what remains of the text is what follows it.
func (s *Service) prepareListed(ctx context.Context, turnID string, end *hostEnd) error {
	if len(end.listed) == 0 {
		return nil
	}
	var took *taking
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		took, err = openListed(ctx, tx, turnID, end.listed)
		return err
	})
	if err != nil || took == nil {
		return err
	}
	end.at, end.before = s.before(turnID, end.text, *took)
	end.text.from = end.at
	return nil
}

// deliverListed settles the steer that the end of a turn lists and no receipt has
// settled (SQ31), whether the turn is final or not (SQ32, SQ36).
func (s *Service) deliverListed(ctx context.Context, u *unit, t gateway.TurnRow, end hostEnd) error {
	if len(end.listed) == 0 {
		return nil
	}
	if !t.Status.Final() {
		if err := u.append(ctx, end.before...); err != nil {
			return err
		}
	}
	took, err := openListed(ctx, u, t.ID, end.listed)
	if err != nil || took == nil {
		return err
	}
	d, err := u.Delivery(ctx, took.deliveryID)
	if err != nil {
		return err
	}
	at := end.at
	if t.Status.Final() {
		at = took.at
	}
	return s.deliver(ctx, u, t, d, at)
}

// deliverTaken settles a steer that the host of an ending turn has taken, while
// the text before it never came: all that came stands before it.
func (s *Service) deliverTaken(ctx context.Context, u *unit, t gateway.TurnRow) error {
	lt := s.lives.turn(t.ID)
	if lt == nil {
		return nil
	}
	d, err := u.OpenDelivery(ctx, t.ID)
	if errors.Is(err, gateway.ErrNoRow) {
		return nil
	}
	if err != nil || !lt.taken(d.ID) {
		return err
	}
	text := lt.shown()
	return s.deliver(ctx, u, t, d, max(text.from, int64(len(text.text))))
}

// leaveSteers settles what a turn leaves behind that ends now, in the same
// transaction and before anything else can start: a delivery that is open is held
// while the host of a cancelled turn owes its end (SQ35), else given back; the
// warning of its deadline ends with it (SQ34, SQ46); every steer that was not
// offered goes first in line, with a note.
func (s *Service) leaveSteers(ctx context.Context, u *unit, t gateway.TurnRow) error {
	list, err := u.Deliveries(ctx, t.ID)
	if err != nil {
		return err
	}
	reserved := ""
	for _, d := range list {
		switch {
		case d.State == gateway.DeliveryWaiting:
			err = u.expire(ctx, t, d)
		case !d.State.Open():
		case t.Status == gateway.TurnCancelled && t.RecoverBy != 0:
			d.State, reserved = gateway.DeliveryHeld, d.EventID
			err = u.UpdateDelivery(ctx, d)
			u.afterCommit(func() { s.lives.hold(t.RunID) })
		default:
			err = s.giveBack(ctx, u, t, d, reasonTurnEnded)
		}
		if err != nil {
			return err
		}
	}
	steers, err := u.Steers(ctx, t.ThreadID)
	if err != nil {
		return err
	}
	for _, q := range steers {
		if q.EventID == reserved {
			continue
		}
		if err := u.requeue(ctx, &q, reasonTurnEnded); err != nil {
			return err
		}
	}
	return nil
}

// giveBack settles an open delivery that its turn has not taken: the message goes
// first in line, with a note; a warning is never queued (SQ46).
func (s *Service) giveBack(ctx context.Context, u *unit, t gateway.TurnRow, d gateway.DeliveryRow, reason string) error {
	u.afterCommit(func() { s.lives.unhold(t.RunID) })
	if d.Kind == gateway.DeliveryDeadline {
		return u.expire(ctx, t, d)
	}
	d.State, d.Prompt, d.SettledAt = gateway.DeliveryReleased, "", u.now
	if err := u.UpdateDelivery(ctx, d); err != nil {
		return err
	}
	q, err := u.QueueItem(ctx, d.EventID)
	if err != nil {
		return err
	}
	return u.requeue(ctx, &q, reason)
}

// expire ends the warning of a deadline that no turn has taken.
func (u *unit) expire(ctx context.Context, t gateway.TurnRow, d gateway.DeliveryRow) error {
	d.State, d.Prompt, d.SettledAt = gateway.DeliveryExpired, "", u.now
	if err := u.UpdateDelivery(ctx, d); err != nil {
		return err
	}
	return u.append(ctx, &gateway.Event{
		ID: newID(), EventType: gateway.EventControlRevoke, TurnID: t.ID, RevokesEventID: d.EventID,
	})
}

// freeHeld gives back what a final turn holds whose host has nothing of it any
// more.
func (s *Service) freeHeld(ctx context.Context, u *unit, t gateway.TurnRow) error {
	if !t.Status.Final() {
		return nil
	}
	d, err := u.OpenDelivery(ctx, t.ID)
	if errors.Is(err, gateway.ErrNoRow) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.giveBack(ctx, u, t, d, reasonTurnEnded)
}

// stillHeld tells whether a cancelled turn keeps its thread closed beyond its
// recovery, since its host may have taken what is held (SQ35). Once the host has
// been silent for too long that is given up, and the message given back.
func (s *Service) stillHeld(ctx context.Context, u *unit, t gateway.TurnRow, now time.Time) (bool, error) {
	_, err := u.OpenDelivery(ctx, t.ID)
	if errors.Is(err, gateway.ErrNoRow) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	since, away := s.lives.awaySince(t.RunID)
	if !away || now.Sub(since) < s.limits.HostSilence {
		return true, nil
	}
	return false, s.freeHeld(ctx, u, t)
}

// holdOffered keeps a thread closed whose first message is offered to a turn that is
// over, as a process leaves it that ends in the middle (SQ32): the turn's host says
// what became of it, as after a cancel.
func (s *Service) holdOffered(ctx context.Context, u *unit, q gateway.QueueRow) (bool, error) {
	d, err := u.DeliveryOfEvent(ctx, q.EventID)
	if errors.Is(err, gateway.ErrNoRow) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	t, err := u.lockTurn(ctx, d.TurnID)
	if err != nil {
		return false, err
	}
	d.State, t.RecoverBy, u.touch = gateway.DeliveryHeld, s.recoverBy(u), true
	if err := u.UpdateDelivery(ctx, d); err != nil {
		return false, err
	}
	u.afterCommit(func() { s.lives.hold(t.RunID) })
	return true, u.UpdateTurn(ctx, t)
}

// holdingRuns lists the runs whose cancelled turn holds a delivery.
func holdingRuns(ctx context.Context, tx gateway.ChatTx) (runs []string, err error) {
	recovering, err := tx.RecoveringTurns(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, t := range recovering {
		_, err := tx.OpenDelivery(ctx, t.ID)
		if err == nil {
			runs = append(runs, t.RunID)
		} else if !errors.Is(err, gateway.ErrNoRow) {
			return nil, err
		}
	}
	return runs, nil
}

// dropDeliveries settles what is offered in a thread that is being deleted.
func (s *Service) dropDeliveries(ctx context.Context, u *unit, th gateway.ThreadRow) error {
	turns, err := u.RecoveringTurns(ctx, th.ID)
	if err != nil {
		return err
	}
	if th.Active != nil {
		turns = append(turns, gateway.TurnRow{ID: th.Active.TurnID})
	}
	for _, t := range turns {
		list, err := u.Deliveries(ctx, t.ID)
		if err != nil {
			return err
		}
		for _, d := range list {
			if d.State != gateway.DeliveryWaiting && !d.State.Open() {
				continue
			}
			d.State, d.Prompt, d.SettledAt = gateway.DeliveryExpired, "", u.now
			if err := u.UpdateDelivery(ctx, d); err != nil {
				return err
			}
		}
		u.afterCommit(func() { s.lives.unhold(t.RunID) })
	}
	return nil
}
