package chat

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// ending says how and why a turn ends.
type ending struct {
	cause   cause
	error   wire.Code
	reason  string
	finish  string
	retryAt string
	// hostDone tells that the host has nothing of the turn any more, or never had.
	hostDone bool
	// abandon tells that the prompt must not reach a host any more, even if
	// nobody knows whether it did.
	abandon bool
}

// status is the state that the turn ends in.
func (e ending) status() gateway.TurnStatus { return e.cause.leads() }

// output is the kind of event in which the text that was shown stays: a message
// only of a completed turn (DT49), none where the text does not stand.
func (e ending) output() gateway.EventType {
	switch {
	case e.status() == gateway.TurnCompleted:
		return gateway.EventOutputMessage
	case e.retracts():
		return ""
	}
	return gateway.EventOutputPartial
}

// retracts tells whether the shown text does not stand (decisions §2.13).
func (e ending) retracts() bool { return e.error == wire.CodeModelOutputIncomplete }

func (e ending) event() gateway.EventType {
	switch e.status() {
	case gateway.TurnCompleted:
		return gateway.EventTurnCompleted
	case gateway.TurnCancelled:
		return gateway.EventTurnCancelled
	case gateway.TurnTimeout:
		return gateway.EventTurnTimeout
	}
	return gateway.EventTurnFailed
}

// outputs makes the events that stand for the text of a turn that none stands for
// yet: ranges without gap or overlap, each at most MaxOutputEventBytes. It renders
// them, so it is called outside of transactions.
func (s *Service) outputs(turnID string, kind gateway.EventType, text answer) []*gateway.Event {
	if kind == "" {
		return nil
	}
	var events []*gateway.Event
	at := text.from
	for _, piece := range cut(text.rest(), gateway.MaxOutputEventBytes) {
		from, to := at, at+int64(len(piece))
		events = append(events, &gateway.Event{
			ID: newID(), EventType: kind, TurnID: turnID, Content: &piece, From: &from, To: &to,
		})
		at = to
	}
	s.html.prepare(events)
	return events
}

// textOf is the text that was shown of a turn so far.
func (s *Service) textOf(ctx context.Context, lt *live, turnID string) (answer, error) {
	if err := s.refresh(ctx); err != nil {
		return answer{}, err
	}
	if lt != nil {
		return lt.shown(), nil
	}
	var text answer
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		deltas, err := tx.Deltas(ctx, turnID)
		if err != nil {
			return err
		}
		text, err = answerOf(ctx, tx, turnID, deltas)
		return err
	})
	return text, err
}

// settle writes the end of a turn that is not final: what stays of its text, the
// terminal event, and what its host must be told. The caller has made outputs by
// ending.output. It holds the turn's gate, or the host has told the end.
func (s *Service) settle(ctx context.Context, u *unit, t gateway.TurnRow, e ending, text answer, outputs []*gateway.Event) error {
	t.Error, t.Reason = e.error, e.reason
	known := false
	if !e.hostDone {
		var err error
		if known, err = s.stopAtHost(ctx, u, t, e); err != nil {
			return err
		}
		if known && e.status() == gateway.TurnCancelled {
			t.RecoverBy = s.recoverBy(u)
		}
	}
	if err := s.estimate(ctx, u, &t, known, text.text); err != nil {
		return err
	}
	if rest := text.rest(); e.retracts() && rest != "" {
		t.Partial, u.retract = &rest, t.ID
	}
	if err := u.append(ctx, append(unmark(t), outputs...)...); err != nil {
		return err
	}
	if err := s.deliverTaken(ctx, u, t); err != nil {
		return err
	}
	if err := u.append(ctx, &gateway.Event{
		ID: newID(), EventType: e.event(), TurnID: t.ID, Error: e.error, Reason: e.reason, Finish: e.finish, RetryAt: e.retryAt,
	}); err != nil {
		return err
	}
	if err := u.DropDeltas(ctx, t.ID); err != nil {
		return err
	}
	detail := string(e.error)
	if detail == "" {
		detail = e.reason
	}
	if err := u.transition(ctx, &t, e.cause, detail); err != nil {
		return err
	}
	if err := s.leaveSteers(ctx, u, t); err != nil {
		return err
	}
	u.wakes = append(u.wakes, t.RunID)
	s.over(u, t)
	return nil
}

// over lets memory forget a turn that has just become final, and offers its place
// to the next turn of the org.
func (s *Service) over(u *unit, t gateway.TurnRow) {
	u.afterCommit(func() {
		if lt := s.lives.turn(t.ID); lt != nil {
			s.lives.remove(lt)
		}
		s.waiting.remove(t.OrgID, t.ID)
		s.promoteSoon(t.OrgID)
	})
}

// recoverBy is when a turn that is cancelled now is given up by its thread.
func (s *Service) recoverBy(u *unit) int64 { return u.now + s.limits.CancelRecovery.Milliseconds() }

// stopAtHost sees to it that a turn does not go on at its host. A prompt that was
// never given to a host is dropped (SQ23), and known is false: there is nothing
// to recover. Else an interrupt is queued behind it (decisions §2.21).
func (s *Service) stopAtHost(ctx context.Context, u *unit, t gateway.TurnRow, e ending) (known bool, err error) {
	cmds, err := u.TurnCommands(ctx, t.ID)
	if err != nil {
		return false, err
	}
	stopped := false
	for _, c := range cmds {
		switch {
		case c.Kind == wire.TypeRunControl:
			stopped = true
		case c.State == gateway.CommandPending, c.State == gateway.CommandParked:
			err = u.SetCommand(ctx, c.RunID, c.Seq, gateway.CommandDropped, "")
		case c.State == gateway.CommandSent:
			known = true
			if e.abandon {
				err = u.SetCommand(ctx, c.RunID, c.Seq, gateway.CommandDropped, "")
			}
		case c.State == gateway.CommandAcked:
			known = true
		}
		if err != nil {
			return known, err
		}
	}
	if !known || stopped {
		return known, nil
	}
	return known, s.sendInterrupt(ctx, u, t, string(e.status()))
}

func (s *Service) sendInterrupt(ctx context.Context, u *unit, t gateway.TurnRow, reason string) error {
	b, err := u.Binding(ctx, t.BindingID)
	if err != nil {
		return fmt.Errorf("interrupt %s: %w", t.ID, err)
	}
	_, err = u.AppendCommand(ctx, gateway.CommandRow{
		RunID: t.RunID, TurnID: t.ID, Kind: wire.TypeRunControl, CreatedAt: u.now,
		Body: encode(wire.RunControl{
			Type: wire.TypeRunControl, RunID: t.RunID, Action: "interrupt", Reason: reason,
			TurnID: t.VirtualTurnID, RuntimeBindingID: b.ID, RuntimeThreadID: b.VirtualThreadID,
		}),
	})
	return err
}

// hostDone closes the account of a turn with its host: it drops what the host
// need not be told any more and opens the thread again if the turn held it. That
// goes for an interrupt that counts as sent too: a host may have nothing but a
// retryable answer to it (RH38), and what comes after it in the run would wait.
func (s *Service) hostDone(ctx context.Context, u *unit, t gateway.TurnRow) error {
	cmds, err := u.TurnCommands(ctx, t.ID)
	if err != nil {
		return err
	}
	for _, c := range cmds {
		if c.Kind == wire.TypeRunControl && c.State.Open() {
			if err := u.SetCommand(ctx, c.RunID, c.Seq, gateway.CommandDropped, ""); err != nil {
				return err
			}
		}
	}
	if err := s.freeHeld(ctx, u, t); err != nil {
		return err
	}
	return s.release(ctx, u, t)
}

// release opens the thread that a cancelled turn held closed; what its host was
// to be told stays.
func (s *Service) release(ctx context.Context, u *unit, t gateway.TurnRow) error {
	if t.RecoverBy == 0 {
		return nil
	}
	t.RecoverBy = 0
	u.touch = true
	u.turnID = t.ID
	u.wakes = append(u.wakes, t.RunID)
	if err := u.AddMoment(ctx, t.ID, u.now, "released", ""); err != nil {
		return err
	}
	return u.UpdateTurn(ctx, t)
}

// endTurn ends a turn in its host's stead. also, if given, runs in the same
// transaction, whatever the state of the turn. A turn that the cause does not
// change stays as it is. Afterwards the thread's queue is looked at.
func (s *Service) endTurn(ctx context.Context, turnID string, e ending, also func(u *unit, t gateway.TurnRow) error) error {
	lt := s.lives.turn(turnID)
	if lt != nil {
		lt.gate.Lock()
		defer lt.gate.Unlock()
	}
	text, err := s.textOf(ctx, lt, turnID)
	if err != nil {
		return err
	}
	outputs := s.outputs(turnID, e.output(), text)
	threadID := ""
	err = s.update(ctx, func(u *unit) error {
		t, err := u.lockTurn(ctx, turnID)
		if errors.Is(err, gateway.ErrNoRow) {
			return nil
		}
		if err != nil {
			return err
		}
		threadID = t.ThreadID
		if also != nil {
			if err := also(u, t); err != nil {
				return err
			}
		}
		if _, ok := next(t.Status, e.cause); !ok {
			return nil
		}
		return s.settle(ctx, u, t, e, text, outputs)
	})
	if err == nil && threadID != "" {
		s.drainSoon(threadID)
	}
	return err
}

// lockTurn locks a turn and its thread, which the unit is about from then on.
func (u *unit) lockTurn(ctx context.Context, turnID string) (gateway.TurnRow, error) {
	t, err := u.Turn(ctx, turnID)
	if err != nil {
		return t, err
	}
	if err := u.LockThread(ctx, t.ThreadID); err != nil {
		return t, err
	}
	if err := u.LockTurn(ctx, turnID); err != nil {
		return t, err
	}
	u.orgID, u.accountID, u.threadID, u.turnID = t.OrgID, t.AccountID, t.ThreadID, t.ID
	return u.Turn(ctx, turnID)
}
