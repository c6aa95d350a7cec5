package link

import (
	"context"
	"sync"

	"github.com/fairlead/fairlead/relay/wire"
)

// hostRun is one run of a host's end: the worker that applies its messages in
// order. It lives from the first message of the run until it is neither attached
// nor has anything to do.
type hostRun struct {
	link *hostLink
	id   string
	// queue is guarded by link.mu; wake is signalled after each addition.
	queue []any
	wake  chan struct{}

	// Owned by the goroutine of serve.
	attachment Attachment
	attached   int // how many attachments there were: names the present one
	serving    serving
}

// serving is what goes on beside the worker for one attachment: the pump, and the
// waits for receipts. All of it ends before the attachment is closed.
type serving struct {
	ctx        context.Context
	cancel     context.CancelFunc
	goroutines *sync.WaitGroup
	steers     chan struct{} // holds a token for each wait
}

// maxSteers is how many steers of one run may wait for their receipts. A gateway
// has one open at a time and may repeat it, so more is misuse.
const maxSteers = 64

// broken is put into the queue by what serves an attachment that cannot go on.
type broken struct {
	attached int
	err      error
}

// enqueue is called with link.mu held. Of cursors in a row only the last counts.
func (r *hostRun) enqueue(m any) {
	if _, cursor := m.(wire.CursorMessage); cursor && len(r.queue) > 0 {
		if _, too := r.queue[len(r.queue)-1].(wire.CursorMessage); too {
			r.queue = r.queue[:len(r.queue)-1]
		}
	}
	r.queue = append(r.queue, m)
	signal(r.wake)
}

func (r *hostRun) serve(ctx context.Context) {
	defer r.detach()
	for {
		m, ok := r.next(ctx)
		if !ok {
			return
		}
		if err := r.apply(ctx, m); err != nil {
			r.link.stop(err)
			return
		}
	}
}

// next waits for a message. ok is false when the link ends, or when the run is
// not attached and has nothing to do: it is then forgotten, in one step with the
// look at the queue, so that no message is put to a worker that has left.
func (r *hostRun) next(ctx context.Context) (m any, ok bool) {
	for {
		r.link.mu.Lock()
		if ctx.Err() == nil && len(r.queue) > 0 {
			m, r.queue = r.queue[0], r.queue[1:]
			r.link.mu.Unlock()
			return m, true
		}
		if ctx.Err() != nil || r.attachment == nil {
			delete(r.link.runs, r.id)
			r.link.mu.Unlock()
			return nil, false
		}
		r.link.mu.Unlock()
		select {
		case <-r.wake:
		case <-ctx.Done():
		}
	}
}

// apply gives only errors that end the link.
func (r *hostRun) apply(ctx context.Context, m any) error {
	switch m := m.(type) {
	case wire.Attach:
		return r.attach(ctx, m)
	case wire.CommandMessage:
		return r.link.send(ctx, r.command(ctx, m))
	case wire.CursorMessage:
		return r.acknowledge(ctx, m)
	case wire.Steer:
		return r.steer(ctx, m)
	case wire.Detach:
		r.detach()
	case broken:
		if r.attachment != nil && m.attached == r.attached {
			return r.refuse(ctx, m.err)
		}
	}
	return nil
}

// attach replaces an attachment that is there: the new one gives everything above
// the cursor again.
func (r *hostRun) attach(ctx context.Context, m wire.Attach) error {
	r.detach()
	a, err := r.link.host.Attach(ctx, m, r.link.capabilities)
	if err != nil {
		return r.refuse(ctx, err)
	}
	r.attachment = a
	r.attached++
	if err := r.link.send(ctx, wire.Attached{RunID: r.id, RuntimeCursor: a.RuntimeCursor()}); err != nil {
		return err
	}
	r.serving = newServing(ctx)
	attached, pumping := r.attached, r.serving.ctx
	r.serving.goroutines.Go(func() { r.pump(pumping, a, attached) })
	return nil
}

// refuse ends the attachment, if there is one, and says why.
func (r *hostRun) refuse(ctx context.Context, err error) error {
	r.detach()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := wire.AsError(err)
	r.link.log.Warn("link: a run is not attached", "run", r.id, "error", e)
	return r.link.send(ctx, wire.Refused{RunID: r.id, Error: e.Body()})
}

func (r *hostRun) command(ctx context.Context, m wire.CommandMessage) wire.Ack {
	if r.attachment != nil {
		return r.attachment.Command(ctx, m)
	}
	e := wire.NewError(wire.CodeRunNotAuthorized, "This run is not attached.")
	return wire.Ack{RunID: m.RunID, CommandSeq: m.Seq, Status: wire.AckFailed, Error: e.Body()}
}

// acknowledge leaves envelopes that could not be retired to the next cursor.
func (r *hostRun) acknowledge(ctx context.Context, m wire.CursorMessage) error {
	if r.attachment == nil {
		return nil
	}
	if err := r.attachment.Acknowledge(ctx, m.Cursor); err != nil && ctx.Err() == nil {
		return r.refuse(ctx, err)
	}
	return nil
}

// steer offers a steer. One for a run that is not attached is dropped: it is
// offered again after the next attach.
func (r *hostRun) steer(ctx context.Context, m wire.Steer) error {
	if r.attachment == nil {
		return nil
	}
	receipt, err := r.attachment.Steer(ctx, m)
	if err != nil {
		return r.refuse(ctx, err)
	}
	select {
	case r.serving.steers <- struct{}{}:
	default:
		return misuse("run %s has more than %d steers waiting", r.id, maxSteers)
	}
	s := r.serving
	s.goroutines.Go(func() {
		defer func() { <-s.steers }()
		if settled, known := receipt(s.ctx); known {
			_ = r.link.send(s.ctx, settled) // a link that does not take it has ended
		}
	})
	return nil
}

func (r *hostRun) detach() {
	if r.attachment == nil {
		return
	}
	if r.serving.cancel != nil {
		r.serving.cancel()
		r.serving.goroutines.Wait()
	}
	r.attachment.Close()
	r.attachment, r.serving = nil, serving{}
}

func newServing(ctx context.Context) serving {
	ctx, cancel := context.WithCancel(ctx)
	return serving{ctx: ctx, cancel: cancel, goroutines: &sync.WaitGroup{}, steers: make(chan struct{}, maxSteers)}
}

// pump hands envelopes to the transport; what fails is said to the worker, which
// ends the attachment.
func (r *hostRun) pump(ctx context.Context, a Attachment, attached int) {
	for {
		batch, err := a.Next(ctx)
		if err == nil {
			err = r.handOver(ctx, a, batch)
		}
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			r.link.mu.Lock()
			r.enqueue(broken{attached: attached, err: err})
			r.link.mu.Unlock()
		}
		return
	}
}

func (r *hostRun) handOver(ctx context.Context, a Attachment, batch []wire.Envelope) error {
	for _, e := range batch {
		if err := r.link.send(ctx, wire.EventMessage{RunID: r.id, Envelope: e}); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return a.HandedOff(ctx, batch[len(batch)-1].Seq)
}
