package link

import (
	"context"
	"sync"

	"github.com/fairlead/fairlead/relay/wire"
)

// How many messages may wait for their receiver. To the gateway these are events, as
// many as a hundred streams send while the receiver waits for a busy processor; they
// are in memory anyway, until they are acknowledged.
const (
	upBuffer   = 512
	downBuffer = 64
)

// Pipe joins a host and a gateway of one process. Each direction holds a bounded
// number of messages; a sender then waits for the receiver. Messages are handed
// over as they are, so neither end may change one after it was sent.
func Pipe() (host, gateway Conn) {
	up := make(chan wire.LinkMessage, upBuffer)
	down := make(chan wire.LinkMessage, downBuffer)
	a, b := newEnd(up, down), newEnd(down, up)
	a.peer, b.peer = b, a
	return a, b
}

type pipeEnd struct {
	out    chan<- wire.LinkMessage
	in     <-chan wire.LinkMessage
	peer   *pipeEnd
	once   sync.Once
	ending Ending // how this end was closed; set before closed is
	closed chan struct{}
}

func newEnd(out chan<- wire.LinkMessage, in <-chan wire.LinkMessage) *pipeEnd {
	return &pipeEnd{out: out, in: in, closed: make(chan struct{})}
}

// Send fails at once when either end is closed, even if there is room.
func (p *pipeEnd) Send(ctx context.Context, m wire.LinkMessage) error {
	if err := p.fault(ctx); err != nil {
		return err
	}
	select {
	case p.out <- m:
		return nil
	case <-p.closed:
	case <-p.peer.closed:
	case <-ctx.Done():
	}
	return p.fault(ctx)
}

func (p *pipeEnd) Receive(ctx context.Context) (wire.LinkMessage, error) {
	select {
	case <-p.closed:
		return nil, ErrClosed
	default:
	}
	select {
	case m := <-p.in:
		return m, nil
	case <-p.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.peer.closed:
	}
	select {
	case m := <-p.in:
		return m, nil
	default:
		return nil, p.over()
	}
}

func (p *pipeEnd) Close(e Ending) error {
	p.once.Do(func() {
		p.ending = e
		close(p.closed)
	})
	return nil
}

// over is why nothing passes any more, nil while the pipe is open.
func (p *pipeEnd) over() error {
	select {
	case <-p.closed:
		return ErrClosed
	default:
	}
	select {
	case <-p.peer.closed:
	default:
		return nil
	}
	if p.peer.ending.normal() {
		return ErrClosed
	}
	return &EndedError{p.peer.ending}
}

func (p *pipeEnd) fault(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return p.over()
}
