package native

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// CreateThread implements relay.Runtime. With ContinueFrom the new thread starts
// with copies of the completed rounds of that one, and of the stopped ones, which
// requests hold or leave out as StoppedAnswers says. Its ledger knows no turn of
// the other (RH trap 22).
func (r *Runtime) CreateThread(ctx context.Context, t relay.NewThread) (string, error) {
	if err := r.usable(); err != nil {
		return "", err
	}
	now := r.now()
	thread := Thread{
		ID: wire.NewNativeID("thr"), CreatedAt: now, Model: t.Model, ModelProvider: t.ModelProvider,
		ModelProviderID: t.ModelProviderID, ReasoningEffort: t.ReasoningEffort, SystemPrompt: t.SystemPrompt,
	}
	event := Event{Name: eventThreadStarted, At: now, Payload: threadPayload(thread)}
	if err := r.store.CreateThread(ctx, thread, t.ContinueFrom, event); err != nil {
		return "", r.failure(err)
	}
	r.watchers.notify(thread.ID)
	return thread.ID, nil
}

// DiscardThread implements relay.Runtime. A thread that owns turns is refused
// with relay_native_unavailable.
func (r *Runtime) DiscardThread(ctx context.Context, threadID string) error {
	if err := r.usable(); err != nil {
		return err
	}
	e, err := r.engines.hold(ctx, threadID)
	if err != nil {
		return unavailable(err)
	}
	defer r.engines.release(e)
	if err := r.store.DiscardThread(ctx, threadID); err != nil {
		return r.failure(err)
	}
	e.forget()
	return nil
}

// ReadThread implements relay.Runtime.
func (r *Runtime) ReadThread(ctx context.Context, threadID string) error {
	if _, err := r.store.Thread(ctx, threadID); err != nil {
		return r.failure(err)
	}
	return nil
}

// ReadTurn implements relay.Runtime. Of a broken runtime nobody knows what was
// accepted, so it then always fails.
func (r *Runtime) ReadTurn(ctx context.Context, threadID, turnID string) (relay.NativeTurn, bool, error) {
	t, err := r.store.Turn(ctx, threadID, turnID)
	r.mu.Lock()
	cause := r.cause
	r.mu.Unlock()
	switch {
	case cause != nil:
		return relay.NativeTurn{}, false, unavailable(cause)
	case errors.Is(err, ErrNotFound):
		return relay.NativeTurn{}, false, nil
	case err != nil:
		return relay.NativeTurn{}, false, r.failure(err)
	}
	return relay.NativeTurn{ID: t.ID, Status: t.Status}, true, nil
}

// defaultEventLimit is how many events a read without a limit gives.
const defaultEventLimit = 256

// Events implements relay.Runtime.
func (r *Runtime) Events(ctx context.Context, threadID string, after uint64, limit int) ([]relay.NativeEvent, error) {
	if limit <= 0 {
		limit = defaultEventLimit
	}
	events, err := r.store.Events(ctx, threadID, after, limit)
	if err != nil {
		return nil, r.failure(err)
	}
	return events, nil
}

// Watch implements relay.Runtime. A call of fn that has begun may still be running
// when stop returns.
func (r *Runtime) Watch(threadID string, fn func()) (stop func()) {
	return r.watchers.add(threadID, fn)
}

// watchers are the functions that wait for events.
type watchers struct {
	mu  sync.Mutex
	of  map[string]map[uint64]func() // thread → id → function
	ids uint64
}

func (w *watchers) add(threadID string, fn func()) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = make(map[string]map[uint64]func())
	}
	if w.of[threadID] == nil {
		w.of[threadID] = make(map[uint64]func())
	}
	w.ids++
	id := w.ids
	w.of[threadID][id] = fn
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.of[threadID], id)
		if len(w.of[threadID]) == 0 {
			delete(w.of, threadID)
		}
	}
}

// notify calls the functions of a thread, holding no lock.
func (w *watchers) notify(threadID string) {
	w.mu.Lock()
	fns := make([]func(), 0, len(w.of[threadID]))
	for _, fn := range w.of[threadID] {
		fns = append(fns, fn)
	}
	w.mu.Unlock()
	for _, fn := range fns {
		fn()
	}
}

// invalid is the answer to a call whose values break the rules of RH65. It names
// no value.
func invalid(message string) error { return wire.NewError(wire.CodeCommandInvalid, message) }

// checkStart applies RH65 and gives the prompt as it is stored and sent.
func checkStart(t relay.StartTurn) (prompt string, err error) {
	prompt = strings.TrimSpace(t.Prompt)
	switch {
	case prompt == "":
		return "", invalid("The message is empty.")
	case !wire.ValidNativeID(t.TurnID):
		return "", invalid("The turn id is not valid.")
	case !validKey(t.OperationKey):
		return "", wire.NewError(wire.CodeOperationMismatch, "The operation key is not valid.")
	}
	return prompt, nil
}

// validKey tells whether s is 1–128 bytes without white space at its edges and
// without control characters.
func validKey(s string) bool {
	return s != "" && len(s) <= wire.MaxOperationKeyBytes && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || (c >= 0x7f && c < 0xa0) })
}
