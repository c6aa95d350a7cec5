package hosts_test

import (
	"context"
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

// linked is one link between the rig's host and its registry.
type linked struct {
	hostConn, gatewayConn link.Conn
	stopHost              context.CancelFunc
	ends                  sync.WaitGroup
	err                   error // why Serve returned
}

func (g *rig) connect(h *relayHost) *linked {
	l := &linked{}
	l.hostConn, l.gatewayConn = link.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	l.stopHost = stop
	l.ends.Go(func() { _ = link.ServeHost(ctx, l.hostConn, h, link.HostOptions{}) })
	l.ends.Go(func() {
		defer stop()
		l.err = g.registry.Serve(context.Background(), h.id, l.gatewayConn)
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
