package chat

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Reasons of a pending turn (turn.state.reason).
const (
	reasonHostOffline  = "host_offline"
	reasonNoRoom       = "no_room"
	reasonRouteCooling = "route_cooling"
)

// OpenRuns lists the runs of a host that are not idle.
func (s *Service) OpenRuns(ctx context.Context, hostID string) (runs []string, err error) {
	err = s.store.View(ctx, func(tx gateway.ChatTx) error {
		runs, err = tx.OpenRuns(ctx, hostID)
		return err
	})
	return runs, err
}

// HostOf names the host that owns a run; see gateway.Ledger.
func (s *Service) HostOf(ctx context.Context, runID string) (hostID string, idle bool, err error) {
	err = s.store.View(ctx, func(tx gateway.ChatTx) error {
		run, err := tx.Run(ctx, runID)
		if err != nil {
			return missing(err)
		}
		busy, err := tx.RunBusy(ctx, runID)
		hostID, idle = run.HostID, !busy
		return err
	})
	return hostID, idle, err
}

// Work gives what a run needs; see gateway.Ledger.
func (s *Service) Work(ctx context.Context, runID string) (gateway.RunWork, error) {
	var work gateway.RunWork
	unsent := false
	read := func(tx gateway.ChatTx) ([]gateway.CommandRow, error) {
		run, err := tx.Run(ctx, runID)
		if err != nil {
			return nil, missing(err)
		}
		cmds, err := tx.OpenCommands(ctx, runID)
		if err != nil {
			return nil, err
		}
		busy, err := tx.RunBusy(ctx, runID)
		work, unsent = workOf(run, cmds, !busy)
		return cmds, err
	}
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		_, err := read(tx)
		return err
	})
	if err != nil || !unsent {
		return work, err
	}
	err = s.update(ctx, func(u *unit) error {
		// A turn that ends meanwhile must not have its prompt counted as sent.
		if err := u.lockRun(ctx, runID); err != nil {
			return err
		}
		cmds, err := read(u)
		if err != nil {
			return err
		}
		for _, c := range cmds {
			if c.State != gateway.CommandPending {
				continue
			}
			if err := u.SetCommand(ctx, c.RunID, c.Seq, gateway.CommandSent, c.Error); err != nil {
				return err
			}
			if c.Kind == wire.TypePromptRequest && c.Error == "" {
				if err := u.AddMoment(ctx, c.TurnID, u.now, "sent", work.HostID); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return work, err
}

// lockRun locks the thread of a run.
func (u *unit) lockRun(ctx context.Context, runID string) error {
	run, err := u.Run(ctx, runID)
	if err != nil {
		return missing(err)
	}
	return u.LockThread(ctx, run.ThreadID)
}

// workOf puts together what a host is told of a run; unsent tells that some of
// it is not marked as sent yet.
func workOf(run gateway.RunRow, cmds []gateway.CommandRow, idle bool) (work gateway.RunWork, unsent bool) {
	work = gateway.RunWork{
		RunID: run.ID, HostID: run.HostID, Idle: idle,
		Attach: wire.Attach{
			TargetRef: run.TargetRef, SessionID: sessionOf(run), AccountRef: run.AccountID, RunID: run.ID,
			WorkspaceID: workspaceOf(run), Cursor: run.Cursor,
		},
	}
	if len(cmds) > 0 && cmds[0].Kind == wire.TypePromptRequest {
		work.Generation = generation
	}
	for _, c := range cmds {
		work.Commands = append(work.Commands, wire.CommandMessage{RunID: run.ID, Seq: c.Seq, Command: c.Body})
		unsent = unsent || c.State == gateway.CommandPending
	}
	return work, unsent
}

// Ack records a host's answer to a command; see gateway.Ledger. An answer to a
// command that needs none any more changes nothing, except that an applied one
// still proves that the binding exists.
func (s *Service) Ack(ctx context.Context, ack wire.Ack) error {
	s.lives.hostBack(ack.RunID)
	var cmd gateway.CommandRow
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		cmd, err = tx.Command(ctx, ack.RunID, ack.CommandSeq)
		return err
	})
	if errors.Is(err, gateway.ErrNoRow) {
		return nil
	}
	if err != nil {
		return err
	}
	if ack.Status == wire.AckApplied {
		return s.ackApplied(ctx, cmd)
	}
	failure := ack.Error
	if failure == nil {
		failure = wire.NewError(wire.CodeInternal, "").Body()
	}
	switch {
	case !cmd.State.Open():
		return nil
	case failure.Retryable:
		return s.ackRetry(ctx, cmd, failure.Code)
	}
	return s.ackFailed(ctx, cmd, failure.Code)
}

func (s *Service) ackApplied(ctx context.Context, cmd gateway.CommandRow) error {
	return s.update(ctx, func(u *unit) error {
		t, err := u.lockTurn(ctx, cmd.TurnID)
		if err != nil {
			return err
		}
		now, err := u.Command(ctx, cmd.RunID, cmd.Seq)
		if err != nil {
			return err
		}
		if cmd.Kind == wire.TypePromptRequest {
			if err := u.MarkApplied(ctx, t.BindingID); err != nil {
				return err
			}
		}
		if !now.State.Open() {
			return nil
		}
		if err := u.SetCommand(ctx, cmd.RunID, cmd.Seq, gateway.CommandAcked, ""); err != nil {
			return err
		}
		u.wakes = append(u.wakes, cmd.RunID)
		if cmd.Kind != wire.TypePromptRequest {
			return nil
		}
		return s.markRunning(ctx, u, t)
	})
}

// ackRetry leaves the command to be offered again. Where the code proves that the
// host has nothing of the turn, the command counts as never sent: a cancel then
// need not wait for the host.
func (s *Service) ackRetry(ctx context.Context, cmd gateway.CommandRow, code wire.Code) error {
	if cmd.Kind != wire.TypePromptRequest || !untouched(code) {
		return nil
	}
	threadID := ""
	err := s.update(ctx, func(u *unit) error {
		threadID = ""
		t, err := u.lockTurn(ctx, cmd.TurnID)
		if err != nil {
			return err
		}
		now, err := u.Command(ctx, cmd.RunID, cmd.Seq)
		if err != nil || !now.State.Open() {
			return err
		}
		if !t.Status.Final() {
			return u.SetCommand(ctx, cmd.RunID, cmd.Seq, gateway.CommandPending, code)
		}
		threadID = t.ThreadID
		if err := u.SetCommand(ctx, cmd.RunID, cmd.Seq, gateway.CommandDropped, code); err != nil {
			return err
		}
		return s.hostDone(ctx, u, t)
	})
	if err != nil {
		return err
	}
	if threadID != "" {
		s.drainSoon(threadID)
	} else if code == wire.CodeInferenceBusy {
		s.Waiting(ctx, cmd.RunID, reasonNoRoom, time.Time{})
	}
	return nil
}

// untouched tells whether a retryable code proves that the host has neither
// reserved nor started the turn (RH28, RH34), or that it was not offered there.
func untouched(code wire.Code) bool {
	switch code {
	case wire.CodeInferenceBusy, wire.CodeTurnActive, gateway.CodeHostDraining, gateway.CodeHostOutdated:
		return true
	}
	return false
}

// ackFailed records a refusal that will not change. A refused prompt ends its
// turn if that still waits; a refused interrupt means that the host has nothing to
// stop (RH37), so there is no end to wait for.
func (s *Service) ackFailed(ctx context.Context, cmd gateway.CommandRow, code wire.Code) error {
	end := ending{cause: causeHostRefused, error: endCode(code), hostDone: true}
	return s.endTurn(ctx, cmd.TurnID, end, func(u *unit, t gateway.TurnRow) error {
		now, err := u.Command(ctx, cmd.RunID, cmd.Seq)
		if err != nil || !now.State.Open() {
			return err
		}
		if err := u.SetCommand(ctx, cmd.RunID, cmd.Seq, gateway.CommandFailed, code); err != nil {
			return err
		}
		u.wakes = append(u.wakes, cmd.RunID)
		if !t.Status.Final() {
			return nil
		}
		return s.hostDone(ctx, u, t)
	})
}

// Waiting tells viewers why the pending turn of a run waits, and keeps account of
// hosts that are away; see gateway.Ledger.
func (s *Service) Waiting(_ context.Context, runID, reason string, retryAt time.Time) {
	if reason == reasonHostOffline {
		since := retryAt
		if since.IsZero() || since.After(s.now()) {
			since = s.now()
		}
		s.lives.hostAway(runID, since)
		retryAt = time.Time{}
	} else {
		s.lives.hostBack(runID)
	}
	lt := s.lives.run(runID)
	if lt == nil {
		return
	}
	if st, changed := lt.wait(reason, retryAt); changed {
		s.pushState(s.bus, st)
	}
}

// Refused ends the pending turns of a run whose host refused to attach it, and
// takes back what the host was to be told; a running one is timed out, at once with
// host_lost, else unless the host takes the run again in time. See gateway.Ledger.
func (s *Service) Refused(ctx context.Context, runID string, cause *wire.ErrorBody) error {
	code := wire.CodeInternal
	if cause != nil {
		code = cause.Code
	}
	if lt := s.lives.run(runID); lt != nil {
		end := ending{cause: causeHostRefused, error: endCode(code), abandon: true}
		if err := s.endTurn(ctx, lt.turnID, end, nil); err != nil {
			return err
		}
		if code == wire.CodeHostLost {
			end.cause = causeHostLost
			if err := s.endTurn(ctx, lt.turnID, end, nil); err != nil {
				return err
			}
		}
		// A turn that runs there hears of its host no more than if it were away.
		s.lives.hostAway(runID, s.now())
	}
	threadID := ""
	err := s.update(ctx, func(u *unit) error {
		threadID = ""
		run, err := u.Run(ctx, runID)
		if err != nil {
			return missing(err)
		}
		if err := u.LockThread(ctx, run.ThreadID); err != nil {
			return err
		}
		cmds, err := u.OpenCommands(ctx, runID)
		if err != nil {
			return err
		}
		for _, c := range cmds {
			if c.Kind != wire.TypeRunControl {
				continue
			}
			if err := u.SetCommand(ctx, runID, c.Seq, gateway.CommandFailed, code); err != nil {
				return err
			}
		}
		held, err := u.RecoveringTurns(ctx, run.ThreadID)
		if err != nil {
			return err
		}
		for _, t := range held {
			if t.RunID != runID {
				continue
			}
			if t, err = u.lockTurn(ctx, t.ID); err != nil {
				return err
			}
			if err := s.hostDone(ctx, u, t); err != nil {
				return err
			}
		}
		threadID = run.ThreadID
		return nil
	})
	if err == nil {
		s.drainSoon(threadID)
	}
	return err
}
