package hosts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a registry with its ledger and one scripted host, in a synctest bubble.
type rig struct {
	*ledger
	t        *testing.T
	registry *hosts.Registry
	host     *relayHost
	catalogs *catalogs
}

// catalogs records what the registry publishes.
type catalogs struct {
	mu     sync.Mutex
	online map[string]bool
	caps   []string
	places map[string]gateway.HostPlace
	room   map[string]int
	routes map[string][]wire.Route
}

func (c *catalogs) HostKnown(p gateway.HostPlace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places[p.HostID] = p
}

func (c *catalogs) HostForgotten(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.places, id)
}

func (c *catalogs) HostRoom(id string, free int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room[id] = free
}

func (c *catalogs) HostOnline(id string, capabilities []string, _ []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.online[id], c.caps = true, capabilities
}

func (c *catalogs) HostOffline(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.online[id] = false
}

func (c *catalogs) HostCatalog(id string, m wire.CatalogMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.routes[id] = m.Routes
}

// inBubble runs a test with a rig whose time is synctest's.
func inBubble(t *testing.T, test func(t *testing.T, g *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		test(t, g)
		g.registry.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, fault := range g.faulty {
			t.Error(fault)
		}
	})
}

func newRig(t *testing.T) *rig {
	t.Helper()
	g := &rig{
		t: t, ledger: newLedger(), host: newRelayHost("host_1"),
		catalogs: &catalogs{online: map[string]bool{}, places: map[string]gateway.HostPlace{}, room: map[string]int{}, routes: map[string][]wire.Route{}},
	}
	g.registry = hosts.New(hosts.Options{Ledger: g.ledger, Catalogs: g.catalogs})
	g.registry.Register(hosts.Host{ID: "host_1", TargetRef: "target_1", Embedded: true})
	return g
}

// raw is a host's end of a link that the test plays itself.
type raw struct {
	t    *testing.T
	conn link.Conn
	ends sync.WaitGroup
	err  error // why Serve returned
}

// dial links a host that does nothing by itself, up to the welcome.
func (g *rig) dial(hostID string) *raw {
	g.t.Helper()
	h := g.call(hostID)
	if _, ok := h.next().(wire.Welcome); !ok {
		g.t.Fatal("no welcome")
	}
	synctest.Wait()
	return h
}

// call says hello as a host, and waits for nothing but rest.
func (g *rig) call(hostID string) *raw {
	g.t.Helper()
	h := &raw{t: g.t}
	var gatewayEnd link.Conn
	h.conn, gatewayEnd = link.Pipe()
	h.ends.Go(func() { h.err = g.registry.Serve(context.Background(), hostID, gatewayEnd) })
	h.send(newRelayHost(hostID).Hello())
	return h
}

func (h *raw) send(m wire.LinkMessage) {
	h.t.Helper()
	if err := h.conn.Send(context.Background(), m); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

// next is what the gateway says next, heartbeats and catalog requests left out.
func (h *raw) next() wire.LinkMessage {
	h.t.Helper()
	for {
		m, err := h.conn.Receive(context.Background())
		if err != nil {
			h.t.Fatal(err)
		}
		switch m.(type) {
		case wire.Heartbeat, wire.CatalogRequest:
		default:
			return m
		}
	}
}

// ended reads what is left and gives how the gateway closed the link.
func (h *raw) ended() (last wire.LinkMessage, e link.Ending) {
	h.t.Helper()
	for {
		m, err := h.conn.Receive(context.Background())
		var closed *link.EndedError
		switch {
		case errors.As(err, &closed):
			h.ends.Wait()
			_ = h.conn.Close(link.Ending{})
			return last, closed.Ending
		case err != nil:
			h.t.Fatalf("the link ended with %v", err)
		}
		if _, beat := m.(wire.Heartbeat); !beat {
			last = m
		}
	}
}

// take plays a host that takes a run and its prompt, up to the answer.
func (h *raw) take(runID string) {
	h.t.Helper()
	if a, ok := h.next().(wire.Attach); !ok || a.RunID != runID {
		h.t.Fatalf("no attach of %s", runID)
	}
	h.send(wire.Attached{RunID: runID})
	c, ok := h.next().(wire.CommandMessage)
	if !ok || c.RunID != runID {
		h.t.Fatalf("no command of %s", runID)
	}
	h.send(wire.Ack{RunID: runID, CommandSeq: c.Seq, CommandType: wire.TypePromptRequest, Status: wire.AckApplied})
}

// say sends an envelope of a turn.
func (h *raw) say(runID, turn string, seq uint64, event string) {
	h.t.Helper()
	h.send(wire.EventMessage{RunID: runID, Envelope: wire.Envelope{
		SchemaVersion: wire.EnvelopeSchemaVersion, Seq: seq, Event: event, TurnID: turn,
		SourceEventID: fmt.Sprintf("%s/%d", turn, seq), Payload: json.RawMessage(`{}`),
	}})
}

// linked is one link between the rig's host and its registry.
type linked struct {
	hostConn, gatewayConn link.Conn
	stopHost              context.CancelFunc
	ends                  sync.WaitGroup
	err                   error // why Serve returned
}

func (g *rig) connect(h *relayHost) *linked { return g.connectAs(h) }

func (g *rig) connectAs(h link.Host) *linked {
	l := &linked{}
	l.hostConn, l.gatewayConn = link.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	l.stopHost = stop
	l.ends.Go(func() { _ = link.ServeHost(ctx, l.hostConn, h, link.HostOptions{}) })
	l.ends.Go(func() {
		defer stop()
		l.err = g.registry.Serve(context.Background(), h.Hello().HostID, l.gatewayConn)
	})
	synctest.Wait()
	return l
}

// cut breaks the link off without a word.
func (l *linked) cut() {
	_ = l.hostConn.Close(link.Ending{})
	_ = l.gatewayConn.Close(link.Ending{})
	l.ends.Wait()
}

// wake tells the registry and lets everything come to rest.
func (g *rig) wake(runID string) {
	g.registry.Wake(runID)
	synctest.Wait()
}

// pass lets time go by and everything come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
