package hosts

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

var _ gateway.Dispatcher = (*Registry)(nil)

// Reasons that the ledger is told (turn.state.reason).
const (
	reasonHostOffline  = "host_offline"
	reasonNoRoom       = "no_room"
	reasonRouteCooling = "route_cooling"
)

// Causes with which Serve refuses or gives up a link.
var (
	ErrUnknownHost = errors.New("hosts: this host is not registered")
	ErrRevoked     = errors.New("hosts: this host was revoked")
	ErrSuperseded  = errors.New("hosts: a newer link of this host took over")
	ErrClosed      = errors.New("hosts: shutting down")
)

// Catalogs is told of hosts and of what they publish; gateway/routes implements it.
// Its methods must not block, and must not call the registry.
type Catalogs interface {
	// HostKnown tells of a host that was registered, and of each change of it.
	HostKnown(p gateway.HostPlace)
	// HostForgotten tells that a host was revoked.
	HostForgotten(hostID string)
	// HostOnline tells that a host is linked, with the capabilities agreed on and the
	// generations of settings that it understands.
	HostOnline(hostID string, capabilities []string, generations []int)
	HostOffline(hostID string)
	// HostRoom tells how many more prompts a linked host could take now.
	HostRoom(hostID string, free int)
	HostCatalog(hostID string, m wire.CatalogMessage)
}

// Options are the settings of a Registry. Ledger is required.
type Options struct {
	Ledger   gateway.Ledger
	Catalogs Catalogs
	Logger   *slog.Logger
	// Now is the clock against which routes cool down; nil is the system's.
	Now func() time.Time
	// RouteMaxWait is how long a prompt waits for a route that cools down before
	// it is offered all the same: route.max_wait, 0 = 60 s.
	RouteMaxWait time.Duration
	// Heartbeat is what both ends of a link keep to: host_link.heartbeat, 0 = 25 s.
	Heartbeat time.Duration
	// Silence is how long a host may be silent before its link is ended, and before one
	// that left without a word counts as lost: host_link.silence, 0 = 90 s.
	Silence time.Duration
}

// Host is a relay host that this gateway knows.
type Host struct {
	ID        string
	TargetRef string
	Name      string // "" shows what the host calls itself
	Embedded  bool
	// Draining is set by an admin: the host is asked to take no new prompt.
	Draining bool
	Labels   []string
}

// Registry holds the known hosts and their links.
type Registry struct {
	ledger       gateway.Ledger
	catalogs     Catalogs
	log          *slog.Logger
	now          func() time.Time
	routeMaxWait time.Duration
	heartbeat    time.Duration
	silence      time.Duration

	// work ends with Close; tasks are the goroutines that Wake and Register start.
	work  context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup

	// mu guards what follows and the state of every host; it is held for map and
	// slice operations alone.
	mu     sync.Mutex
	closed bool
	// leaving is set for good by Leave: only the embedded host may link.
	leaving bool
	hosts   []*host
	revoked map[string]bool // hosts that were revoked and are not back
	// burials are the revoked hosts whose runs have not all ended, by their ids. One that
	// joined again meanwhile waits, so that nothing new ends with the old.
	burials map[string]chan struct{}
	// routing holds the runs whose host is being looked for; true means that the
	// run was woken again meanwhile.
	routing map[string]bool
}

// host is a known host. Its fields are guarded by Registry.mu; ID, TargetRef and
// Embedded never change.
type host struct {
	Host
	live *session // nil while the host is not linked
	// revoked is set for good: the host is not in Registry.hosts any more.
	revoked bool
	links   int // how many there were
	claims  int // links that came, also such as wait for an older one's end
	// settled is closed when the ledger has been told that the host is away; a
	// new link waits for it, so that the ledger is told things in their order.
	settled chan struct{}
	last    past
}

// past is what stays of a host's last link.
type past struct {
	hello   wire.Hello
	ended   time.Time
	heard   time.Time
	orderly bool // the host said that it goes offline
	routes  int
	fault   string // why it ended, "" for one that ended in good order
}

// New makes a registry without hosts. Close ends it.
func New(o Options) *Registry {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.RouteMaxWait == 0 {
		o.RouteMaxWait = time.Minute
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = link.HeartbeatEvery
	}
	if o.Silence == 0 {
		o.Silence = link.MaxSilence
	}
	if o.Catalogs == nil {
		o.Catalogs = noCatalogs{}
	}
	r := &Registry{
		ledger: o.Ledger, catalogs: o.Catalogs, log: o.Logger, now: o.Now, routeMaxWait: o.RouteMaxWait,
		heartbeat: o.Heartbeat, silence: o.Silence, routing: map[string]bool{}, burials: map[string]chan struct{}{}, revoked: map[string]bool{},
	}
	r.work, r.stop = context.WithCancel(context.Background())
	return r
}

type noCatalogs struct{}

func (noCatalogs) HostKnown(gateway.HostPlace)             {}
func (noCatalogs) HostForgotten(string)                    {}
func (noCatalogs) HostOnline(string, []string, []int)      {}
func (noCatalogs) HostOffline(string)                      {}
func (noCatalogs) HostRoom(string, int)                    {}
func (noCatalogs) HostCatalog(string, wire.CatalogMessage) {}

// Register makes a host known, also while others are linked, and tells the ledger
// that its open runs wait for it until it links. For a host that is known already
// it is Update.
func (r *Registry) Register(h Host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if known := r.find(h.ID); known != nil {
		r.update(known, h)
		return
	}
	delete(r.revoked, h.ID)
	known := &host{Host: h}
	r.hosts = append(r.hosts, known)
	r.catalogs.HostKnown(known.place())
	r.reportAway(known, time.Time{})
}

// Update changes the name, the labels and the draining of a host. A linked one is
// told to drain, or to go on. A host that is not known is left alone.
func (r *Registry) Update(h Host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.find(h.ID); known != nil {
		r.update(known, h)
	}
}

// update is called with mu held.
func (r *Registry) update(known *host, h Host) {
	turned := known.Draining != h.Draining
	known.Name, known.Labels, known.Draining = h.Name, slices.Clone(h.Labels), h.Draining
	r.catalogs.HostKnown(known.place())
	if turned && known.live != nil {
		known.live.drainTurned()
	}
}

// place is called with Registry.mu held.
func (h *host) place() gateway.HostPlace {
	return gateway.HostPlace{
		HostID: h.ID, TargetRef: h.TargetRef, Labels: slices.Clone(h.Labels), Draining: h.drains(),
	}
}

// drains tells whether the host takes no new prompt, by an admin's wish or its own.
// It is called with Registry.mu held.
func (h *host) drains() bool { return h.Draining || h.live != nil && h.live.draining }

// find is called with mu held.
func (r *Registry) find(hostID string) *host {
	for _, h := range r.hosts {
		if h.ID == hostID {
			return h
		}
	}
	return nil
}

// reportAway starts to tell the ledger that a host is away. It is called with mu
// held while the host has no link.
func (r *Registry) reportAway(h *host, heard time.Time) {
	settled, burial := make(chan struct{}), r.burials[h.ID]
	h.settled = settled
	r.tasks.Go(func() {
		defer close(settled)
		if burial != nil {
			<-burial
		}
		runs, err := r.ledger.OpenRuns(r.work, h.ID)
		if err != nil {
			if r.work.Err() == nil {
				r.log.Error("hosts: the runs of an absent host are not known", "host", h.ID, "error", err)
			}
			return
		}
		for _, runID := range runs {
			r.ledger.Waiting(r.work, runID, reasonHostOffline, heard)
		}
	})
}
