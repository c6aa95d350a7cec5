package chat

import "github.com/fairlead/fairlead/gateway"

// Told tells whether all that was to be published is published.
func (s *Service) Told() bool {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	return len(s.bus.busy) == 0
}

// Cause is why a turn changes its state.
type Cause = cause

// Causes lists all causes.
func Causes() []Cause {
	return []Cause{
		causeClaimed, causeOrgFull, causeNoRoute, causeSlotFreed, causeTaken, causeHostCompleted, causeHostFailed,
		causeHostRefused, causeNeverTaken, causeInterrupted, causeCancelled, causeThreadDeleted, causeHostLost, causeDeadline,
	}
}

// Next is the life cycle of turns.
func Next(from gateway.TurnStatus, c Cause) (gateway.TurnStatus, bool) { return next(from, c) }
