package relaytest

import (
	"context"
	"errors"
	"sync"

	"github.com/fairlead/fairlead/relay"
)

// ErrInjected is the error of a step that was made to fail.
var ErrInjected = errors.New("injected fault")

// Step names a write of a relay.Store.
type Step string

// The writes.
const (
	BindOwner     Step = "BindOwner"
	InsertBinding Step = "InsertBinding"
	SaveTurn      Step = "SaveTurn"
	AppendJournal Step = "AppendJournal"
	Advance       Step = "Advance"
	Retire        Step = "Retire"
)

// FaultyStore passes everything on to the Store inside, but for the writes that a
// test wants to fail.
type FaultyStore struct {
	relay.Store

	mu     sync.Mutex
	armed  map[Step]storeFault
	writes map[Step]int
}

type storeFault struct {
	skip      int // calls to let pass first
	persisted bool
}

// NewFaultyStore wraps a store.
func NewFaultyStore(inner relay.Store) *FaultyStore {
	return &FaultyStore{Store: inner, armed: map[Step]storeFault{}, writes: map[Step]int{}}
}

// Fail makes one write fail, the one after skip further ones of its kind: not
// stored, or, with persisted, stored although it says that it failed.
func (f *FaultyStore) Fail(s Step, skip int, persisted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed[s] = storeFault{skip: skip, persisted: persisted}
}

// Writes counts the calls of a write.
func (f *FaultyStore) Writes(s Step) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes[s]
}

func (f *FaultyStore) step(s Step, do func() error) error {
	f.mu.Lock()
	f.writes[s]++
	fault, armed := f.armed[s]
	hit := armed && fault.skip == 0
	switch {
	case hit:
		delete(f.armed, s)
	case armed:
		fault.skip--
		f.armed[s] = fault
	}
	f.mu.Unlock()
	if !hit {
		return do()
	}
	if fault.persisted {
		return errors.Join(ErrInjected, do())
	}
	return ErrInjected
}

// BindOwner implements relay.Store.
func (f *FaultyStore) BindOwner(ctx context.Context, r relay.ScopeRecord) error {
	return f.step(BindOwner, func() error { return f.Store.BindOwner(ctx, r) })
}

// InsertBinding implements relay.Store.
func (f *FaultyStore) InsertBinding(ctx context.Context, key string, b relay.Binding) error {
	return f.step(InsertBinding, func() error { return f.Store.InsertBinding(ctx, key, b) })
}

// SaveTurn implements relay.Store.
func (f *FaultyStore) SaveTurn(ctx context.Context, key string, t relay.Turn) error {
	return f.step(SaveTurn, func() error { return f.Store.SaveTurn(ctx, key, t) })
}

// AppendJournal implements relay.Store.
func (f *FaultyStore) AppendJournal(
	ctx context.Context, key, runID string, entries []relay.JournalEntry, cursors []relay.CursorMove,
) error {
	return f.step(AppendJournal, func() error { return f.Store.AppendJournal(ctx, key, runID, entries, cursors) })
}

// Advance implements relay.Store.
func (f *FaultyStore) Advance(ctx context.Context, key string, cursors []relay.CursorMove, settled []relay.Turn) error {
	return f.step(Advance, func() error { return f.Store.Advance(ctx, key, cursors, settled) })
}

// Retire implements relay.Store.
func (f *FaultyStore) Retire(ctx context.Context, key, runID string, cursor uint64) error {
	return f.step(Retire, func() error { return f.Store.Retire(ctx, key, runID, cursor) })
}

// Disarm lets every write succeed again.
func (f *FaultyStore) Disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.armed)
}
