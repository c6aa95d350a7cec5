package chat

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// defaultWindow is how many events thread.open gives when nothing is asked for.
const defaultWindow = 100

// Open reads a part of a thread's log and the turn in progress (protocol.md
// §2.2, "Opening and paging").
//
// A subscription that is to go on where the reply ends must be taken on the bus
// before Open is called: of what came in meanwhile, thread.events up to LatestSeq
// and turn.delta up to ThenNext are in the reply (or in Then) already.
//
// Errors: not_found, bad_request (sinceSeq with window).
func (s *Service) Open(ctx context.Context, actor gateway.Actor, req gateway.OpenRequest) (gateway.OpenReply, error) {
	if req.SinceSeq != nil && (req.Window != 0 || req.Before != 0) {
		return gateway.OpenReply{}, fieldError("window", "unknown", "Ask for what follows sinceSeq, or for a window, not both.")
	}
	for {
		reply, settled, err := s.open(ctx, actor, req)
		if err != nil || settled {
			return reply, err
		}
		if err := s.refresh(ctx); err != nil {
			return gateway.OpenReply{}, err
		}
	}
}

// open is one attempt; settled is false if the turn that the snapshot shows ended
// or began meanwhile, so that log and text would not fit.
func (s *Service) open(ctx context.Context, actor gateway.Actor, req gateway.OpenRequest) (reply gateway.OpenReply, settled bool, err error) {
	q := queryOf(req)
	reply.Events = []gateway.Event{}
	err = s.store.View(ctx, func(tx gateway.ChatTx) error {
		th, err := ownThread(ctx, tx, actor, req.ThreadID)
		if err != nil {
			return err
		}
		reply.Thread, reply.LatestSeq = th.Thread(), th.LatestSeq
		events, more, err := tx.Events(ctx, q)
		reply.Events, reply.More = append(reply.Events, events...), more
		return err
	})
	if err != nil {
		return reply, false, err
	}
	if req.HTML {
		s.html.fill(reply.Events)
	}
	room := maxReplyJSON - fit(&reply, q.Newest)
	if reply.Thread.Turn == nil || req.Before > 0 || (req.SinceSeq != nil && reply.More) {
		return reply, true, nil
	}
	return reply, s.addTurn(&reply, req, room), nil
}

func queryOf(req gateway.OpenRequest) gateway.EventQuery {
	q := gateway.EventQuery{ThreadID: req.ThreadID, Limit: gateway.MaxReplyEvents, MaxBytes: gateway.MaxReplyBytes}
	if req.SinceSeq != nil {
		q.After = *req.SinceSeq
		return q
	}
	q.Newest, q.Before, q.Limit = true, req.Before, req.Window
	if q.Limit <= 0 {
		q.Limit = defaultWindow
	}
	q.Limit = min(q.Limit, gateway.MaxReplyEvents)
	return q
}

// fit leaves out the events, at the end that is read on from, that would make the
// frame of a reply too large, and tells what the others take of it.
func fit(reply *gateway.OpenReply, newest bool) (size int) {
	n := len(reply.Events)
	for i := range n {
		at := i
		if newest {
			at = n - 1 - i
		}
		more := eventLen(reply.Events[at])
		if size += more; size <= maxEventsJSON || i == 0 {
			continue
		}
		reply.More = true
		if newest {
			reply.Events = reply.Events[at+1:]
		} else {
			reply.Events = reply.Events[:at]
		}
		return size - more
	}
	return size
}

// addTurn adds the turn in progress, as far as there is room for it; false if it is
// not the one of the snapshot any more.
func (s *Service) addTurn(reply *gateway.OpenReply, req gateway.OpenRequest, room int) bool {
	lt := s.lives.turn(reply.Thread.Turn.TurnID)
	if lt == nil {
		return false
	}
	var offset int64
	if req.Turn != nil && req.Turn.TurnID == lt.turnID {
		offset = req.Turn.Offset
	}
	v, then, ended := lt.view(offset, room, req.HTML)
	if ended {
		return false
	}
	reply.Turn, reply.Then, reply.ThenNext = &v, then, v.Next
	for _, b := range v.Blocks {
		reply.BlocksTo = b.To
	}
	for _, p := range then {
		if p.Type == "turn.delta" {
			reply.ThenNext = p.Next
		} else {
			reply.BlocksTo = p.Next
		}
	}
	return true
}

// Turn gives one turn with its usage and timeline.
//
// Errors: not_found.
func (s *Service) Turn(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) (gateway.Turn, error) {
	var reply gateway.Turn
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		t, err := tx.Turn(ctx, req.TurnID)
		if err != nil {
			return missing(err)
		}
		th, err := ownThread(ctx, tx, actor, t.ThreadID)
		if err != nil {
			return err
		}
		if reply, err = s.turnReply(ctx, tx, t); err != nil {
			return err
		}
		if reply.Context, err = readableContext(ctx, tx, actor, th, t); err != nil {
			return err
		}
		reply.Prompt, err = promptOf(ctx, tx, t)
		return err
	})
	return reply, err
}

func (s *Service) turnReply(ctx context.Context, tx gateway.ChatTx, t gateway.TurnRow) (gateway.Turn, error) {
	reply := gateway.Turn{
		TurnID: t.ID, ThreadID: t.ThreadID, Status: t.Status, Reason: t.Reason, Error: t.Error,
		Model: t.Model, Route: t.Route, CreatedAt: gateway.Millis(t.CreatedAt),
		StartedAt: moment(t.StartedAt), EndedAt: moment(t.EndedAt), Partial: t.Partial,
		Usage: []gateway.UsageRow{}, Timeline: []gateway.TurnMoment{},
	}
	if lt := s.lives.turn(t.ID); lt != nil && t.Status == gateway.TurnPending {
		_, _, reply.Reason = lt.standing()
	}
	usage, err := tx.Usage(ctx, t.ID)
	if err != nil {
		return reply, err
	}
	booked, err := tx.Charges(ctx, t.ID)
	if err != nil {
		return reply, err
	}
	if len(usage) == 0 && t.EstimateInput+t.EstimateOutput > 0 {
		reply.UsageEstimate = &gateway.UsageEstimate{Input: t.EstimateInput, Output: t.EstimateOutput}
	}
	moments, err := tx.Moments(ctx, t.ID)
	reply.Usage, reply.Timeline = append(reply.Usage, costed(usage, booked)...), append(reply.Timeline, moments...)
	return reply, err
}

func moment(ms int64) *gateway.Time {
	if ms == 0 {
		return nil
	}
	t := gateway.Millis(ms)
	return &t
}

// AdminTurn gives one turn of the admin's org with its usage and timeline, but
// without text.
//
// Errors: forbidden, not_found.
func (s *Service) AdminTurn(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) (gateway.Turn, error) {
	var reply gateway.Turn
	if err := checkAdmin(actor); err != nil {
		return reply, err
	}
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		t, err := tx.Turn(ctx, req.TurnID)
		if err != nil {
			return missing(err)
		}
		if t.OrgID != actor.OrgID {
			return errNotFound()
		}
		t.Partial = nil
		reply, err = s.turnReply(ctx, tx, t)
		return err
	})
	return reply, err
}

// AdminBindings, AdminTurns and AdminQueue are the read-outs of the admin's org,
// newest first. They hold nothing that a person wrote.
//
// Errors: forbidden.
func (s *Service) AdminBindings(ctx context.Context, actor gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminBinding], error) {
	return readOut(ctx, s, actor, p, gateway.ChatTx.AdminBindings)
}

// AdminTurns lists turns; see AdminBindings.
func (s *Service) AdminTurns(ctx context.Context, actor gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminTurn], error) {
	return readOut(ctx, s, actor, p, gateway.ChatTx.AdminTurns)
}

// AdminQueue lists waiting messages; see AdminBindings.
func (s *Service) AdminQueue(ctx context.Context, actor gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminQueueItem], error) {
	return readOut(ctx, s, actor, p, gateway.ChatTx.AdminQueue)
}

func readOut[T any](ctx context.Context, s *Service, actor gateway.Actor, p gateway.Page,
	read func(gateway.ChatTx, context.Context, string, gateway.Page) ([]T, error),
) (gateway.Rows[T], error) {
	out := gateway.Rows[T]{Rows: []T{}}
	if err := checkAdmin(actor); err != nil {
		return out, err
	}
	if p.Limit <= 0 || p.Limit > 200 {
		p.Limit = 50
	}
	limit := p.Limit
	p.Limit++
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		rows, err := read(tx, ctx, actor.OrgID, p)
		if len(rows) > limit {
			rows, out.More = rows[:limit], true
		}
		out.Rows = append(out.Rows, rows...)
		return err
	})
	return out, err
}

func checkAdmin(actor gateway.Actor) error {
	if actor.Role != gateway.RoleAdmin {
		return wire.NewError(wire.CodeForbidden, "Only admins may see this.")
	}
	return nil
}
