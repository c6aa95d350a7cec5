package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Times of a link.
const (
	// HeartbeatEvery is how often each end says that it is there.
	HeartbeatEvery = 25 * time.Second
	// MaxSilence is how long an end may be silent before the other gives it up.
	MaxSilence = 90 * time.Second

	handshakeTimeout = 10 * time.Second
	farewellTimeout  = 2 * time.Second
	// maxHeartbeat and maxRetryAfter bound what a gateway may ask for.
	maxHeartbeat  = time.Hour
	maxRetryAfter = time.Hour
)

// ErrSilent is why a link ended whose other end said nothing for too long.
var ErrSilent = errors.New("link: the other end is silent")

// ProtocolError is a fault of the other end that ends the link.
type ProtocolError struct {
	What string
	code int // to close with; 0 is CloseProtocol
}

func (e *ProtocolError) Error() string { return "link: " + e.What }

func misuse(format string, args ...any) error {
	return &ProtocolError{What: fmt.Sprintf(format, args...)}
}

// skew names both sides of a version gap.
func skew(offered []string, taken string) error {
	return misuse("no common protocol: the host speaks %s, the gateway %s", strings.Join(offered, ", "), taken)
}

// peer is what both ends do alike.
type peer struct {
	conn Conn
	// turn holds one token: the right to send. A channel, so that waiting for it
	// ends with the context.
	turn chan struct{}
	// heard is when the last message came.
	heard   instant
	silence time.Duration
	clock   clock
	// asked is signalled when the other end waits for its first echo.
	asked chan struct{}
}

// newPeer takes 0 for MaxSilence.
func newPeer(conn Conn, silence time.Duration) *peer {
	if silence == 0 {
		silence = MaxSilence
	}
	p := &peer{conn: conn, turn: make(chan struct{}, 1), silence: silence, asked: make(chan struct{}, 1)}
	p.heard.set(time.Now())
	return p
}

func (p *peer) send(ctx context.Context, m wire.LinkMessage) error {
	return p.sendMade(ctx, func() wire.LinkMessage { return m })
}

// sendMade makes the message when it is its turn.
func (p *peer) sendMade(ctx context.Context, build func() wire.LinkMessage) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	return p.conn.Send(ctx, build())
}

func (p *peer) receive(ctx context.Context) (wire.LinkMessage, error) {
	m, err := p.conn.Receive(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p.heard.set(now)
	if beat, ok := m.(wire.Heartbeat); ok && p.clock.take(beat, now) {
		signal(p.asked)
	}
	return m, nil
}

// beat sends heartbeats until ctx ends, or until the other end is given up.
func (p *peer) beat(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			came, _ := p.moved()
			if now.Sub(came) >= p.silence {
				return ErrSilent
			}
			if err := p.sendHeartbeat(ctx); err != nil {
				return err
			}
		case <-p.asked:
			if err := p.sendHeartbeat(ctx); err != nil {
				return err
			}
		}
	}
}

// moved tells when something last came and went, messages or parts of them.
func (p *peer) moved() (came, went time.Time) {
	came = p.heard.get()
	if c, ok := p.conn.(interface{ moved() (came, went time.Time) }); ok {
		part, sent := c.moved()
		return later(came, part), sent
	}
	return came, time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sendHeartbeat gives up a transport that takes nothing: such a peer is as good
// as silent. One that takes a large frame is not.
func (p *peer) sendHeartbeat(ctx context.Context) error {
	for {
		bounded, cancel := context.WithTimeoutCause(ctx, p.silence, ErrSilent)
		err := p.sendMade(bounded, func() wire.LinkMessage { return p.clock.beat(time.Now()) })
		cancel()
		if _, went := p.moved(); !errors.Is(err, ErrSilent) || time.Since(went) >= p.silence {
			return err
		}
	}
}

// exceptClosed is stop for those who send: that the other end closed is left to the
// reader, which first takes what was sent before.
func exceptClosed(stop context.CancelCauseFunc) context.CancelCauseFunc {
	return func(cause error) {
		if !errors.Is(cause, ErrClosed) {
			stop(cause)
		}
	}
}

// common gives those of offered that are wanted, in the order of offered.
func common(offered, wanted []string) []string {
	both := []string{}
	for _, c := range offered {
		if slices.Contains(wanted, c) && !slices.Contains(both, c) {
			both = append(both, c)
		}
	}
	return both
}
