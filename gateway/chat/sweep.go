package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// load takes up the turns that an earlier process left in progress. The hosts of
// running turns count as away until they show themselves.
func (s *Service) load(ctx context.Context) error {
	loaded, holding, err := s.inProgress(ctx)
	if err != nil {
		return fmt.Errorf("load the turns in progress: %w", err)
	}
	for _, runID := range holding {
		s.lives.hold(runID)
		s.lives.hostAway(runID, s.now())
	}
	for _, in := range loaded {
		s.lives.add(in.live)
		s.noteWaiting(in.row)
		if in.row.Status == gateway.TurnRunning {
			s.lives.hostAway(in.row.RunID, s.now())
		}
	}
	return nil
}

// loadedTurn is a turn in progress as the store has it.
type loadedTurn struct {
	row  gateway.TurnRow
	live *live
}

// inProgress reads the turns in progress: their text with the ids of the native
// events in it, so that offsets stand for the same bytes and a repeated event is
// known; and the runs that hold a delivery.
func (s *Service) inProgress(ctx context.Context) (loaded []loadedTurn, holding []string, err error) {
	err = s.store.View(ctx, func(tx gateway.ChatTx) error {
		turns, err := tx.LiveTurns(ctx)
		if err != nil {
			return err
		}
		for _, t := range turns {
			deltas, err := tx.Deltas(ctx, t.ID)
			if err != nil {
				return err
			}
			lt := s.newLive(t)
			flushed, err := flushedTo(ctx, tx, t.ID)
			if err != nil {
				return err
			}
			lt.restore(deltas, flushed)
			if t.Status == gateway.TurnPending && t.MarkerEventID != "" {
				if lt.since, err = promotedAt(ctx, tx, t); err != nil {
					return err
				}
			}
			loaded = append(loaded, loadedTurn{row: t, live: lt})
		}
		holding, err = holdingRuns(ctx, tx)
		return err
	})
	return loaded, holding, err
}

// promotedAt is when a turn went on that had waited for its org.
func promotedAt(ctx context.Context, tx gateway.ChatTx, t gateway.TurnRow) (int64, error) {
	moments, err := tx.Moments(ctx, t.ID)
	at := t.CreatedAt
	for _, m := range moments {
		if m.Stage == stage(gateway.TurnQueued, gateway.TurnPending) {
			at = m.At.UnixMilli()
		}
	}
	return at, err
}

// Swept counts what SweepTimeouts did.
type Swept struct {
	Cleaned int // turns that it ended
	Errors  int // turns that it could not end; the next sweep tries again
}

// Sweep settles by time what nobody else will (F22): turns that wait too long for
// their host, turns whose host stays away, turns that run for too long or nearly
// so, threads that a cancelled turn holds closed, turns whose org has room by now, and idle
// threads in which something waits. Start calls it every Limits.SweepEvery. One
// failure does not keep it from the rest.
func (s *Service) Sweep(ctx context.Context) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	_, timeouts := s.SweepTimeouts(ctx)
	_, deadlines := s.SweepDeadlines(ctx)
	return errors.Join(timeouts, deadlines, s.releaseOverdue(ctx, s.now()), s.promoteAll(ctx), s.drainIdle(ctx))
}

// SweepTimeouts ends the turns whose time is over (SQ37). Nothing that is told of
// it can fail it: hosts are woken and viewers told after each commit. The error
// says what the count of errors is about.
func (s *Service) SweepTimeouts(ctx context.Context) (swept Swept, err error) {
	var errs []error
	now := s.now()
	for _, lt := range s.lives.all() {
		end, due := s.overdue(lt, now)
		if !due {
			continue
		}
		if err := s.endTurn(ctx, lt.turnID, end, nil); err != nil {
			swept.Errors++
			errs = append(errs, fmt.Errorf("end turn %s: %w", lt.turnID, err))
			continue
		}
		swept.Cleaned++
	}
	return swept, errors.Join(errs...)
}

// overdue tells whether a live turn has to be ended, and how.
func (s *Service) overdue(lt *live, now time.Time) (ending, bool) {
	status, started, reason := lt.standing()
	since, away := s.lives.awaySince(lt.runID)
	switch {
	case status == gateway.TurnRunning && away && now.Sub(since) >= s.limits.HostSilence:
		return ending{cause: causeHostLost, error: wire.CodeHostLost, abandon: true}, true
	case status == gateway.TurnRunning:
		return ending{cause: causeDeadline, error: wire.CodeTurnDeadline, abandon: true},
			now.UnixMilli()-started >= s.limits.TurnDeadline.Milliseconds()
	case status != gateway.TurnPending:
		return ending{}, false // it waits for its org
	case reason == reasonNoRoom, reason == reasonRouteCooling:
		return ending{}, false // its host is there and will take it
	}
	from := lt.pendingSince()
	if away {
		from = max(from, since.UnixMilli())
	}
	return ending{cause: causeNeverTaken, error: wire.CodeHostOffline, abandon: true},
		now.UnixMilli()-from >= s.limits.PendingTimeout.Milliseconds()
}

// releaseOverdue opens the threads whose cancelled turns were given up.
func (s *Service) releaseOverdue(ctx context.Context, now time.Time) error {
	var held []gateway.TurnRow
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		held, err = tx.RecoveringTurns(ctx, "")
		return err
	})
	if err != nil {
		return fmt.Errorf("look for recovering turns: %w", err)
	}
	for _, t := range held {
		if now.UnixMilli() < t.RecoverBy {
			continue
		}
		err := s.update(ctx, func(u *unit) error {
			t, err := u.lockTurn(ctx, t.ID)
			if err != nil {
				return err
			}
			if held, err := s.stillHeld(ctx, u, t, now); err != nil || held {
				return err
			}
			return s.release(ctx, u, t)
		})
		if err != nil {
			return fmt.Errorf("release the thread of turn %s: %w", t.ID, err)
		}
	}
	return nil
}
