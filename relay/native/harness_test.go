package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestMain(m *testing.M) {
	// Each check of a schedule costs a hundred syncs; ask for more with -rapid.checks.
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = flag.Set("rapid.checks", "20")
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// script is a provider.Client made of one function for each request.
type script struct {
	mu    sync.Mutex
	calls []provider.Request
	play  func(ctx context.Context, req provider.Request, emit func(provider.Delta) error) (provider.Result, error)
}

func (s *script) Stream(ctx context.Context, req provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, req)
	play := s.play
	s.mu.Unlock()
	return play(ctx, req, emit)
}

func (s *script) requests() []provider.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]provider.Request(nil), s.calls...)
}

func text(s string) provider.Delta { return provider.Delta{Kind: provider.DeltaText, Text: s} }

func thought(s string) provider.Delta { return provider.Delta{Kind: provider.DeltaReasoning, Text: s} }

var usage = wire.Usage{InputTokens: 7, OutputTokens: 5}

// says is a script that emits deltas and completes.
func says(deltas ...provider.Delta) *script {
	return &script{play: func(_ context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
		for _, d := range deltas {
			if err := emit(d); err != nil {
				return provider.Result{}, err
			}
		}
		return provider.Result{Finish: provider.FinishStop, ResponseID: "resp_1", Usage: &usage}, nil
	}}
}

// ends is a script that says something and then ends as it is told.
func ends(said string, res provider.Result, err error) *script {
	return &script{play: func(_ context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
		if said != "" {
			if err := emit(text(said)); err != nil {
				return provider.Result{}, err
			}
		}
		return res, err
	}}
}

// hangs is a script that says something and then waits: for its context, or for
// release. It tells on said when everything was emitted.
type hanging struct {
	script
	said    chan struct{}
	release chan struct{}
}

func hangs(deltas ...provider.Delta) *hanging {
	h := &hanging{said: make(chan struct{}, 64), release: make(chan struct{})}
	h.play = func(ctx context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
		for _, d := range deltas {
			if err := emit(d); err != nil {
				return provider.Result{}, err
			}
		}
		h.said <- struct{}{}
		select {
		case <-ctx.Done():
			return provider.Result{}, context.Cause(ctx)
		case <-h.release:
			return provider.Result{Finish: provider.FinishStop, Usage: &usage}, nil
		}
	}
	return h
}

// faults is a native.Store in which steps can be made to fail.
type faults struct {
	native.Store
	mu sync.Mutex
	// before and after give, for the name of a step, an error that takes the place
	// of the step, or that follows on it.
	before, after func(step string) error
	reads         int // of conversations
}

func (f *faults) do(step string, write func() error) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(step); err != nil {
			return err
		}
	}
	if err := write(); err != nil {
		return err
	}
	if after != nil {
		return after(step)
	}
	return nil
}

func (f *faults) set(before, after func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faults) CreateThread(ctx context.Context, t native.Thread, from string, e native.Event) error {
	return f.do("CreateThread", func() error { return f.Store.CreateThread(ctx, t, from, e) })
}

func (f *faults) AcceptTurn(ctx context.Context, a native.Acceptance) (op native.Operation, ok bool, err error) {
	err = f.do("AcceptTurn", func() (err error) {
		op, ok, err = f.Store.AcceptTurn(ctx, a)
		return err
	})
	return op, ok, err
}

func (f *faults) AppendDeltas(ctx context.Context, threadID, turnID string, d []native.Delta) error {
	return f.do("AppendDeltas", func() error { return f.Store.AppendDeltas(ctx, threadID, turnID, d) })
}

func (f *faults) RequestInterrupt(ctx context.Context, threadID, turnID string, e native.Event) error {
	return f.do("RequestInterrupt", func() error { return f.Store.RequestInterrupt(ctx, threadID, turnID, e) })
}

func (f *faults) TakeSteer(ctx context.Context, s native.Steering) error {
	return f.do("TakeSteer", func() error { return f.Store.TakeSteer(ctx, s) })
}

func (f *faults) CompleteTurn(ctx context.Context, c native.Completion) error {
	return f.do("CompleteTurn", func() error { return f.Store.CompleteTurn(ctx, c) })
}

func (f *faults) Rounds(ctx context.Context, threadID string) ([]native.Round, error) {
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	return f.Store.Rounds(ctx, threadID)
}

// always, once: errors for one step.
func once(step string, err error) func(string) error {
	var mu sync.Mutex
	return func(s string) error {
		mu.Lock()
		defer mu.Unlock()
		if s != step || err == nil {
			return nil
		}
		defer func() { err = nil }()
		return err
	}
}

var (
	errDisk    = errors.New("disk full")
	errUnknown = fmt.Errorf("%w: cable pulled", native.ErrIndeterminate)
)

// host is a runtime on a real database.
type host struct {
	*native.Runtime
	t      testing.TB
	path   string
	driver string
	known  bool // the schema is there
	db     *sqldb.DB
	store  *faults
	cfg    native.Config
}

type option func(*host)

func stopped(s native.StoppedAnswers) option {
	return func(h *host) { h.cfg.StoppedAnswers = s }
}

// newHost opens a runtime whose every route is served by client.
func newHost(t testing.TB, client provider.Client, opts ...option) *host {
	t.Helper()
	h := &host{t: t, path: filepath.Join(t.TempDir(), "host.db"), driver: "sqlite3"}
	h.serve(client)
	for _, o := range opts {
		o(h)
	}
	h.open()
	t.Cleanup(h.close)
	return h
}

// serve sets the client of every route for the next open.
func (h *host) serve(client provider.Client) {
	h.cfg.Routes = func(_, _, model string) (native.Route, bool) {
		return native.Route{Client: client, Upstream: "up/" + model, BillingMode: "metered"}, model != "unknown"
	}
}

func (h *host) open() {
	h.t.Helper()
	if err := h.tryOpen(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) tryOpen() (err error) {
	h.db, err = sqldb.Open(context.Background(), sqldb.Options{Path: h.path, Driver: h.driver})
	if err != nil {
		return err
	}
	if !h.known {
		err = h.db.Migrate(context.Background(), relaysql.Migrations())
	}
	if err == nil {
		h.store = &faults{Store: relaysql.NewNative(h.db)}
		h.cfg.Store = h.store
		h.Runtime, err = native.Open(context.Background(), h.cfg)
	}
	if err != nil {
		_ = h.db.Close()
		h.db, h.Runtime = nil, nil
	}
	return err
}

func (h *host) close() {
	if h.Runtime == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		h.t.Errorf("Close: %v", err)
	}
	if err := h.db.Close(); err != nil {
		h.t.Errorf("closing the database: %v", err)
	}
	h.Runtime = nil
}

func (h *host) reopen() {
	h.t.Helper()
	h.close()
	h.open()
}

// crash gives what a kill at this moment would leave behind: a host on a copy of
// the files. Nothing may be writing.
func (h *host) crash(client provider.Client) *host {
	h.t.Helper()
	c := &host{t: h.t, path: filepath.Join(h.t.TempDir(), "host.db"), driver: h.driver, cfg: h.cfg, known: true}
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(h.path + suffix)
		if err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(c.path+suffix, raw, 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	c.serve(client)
	c.open()
	h.t.Cleanup(c.close)
	return c
}

func (h *host) thread() string {
	h.t.Helper()
	return h.threadFrom("")
}

func (h *host) threadFrom(from string) string {
	h.t.Helper()
	id, err := h.CreateThread(context.Background(), relay.NewThread{
		Model: "model-1", ModelProvider: "demo", ModelProviderID: "demo", SystemPrompt: "Be brief.", ContinueFrom: from,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// turnOf is the n-th turn of a thread.
func turnOf(thread string, n int) relay.StartTurn {
	return relay.StartTurn{
		ThreadID: thread, TurnID: fmt.Sprintf("turn_%s_%d", thread[4:20], n), OperationKey: fmt.Sprintf("op-%d", n),
		Prompt: fmt.Sprintf("question %d", n), Model: "model-1", ModelProvider: "demo", ModelProviderID: "demo",
	}
}

func (h *host) start(s relay.StartTurn) {
	h.t.Helper()
	if err := h.StartTurn(context.Background(), s); err != nil {
		h.t.Fatalf("StartTurn: %v", err)
	}
}

// events reads the whole ledger of a thread.
func (h *host) events(thread string) []relay.NativeEvent {
	h.t.Helper()
	var all []relay.NativeEvent
	for after := uint64(0); ; {
		page, err := h.Events(context.Background(), thread, after, 100)
		if err != nil {
			h.t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// await waits until a condition on the ledger holds.
func (h *host) await(thread, what string, holds func([]relay.NativeEvent) bool) []relay.NativeEvent {
	h.t.Helper()
	woken := make(chan struct{}, 1)
	stop := h.Watch(thread, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	defer stop()
	deadline := time.After(patience)
	for {
		events := h.events(thread)
		if holds(events) {
			return events
		}
		select {
		case <-woken:
		case <-deadline:
			h.t.Fatalf("waited in vain for %s in %v", what, names(events))
		}
	}
}

func names(events []relay.NativeEvent) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Event)
	}
	return out
}

// completed is the payload of turn.completed.
type completed struct {
	Turn      wire.CompletedTurn `json:"turn"`
	Outcome   *wire.Outcome      `json:"outcome"`
	Recovered bool               `json:"recovered"`
}

// end waits for the end of a turn and checks that the ledger tells it once.
func (h *host) end(thread, turn string) completed {
	h.t.Helper()
	events := h.await(thread, "the end of "+turn, func(events []relay.NativeEvent) bool {
		return len(of(events, turn, wire.EventTurnCompleted)) > 0
	})
	found := of(events, turn, wire.EventTurnCompleted)
	if len(found) != 1 {
		h.t.Fatalf("%d turn.completed of %s", len(found), turn)
	}
	var c completed
	if err := json.Unmarshal(found[0].Payload, &c); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// run starts a turn and waits for its end.
func (h *host) run(s relay.StartTurn) completed {
	h.t.Helper()
	h.start(s)
	return h.end(s.ThreadID, s.TurnID)
}

func of(events []relay.NativeEvent, turn, name string) []relay.NativeEvent {
	var out []relay.NativeEvent
	for _, e := range events {
		if e.TurnID == turn && e.Event == name {
			out = append(out, e)
		}
	}
	return out
}

// said gathers the deltas of a turn, and checks each one's limits.
func (h *host) said(thread, turn string) (answer, reasoning string) {
	h.t.Helper()
	return saidIn(h.t, h.events(thread), turn)
}

func saidIn(t testing.TB, events []relay.NativeEvent, turn string) (answer, reasoning string) {
	t.Helper()
	for _, e := range of(events, turn, wire.EventItemDelta) {
		var d wire.DeltaPayload
		if err := json.Unmarshal(e.Payload, &d); err != nil {
			t.Fatal(err)
		}
		if len(d.Delta) > wire.MaxDeltaBytes || d.Delta == "" || e.ItemID == "" {
			t.Errorf("delta %d: %d bytes, item %q", e.Seq, len(d.Delta), e.ItemID)
		}
		if d.Kind == wire.DeltaReasoning {
			reasoning += d.Delta
		} else {
			answer += d.Delta
		}
	}
	return answer, reasoning
}

// status reads the state of a turn; "" is absent.
func (h *host) status(thread, turn string) relay.NativeStatus {
	h.t.Helper()
	t, ok, err := h.ReadTurn(context.Background(), thread, turn)
	if err != nil {
		h.t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return t.Status
}

func wantCode(t testing.TB, err error, code wire.Code) {
	t.Helper()
	if got := wire.CodeOf(err); got != code {
		t.Errorf("error %v has code %q, want %q", err, got, code)
	}
}

func receive(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("waited in vain for " + what)
	}
}

// execute runs a statement behind the runtime's back.
func (h *host) execute(query string) {
	h.t.Helper()
	err := h.db.Update(context.Background(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(context.Background(), query)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}
