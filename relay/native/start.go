package native

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// maxSummary is how many characters of a prompt a turn record repeats.
const maxSummary = 280

// StartTurn implements relay.Runtime. Errors: relay_operation_mismatch if the
// operation key is not valid or stands for another request; relay_command_invalid
// for a blank prompt or a bad turn id; relay_turn_active while another turn of the
// thread runs; relay_route_not_active for a route that Routes does not know;
// relay_native_unavailable, shutting_down. After any error but the last commit's
// unknown outcome the turn is positively absent, or is the earlier one.
func (r *Runtime) StartTurn(ctx context.Context, t relay.StartTurn) error {
	prompt, err := checkStart(t)
	if err != nil {
		return err
	}
	if err := r.usable(); err != nil {
		return err
	}
	op := Operation{
		Fingerprint: wire.NativeOperationFingerprint(r.owner, t.ThreadID, t.OperationKey),
		ThreadID:    t.ThreadID, TurnID: t.TurnID,
	}
	if op.RequestFingerprint, err = requestFingerprint(t, prompt); err != nil {
		return invalid("The request holds text that is not valid UTF-8.")
	}
	e, err := r.engines.hold(ctx, t.ThreadID)
	if err != nil {
		return unavailable(err)
	}
	defer r.engines.release(e)

	known, ok, err := r.store.Operation(ctx, op.Fingerprint)
	if err != nil {
		return r.failure(err)
	}
	if ok {
		return replay(known, op)
	}
	return r.accept(ctx, e, t, op, prompt)
}

// replay is the answer to an operation key that is known: nothing is started.
func replay(known, op Operation) error {
	if known != op {
		return wire.NewError(wire.CodeOperationMismatch, "This operation key is already bound to a different request.")
	}
	return nil
}

// accept stores a new turn and starts its engine. The caller holds e.
func (r *Runtime) accept(ctx context.Context, e *engine, t relay.StartTurn, op Operation, prompt string) error {
	if err := r.awaitEnd(ctx, e); err != nil {
		return err
	}
	route, ok := r.routes(t.ModelProvider, t.ModelProviderID, t.Model)
	if !ok {
		return wire.NewError(wire.CodeRouteNotActive, "This model is not served by this host.")
	}
	if err := r.load(ctx, e); err != nil {
		return r.failure(err)
	}
	turn := r.newTurn(e, t, route, prompt)
	a := Acceptance{
		Operation: op, Turn: turn.record, ItemID: wire.NewNativeID("item"), Prompt: prompt, Images: t.Images,
		Started: Event{Name: wire.EventTurnStarted, At: turn.record.CreatedAt, Payload: startedPayload(turn.record)},
	}
	// The place in memory is taken first: a turn that is stored can be started.
	if err := r.admit(turn); err != nil {
		return err
	}
	known, ok, err := r.store.AcceptTurn(ctx, a)
	if err != nil || !ok {
		r.dismiss(turn)
		r.turns.Done()
	}
	switch {
	case errors.Is(err, ErrActive):
		return wire.WrapError(wire.CodeTurnActive, "This conversation has a turn in progress.", err)
	case errors.Is(err, ErrTurnExists):
		return wire.WrapError(wire.CodeTurnMismatch, "This turn id belongs to another request.", err)
	case err != nil:
		return r.failure(err)
	case !ok:
		return replay(known, op)
	}
	r.watchers.notify(t.ThreadID)
	go r.runTurn(turn)
	return nil
}

// awaitEnd fails while the thread has an active turn. A turn whose end is stored
// is not one, though its engine may still be about to leave: who has read the end
// in the ledger is let in.
func (r *Runtime) awaitEnd(ctx context.Context, e *engine) error {
	t := r.engines.activeTurn(e.threadID)
	if t == nil {
		return nil
	}
	stored, err := r.store.Turn(ctx, e.threadID, t.record.ID)
	if err != nil {
		return r.failure(err)
	}
	if stored.Status.Live() {
		return wire.NewError(wire.CodeTurnActive, "This conversation has a turn in progress.")
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	}
}

// admit gives a turn its place: the thread's active one, and a share of Close's
// wait. It fails once the runtime is closing.
func (r *Runtime) admit(t *turn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return wire.NewError(wire.CodeShuttingDown, "This host is shutting down.")
	}
	r.turns.Add(1)
	r.engines.activate(t.engine, t)
	return nil
}

// dismiss ends a turn in memory: the thread is open for the next one.
func (r *Runtime) dismiss(t *turn) {
	t.cancel(nil)
	r.engines.deactivate(t.engine)
	close(t.done)
}

// load reads the conversation of a thread into memory.
func (r *Runtime) load(ctx context.Context, e *engine) error {
	if e.conv != nil {
		return nil
	}
	thread, err := r.store.Thread(ctx, e.threadID)
	if err != nil {
		return err
	}
	rounds, err := r.store.Rounds(ctx, e.threadID)
	if err != nil {
		return err
	}
	e.conv = newConversation(thread.SystemPrompt, rounds)
	return nil
}

func (r *Runtime) newTurn(e *engine, t relay.StartTurn, route Route, prompt string) *turn {
	key := routeKey(t.ModelProviderID, t.Model)
	n := &turn{
		engine: e, client: route.Client, route: key, prompt: prompt, images: t.Images,
		record: Turn{
			ID: t.TurnID, ThreadID: t.ThreadID, Status: relay.NativeInProgress, Summary: summary(prompt),
			Model: t.Model, ModelProvider: t.ModelProvider, ModelProviderID: t.ModelProviderID,
			BillingSurface: route.BillingSurface, BillingMode: route.BillingMode,
			ReasoningEffort: t.ReasoningEffort, MaxOutputTokens: t.MaxOutputTokens, CreatedAt: r.now(),
		},
		request: provider.Request{
			Model: route.Upstream, System: e.conv.system,
			Messages: append(e.conv.messages(r.stopped, key), provider.Message{
				Role: provider.RoleUser, Text: withContext(t.Context, prompt), Images: t.Images,
			}),
			ReasoningEffort: t.ReasoningEffort, MaxOutputTokens: t.MaxOutputTokens,
		},
		done: make(chan struct{}),
	}
	n.ctx, n.cancel = context.WithCancelCause(r.run)
	n.stream = newRollup()
	return n
}

// requestFingerprint is over what the caller supplied, and nothing that the
// runtime may change behind its back: neither workspace nor the thread's system
// prompt (RH trap 8). Pictures stand in it by their hash.
func requestFingerprint(t relay.StartTurn, prompt string) (string, error) {
	type image struct {
		Mime   string `json:"mime"`
		SHA256 string `json:"sha256"`
	}
	images := make([]image, len(t.Images))
	for i, img := range t.Images {
		images[i] = image{img.Mime, wire.Fingerprint(img.DataBase64)}
	}
	raw, err := wire.Canonical(struct {
		Version         int      `json:"version"`
		ThreadID        string   `json:"thread_id"`
		TurnID          string   `json:"turn_id"`
		Provider        string   `json:"provider"`
		ProviderID      string   `json:"provider_id"`
		Model           string   `json:"model"`
		Prompt          string   `json:"prompt"`
		Images          []image  `json:"images"`
		Context         *string  `json:"context"`
		InputSummary    *string  `json:"input_summary"`
		ReasoningEffort *string  `json:"reasoning_effort"`
		MaxOutputTokens *uint32  `json:"max_output_tokens"`
		AllowedTools    []string `json:"allowed_tools"`
		DynamicTools    []string `json:"dynamic_tools"`
		EnvironmentID   *string  `json:"environment_id"`
		Mode            string   `json:"mode"`
		Posture         string   `json:"permission_posture"`
		AllowShell      bool     `json:"allow_shell"`
		TrustMode       bool     `json:"trust_mode"`
		AutoApprove     bool     `json:"auto_approve"`
	}{
		Version: 1, ThreadID: t.ThreadID, TurnID: t.TurnID, Provider: t.ModelProvider, ProviderID: t.ModelProviderID,
		Model: t.Model, Prompt: prompt, Images: images, Context: optional(t.Context),
		ReasoningEffort: optional(t.ReasoningEffort), MaxOutputTokens: optional(t.MaxOutputTokens),
		AllowedTools: []string{}, DynamicTools: []string{}, Mode: "agent", Posture: "ask",
	})
	if err != nil {
		return "", err
	}
	return wire.Fingerprint(string(raw)), nil
}

// optional is nil, and null in JSON, for a value that was not given.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// summary is the beginning of a prompt, in whole characters.
func summary(prompt string) string {
	if utf8.RuneCountInString(prompt) <= maxSummary {
		return prompt
	}
	n := 0
	for i := range prompt {
		if n++; n > maxSummary {
			return prompt[:i]
		}
	}
	return prompt
}
