package relay

import (
	"context"

	"github.com/fairlead/fairlead/relay/wire"
)

// Store keeps what a host must not forget. Each write is one durable step: all of
// it is stored when the method returns nil, and none of it if the error says that
// it was refused. After any other error the outcome counts as unknown, and the
// host reads again. All methods are safe for concurrent use; those of one scope
// are called one at a time. The cost of a method does not grow with what is
// stored, its own result apart.
//
// Records are given as they were written; the host validates them.
type Store interface {
	// Verify tells whether the stored state may be used at all: it fails with
	// relay_state_untrusted unless the schema is the one that this store knows.
	// It writes nothing.
	Verify(ctx context.Context) error

	// LoadScope reads in one snapshot what a host holds in memory of a scope. A
	// scope that was never bound is the zero ScopeState.
	LoadScope(ctx context.Context, key string) (ScopeState, error)
	// LoadRun reads a run's cursor and its journal. An unknown run is the zero
	// RunState.
	LoadRun(ctx context.Context, key, runID string) (RunState, error)
	// BusyScopes lists the scopes that have an unsettled turn or an integrity
	// envelope in the journal (RH26).
	BusyScopes(ctx context.Context) ([]ScopeRecord, error)

	// The lookups give ok = false for what is not there.
	Binding(ctx context.Context, key, bindingID string) (b Binding, ok bool, err error)
	BindingByThread(ctx context.Context, key, virtualThreadID string) (b Binding, ok bool, err error)
	BindingByNative(ctx context.Context, key, nativeThreadID string) (b Binding, ok bool, err error)
	Turn(ctx context.Context, key, bindingID, turnID string) (t Turn, ok bool, err error)
	// TurnInRun finds a reservation of a run by its virtual id, settled or not.
	TurnInRun(ctx context.Context, key, runID, turnID string) (t Turn, ok bool, err error)
	TurnByOperation(ctx context.Context, key, bindingID, operationFingerprint string) (t Turn, ok bool, err error)
	TurnByNative(ctx context.Context, key, bindingID, nativeTurnID string) (t Turn, ok bool, err error)

	// BindOwner stores the scope with its owner. A scope that is stored already is
	// left as it is if the owner is the same, and relay_owner_mismatch otherwise.
	BindOwner(ctx context.Context, r ScopeRecord) error
	// InsertBinding stores a new binding. It is refused without an owner
	// (relay_owner_unbound), and if binding id, virtual or native thread id are in
	// use (relay_binding_mismatch).
	InsertBinding(ctx context.Context, key string, b Binding) error
	// SaveTurn stores a new reservation, or the flags and times of a known one.
	// It is refused if the operation fingerprint belongs to another turn of the
	// binding (relay_operation_reused), or the ids and fingerprints differ from the
	// stored ones (relay_turn_mismatch).
	SaveTurn(ctx context.Context, key string, t Turn) error
	// AppendJournal stores envelopes of a run, which follow on its last one, and in
	// the same step moves projection cursors, never backwards. Refusals:
	// relay_binding_mismatch for an unknown binding.
	AppendJournal(ctx context.Context, key, runID string, entries []JournalEntry, cursors []CursorMove) error
	// Advance moves projection cursors, never backwards, and settles turns: their
	// terminal is projected, and they are not start-rejected.
	Advance(ctx context.Context, key string, cursors []CursorMove, settled []Turn) error
	// Retire removes the envelopes up to cursor from a run's journal and remembers
	// the cursor; a lower one than the remembered changes nothing (RH49).
	Retire(ctx context.Context, key, runID string, cursor uint64) error
	// ImportScope stores a scope with everything in it. It is refused if the scope
	// has state already (relay_state_untrusted).
	ImportScope(ctx context.Context, s ImportedScope) error

	// ListScopes pages through the scopes, newest first. after is the last one of
	// the page before, or the zero ScopeRecord.
	ListScopes(ctx context.Context, after ScopeRecord, limit int) ([]ScopeSummary, error)
	// ListBindings pages through a scope's bindings in order of creation, from
	// after an ordinal.
	ListBindings(ctx context.Context, key string, afterOrdinal int64, limit int) ([]Binding, error)
	// ListTurns pages through a binding's reservations in order of their virtual
	// turn ids, from after one.
	ListTurns(ctx context.Context, key, bindingID, afterTurnID string, limit int) ([]Turn, error)
}

// ScopeState is what is loaded of a scope.
type ScopeState struct {
	Scope     ScopeRecord       // zero: never bound
	Unsettled []Turn            // of every binding
	Bindings  []Binding         // those of Unsettled, by Ordinal
	Integrity map[string]uint64 // run → highest journaled seq of an integrity envelope
}

// RunState is what is loaded of a run.
type RunState struct {
	Cursor  uint64         // highest seq known to be acknowledged
	Pending []JournalEntry // all above Cursor, ascending
}

// JournalEntry is one journaled envelope.
type JournalEntry struct {
	Envelope  wire.Envelope
	Integrity bool // RH56: must reach the receiver
}

// CursorMove moves the projection cursor of a binding.
type CursorMove struct {
	BindingID string
	Seq       uint64
}

// ImportedScope is a scope as ImportState read it.
type ImportedScope struct {
	Scope    ScopeRecord
	Bindings []Binding
	Turns    []Turn
}

// ScopeSummary is a scope in a list.
type ScopeSummary struct {
	ScopeRecord
	Bindings  int
	Unsettled int
}
