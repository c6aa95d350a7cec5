package native

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// finish decides how a turn ended, after its last response, and stores that.
func (r *Runtime) finish(t *turn, last response) {
	interrupted := t.wasInterrupted()
	if errors.Is(t.recordErr, ErrIndeterminate) {
		return // recovery will tell
	}
	end := t.outcome(last, interrupted)
	c := t.completion(end, last, r.now())
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
	r.logEnd(t, end, last.err)
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
func (t *turn) outcome(last response, interrupted bool) ending {
	switch {
	case interrupted:
		return ending{status: relay.NativeInterrupted}
	case last.err != nil && errors.Is(context.Cause(t.ctx), errClosing):
		return ending{status: relay.NativeInterrupted, code: wire.CodeHostRestarted}
	case t.recordErr != nil:
		return ending{status: relay.NativeFailed, code: wire.CodeInternal}
	}
	o := t.settle(last)
	end := ending{status: relay.NativeStatus(o.Status), code: o.Code, finish: o.Finish}
	if end.finish == "" && end.code == "" {
		end.finish = t.finish
	}
	var f *provider.Failure
	if errors.As(last.err, &f) && o.Code == wire.CodeModelRateLimited {
		end.retryAt = f.RetryAt
	}
	return end
}

func (t *turn) completion(end ending, last response, now time.Time) Completion {
	res := last.result
	c := Completion{
		ThreadID: t.record.ThreadID, TurnID: t.record.ID, Status: end.status, EndedAt: now,
		Error: string(end.code), ResponseID: res.ResponseID, ResponseModel: res.Model,
		Answer: t.answer.String(), Reasoning: t.reasoning.String(),
	}
	outcome := wire.Outcome{Error: end.code, Finish: end.finish, ResponseID: res.ResponseID}
	if !end.retryAt.IsZero() {
		outcome.RetryAt = stamp(end.retryAt)
	}
	c.settle(&outcome, t.record, t.steps, res, false)
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
