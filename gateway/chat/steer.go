package chat

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Reasons on the event of a waiting message that was to be a steer: the note that
// its writer sees (decisions §2.3).
const (
	reasonTurnEnded   = "turn_ended"             // the turn ended, or is about to, without it
	reasonTooLarge    = wire.ReasonSteerTooLarge // no running turn can take it (SQ42)
	reasonUnsupported = "steer_unsupported"      // the turn's host takes no steers
)

// rankFirst is the place of what goes before all that waits in its turn.
const rankFirst = -1

// Steer offers a waiting message to the running turn (protocol.md §2.2, "Queue").
// EventID is any event of its chain. The message is issued again with mode steer
// and waits at its place until the turn takes it; with Now the response in
// progress is cut short for it, also if it was offered already. Repeating it
// changes nothing. What comes too late is no error: without a turn that could
// take it the message goes first in line, with a note.
//
// The disposition is steering; queued where no turn runs or the message is too
// large to be steered; started, with its turn, if it has become one of its own.
//
// Errors: not_found, not_recallable (taken back, refused, or of another thread of
// the account).
func (s *Service) Steer(ctx context.Context, actor gateway.Actor, req gateway.SteerRequest) (gateway.SendReply, error) {
	var reply gateway.SendReply
	err := s.update(ctx, func(u *unit) (err error) {
		reply, err = s.steer(ctx, u, actor, req)
		return err
	})
	if err != nil {
		return gateway.SendReply{}, err
	}
	if reply.Disposition == gateway.DispositionQueued {
		s.drainSoon(reply.ThreadID)
	}
	return reply, nil
}

func (s *Service) steer(ctx context.Context, u *unit, actor gateway.Actor, req gateway.SteerRequest) (gateway.SendReply, error) {
	var none gateway.SendReply
	if err := u.LockThread(ctx, req.ThreadID); err != nil {
		return none, err
	}
	th, err := ownThread(ctx, u, actor, req.ThreadID)
	if err != nil {
		return none, err
	}
	u.of(th)
	c, err := follow(ctx, u, req.EventID)
	if err != nil {
		return none, missing(err)
	}
	switch {
	case c.threadID != th.ID:
		if _, err := ownThread(ctx, u, actor, c.threadID); err != nil {
			return none, err
		}
		return none, errNotRecallable()
	case c.item == nil:
		return s.steered(ctx, u, c)
	case th.Active == nil:
		return s.steerLate(ctx, u, *c.item)
	}
	return s.steerItem(ctx, u, *c.item, req.Now)
}

// steered answers for a message that waits no more.
func (s *Service) steered(ctx context.Context, u *unit, c chain) (gateway.SendReply, error) {
	if c.last.EventType != gateway.EventInputPrompt || c.last.TurnID == "" {
		return gateway.SendReply{}, errNotRecallable()
	}
	t, err := u.Turn(ctx, c.last.TurnID)
	if err != nil {
		return gateway.SendReply{}, err
	}
	reply := gateway.SendReply{
		ThreadID: c.threadID, EventID: c.last.ID, TurnID: &t.ID, Disposition: gateway.DispositionStarted,
	}
	if c.last.Mode == gateway.ModeSteer {
		reply.Disposition = gateway.DispositionSteering
	}
	return reply, nil
}

// steerLate puts a message first in line whose turn has ended, unless the host of
// that turn may have taken it.
func (s *Service) steerLate(ctx context.Context, u *unit, q gateway.QueueRow) (gateway.SendReply, error) {
	reply := gateway.SendReply{ThreadID: q.ThreadID, EventID: q.EventID, Disposition: gateway.DispositionSteering}
	if _, err := u.DeliveryOfEvent(ctx, q.EventID); !errors.Is(err, gateway.ErrNoRow) {
		return reply, err
	}
	e, err := u.Event(ctx, q.EventID)
	if err != nil {
		return reply, err
	}
	if e.Reason != reasonTurnEnded {
		if err := u.requeue(ctx, &q, reasonTurnEnded); err != nil {
			return reply, err
		}
	}
	reply.EventID, reply.Disposition = q.EventID, gateway.DispositionQueued
	return reply, nil
}

// steerItem makes a waiting message a steer, or hastens one that is.
func (s *Service) steerItem(ctx context.Context, u *unit, q gateway.QueueRow, now bool) (gateway.SendReply, error) {
	e, err := u.Event(ctx, q.EventID)
	if err != nil {
		return gateway.SendReply{}, err
	}
	reply := gateway.SendReply{ThreadID: q.ThreadID, Disposition: dispositionOfSteer(*e.UserMessage)}
	reason := ""
	if reply.Disposition == gateway.DispositionQueued {
		reason = reasonTooLarge
	}
	switch {
	case q.Mode != gateway.ModeSteer:
		err = u.reissue(ctx, &q, reason, func(q *gateway.QueueRow) { q.Mode, q.Now = gateway.ModeSteer, now })
	case now && !q.Now:
		err = s.hasten(ctx, u, q)
	}
	reply.EventID = q.EventID
	s.wakeThread(u)
	return reply, err
}

// hasten raises the now of a steer, also where it is offered already.
func (s *Service) hasten(ctx context.Context, u *unit, q gateway.QueueRow) error {
	if err := u.LockQueueRow(ctx, q.EventID); err != nil {
		return err
	}
	if ok, err := u.Dequeue(ctx, q.EventID); err != nil || !ok {
		return err
	}
	q.Now = true
	if err := u.Enqueue(ctx, q); err != nil {
		return err
	}
	d, err := u.DeliveryOfEvent(ctx, q.EventID)
	if errors.Is(err, gateway.ErrNoRow) {
		return nil
	}
	if err != nil {
		return err
	}
	d.Now = true
	return u.UpdateDelivery(ctx, d)
}

// placeSteer says how a message with mode steer waits, in a thread as it was
// before: q and e are its row and its event; replaces tells that one of those that
// wait makes room for it. In an idle thread it starts like any other; where a
// cancelled turn is not done at its host it goes into the queue, with a note.
func placeSteer(q *gateway.QueueRow, e *gateway.Event, th gateway.ThreadRow, replaces, now bool) {
	ahead := th.Waiting
	if replaces {
		ahead--
	}
	switch {
	case th.Active == nil && th.Recovering:
		e.Reason = reasonTurnEnded
		return
	case th.Active == nil && ahead == 0:
		return
	}
	q.Mode, e.Mode, q.Now = gateway.ModeSteer, gateway.ModeSteer, now
	if tooLarge(e.UserMessage) {
		e.Reason = reasonTooLarge
	}
}

// dispositionOfSteer is what is answered for a message that waits as a steer.
func dispositionOfSteer(m gateway.UserMessage) gateway.Disposition {
	if tooLarge(&m) {
		return gateway.DispositionQueued
	}
	return gateway.DispositionSteering
}

// unoffered refuses to take back a message that is offered to a turn: its host may
// have taken it already.
func (u *unit) unoffered(ctx context.Context, eventID string) error {
	_, err := u.DeliveryOfEvent(ctx, eventID)
	if errors.Is(err, gateway.ErrNoRow) {
		return nil
	}
	if err == nil {
		err = wire.NewError(gateway.CodeNotRecallable, "This message is being given to the running turn.")
	}
	return err
}

// reissue gives a waiting message a new event and stores it as change leaves it.
// Its place is that of its rank and of its origin.
func (u *unit) reissue(ctx context.Context, q *gateway.QueueRow, reason string, change func(*gateway.QueueRow)) error {
	if err := u.LockQueueRow(ctx, q.EventID); err != nil {
		return err
	}
	old, err := u.Event(ctx, q.EventID)
	if err != nil {
		return err
	}
	if ok, err := u.Dequeue(ctx, q.EventID); err != nil {
		return err
	} else if !ok {
		return errNotRecallable()
	}
	change(q)
	e := &gateway.Event{
		ID: newID(), EventType: gateway.EventInputPrompt, RevokesEventID: old.ID, OriginID: q.OriginID,
		UserMessage: old.UserMessage, Mode: q.Mode, Rank: q.Rank, Reason: reason,
	}
	if err := u.append(ctx, e); err != nil {
		return err
	}
	q.EventID = e.ID
	return u.Enqueue(ctx, *q)
}

// requeue makes a steer an ordinary message that goes first.
func (u *unit) requeue(ctx context.Context, q *gateway.QueueRow, reason string) error {
	return u.reissue(ctx, q, reason, func(q *gateway.QueueRow) {
		q.Mode, q.Now, q.Rank = gateway.ModeQueue, false, rankFirst
	})
}

// wakeThread has the host of the unit's thread look for what is offered to it.
func (s *Service) wakeThread(u *unit) {
	if lt := s.lives.thread(u.threadID); lt != nil {
		u.wakes = append(u.wakes, lt.runID)
	}
}

// tooLarge tells whether a message exceeds what a steer may be.
func tooLarge(m *gateway.UserMessage) bool {
	return m != nil && wire.SteerSize(uuid.Nil.String(), steerText(*m)) > wire.MaxSteerBytes
}
