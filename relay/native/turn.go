package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// turn is a live turn. Its engine goroutine owns it; the exceptions are named.
type turn struct {
	engine  *engine
	record  Turn // as it was accepted
	client  provider.Client
	request provider.Request
	route   string
	prompt  string // trimmed, without its context
	images  []wire.Image

	ctx    context.Context
	cancel context.CancelCauseFunc
	stream *rollup       // engine adds, recorder takes
	done   chan struct{} // closed when the turn is no longer live here

	// Owned by the recorder, then, when it has ended, by the engine.
	answer, reasoning text
	recordErr         error

	mu          sync.Mutex
	interrupted bool // asked for in time
	sealed      bool // the end is decided; an interrupt comes too late
}

// text is the durable part of one item of a turn.
type text struct {
	itemID string // "" until its first delta is stored
	strings.Builder
}

// interrupt marks the turn as interrupted, unless its end is decided.
func (t *turn) interrupt() (inTime bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed {
		return false
	}
	t.interrupted = true
	return true
}

// seal decides that the turn ends now, and tells whether it was interrupted.
func (t *turn) seal() (interrupted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = true
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

// runTurn is the engine of a turn: one provider request, then the end.
func (r *Runtime) runTurn(t *turn) {
	defer r.turns.Done()
	recorded := make(chan struct{})
	streamed := make(chan struct{})
	go func() {
		defer close(recorded)
		r.record(t, streamed)
	}()
	res, err := r.call(t)
	close(streamed)
	<-recorded
	r.finish(t, res, err)
	// The thread is open again before anybody hears of the end.
	r.dismiss(t)
	r.watchers.notify(t.record.ThreadID)
}

// call makes the turn's one provider request. A client that panics has failed.
func (r *Runtime) call(t *turn) (res provider.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &provider.Failure{
				Code:  wire.CodeInternal,
				Cause: fmt.Errorf("provider client panicked: %v\n%s", p, debug.Stack()),
			}
		}
	}()
	res, err = t.client.Stream(t.ctx, t.request, func(d provider.Delta) error {
		return t.stream.add(t.ctx, d)
	})
	if err == nil && res.Finish == "" {
		err = &provider.Failure{
			Code: wire.CodeModelStreamCut, Partial: res, Cause: errors.New("the stream ended without a result"),
		}
	}
	return res, err
}

// record is the recorder of a turn: it stores what the engine emits until the
// stream has ended and nothing is left, or until a write is given up.
func (r *Runtime) record(t *turn, streamed <-chan struct{}) {
	for ended := false; ; {
		deltas := t.stream.take()
		if len(deltas) == 0 {
			if ended {
				return
			}
			select {
			case <-t.stream.more:
			case <-streamed:
				ended = true
			}
			continue
		}
		if err := r.append(t, deltas); err != nil {
			t.recordErr = err
			t.stream.fail(errUnrecorded)
			t.cancel(errUnrecorded)
			return
		}
	}
}

// append stores pieces of the stream and tells the watchers.
func (r *Runtime) append(t *turn, pieces []provider.Delta) error {
	now := r.now()
	var deltas []Delta
	fresh := map[ItemKind]string{} // items that this append makes
	for _, p := range pieces {
		kind, item := ItemAnswer, &t.answer
		if p.Kind == provider.DeltaReasoning {
			kind, item = ItemReasoning, &t.reasoning
		}
		for _, text := range cut(p.Text) {
			d := Delta{ItemID: item.itemID, Kind: kind, Route: t.route}
			if d.ItemID == "" && fresh[kind] == "" {
				fresh[kind], d.New = wire.NewNativeID("item"), true
			}
			if d.ItemID == "" {
				d.ItemID = fresh[kind]
			}
			d.Event = Event{Name: wire.EventItemDelta, At: now, Payload: deltaPayload(kind, text)}
			deltas = append(deltas, d)
		}
	}
	err := r.persist(recordPatience, func(ctx context.Context) error {
		return r.store.AppendDeltas(ctx, t.record.ThreadID, t.record.ID, deltas)
	})
	if err != nil {
		return err
	}
	if id := fresh[ItemAnswer]; id != "" {
		t.answer.itemID = id
	}
	if id := fresh[ItemReasoning]; id != "" {
		t.reasoning.itemID = id
	}
	for _, p := range pieces {
		if p.Kind == provider.DeltaReasoning {
			t.reasoning.WriteString(p.Text)
		} else {
			t.answer.WriteString(p.Text)
		}
	}
	r.watchers.notify(t.record.ThreadID)
	return nil
}

const (
	// recordPatience is how long a failing append is tried again before its turn
	// fails; deltas gather meanwhile.
	recordPatience = 10 * time.Second
	retryFirst     = 20 * time.Millisecond
	retryMost      = time.Second
)

// persist writes until it succeeds. It gives up after patience (0: never), when
// Close waits no longer, and at once when the outcome is unknown: then nothing may
// be repeated.
func (r *Runtime) persist(patience time.Duration, write func(context.Context) error) error {
	var deadline <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		deadline = timer.C
	}
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := write(context.Background())
		if err == nil || errors.Is(err, ErrOver) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrStoreClosed) {
			return err
		}
		if errors.Is(err, ErrIndeterminate) {
			r.breakDown(err)
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			continue
		case <-deadline:
		case <-r.giveUp:
		case <-r.broken:
		}
		timer.Stop()
		return err
	}
}

// finish decides how a turn ended and stores that.
func (r *Runtime) finish(t *turn, res provider.Result, err error) {
	interrupted := t.seal()
	if errors.Is(t.recordErr, ErrIndeterminate) {
		return // recovery will tell
	}
	if err != nil {
		var f *provider.Failure
		if errors.As(err, &f) {
			res = f.Partial
		}
	}
	end := t.outcome(res, err, interrupted)
	c := t.completion(end, res, r.now())
	if werr := r.persist(0, func(ctx context.Context) error { return r.store.CompleteTurn(ctx, c) }); werr != nil {
		r.log.Error("the end of a turn could not be stored; it is left to recovery",
			slog.String("turn", t.record.ID), slog.Any("error", werr))
		t.engine.forget()
		return
	}
	t.engine.conv.add(Round{
		Status: c.Status, Prompt: t.prompt, Images: t.images,
		Answer: c.Answer, Reasoning: c.Reasoning, Route: t.route,
	})
	r.cooling.note(t.record, end, r.now())
	r.logEnd(t, end, err)
}

// ending is how a turn ends.
type ending struct {
	status  relay.NativeStatus
	code    wire.Code
	finish  string
	retryAt time.Time
}

// outcome decides between those who may end a turn: a person's interrupt comes
// first, even if the engine reports completed (RH68), then the end of this
// process, then a ledger that could not be written, then the provider.
func (t *turn) outcome(res provider.Result, err error, interrupted bool) ending {
	switch {
	case interrupted:
		return ending{status: relay.NativeInterrupted}
	case err != nil && errors.Is(context.Cause(t.ctx), errClosing):
		return ending{status: relay.NativeInterrupted, code: wire.CodeHostRestarted}
	case t.recordErr != nil:
		return ending{status: relay.NativeFailed, code: wire.CodeInternal}
	}
	o := provider.Settle(res, err, strings.TrimSpace(t.answer.String()) != "")
	end := ending{status: relay.NativeStatus(o.Status), code: o.Code, finish: o.Finish}
	var f *provider.Failure
	if errors.As(err, &f) && o.Code == wire.CodeModelRateLimited {
		end.retryAt = f.RetryAt
	}
	return end
}

func (t *turn) completion(end ending, res provider.Result, now time.Time) Completion {
	c := Completion{
		ThreadID: t.record.ThreadID, TurnID: t.record.ID, Status: end.status, EndedAt: now,
		Error: string(end.code), ResponseID: res.ResponseID, ResponseModel: res.Model,
		Answer: t.answer.String(), Reasoning: t.reasoning.String(),
	}
	if res.Usage != nil {
		c.Usage = encode(res.Usage)
	}
	outcome := wire.Outcome{Error: end.code, Finish: end.finish, ResponseID: res.ResponseID}
	if !end.retryAt.IsZero() {
		outcome.RetryAt = stamp(end.retryAt)
	}
	c.Completed = Event{Name: wire.EventTurnCompleted, At: now, Payload: completedPayload(t.record, c, outcome, false)}
	return c
}

func (r *Runtime) logEnd(t *turn, end ending, err error) {
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("turn", t.record.ID), slog.String("status", string(end.status)),
		slog.String("model", t.record.Model), slog.String("provider", t.record.ModelProviderID),
	}
	if end.status == relay.NativeFailed {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("code", string(end.code)))
	}
	if cause := errors.Join(err, t.recordErr); end.status == relay.NativeFailed && cause != nil {
		attrs = append(attrs, slog.Any("error", cause))
	}
	r.log.LogAttrs(context.Background(), level, "turn ended", attrs...)
}
