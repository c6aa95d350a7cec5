package hosts

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Times of a driver.
const (
	minPause = 250 * time.Millisecond
	maxPause = 5 * time.Second
	// roomPatience is how long a prompt waits for a host that says that it has no
	// room before it is offered all the same: the host has the last word.
	roomPatience = 30 * time.Second
)

// prompt is what a driver must know of a prompt.request.
type prompt struct {
	Type            string `json:"type"`
	Model           string `json:"model"`
	ModelProvider   string `json:"modelProvider"`
	ModelProviderID string `json:"modelProviderId"`
}

func (p prompt) servedBy(r wire.Route) bool {
	return r.Model == p.Model && r.ModelProvider == p.ModelProvider && r.ModelProviderID == p.ModelProviderID
}

func peek(command json.RawMessage) prompt {
	var p prompt
	_ = json.Unmarshal(command, &p) // what is malformed is no prompt, and the host says so
	return p
}

// hold says since when the command seq is held back, and for what.
type hold struct {
	seq            uint64
	cooling, space time.Time
}

// urgent tells whether a command that stops another one waits: the prompt before
// it is not held back then, so that the stop gets through.
func (d *driver) urgent() bool {
	for _, c := range d.work.Commands {
		if peek(c.Command).Type == wire.TypeRunControl {
			return true
		}
	}
	return false
}

// offer sends the next command, unless it is a prompt that must wait.
func (d *driver) offer(ctx context.Context) time.Duration {
	if d.returned {
		d.stale = true
		return 0
	}
	next := d.work.Commands[0]
	if p := peek(next.Command); p.Type == wire.TypePromptRequest {
		if !d.resumed && next.Seq > d.offered && d.urgent() {
			return d.withdraw(ctx, next)
		}
		replay := d.resumed || next.Seq <= d.offered
		if cause := d.s.unfit(d.work.Generation, replay); cause != "" {
			return d.shelve(ctx, next, cause)
		}
		if wait := d.holdBack(ctx, next.Seq, p); wait > 0 {
			return wait
		}
	}
	d.offered = next.Seq
	if d.s.link.Command(ctx, next) == nil {
		d.inflight, d.resumed = next.Seq, false
	}
	return asleep
}

// withdraw answers a prompt that is to be stopped, and was never offered, in the
// host's place: the host has nothing of it. A provider is not asked for an answer
// that nobody wants any more.
func (d *driver) withdraw(ctx context.Context, next wire.CommandMessage) time.Duration {
	ack := wire.Ack{
		RunID: d.runID, CommandSeq: next.Seq, CommandType: wire.TypePromptRequest, Status: wire.AckFailed,
		Error: wire.NewError(wire.CodeInferenceBusy, "The prompt was stopped before it was offered.").Body(),
	}
	d.s.answered(d)
	if err := d.s.reg.ledger.Ack(ctx, ack); err != nil {
		return d.fail(ctx, "a stopped prompt was not withdrawn", err)
	}
	d.stale, d.offerAt = true, d.later(&d.offerPause, nil)
	return d.offerAt.Sub(d.s.reg.now())
}

// shelve leaves a prompt that the host must not have now: it does not count as sent
// any longer, so that a stop of it need not wait for the host. One that is to be
// stopped is withdrawn with that. The driver looks again when something changes.
func (d *driver) shelve(ctx context.Context, next wire.CommandMessage, cause wire.Code) time.Duration {
	failure := wire.NewError(cause, "The prompt was not offered to its host.").Body()
	failure.Retryable = true
	d.s.answered(d)
	if err := d.s.reg.ledger.Ack(ctx, wire.Ack{
		RunID: d.runID, CommandSeq: next.Seq, CommandType: wire.TypePromptRequest, Status: wire.AckFailed, Error: failure,
	}); err != nil {
		return d.fail(ctx, "a prompt was not kept from its host", err)
	}
	d.returned = true
	if d.urgent() {
		d.stale, d.offerAt = true, d.later(&d.offerPause, nil)
		return d.offerAt.Sub(d.s.reg.now())
	}
	d.tell(ctx, string(cause), time.Time{}, false)
	return asleep
}

// holdBack gives how long a prompt must wait still; 0 lets it go and takes a place
// in the host's room for it. A prompt that may be at the host already does not
// wait for room: if it runs, it takes some of it itself.
func (d *driver) holdBack(ctx context.Context, seq uint64, p prompt) time.Duration {
	if d.hold.seq != seq {
		d.hold = hold{seq: seq}
	}
	now := d.s.reg.now()
	urgent := d.urgent()
	if until := d.s.coolsUntil(p); until.After(now) && !urgent {
		if d.hold.cooling.IsZero() {
			d.hold.cooling = now
		}
		limit := d.hold.cooling.Add(d.s.reg.routeMaxWait)
		if limit.After(now) {
			d.tell(ctx, reasonRouteCooling, until, false)
			return earlier(until, limit).Sub(now)
		}
	}
	if d.resumed {
		d.s.insist(d)
		return 0
	}
	if d.s.admit(d) {
		d.hold.space = time.Time{}
		return 0
	}
	if d.hold.space.IsZero() {
		d.hold.space = now
	}
	if wait := d.hold.space.Add(roomPatience).Sub(now); wait > 0 && !urgent {
		d.tell(ctx, reasonNoRoom, time.Time{}, false)
		return wait
	}
	d.hold.space = time.Time{}
	d.s.insist(d)
	return 0
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// backoff doubles from minPause to maxPause, with jitter so that the runs of a
// host do not come back all at once.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(b.last*2, minPause), maxPause)
	return b.last - rand.N(b.last/4)
}

func (b *backoff) reset() { b.last = 0 }

// sleep waits for d; false means that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
