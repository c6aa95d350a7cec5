package hosts

import (
	"context"
	"errors"
	"log/slog"
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
	ErrSuperseded  = errors.New("hosts: a newer link of this host took over")
	ErrClosed      = errors.New("hosts: shutting down")
)

// Catalogs is told what hosts publish; gateway/routes implements it. Its methods
// must not block.
type Catalogs interface {
	HostOnline(hostID string, capabilities []string)
	HostOffline(hostID string)
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
}

// Host is a relay host that this gateway knows.
type Host struct {
	ID        string
	TargetRef string
	Embedded  bool
}

// Registry holds the known hosts and their links.
type Registry struct {
	ledger       gateway.Ledger
	catalogs     Catalogs
	log          *slog.Logger
	now          func() time.Time
	routeMaxWait time.Duration

	// work ends with Close; tasks are the goroutines that Wake and Register start.
	work  context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup

	// mu guards what follows and the state of every host; it is held for map and
	// slice operations alone.
	mu     sync.Mutex
	closed bool
	hosts  []*host
	// routing holds the runs whose host is being looked for; true means that the
	// run was woken again meanwhile.
	routing map[string]bool
}

// host is a known host. All fields but Host are guarded by Registry.mu.
type host struct {
	Host
	live *session // nil while the host is not linked
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
	if o.Catalogs == nil {
		o.Catalogs = noCatalogs{}
	}
	r := &Registry{
		ledger: o.Ledger, catalogs: o.Catalogs, log: o.Logger, now: o.Now, routeMaxWait: o.RouteMaxWait,
		routing: map[string]bool{},
	}
	r.work, r.stop = context.WithCancel(context.Background())
	return r
}

type noCatalogs struct{}

func (noCatalogs) HostOnline(string, []string)             {}
func (noCatalogs) HostOffline(string)                      {}
func (noCatalogs) HostCatalog(string, wire.CatalogMessage) {}

// Register makes a host known, and tells the ledger that its open runs wait for
// it until it links. A host that is known already is left as it is.
func (r *Registry) Register(h Host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.find(h.ID) != nil {
		return
	}
	known := &host{Host: h}
	r.hosts = append(r.hosts, known)
	r.reportAway(known, time.Time{})
}

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
	settled := make(chan struct{})
	h.settled = settled
	r.tasks.Go(func() {
		defer close(settled)
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

// Serve drives the runs of a registered host over conn until ctx or the link ends,
// and closes conn. The error says why it ended and is never nil: ErrUnknownHost,
// ErrSuperseded, ErrClosed, ctx's cause, or an error of package link.
func (r *Registry) Serve(ctx context.Context, hostID string, conn link.Conn) error {
	opened, err := link.Open(ctx, conn, link.SessionOptions{Capabilities: capabilities()})
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	if got := opened.Hello().HostID; got != hostID {
		return &link.ProtocolError{What: "the host says that it is another one: " + got}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.work, func() { cancel(ErrClosed) })()
	s, err := r.takeOver(ctx, cancel, hostID, opened)
	if err != nil {
		return err
	}
	return s.serve(ctx)
}

// capabilities are those that this gateway takes up.
func capabilities() []string {
	return []string{
		wire.CapabilityContinueFrom, wire.CapabilityTurnContext, wire.CapabilityReasoning, wire.CapabilityOutcome,
		wire.CapabilitySteer,
	}
}

// takeOver makes opened the link of its host, once an older one has ended and the
// ledger knows about it.
func (r *Registry) takeOver(ctx context.Context, cancel context.CancelCauseFunc, hostID string, opened *link.Session) (*session, error) {
	for {
		r.mu.Lock()
		h := r.find(hostID)
		if h == nil || r.closed {
			r.mu.Unlock()
			if h == nil {
				return nil, ErrUnknownHost
			}
			return nil, ErrClosed
		}
		older, settled := h.live, h.settled
		if older == nil && closed(settled) {
			s := newSession(ctx, r, h, cancel, opened)
			h.live = s
			r.mu.Unlock()
			return s, nil
		}
		r.mu.Unlock()
		wait := settled
		if older != nil {
			older.cancel(ErrSuperseded)
			wait = older.ended
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Wake tells that Work of the run may have changed. It never blocks. A run whose
// host is away is driven when the host links again.
func (r *Registry) Wake(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	for _, h := range r.hosts {
		if h.live != nil && h.live.wake(runID) {
			return
		}
	}
	if len(r.hosts) == 1 && r.hosts[0].live != nil {
		r.hosts[0].live.drive(runID, false)
		return
	}
	if _, busy := r.routing[runID]; busy {
		r.routing[runID] = true
		return
	}
	r.routing[runID] = false
	r.tasks.Go(func() { r.route(runID) })
}

// route finds the host of a run that has no driver, and tells the ledger when it
// is away.
func (r *Registry) route(runID string) {
	var pause backoff
	for {
		away, err := r.routeOnce(runID)
		for err != nil && sleep(r.work, pause.next()) {
			away, err = r.routeOnce(runID)
		}
		if away {
			r.ledger.Waiting(r.work, runID, reasonHostOffline, time.Time{})
		}
		r.mu.Lock()
		again := r.routing[runID] && !r.closed
		r.routing[runID] = false
		if !again {
			delete(r.routing, runID)
			r.mu.Unlock()
			break
		}
		r.mu.Unlock()
	}
	// A host that linked meanwhile has its runs driven; the driver takes back what
	// was just said.
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hosts {
		if h.live != nil {
			h.live.remind(runID)
		}
	}
}

// routeOnce does not ask for work while no host is linked: work that was asked for
// counts as sent.
func (r *Registry) routeOnce(runID string) (away bool, err error) {
	if !r.anyLinked() {
		return true, nil
	}
	work, err := r.ledger.Work(r.work, runID)
	switch {
	case wire.CodeOf(err) == wire.CodeNotFound || r.work.Err() != nil:
		return false, nil
	case err != nil:
		r.log.Error("hosts: the work of a run is not known", "run", runID, "error", err)
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.find(work.HostID)
	if h != nil && h.live != nil {
		h.live.drive(runID, false)
		return false, nil
	}
	return !work.Idle, nil
}

func (r *Registry) anyLinked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hosts {
		if h.live != nil {
			return true
		}
	}
	return false
}

// Close ends every link and waits for every goroutine that the registry started.
// Callers of Serve are waited for as well, up to their return to the caller.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	var ends []<-chan struct{}
	for _, h := range r.hosts {
		if h.live != nil {
			ends = append(ends, h.live.ended)
		}
	}
	r.mu.Unlock()
	r.stop()
	for _, ended := range ends {
		<-ended
	}
	r.tasks.Wait()
}
