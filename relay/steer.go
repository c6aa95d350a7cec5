package relay

import (
	"context"
	"log/slog"

	"github.com/fairlead/fairlead/relay/wire"
)

// Steer offers a message to a turn of the run and returns once the turn knows of
// it. receipt then waits for what became of it: delivered, once the native turn
// holds the message durably, or rejected (payload_too_large, unsupported,
// turn_unknown, turn_over). known is false if ctx or the attachment ended first,
// where the steer stays offered, and if only the next process can know. The same
// delivery again is the same steer, also after its turn has ended: what was delivered
// is never told as rejected. Errors, which say nothing of the steer:
// relay_run_not_authorized, relay_native_unavailable, relay_store_unavailable,
// shutting_down.
func (a *Attachment) Steer(ctx context.Context, m wire.Steer) (receipt func(context.Context) (r wire.Receipt, known bool), err error) {
	if err := a.current(); err != nil {
		return nil, err
	}
	if m.RunID != a.attach.RunID {
		return nil, errForeignRun()
	}
	answer := wire.Receipt{RunID: m.RunID, TurnID: m.TurnID, DeliveryID: m.DeliveryID, Outcome: wire.ReceiptRejected}
	if answer.Reason = a.refuseSteer(m); answer.Reason != "" {
		return told(answer), nil
	}
	b, t, ok, err := a.scope.steered(ctx, m)
	if err != nil {
		return nil, err
	}
	if !ok {
		answer.Reason = wire.ReasonTurnUnknown
		return told(answer), nil
	}
	settled, err := a.scope.host.cfg.Runtime.OfferSteer(ctx, b.NativeThreadID, t.NativeTurnID,
		Steer{DeliveryID: m.DeliveryID, Text: m.Text, Now: m.Now})
	if err != nil {
		return nil, nativeUnavailable(err)
	}
	return func(ctx context.Context) (wire.Receipt, bool) {
		select {
		case res, known := <-settled:
			if answer.Reason = res.Reason; res.Taken {
				answer.Outcome, answer.At, answer.Cut = wire.ReceiptDelivered, res.At, res.Cut
			}
			return answer, known
		case <-a.done:
		case <-ctx.Done():
		}
		return wire.Receipt{}, false
	}, nil
}

// told is a receipt that is known at once.
func told(r wire.Receipt) func(context.Context) (wire.Receipt, bool) {
	return func(context.Context) (wire.Receipt, bool) { return r, true }
}

// refuseSteer says why a steer cannot be offered to any turn, "" if it can.
func (a *Attachment) refuseSteer(m wire.Steer) (reason string) {
	if wire.SteerSize(m.DeliveryID, m.Text) > wire.MaxSteerBytes {
		return wire.ReasonSteerTooLarge
	}
	if !a.features.steer {
		return wire.ReasonSteerUnsupported
	}
	if faults := wire.ValidateStruct(m); len(faults) > 0 {
		a.scope.host.cfg.Logger.Warn("a steer is malformed", slog.String("run", m.RunID),
			slog.String("field", faults[0].Path), slog.String("rule", faults[0].Rule))
		return wire.ReasonSteerUnsupported
	}
	return ""
}

// steered finds the reservation that a steer is for, settled or not, in the run
// that is authorised, and its binding.
func (s *Scope) steered(ctx context.Context, m wire.Steer) (b Binding, t Turn, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return b, t, false, err
	}
	if err := s.bound(); err != nil {
		return b, t, false, err
	}
	if err := s.authorised(m.RunID); err != nil {
		return b, t, false, err
	}
	for _, u := range s.unsettled {
		if u.TurnID == m.TurnID && u.RunID == m.RunID {
			if live := s.live[u.BindingID]; live != nil {
				return live.Binding, u, true, nil
			}
		}
	}
	if t, ok, err = s.host.cfg.Store.TurnInRun(ctx, s.key, m.RunID, m.TurnID); err != nil || !ok {
		return b, t, false, readFault(err)
	}
	if b, ok, err = s.host.cfg.Store.Binding(ctx, s.key, t.BindingID); err != nil {
		return b, t, false, readFault(err)
	}
	return b, t, ok, t.validate()
}
