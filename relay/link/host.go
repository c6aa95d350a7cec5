package link

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// maxQueuedPerRun is how many messages of one run may wait for the run's worker.
// A gateway sends one command at a time, so more is misuse.
const maxQueuedPerRun = 256

// HostOptions are the settings of a host's end.
type HostOptions struct {
	// Logger gets what the other end is not told; nil discards it.
	Logger *slog.Logger
	// Silence is how long the gateway may be silent; 0 is MaxSilence. It is at least two
	// of the heartbeats that the gateway wishes.
	Silence time.Duration
	// Linked is told that the gateway welcomed the host; nil is told nothing.
	Linked func(wire.Welcome)
	// Revoked is told that the gateway does not know this host any longer; Goaway
	// that the link will end and after how long to return. Both may be nil, run in the
	// link's reader and must not block.
	Revoked func(reason string)
	Goaway  func(after time.Duration)
}

// ServeHost serves host over conn until ctx ends or the link does. It says hello,
// waits for the welcome, and then applies what the gateway asks: see the package
// comment for order and goroutines. It closes conn and every attachment.
//
// The error is nil when ctx ended (the gateway was told that the host goes
// offline), ErrClosed, an *EndedError or the transport's error when the link was
// lost, ErrSilent, a *RevokedError, or a *ProtocolError, which names a version gap.
func ServeHost(ctx context.Context, conn Conn, host Host, o HostOptions) (err error) {
	defer func() { _ = conn.Close(endingFor(err)) }()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &hostLink{
		peer: newPeer(conn, o.Silence), host: host, log: o.Logger, told: o,
		runs: map[string]*hostRun{}, changed: make(chan struct{}, 1),
	}
	welcome, err := s.handshake(ctx)
	if err != nil {
		return err
	}
	if o.Linked != nil {
		o.Linked(welcome)
	}
	work, stop := context.WithCancelCause(ctx)
	s.capabilities, s.stop = welcome.Capabilities, exceptClosed(stop)
	every := time.Duration(welcome.HeartbeatMs) * time.Millisecond
	s.silence = max(s.silence, 2*every) // the gateway says how seldom it speaks
	s.goroutines.Go(func() { s.stop(s.beat(work, every)) })
	s.goroutines.Go(func() { s.publish(work) })
	stop(s.read(work))
	s.goroutines.Wait()
	if ctx.Err() != nil {
		s.farewell(ctx)
		return nil
	}
	return context.Cause(work)
}

// hostLink is one served link.
type hostLink struct {
	*peer
	host         Host
	log          *slog.Logger
	told         HostOptions
	capabilities []string
	stop         context.CancelCauseFunc
	goroutines   sync.WaitGroup

	// changed is signalled when there may be a room or a catalog to publish.
	changed chan struct{}

	// mu guards what follows; it is held for map and slice operations alone.
	mu    sync.Mutex
	runs  map[string]*hostRun
	asked []string // challenges of catalog requests not yet answered
}

func (s *hostLink) handshake(ctx context.Context) (wire.Welcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, misuse("no welcome within %s", handshakeTimeout))
	defer cancel()
	hello := s.host.Hello()
	if err := s.send(ctx, hello); err != nil {
		return wire.Welcome{}, err
	}
	m, err := s.receive(ctx)
	if err != nil {
		return wire.Welcome{}, err
	}
	welcome, ok := m.(wire.Welcome)
	switch {
	case !ok:
		return wire.Welcome{}, misuse("%T in place of the welcome", m)
	case !slices.Contains(hello.Protocols, welcome.Protocol):
		return wire.Welcome{}, skew(hello.Protocols, welcome.Protocol)
	case welcome.HeartbeatMs <= 0 || welcome.HeartbeatMs > maxHeartbeat.Milliseconds():
		return wire.Welcome{}, misuse("a heartbeat of %d ms", welcome.HeartbeatMs)
	}
	return welcome, nil
}

// farewell is best effort: a gateway that misses it sees the link end.
func (s *hostLink) farewell(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
	defer cancel()
	if err := s.send(bounded, wire.Offline{Reason: "shutting_down"}); err != nil {
		s.log.Debug("link: the gateway was not told that this host leaves", "error", err)
	}
}

// read hands the gateway's messages out until the link ends. It never waits for
// a run.
func (s *hostLink) read(ctx context.Context) error {
	for {
		m, err := s.receive(ctx)
		if err != nil {
			return err
		}
		if err := s.take(ctx, m); err != nil {
			return err
		}
	}
}

func (s *hostLink) take(ctx context.Context, m wire.LinkMessage) error {
	switch m := m.(type) {
	case wire.Attach:
		return s.put(ctx, m.RunID, m)
	case wire.CommandMessage:
		return s.put(ctx, m.RunID, m)
	case wire.CursorMessage:
		return s.put(ctx, m.RunID, m)
	case wire.Detach:
		return s.put(ctx, m.RunID, m)
	case wire.Steer:
		if !slices.Contains(s.capabilities, wire.CapabilitySteer) {
			return misuse("a steer on a link without steers")
		}
		return s.put(ctx, m.RunID, m)
	case wire.CatalogRequest:
		s.mu.Lock()
		s.asked = append(s.asked, m.Challenge)
		s.mu.Unlock()
		signal(s.changed)
		return nil
	case wire.Heartbeat:
		return nil
	}
	return s.takeOrder(m)
}

// takeOrder takes what the gateway says to the whole host.
func (s *hostLink) takeOrder(m wire.LinkMessage) error {
	switch m := m.(type) {
	case wire.Drain:
		s.host.Drain(m.Reason, m.Resume)
		signal(s.changed)
		return nil
	case wire.Goaway:
		s.log.Info("link: the gateway will end the link", "reason", shown(m.Reason), "retryAfterMs", m.RetryAfterMs)
		if s.told.Goaway != nil {
			s.told.Goaway(time.Duration(min(m.RetryAfterMs, maxRetryAfter.Milliseconds())) * time.Millisecond)
		}
		return nil
	case wire.Revoked:
		if s.told.Revoked != nil {
			s.told.Revoked(m.Reason)
		}
		return &RevokedError{Reason: m.Reason}
	}
	return misuse("a host cannot take a %T", m)
}

// put queues a message for the run's worker, and starts one if there is none.
func (s *hostLink) put(ctx context.Context, runID string, m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[runID]
	if r == nil {
		r = &hostRun{link: s, id: runID, wake: make(chan struct{}, 1)}
		s.runs[runID] = r
		s.goroutines.Go(func() { r.serve(ctx) })
	}
	if len(r.queue) >= maxQueuedPerRun {
		return misuse("run %s has more than %d messages waiting", runID, maxQueuedPerRun)
	}
	r.enqueue(m)
	return nil
}

// publish pushes Room when it changed, says when the host begins to drain and when it
// does so for another reason (what its gateway asked for may be taken back), answers
// catalog requests, and repeats the catalog under its last challenge when it is no
// longer what was sent.
func (s *hostLink) publish(ctx context.Context) {
	defer s.host.Watch(func() { signal(s.changed) })()
	var room *wire.Room
	var said string // why it drains
	var catalog *wire.CatalogMessage
	for {
		if now := s.host.Room(); room == nil || *room != now {
			if s.send(ctx, now) != nil {
				return
			}
			room = &now
		}
		reason, draining := s.host.Draining()
		if draining && reason != said && s.send(ctx, wire.Draining{Reason: reason}) != nil {
			return
		}
		said = reason
		if !s.publishCatalog(ctx, &catalog) {
			return
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return
		}
	}
}

// publishCatalog keeps what was sent last in sent; false means that the link is
// gone.
func (s *hostLink) publishCatalog(ctx context.Context, sent **wire.CatalogMessage) bool {
	for _, challenge := range s.takeAsked() {
		m := s.catalog(ctx, challenge)
		if s.send(ctx, m) != nil {
			return false
		}
		*sent = &m
	}
	if *sent == nil {
		return true
	}
	m := s.catalog(ctx, (*sent).Challenge)
	if reflect.DeepEqual(m, **sent) {
		return true
	}
	*sent = &m
	return s.send(ctx, m) == nil
}

func (s *hostLink) takeAsked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *hostLink) catalog(ctx context.Context, challenge string) wire.CatalogMessage {
	m, err := s.host.Catalog(ctx, challenge)
	m.Challenge = challenge
	if err != nil {
		m.Error = wire.AsError(err).Body()
	}
	return m
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
