package relay

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fairlead/fairlead/relay/wire"
)

// drain is why a host takes no new prompt, "" for no such reason.
type drain struct {
	asked   string // by the gateway, which may take it back
	leaving string // by this process, for good

	settled chan struct{} // closed when a scope owes nothing any more; nil while nobody waits
}

// Drain has the host take no new prompt, as its gateway asks, until resume. Turns
// go on, exact replays and interrupts pass (RH62). The watchers are told.
func (h *Host) Drain(reason string, resume bool) {
	if resume {
		reason = ""
	} else if reason == "" {
		reason = "draining"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drain.asked = reason
	h.changed = true
	h.nudge()
}

// Quiesce is Drain for good: the process leaves, or is about to open the folder
// with other settings (RH61, RH62). No gateway can take it back.
func (h *Host) Quiesce(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drain.leaving = reason
	h.changed = true
	h.nudge()
}

// Draining tells whether the host takes no new prompt, and why.
func (h *Host) Draining() (reason string, yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drain.leaving != "" {
		return h.drain.leaving, true
	}
	return h.drain.asked, h.drain.asked != ""
}

// Settled waits until no turn of any scope is unsettled and the receiver has
// acknowledged every integrity envelope (RH62). It is for a host that drains: a
// prompt that was let in before is waited for, one that comes later is refused.
// What cannot be trusted is not waited for, since it never settles. Errors: one that
// wraps the cause of ctx and tells how many scopes still owe; shutting_down after
// Close; relay_store_unavailable.
func (h *Host) Settled(ctx context.Context) error {
	for {
		changed := h.awaitSettled()
		owing, err := h.owing(ctx)
		if err != nil || owing == 0 {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("turns of %d conversations are not settled: %w", owing, context.Cause(ctx))
		}
	}
}

// owing counts the loaded scopes that owe something. One that owes is loaded: its
// lease keeps it so.
func (h *Host) owing(ctx context.Context) (n int, err error) {
	h.mu.Lock()
	scopes := slices.Collect(maps.Values(h.scopes))
	h.mu.Unlock()
	for _, s := range scopes {
		owes, err := h.owes(ctx, s)
		if wire.CodeOf(err) == wire.CodeStateUntrusted {
			continue
		}
		if err != nil {
			return n, err
		}
		if owes {
			n++
		}
	}
	return n, nil
}

// owes looks between two prompts: one that is being applied may be about to make a
// reservation. While it looks, the scope is not unloaded.
func (h *Host) owes(ctx context.Context, s *Scope) (bool, error) {
	s, err := h.Scope(ctx, s.target, s.session)
	if err != nil {
		return false, err
	}
	defer s.Close()
	select {
	case s.applying <- struct{}{}:
		defer s.applied()
	case <-ctx.Done():
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	return !s.owesNothing(), nil
}

// awaitSettled gives a channel that is closed when a scope owes nothing any more.
func (h *Host) awaitSettled() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drain.settled == nil {
		h.drain.settled = make(chan struct{})
	}
	return h.drain.settled
}

// tellSettled wakes who waits in Settled.
func (h *Host) tellSettled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drain.settled != nil {
		close(h.drain.settled)
		h.drain.settled = nil
	}
}

// takesPrompts is the refusal of a host that drains. It comes before everything is
// reserved, so the same command succeeds on a host that is there later.
func (h *Host) takesPrompts() error {
	if _, draining := h.Draining(); draining {
		return wire.NewError(wire.CodeShuttingDown, "The host is draining and takes no new prompt. Send the same command again later.")
	}
	return nil
}
