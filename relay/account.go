package relay

import (
	"context"

	"github.com/fairlead/fairlead/relay/wire"
)

// run is the authorised run: its cursor, and what was journaled above it.
type run struct {
	id string
	// cursor is the highest seq known to be acknowledged; last the highest one in
	// use: max(cursor, last pending) (RH48).
	cursor, last uint64
	pending      []wire.Envelope
	bytes        int               // of pending, roughly
	commands     map[uint64]string // command seq → fingerprint of its content (RH52)
}

// BindAccount binds the scope to an account for good (RH6). The same account again
// changes nothing. Errors: relay_owner_invalid, relay_target_mismatch,
// relay_owner_mismatch, relay_state_untrusted, relay_persist_failed.
func (s *Scope) BindAccount(ctx context.Context, account, target string) error {
	if !wire.ValidOwnerComponent(account) {
		return wire.NewError(wire.CodeOwnerInvalid, "The account is not valid.")
	}
	if target != s.target {
		return wire.NewError(wire.CodeTargetMismatch, "The scope belongs to another target.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	owner := wire.OwnerFingerprint(account, s.target, s.session)
	switch s.owner {
	case owner:
		return nil
	case "":
	default:
		return wire.NewError(wire.CodeOwnerMismatch, "The scope is bound to another account.")
	}
	err := s.host.cfg.Store.BindOwner(ctx, ScopeRecord{
		Key: s.key, TargetRef: s.target, SessionID: s.session,
		OwnerFingerprint: owner, CreatedAt: s.host.now(),
	})
	if err := s.written(err); err != nil {
		return err
	}
	s.owner = owner
	return nil
}

// AuthorizeRun makes a run the authorised one (RH23). A call that fails leaves the
// one before. Errors: relay_command_invalid, relay_owner_unbound,
// relay_other_run_unsettled, relay_inference_busy.
func (s *Scope) AuthorizeRun(ctx context.Context, runID string) error {
	if !wire.ValidRelayID(runID) {
		return wire.NewError(wire.CodeCommandInvalid, "An identifier of the command is not valid.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.authorize(ctx, runID)
}

func (s *Scope) authorize(ctx context.Context, runID string) error {
	if err := s.bound(); err != nil {
		return err
	}
	for _, t := range s.unsettled {
		if t.RunID != runID {
			return wire.NewError(wire.CodeOtherRunUnsettled, "A turn of another run has not been settled yet.")
		}
	}
	held, _ := s.host.leases.state(s.key)
	if len(s.unsettled) > 0 && !held && !s.host.leases.take(s.key, true) {
		return errInferenceBusy()
	}
	if s.run != nil && s.run.id == runID {
		return nil
	}
	r, err := s.loadRun(ctx, runID, map[uint64]string{})
	if err != nil {
		return err
	}
	s.releaseClaims()
	s.run = r
	return nil
}

func (s *Scope) loadRun(ctx context.Context, runID string, commands map[uint64]string) (*run, error) {
	state, err := s.host.cfg.Store.LoadRun(ctx, s.key, runID)
	if err != nil {
		return nil, readFault(err)
	}
	r := &run{id: runID, cursor: state.Cursor, last: state.Cursor, commands: commands}
	if len(state.Pending) > maxJournalEvents {
		return nil, untrusted("a run's journal holds more events than a run may have.")
	}
	for _, e := range state.Pending {
		if err := e.validate(r.last + 1); err != nil {
			return nil, err
		}
		r.add(e.Envelope)
	}
	return r, nil
}

func (r *run) add(e wire.Envelope) {
	r.pending = append(r.pending, e)
	r.bytes += len(e.Payload)
	r.last = e.Seq
}

// authorised is RH27 (2).
func (s *Scope) authorised(runID string) error {
	if s.run == nil || s.run.id != runID {
		return wire.NewError(wire.CodeRunNotAuthorized, "This run is not the authorised one.")
	}
	return nil
}

func errInferenceBusy() error {
	return wire.NewError(wire.CodeInferenceBusy, "The host has no room for another provider request. Try again.")
}
