package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Attachment says what to attach. All fields but Cursor, CommandSeq and Challenge are
// required.
type Attachment struct {
	// TargetRef is a host that the token names, AccountRef the account of the token.
	TargetRef, AccountRef string
	// SessionID names the scope at the host: its turns run one at a time and only one
	// run of it is attached at once. RunID names the run for good.
	SessionID, RunID string
	// WorkspaceID is any id of where prompts come from.
	WorkspaceID string
	// Cursor is the Seq of the newest envelope that the caller has stored; 0 is none.
	Cursor uint64
	// CommandSeq is the greatest sequence number that a command of the run has used.
	// 0 lets the client begin at the milliseconds of the clock, which rises over
	// restarts without being stored.
	CommandSeq uint64
	// Challenge comes back in the catalog; "" lets the client make one.
	Challenge string
}

type stage int

const (
	detached stage = iota
	attaching
	attached
)

// maxSources is of how many envelopes the ids are known. A host sends no more than
// 256 ahead of the cursor.
const maxSources = 1024

// Run is an attached run. Its methods are safe for concurrent use.
type Run struct {
	c  *Client
	at Attachment

	// Guarded by Client.mu.
	stage    stage
	attachAt time.Time // not before
	pause    backoff
	ready    bool // was attached once
	runner   wire.Runner
	err      error
	leaving  bool

	seq      uint64
	commands []*command // not answered, in order

	queue  []wire.Envelope
	seen   uint64   // Seq of the newest envelope that came
	cursor uint64   // what the caller holds
	told   uint64   // what the gateway was told of it in this attachment
	known  []string // source ids, the newest last
	// repeated are the Seqs above cursor of envelopes that were dropped as repetitions.
	repeated []uint64

	changed chan struct{} // closed and made anew when a caller may go on
}

// command is one that is not acknowledged.
type command struct {
	seq   uint64
	frame *wire.ControlCommand
	sent  bool
	ack   *wire.Ack
}

// Attach attaches a run and waits until its host has it. While the host is away it
// tries again, until ctx ends. Errors: not_found for a target that the token does not
// name, forbidden, those of the host (relay-host.md RH47), and the cause of ctx, with
// the last refusal; the run is given up then.
func (c *Client) Attach(ctx context.Context, at Attachment) (*Run, error) {
	if at.CommandSeq == 0 {
		at.CommandSeq = uint64(max(time.Now().UnixMilli(), 1))
	}
	if at.Challenge == "" {
		at.Challenge = wire.NewChallenge()
	}
	r := &Run{
		c: c, at: at, seq: at.CommandSeq, seen: at.Cursor, cursor: at.Cursor, changed: make(chan struct{}),
		pause: backoff{least: c.o.RetryMin, most: c.o.RetryMax},
	}
	if err := c.add(r); err != nil {
		return nil, err
	}
	err := r.wait(ctx, func() bool { return r.ready })
	if err == nil {
		return r, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.leaving = true
	c.poke()
	return nil, err
}

func (c *Client) add(r *Run) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	for _, other := range c.runs {
		if other.at.RunID == r.at.RunID || other.at.TargetRef == r.at.TargetRef && other.at.SessionID == r.at.SessionID {
			return fmt.Errorf("control: run %s of this session is attached: detach it first", other.at.RunID)
		}
	}
	c.runs = append(c.runs, r)
	c.poke()
	return nil
}

// Runner is the host that serves the run.
func (r *Run) Runner() wire.Runner {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.runner
}

// CommandSeq is the greatest sequence number that a command has used.
func (r *Run) CommandSeq() uint64 {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.seq
}

// Prompt asks for a turn and waits for the host's answer: applied once the turn is
// accepted durably. The caller sets the ids, the route and the text; what follows from
// the attachment is filled in. The same prompt again is the same turn. It is sent
// again after a reconnect until it is answered, also when ctx has ended. Errors: the
// host's refusal (RH27–RH36), which may be retryable; the cause of ctx.
func (r *Run) Prompt(ctx context.Context, p wire.PromptRequest) (wire.Ack, error) {
	p.Type, p.RunID, p.Mode, p.RequestedMode, p.AllowedTools = wire.TypePromptRequest, r.at.RunID, "chat", "chat", []string{}
	p.Workspace = wire.Workspace{ID: r.at.WorkspaceID, TargetRef: r.at.TargetRef}
	return r.command(ctx, &p)
}

// Interrupt stops the turn of a prompt (RH37, RH38); the turn's end comes as an
// event. The caller sets the ids of the turn. It is sent again as a prompt is.
func (r *Run) Interrupt(ctx context.Context, i wire.RunControl) (wire.Ack, error) {
	i.Type, i.RunID, i.Action = wire.TypeRunControl, r.at.RunID, "interrupt"
	if i.Reason == "" {
		i.Reason = "interrupted"
	}
	return r.command(ctx, &i)
}

func (r *Run) command(ctx context.Context, body any) (wire.Ack, error) {
	raw, err := wire.EncodeControl(body)
	if err != nil {
		return wire.Ack{}, err
	}
	r.c.mu.Lock()
	r.seq++
	cmd := &command{seq: r.seq, frame: &wire.ControlCommand{
		ControlHead:    wire.ControlHead{Type: wire.ControlTypeCommand},
		CommandMessage: wire.CommandMessage{RunID: r.at.RunID, Seq: r.seq, Command: raw},
	}}
	r.commands = append(r.commands, cmd)
	r.c.poke()
	r.c.mu.Unlock()
	if err := r.wait(ctx, func() bool { return cmd.ack != nil }); err != nil {
		return wire.Ack{}, err
	}
	if cmd.ack.Status == wire.AckFailed {
		return *cmd.ack, errorOf(cmd.ack.Error)
	}
	return *cmd.ack, nil
}

// Events gives the envelopes of the run in order, each once, and waits for more until
// ctx ends or the run does; that error comes last. A later call goes on where this one
// was left.
func (r *Run) Events(ctx context.Context) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		for {
			e, err := r.next(ctx)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (r *Run) next(ctx context.Context) (e wire.Envelope, err error) {
	err = r.wait(ctx, func() bool {
		if len(r.queue) == 0 {
			return false
		}
		e, r.queue = r.queue[0], r.queue[1:]
		return true
	})
	return e, err
}

// Acknowledge tells that the caller has stored every envelope up to seq: the host
// drops them, and a turn whose end is acknowledged makes room for the next (RH25,
// RH49). It does not wait.
func (r *Run) Acknowledge(seq uint64) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.cursor = max(r.cursor, min(seq, r.seen))
	r.passRepeated()
	r.c.poke()
}

// passRepeated takes what was dropped as acknowledged once everything before it is.
func (r *Run) passRepeated() {
	for len(r.repeated) > 0 && r.repeated[0] <= r.cursor+1 {
		r.cursor = max(r.cursor, r.repeated[0])
		r.repeated = r.repeated[1:]
	}
}

// Detach gives the run up once the gateway knows what was acknowledged. Its turns go
// on; whoever attaches the run next gets what was not acknowledged.
func (r *Run) Detach(ctx context.Context) error {
	r.c.mu.Lock()
	r.leaving = true
	r.c.poke()
	r.c.mu.Unlock()
	err := r.wait(ctx, func() bool { return false })
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// wait returns once holds does, which is asked under Client.mu, or the run or ctx has
// ended.
func (r *Run) wait(ctx context.Context, holds func() bool) error {
	for {
		r.c.mu.Lock()
		done, err, changed := holds(), r.err, r.changed
		r.c.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// The methods below need Client.mu.

func (r *Run) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// end gives the run up for good.
func (r *Run) end(err error) {
	r.err = err
	r.c.runs = slices.DeleteFunc(r.c.runs, func(other *Run) bool { return other == r })
	r.signal()
}

func (r *Run) attached(runner wire.Runner, cursor uint64) {
	if r.stage != attaching {
		return
	}
	r.stage, r.ready, r.runner = attached, true, runner
	r.pause.last = 0
	// What is acknowledged at the host does not come any more.
	r.cursor, r.seen = max(r.cursor, cursor), max(r.seen, cursor)
	r.told = max(r.told, cursor)
	r.signal()
}

// refused ends the run, or its attachment. A run that is not authorised any more was
// overtaken by another one of its session, or its host has started anew.
func (r *Run) refused(e *wire.Error) {
	if !e.Retryable && e.Code != wire.CodeRunNotAuthorized {
		r.end(e)
		return
	}
	r.c.o.Logger.Info("control: a run is not attached", "run", r.at.RunID, "code", e.Code)
	r.reattach(e)
}

func (r *Run) reattach(e *wire.Error) {
	if r.stage == detached {
		return
	}
	r.stage, r.attachAt = detached, time.Now().Add(max(r.pause.next(), e.RetryAfter))
}

// acknowledged takes the answer to a command. That the run is not attached is none.
func (r *Run) acknowledged(ack wire.Ack) {
	at := slices.IndexFunc(r.commands, func(c *command) bool { return c.seq == ack.CommandSeq })
	if at < 0 {
		return
	}
	if ack.Status == wire.AckFailed && ack.Error != nil && ack.Error.Code == wire.CodeRunNotAuthorized {
		r.reattach(errorOf(ack.Error))
		return
	}
	r.commands[at].ack = &ack
	r.commands = slices.Delete(r.commands, at, at+1)
	r.signal()
}

// event queues an envelope unless it came before.
func (r *Run) event(e wire.Envelope) {
	if e.Seq <= r.seen {
		return
	}
	r.seen = e.Seq
	if e.SourceEventID != "" {
		if slices.Contains(r.known, e.SourceEventID) {
			r.repeated = append(r.repeated, e.Seq)
			r.passRepeated()
			return
		}
		r.known = append(r.known, e.SourceEventID)
		if len(r.known) > 2*maxSources {
			r.known = slices.Clone(r.known[maxSources:])
		}
	}
	r.queue = append(r.queue, e)
	r.signal()
}
