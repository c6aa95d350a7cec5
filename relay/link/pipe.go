package link

import (
	"context"
	"errors"
	"sync"

	"github.com/fairlead/fairlead/relay/wire"
)

// ErrClosed is what Send and Receive fail with once either end was closed.
var ErrClosed = errors.New("link: closed")

// pipeBuffer is how many messages of one direction may wait for their receiver.
const pipeBuffer = 64

// Pipe joins a host and a gateway of one process. Each direction holds a bounded
// number of messages; a sender then waits for the receiver. Messages are handed
// over as they are, so neither end may change one after it was sent.
func Pipe() (host, gateway Conn) {
	up := make(chan wire.LinkMessage, pipeBuffer)
	down := make(chan wire.LinkMessage, pipeBuffer)
	a, b := newEnd(up, down), newEnd(down, up)
	a.peer, b.peer = b.closed, a.closed
	return a, b
}

type pipeEnd struct {
	out    chan<- wire.LinkMessage
	in     <-chan wire.LinkMessage
	closed chan struct{}
	peer   <-chan struct{}
	once   sync.Once
}

func newEnd(out chan<- wire.LinkMessage, in <-chan wire.LinkMessage) *pipeEnd {
	return &pipeEnd{out: out, in: in, closed: make(chan struct{})}
}

// Send fails at once when either end is closed, even if there is room.
func (p *pipeEnd) Send(ctx context.Context, m wire.LinkMessage) error {
	if p.over(ctx) {
		return p.fault(ctx)
	}
	select {
	case p.out <- m:
		return nil
	case <-p.closed:
	case <-p.peer:
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
	case <-p.peer:
	}
	select {
	case m := <-p.in:
		return m, nil
	default:
		return nil, ErrClosed
	}
}

func (p *pipeEnd) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipeEnd) over(ctx context.Context) bool {
	select {
	case <-p.closed:
	case <-p.peer:
	case <-ctx.Done():
	default:
		return false
	}
	return true
}

func (p *pipeEnd) fault(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return ErrClosed
}
