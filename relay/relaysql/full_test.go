package relaysql_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// pages bounds the size of the database; one page is what it has already.
func pages(t *testing.T, db *sqldb.DB, most string) {
	t.Helper()
	if err := db.Update(t.Context(), func(tx *sqldb.Tx) error {
		var n int
		return tx.QueryRow(t.Context(), "PRAGMA max_page_count = "+most).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
}

// fill takes the room that is left in the pages.
func fill(t *testing.T, db *sqldb.DB) error {
	t.Helper()
	for range 10_000 {
		if err := bind(t, db, strings.Repeat("s", 200)+wire.NewNativeID("session")); err != nil {
			return err
		}
	}
	t.Fatal("the database takes everything")
	return nil
}

// TestRH35_AFullDiskIsNamed: the refusal of the host says what is wrong, and neither
// where nor that a command was lost.
func TestRH35_AFullDiskIsNamed(t *testing.T) {
	t.Parallel()
	db := openDB(t, "sqlite3")
	pages(t, db, "1")
	err := fill(t, db)
	e := wire.AsError(err)
	if e == nil || e.Code != wire.CodePersistFailed || !e.Retryable || !errors.Is(err, sqldb.ErrFull) {
		t.Fatalf("refused with %v", err)
	}
	if !strings.Contains(e.Message, "disk of the host is full") || strings.Contains(e.Message, db.Path()) {
		t.Errorf("it reads %q", e.Message)
	}
}

// flood streams more than the pages take, and waits for the test before each half.
type flood struct{ step chan struct{} }

func (f flood) Stream(ctx context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
	for range 2 {
		select {
		case <-f.step:
		case <-ctx.Done():
			return provider.Result{}, context.Cause(ctx)
		}
		if err := emit(provider.Delta{Kind: provider.DeltaText, Text: strings.Repeat("x", 100_000)}); err != nil {
			return provider.Result{}, err
		}
	}
	return provider.Result{Finish: provider.FinishStop}, nil
}

// TestATurnOutlastsAFullDisk: while there is no room it has no end, with room again it
// has one, and the host need not be started again.
func TestATurnOutlastsAFullDisk(t *testing.T) {
	t.Parallel()
	db, client := openDB(t, "sqlite3"), flood{make(chan struct{})}
	r, err := native.Open(t.Context(), native.Config{
		Store: relaysql.NewNative(db),
		Routes: func(_, _, model string) (native.Route, bool) {
			return native.Route{Client: client, Upstream: model}, true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	thread, err := r.CreateThread(t.Context(), relay.NewThread{Model: "m", ModelProvider: "demo", ModelProviderID: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	turn := wire.NewNativeID("turn")
	if err := r.StartTurn(t.Context(), relay.StartTurn{
		ThreadID: thread, TurnID: turn, OperationKey: "op", Prompt: "hi", Model: "m", ModelProvider: "demo", ModelProviderID: "demo",
	}); err != nil {
		t.Fatal(err)
	}
	pages(t, db, "1")
	if err := fill(t, db); !errors.Is(err, sqldb.ErrFull) {
		t.Fatal(err)
	}
	client.step <- struct{}{}
	client.step <- struct{}{}
	if got, ok, err := r.ReadTurn(t.Context(), thread, turn); err != nil || !ok || !got.Status.Live() {
		t.Errorf("with a full disk: %+v, %v, %v", got, ok, err)
	}
	changed := make(chan struct{}, 1)
	defer r.Watch(thread, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	pages(t, db, "1000000")
	late := time.After(2 * time.Minute)
	for {
		got, ok, err := r.ReadTurn(t.Context(), thread, turn)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if !got.Status.Live() {
			break
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("with room again the turn has no end: %+v", got)
		}
	}
	select {
	case <-r.Broken():
		t.Error("the runtime is broken")
	case <-db.Broken():
		t.Error("the database is broken")
	default:
	}
	if err := bind(t, db, "another"); err != nil {
		t.Errorf("the host stores nothing: %v", err)
	}
}

func bind(t *testing.T, db *sqldb.DB, session string) error {
	t.Helper()
	return relaysql.NewHost(db).BindOwner(t.Context(), relay.ScopeRecord{
		Key: wire.ScopeKey(relaytest.Target, session), TargetRef: relaytest.Target, SessionID: session,
		OwnerFingerprint: wire.OwnerFingerprint("owner", relaytest.Target, session), CreatedAt: time.Now(),
	})
}
