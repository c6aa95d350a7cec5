package relay

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Host serves the scopes of one folder. All methods are safe for concurrent use.
type Host struct {
	cfg    Config
	owner  *Owner // nil if the caller keeps the lock
	leases *leases

	// published are the ready providers as the catalog shows them, unpublished why
	// there are none. Both are made at Open and never change (RH8).
	published   []wire.CatalogProvider
	unpublished error

	stopKeeping context.CancelFunc
	keeping     sync.WaitGroup
	wake        chan struct{} // wakes the goroutine of keep

	// mu guards what follows and Scope.users. It is never held across a call.
	mu       sync.Mutex
	closed   bool
	scopes   map[string]*Scope
	idle     *list.List          // of *Scope without users and lease; the front was used last
	untended map[string]struct{} // scopes to look after
	changed  bool                // the watchers are to be told
	drain    drain
	// announced are the catalog events of this process (RH60).
	announced announced
	watchers  map[int]func()
	nextID    int
}

// Open takes the folder, checks the stored state and takes the leases of the
// turns that are still unsettled (RH2, RH3, RH26). Whatever fails, the lock is free
// again. Errors: relay_owner_busy, relay_state_untrusted, relay_store_unavailable.
func Open(ctx context.Context, cfg Config) (_ *Host, err error) {
	if cfg.Store == nil || cfg.Runtime == nil {
		return nil, wire.NewError(wire.CodeInternal, "A relay host needs a store and a runtime.")
	}
	cfg = cfg.withDefaults()
	h := &Host{
		cfg: cfg, scopes: map[string]*Scope{}, idle: list.New(),
		untended: map[string]struct{}{}, watchers: map[int]func(){}, wake: make(chan struct{}, 1),
	}
	h.published, h.unpublished = publish(cfg.Providers)
	h.leases = newLeases(cfg.MaxInflight, h.NotifyRoutes)
	if cfg.Owner == nil {
		if h.owner, err = Own(ctx, cfg.Dir); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, h.owner.Release())
			}
		}()
	}
	if err := cfg.Store.Verify(ctx); err != nil {
		return nil, readFault(err)
	}
	busy, err := h.recover(ctx)
	if err != nil {
		for _, s := range h.scopes {
			s.stopWatching()
		}
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.stopKeeping = cancel
	h.keeping.Go(func() { h.keep(run) })
	for _, s := range busy {
		s.Close()
	}
	return h, nil
}

// recover retakes the leases of the scopes that still owe something. One that is
// not to be trusted is nobody's but its own trouble: it is left out, and says so to
// whoever attaches to it.
func (h *Host) recover(ctx context.Context) ([]*Scope, error) {
	records, err := h.cfg.Store.BusyScopes(ctx)
	if err != nil {
		return nil, readFault(err)
	}
	busy := make([]*Scope, 0, len(records))
	for _, r := range records {
		s, err := h.Scope(ctx, r.TargetRef, r.SessionID)
		if wire.CodeOf(err) == wire.CodeStateUntrusted {
			h.cfg.Logger.ErrorContext(ctx, "a scope's stored state cannot be trusted",
				slog.String("scope", r.Key), slog.Any("error", err))
			continue
		}
		if err != nil {
			return nil, err
		}
		busy = append(busy, s)
		s.mu.Lock()
		s.restoreLease(ctx)
		s.mu.Unlock()
	}
	return busy, nil
}

// Close ends the attachments, waits for commands in progress and for the host's
// goroutine, and frees the folder if Open took it. What the callers' goroutines
// still ask of the host then fails with shutting_down. Native turns go on until
// the Runtime is closed. Closing twice is allowed.
func (h *Host) Close() error {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	scopes := slices.Collect(maps.Values(h.scopes))
	h.mu.Unlock()
	if !first {
		return nil
	}
	h.stopKeeping()
	h.keeping.Wait()
	for _, s := range scopes {
		s.shut()
	}
	if h.owner == nil {
		return nil
	}
	return h.owner.Release()
}

func errClosed() error {
	return wire.NewError(wire.CodeShuttingDown, "The relay host is shutting down.")
}

// Scope opens the scope of exactly this target and session, in memory and with its
// private folder (RH1, RH8). Each call is paired with one Close of the scope.
// Errors: relay_owner_invalid, relay_state_untrusted, relay_store_unavailable,
// shutting_down.
func (h *Host) Scope(ctx context.Context, target, session string) (*Scope, error) {
	if !wire.ValidOwnerComponent(target) || !wire.ValidOwnerComponent(session) {
		return nil, wire.NewError(wire.CodeOwnerInvalid, "The target or the session is not valid.")
	}
	key := wire.ScopeKey(target, session)
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, errClosed()
	}
	s := h.scopes[key]
	if s == nil {
		s = newScope(h, key, target, session)
		h.scopes[key] = s
	}
	s.users++
	if s.idle != nil {
		h.idle.Remove(s.idle)
		s.idle = nil
	}
	h.mu.Unlock()

	s.mu.Lock()
	err := s.ready(ctx)
	s.mu.Unlock()
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// settleUse puts a scope in line for unloading if nobody uses it and it holds no
// lease.
func (h *Host) settleUse(s *Scope) {
	held, _ := h.leases.state(s.key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.users > 0 || s.idle != nil || held || h.closed || h.scopes[s.key] != s {
		return
	}
	s.idle = h.idle.PushFront(s)
	if h.idle.Len() > h.cfg.IdleScopes {
		h.nudge()
	}
}

// Loaded tells how many scopes are in memory.
func (h *Host) Loaded() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.scopes)
}

// Hello is how the host introduces itself on a link.
func (h *Host) Hello() wire.Hello {
	return wire.Hello{
		HostID: h.cfg.HostID, Name: h.cfg.Name, Version: h.cfg.Version,
		Protocols: []string{wire.HostProtocol, wire.ChatRelayProtocol},
		Capabilities: []string{
			wire.CapabilityContinueFrom, wire.CapabilityTurnContext,
			wire.CapabilityReasoning, wire.CapabilityOutcome, wire.CapabilitySteer,
		},
		ConfigGenerations: []int{1, 2},
		ClockMs:           h.cfg.Now().UnixMilli(),
		Owing:             h.owed(),
	}
}

// owed is the runs of loaded scopes that owe something (RH25); a scope that does is
// loaded.
func (h *Host) owed() (runs []wire.Owing) {
	h.mu.Lock()
	scopes := slices.Collect(maps.Values(h.scopes))
	h.mu.Unlock()
	for _, s := range scopes {
		runs = append(runs, s.owed()...)
	}
	return runs[:min(len(runs), wire.MaxOwing)]
}

func (s *Scope) owed() []wire.Owing {
	s.mu.Lock()
	defer s.mu.Unlock()
	byRun := map[string]wire.Owing{}
	for runID, seq := range s.integrity {
		byRun[runID] = wire.Owing{RunID: runID, Seq: seq}
	}
	for _, t := range s.unsettled {
		byRun[t.RunID] = wire.Owing{RunID: t.RunID, Seq: byRun[t.RunID].Seq, Turns: byRun[t.RunID].Turns + 1}
	}
	return slices.Collect(maps.Values(byRun))
}

// Room says how many provider requests run and how many may.
func (h *Host) Room() wire.Room { return h.leases.room() }

// Watch calls fn when Room, the readiness of a route or Draining changed: from the
// host's goroutine, without a lock, several changes at once as one. fn must not block. A
// call may still be under way when stop returns.
func (h *Host) Watch(fn func()) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.nextID
	h.nextID++
	h.watchers[id] = fn
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, id)
	}
}

// NotifyRoutes has the watchers told that the readiness of a route changed: who
// supplies Config.Cooling calls it. It never blocks.
func (h *Host) NotifyRoutes() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = true
	h.nudge()
}

// tendTo has the host's goroutine look after a scope that nobody is attached to.
// It never blocks.
func (h *Host) tendTo(s *Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.untended[s.key] = struct{}{}
	h.nudge()
}

func (h *Host) nudge() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// keep is the host's goroutine. What it does, it does without a lock of the host:
// telling watchers, looking after scopes, unloading idle ones.
func (h *Host) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		fns, untended, unloaded := h.chores()
		for _, s := range unloaded {
			s.stopWatching()
		}
		for _, s := range untended {
			if err := s.tend(ctx); err != nil && ctx.Err() == nil {
				h.cfg.Logger.WarnContext(ctx, "looking after an unattached scope failed",
					slog.String("scope", s.key), slog.Any("error", err))
			}
		}
		for _, fn := range fns {
			fn()
		}
	}
}

// chores takes what there is to do.
func (h *Host) chores() (fns []func(), untended, unloaded []*Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed {
		fns = slices.Collect(maps.Values(h.watchers))
		h.changed = false
	}
	for key := range h.untended {
		if s := h.scopes[key]; s != nil {
			untended = append(untended, s)
		}
	}
	clear(h.untended)
	for h.idle.Len() > h.cfg.IdleScopes {
		oldest, _ := h.idle.Remove(h.idle.Back()).(*Scope)
		oldest.idle = nil
		delete(h.scopes, oldest.key)
		unloaded = append(unloaded, oldest)
	}
	return fns, untended, unloaded
}

func (h *Host) now() time.Time { return h.cfg.Now() }

// isolate makes the private folders of a scope (RH1, RH8). Native threads and
// everything else that the contract keeps in such a folder are rows here; nothing of
// the operator's settings is in reach of a prompt, which reads no folder at all.
func (h *Host) isolate(key string) error {
	base := filepath.Join(h.cfg.Dir, key)
	for _, dir := range []string{
		base,
		filepath.Join(base, "chat-workspace"),
		filepath.Join(base, "prompt-context"),
		filepath.Join(base, "prompt-context", "skills-empty"),
	} {
		if err := privateDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// readFault is an error of the store while reading.
func readFault(err error) error {
	var known *wire.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return wire.WrapError(wire.CodeStoreUnavailable, "The host could not read its stored state.", err)
}
