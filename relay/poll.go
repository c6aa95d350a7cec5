package relay

import (
	"cmp"
	"context"
	"slices"

	"github.com/fairlead/fairlead/relay/wire"
)

// ledgerPage is how many native events are read at once.
const ledgerPage = 256

// batch is what one look at a binding's ledger found.
type batch struct {
	claims  []claim
	through uint64 // last event that is claimed or skipped
	more    bool   // there is more to look at
	ended   bool   // a native turn ended in it
}

// Poll claims projectable events of the authorised run, at most limit of them: the
// bindings in order of creation, the events of each in their order (RH39). A
// binding with outstanding claims is passed over; with a limit of 1 that is the contract's
// one event a binding. Skipped events advance the cursor: with the journal of the
// claim that follows them, or at once if none does. It gives nothing while no run is
// authorised or no account bound (RH7). A poll that fails has claimed nothing.
// Errors: relay_native_unavailable for an unreadable ledger, relay_persist_failed.
func (s *Scope) Poll(ctx context.Context, limit int) ([]Projection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.poll(ctx, limit, features{})
}

func (s *Scope) poll(ctx context.Context, limit int, f features) (out []Projection, err error) {
	if s.run == nil || s.owner == "" {
		return nil, nil
	}
	looked := s.takeDirty()
	defer func() {
		if err != nil {
			s.lookAgain(looked...)
		}
	}()
	found := map[*tracked]batch{}
	for _, b := range s.inOrder(looked) {
		if len(b.claims) > 0 || b.RunID != s.run.id {
			continue // looked at again when the claims are gone
		}
		if limit <= 0 {
			s.lookAgain(b.BindingID)
			continue
		}
		n, err := s.scan(ctx, b, limit, f)
		if err != nil {
			return nil, err
		}
		found[b] = n
		limit -= len(n.claims)
	}
	if err := s.storeSkips(ctx, found); err != nil {
		return nil, err
	}
	for _, b := range s.inOrder(looked) {
		n, ok := found[b]
		if !ok {
			continue
		}
		s.take(b, n)
		for _, c := range n.claims {
			out = append(out, c.Projection)
		}
	}
	return out, nil
}

// take makes what was found of a binding the memory.
func (s *Scope) take(b *tracked, n batch) {
	b.claims, b.through = n.claims, n.through
	if len(n.claims) == 0 {
		b.ProjectedSeq = max(b.ProjectedSeq, n.through)
		if n.more {
			s.lookAgain(b.BindingID)
		}
	}
	if n.ended {
		// The provider's request is over, whenever its end is acknowledged.
		s.host.leases.vacate(s.key)
	}
}

// storeSkips persists the cursors of bindings in which there was nothing but
// events to skip, in one write.
func (s *Scope) storeSkips(ctx context.Context, found map[*tracked]batch) error {
	var moves []CursorMove
	for b, n := range found {
		if len(n.claims) == 0 && n.through > b.ProjectedSeq {
			moves = append(moves, CursorMove{BindingID: b.BindingID, Seq: n.through})
		}
	}
	if len(moves) == 0 {
		return nil
	}
	return s.written(s.host.cfg.Store.Advance(ctx, s.key, moves, nil))
}

// scan reads a binding's ledger from its cursor until limit events are claimed, an
// event has to wait, or the ledger ends.
func (s *Scope) scan(ctx context.Context, b *tracked, limit int, f features) (batch, error) {
	n := batch{through: b.ProjectedSeq}
	for {
		events, err := s.host.cfg.Runtime.Events(ctx, b.NativeThreadID, n.through, ledgerPage)
		if err != nil {
			return n, nativeUnavailable(err)
		}
		for _, e := range events {
			if len(n.claims) >= limit {
				n.more = true
				return n, nil
			}
			wait, err := s.decide(ctx, b, e, f, &n)
			if err != nil || wait {
				return n, err
			}
			n.through = e.Seq
		}
		if len(events) < ledgerPage {
			return n, nil
		}
	}
}

// decide is RH40 for one event: it is claimed, skipped, or has to wait, because it
// is of a native turn that no reservation knows.
func (s *Scope) decide(ctx context.Context, b *tracked, e NativeEvent, f features, n *batch) (wait bool, err error) {
	if e.TurnID == "" {
		return false, nil
	}
	turn, ok, err := s.turnByNative(ctx, b.BindingID, e.TurnID)
	if err != nil || !ok {
		return true, err
	}
	payload := project(e, b.Binding, f)
	if payload == nil {
		return false, nil
	}
	n.ended = n.ended || e.Event == wire.EventTurnCompleted
	n.claims = append(n.claims, claim{Projection: Projection{
		RunID: b.RunID, BindingID: b.BindingID, NativeThreadID: b.NativeThreadID, NativeSeq: e.Seq,
		SourceEventID:   wire.SourceEventID(b.NativeThreadID, e.Seq),
		VirtualThreadID: b.VirtualThreadID, VirtualTurnID: turn.TurnID,
		Event: e.Event, Timestamp: timestamp(e.Timestamp), Payload: payload,
	}})
	return false, nil
}

// turnByNative finds the reservation of a native turn, in memory if it can.
func (s *Scope) turnByNative(ctx context.Context, bindingID, nativeTurnID string) (Turn, bool, error) {
	for key, t := range s.unsettled {
		if key.bindingID == bindingID && t.NativeTurnID == nativeTurnID {
			return t, true, nil
		}
	}
	t, ok, err := s.host.cfg.Store.TurnByNative(ctx, s.key, bindingID, nativeTurnID)
	if err != nil {
		return t, false, readFault(err)
	}
	if ok {
		err = t.validate()
	}
	return t, ok, err
}

// takeDirty takes the bindings to look at.
func (s *Scope) takeDirty() []string {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	out := make([]string, 0, len(s.dirty))
	for id := range s.dirty {
		out = append(out, id)
	}
	clear(s.dirty)
	return out
}

// lookAgain has bindings looked at by the next poll, without waking anybody.
func (s *Scope) lookAgain(bindingIDs ...string) {
	s.wakeMu.Lock()
	defer s.wakeMu.Unlock()
	for _, id := range bindingIDs {
		s.dirty[id] = struct{}{}
	}
}

// inOrder gives the followed bindings among ids, oldest first.
func (s *Scope) inOrder(ids []string) []*tracked {
	out := make([]*tracked, 0, len(ids))
	for _, id := range ids {
		if b := s.live[id]; b != nil {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(x, y *tracked) int { return cmp.Compare(x.Ordinal, y.Ordinal) })
	return out
}
