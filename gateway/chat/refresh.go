package chat

import (
	"context"
	"fmt"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// What a transaction changes in memory follows its commit. A database server that
// is lost during a commit may have kept it without ever saying so: then memory is
// behind the store. So a transaction that was whole and failed all the same leaves
// a doubt, and before anything else is concluded from memory, and with each sweep,
// memory is brought up to what the store holds.

// doubted notes that memory may be behind the store.
func (s *Service) doubted() { s.doubt.Store(true) }

// refresh brings memory up to what the store holds, if there is a doubt. It takes
// no gate but one that is free, so the caller may hold one.
func (s *Service) refresh(ctx context.Context) error {
	if !s.doubt.Load() {
		return nil
	}
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	if !s.doubt.Swap(false) {
		return nil
	}
	err := s.reread(ctx)
	if err != nil {
		s.doubted()
		err = fmt.Errorf("read the turns in progress again: %w", err)
	}
	return err
}

func (s *Service) reread(ctx context.Context) error {
	known := s.lives.all()
	loaded, holding, err := s.inProgress(ctx)
	if err != nil {
		return err
	}
	for _, runID := range holding {
		s.lives.hold(runID)
	}
	for _, in := range loaded {
		s.lives.add(in.live)
		s.catchUp(in)
		known = append(known, in.live)
	}
	// A turn that is over is over for good, so whatever comes between the two reads
	// is seen by the second, or tells memory itself.
	for _, lt := range known {
		over := false
		err := s.store.View(ctx, func(tx gateway.ChatTx) error {
			t, err := tx.Turn(ctx, lt.turnID)
			if over = err == nil && t.Status.Final(); over {
				s.waiting.remove(t.OrgID, t.ID)
			}
			return missing(err)
		})
		if err != nil && wire.CodeOf(err) != wire.CodeNotFound {
			return err
		}
		if at := s.lives.turn(lt.turnID); over && at != nil {
			s.lives.remove(at)
		}
		s.wake(lt.runID)
	}
	return nil
}

// catchUp moves a turn on in memory that is known there already.
func (s *Service) catchUp(in loadedTurn) {
	lt := s.lives.turn(in.live.turnID)
	if lt == nil {
		return
	}
	s.noteWaiting(in.row)
	if lt == in.live {
		return
	}
	switch status, _, _ := lt.standing(); {
	case in.row.Status == gateway.TurnRunning && status != gateway.TurnRunning:
		lt.run(in.row.StartedAt)
	case in.row.Status == gateway.TurnPending && status == gateway.TurnQueued:
		lt.pend(in.live.since)
	}
	if lt.shown().from >= in.live.flushed {
		return
	}
	lt.flush("", in.live.flushed)
	if lt.gate.TryLock() {
		lt.resplit(s.bus)
		lt.gate.Unlock()
	}
}

// noteWaiting keeps account of whether a turn in progress waits for its org.
func (s *Service) noteWaiting(t gateway.TurnRow) {
	if t.Status == gateway.TurnQueued {
		s.waiting.add(t.OrgID, t.ID)
		return
	}
	s.waiting.remove(t.OrgID, t.ID)
}
