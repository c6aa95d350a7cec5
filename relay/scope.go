package relay

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/relay/wire"
)

// Scope is one pair of target and session: an account, its bindings, and at most
// one authorised run (relay-host.md §1.3).
type Scope struct {
	host            *Host
	key             string
	target, session string

	// applying holds its one token while a prompt is applied, over the native start
	// too, so that prompts of a scope come one after the other (RH27). It is a
	// channel so that waiting for it obeys a context.
	applying chan struct{}

	// mu is the state lock of RH5: it is held for the whole of a state change, its
	// write included, so nobody sees what is not durable.
	mu sync.Mutex
	// loaded is false until the state was read, and again after a failed write.
	loaded    bool
	isolated  bool
	shutDown  bool
	owner     string              // owner fingerprint, "" before an account is bound
	unsettled map[turnKey]Turn    // of every run
	integrity map[string]uint64   // run → highest seq of an integrity envelope not acknowledged
	live      map[string]*tracked // binding id → bindings that may have events to project
	run       *run                // the authorised one, or nil
	attached  *Attachment         // who takes the envelopes, or nil

	// wakeMu guards dirty and wake, which the runtime's callbacks touch.
	wakeMu sync.Mutex
	dirty  map[string]struct{} // binding ids whose ledger is to be looked at
	wake   func()              // tells the attachment; nil without one

	// Guarded by Host.mu.
	users int
	idle  *list.Element
}

// turnKey names a reservation within a scope.
type turnKey struct{ bindingID, turnID string }

func (t Turn) key() turnKey { return turnKey{t.BindingID, t.TurnID} }

// tracked is a binding whose ledger is followed.
type tracked struct {
	Binding
	// claims are the outstanding projections, in order of their native seq. While
	// there are any, nothing further of the binding is claimed (RH39).
	claims []claim
	// through is the last native event that the claims and the skips after them
	// cover: the cursor once all are handed off.
	through uint64
	stop    func() // ends the watch
}

// claim is a projection on its way out. seq is 0 until it is journaled.
type claim struct {
	Projection
	seq uint64
}

func newScope(h *Host, key, target, session string) *Scope {
	return &Scope{
		host: h, key: key, target: target, session: session,
		applying: make(chan struct{}, 1),
		live:     map[string]*tracked{}, dirty: map[string]struct{}{},
	}
}

// Key is the scope's name: wire.ScopeKey of its target and session.
func (s *Scope) Key() string { return s.key }

// Is tells whether this is the scope of exactly this pair (RH1).
func (s *Scope) Is(target, session string) bool { return s.target == target && s.session == session }

// Close ends one use of the scope. The host unloads it some time after the last.
func (s *Scope) Close() {
	s.host.mu.Lock()
	s.users--
	s.host.mu.Unlock()
	s.host.settleUse(s)
}

// shut is the host's Close for one scope: it waits for a prompt in progress, ends
// the attachment and stops following the ledgers.
func (s *Scope) shut() {
	s.applying <- struct{}{}
	s.mu.Lock()
	s.shutDown = true
	a := s.attached
	s.mu.Unlock()
	<-s.applying
	if a != nil {
		a.end(errClosed())
	}
	s.stopWatching()
}

func (s *Scope) stopWatching() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.live {
		b.stop()
	}
	clear(s.live)
	s.loaded = false
}

// ready makes the memory true: it is called at the start of every operation, with
// mu held. The first time, and after a write that failed, it reads the store.
func (s *Scope) ready(ctx context.Context) error {
	if s.shutDown {
		return errClosed()
	}
	if s.loaded {
		return nil
	}
	if !s.isolated {
		if err := s.host.isolate(s.key); err != nil {
			return err
		}
		s.isolated = true
	}
	state, err := s.host.cfg.Store.LoadScope(ctx, s.key)
	if err != nil {
		return readFault(err)
	}
	if err := s.checkLoaded(state); err != nil {
		return err
	}
	if err := s.addFollowed(ctx, &state); err != nil {
		return err
	}
	if s.run != nil {
		r, err := s.loadRun(ctx, s.run.id, s.run.commands)
		if err != nil {
			return err
		}
		s.run = r
	}
	s.adopt(state)
	s.loaded = true
	s.releaseIfSettled()
	return nil
}

// addFollowed reads the bindings that are followed although nothing of theirs is
// unsettled any more.
func (s *Scope) addFollowed(ctx context.Context, state *ScopeState) error {
	for id := range s.live {
		if slices.ContainsFunc(state.Bindings, func(b Binding) bool { return b.BindingID == id }) {
			continue
		}
		b, ok, err := s.host.cfg.Store.Binding(ctx, s.key, id)
		if err != nil {
			return readFault(err)
		}
		if ok {
			state.Bindings = append(state.Bindings, b)
		}
	}
	return nil
}

// checkLoaded is RH3 for what was read.
func (s *Scope) checkLoaded(state ScopeState) error {
	if state.Scope.Key == "" {
		if len(state.Bindings) > 0 || len(state.Unsettled) > 0 {
			return untrusted("a scope has bindings but no owner.")
		}
		return nil
	}
	if state.Scope.Key != s.key || !s.Is(state.Scope.TargetRef, state.Scope.SessionID) {
		return untrusted("a scope is stored under another scope's key.")
	}
	if err := state.Scope.validate(); err != nil {
		return err
	}
	known := map[string]Binding{}
	for _, b := range state.Bindings {
		if err := b.validate(); err != nil {
			return err
		}
		known[b.BindingID] = b
	}
	for _, t := range state.Unsettled {
		if err := t.validate(); err != nil {
			return err
		}
		if b, ok := known[t.BindingID]; !ok || b.RunID != t.RunID {
			return untrusted("a turn reservation has no binding in its run.")
		}
	}
	return nil
}

// adopt makes state the memory. Claims stay, but for those that the stored cursor
// has passed.
func (s *Scope) adopt(state ScopeState) {
	s.owner = state.Scope.OwnerFingerprint
	s.unsettled = map[turnKey]Turn{}
	for _, t := range state.Unsettled {
		s.unsettled[t.key()] = t
	}
	s.integrity = maps.Clone(state.Integrity)
	if s.integrity == nil {
		s.integrity = map[string]uint64{}
	}
	for _, b := range state.Bindings {
		s.follow(b)
	}
	for _, b := range s.live {
		b.claims = slices.DeleteFunc(b.claims, func(c claim) bool { return c.NativeSeq <= b.ProjectedSeq })
		s.pruneBinding(b)
	}
}

// follow watches a binding's ledger and has it looked at.
func (s *Scope) follow(b Binding) {
	t := s.live[b.BindingID]
	if t == nil {
		t = &tracked{}
		s.live[b.BindingID] = t
		id := b.BindingID
		t.stop = s.host.cfg.Runtime.Watch(b.NativeThreadID, func() { s.appended(id) })
	}
	t.Binding = b
	s.markDirty(b.BindingID)
}

// pruneBinding stops following a binding of which nothing more is due.
func (s *Scope) pruneBinding(b *tracked) {
	if len(b.claims) > 0 {
		return
	}
	for key := range s.unsettled {
		if key.bindingID == b.BindingID {
			return
		}
	}
	b.stop()
	delete(s.live, b.BindingID)
}

// appended is the runtime's callback.
func (s *Scope) appended(bindingID string) {
	s.markDirty(bindingID)
}

// markDirty has a binding looked at, by the attachment if there is one.
func (s *Scope) markDirty(bindingID string) {
	s.wakeMu.Lock()
	s.dirty[bindingID] = struct{}{}
	wake := s.wake
	s.wakeMu.Unlock()
	if wake != nil {
		wake()
		return
	}
	s.lookAfter()
}

// lookAfter has the host's goroutine see whether the scope's place is still needed,
// if nobody is attached who would.
func (s *Scope) lookAfter() {
	s.wakeMu.Lock()
	attached := s.wake != nil
	s.wakeMu.Unlock()
	if attached {
		return
	}
	if _, place := s.host.leases.state(s.key); place {
		s.host.tendTo(s)
	}
}

// tend frees the place of turns that ended while nobody is attached. A prompt in
// progress looks after its own.
func (s *Scope) tend(ctx context.Context) error {
	select {
	case s.applying <- struct{}{}:
		defer func() { <-s.applying }()
	default:
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached != nil {
		return nil
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	running, err := s.running(ctx)
	if err != nil || running {
		return err
	}
	s.host.leases.vacate(s.key)
	return nil
}

// running tells whether a native turn of the scope is at work.
func (s *Scope) running(ctx context.Context) (bool, error) {
	for _, t := range s.unsettled {
		b := s.live[t.BindingID]
		if b == nil {
			continue
		}
		native, ok, err := s.host.cfg.Runtime.ReadTurn(ctx, b.NativeThreadID, t.NativeTurnID)
		if err != nil {
			return false, err
		}
		if ok && native.Status.Live() {
			return true, nil
		}
	}
	return false, nil
}

// restoreLease retakes at start-up the lease of a scope that still owes something
// (RH26). A turn takes a place only if it is known to run: an unreadable one cannot
// be asked to, and its next command needs a place anyway.
func (s *Scope) restoreLease(ctx context.Context) {
	if s.owesNothing() {
		return
	}
	running, err := s.running(ctx)
	s.host.leases.restore(s.key, err == nil && running)
}

// owesNothing is RH25: every turn of every binding is settled, and no integrity
// envelope awaits the receiver's cursor.
func (s *Scope) owesNothing() bool { return len(s.unsettled) == 0 && len(s.integrity) == 0 }

// releaseIfSettled gives the lease back when nothing is owed any more.
func (s *Scope) releaseIfSettled() {
	if !s.owesNothing() {
		return
	}
	s.host.tellSettled()
	if held, _ := s.host.leases.state(s.key); !held {
		return
	}
	s.host.leases.release(s.key)
	s.host.settleUse(s)
}

// bound is RH7.
func (s *Scope) bound() error {
	if s.owner == "" {
		return wire.NewError(wire.CodeOwnerUnbound, "No account is bound to this scope yet.")
	}
	return nil
}

// written is the end of every write. After a failure the outcome may be unknown,
// so the memory is read again before its next use. Refusals of the store keep their
// code.
func (s *Scope) written(err error) error {
	if err == nil {
		return nil
	}
	s.loaded = false
	var known *wire.Error
	if errors.As(err, &known) {
		return err
	}
	return wire.WrapError(wire.CodePersistFailed,
		"The host could not store the change. Send the same command again.", err)
}
