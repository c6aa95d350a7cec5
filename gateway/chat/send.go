package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// sending is a send on its way through its checks.
type sending struct {
	actor    gateway.Actor
	req      gateway.SendRequest
	hash     string
	prompt   string
	route    gateway.Route
	routeErr error
	// victim is the turn that the message interrupts, with its gate held, and kept
	// what stays of its text.
	victim *live
	kept   []*gateway.Event
}

// Send accepts a message (protocol.md §2, message.send). It starts a turn, or
// lets the message wait behind the one that runs; the reply's disposition says
// which. A client event id that is spent gets its first reply again before any
// other check.
//
// Errors: client_event_id_in_use, not_found (thread, agent), forbidden (private
// agent, SQ14), bad_request with the field at fault, prompt_too_large,
// client_thread_id_in_use, not_recallable, model_unknown, model_not_allowed,
// route_unavailable, rate_limited (too many wait), storage_unavailable.
func (s *Service) Send(ctx context.Context, actor gateway.Actor, req gateway.SendRequest) (gateway.SendReply, error) {
	m := &sending{actor: actor, req: req, hash: contentHash(req)}
	first, err := s.spent(ctx, req.ClientEventID)
	if err != nil {
		return gateway.SendReply{}, err
	}
	if first != nil {
		return replay(*first, actor, gateway.ClientSend, m.hash)
	}
	if err := s.prepare(ctx, m); err != nil {
		return gateway.SendReply{}, err
	}
	reply, err := s.accept(ctx, m)
	if err != nil {
		return gateway.SendReply{}, err
	}
	if reply.Disposition == gateway.DispositionQueued {
		// The thread may have become idle without anybody looking at this message.
		s.drainSoon(reply.ThreadID)
	}
	return reply, nil
}

// spent gives the first use of a client event id, or nil.
func (s *Service) spent(ctx context.Context, id string) (*gateway.ClientEvent, error) {
	var first *gateway.ClientEvent
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		e, err := tx.ClientEvent(ctx, id)
		if errors.Is(err, gateway.ErrNoRow) {
			return nil
		}
		first = &e
		return err
	})
	return first, err
}

// prepare makes the checks that need no transaction: agent first (SQ13, SQ14),
// then shape, then thread and model.
func (s *Service) prepare(ctx context.Context, m *sending) (err error) {
	var th gateway.ThreadRow
	err = s.store.View(ctx, func(tx gateway.ChatTx) error {
		if err := checkAgent(ctx, tx, m.actor, m.req.AgentID); err != nil {
			return err
		}
		if m.prompt, err = checkSend(m.req); err != nil {
			return err
		}
		if m.req.ThreadID != "" {
			th, err = ownThread(ctx, tx, m.actor, m.req.ThreadID)
		}
		return err
	})
	if err != nil {
		return err
	}
	model := m.req.Model
	if model == "" && th.Model != nil {
		model = *th.Model
	}
	m.route, m.routeErr = s.routes.Resolve(ctx, m.actor, model)
	if m.routeErr == nil {
		return checkOptions(m.route, m.req.Options)
	}
	switch wire.CodeOf(m.routeErr) {
	case wire.CodeNoHost, gateway.CodeRouteUnavailable:
		return nil // decided when it is known whether the turn would start now
	}
	return m.routeErr
}

// checkSend makes the checks of shape that the service owns, and renders the
// prompt.
func checkSend(r gateway.SendRequest) (string, error) {
	switch r.Mode {
	case "", gateway.ModeAuto, gateway.ModeQueue, gateway.ModeInterrupt:
	default:
		return "", fieldError("mode", "enum", "The modes are auto, queue and interrupt.")
	}
	if r.ThreadID != "" && r.ClientThreadID != "" {
		return "", fieldError("clientThreadId", "unknown", "Name an existing thread or the id of a new one, not both.")
	}
	return render(r.UserMessage)
}

// checkOptions refuses wishes that the route is known not to support.
func checkOptions(route gateway.Route, o *gateway.Options) error {
	if o == nil {
		return nil
	}
	if o.MaxOutputTokens != 0 && route.OutputLimit != wire.Supported {
		return fieldError("options.maxOutputTokens", "unknown", "This model does not take a limit of output tokens.")
	}
	if o.ReasoningEffort != "" && route.Reasoning == wire.Unsupported {
		return fieldError("options.reasoningEffort", "unknown", "This model does not take a reasoning effort.")
	}
	return nil
}

// errOtherTurn tells that another turn runs than the one whose gate is held.
var errOtherTurn = errors.New("chat: another turn runs by now")

// accept stores the message, and starts its turn if the thread is idle and
// nothing waits before it. With mode interrupt it ends the running turn in the
// same transaction; that needs the turn's gate, so it begins again if another
// turn has come to run meanwhile.
func (s *Service) accept(ctx context.Context, m *sending) (gateway.SendReply, error) {
	for {
		reply, err := s.acceptOnce(ctx, m)
		if !errors.Is(err, errOtherTurn) {
			return reply, err
		}
		if ctx.Err() != nil {
			return reply, ctx.Err()
		}
	}
}

func (s *Service) acceptOnce(ctx context.Context, m *sending) (gateway.SendReply, error) {
	if m.req.Mode == gateway.ModeInterrupt && m.req.ThreadID != "" {
		if m.victim = s.lives.thread(m.req.ThreadID); m.victim != nil {
			m.victim.gate.Lock()
			defer m.victim.gate.Unlock()
			m.kept = s.outputs(m.victim.turnID, gateway.EventOutputPartial, m.victim.shown())
		}
	}
	var reply gateway.SendReply
	err := s.update(ctx, func(u *unit) error {
		first, fresh, err := u.ClaimClientEvent(ctx, gateway.ClientEvent{
			ID: m.req.ClientEventID, AccountID: m.actor.AccountID, Kind: gateway.ClientSend, ContentHash: m.hash, CreatedAt: u.now,
		})
		if err != nil {
			return err
		}
		if !fresh {
			reply, err = replay(first, m.actor, gateway.ClientSend, m.hash)
			return err
		}
		if reply, err = s.acceptFresh(ctx, u, m); err != nil {
			return err
		}
		return u.SetClientReply(ctx, m.req.ClientEventID, encode(reply), true)
	})
	return reply, err
}

func (s *Service) acceptFresh(ctx context.Context, u *unit, m *sending) (gateway.SendReply, error) {
	var none gateway.SendReply
	th, err := s.threadFor(ctx, u, m)
	if err != nil {
		return none, err
	}
	q, err := s.enqueue(ctx, u, m, th)
	if err != nil {
		return none, err
	}
	reply := gateway.SendReply{ThreadID: th.ID, EventID: q.EventID, Disposition: gateway.DispositionQueued}
	if m.req.Mode == gateway.ModeInterrupt && th.Active != nil {
		if err := s.interruptFor(ctx, u, m, th); err != nil {
			return none, err
		}
		return reply, nil
	}
	if th.Active != nil || th.Recovering || th.Waiting > 0 {
		return reply, nil
	}
	if wire.CodeOf(m.routeErr) == gateway.CodeRouteUnavailable {
		return none, m.routeErr
	}
	turn, err := s.claim(ctx, u, th, q, m.route, m.routeErr)
	if err != nil {
		return none, err
	}
	reply.TurnID, reply.Status, reply.Disposition = &turn.ID, turn.Status, gateway.DispositionStarted
	if turn.Status == gateway.TurnFailed {
		reply.Disposition = gateway.DispositionFailed
	}
	return reply, nil
}

// interruptFor ends the running turn for a message with mode interrupt.
func (s *Service) interruptFor(ctx context.Context, u *unit, m *sending, th gateway.ThreadRow) error {
	turn, err := u.Turn(ctx, th.Active.TurnID)
	if err != nil {
		return err
	}
	if m.victim == nil || m.victim.turnID != turn.ID {
		return errOtherTurn
	}
	return s.interruptTurn(ctx, u, turn, newID(), m.kept)
}

// threadFor locks the thread that is named, or makes a new one.
func (s *Service) threadFor(ctx context.Context, u *unit, m *sending) (gateway.ThreadRow, error) {
	if m.req.ThreadID == "" {
		return s.makeThread(ctx, u, m.actor, newThread{
			id: m.req.ClientThreadID, agentID: m.req.AgentID, model: m.req.Model,
			title: titleOf(m.prompt), by: gateway.MadeBySend,
		})
	}
	if err := u.LockThread(ctx, m.req.ThreadID); err != nil {
		return gateway.ThreadRow{}, err
	}
	th, err := ownThread(ctx, u, m.actor, m.req.ThreadID)
	if err != nil {
		return th, err
	}
	u.of(th)
	th.UpdatedAt = u.now
	if th.Title == nil {
		title := titleOf(m.prompt)
		th.Title = &title
		if err := u.feedEvent(ctx, gateway.FeedEvent{Kind: gateway.FeedRenamed, Title: th.Title}); err != nil {
			return th, err
		}
	}
	return th, u.UpdateThread(ctx, th)
}

// enqueue appends the original event and stores the waiting message, in the
// place of another one if the send replaces it.
func (s *Service) enqueue(ctx context.Context, u *unit, m *sending, th gateway.ThreadRow) (gateway.QueueRow, error) {
	q := gateway.QueueRow{
		EventID: m.req.ClientEventID, OriginID: m.req.ClientEventID, ThreadID: th.ID, Mode: gateway.ModeQueue,
		Model: m.req.Model, Options: m.req.Options, Prompt: m.prompt, CreatedAt: u.now, ReceivedAt: u.now,
	}
	e := &gateway.Event{
		ID: q.EventID, EventType: gateway.EventInputPrompt, UserMessage: &m.req.UserMessage, Mode: gateway.ModeQueue,
	}
	replaced, err := s.replaced(ctx, u, m, th)
	switch {
	case err != nil:
		return q, err
	case replaced != nil:
		q.OriginID, q.OriginSeq, q.Rank = replaced.OriginID, replaced.OriginSeq, replaced.Rank
		e.RevokesEventID, e.OriginID = replaced.EventID, replaced.OriginID
	case th.Waiting >= s.limits.QueuedPerThread:
		return q, errQueueFull(s.limits.QueuedPerThread)
	case m.req.Mode == gateway.ModeInterrupt:
		q.Rank = -1
	}
	e.Rank = q.Rank
	if err := u.append(ctx, e); err != nil {
		if errors.Is(err, gateway.ErrRowExists) {
			return q, errClientEventInUse()
		}
		return q, err
	}
	if replaced == nil {
		q.OriginSeq = e.SeqID
	}
	return q, u.Enqueue(ctx, q)
}

// replaced takes the waiting message out of the queue that a send names in
// revokesEventId; anything else there is not_recallable.
func (s *Service) replaced(ctx context.Context, u *unit, m *sending, th gateway.ThreadRow) (*gateway.QueueRow, error) {
	if m.req.RevokesEventID == "" {
		return nil, nil
	}
	c, err := follow(ctx, u, m.req.RevokesEventID)
	if errors.Is(err, gateway.ErrNoRow) {
		return nil, errNotRecallable()
	}
	if err != nil {
		return nil, err
	}
	if c.threadID != th.ID || c.item == nil {
		return nil, errNotRecallable()
	}
	if err := u.LockQueueRow(ctx, c.item.EventID); err != nil {
		return nil, err
	}
	ok, err := u.Dequeue(ctx, c.item.EventID)
	if err == nil && !ok {
		err = errNotRecallable()
	}
	return c.item, err
}

func errQueueFull(limit int) error {
	e := wire.NewError(wire.CodeRateLimited, fmt.Sprintf("%d messages wait in this thread already.", limit))
	e.Limit, e.RetryAfter = limit, 5*time.Second
	return e
}
