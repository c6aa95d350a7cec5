package hosts

import (
	"context"
	"slices"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// stage is how far a run is attached at its host.
type stage int

const (
	detached stage = iota
	attaching
	attached
)

// driver drives one run over one link. Everything but the mailbox and the ticket
// belongs to the goroutine of run.
type driver struct {
	mailbox
	s     *session
	runID string
	// ticket is the driver's place in the line for room, 0 for none. It is guarded
	// by Registry.mu.
	ticket uint64

	work  gateway.RunWork
	stale bool // work must be asked for again
	// returned tells that the ledger does not count the prompt in work as sent any more.
	returned bool
	stage    stage

	// inflight is the Seq of the command at the host, 0 for none.
	inflight uint64
	// attachAt and offerAt hold the next attach or offer back after a failure. A
	// wake lifts the second: it may have brought a command that stops the first.
	attachAt, offerAt       time.Time
	attachPause, offerPause backoff
	hold                    hold
	// resumed is set until the first offer of a run that was open when the host
	// linked: the command may be at the host already. offered is the Seq of the
	// newest one that was offered since.
	resumed bool
	offered uint64

	ahead    ahead
	seen     uint64 // highest Seq of an envelope given to the ledger
	durable  uint64 // highest cursor that the ledger named
	confirm  uint64 // cursor that the host was told
	terminal uint64 // Seq of a turn's end that is not durable yet, 0 for none
	// owed is what an idle run waits for before it rests: a cursor that the host must be
	// told, and ends of turns that it has not settled.
	owed wire.Owing

	steering steering

	told    string // what the ledger was last told of why the run waits
	toldFor time.Time
}

// finished tells that the run needs no driver any longer; asleep that nothing is
// due before the next post.
const (
	finished time.Duration = -1
	asleep   time.Duration = 1<<63 - 1
)

func newDriver(s *session, runID string, resumed bool) *driver {
	return &driver{mailbox: newMailbox(), s: s, runID: runID, resumed: resumed, stale: true}
}

func (d *driver) run(ctx context.Context) {
	defer d.s.answered(d)
	for ctx.Err() == nil {
		in := d.take()
		d.absorb(ctx, in)
		pause := d.advance(ctx)
		if pause == finished {
			if d.s.retire(d) {
				return
			}
			continue
		}
		if !d.wait(ctx, pause) {
			return
		}
	}
}

// wait ends with the next post, or after pause, when work is asked for again.
func (d *driver) wait(ctx context.Context, pause time.Duration) bool {
	var due <-chan time.Time
	if pause != asleep {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-d.wake:
		return true
	case <-due:
		d.stale = true
		return true
	case <-ctx.Done():
		return false
	}
}

// absorb takes in what happened and brings it to the ledger.
func (d *driver) absorb(ctx context.Context, in inbox) {
	if in.refused != nil {
		d.refused(ctx, in.refused)
	}
	if in.attached {
		d.stage = attached
		d.attachPause.reset()
		d.steering.reattached()
		d.catchUp(ctx, in.known)
		d.tell(ctx, "", time.Time{}, true)
	}
	for _, ack := range in.acks {
		d.acknowledge(ctx, ack)
	}
	d.intake(ctx, in.events)
	d.steering.take(in)
	d.durable = max(d.durable, in.cursor)
	d.retire(ctx)
	if in.overflow {
		d.reattach()
	}
	if in.reminded {
		d.tell(ctx, d.told, d.toldFor, true)
	}
	if in.woken || in.room {
		d.stale, d.offerAt = true, time.Time{}
	}
}

// advance does what is due and tells for how long nothing else is.
func (d *driver) advance(ctx context.Context) time.Duration {
	if d.stale {
		work, err := d.s.reg.ledger.Work(ctx, d.runID)
		switch {
		case wire.CodeOf(err) == wire.CodeNotFound:
			work = gateway.RunWork{RunID: d.runID, Idle: true}
		case err != nil:
			return d.fail(ctx, "the work of a run is not known", err)
		}
		d.work, d.stale, d.returned = work, false, false
	}
	switch {
	case d.work.Idle && d.owes():
		return d.repay(ctx)
	case d.work.Idle:
		if pause := d.steer(ctx); len(d.steering.receipts) > 0 {
			return pause
		}
		return d.rest(ctx)
	case d.stage == detached:
		return d.unless(d.attachAt, func() time.Duration { return d.attach(ctx) })
	case d.stage == attaching:
		return asleep
	}
	pause := d.steer(ctx)
	if d.inflight == 0 && len(d.work.Commands) > 0 {
		pause = min(pause, d.unless(d.offerAt, func() time.Duration { return d.offer(ctx) }))
	}
	return pause
}

// unless does what is due, or tells how long it is until then.
func (d *driver) unless(notBefore time.Time, do func() time.Duration) time.Duration {
	if wait := notBefore.Sub(d.s.reg.now()); wait > 0 {
		return wait
	}
	return do()
}

// owes tells whether the host holds something of an idle run that an earlier link did
// not live to acknowledge. A run that the ledger does not know is a control plane's.
func (d *driver) owes() bool {
	if d.owed.RunID == "" || d.work.Attach.RunID == "" {
		return false
	}
	return d.stage != attached || d.confirm < d.owed.Seq || d.owed.Turns > 0
}

// repay attaches an idle run for its cursor, and for what comes above it.
func (d *driver) repay(ctx context.Context) time.Duration {
	if d.stage != detached {
		return asleep
	}
	return d.unless(d.attachAt, func() time.Duration { return d.attach(ctx) })
}

// rest detaches an idle run once the host has nothing of it to send again.
func (d *driver) rest(ctx context.Context) time.Duration {
	switch {
	case d.stage == attaching || d.inflight != 0:
		return asleep
	case d.stage == attached && d.confirm < d.seen:
		return asleep
	case d.stage == attached:
		if d.s.link.Detach(ctx, d.runID) != nil {
			return asleep
		}
		d.stage = detached
		d.deafen()
	}
	return finished
}

func (d *driver) attach(ctx context.Context) time.Duration {
	d.deafen()
	d.confirm = d.work.Attach.Cursor
	if d.s.link.Attach(ctx, d.work.Attach) == nil {
		d.stage = attaching
	}
	return asleep
}

// reattach makes the host send again what is above the durable cursor.
func (d *driver) reattach() {
	d.deafen()
	d.stage, d.inflight, d.stale = detached, 0, true
	d.seen, d.terminal = d.durable, 0
}

// refused handles an attach that the host refused, or an attachment that it ended.
// A run that is no longer authorised was overtaken by a newer attachment: it is
// attached again.
func (d *driver) refused(ctx context.Context, cause *wire.ErrorBody) {
	d.reattach()
	if cause.Retryable || cause.Code == wire.CodeRunNotAuthorized {
		d.attachAt = d.later(&d.attachPause, cause)
		return
	}
	d.owed = wire.Owing{}
	d.s.reg.log.Warn("hosts: a run was refused", "run", d.runID, "host", d.s.host.ID, "code", cause.Code)
	if err := d.s.reg.ledger.Refused(ctx, d.runID, cause); err != nil && ctx.Err() == nil {
		d.s.reg.log.Error("hosts: a refusal was not recorded", "run", d.runID, "error", err)
	}
	// What is still open after a final refusal is not tried again in a hurry.
	d.attachAt = d.s.reg.now().Add(maxPause)
}

// acknowledge brings a host's answer to the ledger. An answer that says that the
// run is not attached is none: the command is sent again after the next attach.
func (d *driver) acknowledge(ctx context.Context, ack wire.Ack) {
	mine := ack.CommandSeq == d.inflight
	if mine {
		d.inflight = 0
	}
	failure := &wire.ErrorBody{}
	if ack.Status == wire.AckFailed && ack.Error != nil {
		failure = ack.Error
	}
	if failure.Code == wire.CodeRunNotAuthorized {
		d.s.answered(d)
		d.reattach()
		d.attachAt = d.later(&d.attachPause, failure)
		return
	}
	if err := d.s.reg.ledger.Ack(ctx, ack); err != nil {
		d.s.answered(d)
		d.fail(ctx, "an acknowledgement was not recorded", err)
		return
	}
	switch {
	case !mine:
	case failure.Retryable:
		// Work is asked for when the command is due again: until then a prompt that
		// the host has nothing of does not count as sent.
		d.returned, d.offerAt = true, d.later(&d.offerPause, failure)
		if ack.CommandType == wire.TypePromptRequest {
			d.postponed(ctx, failure.Code)
		}
	default:
		d.stale, d.offerAt, d.hold = true, time.Time{}, hold{}
		d.steering.due = true // the turn may have begun
		d.offerPause.reset()
		d.s.answered(d)
		d.tell(ctx, "", time.Time{}, false)
	}
}

// postponed puts a prompt that the host did not take for now back into the line. One
// that drains has no line.
func (d *driver) postponed(ctx context.Context, code wire.Code) {
	if code == wire.CodeShuttingDown {
		d.s.answered(d)
		d.tell(ctx, string(gateway.CodeHostDraining), time.Time{}, false)
		return
	}
	d.s.waitForRoom(d)
	d.tell(ctx, reasonNoRoom, time.Time{}, false)
}

// leaps tells whether the Seq of an envelope is out of all proportion.
func (d *driver) leaps(events []wire.Envelope) bool {
	at := max(d.seen, d.durable, d.confirm)
	return slices.ContainsFunc(events, func(e wire.Envelope) bool { return e.Seq > at+maxLeap })
}

// intake gives envelopes to the ledger. When it fails, or a host does not wait for its
// cursor (RH56), the host is made to send them again.
func (d *driver) intake(ctx context.Context, events []wire.Envelope) {
	if len(events) == 0 || ctx.Err() != nil {
		return // a link that has ended brings nothing more: its host sends it again
	}
	if d.ahead.full() || d.leaps(events) {
		d.s.reg.log.Warn("hosts: a host does not wait for its cursor, or leaps ahead", "run", d.runID, "host", d.s.host.ID)
		d.reattach()
		d.attachAt = d.s.reg.now().Add(maxPause)
		return
	}
	err := d.s.reg.ledger.Intake(ctx, d.runID, events, func(cursor uint64) {
		d.post(func(in *inbox) { in.cursor = max(in.cursor, cursor) })
	})
	if err != nil {
		d.reattach()
		d.attachAt = d.later(&d.attachPause, nil)
		d.fail(ctx, "envelopes were not taken in", err)
		return
	}
	d.ahead.add(events)
	for _, e := range events {
		d.seen = max(d.seen, e.Seq)
		if e.Event == wire.EventTurnCompleted {
			d.terminal = max(d.terminal, e.Seq)
			d.owed.Turns--
		}
	}
}

// retire tells the host what is durable. A turn's end that is durable may leave
// the run idle.
func (d *driver) retire(ctx context.Context) {
	d.ahead.durable(d.durable)
	if d.terminal > 0 && d.terminal <= d.durable {
		d.terminal, d.stale = 0, true
	}
	if d.stage == attached && d.durable > d.confirm && d.s.link.Cursor(ctx, d.runID, d.durable) == nil {
		d.confirm = d.durable
	}
}

// tell says why the run waits, if that is news or again is set.
func (d *driver) tell(ctx context.Context, reason string, retryAt time.Time, again bool) {
	if !again && reason == d.told && retryAt.Equal(d.toldFor) {
		return
	}
	d.told, d.toldFor = reason, retryAt
	d.s.reg.ledger.Waiting(ctx, d.runID, reason, retryAt)
}

// later is when to try again after a failure, whose cause may ask for longer.
func (d *driver) later(pause *backoff, cause *wire.ErrorBody) time.Time {
	wait := pause.next()
	if cause != nil {
		wait = max(wait, time.Duration(cause.RetryAfterMs)*time.Millisecond)
	}
	return d.s.reg.now().Add(wait)
}

// fail logs a fault of the ledger and tells when to ask it again.
func (d *driver) fail(ctx context.Context, what string, err error) time.Duration {
	if ctx.Err() != nil {
		return asleep
	}
	d.s.reg.log.Error("hosts: "+what, "run", d.runID, "error", err)
	d.offerAt, d.stale = d.later(&d.offerPause, nil), true
	return d.offerAt.Sub(d.s.reg.now())
}
