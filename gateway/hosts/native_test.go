package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// answers is a provider whose n-th request says "answer n. " and waits for the test.
type answers struct {
	begun chan int
	goOn  chan struct{}
	mu    sync.Mutex
	asked [][]string // the texts of each request's messages
}

func (a *answers) Stream(ctx context.Context, req provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
	var texts []string
	for _, m := range req.Messages {
		texts = append(texts, m.Text)
	}
	a.mu.Lock()
	a.asked = append(a.asked, texts)
	n := len(a.asked)
	a.mu.Unlock()
	if err := emit(provider.Delta{Kind: provider.DeltaText, Text: fmt.Sprintf("answer %d. ", n)}); err != nil {
		return provider.Result{}, err
	}
	a.begun <- n
	select {
	case <-a.goOn:
		return provider.Result{Finish: provider.FinishStop}, nil
	case <-ctx.Done():
		return provider.Result{}, context.Cause(ctx)
	}
}

// realHost is a relay host on the native runtime and a database, as it is built into
// the program.
type realHost struct {
	*relay.Host
	offered chan string // the deliveries that a turn knows of
}

// heard tells when a turn knows of a steer.
type heard struct {
	link.Attachment
	offered chan<- string
}

func (h heard) Steer(ctx context.Context, m wire.Steer) (func(context.Context) (wire.Receipt, bool), error) {
	receipt, err := h.Attachment.Steer(ctx, m)
	if err == nil {
		h.offered <- m.DeliveryID
	}
	return receipt, err
}

func (h realHost) Attach(ctx context.Context, a wire.Attach, capabilities []string) (link.Attachment, error) {
	attachment, err := h.Host.Attach(ctx, a, capabilities)
	if err != nil {
		return nil, err
	}
	return heard{Attachment: attachment, offered: h.offered}, nil
}

func newRealHost(t *testing.T, client provider.Client) realHost {
	t.Helper()
	dir, ctx := t.TempDir(), context.Background()
	db, err := sqldb.Open(ctx, sqldb.Options{Path: filepath.Join(dir, "host.db")})
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	check(t, db.Migrate(ctx, relaysql.Migrations()))
	runtime, err := native.Open(ctx, native.Config{
		Store: relaysql.NewNative(db),
		Routes: func(_, _, model string) (native.Route, bool) {
			return native.Route{Client: client, Upstream: model}, true
		},
	})
	check(t, err)
	t.Cleanup(func() { check(t, runtime.Close(ctx)) })
	host, err := relay.Open(ctx, relay.Config{
		Dir: dir, Store: relaysql.NewHost(db), Runtime: runtime, HostID: "host_1", Name: "Host", Version: "1.0.0",
		Providers: relaytest.Providers(),
	})
	check(t, err)
	t.Cleanup(func() { check(t, host.Close()) })
	return realHost{Host: host, offered: make(chan string, 16)}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for what other goroutines bring about.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
		<-tick.C
	}
}

// real makes a real command the next of a run, whose turn the host then owes.
func (l *ledger) real(runID string, prompt *wire.PromptRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.run(runID)
	body, _ := json.Marshal(prompt)
	r.attach = relaytest.Attach(0)
	r.commands = append(r.commands, &ledgerCommand{
		seq: uint64(len(r.commands) + 1), body: body, kind: wire.TypePromptRequest, turn: prompt.TurnID, state: "pending",
	})
	r.owed[prompt.TurnID] = true
}

// TestF24_ASteerFromTheLedgerToTheProvider goes the whole way with all real parts of
// a host: the second steer's link is lost before its receipt is
// recorded.
func TestF24_ASteerFromTheLedgerToTheProvider(t *testing.T) {
	t.Parallel()
	client := &answers{begun: make(chan int, 16), goOn: make(chan struct{})}
	host := newRealHost(t, client)
	l := newLedger()
	registry := hosts.New(hosts.Options{Ledger: l})
	registry.Register(hosts.Host{ID: "host_1", TargetRef: relaytest.Target})
	defer registry.Close()
	const run = relaytest.Run
	turn := relaytest.TurnID(1)
	cut := connectReal(t, registry, host)
	l.real(run, relaytest.Prompt(1, 1))
	registry.Wake(run)
	await(t, client.begun, 1)

	first := l.steer(run, "shorter")
	registry.Wake(run)
	await(t, host.offered, first)
	client.goOn <- struct{}{}
	await(t, client.begun, 2)
	until(t, "the first receipt", func() bool { return l.steerState(run, first).outcome == wire.ReceiptDelivered })

	second := l.steer(run, "in French")
	l.hurry(run, second)
	l.fail("Receipt", 1<<30) // the receipt gets nowhere
	registry.Wake(run)
	await(t, client.begun, 3)
	cut()
	l.fail("Receipt", 0)
	cut = connectReal(t, registry, host)
	defer func() { cut() }()
	until(t, "the second steer", func() bool { return l.steerState(run, second).outcome == wire.ReceiptDelivered })

	client.goOn <- struct{}{}
	until(t, "the end", func() bool { return l.snapshot(run).ended[turn] == 1 })
	var end wire.CompletedPayload
	check(t, json.Unmarshal(l.payload(run, turn), &end))
	want := []wire.Delivered{{DeliveryID: first, At: 10}, {DeliveryID: second, At: 20, Cut: true}}
	if end.Turn.Status != wire.NativeCompleted || end.Outcome == nil || fmt.Sprint(end.Outcome.Deliveries) != fmt.Sprint(want) {
		t.Errorf("the turn ended %+v %+v, want %+v", end.Turn, end.Outcome, want)
	}
	client.mu.Lock()
	defer client.mu.Unlock()
	last := fmt.Sprintf("%q", client.asked[len(client.asked)-1])
	if want := `["look" "answer 1. " "shorter" "answer 2.\n\n[This answer was interrupted here and is incomplete.]" "in French"]`; last != want || len(client.asked) != 3 {
		t.Errorf("after %d requests the provider was told\n%s, want\n%s", len(client.asked), last, want)
	}
}

func await[T comparable](t *testing.T, from <-chan T, want T) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Fatalf("%v came, want %v", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("waited in vain for %v", want)
	}
}

func connectReal(t *testing.T, registry *hosts.Registry, host realHost) (cut func()) {
	t.Helper()
	hostConn, gatewayConn := link.Pipe()
	var ends sync.WaitGroup
	ends.Go(func() { _ = link.ServeHost(context.Background(), hostConn, host, link.HostOptions{}) })
	ends.Go(func() { _ = registry.Serve(context.Background(), "host_1", gatewayConn) })
	return func() {
		_ = hostConn.Close(link.Ending{})
		_ = gatewayConn.Close(link.Ending{})
		ends.Wait()
	}
}
