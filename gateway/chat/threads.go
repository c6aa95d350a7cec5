package chat

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// newThread says what a thread is made with; an empty id is made up.
type newThread struct {
	id, agentID, model, title string
	by                        gateway.ThreadMaker
}

// makeThread makes a thread, which the unit is about from then on. An id that
// was ever used is client_thread_id_in_use, also the caller's own (SQ8).
func (s *Service) makeThread(ctx context.Context, u *unit, actor gateway.Actor, n newThread) (gateway.ThreadRow, error) {
	if n.id == "" {
		n.id = newID()
	}
	if n.agentID == "" {
		a, err := u.DefaultAgent(ctx, actor.OrgID, newID(), u.now)
		if err != nil {
			return gateway.ThreadRow{}, err
		}
		n.agentID = a.ID
	}
	th := gateway.ThreadRow{
		ID: n.id, OrgID: actor.OrgID, AccountID: actor.AccountID, AgentID: n.agentID, MadeBy: n.by,
		CreatedAt: u.now, UpdatedAt: u.now,
	}
	if n.title != "" {
		th.Title = &n.title
	}
	if n.model != "" {
		th.Model = &n.model
	}
	if err := u.InsertThread(ctx, th); errors.Is(err, gateway.ErrRowExists) {
		return th, wire.NewError(gateway.CodeClientThreadIDInUse, "This id belongs to a thread already.")
	} else if err != nil {
		return th, err
	}
	if err := u.LockThread(ctx, th.ID); err != nil {
		return th, err
	}
	u.of(th)
	return th, u.feedEvent(ctx, gateway.FeedEvent{Kind: gateway.FeedCreated, Title: th.Title, Model: th.Model})
}

// CreateThread makes an empty thread. Repeating it with the same client thread id
// gives the same thread.
//
// Errors: not_found (agent), forbidden (private agent), model_unknown,
// client_thread_id_in_use, bad_request.
func (s *Service) CreateThread(ctx context.Context, actor gateway.Actor, req gateway.CreateThreadRequest) (gateway.CreateThreadReply, error) {
	var reply gateway.CreateThreadReply
	if err := s.checkModel(ctx, actor, req.Model); err != nil {
		return reply, err
	}
	title, err := cleanTitle(req.Title)
	if err != nil {
		return reply, err
	}
	model, err := s.modelOfNew(ctx, actor, req)
	if err != nil {
		return reply, err
	}
	err = s.update(ctx, func(u *unit) error {
		if err := checkAgent(ctx, u, actor, req.AgentID); err != nil {
			return err
		}
		if req.ClientThreadID != "" {
			th, err := u.Thread(ctx, req.ClientThreadID)
			if err == nil && th.AccountID == actor.AccountID && th.MadeBy == gateway.MadeByCreate && th.DeletedAt == 0 {
				reply.ThreadID = th.ID
				return nil
			}
			if err != nil && !errors.Is(err, gateway.ErrNoRow) {
				return err
			}
		}
		th, err := s.makeThread(ctx, u, actor, newThread{
			id: req.ClientThreadID, agentID: req.AgentID, model: model, title: title, by: gateway.MadeByCreate,
		})
		u.touch = err == nil
		reply.ThreadID = th.ID
		return err
	})
	return reply, err
}

// modelOfNew is the model that a new thread is pinned to: the one that is named,
// else that of its assistant.
func (s *Service) modelOfNew(ctx context.Context, actor gateway.Actor, req gateway.CreateThreadRequest) (model string, err error) {
	if req.Model != "" {
		return req.Model, nil
	}
	err = s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		model, err = agentModel(ctx, tx, actor, req.AgentID)
		return err
	})
	return s.offered(ctx, actor, model), err
}

// checkModel refuses a model that the actor may not use. Whether it is ready now
// does not matter here.
func (s *Service) checkModel(ctx context.Context, actor gateway.Actor, model string) error {
	if model == "" {
		return nil
	}
	_, err := s.routes.Resolve(ctx, actor, model, gateway.Placement{})
	switch wire.CodeOf(err) {
	case gateway.CodeModelUnknown, gateway.CodeModelNotAllowed:
		return err
	}
	return nil
}

// maxTitle is the length of a title in characters.
const maxTitle = 200

func cleanTitle(title string) (string, error) {
	title = strings.Join(strings.Fields(title), " ")
	switch {
	case strings.ContainsRune(title, 0):
		return "", fieldError("title", "nul", "A title must not hold the NUL character.")
	case utf8.RuneCountInString(title) > maxTitle:
		return "", fieldError("title", "max", fmt.Sprintf("A title has at most %d characters.", maxTitle))
	}
	return title, nil
}

// RenameThread gives a thread a title.
//
// Errors: not_found, bad_request.
func (s *Service) RenameThread(ctx context.Context, actor gateway.Actor, req gateway.RenameThreadRequest) error {
	title, err := cleanTitle(req.Title)
	if err != nil {
		return err
	}
	if title == "" {
		return fieldError("title", "blank", "A title needs some text.")
	}
	return s.changeThread(ctx, actor, req.ThreadID, func(u *unit, th *gateway.ThreadRow) error {
		th.Title = &title
		return u.feedEvent(ctx, gateway.FeedEvent{Kind: gateway.FeedRenamed, Title: th.Title})
	})
}

// SetModel pins the model of a thread; null goes back to the default.
//
// Errors: not_found, model_unknown, model_not_allowed.
func (s *Service) SetModel(ctx context.Context, actor gateway.Actor, req gateway.SetModelRequest) error {
	if req.Model != nil {
		if err := s.checkModel(ctx, actor, *req.Model); err != nil {
			return err
		}
	}
	return s.changeThread(ctx, actor, req.ThreadID, func(u *unit, th *gateway.ThreadRow) error {
		th.Model = req.Model
		return u.feedEvent(ctx, gateway.FeedEvent{Kind: gateway.FeedModelUpdated, Model: th.Model})
	})
}

// MarkRead notes up to where the owner has read. It never goes back, nor beyond
// the end of the log.
//
// Errors: not_found.
func (s *Service) MarkRead(ctx context.Context, actor gateway.Actor, req gateway.MarkReadRequest) error {
	return s.changeThread(ctx, actor, req.ThreadID, func(_ *unit, th *gateway.ThreadRow) error {
		th.LastReadSeq = max(th.LastReadSeq, min(req.Seq, th.LatestSeq))
		return nil
	})
}

// changeThread changes columns of a thread that is the actor's.
func (s *Service) changeThread(ctx context.Context, actor gateway.Actor, threadID string, change func(*unit, *gateway.ThreadRow) error) error {
	return s.update(ctx, func(u *unit) error {
		if err := u.LockThread(ctx, threadID); err != nil {
			return err
		}
		th, err := ownThread(ctx, u, actor, threadID)
		if err != nil {
			return err
		}
		u.of(th)
		u.touch = true
		if err := change(u, &th); err != nil {
			return err
		}
		return u.UpdateThread(ctx, th)
	})
}

// DeleteThread removes a thread with its log and queue. A turn in progress is
// cancelled at its host, whose end is waited for as for any cancelled turn; its
// usage stays booked.
//
// Errors: not_found.
func (s *Service) DeleteThread(ctx context.Context, actor gateway.Actor, req gateway.DeleteThreadRequest) error {
	return s.update(ctx, func(u *unit) error {
		if err := u.LockThread(ctx, req.ThreadID); err != nil {
			return err
		}
		th, err := ownThread(ctx, u, actor, req.ThreadID)
		if err != nil {
			return err
		}
		u.of(th)
		if err := s.dropDeliveries(ctx, u, th); err != nil {
			return err
		}
		if th.Active != nil {
			if err := s.cancelDeleted(ctx, u, th.Active.TurnID); err != nil {
				return err
			}
		}
		if err := u.EraseThread(ctx, th.ID); err != nil {
			return err
		}
		th.Title, th.DeletedAt = nil, u.now
		if err := u.UpdateThread(ctx, th); err != nil {
			return err
		}
		u.afterCommit(func() { s.admin.changed(th.OrgID, th.ID, "") })
		return u.feedEvent(ctx, gateway.FeedEvent{Kind: gateway.FeedDeleted})
	})
}

// cancelDeleted ends the turn of a thread that is being deleted: nothing of it is
// kept, so there are no events.
func (s *Service) cancelDeleted(ctx context.Context, u *unit, turnID string) error {
	t, err := u.lockTurn(ctx, turnID)
	if err != nil {
		return err
	}
	t.Reason = "thread_deleted"
	end := ending{cause: causeThreadDeleted, abandon: true}
	known, err := s.stopAtHost(ctx, u, t, end)
	if err != nil {
		return err
	}
	if known {
		t.RecoverBy = s.recoverBy(u)
	}
	text := ""
	if lt := s.lives.turn(t.ID); lt != nil {
		text = lt.shown().text
	}
	if err := s.estimate(ctx, u, &t, known, text); err != nil {
		return err
	}
	u.wakes = append(u.wakes, t.RunID)
	s.over(u, t)
	if err := u.transition(ctx, &t, end.cause, t.Reason); err != nil {
		return err
	}
	u.states = nil
	return nil
}

// List gives the actor's threads, newest first.
//
// Errors: bad_request (cursor).
func (s *Service) List(ctx context.Context, actor gateway.Actor, req gateway.ListRequest) (gateway.ListReply, error) {
	limit := req.Limit
	if limit <= 0 || limit > 100 {
		limit = 100
	}
	q := gateway.ThreadQuery{AccountID: actor.AccountID, Match: strings.TrimSpace(req.Query), Limit: limit + 1}
	reply := gateway.ListReply{Threads: []gateway.Thread{}}
	if req.Cursor != "" {
		var ok bool
		if q.BeforeAt, q.BeforeID, ok = parseCursor(req.Cursor); !ok {
			return reply, fieldError("cursor", "type", "This is no cursor of a list of threads.")
		}
	}
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		rows, err := tx.Threads(ctx, q)
		if err != nil {
			return err
		}
		if len(rows) > limit {
			rows = rows[:limit]
			last := rows[limit-1]
			reply.Next = base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf("%d %s", last.UpdatedAt, last.ID)))
		}
		for _, th := range rows {
			reply.Threads = append(reply.Threads, th.Thread())
		}
		return nil
	})
	return reply, err
}

func parseCursor(cursor string) (at int64, id string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", false
	}
	when, id, ok := strings.Cut(string(raw), " ")
	if !ok {
		return 0, "", false
	}
	at, err = strconv.ParseInt(when, 10, 64)
	return at, id, err == nil
}

// Follow gives the entries of the actor's thread feed after SinceSeq. Without it
// there are none, and LatestSeq is where to go on from.
func (s *Service) Follow(ctx context.Context, actor gateway.Actor, req gateway.FollowRequest) (gateway.FollowReply, error) {
	reply := gateway.FollowReply{Events: []gateway.FeedEvent{}}
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		var err error
		if reply.LatestSeq, err = tx.FeedHead(ctx, actor.AccountID); err != nil || req.SinceSeq == nil {
			return err
		}
		events, err := tx.Feed(ctx, actor.AccountID, *req.SinceSeq, gateway.MaxReplyEvents+1)
		if len(events) > gateway.MaxReplyEvents {
			events, reply.More = events[:gateway.MaxReplyEvents], true
		}
		reply.Events = append(reply.Events, events...)
		return err
	})
	return reply, err
}
