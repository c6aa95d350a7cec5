package relay_test

import (
	"context"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestMain(m *testing.M) {
	// Each check of a schedule costs a hundred syncs; ask for more with -rapid.checks.
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = flag.Set("rapid.checks", "30")
	}
	goleak.VerifyTestMain(m)
}

// rig is a host on a real database, with a runtime and a store that do what a test
// tells them.
type rig struct {
	t       testing.TB
	dir     string
	db      *sqldb.DB
	store   *relaytest.FaultyStore
	runtime *relaytest.Runtime
	cfg     relay.Config
	host    *relay.Host
}

func newRig(t testing.TB, change ...func(*relay.Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	db := openDB(t, filepath.Join(dir, "host.db"))
	r := &rig{
		t: t, dir: dir, db: db,
		store: relaytest.NewFaultyStore(relaysql.NewHost(db)), runtime: relaytest.NewRuntime(),
	}
	r.cfg = relay.Config{
		Dir: dir, Store: r.store, Runtime: r.runtime, HostID: "host", Name: "Host", Version: "1.2.3",
		Providers: relaytest.Providers(),
	}
	for _, fn := range change {
		fn(&r.cfg)
	}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

func openDB(t testing.TB, path string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(context.Background(), sqldb.Options{Path: path})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, db.Migrate(context.Background(), relaysql.Migrations()))
	return db
}

func (r *rig) open() {
	r.t.Helper()
	host, err := relay.Open(context.Background(), r.cfg)
	must(r.t, err)
	r.host = host
}

func (r *rig) close() {
	r.t.Helper()
	must(r.t, r.host.Close())
}

// reopen is a restart of the host's process, but for the native turns.
func (r *rig) reopen() {
	r.t.Helper()
	r.close()
	r.open()
}

// scope opens the shared scope; it is closed with the test.
func (r *rig) scope() *relay.Scope {
	r.t.Helper()
	return r.scopeOf(relaytest.Session)
}

func (r *rig) scopeOf(session string) *relay.Scope {
	r.t.Helper()
	s, err := r.host.Scope(context.Background(), relaytest.Target, session)
	must(r.t, err)
	r.t.Cleanup(s.Close)
	return s
}

// authorized opens the shared scope with account and run.
func (r *rig) authorized() *relay.Scope {
	r.t.Helper()
	return r.authorizedIn(relaytest.Session)
}

func (r *rig) authorizedIn(session string) *relay.Scope {
	r.t.Helper()
	s := r.scopeOf(session)
	must(r.t, s.BindAccount(context.Background(), relaytest.Account, relaytest.Target))
	must(r.t, s.AuthorizeRun(context.Background(), relaytest.Run))
	return s
}

// drain projects everything that there is, as a transport does, and acknowledges
// it.
func (r *rig) drain(s *relay.Scope) []wire.Envelope {
	r.t.Helper()
	ctx := context.Background()
	var out []wire.Envelope
	for {
		ps, err := s.Poll(ctx, 1)
		must(r.t, err)
		if len(ps) == 0 {
			return out
		}
		envelopes, err := s.Journal(ctx, ps)
		must(r.t, err)
		must(r.t, s.HandedOff(ctx, ps))
		out = append(out, envelopes...)
		must(r.t, s.Acknowledge(ctx, relaytest.Run, envelopes[len(envelopes)-1].Seq))
	}
}

// turn reads a reservation.
func (r *rig) turn(b, n int) (relay.Turn, bool) {
	r.t.Helper()
	t, ok, err := r.store.Turn(context.Background(), scopeKey(), relaytest.BindingID(b), relaytest.TurnID(n))
	must(r.t, err)
	return t, ok
}

func (r *rig) binding(b int) (relay.Binding, bool) {
	r.t.Helper()
	got, ok, err := r.store.Binding(context.Background(), scopeKey(), relaytest.BindingID(b))
	must(r.t, err)
	return got, ok
}

// started gives the native thread and turn of the n-th native start, from 0.
func (r *rig) started(n int) (threadID, turnID string) {
	r.t.Helper()
	all := r.runtime.Started()
	if n >= len(all) {
		r.t.Fatalf("%d native turns were started, want more than %d", len(all), n)
	}
	return all[n].ThreadID, all[n].TurnID
}

// finish lets the n-th native turn answer and end, and drains.
func (r *rig) finish(s *relay.Scope, n int) []wire.Envelope {
	r.t.Helper()
	thread, turn := r.started(n)
	r.runtime.Say(thread, turn, "seen")
	r.runtime.End(thread, turn, relay.NativeCompleted)
	return r.drain(s)
}

func scopeKey() string { return wire.ScopeKey(relaytest.Target, relaytest.Session) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code wire.Code) {
	t.Helper()
	if got := wire.CodeOf(err); got != code {
		t.Fatalf("error is %v, want code %q", err, code)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// eventually waits for something that another goroutine does.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		<-tick.C
	}
}

func ptr[T any](v T) *T { return &v }
