package chat

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Of what a binding had, an admin sees the newest.
const (
	adminTurns    = 50
	adminCommands = 50
	adminEvents   = 30
)

// AdminBinding gives one binding of the admin's org with its reservations, commands
// and last events, without text.
//
// Errors: forbidden, not_found.
func (s *Service) AdminBinding(ctx context.Context, actor gateway.Actor, bindingID string) (gateway.AdminBindingView, error) {
	var view gateway.AdminBindingView
	if err := checkAdmin(actor); err != nil {
		return view, err
	}
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		rows, err := tx.AdminBindings(ctx, actor.OrgID, gateway.Page{BindingID: bindingID, Limit: 1})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return errNotFound()
		}
		run, err := tx.Run(ctx, rows[0].RunID)
		if err != nil {
			return missing(err)
		}
		view = gateway.AdminBindingView{AdminBinding: rows[0], TargetRef: run.TargetRef, SessionID: sessionOf(run)}
		if view.Commands, err = tx.AdminCommands(ctx, run.ID, adminCommands); err != nil {
			return err
		}
		if view.Events, err = tx.AdminEvents(ctx, run.ThreadID, adminEvents); err != nil {
			return err
		}
		view.Turns, err = tx.AdminTurns(ctx, actor.OrgID, gateway.Page{ThreadID: run.ThreadID, BindingID: bindingID, Limit: adminTurns})
		return err
	})
	return view, err
}

// AdminEnd stops a turn of the admin's org in its owner's stead, whether or not its
// host is there: the turn is cancelled at once, and its thread takes the next one
// when the host told the end, or after a limited time (decisions §2.9). Ending again
// what was cancelled changes nothing. It is audited in the same transaction.
//
// Errors: forbidden, not_found, turn_not_active (the turn ended otherwise).
func (s *Service) AdminEnd(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) error {
	if err := s.ofOrg(ctx, actor, req.TurnID); err != nil {
		return err
	}
	end := ending{cause: causeCancelled, reason: reasonEndedByAdmin}
	return s.endTurn(ctx, req.TurnID, end, func(u *unit, t gateway.TurnRow) error {
		switch {
		case t.Status == gateway.TurnCancelled:
			return nil
		case t.Status.Final():
			return errTurnNotActive()
		}
		return u.audit(ctx, actor, gateway.AuditTurnEnded, t.ID)
	})
}

// reasonEndedByAdmin is the reason of a turn that an admin ended.
const reasonEndedByAdmin = "ended_by_admin"

// AdminRelease opens the thread of a cancelled turn whose time for recovery is over,
// but which a steer holds closed that its host never answered (SQ35): the message is
// given back, as when a host stays away. It is audited in the same transaction. A turn
// that ended and holds nothing stays as it is.
//
// Errors: forbidden, not_found, turn_active (it has not ended), bad_request (the time is
// not over).
func (s *Service) AdminRelease(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) error {
	if err := s.ofOrg(ctx, actor, req.TurnID); err != nil {
		return err
	}
	threadID := ""
	err := s.update(ctx, func(u *unit) error {
		t, err := u.lockTurn(ctx, req.TurnID)
		if err != nil {
			return missing(err)
		}
		threadID = t.ThreadID
		switch {
		case !t.Status.Final():
			return errTurnActive()
		case t.RecoverBy == 0:
			return nil
		case u.now < t.RecoverBy:
			return errRecovering(t.RecoverBy)
		}
		if err := s.freeHeld(ctx, u, t); err != nil {
			return err
		}
		if err := s.release(ctx, u, t); err != nil {
			return err
		}
		return u.audit(ctx, actor, gateway.AuditThreadReleased, t.ID)
	})
	if err == nil {
		s.drainSoon(threadID)
	}
	return err
}

func errTurnActive() error {
	return wire.NewError(gateway.CodeTurnActive, "This turn has not ended, so its thread cannot take another. End the turn first.")
}

func errRecovering(until int64) error {
	return wire.NewError(wire.CodeBadRequest, "Its host has until "+
		time.UnixMilli(until).UTC().Format("15:04:05 MST")+" to tell its end. After that the thread opens.")
}

// ofOrg tells whether a turn is of the admin's org.
func (s *Service) ofOrg(ctx context.Context, actor gateway.Actor, turnID string) error {
	if err := checkAdmin(actor); err != nil {
		return err
	}
	return s.store.View(ctx, func(tx gateway.ChatTx) error {
		t, err := tx.Turn(ctx, turnID)
		if errors.Is(err, gateway.ErrNoRow) || err == nil && t.OrgID != actor.OrgID {
			return errNotFound()
		}
		return err
	})
}

// audit records what an admin does, with what it does.
func (u *unit) audit(ctx context.Context, actor gateway.Actor, action gateway.AuditAction, turnID string) error {
	return u.Audit(ctx, gateway.AuditEntry{
		ID: newID(), At: time.UnixMilli(u.now), OrgID: actor.OrgID, AccountID: actor.AccountID,
		Action: action, Target: turnID,
	})
}
