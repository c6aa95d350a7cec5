package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// writeTimeout is how long the other end may take nothing.
	writeTimeout = 30 * time.Second
	// closeTimeout is how long closing may take: the write in progress, the close
	// frame, and the other end's.
	closeTimeout = 2 * time.Second
	// maxCloseReason is what a close frame holds.
	maxCloseReason = 123
)

// ErrStuck is why a link ended whose other end took nothing any more.
var ErrStuck = errors.New("link: the other end takes nothing")

// socket is a Conn over a WebSocket. One goroutine reads, from the start until the
// connection has ended, and hands over one message at a time: while nobody receives,
// one frame waits here and the rest with the sender.
type socket struct {
	ws   *websocket.Conn
	raw  *guard
	in   chan wire.LinkMessage
	once sync.Once
	// closing is closed when Close begins; done when the reader has ended, which sets
	// fault before.
	closing chan struct{}
	done    chan struct{}
	fault   error
}

func newSocket(ws *websocket.Conn, raw *guard) *socket {
	ws.SetReadLimit(-1) // the reader counts, so that the code is this protocol's
	s := &socket{
		ws: ws, raw: raw, in: make(chan wire.LinkMessage),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	go func() { // Close waits for it
		defer close(s.done)
		s.fault = s.read()
	}()
	return s
}

// read gives why nothing comes any more. Once this end closes it reads on without
// looking, until the other end's close frame has come.
func (s *socket) read() error {
	for {
		m, err := s.next()
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		select {
		case s.in <- m:
		case <-s.closing:
		}
	}
}

func (s *socket) next() (wire.LinkMessage, error) {
	kind, r, err := s.ws.Reader(context.Background())
	if err != nil {
		return nil, s.lost(err)
	}
	if s.closed() {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return nil, ErrClosed
		}
		return nil, nil
	}
	frame, err := io.ReadAll(io.LimitReader(r, wire.MaxLinkFrame+1))
	switch {
	case err != nil:
		return nil, s.lost(err)
	case len(frame) > wire.MaxLinkFrame:
		return nil, &ProtocolError{What: fmt.Sprintf("a frame of more than %d bytes", wire.MaxLinkFrame), code: CloseTooLarge}
	case kind != websocket.MessageText:
		return nil, misuse("a frame that is not text")
	}
	m, err := wire.DecodeLink(frame)
	if err != nil {
		return nil, misuse("a malformed frame: %s", wire.AsError(err).Message)
	}
	return m, nil
}

// lost says why reading or writing failed.
func (s *socket) lost(err error) error {
	var ended websocket.CloseError
	switch {
	case s.closed():
		return ErrClosed
	case errors.As(err, &ended) && ended.Code == websocket.StatusNoStatusRcvd:
		return ErrClosed
	case errors.As(err, &ended) && !(Ending{Code: int(ended.Code)}).normal():
		return &EndedError{Ending{Code: int(ended.Code), Reason: ended.Reason}}
	case errors.As(err, &ended):
		return ErrClosed
	case s.raw.stuck.Load():
		return ErrStuck
	}
	return fmt.Errorf("link: connection lost: %w", err)
}

// moved tells when bytes last came and went: a large frame takes its time on a slow
// line, and no message comes or goes beside it.
func (s *socket) moved() (came, went time.Time) {
	return s.raw.came.get(), s.raw.went.get()
}

func (s *socket) closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// over is why nothing can be sent, nil while that is not known.
func (s *socket) over() error {
	if s.closed() {
		return ErrClosed
	}
	select {
	case <-s.done:
		return s.fault
	default:
		return nil
	}
}

// Send writes one frame. A frame that is half written cannot be taken back, so when
// ctx ends meanwhile, it gets a moment more before the connection is ended.
func (s *socket) Send(ctx context.Context, m wire.LinkMessage) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := s.over(); err != nil {
		return err
	}
	frame, err := wire.EncodeLink(m)
	if err != nil {
		return err
	}
	defer s.hurry(ctx)()
	if err := s.ws.Write(context.Background(), websocket.MessageText, frame); err != nil {
		return s.unsent(ctx, err)
	}
	return nil
}

// hurry ends the connection a moment after ctx has ended, unless done is called.
func (s *socket) hurry(ctx context.Context) (done func()) {
	written := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		moment := time.NewTimer(closeTimeout)
		defer moment.Stop()
		select {
		case <-written:
		case <-moment.C:
			_ = s.raw.Close() // the write then fails
		}
	})
	return func() {
		stop()
		close(written)
	}
}

// unsent says why a write failed: if the other end closed, what it said counts, and
// that the reader learns.
func (s *socket) unsent(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if s.raw.stuck.Load() {
		return ErrStuck
	}
	moment := time.NewTimer(closeTimeout)
	defer moment.Stop()
	select {
	case <-s.done:
		return s.fault
	case <-s.closing:
		return ErrClosed
	case <-moment.C:
		return s.lost(err)
	}
}

func (s *socket) Receive(ctx context.Context) (wire.LinkMessage, error) {
	if s.closed() {
		return nil, ErrClosed
	}
	select {
	case m := <-s.in:
		return m, nil
	case <-s.closing:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.done:
		return nil, s.fault
	}
}

// Close writes the close frame, waits a moment for the other end's, and ends the
// reader.
func (s *socket) Close(e Ending) error {
	s.once.Do(func() {
		close(s.closing)
		late := time.AfterFunc(closeTimeout, func() { _ = s.raw.Close() })
		defer late.Stop()
		if e.Code == 0 {
			e.Code = CloseNormal
		}
		_ = s.ws.Close(websocket.StatusCode(e.Code), closeReason(e.Reason)) // the other end may be gone
		_ = s.raw.Close()
		<-s.done
	})
	return nil
}

// closeReason is a reason as it fits a close frame.
func closeReason(reason string) string {
	reason = shown(reason)
	if len(reason) <= maxCloseReason {
		return reason
	}
	end := maxCloseReason
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}
