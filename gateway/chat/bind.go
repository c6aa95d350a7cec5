package chat

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// bind finds or makes the run of the thread at the route's host and the binding
// for the route, and builds the command that starts the turn.
func (s *Service) bind(ctx context.Context, u *unit, t *gateway.TurnRow, q gateway.QueueRow, route gateway.Route) (json.RawMessage, error) {
	built := u.stage(stageBuildInput, topLevel)
	defer func() { built() }()
	loaded := u.stage(stageSessionState, nested)
	run, err := s.runFor(ctx, u, *t, route)
	if err != nil {
		return nil, err
	}
	binding, fresh, err := s.bindingFor(ctx, u, run, route)
	if err != nil {
		return nil, err
	}
	if fresh {
		u.bound = &binding
	}
	remembers := !fresh || binding.ContinueFrom != ""
	if remembers {
		loaded()
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
	if err := s.addContext(ctx, u, t, &cmd, route, remembers); err != nil {
		return nil, err
	}
	return encode(cmd), nil
}

// generation is that of the settings in every prompt.request that is made here; hosts
// that do not understand it are offered none (AD78, FR38).
const generation = 2

// placementOf is what decides where the next turn of a thread goes, "" for a new one.
func placementOf(ctx context.Context, tx gateway.ChatTx, threadID string) (gateway.Placement, error) {
	at := gateway.Placement{Generation: generation}
	if threadID == "" {
		return at, nil
	}
	_, hostID, err := tx.LatestBinding(ctx, threadID)
	if errors.Is(err, gateway.ErrNoRow) {
		return at, nil
	}
	at.HostID = hostID
	return at, err
}

// workspaceOf is the opaque workspace of a run: its thread.
func workspaceOf(run gateway.RunRow) string { return run.ThreadID }

// sessionOf is the session of a run's scope at its host: one for each thread.
func sessionOf(run gateway.RunRow) string { return gateway.ChatSession + run.ThreadID }

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
// one used before, gets a new binding that continues from the newest; at another
// host it cannot, and the model is told of all rounds. One whose first command never
// took effect is left behind.
func (s *Service) bindingFor(ctx context.Context, u *unit, run gateway.RunRow, route gateway.Route) (b gateway.BindingRow, fresh bool, err error) {
	latest, _, err := u.LatestBinding(ctx, run.ThreadID)
	if err != nil && !errors.Is(err, gateway.ErrNoRow) {
		return b, false, err
	}
	known := err == nil && latest.RunID == run.ID
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
