package relay

import (
	"context"
	"errors"

	"github.com/fairlead/fairlead/relay/wire"
)

// order is a prompt command on its way through Apply.
type order struct {
	cmd       *wire.PromptRequest
	operation string // fingerprints
	request   string
	system    string // "" without a system prompt
}

func newOrder(cmd *wire.PromptRequest) (order, error) {
	request, err := cmd.RequestFingerprint()
	if err != nil {
		return order{}, err
	}
	o := order{cmd: cmd, request: request, operation: wire.Fingerprint(cmd.OperationKey)}
	if cmd.SystemPrompt != nil {
		o.system = wire.Fingerprint(*cmd.SystemPrompt)
	}
	return o, nil
}

// exact tells whether a reservation is this order's own (RH28).
func (o order) exact(t *Turn) bool {
	return t != nil && t.OperationFingerprint == o.operation && t.RequestFingerprint == o.request
}

// Apply runs a prompt command, once: nil means that its turn is accepted durably,
// now or by an earlier call (RH27–RH35). It does not wait for the turn, nor for
// room. Once the turn is reserved, Apply goes on to its end even if ctx ends.
// Errors, in order of precedence: relay_owner_unbound, relay_run_not_authorized,
// those of wire.PromptRequest.Validate, relay_binding_mismatch, shutting_down,
// relay_output_limit_unsupported, relay_route_not_active, relay_turn_active,
// relay_route_pinned, relay_system_prompt_late, relay_native_unavailable,
// relay_turn_mismatch, relay_operation_reused, relay_persist_failed,
// relay_inference_busy, relay_operation_mismatch, relay_start_failed.
func (s *Scope) Apply(ctx context.Context, cmd *wire.PromptRequest) error {
	if err := s.admit(ctx, cmd.RunID); err != nil {
		return err
	}
	select {
	case s.applying <- struct{}{}:
		defer s.applied()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := cmd.Validate(); err != nil {
		return err
	}
	o, err := newOrder(cmd)
	if err != nil {
		return err
	}
	b, err := s.prepare(ctx, o)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	reserved, result, err := s.reserve(ctx, o, b)
	if err != nil || result == ReservedExistingTerminal {
		return err
	}
	if !s.lease(ctx, b, reserved, result) {
		return s.refuseBusy(ctx, reserved, result)
	}
	return s.start(ctx, o, b, reserved)
}

// applied gives the apply lock back. The turn may have ended in the meantime.
func (s *Scope) applied() {
	<-s.applying
	s.lookAfter()
}

// admit is RH27 (1) and (2).
func (s *Scope) admit(ctx context.Context, runID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.bound(); err != nil {
		return err
	}
	return s.authorised(runID)
}

// prepare finds the binding of an order, or makes it (RH27 (6) to RH30). While the
// apply lock is held nobody else adds bindings or reservations to the scope, so
// what is read here still holds when it is used.
func (s *Scope) prepare(ctx context.Context, o order) (Binding, error) {
	b, known, err := s.resolve(ctx, o.cmd.RuntimeBindingID, o.cmd.RuntimeThreadID)
	if err != nil {
		return b, err
	}
	var turn *Turn
	if known {
		if turn, err = s.turnOf(ctx, b.BindingID, o.cmd.TurnID); err != nil {
			return b, err
		}
	}
	exact := o.exact(turn)
	// An exact retry of a rejected start would start a turn too (trap 21).
	starts := !exact || turn.StartRejected
	if starts {
		if err := s.host.takesPrompts(); err != nil {
			return b, err
		}
	}
	if !exact {
		if err := s.host.routeActive(o.cmd); err != nil {
			return b, err
		}
	}
	if starts {
		if err := s.noTurnActive(ctx, o.cmd.RunID); err != nil {
			return b, err
		}
	}
	if !known {
		return s.create(ctx, o)
	}
	if err := pinned(b, o); err != nil {
		return b, err
	}
	if err := s.host.cfg.Runtime.ReadThread(ctx, b.NativeThreadID); err != nil {
		return b, nativeUnavailable(err)
	}
	return b, nil
}

// noTurnActive is the refusal of RH28.
func (s *Scope) noTurnActive(ctx context.Context, runID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	for _, t := range s.unsettled {
		if t.RunID == runID {
			return wire.NewError(wire.CodeTurnActive, "Another turn of this run has not been settled yet.")
		}
	}
	return nil
}

// pinned is RH29: what a binding was made with it keeps.
func pinned(b Binding, o order) error {
	if b.RunID != o.cmd.RunID || b.Model != o.cmd.Model ||
		b.ModelProvider != o.cmd.ModelProvider || b.ModelProviderID != o.cmd.ModelProviderID {
		return wire.NewError(wire.CodeRoutePinned, "The thread is pinned to another run or route.")
	}
	if o.system != "" && (o.operation != b.FirstOperation || o.system != b.SystemPrompt) {
		return wire.NewError(wire.CodeSystemPromptLate, "Only the first command of a thread may bring a system prompt.")
	}
	if o.cmd.ContinueFrom != nil && *o.cmd.ContinueFrom != b.ContinuedFrom {
		return wire.NewError(wire.CodeBindingMismatch, "The thread does not continue that binding.")
	}
	return nil
}

// create makes the native thread and then the binding of a first command (RH30).
func (s *Scope) create(ctx context.Context, o order) (Binding, error) {
	thread := NewThread{
		Model: o.cmd.Model, ModelProvider: o.cmd.ModelProvider, ModelProviderID: o.cmd.ModelProviderID,
		ReasoningEffort: effortOf(o.cmd), SystemPrompt: SystemPrompt(o.cmd.SystemPrompt),
	}
	b := Binding{
		RunID: o.cmd.RunID, BindingID: o.cmd.RuntimeBindingID, VirtualThreadID: o.cmd.RuntimeThreadID,
		Model: o.cmd.Model, ModelProvider: o.cmd.ModelProvider, ModelProviderID: o.cmd.ModelProviderID,
		FirstOperation: o.operation, SystemPrompt: o.system, CreatedAt: s.host.now(),
	}
	if o.cmd.ContinueFrom != nil {
		from, ok, err := s.host.cfg.Store.Binding(ctx, s.key, *o.cmd.ContinueFrom)
		if err != nil {
			return b, readFault(err)
		}
		if !ok {
			return b, wire.NewError(wire.CodeBindingMismatch, "The binding to continue is not known here.")
		}
		thread.ContinueFrom, b.ContinuedFrom = from.NativeThreadID, from.BindingID
	}
	var err error
	if b.NativeThreadID, err = s.host.cfg.Runtime.CreateThread(ctx, thread); err != nil {
		return b, nativeUnavailable(err)
	}
	// From here a thread exists that nobody else knows of: whatever becomes of the
	// caller, it is bound or discarded.
	return b, s.insert(context.WithoutCancel(ctx), b)
}

func (s *Scope) insert(ctx context.Context, b Binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.ready(ctx)
	if err == nil {
		err = s.written(s.host.cfg.Store.InsertBinding(ctx, s.key, b))
	}
	if err == nil {
		return nil
	}
	// The write may have happened although it failed. A thread that a binding names
	// is kept; so is one of which that cannot be ruled out.
	_, bound, lookup := s.host.cfg.Store.BindingByNative(ctx, s.key, b.NativeThreadID)
	if lookup == nil && !bound {
		// A failed discard leaves an empty thread behind, which harms nobody.
		_ = s.host.cfg.Runtime.DiscardThread(ctx, b.NativeThreadID)
	}
	return err
}

// reserve makes the turn durable before it starts (RH31, RH32).
func (s *Scope) reserve(ctx context.Context, o order, b Binding) (Turn, Reservation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return Turn{}, 0, err
	}
	existing, err := s.turnOf(ctx, b.BindingID, o.cmd.TurnID)
	if err != nil {
		return Turn{}, 0, err
	}
	holder, ok, err := s.host.cfg.Store.TurnByOperation(ctx, s.key, b.BindingID, o.operation)
	if err != nil {
		return Turn{}, 0, readFault(err)
	}
	var held *Turn
	if ok {
		held = &holder
	}
	turn, result, err := Reserve(existing, held, Turn{
		RunID: o.cmd.RunID, BindingID: b.BindingID, TurnID: o.cmd.TurnID,
		NativeTurnID:         wire.NativeTurnID(b.NativeThreadID, b.BindingID, o.cmd.TurnID, o.operation),
		OperationFingerprint: o.operation, RequestFingerprint: o.request, ReservedAt: s.host.now(),
	})
	if err != nil || result == ReservedExistingTerminal {
		return turn, result, err
	}
	if result != ReservedExistingUnsettled {
		if err := s.written(s.host.cfg.Store.SaveTurn(ctx, s.key, turn)); err != nil {
			return turn, result, err
		}
		s.unsettled[turn.key()] = turn
	}
	s.follow(b)
	return turn, result, nil
}

// lease takes the scope's lease (RH34). A turn that was accepted earlier needs no
// place: the replay starts nothing.
func (s *Scope) lease(ctx context.Context, b Binding, t Turn, result Reservation) bool {
	place := true
	if result == ReservedExistingUnsettled {
		_, accepted, err := s.host.cfg.Runtime.ReadTurn(ctx, b.NativeThreadID, t.NativeTurnID)
		place = err != nil || !accepted
	}
	return s.host.leases.take(s.key, place)
}

// refuseBusy answers a command for which there is no room (RH34). What this call
// reserved is settled again, so that nothing waits for a turn that never was.
func (s *Scope) refuseBusy(ctx context.Context, t Turn, result Reservation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if result != ReservedExistingUnsettled {
		if err := s.settleRejected(ctx, t); err != nil {
			return err
		}
	}
	s.releaseIfSettled()
	return errInferenceBusy()
}

// start gives the turn to the runtime (RH35).
func (s *Scope) start(ctx context.Context, o order, b Binding, t Turn) error {
	cause := s.host.cfg.Runtime.StartTurn(ctx, StartTurn{
		ThreadID: b.NativeThreadID, TurnID: t.NativeTurnID, OperationKey: o.cmd.OperationKey,
		Prompt: o.cmd.Prompt, Images: o.cmd.Images,
		Model: o.cmd.Model, ModelProvider: o.cmd.ModelProvider, ModelProviderID: o.cmd.ModelProviderID,
		ReasoningEffort: effortOf(o.cmd), MaxOutputTokens: valueOf(o.cmd.MaxOutputTokens),
		Context: valueOf(o.cmd.Context),
	})
	if cause == nil {
		s.markDirty(b.BindingID)
		return nil
	}
	_, accepted, unreadable := s.host.cfg.Runtime.ReadTurn(ctx, b.NativeThreadID, t.NativeTurnID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if unreadable == nil && !accepted {
		if err := s.settleRejected(ctx, t); err != nil {
			return err
		}
	}
	s.releaseIfSettled()
	return startFault(cause)
}

// settleRejected settles a turn whose native start is proven never to have been
// accepted. mu is held.
func (s *Scope) settleRejected(ctx context.Context, t Turn) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	t.TerminalProjected, t.StartRejected, t.SettledAt = true, true, s.host.now()
	if err := s.written(s.host.cfg.Store.SaveTurn(ctx, s.key, t)); err != nil {
		return err
	}
	delete(s.unsettled, t.key())
	if b := s.live[t.BindingID]; b != nil {
		s.pruneBinding(b)
	}
	s.host.leases.vacate(s.key)
	return nil
}

// startFault keeps the runtime's words from the caller (RH35).
func startFault(cause error) error {
	var known *wire.Error
	if errors.As(cause, &known) && known.Code == wire.CodeOperationMismatch {
		return wire.WrapError(wire.CodeOperationMismatch, "The operation key does not match the turn that it started.", cause)
	}
	return wire.WrapError(wire.CodeStartFailed, "The turn could not start. Send the same command again.", cause)
}

func nativeUnavailable(cause error) error {
	return wire.WrapError(wire.CodeNativeUnavailable, "The conversation cannot be read on its host.", cause)
}

func effortOf(cmd *wire.PromptRequest) string {
	if cmd.ReasoningEffort == nil {
		return ""
	}
	effort, _ := wire.NormalizeEffort(*cmd.ReasoningEffort)
	return effort
}

func valueOf[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
