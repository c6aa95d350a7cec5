package relay

import (
	"context"
	"slices"

	"github.com/fairlead/fairlead/relay/wire"
)

// maxCursor is the highest seq of a run: 2^53−1, exact in any JSON number.
const maxCursor = 1<<53 - 1

// Journal gives claimed projections their places in the run and stores the
// envelopes (RH42). Only then may they be handed to a transport. In the same write
// their bindings' cursors move behind them, so that a crash after it sends them from
// the journal and makes none of them again; the end of a turn is passed by its
// hand-off alone, which settles the turn. After a failure no seq is used up and the
// claims are free again, so that the same poll and the same call succeed later with the
// same seqs (RH43). Projections of a run that is not the authorised one, or whose claim
// is gone, are released and not journaled; that is no error. Errors:
// relay_persist_failed.
func (s *Scope) Journal(ctx context.Context, ps []Projection) ([]wire.Envelope, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.journal(ctx, ps)
}

func (s *Scope) journal(ctx context.Context, ps []Projection) ([]wire.Envelope, error) {
	var claimed []*claim
	var entries []JournalEntry
	for _, p := range ps {
		c := s.claimOf(p)
		if c == nil || s.run == nil || p.RunID != s.run.id {
			s.dropClaim(p)
			continue
		}
		seq := s.run.last + uint64(len(entries)) + 1
		if seq > maxCursor {
			return nil, wire.NewError(wire.CodeInternal, "The run has used up its sequence numbers.")
		}
		claimed = append(claimed, c)
		entries = append(entries, JournalEntry{Envelope: p.envelope(seq), Integrity: p.terminal()})
	}
	if len(entries) == 0 {
		return nil, nil
	}
	moves := s.journaled(claimed)
	err := s.written(s.host.cfg.Store.AppendJournal(ctx, s.key, s.run.id, entries, cursorMoves(moves)))
	if err != nil {
		for _, p := range ps {
			s.dropClaim(p)
		}
		return nil, err
	}
	out := make([]wire.Envelope, len(entries))
	for i, e := range entries {
		claimed[i].seq = e.Envelope.Seq
		s.run.add(e.Envelope)
		if e.Integrity {
			s.integrity[s.run.id] = e.Envelope.Seq
		}
		out[i] = e.Envelope
	}
	for id, seq := range moves {
		s.live[id].ProjectedSeq = seq
	}
	return out, nil
}

// journaled tells how far the cursors of bindings may move once these claims are in
// the journal, too: behind the claims that are there without a gap, but not past
// the end of a turn, and past the skipped events that follow the last claim.
func (s *Scope) journaled(claimed []*claim) map[string]uint64 {
	in := make(map[*claim]bool, len(claimed))
	for _, c := range claimed {
		in[c] = true
	}
	moves := map[string]uint64{}
	for _, c := range claimed {
		b := s.live[c.BindingID]
		seq := b.through
		for i := range b.claims {
			if c := &b.claims[i]; c.seq == 0 && !in[c] || c.terminal() {
				seq = c.NativeSeq - 1
				break
			}
		}
		if seq > b.ProjectedSeq {
			moves[b.BindingID] = seq
		}
	}
	return moves
}

// HandedOff tells that projections were given to the transport: in one write the
// turns whose turn.completed is among them are settled, and the cursors advance that
// the journal has not moved already; then the claims are gone (RH42, trap 23). The identical call may be
// repeated after a failure. Errors: relay_binding_mismatch for an unknown native
// thread and relay_turn_mismatch for the terminal of an unknown turn, both of which
// move nothing; relay_persist_failed.
func (s *Scope) HandedOff(ctx context.Context, ps []Projection) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.handedOff(ctx, ps)
}

func (s *Scope) handedOff(ctx context.Context, ps []Projection) error {
	moves := map[string]uint64{}
	var settled []Turn
	for _, p := range ps {
		b, err := s.bindingByNative(ctx, p.NativeThreadID)
		if err != nil {
			return err
		}
		if c := s.claimOf(p); c != nil && c.seq == 0 {
			return wire.NewError(wire.CodeInternal, "An event was handed off that is not journaled.")
		}
		moves[b.BindingID] = max(moves[b.BindingID], p.NativeSeq)
		if !p.terminal() {
			continue
		}
		t, err := s.turnOf(ctx, b.BindingID, p.VirtualTurnID)
		if err != nil {
			return err
		}
		if t == nil {
			return wire.NewError(wire.CodeTurnMismatch, "The end of an unknown turn was handed off.")
		}
		t.TerminalProjected, t.StartRejected, t.SettledAt = true, false, s.host.now()
		settled = append(settled, *t)
	}
	if len(moves) == 0 {
		return nil
	}
	s.coverSkips(moves)
	if due := s.notStored(moves); len(due) > 0 || len(settled) > 0 {
		if err := s.written(s.host.cfg.Store.Advance(ctx, s.key, cursorMoves(due), settled)); err != nil {
			return err
		}
	}
	s.settle(moves, settled)
	return nil
}

// notStored gives the moves of cursors that are not known to be there already.
func (s *Scope) notStored(moves map[string]uint64) map[string]uint64 {
	due := map[string]uint64{}
	for id, seq := range moves {
		if b := s.live[id]; b == nil || b.ProjectedSeq < seq {
			due[id] = seq
		}
	}
	return due
}

// coverSkips lets a cursor pass the skipped events behind the last claim of a
// binding.
func (s *Scope) coverSkips(moves map[string]uint64) {
	for id, seq := range moves {
		b := s.live[id]
		if b == nil || len(b.claims) == 0 || b.claims[len(b.claims)-1].NativeSeq > seq {
			continue
		}
		moves[id] = max(seq, b.through)
	}
}

// settle makes a written hand-off the memory.
func (s *Scope) settle(moves map[string]uint64, settled []Turn) {
	for _, t := range settled {
		delete(s.unsettled, t.key())
	}
	for id, seq := range moves {
		b := s.live[id]
		if b == nil {
			continue
		}
		b.ProjectedSeq = max(b.ProjectedSeq, seq)
		b.claims = slices.DeleteFunc(b.claims, func(c claim) bool { return c.NativeSeq <= seq })
		s.pruneBinding(b)
		if len(b.claims) == 0 {
			s.lookAgain(id)
		}
	}
	s.releaseIfSettled()
}

// Acknowledge retires the journaled envelopes up to cursor: the receiver holds them
// durably. A cursor that is not above the known one changes nothing (RH49); one that
// names what was never given is refused. Errors: relay_run_not_authorized,
// bad_request, relay_persist_failed.
func (s *Scope) Acknowledge(ctx context.Context, runID string, cursor uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.authorised(runID); err != nil {
		return err
	}
	if cursor > s.run.last {
		return wire.NewError(wire.CodeBadRequest, "The cursor is beyond the last event of the run.")
	}
	return s.retire(ctx, cursor)
}

func (s *Scope) retire(ctx context.Context, cursor uint64) error {
	r := s.run
	if cursor <= r.cursor {
		return nil
	}
	if err := s.written(s.host.cfg.Store.Retire(ctx, s.key, r.id, cursor)); err != nil {
		return err
	}
	r.cursor, r.last = cursor, max(r.last, cursor)
	r.pending = slices.DeleteFunc(r.pending, func(e wire.Envelope) bool {
		gone := e.Seq <= cursor
		if gone {
			r.bytes -= len(e.Payload)
		}
		return gone
	})
	if s.integrity[r.id] <= cursor {
		delete(s.integrity, r.id)
	}
	s.releaseIfSettled()
	return nil
}

// Pending gives the journaled envelopes of the authorised run above seq.
func (s *Scope) Pending(after uint64) []wire.Envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pendingAfter(after)
}

func (s *Scope) pendingAfter(after uint64) []wire.Envelope {
	if s.run == nil {
		return nil
	}
	for i, e := range s.run.pending {
		if e.Seq > after {
			return slices.Clone(s.run.pending[i:])
		}
	}
	return nil
}

// ReleaseClaims frees every claim: what was claimed is found again by the next poll
// (RH43).
func (s *Scope) ReleaseClaims() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseClaims()
}

func (s *Scope) releaseClaims() {
	for id, b := range s.live {
		if len(b.claims) > 0 {
			b.claims = nil
			s.lookAgain(id)
			s.pruneBinding(b)
		}
	}
}

func (s *Scope) claimOf(p Projection) *claim {
	b := s.live[p.BindingID]
	if b == nil || b.NativeThreadID != p.NativeThreadID {
		return nil
	}
	for i := range b.claims {
		if b.claims[i].NativeSeq == p.NativeSeq {
			return &b.claims[i]
		}
	}
	return nil
}

// dropClaim frees the claim of a projection and of those behind it, so that none
// can overtake it.
func (s *Scope) dropClaim(p Projection) {
	b := s.live[p.BindingID]
	if b == nil || b.NativeThreadID != p.NativeThreadID {
		return
	}
	for i := range b.claims {
		if b.claims[i].NativeSeq == p.NativeSeq {
			b.claims = b.claims[:i]
			b.through = min(b.through, p.NativeSeq-1)
			s.lookAgain(p.BindingID)
			return
		}
	}
}

func (s *Scope) bindingByNative(ctx context.Context, nativeThreadID string) (Binding, error) {
	for _, b := range s.live {
		if b.NativeThreadID == nativeThreadID {
			return b.Binding, nil
		}
	}
	b, ok, err := s.host.cfg.Store.BindingByNative(ctx, s.key, nativeThreadID)
	if err != nil {
		return b, readFault(err)
	}
	if !ok {
		return b, wire.NewError(wire.CodeBindingMismatch, "An event of an unknown native thread was handed off.")
	}
	return b, b.validate()
}

func cursorMoves(moves map[string]uint64) []CursorMove {
	out := make([]CursorMove, 0, len(moves))
	for id, seq := range moves {
		out = append(out, CursorMove{BindingID: id, Seq: seq})
	}
	return out
}
