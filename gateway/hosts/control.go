package hosts

import (
	"context"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Control is one connection of a control plane: it attaches runs of its own at
// linked hosts, on the same links as the chat's. It keeps nothing durable; after a
// lost link the control plane attaches again. Its methods are safe for concurrent
// use and wait while the host takes nothing.
type Control struct {
	reg    *Registry
	holder string
	events gateway.ControlEvents

	// Guarded by Registry.mu.
	closed bool
	runs   map[string]*controlRun
}

// OpenControl makes a Control of an account. Close ends it.
func (r *Registry) OpenControl(holder string, e gateway.ControlEvents) *Control {
	return &Control{reg: r, holder: holder, events: e, runs: map[string]*controlRun{}}
}

// Attach attaches a run at the host of a.TargetRef; Attached or Refused of the
// events answers. A run of another connection of the same account is taken over.
// Errors: not_found for a target without a host; host_offline; forbidden for what
// is of the gateway's own chat, or held by another account; those of the ledger.
func (c *Control) Attach(ctx context.Context, a wire.Attach) (gateway.Runner, error) {
	if err := c.permit(ctx, a); err != nil {
		return gateway.Runner{}, err
	}
	run, err := c.enter(a)
	if err != nil {
		return gateway.Runner{}, err
	}
	defer run.exit()
	if err := run.lock(ctx); err != nil {
		return gateway.Runner{}, err
	}
	defer run.unlock()
	if err := c.take(run); err != nil {
		return gateway.Runner{}, err
	}
	if err := run.s.link.Attach(ctx, a); err != nil {
		run.unasked(c)
		return gateway.Runner{}, offline()
	}
	return run.s.runner(), nil
}

// permit refuses what belongs to the gateway's own chat.
func (c *Control) permit(ctx context.Context, a wire.Attach) error {
	if strings.HasPrefix(a.SessionID, gateway.ChatSession) {
		return wire.NewError(wire.CodeForbidden, "Sessions of this gateway's own chat are not open to control planes.")
	}
	_, _, err := c.reg.ledger.HostOf(ctx, a.RunID)
	switch {
	case wire.CodeOf(err) == wire.CodeNotFound:
		return nil
	case err != nil:
		return err
	}
	return wire.NewError(wire.CodeForbidden, "This run is not open to control planes.")
}

// Command sends a command of an attached run; Ack of the events answers. Errors: those of
// send; rate_limited while too many are not answered.
func (c *Control) Command(ctx context.Context, m wire.CommandMessage) error {
	return c.send(ctx, m.RunID, func(run *controlRun) error {
		if !run.ask() {
			return tooMuch()
		}
		if err := run.s.link.Command(ctx, m); err != nil {
			run.unask()
			return offline()
		}
		return nil
	})
}

// Cursor retires the envelopes of an attached run up to cursor (RH49).
func (c *Control) Cursor(ctx context.Context, runID string, cursor uint64) error {
	return c.send(ctx, runID, func(run *controlRun) error { return linked(run.s.link.Cursor(ctx, runID, cursor)) })
}

// Detach ends the attachment of a run.
func (c *Control) Detach(ctx context.Context, runID string) error {
	return c.send(ctx, runID, func(run *controlRun) error {
		c.reg.mu.Lock()
		run.disown(c)
		c.reg.mu.Unlock()
		return linked(run.s.link.Detach(ctx, runID))
	})
}

// send does what a connection asks of one of its runs. Errors: relay_run_not_authorized
// if it does not hold the run; host_offline if the link has ended.
func (c *Control) send(ctx context.Context, runID string, do func(*controlRun) error) error {
	c.reg.mu.Lock()
	run := c.runs[runID]
	if run == nil {
		c.reg.mu.Unlock()
		return notAttached()
	}
	run.users++
	c.reg.mu.Unlock()
	defer run.exit()
	if err := run.lock(ctx); err != nil {
		return err
	}
	defer run.unlock()
	if !run.ownedBy(c) {
		return notAttached()
	}
	return do(run)
}

func linked(err error) error {
	if err != nil {
		return offline()
	}
	return nil
}

// Close detaches every run that the connection holds. Its events are told nothing
// more once it has returned.
func (c *Control) Close() {
	c.reg.mu.Lock()
	c.closed = true
	var held []string
	for runID := range c.runs {
		held = append(held, runID)
	}
	c.reg.mu.Unlock()
	bounded, cancel := context.WithTimeout(c.reg.work, lastWordTimeout)
	defer cancel()
	for _, runID := range held {
		_ = c.Detach(bounded, runID) // a link that takes nothing ends by itself
	}
	c.reg.mu.Lock()
	var rest []*controlRun
	for _, run := range c.runs {
		run.disown(c)
		rest = append(rest, run)
	}
	c.reg.mu.Unlock()
	for _, run := range rest {
		run.telling.Lock()   // whoever tells of it at this moment ends first
		run.telling.Unlock() //nolint:staticcheck // see above
	}
}

func notAttached() error {
	return wire.NewError(wire.CodeRunNotAuthorized, "This run is not attached.")
}

// tooMuch keeps a control plane from what a host takes for misuse, and ends the link for:
// that of everybody else too.
func tooMuch() error {
	e := wire.NewError(wire.CodeRateLimited, "The relay host has not answered what was sent before. Send less at once.")
	e.RetryAfter = minPause
	return e
}

func offline() error { return wire.NewError(wire.CodeHostOffline, "The relay host is not linked.") }
