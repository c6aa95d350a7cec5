package relaytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// Runtime is a relay.Runtime in memory that keeps the contract and lets a test
// write the ledger. It outlives hosts as a native store outlives processes.
type Runtime struct {
	mu         sync.Mutex
	seq        uint64
	threads    map[string]*thread
	watchers   map[int]watcher
	nextID     int
	faults     map[Method]*fault
	unreadable map[string]bool

	created    []relay.NewThread
	started    []relay.StartTurn
	discarded  []string
	interrupts []string
	reads      int
}

type thread struct {
	id     string
	events []relay.NativeEvent
	turns  map[string]*nativeTurn
}

type nativeTurn struct {
	request relay.StartTurn
	status  relay.NativeStatus
	steers  []*offered
}

type watcher struct {
	thread string
	fn     func()
}

// Method names a call of the Runtime that can be made to fail.
type Method string

// The methods that Fail knows.
const (
	CreateThread  Method = "CreateThread"
	DiscardThread Method = "DiscardThread"
	ReadThread    Method = "ReadThread"
	StartTurn     Method = "StartTurn"
	ReadTurn      Method = "ReadTurn"
	InterruptTurn Method = "InterruptTurn"
	OfferSteer    Method = "OfferSteer"
	Events        Method = "Events"
)

type fault struct {
	err   error
	after bool // the call takes effect, then fails
	times int
}

var _ relay.Runtime = (*Runtime)(nil)

// NewRuntime makes an empty runtime.
func NewRuntime() *Runtime {
	return &Runtime{
		threads: map[string]*thread{}, watchers: map[int]watcher{},
		faults: map[Method]*fault{}, unreadable: map[string]bool{},
	}
}

// Fail makes the next times calls (all, if negative) of a method fail with err: before they do
// anything, or, with after, having done it.
func (r *Runtime) Fail(m Method, err error, after bool, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[m] = &fault{err: err, after: after, times: times}
}

// fails gives the error of a call that fails at this point. mu is held.
func (r *Runtime) fails(m Method, after bool) error {
	f := r.faults[m]
	if f == nil || f.after != after || f.times == 0 {
		return nil
	}
	f.times--
	return f.err
}

// CreateThread implements relay.Runtime.
func (r *Runtime) CreateThread(_ context.Context, t relay.NewThread) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fails(CreateThread, false); err != nil {
		return "", err
	}
	if t.ContinueFrom != "" && r.threads[t.ContinueFrom] == nil {
		return "", unavailable("no such thread to continue")
	}
	id := wire.NewNativeID("thr")
	r.threads[id] = &thread{id: id, turns: map[string]*nativeTurn{}}
	r.created = append(r.created, t)
	r.append(id, "", "thread.started", map[string]any{"thread": map[string]any{"id": id}})
	return id, r.fails(CreateThread, true)
}

// DiscardThread implements relay.Runtime.
func (r *Runtime) DiscardThread(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fails(DiscardThread, false); err != nil {
		return err
	}
	t := r.threads[id]
	if t == nil {
		return unavailable("no such thread")
	}
	if len(t.turns) > 0 {
		return errors.New("the thread owns turns")
	}
	delete(r.threads, id)
	r.discarded = append(r.discarded, id)
	return nil
}

// ReadThread implements relay.Runtime.
func (r *Runtime) ReadThread(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fails(ReadThread, false); err != nil {
		return err
	}
	if r.threads[id] == nil || r.unreadable[id] {
		return unavailable("no such thread")
	}
	return nil
}

// StartTurn implements relay.Runtime.
func (r *Runtime) StartTurn(_ context.Context, s relay.StartTurn) error {
	r.mu.Lock()
	wake, err := r.start(s)
	r.mu.Unlock()
	for _, fn := range wake {
		fn()
	}
	return err
}

func (r *Runtime) start(s relay.StartTurn) ([]func(), error) {
	if err := r.fails(StartTurn, false); err != nil {
		return nil, err
	}
	t := r.threads[s.ThreadID]
	if t == nil || r.unreadable[s.ThreadID] {
		return nil, unavailable("no such thread")
	}
	if strings.TrimSpace(s.Prompt) == "" {
		return nil, wire.NewError(wire.CodeCommandInvalid, "The prompt is blank.")
	}
	for _, other := range t.turns {
		sameKey, sameID := other.request.OperationKey == s.OperationKey, other.request.TurnID == s.TurnID
		if sameKey && sameID && fmt.Sprint(other.request) == fmt.Sprint(s) {
			return nil, nil
		}
		if sameKey || sameID {
			return nil, wire.NewError(wire.CodeOperationMismatch, "This operation key is already bound to a different request.")
		}
		if other.status.Live() {
			return nil, wire.NewError(wire.CodeTurnActive, "The thread has an active turn.")
		}
	}
	t.turns[s.TurnID] = &nativeTurn{request: s, status: relay.NativeInProgress}
	r.started = append(r.started, s)
	wake := r.append(s.ThreadID, s.TurnID, wire.EventTurnStarted, map[string]any{"turn": map[string]any{
		"id": s.TurnID, "thread_id": s.ThreadID, "status": "in_progress", "effective_model": s.Model,
	}})
	return wake, r.fails(StartTurn, true)
}

// ReadTurn implements relay.Runtime.
func (r *Runtime) ReadTurn(_ context.Context, threadID, turnID string) (relay.NativeTurn, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fails(ReadTurn, false); err != nil {
		return relay.NativeTurn{}, false, err
	}
	t := r.threads[threadID]
	if t == nil || r.unreadable[threadID] {
		return relay.NativeTurn{}, false, unavailable("no such thread")
	}
	turn := t.turns[turnID]
	if turn == nil {
		return relay.NativeTurn{}, false, nil
	}
	return relay.NativeTurn{ID: turnID, Status: turn.status}, true, nil
}

// InterruptTurn implements relay.Runtime: the turn ends at once.
func (r *Runtime) InterruptTurn(_ context.Context, threadID, turnID string) error {
	r.mu.Lock()
	if err := r.fails(InterruptTurn, false); err != nil {
		r.mu.Unlock()
		return err
	}
	t := r.threads[threadID]
	if t == nil || t.turns[turnID] == nil || !t.turns[turnID].status.Live() {
		r.mu.Unlock()
		return errors.New("not the active turn")
	}
	r.interrupts = append(r.interrupts, turnID)
	r.mu.Unlock()
	r.Emit(threadID, turnID, "turn.interrupt_requested", map[string]any{})
	r.End(threadID, turnID, relay.NativeInterrupted)
	return nil
}

// Events implements relay.Runtime.
func (r *Runtime) Events(_ context.Context, threadID string, after uint64, limit int) ([]relay.NativeEvent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if err := r.fails(Events, false); err != nil {
		return nil, err
	}
	t := r.threads[threadID]
	if t == nil || r.unreadable[threadID] {
		return nil, unavailable("no such thread")
	}
	at, _ := slices.BinarySearchFunc(t.events, after+1, func(e relay.NativeEvent, seq uint64) int {
		switch {
		case e.Seq < seq:
			return -1
		case e.Seq > seq:
			return 1
		}
		return 0
	})
	return slices.Clone(t.events[at:min(len(t.events), at+limit)]), nil
}

// Watch implements relay.Runtime.
func (r *Runtime) Watch(threadID string, fn func()) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.nextID
	r.nextID++
	r.watchers[id] = watcher{thread: threadID, fn: fn}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, id)
	}
}

// append adds a record to a thread's ledger; the caller calls what it gives after
// unlocking mu.
func (r *Runtime) append(threadID, turnID, event string, payload any) []func() {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // a test's payload that is no JSON
	}
	r.seq++
	t := r.threads[threadID]
	t.events = append(t.events, relay.NativeEvent{
		Seq: r.seq, ThreadID: threadID, TurnID: turnID, Event: event, Payload: raw,
		Timestamp: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(r.seq) * time.Millisecond),
	})
	var wake []func()
	for _, w := range r.watchers {
		if w.thread == threadID {
			wake = append(wake, w.fn)
		}
	}
	return wake
}

func unavailable(message string) error {
	return wire.NewError(wire.CodeNativeUnavailable, message)
}
