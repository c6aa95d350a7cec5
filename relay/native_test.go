package relay_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRuntimeSuiteOnTheScriptedRuntime(t *testing.T) {
	t.Parallel()
	relaytest.RuntimeSuite(t, func(*testing.T) relaytest.RuntimeHarness {
		return scripted{relaytest.NewRuntime()}
	})
}

type scripted struct{ runtime *relaytest.Runtime }

func (s scripted) Runtime() relay.Runtime { return s.runtime }
func (s scripted) Restart()               { s.runtime.Restart() }

func (s scripted) Finish(threadID, turnID, text string) {
	s.runtime.Say(threadID, turnID, text)
	s.runtime.End(threadID, turnID, relay.NativeCompleted)
}

func TestRuntimeSuiteOnTheNativeRuntime(t *testing.T) {
	t.Parallel()
	relaytest.RuntimeSuite(t, func(t *testing.T) relaytest.RuntimeHarness {
		t.Helper()
		return newNativeRig(t, openDB(t, filepath.Join(t.TempDir(), "host.db")))
	})
}

// nativeRig is the native runtime on a provider that answers when it is told to.
type nativeRig struct {
	t       *testing.T
	db      *sqldb.DB
	answers chan string
	runtime *native.Runtime
}

func newNativeRig(t *testing.T, db *sqldb.DB) *nativeRig {
	t.Helper()
	n := &nativeRig{t: t, db: db, answers: make(chan string)}
	n.open()
	t.Cleanup(func() { must(t, n.runtime.Close(context.Background())) })
	return n
}

func (n *nativeRig) open() {
	n.t.Helper()
	r, err := native.Open(context.Background(), native.Config{
		Store: relaysql.NewNative(n.db),
		Routes: func(_, _, model string) (native.Route, bool) {
			return native.Route{Client: n, Upstream: "upstream-" + model}, true
		},
	})
	must(n.t, err)
	n.runtime = r
}

// Stream is the provider: it waits for an answer to give.
func (n *nativeRig) Stream(ctx context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
	select {
	case <-ctx.Done():
		return provider.Result{}, context.Cause(ctx)
	case text := <-n.answers:
		if err := emit(provider.Delta{Kind: provider.DeltaText, Text: text}); err != nil {
			return provider.Result{}, err
		}
		return provider.Result{Finish: provider.FinishStop, Usage: &wire.Usage{InputTokens: 3, OutputTokens: 5}}, nil
	}
}

func (n *nativeRig) Runtime() relay.Runtime { return n.runtime }

func (n *nativeRig) Restart() {
	n.t.Helper()
	must(n.t, n.runtime.Close(context.Background()))
	n.open()
}

func (n *nativeRig) Finish(threadID, turnID, text string) {
	n.t.Helper()
	changed := make(chan struct{}, 1)
	stop := n.runtime.Watch(threadID, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer stop()
	n.answers <- text
	for {
		turn, ok, err := n.runtime.ReadTurn(context.Background(), threadID, turnID)
		must(n.t, err)
		if ok && !turn.Status.Live() {
			return
		}
		<-changed
	}
}

// TestATurnOnTheNativeRuntime goes the whole way: command, native turn, envelopes,
// cursor, with a restart in the middle of the second turn.
func TestATurnOnTheNativeRuntime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := newNativeHost(t)
	n := g.native
	all := []string{wire.CapabilityOutcome, wire.CapabilityReasoning}
	a, err := g.host.Attach(ctx, relaytest.Attach(0), all)
	must(t, err)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	n.answers <- "hello"
	events := untilEnd(t, a)
	equal(t, "first event", events[0].Event, wire.EventTurnStarted)
	equal(t, "answer", string(events[1].Payload), `{"kind":"agent_message","delta":"hello"}`)
	must(t, a.Acknowledge(ctx, events[len(events)-1].Seq))
	equal(t, "room", g.host.Room().Inflight, 0)

	applied(t, a, 2, relaytest.Prompt(1, 2))
	next(t, a, 1)
	a.Close()
	g.restart()
	a, err = g.host.Attach(ctx, relaytest.Attach(events[len(events)-1].Seq+1), all)
	must(t, err)
	defer a.Close()
	ended := untilEnd(t, a)
	last := ended[len(ended)-1]
	if want := `"error":"host_restarted"`; !contains(string(last.Payload), want) || !contains(string(last.Payload), `"status":"interrupted"`) {
		t.Fatalf("the end is %s, without %s", last.Payload, want)
	}
	applied(t, a, 2, relaytest.Prompt(1, 2)) // a blind resend starts nothing
	must(t, a.Acknowledge(ctx, last.Seq))
	applied(t, a, 3, relaytest.Prompt(1, 3))
	n.answers <- "again"
	untilEnd(t, a)
}

// nativeHost is a host on the native runtime.
type nativeHost struct {
	t      *testing.T
	dir    string
	native *nativeRig
	host   *relay.Host
}

func newNativeHost(t *testing.T) *nativeHost {
	t.Helper()
	g := &nativeHost{t: t, dir: t.TempDir()}
	g.native = newNativeRig(t, openDB(t, filepath.Join(g.dir, "host.db")))
	g.open()
	t.Cleanup(func() { must(t, g.host.Close()) })
	return g
}

func (g *nativeHost) open() {
	g.t.Helper()
	var err error
	g.host, err = relay.Open(context.Background(), relay.Config{
		Dir: g.dir, Store: relaysql.NewHost(g.native.db), Runtime: g.native.runtime, Cooling: g.native.runtime.Cooling,
		Providers: relaytest.Providers(),
	})
	must(g.t, err)
}

// restart ends the host and its runtime and opens both again.
func (g *nativeHost) restart() {
	g.t.Helper()
	must(g.t, g.host.Close())
	g.native.Restart()
	g.open()
}

func (g *nativeHost) attach(cursor uint64) *relay.Attachment {
	g.t.Helper()
	a, err := g.host.Attach(context.Background(), relaytest.Attach(cursor), steers)
	must(g.t, err)
	g.t.Cleanup(a.Close)
	return a
}

// untilEnd takes and hands off envelopes up to the end of a turn.
func untilEnd(t *testing.T, a *relay.Attachment) []wire.Envelope {
	t.Helper()
	var out []wire.Envelope
	for {
		envelopes, err := a.Next(context.Background())
		must(t, err)
		must(t, a.HandedOff(context.Background(), envelopes[len(envelopes)-1].Seq))
		out = append(out, envelopes...)
		if out[len(out)-1].Event == wire.EventTurnCompleted {
			return out
		}
	}
}
