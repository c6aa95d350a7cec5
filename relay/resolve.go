package relay

import (
	"context"

	"github.com/fairlead/fairlead/relay/wire"
)

// resolve looks a binding up by its id and by its virtual thread id (RH27 (6)): ok
// is false if neither is known; one without the other is relay_binding_mismatch.
func (s *Scope) resolve(ctx context.Context, bindingID, threadID string) (b Binding, ok bool, err error) {
	byID, idKnown, err := s.host.cfg.Store.Binding(ctx, s.key, bindingID)
	if err != nil {
		return b, false, readFault(err)
	}
	byThread, threadKnown, err := s.host.cfg.Store.BindingByThread(ctx, s.key, threadID)
	if err != nil {
		return b, false, readFault(err)
	}
	if !idKnown && !threadKnown {
		return b, false, nil
	}
	if !idKnown || !threadKnown || byID.BindingID != byThread.BindingID {
		return b, false, wire.NewError(wire.CodeBindingMismatch, "The binding and the thread do not belong together.")
	}
	return byID, true, byID.validate()
}

// turnOf reads a reservation; nil if there is none.
func (s *Scope) turnOf(ctx context.Context, bindingID, turnID string) (*Turn, error) {
	t, ok, err := s.host.cfg.Store.Turn(ctx, s.key, bindingID, turnID)
	if err != nil {
		return nil, readFault(err)
	}
	if !ok {
		return nil, nil
	}
	return &t, t.validate()
}

// IsExactPromptReplay tells whether a command was reserved before, exactly as it is
// (RH36). It only reads, and needs no authorised run. Errors: those of
// wire.PromptRequest.Validate, relay_binding_mismatch, relay_run_not_authorized,
// relay_turn_mismatch.
func (s *Scope) IsExactPromptReplay(ctx context.Context, cmd *wire.PromptRequest) (bool, error) {
	if err := cmd.Validate(); err != nil {
		return false, err
	}
	o, err := newOrder(cmd)
	if err != nil {
		return false, err
	}
	b, known, err := s.resolve(ctx, cmd.RuntimeBindingID, cmd.RuntimeThreadID)
	if err != nil || !known {
		return false, err
	}
	if b.RunID != cmd.RunID {
		return false, wire.NewError(wire.CodeRunNotAuthorized, "The binding belongs to another run.")
	}
	turn, err := s.turnOf(ctx, b.BindingID, cmd.TurnID)
	if err != nil || turn == nil {
		return false, err
	}
	if !o.exact(turn) {
		return false, wire.NewError(wire.CodeTurnMismatch, "This turn was reserved for a different request.")
	}
	return true, nil
}

// Interrupt stops a turn (RH37, RH38). A turn that has ended is left as it is, and
// nil. It never settles the reservation: only the projected end does. Errors:
// relay_owner_unbound, relay_command_invalid, relay_interrupt_unknown,
// relay_interrupt_other_run, relay_native_unavailable (also for a turn that is
// reserved and not yet accepted), relay_interrupt_failed.
func (s *Scope) Interrupt(ctx context.Context, c *wire.RunControl) error {
	s.mu.Lock()
	err := s.ready(ctx)
	if err == nil {
		err = s.bound()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	b, known, err := s.resolve(ctx, c.RuntimeBindingID, c.RuntimeThreadID)
	if wire.CodeOf(err) == wire.CodeBindingMismatch || err == nil && !known {
		return errInterruptUnknown()
	}
	if err != nil {
		return err
	}
	if b.RunID != c.RunID {
		return wire.NewError(wire.CodeInterruptOtherRun, "The turn to stop belongs to another run.")
	}
	turn, err := s.turnOf(ctx, b.BindingID, c.TurnID)
	if err != nil {
		return err
	}
	if turn == nil {
		return errInterruptUnknown()
	}
	return s.interruptNative(ctx, b, *turn)
}

func (s *Scope) interruptNative(ctx context.Context, b Binding, t Turn) error {
	native, accepted, err := s.host.cfg.Runtime.ReadTurn(ctx, b.NativeThreadID, t.NativeTurnID)
	if err != nil || !accepted {
		return nativeUnavailable(err)
	}
	if !native.Status.Live() {
		return nil
	}
	if err := s.host.cfg.Runtime.InterruptTurn(ctx, b.NativeThreadID, t.NativeTurnID); err != nil {
		// It may have ended between the two calls: then there is nothing to stop.
		if native, ok, rerr := s.host.cfg.Runtime.ReadTurn(ctx, b.NativeThreadID, t.NativeTurnID); rerr == nil && ok && !native.Status.Live() {
			return nil
		}
		return wire.WrapError(wire.CodeInterruptFailed, "The turn could not be stopped. Send the same command again.", err)
	}
	return nil
}

func errInterruptUnknown() error {
	return wire.NewError(wire.CodeInterruptUnknown, "The turn to stop is not known here.")
}
