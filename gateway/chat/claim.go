package chat

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// claim takes a waiting message out of the queue and makes the turn that it
// becomes, in the caller's transaction: turn, replacement event, run, binding and
// command. With a routeErr the turn is stored as failed at once (SQ60, SQ61), so
// that the person sees why.
//
// The caller holds the thread's lock and has found it idle. A message that is
// gone is errClaimLost (CG78): nothing was appended then.
func (s *Service) claim(ctx context.Context, u *unit, th gateway.ThreadRow, q gateway.QueueRow, route gateway.Route, routeErr error) (gateway.TurnRow, error) {
	t := gateway.TurnRow{
		ID: newID(), OrgID: th.OrgID, AccountID: th.AccountID, ThreadID: th.ID, InputEventID: q.EventID,
		Status: gateway.TurnPending, CreatedAt: u.now,
		Model: route.Model, Route: route.ModelProviderID,
	}
	if q.EventID == "" {
		return t, wire.NewError(gateway.CodeQueueAssociationRequired, "A turn needs the waiting message that it takes.")
	}
	if err := u.LockQueueRow(ctx, q.EventID); err != nil {
		return t, err
	}
	if ok, err := u.Dequeue(ctx, q.EventID); err != nil {
		return t, err
	} else if !ok {
		return t, errClaimLost
	}
	if routeErr != nil {
		t.Model = q.Model
		return s.claimFailed(ctx, u, t, q, routeErr)
	}
	body, err := s.bind(ctx, u, &t, q, route)
	if err != nil {
		return t, err
	}
	if err := s.insertTurn(ctx, u, t, q); err != nil {
		return t, err
	}
	if _, err := u.AppendCommand(ctx, gateway.CommandRow{
		RunID: t.RunID, TurnID: t.ID, Kind: wire.TypePromptRequest, Body: body, CreatedAt: u.now,
	}); err != nil {
		return t, err
	}
	u.afterCommit(func() { s.lives.add(s.newLive(t)) })
	u.state(t)
	u.wakes = append(u.wakes, t.RunID)
	return t, nil
}

// errClaimLost tells that a waiting message was recalled or taken meanwhile.
var errClaimLost = errors.New("chat: the waiting message is gone")

// insertTurn stores the turn and the replacement event that binds its message.
func (s *Service) insertTurn(ctx context.Context, u *unit, t gateway.TurnRow, q gateway.QueueRow) error {
	input, err := u.Event(ctx, q.EventID)
	if err != nil {
		return fmt.Errorf("claim %s: %w", q.EventID, err)
	}
	if err := u.InsertTurn(ctx, t); err != nil {
		return err
	}
	if err := u.AddMoment(ctx, t.ID, q.CreatedAt, "queued", ""); err != nil {
		return err
	}
	if err := u.AddMoment(ctx, t.ID, u.now, "claimed", t.Route); err != nil {
		return err
	}
	return u.append(ctx, &gateway.Event{
		ID: newID(), EventType: gateway.EventInputPrompt, TurnID: t.ID,
		RevokesEventID: q.EventID, OriginID: originOf(q), UserMessage: input.UserMessage,
	})
}

// originOf names the client's event on a replacement when it is not the one that
// the replacement revokes.
func originOf(q gateway.QueueRow) string {
	if q.OriginID == q.EventID {
		return ""
	}
	return q.OriginID
}

func (s *Service) claimFailed(ctx context.Context, u *unit, t gateway.TurnRow, q gateway.QueueRow, cause error) (gateway.TurnRow, error) {
	t.Status, t.EndedAt, t.Error = gateway.TurnFailed, u.now, endCode(wire.CodeOf(cause))
	if err := s.insertTurn(ctx, u, t, q); err != nil {
		return t, err
	}
	if err := u.AddMoment(ctx, t.ID, u.now, string(t.Status), string(t.Error)); err != nil {
		return t, err
	}
	u.state(t)
	return t, u.append(ctx, &gateway.Event{
		ID: newID(), EventType: gateway.EventTurnFailed, TurnID: t.ID, Error: t.Error,
	})
}

// bind finds or makes the run of the thread at the route's host and the binding
// for the route, and builds the command that starts the turn.
func (s *Service) bind(ctx context.Context, u *unit, t *gateway.TurnRow, q gateway.QueueRow, route gateway.Route) (json.RawMessage, error) {
	run, err := s.runFor(ctx, u, *t, route)
	if err != nil {
		return nil, err
	}
	binding, fresh, err := s.bindingFor(ctx, u, run, route)
	if err != nil {
		return nil, err
	}
	t.RunID, t.BindingID, t.HostID = run.ID, binding.ID, run.HostID
	t.VirtualTurnID = wire.NewVirtualTurnID()
	cmd := wire.PromptRequest{
		Type: wire.TypePromptRequest, RunID: run.ID, TurnID: t.VirtualTurnID, OperationKey: randomHex(16),
		RuntimeBindingID: binding.ID, RuntimeThreadID: binding.VirtualThreadID, Prompt: q.Prompt,
		Model: route.Model, ModelProvider: route.ModelProvider, ModelProviderID: route.ModelProviderID,
		AllowedTools: []string{}, Mode: "chat", RequestedMode: "chat",
		Workspace: wire.Workspace{ID: workspaceOf(run), TargetRef: run.TargetRef},
	}
	if o := q.Options; o != nil {
		if o.ReasoningEffort != "" {
			cmd.ReasoningEffort = &o.ReasoningEffort
		}
		if o.MaxOutputTokens != 0 {
			cmd.MaxOutputTokens = &o.MaxOutputTokens
		}
	}
	if fresh && binding.ContinueFrom != "" {
		cmd.ContinueFrom = &binding.ContinueFrom
	}
	return encode(cmd), nil
}

// workspaceOf is the opaque workspace of a run: its thread.
func workspaceOf(run gateway.RunRow) string { return run.ThreadID }

// sessionOf is the session of a run's scope at its host: one for each thread.
func sessionOf(run gateway.RunRow) string { return "chat:" + run.ThreadID }

func (s *Service) runFor(ctx context.Context, u *unit, t gateway.TurnRow, route gateway.Route) (gateway.RunRow, error) {
	run, err := u.RunFor(ctx, t.ThreadID, route.HostID, route.TargetRef)
	if !errors.Is(err, gateway.ErrNoRow) {
		return run, err
	}
	run = gateway.RunRow{
		ID: newID(), OrgID: t.OrgID, AccountID: t.AccountID, ThreadID: t.ThreadID,
		HostID: route.HostID, TargetRef: route.TargetRef, CreatedAt: u.now,
	}
	return run, u.InsertRun(ctx, run)
}

// bindingFor gives the binding that the turn runs in. A binding is pinned to its
// route (RH29), and its native conversation knows only its own turns: so the
// newest one is used again if the route is the same, and any other route, also
// one used before, gets a new binding that continues from the newest. One whose
// first command never took effect is left behind.
func (s *Service) bindingFor(ctx context.Context, u *unit, run gateway.RunRow, route gateway.Route) (b gateway.BindingRow, fresh bool, err error) {
	latest, err := u.LatestBinding(ctx, run.ID)
	if err != nil && !errors.Is(err, gateway.ErrNoRow) {
		return b, false, err
	}
	known := err == nil
	if known && latest.Model == route.Model && latest.ModelProvider == route.ModelProvider &&
		latest.ModelProviderID == route.ModelProviderID {
		return latest, false, nil
	}
	b = gateway.BindingRow{
		ID: newID(), RunID: run.ID, Model: route.Model, ModelProvider: route.ModelProvider,
		ModelProviderID: route.ModelProviderID, VirtualThreadID: wire.NewVirtualThreadID(), CreatedAt: u.now,
	}
	if known && can(route, wire.CapabilityContinueFrom) {
		b.ContinueFrom = latest.ID
	}
	return b, true, u.InsertBinding(ctx, b)
}

func can(route gateway.Route, capability string) bool {
	return route.Capabilities == nil || slices.Contains(route.Capabilities, capability)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// drainSoon looks at a thread in the background: see drain.
func (s *Service) drainSoon(threadID string) {
	s.spawn(func(ctx context.Context) {
		if err := s.drain(ctx, threadID); err != nil && ctx.Err() == nil {
			s.log.Error("a waiting message could not be started; the next sweep tries again", "thread", threadID, "error", err)
		}
	})
}

// drainIdle drains every idle thread in which something waits.
func (s *Service) drainIdle(ctx context.Context) error {
	var idle []string
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		idle, err = tx.IdleThreads(ctx, 1000)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for idle threads: %w", err)
	}
	for _, id := range idle {
		if err := s.drain(ctx, id); err != nil {
			s.log.Error("a waiting message could not be started; the next sweep tries again", "thread", id, "error", err)
		}
	}
	return nil
}

// drain starts the head of an idle thread's queue (FIFO within a rank, one
// message for a turn). It does nothing if the thread is not idle; each end of a
// turn, each start of the program and each sweep comes through here.
func (s *Service) drain(ctx context.Context, threadID string) error {
	for {
		head, th, err := s.next(ctx, threadID)
		if err != nil || head == nil {
			return err
		}
		owner := gateway.Actor{AccountID: th.AccountID, OrgID: th.OrgID}
		model := head.Model
		if model == "" && th.Model != nil {
			model = *th.Model
		}
		route, routeErr := s.routes.Resolve(ctx, owner, model)
		if routeErr != nil && (transient(routeErr) || s.settling()) {
			s.log.Debug("no route for a waiting message yet", "thread", threadID, "error", routeErr)
			return nil
		}
		again := false
		var status gateway.TurnStatus
		err = s.update(ctx, func(u *unit) error {
			again = false
			if err := u.LockThread(ctx, threadID); err != nil {
				return err
			}
			th, err := u.Thread(ctx, threadID)
			if err != nil || th.Active != nil || th.Recovering || th.DeletedAt != 0 {
				return err
			}
			u.of(th)
			now, err := u.QueueHead(ctx, threadID)
			if errors.Is(err, gateway.ErrNoRow) {
				return nil
			}
			if err != nil {
				return err
			}
			if now.EventID != head.EventID {
				again = true
				return nil
			}
			t, err := s.claim(ctx, u, th, now, route, routeErr)
			status = t.Status
			return err
		})
		if errors.Is(err, errClaimLost) {
			continue
		}
		// A turn that failed at once leaves the thread idle for the next.
		if err != nil || (!again && status != gateway.TurnFailed) {
			return err
		}
	}
}

// next reads the head of the queue if the thread could start it.
func (s *Service) next(ctx context.Context, threadID string) (head *gateway.QueueRow, th gateway.ThreadRow, err error) {
	err = s.store.View(ctx, func(tx gateway.ChatTx) error {
		if th, err = tx.Thread(ctx, threadID); err != nil {
			return err
		}
		if th.Active != nil || th.Recovering || th.DeletedAt != 0 || th.Waiting == 0 {
			return nil
		}
		q, err := tx.QueueHead(ctx, threadID)
		if err == nil {
			head = &q
		}
		return err
	})
	if errors.Is(err, gateway.ErrNoRow) {
		return nil, th, nil
	}
	return head, th, err
}

// settling tells whether the program has started so lately that a route may be
// missing only because its host is not back yet.
func (s *Service) settling() bool {
	return !s.started.IsZero() && s.now().Sub(s.started) < s.limits.RouteGrace
}

// transient tells whether a message should wait rather than fail for an error of
// its route.
func transient(err error) bool {
	switch wire.CodeOf(err) {
	case "", wire.CodeNoHost, gateway.CodeRouteUnavailable, gateway.CodeModelUnknown, gateway.CodeModelNotAllowed:
		return false
	}
	return true
}

// endCode is the code that a turn ends with for an error of its route or host:
// codes of the relay contract are not for people.
func endCode(code wire.Code) wire.Code {
	switch code {
	case wire.CodeNoHost, gateway.CodeRouteUnavailable, wire.CodeHostOffline, wire.CodeHostLost, wire.CodeHostRestarted,
		wire.CodeModelFailed, wire.CodeModelUnreachable, wire.CodeModelRateLimited, wire.CodeModelOverloaded,
		wire.CodeModelCredentialInvalid, wire.CodeModelNotFound, wire.CodeModelRequestRefused, wire.CodeModelRefused,
		wire.CodeModelStreamCut, wire.CodeModelStreamInvalid, wire.CodeModelStalled, wire.CodeModelOutputIncomplete,
		wire.CodeModelOutputEmpty, wire.CodeModelToolCallUnsupported, wire.CodeTurnDeadline:
		return code
	case gateway.CodeModelUnknown, gateway.CodeModelNotAllowed:
		return wire.CodeModelNotFound
	case wire.CodeRouteNotActive, wire.CodeCatalogEmpty, wire.CodeProviderNotReady:
		return gateway.CodeRouteUnavailable
	case wire.CodeOutputLimitUnsupported, wire.CodeReasoningInvalid, wire.CodeImageInvalid, wire.CodeCommandInvalid:
		return wire.CodeModelRequestRefused
	}
	return wire.CodeInternal
}
