package chat

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// storeRetry is how long a pipe waits before it tries again to store.
const storeRetry = 250 * time.Millisecond

// Intake publishes the deltas of a batch and hands it to the run's pipe; see
// gateway.Ledger. It fails when the service was stopped, or cannot tell which turns
// are in progress.
func (s *Service) Intake(ctx context.Context, runID string, batch []wire.Envelope, durable func(cursor uint64)) error {
	if len(batch) == 0 {
		return nil
	}
	s.lives.hostBack(runID)
	if s.lives.run(runID) == nil {
		// Text of a turn that is only not known here must not be passed over.
		if err := s.refresh(ctx); err != nil {
			return err
		}
	}
	p := parcel{cursor: batch[len(batch)-1].Seq, durable: durable}
	for _, env := range batch {
		if it, ok := s.takeIn(runID, env); ok {
			p.items = append(p.items, it)
		}
	}
	if !s.pipes.put(runID, p) {
		return wire.NewError(wire.CodeShuttingDown, "The gateway is shutting down.")
	}
	if lt := s.lives.run(runID); lt != nil {
		s.settleArrived(lt)
	}
	return nil
}

// parcel is one batch on its way into the store.
type parcel struct {
	items   []item
	cursor  uint64
	durable func(cursor uint64)
}

// item is one envelope of a parcel that is to be stored: text of a live turn,
// that a live turn has started (neither delta nor end), or the end of any turn of
// the run. turnID and threadID are set for live turns.
type item struct {
	virtualID string
	turnID    string
	threadID  string
	delta     *gateway.DeltaRow
	end       *wire.CompletedPayload
}

// takeIn takes one envelope into memory and publishes it if it is a delta. ok is
// false for what is known, of no interest, or of no turn of this run.
func (s *Service) takeIn(runID string, env wire.Envelope) (it item, ok bool) {
	it.virtualID = env.TurnID
	lt := s.lives.ofHost(runID, env.TurnID)
	if lt != nil {
		it.turnID, it.threadID = lt.turnID, lt.threadID
	}
	switch env.Event {
	case wire.EventTurnStarted:
		return it, lt != nil
	case wire.EventTurnCompleted:
		var p wire.CompletedPayload
		if err := json.Unmarshal(env.Payload, &p); err != nil {
			s.log.Error("a host sent an end that cannot be read; the turn fails", "run", runID, "error", err)
			p.Turn.Status = wire.NativeFailed
		}
		it.end = &p
		return it, true
	case wire.EventItemDelta:
	default:
		return it, false
	}
	var d wire.DeltaPayload
	if err := json.Unmarshal(env.Payload, &d); err != nil {
		s.log.Error("a host sent a delta that cannot be read", "run", runID, "error", err)
		return it, false
	}
	if lt == nil || d.Kind != wire.DeltaMessage {
		return it, false
	}
	lt.gate.Lock()
	defer lt.gate.Unlock()
	from, ok := lt.take(s.bus, env.SourceEventID, d.Delta)
	it.delta = &gateway.DeltaRow{
		TurnID: lt.turnID, From: from, To: from + int64(len(d.Delta)), Text: d.Delta, Sources: []string{env.SourceEventID},
	}
	return it, ok
}

// pipes store what hosts send, each run in order, runs beside each other. What
// gathers while one transaction of a run is in flight becomes its next one.
type pipes struct {
	s *Service

	mu sync.Mutex
	// byRun holds the parcels of runs whose goroutine runs.
	byRun map[string][]parcel
}

func newPipes(s *Service) *pipes { return &pipes{s: s, byRun: make(map[string][]parcel)} }

// put adds a parcel and sees to it that somebody stores it; false after Stop.
func (p *pipes) put(runID string, parcel parcel) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, running := p.byRun[runID]
	if !running && !p.s.spawn(func(ctx context.Context) { p.run(ctx, runID) }) {
		return false
	}
	p.byRun[runID] = append(waiting, parcel)
	return true
}

// take gives the waiting parcels of a run; none ends its goroutine.
func (p *pipes) take(runID string) []parcel {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.byRun[runID]
	if len(waiting) == 0 {
		delete(p.byRun, runID)
		return nil
	}
	p.byRun[runID] = nil
	return waiting
}

// run stores parcels until none is left. A store that fails is tried again: the
// host keeps what is not durable, so giving up at Stop loses nothing.
func (p *pipes) run(ctx context.Context, runID string) {
	for {
		parcels := p.take(runID)
		if parcels == nil {
			return
		}
		threadID, ended, err := p.s.storeParcels(context.WithoutCancel(ctx), runID, parcels)
		for err != nil {
			p.s.log.Error("envelopes could not be stored; trying again", "run", runID, "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(storeRetry):
			}
			threadID, ended, err = p.s.storeParcels(context.WithoutCancel(ctx), runID, parcels)
		}
		for _, parcel := range parcels {
			if parcel.durable != nil {
				parcel.durable(parcel.cursor)
			}
		}
		if ended {
			p.s.drainSoon(threadID)
		}
	}
}

// hostEnd is an end that a host told, made ready outside of the transaction.
type hostEnd struct {
	ending  ending
	text    answer
	outputs []*gateway.Event
	usage   []gateway.UsageRow
	// listed are the steers that the turn took. One of them is settled by the end
	// if no receipt has: it stands at at, behind the events before.
	listed []wire.Delivered
	at     int64
	before []*gateway.Event
}

// storeParcels stores parcels of a run in one transaction and raises the run's
// cursor with them.
func (s *Service) storeParcels(ctx context.Context, runID string, parcels []parcel) (threadID string, ended bool, err error) {
	items := merge(parcels)
	if lt := s.endedBy(runID, items); lt != nil {
		// No steer is settled between the text that is kept and the end.
		lt.gate.Lock()
		defer lt.gate.Unlock()
	}
	ends := make(map[int]hostEnd)
	for i, it := range items {
		if it.end == nil {
			continue
		}
		if ends[i], err = s.prepareEnd(ctx, runID, it); err != nil {
			return "", false, err
		}
	}
	err = s.update(ctx, func(u *unit) error {
		ended = false
		if err := u.lockThreadOf(ctx, items); err != nil {
			return err
		}
		for i, it := range items {
			if it.end == nil {
				if err := s.storeProgress(ctx, u, it); err != nil {
					return err
				}
				continue
			}
			t, err := u.TurnOfHost(ctx, runID, it.virtualID)
			if errors.Is(err, gateway.ErrNoRow) {
				continue
			}
			if err != nil {
				return err
			}
			if t, err = u.lockTurn(ctx, t.ID); err != nil {
				return err
			}
			threadID, ended = t.ThreadID, true
			if err := s.storeEnd(ctx, u, t, ends[i]); err != nil {
				return err
			}
		}
		return u.RaiseCursor(ctx, runID, parcels[len(parcels)-1].cursor)
	})
	return threadID, ended, err
}

// lockThreadOf locks the thread of a run's items: who ends a turn meanwhile comes
// before all of them or after.
func (u *unit) lockThreadOf(ctx context.Context, items []item) error {
	for _, it := range items {
		if it.threadID != "" {
			return u.LockThread(ctx, it.threadID)
		}
	}
	return nil // an end by itself locks its turn
}

// endedBy gives the turn in progress that one of the items ends, or nil.
func (s *Service) endedBy(runID string, items []item) *live {
	for _, it := range items {
		if it.end == nil {
			continue
		}
		if lt := s.lives.ofHost(runID, it.virtualID); lt != nil {
			return lt
		}
	}
	return nil
}

// merge joins the items of parcels; deltas that follow each other become one row.
func merge(parcels []parcel) []item {
	var items []item
	for _, p := range parcels {
		for _, it := range p.items {
			n := len(items)
			if n > 0 && it.delta != nil && items[n-1].delta != nil &&
				items[n-1].delta.TurnID == it.delta.TurnID && items[n-1].delta.To == it.delta.From {
				last := *items[n-1].delta
				last.Text, last.To = last.Text+it.delta.Text, it.delta.To
				last.Sources = append(last.Sources[:len(last.Sources):len(last.Sources)], it.delta.Sources...)
				items[n-1].delta = &last
				continue
			}
			items = append(items, it)
		}
	}
	return items
}

// storeProgress stores text of a turn, and that it runs. A turn that is final
// takes no text any more. This is the most frequent write of all, so it reads no
// more than it must.
func (s *Service) storeProgress(ctx context.Context, u *unit, it item) error {
	status, err := u.TurnStatus(ctx, it.turnID)
	if errors.Is(err, gateway.ErrNoRow) || (err == nil && status.Final()) {
		return nil
	}
	if err != nil {
		return err
	}
	if status == gateway.TurnPending {
		t, err := u.lockTurn(ctx, it.turnID)
		if err != nil {
			return err
		}
		if err := s.markRunning(ctx, u, t); err != nil {
			return err
		}
	}
	if it.delta == nil {
		return nil
	}
	err = u.AppendDelta(ctx, *it.delta)
	if errors.Is(err, gateway.ErrRowExists) {
		return nil // it was kept by a commit that never said so
	}
	if err != nil || it.delta.From > 0 {
		return err
	}
	s.firstText(u, it.turnID)
	return u.AddMoment(ctx, it.turnID, u.now, "first_text", "")
}

// markRunning notes that the host has taken the turn.
func (s *Service) markRunning(ctx context.Context, u *unit, t gateway.TurnRow) error {
	if t.Status != gateway.TurnPending {
		return nil
	}
	if err := u.MarkApplied(ctx, t.BindingID); err != nil {
		return err
	}
	if err := u.transition(ctx, &t, causeTaken, t.HostID); err != nil {
		return err
	}
	u.wakes = append(u.wakes, t.RunID) // steers may wait for it
	u.afterCommit(func() {
		if lt := s.lives.turn(t.ID); lt != nil {
			lt.run(t.StartedAt)
		}
	})
	return nil
}

// prepareEnd makes everything of an end that costs time. All deltas before the
// end are in memory by then, so the text is whole.
func (s *Service) prepareEnd(ctx context.Context, runID string, it item) (hostEnd, error) {
	end := hostEnd{ending: endingOf(*it.end)}
	end.usage = usageOf(it.virtualID, *it.end)
	if it.end.Outcome != nil {
		end.listed = it.end.Outcome.Deliveries
	}
	lt := s.lives.ofHost(runID, it.virtualID)
	turnID := ""
	if lt != nil {
		turnID = lt.turnID
	} else if err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		t, err := tx.TurnOfHost(ctx, runID, it.virtualID)
		if err == nil && !t.Status.Final() {
			turnID = t.ID
		}
		if errors.Is(err, gateway.ErrNoRow) {
			return nil
		}
		return err
	}); err != nil {
		return end, err
	}
	if turnID == "" {
		return end, nil
	}
	var err error
	if end.text, err = s.textOf(ctx, lt, turnID); err != nil {
		return end, err
	}
	if err := s.prepareListed(ctx, turnID, &end); err != nil {
		return end, err
	}
	end.outputs = s.outputs(turnID, end.ending.output(), end.text)
	return end, nil
}

// storeEnd stores the end that a host told. For a turn that is final already it
// changes nothing but usage, and opens the thread that the turn held closed. Even
// if no answer to the prompt came, the end proves that the binding exists.
func (s *Service) storeEnd(ctx context.Context, u *unit, t gateway.TurnRow, end hostEnd) error {
	if t.Status != gateway.TurnRunning {
		if err := u.MarkApplied(ctx, t.BindingID); err != nil {
			return err
		}
	}
	if err := s.book(ctx, u, &t, end.usage); err != nil {
		return err
	}
	if t.Status.Final() && t.StartedAt == 0 {
		t.StartedAt = t.EndedAt // its host had it after all: the model remembers it
		if err := u.UpdateTurn(ctx, t); err != nil {
			return err
		}
	}
	if err := s.deliverListed(ctx, u, t, end); err != nil {
		return err
	}
	if err := s.hostDone(ctx, u, t); err != nil {
		return err
	}
	if t.Status.Final() {
		return nil
	}
	if t.Status == gateway.TurnPending {
		if err := u.transition(ctx, &t, causeTaken, t.HostID); err != nil {
			return err
		}
	}
	return s.settle(ctx, u, t, end.ending, end.text, end.outputs)
}

// endingOf says how a turn ends whose host told p.
func endingOf(p wire.CompletedPayload) ending {
	e := ending{hostDone: true, cause: causeHostFailed}
	var out wire.Outcome
	if p.Outcome != nil {
		out = *p.Outcome
	}
	if out.Finish == wire.FinishToolCallIgnored || out.Finish == wire.FinishRefusedInPart {
		e.finish = out.Finish
	}
	if at, err := time.Parse(time.RFC3339, out.RetryAt); err == nil {
		e.retryAt = stamp(at)
	}
	switch {
	case out.Error != "":
		e.error = endCode(out.Error)
	case p.Turn.Status == wire.NativeCompleted:
		e.cause = causeHostCompleted
	case p.Turn.Status == wire.NativeInterrupted, p.Turn.Status == wire.NativeCanceled:
		// Nobody here asked for it: the host's process ended under the turn.
		e.error = wire.CodeHostRestarted
	default:
		e.error = wire.CodeModelFailed
	}
	return e
}
