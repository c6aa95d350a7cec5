package socket

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Protocol is the subprotocol that a client must offer.
const Protocol = "fairlead.client.v1"

// Chat is what sessions ask of the chat; *chat.Service is one. Errors are
// *wire.Error with codes of protocol.md §1; any other error is answered as
// internal and logged. Replies fit into a frame.
type Chat interface {
	Send(ctx context.Context, actor gateway.Actor, req gateway.SendRequest) (gateway.SendReply, error)
	Recall(ctx context.Context, actor gateway.Actor, req gateway.RecallRequest) (gateway.SendReply, error)
	Steer(ctx context.Context, actor gateway.Actor, req gateway.SteerRequest) (gateway.SendReply, error)
	Interrupt(ctx context.Context, actor gateway.Actor, req gateway.InterruptRequest) (gateway.SendReply, error)
	CreateThread(ctx context.Context, actor gateway.Actor, req gateway.CreateThreadRequest) (gateway.CreateThreadReply, error)
	RenameThread(ctx context.Context, actor gateway.Actor, req gateway.RenameThreadRequest) error
	DeleteThread(ctx context.Context, actor gateway.Actor, req gateway.DeleteThreadRequest) error
	MarkRead(ctx context.Context, actor gateway.Actor, req gateway.MarkReadRequest) error
	SetModel(ctx context.Context, actor gateway.Actor, req gateway.SetModelRequest) error
	List(ctx context.Context, actor gateway.Actor, req gateway.ListRequest) (gateway.ListReply, error)
	Follow(ctx context.Context, actor gateway.Actor, req gateway.FollowRequest) (gateway.FollowReply, error)
	// Open gives the state of a thread at one moment. Whatever is published on
	// the thread's topic after that moment continues it; whatever was published
	// before is in it.
	Open(ctx context.Context, actor gateway.Actor, req gateway.OpenRequest) (gateway.OpenReply, error)
	Turn(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) (gateway.Turn, error)
	Agents(ctx context.Context, actor gateway.Actor) (gateway.AgentsReply, error)
	Agent(ctx context.Context, actor gateway.Actor, req gateway.AgentRequest) (gateway.AgentReply, error)
	CreateAgent(ctx context.Context, actor gateway.Actor, req gateway.CreateAgentRequest) (gateway.AgentReply, error)
	UpdateAgent(ctx context.Context, actor gateway.Actor, req gateway.UpdateAgentRequest) (gateway.AgentReply, error)
	DeleteAgent(ctx context.Context, actor gateway.Actor, req gateway.AgentRequest) error
}

// Models lists what an account may use; gateway.Routes is one.
type Models interface {
	Models(ctx context.Context, actor gateway.Actor) ([]gateway.Model, error)
}

// Config is what a Server works with. Chat, Routes, Bus, Authenticate and
// Account are required.
type Config struct {
	Chat   Chat
	Routes Models
	Bus    gateway.Bus
	// Authenticate tells who a request comes from. It is the first thing that is
	// asked of a request (SQ12). Errors: unauthorized, forbidden.
	Authenticate func(*http.Request) (gateway.Actor, error)
	// AllowedOrigins are the origins, as scheme://host[:port], whose pages may use
	// a session cookie. A bearer token needs none.
	AllowedOrigins []string
	// CheckOrigin decides in place of AllowedOrigins if it is set.
	CheckOrigin func(r *http.Request) bool
	// Account gives the person behind an actor, for the welcome.
	Account func(ctx context.Context, actor gateway.Actor) (gateway.Account, error)
	// Touch is told, at most once an hour and session, that a credential was used,
	// so that a page that is never reloaded does not count as idle; nil is none.
	Touch func(ctx context.Context, credentialID string) error
	// OpenControl opens the hosts to a control plane that acts for an account;
	// without it ServeControl answers not_found.
	OpenControl func(accountID string, e gateway.ControlEvents) Control
	// Admin renders the dashboard; without it admin.follow is an unknown command.
	Admin AdminViews
	// Epoch changes when a log could have lost something (a restore): clients
	// that knew another one start anew.
	Epoch string
	// Now is the clock of what is told (serverTime) and of a credential's end;
	// nil is the system's.
	Now    func() time.Time
	Logger *slog.Logger
	Limits Limits
}

// Limits are the bounds of a session. A zero field takes the value named at it.
type Limits struct {
	// CommandsPerSecond is how many frames a client may send in the long run, and
	// twice that at once: 50.
	CommandsPerSecond int
	// InFlight is how many commands may wait for their reply: 32.
	InFlight int
	// ControlPerSecond is CommandsPerSecond of a control plane, whose cursors count
	// too: 500.
	ControlPerSecond int
	// ControlRuns is how many runs a control plane may have attached at once: 500.
	ControlRuns int
	// ControlRunBytes is how much more than QueueBytes may wait for each of them, up
	// to 32 MiB: 4 MiB, as much as a host sends ahead of a run's cursor (RH56).
	ControlRunBytes int
	// ControlLineBytes is how much of a control plane's frames may wait: 32 MiB.
	ControlLineBytes int
	// OpenThreads is how many threads a session may have open: 100.
	OpenThreads int
	// QueueBytes is how much may wait for a slow reader: 4 MiB.
	QueueBytes int
	// PingEvery is the time between two pings: 25 s. A peer of which nothing was
	// heard for two of them is dropped.
	PingEvery time.Duration
	// WriteTimeout is how long one write may take: 10 s.
	WriteTimeout time.Duration
	// CloseTimeout is how long a peer may take to answer a close: 2 s.
	CloseTimeout time.Duration
	// CommandTimeout is how long a command may take: 30 s.
	CommandTimeout time.Duration
	// RetryAfter is the least time after which clients return from a shutdown;
	// they are spread over twice that, or 10 ms for each of them: 1 s.
	RetryAfter time.Duration
	// AdminEvery is the least time between two renderings for a dashboard: 500 ms.
	AdminEvery time.Duration
	// AdminLook is how often a dashboard looks at what changes by time: 3 s.
	AdminLook time.Duration
}

func (l *Limits) fill() {
	count := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	span := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	count(&l.CommandsPerSecond, 50)
	count(&l.InFlight, 32)
	count(&l.ControlPerSecond, 500)
	count(&l.ControlRuns, 500)
	count(&l.ControlRunBytes, 4<<20)
	count(&l.ControlLineBytes, 32<<20)
	count(&l.OpenThreads, 100)
	count(&l.QueueBytes, 4<<20)
	span(&l.PingEvery, 25*time.Second)
	span(&l.WriteTimeout, 10*time.Second)
	span(&l.CloseTimeout, 2*time.Second)
	span(&l.CommandTimeout, 30*time.Second)
	span(&l.RetryAfter, time.Second)
	span(&l.AdminEvery, 500*time.Millisecond)
	span(&l.AdminLook, 3*time.Second)
}

// Server accepts sessions. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	log      *slog.Logger
	now      func() time.Time
	limits   Limits
	commands map[string]command

	// corks are the buffers of connections that are being written to.
	corks sync.Pool

	// life ends when a shutdown runs out of time: commands are given up then.
	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup // every goroutine of the server and its sessions

	// mu guards the rest.
	mu       sync.Mutex
	draining bool
	next     int
	buckets  [pingBuckets]map[*session]struct{}
	stopped  chan struct{} // closed by the first Shutdown

	opened, commandsRun, tooSlow atomic.Int64
	reads                        sync.Pool // of *bytes.Buffer, for frames
}

// New makes a server and starts its pinger; Shutdown ends both.
func New(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.CheckOrigin == nil {
		cfg.CheckOrigin = originList(cfg.AllowedOrigins)
	}
	cfg.Limits.fill()
	life, end := context.WithCancel(context.Background())
	s := &Server{
		cfg: cfg, log: cfg.Logger, now: cfg.Now, limits: cfg.Limits,
		life: life, end: end, stopped: make(chan struct{}),
	}
	s.corks.New = func() any { b := make([]byte, 0, corkBytes); return &b }
	s.commands = s.table()
	for i := range s.buckets {
		s.buckets[i] = make(map[*session]struct{})
	}
	s.wg.Go(s.pinger)
	return s
}

// Stats are figures of a server for metrics.
type Stats struct {
	// Sessions is how many are open now.
	Sessions int
	// Opened, Commands and TooSlow count since the start: sessions, commands that
	// ran, sessions closed because they read too slowly.
	Opened, Commands, TooSlow int64
}

// Stats gives the figures of this moment.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Opened: s.opened.Load(), Commands: s.commandsRun.Load(), TooSlow: s.tooSlow.Load()}
	for _, bucket := range s.buckets {
		st.Sessions += len(bucket)
	}
	return st
}

// Shutdown refuses new sessions and commands, lets the commands that were
// received end, tells every client when to return (goaway, then close code 1001)
// and waits until all goroutines of the server ended. When ctx ends before that,
// connections are cut and commands cancelled; it still waits, and gives ctx's
// error. A second call waits as well.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	first := !s.draining
	s.draining = true
	if first {
		close(s.stopped)
	}
	s.mu.Unlock()
	if first {
		open := s.sessions()
		for _, sess := range open {
			sess.leave(s.returnAfter(len(open)))
		}
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		s.end()
		for _, sess := range s.sessions() {
			sess.cut()
		}
		<-done
	}
	s.end()
	return err
}

// returnEach is the time that a shutdown leaves the next process for each client
// that returns, where there are many; maxReturn bounds it.
const (
	returnEach = 10 * time.Millisecond
	maxReturn  = 30 * time.Second
)

// returnAfter is when one of n clients shall return: not all in the same second
// (F12).
func (s *Server) returnAfter(n int) time.Duration {
	least := s.limits.RetryAfter
	spread := max(2*least, min(time.Duration(n)*returnEach, maxReturn))
	return least + rand.N(spread)
}

func (s *Server) sessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*session
	for _, bucket := range s.buckets {
		for sess := range bucket {
			list = append(list, sess)
		}
	}
	return list
}

// add takes a session in, queues its first frame and starts its reader; false
// means that the server is shutting down.
func (s *Server) add(sess *session, first []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	sess.bucket = s.next
	s.next = (s.next + 1) % pingBuckets
	s.buckets[sess.bucket][sess] = struct{}{}
	s.opened.Add(1)
	sess.push(first)
	s.wg.Go(sess.read)
	return true
}

func (s *Server) remove(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets[sess.bucket], sess)
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// pingBuckets is into how many parts the sessions are divided, one pinged after
// the other, so that a thousand sessions are not pinged at once.
const pingBuckets = 25

// pinger is the one ticker of all sessions.
func (s *Server) pinger() {
	tick := time.NewTicker(s.limits.PingEvery / pingBuckets)
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % pingBuckets {
		select {
		case <-s.stopped:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		list := make([]*session, 0, len(s.buckets[i]))
		for sess := range s.buckets[i] {
			list = append(list, sess)
		}
		s.mu.Unlock()
		for _, sess := range list {
			sess.beat()
		}
	}
}

func shuttingDown(after time.Duration) *wire.Error {
	e := wire.NewError(wire.CodeShuttingDown, "The server is restarting. Try again in a moment.")
	e.RetryAfter = after
	return e
}
