package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Splitter renders the Markdown blocks of a growing answer. Append gives those
// that its text finished; a Splitter belongs to one turn.
type Splitter interface {
	Append(text string) []gateway.Block
}

// Config is what a Service works with. Store, Routes and Bus are required.
type Config struct {
	Store  gateway.ChatStore
	Routes gateway.Routes
	Bus    gateway.Bus
	// PublicURL is the site's own address, without a slash at its end, for links in
	// what is stored for senders whose request named no other (AD6).
	PublicURL string
	// Dispatcher is told which runs have work; SetDispatcher may give it later.
	Dispatcher gateway.Dispatcher
	// Render makes sanitised HTML of Markdown; without it there is no HTML.
	Render func(markdown string) string
	// NewSplitter makes the splitter of one turn; without it there are no blocks.
	NewSplitter func() Splitter
	// Now is the clock of everything that is stored; nil is the system's.
	Now    func() time.Time
	Logger *slog.Logger
	Limits Limits
	// Prices gives the prices of a metered route by the key of its provider and its
	// model; what it does not know costs the least there is. Nil knows none.
	Prices func(provider, model string) (gateway.Prices, bool)
	// Metrics gets the chat's counters; nil for none.
	Metrics prometheus.Registerer
	// Tracer gets the chat's spans; nil for none.
	Tracer trace.Tracer
}

// Limits are the bounds of the chat. A zero field takes the default named at it.
type Limits struct {
	// QueuedPerThread is how many messages may wait in a thread: 50.
	QueuedPerThread int
	// OrgConcurrentTurns is how many turns an org may run at once where its own
	// limit does not say; 0 is any number.
	OrgConcurrentTurns int
	// MemberConcurrentTurns is the same for each member.
	MemberConcurrentTurns int
	// PendingTimeout is how long a turn waits for its host, from when the turn could
	// go to it or the host left, whichever is later: 10 minutes.
	PendingTimeout time.Duration
	// CancelRecovery is how long a cancelled turn holds its thread closed while
	// its host does not tell its end: 120 s.
	CancelRecovery time.Duration
	// HostSilence is how long a running turn survives without its host: 180 s.
	HostSilence time.Duration
	// TurnDeadline is how long a turn may run: 2 h (decisions §2.11).
	TurnDeadline time.Duration
	// DeadlineWarning is when a running turn is told that its time runs out: after
	// 115 of 120 parts of TurnDeadline (115 min of 2 h). Below zero it never is.
	DeadlineWarning time.Duration
	// RouteGrace is how long after Start a waiting message is kept waiting when no
	// route serves it, since hosts and their catalogs are still coming: 30 s.
	RouteGrace time.Duration
	// SweepEvery is the time between two sweeps: 2 s.
	SweepEvery time.Duration
}

func (l *Limits) fill() {
	if l.QueuedPerThread <= 0 {
		l.QueuedPerThread = gateway.MaxQueuedPerThread
	}
	fill := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	fill(&l.PendingTimeout, 10*time.Minute)
	fill(&l.CancelRecovery, 120*time.Second)
	fill(&l.HostSilence, 180*time.Second)
	fill(&l.TurnDeadline, 2*time.Hour)
	if l.DeadlineWarning == 0 {
		l.DeadlineWarning = l.TurnDeadline / 120 * 115
	}
	fill(&l.RouteGrace, 30*time.Second)
	fill(&l.SweepEvery, 2*time.Second)
}

// Service is the chat. Its methods are safe for concurrent use; those that take
// an Actor see only what is that account's: everything else is not_found, as if
// it did not exist.
type Service struct {
	store       gateway.ChatStore
	routes      gateway.Routes
	bus         *posts
	publicURL   string
	dispatcher  gateway.Dispatcher
	newSplitter func() Splitter
	now         func() time.Time
	log         *slog.Logger
	limits      Limits
	prices      func(provider, model string) (gateway.Prices, bool)
	metrics     *metrics
	telemetry   *telemetry

	html    *htmlCache
	lives   *registry
	waiting *orgWaits
	pipes   *pipes
	admin   *adminHints

	// doubt is set while memory may be behind the store; see refresh.
	doubt      atomic.Bool
	refreshing sync.Mutex

	// resting is set for good by Rest.
	resting atomic.Bool
	// started is when Start was called; it is written before any goroutine starts.
	started time.Time
	// life ends with Stop; work started by the service itself runs under it.
	life context.Context
	end  context.CancelFunc
	// mu guards stopped: no goroutine is started after it is set.
	mu      sync.Mutex
	stopped bool
	wg      sync.WaitGroup
}

var _ gateway.Ledger = (*Service)(nil)

// New makes a service. It may be called at once; turns of an earlier process are
// known to it after Start.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Limits.fill()
	life, end := context.WithCancel(context.Background())
	s := &Service{
		store: c.Store, routes: c.Routes, publicURL: c.PublicURL, dispatcher: c.Dispatcher,
		newSplitter: c.NewSplitter, now: c.Now, log: c.Logger, limits: c.Limits, prices: c.Prices,
		html: newHTMLCache(c.Render), lives: newRegistry(), waiting: newOrgWaits(), life: life, end: end,
	}
	s.metrics, s.telemetry = newMetrics(c.Metrics, c.Store, c.Now, c.Logger), newTelemetry(c.Tracer, c.Now)
	s.bus = newPosts(c.Bus, s.spawn, c.Logger)
	s.pipes = newPipes(s)
	s.admin = newAdminHints(s)
	return s
}

// SetDispatcher gives the hosts, which need the service as their ledger first.
// It must be called before Start.
func (s *Service) SetDispatcher(d gateway.Dispatcher) { s.dispatcher = d }

// Start takes up what an earlier process left: it loads the turns in progress,
// starts the turns of idle threads in which something waits, and begins to sweep.
func (s *Service) Start(ctx context.Context) error {
	s.started = s.now()
	if err := s.load(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.promoteAll(ctx), s.drainIdle(ctx)); err != nil {
		return err
	}
	s.spawn(func(ctx context.Context) {
		tick := time.NewTicker(s.limits.SweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("sweep of the chat failed", "error", err)
			}
		}
	})
	return nil
}

// Rest starts no turn any more: what is sent from now on is taken, waits in its
// thread or its org, and is started by the next process (F12). Turns that were made
// before go on. A claim that is on its way while Rest is called may still succeed.
func (s *Service) Rest() { s.resting.Store(true) }

// Stop ends the service's goroutines and waits for them. Envelopes that are
// taken in but not stored yet are stored first, as far as the store answers.
func (s *Service) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
	s.admin.stop()
}

// spawn runs fn in a goroutine that Stop waits for; after Stop it does nothing
// and says so.
func (s *Service) spawn(fn func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		fn(s.life)
	}()
	return true
}

// millis is the present moment as it is stored.
func (s *Service) millis() int64 { return s.now().UnixMilli() }

// newID makes the id of a thread, a turn or an event.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// errNotFound is the one answer for what does not exist and for what is not the
// caller's.
func errNotFound() error {
	return wire.NewError(wire.CodeNotFound, "There is no such thing, or it is not yours.")
}

// missing turns a look-up that found nothing into errNotFound.
func missing(err error) error {
	if errors.Is(err, gateway.ErrNoRow) {
		return errNotFound()
	}
	return err
}

// ownThread reads a thread that is the actor's and not deleted.
func ownThread(ctx context.Context, tx gateway.ChatTx, actor gateway.Actor, threadID string) (gateway.ThreadRow, error) {
	th, err := tx.Thread(ctx, threadID)
	if err != nil {
		return th, missing(err)
	}
	if th.AccountID != actor.AccountID || th.OrgID != actor.OrgID || th.DeletedAt != 0 {
		return gateway.ThreadRow{}, errNotFound()
	}
	return th, nil
}
