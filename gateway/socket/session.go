package socket

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/fairlead/fairlead/gateway"
)

// session is one connection.
type session struct {
	srv    *Server
	id     string
	actor  gateway.Actor
	ws     *websocket.Conn
	conn   *conn
	log    *slog.Logger
	bucket int // guarded by Server.mu

	// control is what a control plane's session has more, nil for any other;
	// frameBytes bounds a frame in both directions. Both are set before it runs.
	control    *control
	frameBytes int64

	// The reader's.
	allowed *rate.Limiter // frames
	refused *rate.Limiter // refusals until the client is cut
	// The pinger's: how many beats in a row nothing was heard.
	silent int

	// The worker's: when Touch was last told of the credential, and when the
	// command that runs now was read.
	touched, received time.Time

	line line  // commands for the worker
	out  queue // bytes for the writer

	// mu guards the rest.
	mu      sync.Mutex
	threads map[string]*threadSub
	feed    *feedSub
	follow  *adminFollow
	leaving bool        // no command is taken any more
	cancels []func()    // the subscription of the credential
	expiry  *time.Timer // nil without an end
}

func newSession(srv *Server, ws *websocket.Conn, c *conn, actor gateway.Actor) *session {
	perSecond := srv.limits.CommandsPerSecond
	s := &session{
		srv: srv, id: newConnectionID(), actor: actor, ws: ws, conn: c,
		allowed: rate.NewLimiter(rate.Limit(perSecond), 2*perSecond),
		refused: rate.NewLimiter(1, maxRefusals),
		threads: make(map[string]*threadSub), touched: srv.now(), frameBytes: gateway.MaxFrameBytes,
	}
	s.log = srv.log.With("connection", s.id, "account", actor.AccountID)
	s.out.limit = srv.limits.QueueBytes
	return s
}

// push queues a frame. It never blocks. A frame that finds the queue full ends
// the session instead, and so does one that is larger than a frame may be: the
// client comes back and reads from the log, in pages, what it stands for.
func (s *session) push(frame []byte) {
	if len(frame) == 0 {
		return
	}
	if int64(len(frame)) > s.frameBytes {
		s.log.Error("socket: a push does not fit into a frame", "bytes", len(frame))
		s.close(closeTooSlow)
		return
	}
	start, full := s.out.put(frame)
	if full {
		s.srv.tooSlow.Add(1)
		s.close(closeTooSlow)
	}
	if start {
		s.srv.wg.Go(s.write)
	}
}

// watchCredential ends the session with its credential: at its time, or when it
// is told that it ended before.
func (s *session) watchCredential() {
	end := func() { s.close(closeCredential) }
	var expiry *time.Timer
	if !s.actor.ExpiresAt.IsZero() {
		expiry = time.AfterFunc(max(0, s.actor.ExpiresAt.Sub(s.srv.now())), end)
	}
	topic := gateway.CredentialTopic(s.actor.CredentialID)
	cancel := s.srv.cfg.Bus.Subscribe(topic, func(gateway.Push) { end() })

	s.mu.Lock()
	released := s.threads == nil
	if !released {
		s.expiry, s.cancels = expiry, append(s.cancels, cancel)
	}
	s.mu.Unlock()
	if released {
		cancel()
		if expiry != nil {
			expiry.Stop()
		}
	}
}

// beat is the pinger's visit: it drops a peer that is silent for too long and
// pings any other.
func (s *session) beat() {
	if s.conn.heard.Swap(false) {
		s.silent = 0
	} else {
		s.silent++
	}
	if s.silent > 2 {
		s.cut()
		return
	}
	if s.out.ping() {
		s.srv.wg.Go(s.write)
	}
}

// leave takes no further command, tells the client when to return, and closes
// once the commands that were received are answered.
func (s *session) leave(after time.Duration) {
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	s.push(encode(goaway{Type: "goaway", Reason: "shutting_down", RetryAfterMs: after.Milliseconds()}))
	s.do(func(context.Context) { s.close(closeGoing) })
}

type goaway struct {
	Type         string `json:"type"`
	Reason       string `json:"reason"`
	RetryAfterMs int64  `json:"retryAfterMs"`
}

func (s *session) isLeaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving
}

// cut ends the connection without a word.
func (s *session) cut() {
	s.out.kill()
	_ = s.conn.Close() // the reader finds out
}

// release ends all subscriptions. No worker runs any more.
func (s *session) release() {
	s.mu.Lock()
	subs, feed, follow, cancels := s.threads, s.feed, s.follow, s.cancels
	s.threads, s.feed, s.follow, s.cancels = nil, nil, nil, nil
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.mu.Unlock()
	for _, sub := range subs {
		sub.cancel()
	}
	if feed != nil {
		feed.cancel()
	}
	if follow != nil {
		follow.stop()
	}
	if s.control != nil {
		s.control.hosts.Close()
	}
	for _, cancel := range cancels {
		cancel()
	}
}

// line is the commands that wait, and whether a worker takes them.
type line struct {
	mu      sync.Mutex
	waiting []func(context.Context)
	working bool // there is a worker
	running bool // and it runs a command, which waits no more
	closed  bool
	idle    chan struct{} // closed when the worker of a closed line ended
}

// do puts work into the session's line and starts its worker if there is none.
// After the line was closed the work is dropped.
func (s *session) do(work func(context.Context)) {
	l := &s.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.waiting = append(l.waiting, work)
	if !l.working {
		l.working = true
		s.srv.wg.Go(s.work)
	}
}

// work is the worker.
func (s *session) work() {
	l := &s.line
	for {
		l.mu.Lock()
		l.running = len(l.waiting) > 0
		if !l.running {
			l.working, l.waiting = false, nil
			if l.closed {
				close(l.idle)
			}
			l.mu.Unlock()
			return
		}
		next := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		s.run(next)
	}
}

func (s *session) run(work func(context.Context)) {
	ctx, cancel := context.WithTimeout(s.srv.life, s.srv.limits.CommandTimeout)
	defer cancel()
	work(ctx)
}

// close ends the line and waits until what it holds has run.
func (l *line) close() {
	l.mu.Lock()
	l.closed = true
	if !l.working {
		l.mu.Unlock()
		return
	}
	l.idle = make(chan struct{})
	l.mu.Unlock()
	<-l.idle
}

// length is how many commands wait or run.
func (l *line) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waiting)
	if l.running {
		n++
	}
	return n
}

// encode makes the bytes of a frame. What it is given always encodes; HTML is
// left as it is, so that a frame is not six times its text.
func encode(v any) []byte {
	var b frameBuffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil
	}
	return b.bytes()
}

// frameBuffer takes an encoder's one write without its line feed.
type frameBuffer struct{ raw []byte }

func (b *frameBuffer) Write(p []byte) (int, error) {
	b.raw = append(b.raw, p...)
	return len(p), nil
}

func (b *frameBuffer) bytes() []byte {
	if n := len(b.raw); n > 0 && b.raw[n-1] == '\n' {
		return b.raw[:n-1]
	}
	return b.raw
}
