package relaytest

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// StoreSuite checks what the relay host relies on. open gives an empty store.
func StoreSuite(t *testing.T, open func(t *testing.T) relay.Store) {
	for name, check := range map[string]func(*testing.T, relay.Store){
		"RH3 a fresh store is trusted": checkVerify,
		"RH6 owners":                   checkOwners,
		"RH30 bindings":                checkBindings,
		"RH32 reservations":            checkReservations,
		"RH42 cursors and ends":        checkAdvance,
		"RH43 journal":                 checkJournal,
		"RH26 busy scopes":             checkBusy,
		"imports":                      checkImport,
		"lists":                        checkLists,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
}

// StoredScope is the scope that the suite works in.
func StoredScope() relay.ScopeRecord {
	return relay.ScopeRecord{
		Key: wire.ScopeKey(Target, Session), TargetRef: Target, SessionID: Session,
		OwnerFingerprint: wire.OwnerFingerprint(Account, Target, Session), CreatedAt: suiteTime(0),
	}
}

// StoredBinding makes the n-th valid binding.
func StoredBinding(n int) relay.Binding {
	return relay.Binding{
		RunID: Run, BindingID: BindingID(n), VirtualThreadID: ThreadID(n), NativeThreadID: "thr_" + BindingID(n),
		Model: Model, ModelProvider: Provider, ModelProviderID: Provider,
		FirstOperation: wire.Fingerprint(OperationKey(n)), SystemPrompt: Fingerprint("b"), CreatedAt: suiteTime(n),
	}
}

// StoredTurn makes the reservation of turn n in binding b.
func StoredTurn(b, n int) relay.Turn {
	return relay.Turn{
		RunID: Run, BindingID: BindingID(b), TurnID: TurnID(n), NativeTurnID: "turn_" + TurnID(n),
		OperationFingerprint: wire.Fingerprint(OperationKey(n)), RequestFingerprint: Fingerprint("c"), ReservedAt: suiteTime(n),
	}
}

func suiteTime(n int) time.Time {
	return time.Date(2026, 4, 1, 0, 0, n, 0, time.UTC)
}

func suiteCode(t *testing.T, err error, code wire.Code) {
	t.Helper()
	if wire.CodeOf(err) != code {
		t.Fatalf("error is %v, want code %q", err, code)
	}
}

func suiteEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s is\n%+v, want\n%+v", what, got, want)
	}
}

func checkVerify(t *testing.T, s relay.Store) {
	ctx := context.Background()
	suiteOK(t, s.Verify(ctx))
	state, err := s.LoadScope(ctx, StoredScope().Key)
	suiteOK(t, err)
	suiteEqual(t, "a scope that was never bound", state.Scope, relay.ScopeRecord{})
	run, err := s.LoadRun(ctx, StoredScope().Key, Run)
	suiteOK(t, err)
	suiteEqual(t, "an unknown run", run, relay.RunState{})
}

func checkOwners(t *testing.T, s relay.Store) {
	ctx, scope := context.Background(), StoredScope()
	suiteOK(t, s.BindOwner(ctx, scope))
	again := scope
	again.CreatedAt = suiteTime(50)
	suiteOK(t, s.BindOwner(ctx, again))
	again.OwnerFingerprint = Fingerprint("d")
	suiteCode(t, s.BindOwner(ctx, again), wire.CodeOwnerMismatch)
	state, err := s.LoadScope(ctx, scope.Key)
	suiteOK(t, err)
	suiteEqual(t, "the scope", state.Scope, scope)
}

func checkBindings(t *testing.T, s relay.Store) {
	ctx, scope := context.Background(), StoredScope()
	suiteCode(t, s.InsertBinding(ctx, scope.Key, StoredBinding(1)), wire.CodeOwnerUnbound)
	suiteOK(t, s.BindOwner(ctx, scope))
	first, second := StoredBinding(1), StoredBinding(2)
	second.ContinuedFrom, second.SystemPrompt = first.BindingID, ""
	suiteOK(t, s.InsertBinding(ctx, scope.Key, first))
	suiteOK(t, s.InsertBinding(ctx, scope.Key, second))
	first.Ordinal, second.Ordinal = 1, 2
	got, ok, err := s.Binding(ctx, scope.Key, BindingID(2))
	suiteOK(t, err)
	suiteEqual(t, "by id", got, second)
	suiteEqual(t, "found", ok, true)
	got, _, err = s.BindingByThread(ctx, scope.Key, ThreadID(1))
	suiteOK(t, err)
	suiteEqual(t, "by thread", got, first)
	got, _, err = s.BindingByNative(ctx, scope.Key, second.NativeThreadID)
	suiteOK(t, err)
	suiteEqual(t, "by native thread", got, second)
	if _, ok, err = s.Binding(ctx, wire.ScopeKey(Target, "other"), BindingID(1)); ok || err != nil {
		t.Fatalf("another scope finds it: %v, %v", ok, err)
	}
	for _, change := range []func(*relay.Binding){
		func(b *relay.Binding) { b.BindingID = BindingID(1) },
		func(b *relay.Binding) { b.VirtualThreadID = ThreadID(1) },
		func(b *relay.Binding) { b.NativeThreadID = first.NativeThreadID },
	} {
		b := StoredBinding(3)
		change(&b)
		suiteCode(t, s.InsertBinding(ctx, scope.Key, b), wire.CodeBindingMismatch)
	}
	suiteOK(t, s.InsertBinding(ctx, scope.Key, StoredBinding(3)))
	got, _, err = s.Binding(ctx, scope.Key, BindingID(3))
	suiteOK(t, err)
	suiteEqual(t, "ordinal after refusals", got.Ordinal, int64(3))
}

func suiteBound(t *testing.T, s relay.Store, bindings int) string {
	t.Helper()
	scope := StoredScope()
	suiteOK(t, s.BindOwner(context.Background(), scope))
	for n := range bindings {
		suiteOK(t, s.InsertBinding(context.Background(), scope.Key, StoredBinding(n+1)))
	}
	return scope.Key
}

func checkReservations(t *testing.T, s relay.Store) {
	ctx := context.Background()
	key := suiteBound(t, s, 2)
	turn := StoredTurn(1, 1)
	suiteOK(t, s.SaveTurn(ctx, key, turn))
	got, ok, err := s.Turn(ctx, key, turn.BindingID, turn.TurnID)
	suiteOK(t, err)
	suiteEqual(t, "the turn", got, turn)
	suiteEqual(t, "found", ok, true)
	got, _, err = s.TurnByOperation(ctx, key, turn.BindingID, turn.OperationFingerprint)
	suiteOK(t, err)
	suiteEqual(t, "by operation", got, turn)
	got, _, err = s.TurnByNative(ctx, key, turn.BindingID, turn.NativeTurnID)
	suiteOK(t, err)
	suiteEqual(t, "by native turn", got, turn)
	if _, ok, err = s.TurnByOperation(ctx, key, BindingID(2), turn.OperationFingerprint); ok || err != nil {
		t.Fatalf("another binding finds it: %v, %v", ok, err)
	}

	rejected := turn
	rejected.TerminalProjected, rejected.StartRejected, rejected.SettledAt = true, true, suiteTime(9)
	suiteOK(t, s.SaveTurn(ctx, key, rejected))
	got, _, err = s.Turn(ctx, key, turn.BindingID, turn.TurnID)
	suiteOK(t, err)
	suiteEqual(t, "the rejected turn", got, rejected)
	suiteOK(t, s.SaveTurn(ctx, key, turn))

	other := StoredTurn(1, 2)
	other.OperationFingerprint = turn.OperationFingerprint
	suiteCode(t, s.SaveTurn(ctx, key, other), wire.CodeOperationReused)
	changed := turn
	changed.RequestFingerprint = Fingerprint("e")
	suiteCode(t, s.SaveTurn(ctx, key, changed), wire.CodeTurnMismatch)
	state, err := s.LoadScope(ctx, key)
	suiteOK(t, err)
	suiteEqual(t, "unsettled", state.Unsettled, []relay.Turn{turn})
	suiteEqual(t, "their bindings", len(state.Bindings), 1)
	if s.SaveTurn(ctx, key, StoredTurn(7, 7)) == nil {
		t.Fatal("a turn of no binding was stored")
	}
}

func checkAdvance(t *testing.T, s relay.Store) {
	ctx := context.Background()
	key := suiteBound(t, s, 2)
	turn := StoredTurn(1, 1)
	suiteOK(t, s.SaveTurn(ctx, key, turn))
	ended := turn
	ended.TerminalProjected, ended.SettledAt = true, suiteTime(9)
	move := func(b int, seq uint64) relay.CursorMove { return relay.CursorMove{BindingID: BindingID(b), Seq: seq} }

	suiteCode(t, s.Advance(ctx, key, []relay.CursorMove{move(1, 5), move(9, 1)}, []relay.Turn{ended}), wire.CodeBindingMismatch)
	unknown := ended
	unknown.TurnID = TurnID(9)
	suiteCode(t, s.Advance(ctx, key, []relay.CursorMove{move(1, 5)}, []relay.Turn{unknown}), wire.CodeTurnMismatch)
	b, _, err := s.Binding(ctx, key, BindingID(1))
	suiteOK(t, err)
	suiteEqual(t, "cursor after refusals", b.ProjectedSeq, uint64(0))

	suiteOK(t, s.Advance(ctx, key, []relay.CursorMove{move(1, 7), move(2, 3)}, []relay.Turn{ended}))
	suiteOK(t, s.Advance(ctx, key, []relay.CursorMove{move(1, 4)}, nil))
	b, _, err = s.Binding(ctx, key, BindingID(1))
	suiteOK(t, err)
	suiteEqual(t, "cursor", b.ProjectedSeq, uint64(7))
	got, _, err := s.Turn(ctx, key, turn.BindingID, turn.TurnID)
	suiteOK(t, err)
	suiteEqual(t, "the ended turn", got, ended)

	t.Run("RH42 an end makes a rejected start terminal", func(t *testing.T) {
		rejected := StoredTurn(1, 2)
		rejected.TerminalProjected, rejected.StartRejected, rejected.SettledAt = true, true, suiteTime(9)
		suiteOK(t, s.SaveTurn(ctx, key, rejected))
		suiteOK(t, s.Advance(ctx, key, []relay.CursorMove{move(1, 8)}, []relay.Turn{rejected}))
		got, _, err := s.Turn(ctx, key, rejected.BindingID, rejected.TurnID)
		suiteOK(t, err)
		suiteEqual(t, "start rejected", got.StartRejected, false)
	})
}

func suiteEnvelope(seq uint64) relay.JournalEntry {
	return relay.JournalEntry{
		Integrity: seq%2 == 0,
		Envelope: wire.Envelope{
			SchemaVersion: wire.EnvelopeSchemaVersion, Seq: seq, Event: wire.EventItemDelta, Kind: wire.EventItemDelta,
			ThreadID: ThreadID(1), TurnID: TurnID(1), SourceEventID: wire.SourceEventID("thr_x", seq),
			Timestamp: "2026-04-01T00:00:00.000Z", Payload: []byte("{\"kind\":\"agent_message\",\"delta\":\"<a>&\u2028ü\"}"),
		},
	}
}

func checkJournal(t *testing.T, s relay.Store) {
	ctx := context.Background()
	key := suiteBound(t, s, 1)
	entries := []relay.JournalEntry{suiteEnvelope(42), suiteEnvelope(43), suiteEnvelope(44)}
	move := func(b int, seq uint64) []relay.CursorMove {
		return []relay.CursorMove{{BindingID: BindingID(b), Seq: seq}}
	}
	suiteCode(t, s.AppendJournal(ctx, key, Run, entries, move(9, 1)), wire.CodeBindingMismatch)
	suiteOK(t, s.AppendJournal(ctx, key, Run, entries[:2], move(1, 7)))
	suiteOK(t, s.AppendJournal(ctx, key, Run, entries[2:], move(1, 6)))
	b, _, err := s.Binding(ctx, key, BindingID(1))
	suiteOK(t, err)
	suiteEqual(t, "cursor", b.ProjectedSeq, uint64(7))
	if s.AppendJournal(ctx, key, Run, []relay.JournalEntry{suiteEnvelope(45), suiteEnvelope(43)}, nil) == nil {
		t.Fatal("a seq was stored twice")
	}
	run, err := s.LoadRun(ctx, key, Run)
	suiteOK(t, err)
	suiteEqual(t, "pending", run.Pending, entries)
	state, err := s.LoadScope(ctx, key)
	suiteOK(t, err)
	suiteEqual(t, "integrity", state.Integrity, map[string]uint64{Run: 44})

	suiteOK(t, s.Retire(ctx, key, Run, 43))
	suiteOK(t, s.Retire(ctx, key, Run, 5))
	run, err = s.LoadRun(ctx, key, Run)
	suiteOK(t, err)
	suiteEqual(t, "cursor", run.Cursor, uint64(43))
	suiteEqual(t, "pending", run.Pending, entries[2:])
	suiteOK(t, s.Retire(ctx, key, "run_other", 9))
	run, err = s.LoadRun(ctx, key, Run)
	suiteOK(t, err)
	suiteEqual(t, "pending after another run's cursor", len(run.Pending), 1)
}

func checkBusy(t *testing.T, s relay.Store) {
	ctx := context.Background()
	key := suiteBound(t, s, 1)
	busy := func() int {
		t.Helper()
		list, err := s.BusyScopes(ctx)
		suiteOK(t, err)
		return len(list)
	}
	suiteEqual(t, "busy at first", busy(), 0)
	turn := StoredTurn(1, 1)
	suiteOK(t, s.SaveTurn(ctx, key, turn))
	suiteEqual(t, "busy with a turn", busy(), 1)
	suiteOK(t, s.AppendJournal(ctx, key, Run, []relay.JournalEntry{suiteEnvelope(1), suiteEnvelope(2)}, nil))
	turn.SettledAt = suiteTime(9)
	suiteOK(t, s.Advance(ctx, key, nil, []relay.Turn{turn}))
	suiteEqual(t, "busy with an integrity envelope", busy(), 1)
	suiteOK(t, s.Retire(ctx, key, Run, 2))
	suiteEqual(t, "busy at last", busy(), 0)
}

func checkImport(t *testing.T, s relay.Store) {
	ctx := context.Background()
	settled := StoredTurn(1, 1)
	settled.TerminalProjected, settled.SettledAt = true, suiteTime(9)
	b := StoredBinding(1)
	b.Ordinal, b.ProjectedSeq = 1, 12
	in := relay.ImportedScope{Scope: StoredScope(), Bindings: []relay.Binding{b}, Turns: []relay.Turn{settled, StoredTurn(1, 2)}}
	suiteOK(t, s.ImportScope(ctx, in))
	suiteCode(t, s.ImportScope(ctx, in), wire.CodeStateUntrusted)
	state, err := s.LoadScope(ctx, in.Scope.Key)
	suiteOK(t, err)
	suiteEqual(t, "bindings", state.Bindings, in.Bindings)
	suiteEqual(t, "unsettled", state.Unsettled, in.Turns[1:])
	suiteOK(t, s.InsertBinding(ctx, in.Scope.Key, StoredBinding(2)))
	next, _, err := s.Binding(ctx, in.Scope.Key, BindingID(2))
	suiteOK(t, err)
	suiteEqual(t, "ordinal of the next", next.Ordinal, int64(2))

	clash := in
	clash.Scope.SessionID = "other"
	clash.Scope.Key = wire.ScopeKey(Target, "other")
	suiteCode(t, s.ImportScope(ctx, clash), wire.CodeStateUntrusted)
	state, err = s.LoadScope(ctx, clash.Scope.Key)
	suiteOK(t, err)
	suiteEqual(t, "what a refused import leaves", state.Scope, relay.ScopeRecord{})
}

func checkLists(t *testing.T, s relay.Store) {
	ctx := context.Background()
	key := suiteBound(t, s, 3)
	for n := range 4 {
		suiteOK(t, s.SaveTurn(ctx, key, StoredTurn(2, n+1)))
	}
	newer := relay.ScopeRecord{
		Key: wire.ScopeKey(Target, "newer"), TargetRef: Target, SessionID: "newer",
		OwnerFingerprint: Fingerprint("f"), CreatedAt: suiteTime(30),
	}
	suiteOK(t, s.BindOwner(ctx, newer))
	page, err := s.ListScopes(ctx, relay.ScopeRecord{}, 1)
	suiteOK(t, err)
	suiteEqual(t, "newest scope", page, []relay.ScopeSummary{{ScopeRecord: newer}})
	page, err = s.ListScopes(ctx, page[0].ScopeRecord, 10)
	suiteOK(t, err)
	suiteEqual(t, "the rest", page, []relay.ScopeSummary{{ScopeRecord: StoredScope(), Bindings: 3, Unsettled: 4}})

	bindings, err := s.ListBindings(ctx, key, 1, 1)
	suiteOK(t, err)
	suiteEqual(t, "second page of bindings", bindings[0].BindingID, BindingID(2))
	turns, err := s.ListTurns(ctx, key, BindingID(2), TurnID(2), 10)
	suiteOK(t, err)
	suiteEqual(t, "second page of turns", turns, []relay.Turn{StoredTurn(2, 3), StoredTurn(2, 4)})
}
