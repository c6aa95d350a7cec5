package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// errOtherTurn tells that another turn runs than the one whose gate is held.
var errOtherTurn = errors.New("chat: another turn runs by now")

// accepted is what accepting a message came to: the first use of a client event id
// that is spent, or the reply to a fresh one. While it is not settled, nobody has
// looked whether the message can start.
type accepted struct {
	first   *gateway.ClientEvent
	reply   gateway.SendReply
	settled bool
}

// accept stores the message. With mode interrupt it ends the running turn in the
// same transaction; that needs the turn's gate, so it begins again if another turn
// has come to run meanwhile.
func (s *Service) accept(ctx context.Context, m *sending) (accepted, error) {
	for {
		done, err := s.acceptOnce(ctx, m)
		if !errors.Is(err, errOtherTurn) {
			return done, err
		}
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		if err := s.refresh(ctx); err != nil {
			return done, err
		}
	}
}

func (s *Service) acceptOnce(ctx context.Context, m *sending) (done accepted, err error) {
	if m.req.Mode == gateway.ModeInterrupt && m.req.ThreadID != "" && m.refusal == "" {
		if m.victim = s.lives.thread(m.req.ThreadID); m.victim != nil {
			m.victim.gate.Lock()
			defer m.victim.gate.Unlock()
			m.kept = s.outputs(m.victim.turnID, gateway.EventOutputPartial, m.victim.shown())
		}
	}
	err = s.update(ctx, func(u *unit) error {
		done = accepted{}
		first, fresh, err := u.ClaimClientEvent(ctx, gateway.ClientEvent{
			ID: m.req.ClientEventID, AccountID: m.actor.AccountID, Kind: gateway.ClientSend, ContentHash: m.hash, CreatedAt: u.now,
		})
		if err != nil {
			return err
		}
		if !fresh {
			done.first = &first
			return nil
		}
		enqueued := u.stage(stageEnqueue, nested)
		if done, err = s.acceptFresh(ctx, u, m); err != nil {
			return err
		}
		enqueued()
		return u.SetClientReply(ctx, m.req.ClientEventID, encode(done.reply), done.settled)
	})
	return done, err
}

// acceptFresh stores a message whose client event id is new. It takes the lock of
// the thread, never the org's: what waits for admission holds up no send (CG76).
func (s *Service) acceptFresh(ctx context.Context, u *unit, m *sending) (done accepted, err error) {
	th, err := s.threadFor(ctx, u, m)
	if err != nil {
		return done, err
	}
	done.reply = gateway.SendReply{ThreadID: th.ID, EventID: m.req.ClientEventID, Disposition: gateway.DispositionQueued}
	if m.refusal != "" {
		done.reply.Disposition, done.settled = gateway.DispositionRefused, true
		return done, s.acceptRefused(ctx, u, m, th)
	}
	if err := stillEntitled(ctx, u, m.actor.OrgID, m.actor.AccountID, m.route.Billing); err != nil {
		return done, err
	}
	q, err := s.enqueue(ctx, u, m, th)
	if err != nil {
		return done, err
	}
	switch {
	case q.Mode == gateway.ModeSteer:
		done.settled, done.reply.Disposition = true, dispositionOfSteer(m.req.UserMessage)
		s.wakeThread(u)
	case m.req.Mode == gateway.ModeInterrupt && th.Active != nil:
		done.settled = true
		return done, s.interruptFor(ctx, u, m, th)
	case !idle(th):
		done.settled = true
	case th.Waiting == 0 && wire.CodeOf(m.routeErr) == gateway.CodeRouteUnavailable && !s.resting.Load():
		return done, m.routeErr
	}
	return done, nil
}

// acceptRefused stores a message that may start no turn, with the answer to it
// (AD1–AD8). A waiting message that it was to replace goes on waiting.
func (s *Service) acceptRefused(ctx context.Context, u *unit, m *sending, th gateway.ThreadRow) error {
	if _, err := s.replaceable(ctx, u, m, th); err != nil {
		return err
	}
	e := &gateway.Event{ID: m.req.ClientEventID, EventType: gateway.EventInputPrompt, UserMessage: &m.req.UserMessage}
	if err := u.append(ctx, e); errors.Is(err, gateway.ErrRowExists) {
		return errClientEventInUse()
	} else if err != nil {
		return err
	}
	return s.reject(ctx, u, *e, m.refusal, m.actor.Origin)
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
	resolved := u.stage(stageResolveThread, nested)
	defer func() { resolved() }()
	if m.req.ThreadID == "" {
		return s.makeThread(ctx, u, m.actor, newThread{
			id: m.req.ClientThreadID, agentID: m.req.AgentID, model: cmp.Or(m.req.Model, m.preset),
			title: titleOf(m.prompt), by: gateway.MadeBySend,
		})
	}
	waited := u.stage(stageThreadLockWait, nested)
	if err := u.LockThread(ctx, m.req.ThreadID); err != nil {
		return gateway.ThreadRow{}, err
	}
	waited()
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
	touched := u.stage(stageTouchThread, nested)
	err = u.UpdateThread(ctx, th)
	touched()
	return th, err
}

// enqueue appends the original event and stores the waiting message, in the
// place of another one if the send replaces it.
func (s *Service) enqueue(ctx context.Context, u *unit, m *sending, th gateway.ThreadRow) (gateway.QueueRow, error) {
	q := gateway.QueueRow{
		EventID: m.req.ClientEventID, OriginID: m.req.ClientEventID, ThreadID: th.ID, Mode: gateway.ModeQueue,
		Model: m.req.Model, Options: m.req.Options, Prompt: m.prompt, CreatedAt: u.now, ReceivedAt: m.received.UnixMilli(),
		Origin: m.actor.Origin,
	}
	e := &gateway.Event{
		ID: q.EventID, EventType: gateway.EventInputPrompt, UserMessage: &m.req.UserMessage, Mode: gateway.ModeQueue,
	}
	validated := u.stage(stageValidateRevoke, nested)
	replaced, err := s.replaced(ctx, u, m, th)
	validated()
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
	if m.req.Mode == gateway.ModeSteer {
		placeSteer(&q, e, th, replaced != nil, m.req.Now)
	}
	e.Rank = q.Rank
	persisted := u.stage(stagePersistEvent, nested)
	defer func() { persisted() }()
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
// revokesEventId.
func (s *Service) replaced(ctx context.Context, u *unit, m *sending, th gateway.ThreadRow) (*gateway.QueueRow, error) {
	item, err := s.replaceable(ctx, u, m, th)
	if err != nil || item == nil {
		return nil, err
	}
	if err := u.LockQueueRow(ctx, item.EventID); err != nil {
		return nil, err
	}
	ok, err := u.Dequeue(ctx, item.EventID)
	if err == nil && !ok {
		err = errNotRecallable()
	}
	return item, err
}

// replaceable finds the waiting message that a send is to replace, nil if it names
// none; anything else there is not_recallable.
func (s *Service) replaceable(ctx context.Context, u *unit, m *sending, th gateway.ThreadRow) (*gateway.QueueRow, error) {
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
	return c.item, u.unoffered(ctx, c.item.EventID)
}

func errQueueFull(limit int) error {
	e := wire.NewError(wire.CodeRateLimited, fmt.Sprintf("%d messages wait in this thread already.", limit))
	e.Limit, e.RetryAfter = limit, 5*time.Second
	return e
}
