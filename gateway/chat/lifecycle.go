package chat

import (
	"context"
	"fmt"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// cause is why a turn goes from one state to the next. Each leads to one state,
// whatever the turn was before; next says from which ones it does.
type cause string

// The causes. The first three make a turn.
const (
	causeClaimed cause = "claimed"      // its message was taken, and its host may be told
	causeOrgFull cause = "org_full"     // its org or its member runs as many as it may (SQ56)
	causeNoRoute cause = "undispatched" // no host or no route serves it (SQ60)

	causeSlotFreed cause = "slot_freed" // the org has room for it (SQ59)
	causeTaken     cause = "taken"      // its host has it: it says so, or sends of it

	causeHostCompleted cause = "host_completed" // its host told a good end
	causeHostFailed    cause = "host_failed"    // its host told another end (SQ72 too)
	causeHostRefused   cause = "host_refused"   // its host refused the prompt or the run
	causeNeverTaken    cause = "never_taken"    // it waited for its host for too long

	causeInterrupted   cause = "interrupted"    // its owner stopped it (SQ16)
	causeCancelled     cause = "cancelled"      // its owner cancelled it (SQ20)
	causeThreadDeleted cause = "thread_deleted" // its thread is gone

	causeHostLost cause = "host_lost" // its host was silent for too long (SQ37)
	causeDeadline cause = "deadline"  // it ran for too long
)

// unmade is the state of a turn that is not stored yet.
const unmade gateway.TurnStatus = ""

// leads is the state that a cause leads to.
func (c cause) leads() gateway.TurnStatus {
	switch c {
	case causeClaimed, causeSlotFreed:
		return gateway.TurnPending
	case causeOrgFull:
		return gateway.TurnQueued
	case causeTaken:
		return gateway.TurnRunning
	case causeHostCompleted:
		return gateway.TurnCompleted
	case causeNoRoute, causeHostFailed, causeHostRefused, causeNeverTaken:
		return gateway.TurnFailed
	case causeInterrupted, causeCancelled, causeThreadDeleted:
		return gateway.TurnCancelled
	case causeHostLost, causeDeadline:
		return gateway.TurnTimeout
	}
	return unmade
}

// next is the life cycle of turns: what may happen in each state. ok is false for
// all else; nothing follows a final state.
func next(from gateway.TurnStatus, c cause) (to gateway.TurnStatus, ok bool) {
	switch from {
	case unmade:
		switch c {
		case causeClaimed, causeOrgFull, causeNoRoute:
			ok = true
		}
	case gateway.TurnQueued:
		switch c {
		case causeSlotFreed, causeInterrupted, causeCancelled, causeThreadDeleted:
			ok = true
		}
	case gateway.TurnPending:
		switch c {
		case causeTaken, causeHostRefused, causeNeverTaken, causeInterrupted, causeCancelled, causeThreadDeleted:
			ok = true
		}
	case gateway.TurnRunning:
		switch c {
		case causeHostCompleted, causeHostFailed, causeInterrupted, causeCancelled, causeThreadDeleted,
			causeHostLost, causeDeadline:
			ok = true
		}
	}
	if !ok {
		return from, false
	}
	return c.leads(), true
}

// stage is how a step of a turn's life stands in its timeline.
func stage(from, to gateway.TurnStatus) string {
	switch {
	case to == gateway.TurnPending && from == gateway.TurnQueued:
		return "dequeued"
	case to == gateway.TurnPending:
		return "claimed"
	case to == gateway.TurnQueued:
		return "org_queued"
	}
	return string(to)
}

// mark is a moment of a turn's timeline that is to be stored.
type mark struct {
	at            int64
	stage, detail string
}

// transition moves a turn on, and is the only writer of its status: it stores the
// turn, its moment in the timeline and what viewers are told. t is as it was read
// under the lock of its thread, with what else is to be written of it; a turn that
// is not stored yet has no status. What next does not know is refused, and so is
// every change of a turn that is final: the first final write wins. before are
// moments that precede the one of this step.
func (u *unit) transition(ctx context.Context, t *gateway.TurnRow, c cause, detail string, before ...mark) error {
	from := t.Status
	to, ok := next(from, c)
	if !ok {
		return wire.WrapError(wire.CodeInternal, "", fmt.Errorf("turn %s is %q, which %q does not change", t.ID, from, c))
	}
	t.Status = to
	switch {
	case to == gateway.TurnRunning:
		t.StartedAt, t.Reason = u.now, ""
	case to.Final():
		t.EndedAt = u.now
	}
	write := u.UpdateTurn
	if from == unmade {
		write = u.InsertTurn
	}
	if err := write(ctx, *t); err != nil {
		return err
	}
	for _, m := range append(before, mark{at: u.now, stage: stage(from, to), detail: detail}) {
		if err := u.AddMoment(ctx, t.ID, m.at, m.stage, m.detail); err != nil {
			return err
		}
	}
	u.touch = true
	u.state(*t)
	u.s.noteStep(u, from, *t)
	return nil
}
