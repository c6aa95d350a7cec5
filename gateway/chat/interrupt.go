package chat

import (
	"context"
	"errors"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Interrupt stops a turn (SQ16–SQ20). In one transaction it appends
// control.interrupt under the client's id, an output.partial with all text that
// was published so far, and turn.cancelled; the reply follows the commit. The
// thread takes no new turn until the host told the end, or for a limited time.
//
// Errors: client_event_id_in_use, not_found, turn_not_active (the turn ended
// otherwise).
func (s *Service) Interrupt(ctx context.Context, actor gateway.Actor, req gateway.InterruptRequest) (gateway.SendReply, error) {
	var none gateway.SendReply
	hash := hashOf(req.TurnID)
	first, err := s.spent(ctx, req.ClientEventID)
	if err != nil {
		return none, err
	}
	if first != nil {
		return replay(*first, actor, gateway.ClientInterrupt, hash)
	}
	if err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		_, _, err := ownTurn(ctx, tx, actor, req)
		return err
	}); err != nil {
		return none, err
	}
	lt := s.lives.turn(req.TurnID)
	if lt != nil {
		lt.gate.Lock()
		defer lt.gate.Unlock()
	}
	text, err := s.textOf(ctx, lt, req.TurnID)
	if err != nil {
		return none, err
	}
	kept := s.outputs(req.TurnID, gateway.EventOutputPartial, text)
	var reply gateway.SendReply
	err = s.update(ctx, func(u *unit) error {
		first, fresh, err := u.ClaimClientEvent(ctx, gateway.ClientEvent{
			ID: req.ClientEventID, AccountID: actor.AccountID, Kind: gateway.ClientInterrupt, ContentHash: hash, CreatedAt: u.now,
		})
		if err != nil {
			return err
		}
		if !fresh {
			reply, err = replay(first, actor, gateway.ClientInterrupt, hash)
			return err
		}
		if reply, err = s.interrupt(ctx, u, actor, req, kept); err != nil {
			return err
		}
		return u.SetClientReply(ctx, req.ClientEventID, encode(reply), true)
	})
	if err == nil {
		s.drainSoon(req.ThreadID)
	}
	return reply, err
}

// ownTurn reads a turn of the actor in the thread that the request names.
func ownTurn(ctx context.Context, tx gateway.ChatTx, actor gateway.Actor, req gateway.InterruptRequest) (gateway.ThreadRow, gateway.TurnRow, error) {
	th, err := ownThread(ctx, tx, actor, req.ThreadID)
	if err != nil {
		return th, gateway.TurnRow{}, err
	}
	t, err := tx.Turn(ctx, req.TurnID)
	if err != nil {
		return th, t, missing(err)
	}
	if t.ThreadID != th.ID {
		return th, gateway.TurnRow{}, errNotFound()
	}
	return th, t, nil
}

func (s *Service) interrupt(ctx context.Context, u *unit, actor gateway.Actor, req gateway.InterruptRequest, kept []*gateway.Event) (gateway.SendReply, error) {
	reply := gateway.SendReply{
		ThreadID: req.ThreadID, EventID: req.ClientEventID, Disposition: gateway.DispositionInterrupted,
	}
	if err := u.LockThread(ctx, req.ThreadID); err != nil {
		return reply, err
	}
	th, t, err := ownTurn(ctx, u, actor, req)
	if err != nil {
		return reply, err
	}
	u.of(th)
	switch {
	case !t.Status.Final():
		return reply, s.interruptTurn(ctx, u, t, req.ClientEventID, kept)
	case t.Interrupted:
		return reply, nil
	}
	return reply, errTurnNotActive()
}

// interruptTurn cancels a turn that is not final, for its owner. The caller holds
// its gate, and kept is what stays of its text.
func (s *Service) interruptTurn(ctx context.Context, u *unit, t gateway.TurnRow, eventID string, kept []*gateway.Event) error {
	if err := u.LockTurn(ctx, t.ID); err != nil {
		return err
	}
	err := u.append(ctx, &gateway.Event{
		ID: eventID, EventType: gateway.EventControlInterrupt, InterruptsTurnID: t.ID,
	})
	if errors.Is(err, gateway.ErrRowExists) {
		return errClientEventInUse()
	}
	if err != nil {
		return err
	}
	t.Interrupted = true
	var text answer
	if lt := s.lives.turn(t.ID); lt != nil {
		text = lt.shown()
	}
	return s.settle(ctx, u, t, ending{cause: causeInterrupted, reason: "interrupted"}, text, kept)
}

// CancelTurn stops a turn without an event of its owner's in the log (SQ20, SQ23):
// its text so far and turn.cancelled are all that is appended. Cancelling again is
// answered alike.
//
// Errors: not_found, turn_not_active (the turn ended otherwise).
func (s *Service) CancelTurn(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) (gateway.SendReply, error) {
	reply := gateway.SendReply{Disposition: gateway.DispositionInterrupted}
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		t, err := tx.Turn(ctx, req.TurnID)
		if err != nil {
			return missing(err)
		}
		reply.ThreadID = t.ThreadID
		_, err = ownThread(ctx, tx, actor, t.ThreadID)
		return err
	})
	if err != nil {
		return gateway.SendReply{}, err
	}
	end := ending{cause: causeCancelled, reason: "cancelled"}
	err = s.endTurn(ctx, req.TurnID, end, func(_ *unit, t gateway.TurnRow) error {
		if t.Status.Final() && t.Status != gateway.TurnCancelled {
			return errTurnNotActive()
		}
		return nil
	})
	if err != nil {
		return gateway.SendReply{}, err
	}
	return reply, nil
}

func errTurnNotActive() error {
	return wire.NewError(gateway.CodeTurnNotActive, "This turn has ended already.")
}
