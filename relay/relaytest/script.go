package relaytest

import (
	"slices"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// Emit writes a record into a thread's ledger and tells who watches it. It gives
// the record's seq.
func (r *Runtime) Emit(threadID, turnID, event string, payload any) uint64 {
	r.mu.Lock()
	wake := r.append(threadID, turnID, event, payload)
	seq := r.seq
	r.mu.Unlock()
	for _, fn := range wake {
		fn()
	}
	return seq
}

// Say streams a piece of the answer.
func (r *Runtime) Say(threadID, turnID, text string) uint64 {
	return r.Emit(threadID, turnID, wire.EventItemDelta, wire.DeltaPayload{Kind: wire.DeltaMessage, Delta: text})
}

// End ends a turn and writes its turn.completed.
func (r *Runtime) End(threadID, turnID string, status relay.NativeStatus) uint64 {
	r.mu.Lock()
	turn := r.threads[threadID].turns[turnID]
	turn.status = status
	for _, o := range turn.steers {
		if o.result == nil {
			o.settle(relay.SteerResult{Reason: wire.ReasonTurnOver})
		}
	}
	r.mu.Unlock()
	return r.Emit(threadID, turnID, wire.EventTurnCompleted, map[string]any{"turn": map[string]any{
		"id": turnID, "status": status, "usage": map[string]any{"input_tokens": 3, "output_tokens": 5},
	}})
}

// Restart does what a restart of the native store does: turns that ran are
// interrupted, and say so in the ledger.
func (r *Runtime) Restart() {
	for _, live := range r.Live() {
		r.End(live.ThreadID, live.TurnID, relay.NativeInterrupted)
	}
}

// Live gives the requests of the turns that run.
func (r *Runtime) Live() []relay.StartTurn {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []relay.StartTurn
	for _, s := range r.started {
		if t := r.threads[s.ThreadID]; t != nil && t.turns[s.TurnID].status.Live() {
			out = append(out, s)
		}
	}
	return out
}

// Unreadable makes everything that is asked of a thread fail, or lifts that.
func (r *Runtime) Unreadable(threadID string, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreadable[threadID] = is
}

// Started gives the turns that were accepted, in order.
func (r *Runtime) Started() []relay.StartTurn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.started)
}

// Created gives what threads were made with, in order.
func (r *Runtime) Created() []relay.NewThread {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.created)
}

// Discarded gives the threads that were discarded.
func (r *Runtime) Discarded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.discarded)
}

// Interrupted gives the turns that were told to stop.
func (r *Runtime) Interrupted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.interrupts)
}

// Threads tells how many threads there are.
func (r *Runtime) Threads() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.threads)
}

// Reads counts how often a ledger was read.
func (r *Runtime) Reads() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// Watchers tells how many threads are watched.
func (r *Runtime) Watchers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.watchers)
}
