package socket

import (
	"context"
	"slices"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

var _ gateway.ControlEvents = (*control)(nil)

// attach asks for a run. A target that the token does not name is answered as one
// that does not exist.
func (c *control) attach(ctx context.Context, at wire.Attach) error {
	if !slices.Contains(c.s.actor.Targets, at.TargetRef) {
		return errNoTarget()
	}
	if at.AccountRef != c.s.actor.AccountID {
		return wire.NewError(wire.CodeForbidden, "A control plane acts for the account of its token alone.")
	}
	run, err := c.begin(at)
	if err != nil {
		return err
	}
	runner, err := c.hosts.Attach(ctx, at)
	if err != nil {
		c.forget(run)
		if wire.CodeOf(err) == wire.CodeNotFound {
			return errNoTarget()
		}
		return err
	}
	c.ready(run, runner)
	return nil
}

func errNoTarget() error {
	return wire.NewError(wire.CodeNotFound, "There is no such target.")
}

// begin notes that a run is asked for. Of a run that is attached the answer starts
// it over.
func (c *control) begin(at wire.Attach) (*controlRun, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.runs[at.RunID]; !known && len(c.runs) >= c.s.srv.limits.ControlRuns {
		for id, run := range c.runs {
			if run.over {
				delete(c.runs, id)
			}
		}
		if len(c.runs) >= c.s.srv.limits.ControlRuns {
			return nil, wire.NewError(wire.CodeBadRequest, "Too many runs are attached. Detach one first.")
		}
	}
	run := &controlRun{attach: at, asking: true}
	c.runs[at.RunID] = run
	c.allow()
	return run, nil
}

// allow lets as much wait for the reader as the hosts of its runs may send without
// being answered: a burst of many runs is no sign of a slow reader. It needs mu.
func (c *control) allow() {
	limits := c.s.srv.limits
	c.s.out.allow(limits.QueueBytes + min(len(c.runs)*limits.ControlRunBytes, maxGranted))
}

func (c *control) forget(run *controlRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, run.attach.RunID)
	c.allow()
}

// ready lets through what the host said before its name was known.
func (c *control) ready(run *controlRun, r gateway.Runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run.asking = false
	run.runner = wire.Runner{
		ID: r.HostID, Name: r.Name, TargetRef: r.TargetRef, RuntimeVersion: r.Version,
		Capabilities: orEmpty(r.Capabilities),
	}
	for _, say := range run.held {
		c.s.push(say(run))
	}
	run.held = nil
}

// tell pushes what a host says of a run, or keeps it until its runner is known.
func (c *control) tell(runID string, say func(*controlRun) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.runs[runID]
	if run != nil && run.asking {
		if len(run.held) >= maxHeld {
			c.s.close(closeTooSlow)
			return
		}
		run.held = append(run.held, say)
		return
	}
	c.s.push(say(run))
}

// Attached answers an attach. One for a run that was given up meanwhile is dropped.
func (c *control) Attached(m wire.Attached) {
	c.tell(m.RunID, func(run *controlRun) []byte {
		if run == nil {
			return nil
		}
		run.over = false
		return encode(wire.ControlAttached{
			Type: wire.ControlTypeAttached, RunID: m.RunID, Runner: run.runner, RuntimeCursor: m.RuntimeCursor,
		})
	})
}

// Refused answers an attach, or ends an attachment.
func (c *control) Refused(m wire.Refused) {
	c.tell(m.RunID, func(run *controlRun) []byte {
		if run != nil {
			run.over = true
		}
		return encode(wire.ControlRefused{Type: wire.ControlTypeRefused, Refused: m})
	})
}

// Gone is a refusal after which the run may be attached again.
func (c *control) Gone(runID string) {
	e := wire.NewError(wire.CodeHostOffline, "The host of this run is away. Attach the run again.")
	c.Refused(wire.Refused{RunID: runID, Error: e.Body()})
}

// Ack passes on what a host answered.
func (c *control) Ack(m wire.Ack) {
	c.tell(m.RunID, func(*controlRun) []byte {
		return encode(wire.ControlAck{Type: wire.ControlTypeAck, Ack: m})
	})
}

// Event passes an envelope on.
func (c *control) Event(m wire.EventMessage) {
	c.tell(m.RunID, func(*controlRun) []byte {
		return encode(wire.ControlEvent{Type: wire.ControlTypeEvent, EventMessage: m})
	})
}
