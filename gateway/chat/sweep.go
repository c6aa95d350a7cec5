package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// load takes up the turns that an earlier process left in progress: their text
// with the ids of the native events in it, so that offsets stand for the same
// bytes and a repeated event is known. Their hosts count as away until they show
// themselves.
func (s *Service) load(ctx context.Context) error {
	var loaded []*live
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
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
			lt.restore(deltas)
			loaded = append(loaded, lt)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load the turns in progress: %w", err)
	}
	for _, lt := range loaded {
		s.lives.add(lt)
		s.lives.hostAway(lt.runID, s.now())
	}
	return nil
}

// Sweep settles by time what nobody else will (F22): turns that wait too long for
// their host, turns whose host stays away, turns that run for too long, threads that a cancelled turn holds
// closed, and idle threads in which something waits. Start calls it every
// Limits.SweepEvery. One failure does not keep it from the rest.
func (s *Service) Sweep(ctx context.Context) error {
	var errs []error
	now := s.now()
	for _, lt := range s.lives.all() {
		if end, due := s.overdue(lt, now); due {
			if err := s.endTurn(ctx, lt.turnID, end, nil); err != nil {
				errs = append(errs, fmt.Errorf("end turn %s: %w", lt.turnID, err))
			}
		}
	}
	errs = append(errs, s.releaseOverdue(ctx, now), s.drainIdle(ctx))
	return errors.Join(errs...)
}

// overdue tells whether a live turn has to be ended, and how.
func (s *Service) overdue(lt *live, now time.Time) (ending, bool) {
	status, started, reason := lt.standing()
	if status == gateway.TurnRunning {
		since, away := s.lives.awaySince(lt.runID)
		if away && now.Sub(since) >= s.limits.HostSilence {
			return ending{status: gateway.TurnTimeout, error: wire.CodeHostLost, abandon: true}, true
		}
		return ending{status: gateway.TurnTimeout, error: wire.CodeTurnDeadline, abandon: true},
			now.UnixMilli()-started >= s.limits.TurnDeadline.Milliseconds()
	}
	if reason != "" && reason != reasonHostOffline {
		return ending{}, false // its host is there and will take it
	}
	return ending{status: gateway.TurnFailed, error: wire.CodeHostOffline, onlyPending: true, abandon: true},
		now.UnixMilli()-lt.created >= s.limits.PendingTimeout.Milliseconds()
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
			return s.release(ctx, u, t)
		})
		if err != nil {
			return fmt.Errorf("release the thread of turn %s: %w", t.ID, err)
		}
	}
	return nil
}
