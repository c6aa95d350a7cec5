package native

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// turn is a live turn. Its engine goroutine owns it; the exceptions are named.
type turn struct {
	engine  *engine
	record  Turn // as it was accepted
	client  provider.Client
	request provider.Request // grows by each steer
	route   string
	prompt  string // of the present round: trimmed, without its context
	images  []wire.Image
	steps   []Step // what was taken before the present round
	shown   uint64 // bytes of answer text before the present round
	finish  string // how the last whole response finished, as in wire.Outcome

	ctx    context.Context
	cancel context.CancelCauseFunc
	stream *rollup       // engine adds, recorder takes
	done   chan struct{} // closed when the turn is no longer live here

	// Of the present round. Owned by the recorder while there is one, else by the
	// engine.
	answer, reasoning text
	recordErr         error

	mu          sync.Mutex
	interrupted bool // asked for in time
	sealed      bool // the end is decided; an interrupt or a steer comes too late
	lost        bool // the end is for recovery to decide
	offers      []*offer
	taking      bool // the first offer is being stored
	taken       []wire.Delivered
	cutNow      func() // cuts the request in progress; nil without one
}

// text is the durable part of one item of a turn.
type text struct {
	itemID string // "" until its first delta is stored
	strings.Builder
}

// interrupt marks the turn as interrupted, unless its end is decided. What was
// offered and is not being taken never will be.
func (t *turn) interrupt() (inTime bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed {
		return false
	}
	t.interrupted = true
	t.refuseOffers()
	return true
}

func (t *turn) wasInterrupted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.interrupted
}

// InterruptTurn implements relay.Runtime. The provider's connection is closed at
// once; the request is durable when InterruptTurn returns nil. A turn that has
// ended, or is about to, is left as it ends, which is no error.
func (r *Runtime) InterruptTurn(ctx context.Context, threadID, turnID string) error {
	t := r.engines.activeTurn(threadID)
	if t == nil || t.record.ID != turnID {
		return r.interruptGone(ctx, threadID, turnID)
	}
	if !t.interrupt() {
		select {
		case <-t.done:
			return nil
		case <-ctx.Done():
			return wire.WrapError(wire.CodeInterruptFailed, "The turn could not be stopped.", context.Cause(ctx))
		}
	}
	t.cancel(errInterrupted)
	e := Event{Name: eventInterruptRequested, At: r.now(), Payload: interruptPayload(turnID)}
	if err := r.store.RequestInterrupt(ctx, threadID, turnID, e); err != nil {
		if errors.Is(err, ErrIndeterminate) {
			r.breakDown(err)
		}
		return wire.WrapError(wire.CodeInterruptFailed, "The turn could not be stopped.", err)
	}
	r.watchers.notify(threadID)
	return nil
}

// interruptGone answers for a turn that does not run here.
func (r *Runtime) interruptGone(ctx context.Context, threadID, turnID string) error {
	t, ok, err := r.ReadTurn(ctx, threadID, turnID)
	switch {
	case err != nil:
		return err
	case !ok:
		return wire.NewError(wire.CodeNativeUnavailable, "This turn was not accepted.")
	case t.Status.Live():
		return wire.NewError(wire.CodeInterruptFailed, "The turn could not be stopped.")
	}
	return nil
}

// response is what became of one provider request.
type response struct {
	result provider.Result // what was reported, also by one that failed
	err    error
	cut    bool // a steer ended it, or came before it began
}

// runTurn is the engine of a turn: a provider request, one more for each steer that
// is taken, then the end.
func (r *Runtime) runTurn(t *turn) {
	defer r.turns.Done()
	last := r.respond(t)
	for o := t.next(last); o != nil; o = t.next(last) {
		if !r.take(t, last, o) {
			break
		}
		last = r.respond(t)
	}
	r.finish(t, last)
	// The thread is open again before anybody hears of the end.
	r.dismiss(t)
	r.watchers.notify(t.record.ThreadID)
}

// respond makes one provider request and records what it streams, unless it is not
// wanted any more.
func (r *Runtime) respond(t *turn) response {
	ctx, done, err := t.begin()
	if err != nil {
		return response{err: err, cut: errors.Is(err, errSteered)}
	}
	recorded := make(chan struct{})
	streamed := make(chan struct{})
	go func() {
		defer close(recorded)
		r.record(t, streamed)
	}()
	res, err := t.call(ctx)
	cut := err != nil && errors.Is(context.Cause(ctx), errSteered)
	done()
	close(streamed)
	<-recorded
	if f := (*provider.Failure)(nil); errors.As(err, &f) {
		res = f.Partial
	}
	return response{result: res, err: err, cut: cut}
}

// settle decides how the turn would end after a response.
func (t *turn) settle(a response) provider.Outcome {
	return provider.Settle(a.result, a.err, strings.TrimSpace(t.answer.String()) != "")
}

// call makes one provider request. A client that panics has failed.
func (t *turn) call(ctx context.Context) (res provider.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &provider.Failure{
				Code:  wire.CodeInternal,
				Cause: fmt.Errorf("provider client panicked: %v\n%s", p, debug.Stack()),
			}
		}
	}()
	res, err = t.client.Stream(ctx, t.request, func(d provider.Delta) error {
		return t.stream.add(ctx, d)
	})
	if err == nil && res.Finish == "" {
		err = &provider.Failure{
			Code: wire.CodeModelStreamCut, Partial: res, Cause: errors.New("the stream ended without a result"),
		}
	}
	return res, err
}
