package chat

import (
	"context"
	"errors"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// chain is what became of an input event.
type chain struct {
	threadID string
	item     *gateway.QueueRow // it still waits
	recalled bool
	last     gateway.Event // the newest event, if it waits no more
}

// follow goes from any event of a message's chain to its newest one. ErrNoRow
// means that there is no such event.
func follow(ctx context.Context, tx gateway.ChatTx, eventID string) (chain, error) {
	e, err := tx.Event(ctx, eventID)
	if err != nil {
		return chain{}, err
	}
	c := chain{threadID: e.ThreadID}
	for e.EventType == gateway.EventInputPrompt && e.TurnID == "" {
		q, err := tx.QueueItem(ctx, e.ID)
		if err == nil {
			c.item = &q
			return c, nil
		}
		if !errors.Is(err, gateway.ErrNoRow) {
			return c, err
		}
		e, err = tx.Revoker(ctx, e.ID)
		if errors.Is(err, gateway.ErrNoRow) {
			return c, nil
		}
		if err != nil {
			return c, err
		}
	}
	c.last = e
	c.recalled = e.EventType == gateway.EventControlRevoke && e.RevokesEventID != ""
	return c, nil
}

func errNotRecallable() error {
	return wire.NewError(gateway.CodeNotRecallable, "Only a message that still waits can be taken back.")
}

// Recall takes a waiting message back (SQ50, SQ51). RevokesEventID is any event
// of its chain. Repeating it is answered alike and appends nothing.
//
// Errors: client_event_id_in_use, not_found, not_recallable (a turn took it, or
// it belongs to another thread of the account, SQ54).
func (s *Service) Recall(ctx context.Context, actor gateway.Actor, req gateway.RecallRequest) (gateway.SendReply, error) {
	hash := hashOf(req.RevokesEventID)
	if req.ClientEventID != "" {
		first, err := s.spent(ctx, req.ClientEventID)
		if err != nil {
			return gateway.SendReply{}, err
		}
		if first != nil {
			return replay(*first, actor, gateway.ClientRecall, hash)
		}
	}
	var reply gateway.SendReply
	err := s.update(ctx, func(u *unit) error {
		var err error
		if req.ClientEventID == "" {
			reply, err = s.recall(ctx, u, actor, req)
			return err
		}
		first, fresh, err := u.ClaimClientEvent(ctx, gateway.ClientEvent{
			ID: req.ClientEventID, AccountID: actor.AccountID, Kind: gateway.ClientRecall, ContentHash: hash, CreatedAt: u.now,
		})
		if err != nil {
			return err
		}
		if !fresh {
			reply, err = replay(first, actor, gateway.ClientRecall, hash)
			return err
		}
		if reply, err = s.recall(ctx, u, actor, req); err != nil {
			return err
		}
		return u.SetClientReply(ctx, req.ClientEventID, encode(reply), true)
	})
	return reply, err
}

func (s *Service) recall(ctx context.Context, u *unit, actor gateway.Actor, req gateway.RecallRequest) (gateway.SendReply, error) {
	reply := gateway.SendReply{ThreadID: req.ThreadID, Disposition: gateway.DispositionRecalled}
	if err := u.LockThread(ctx, req.ThreadID); err != nil {
		return reply, err
	}
	th, err := ownThread(ctx, u, actor, req.ThreadID)
	if err != nil {
		return reply, err
	}
	u.of(th)
	c, err := follow(ctx, u, req.RevokesEventID)
	if err != nil {
		return reply, missing(err)
	}
	if c.threadID != th.ID {
		if _, err := ownThread(ctx, u, actor, c.threadID); err != nil {
			return reply, err
		}
		return reply, errNotRecallable()
	}
	if c.recalled {
		return reply, nil
	}
	if c.item == nil {
		return reply, errNotRecallable()
	}
	if err := u.unoffered(ctx, c.item.EventID); err != nil {
		return reply, err
	}
	if err := u.LockQueueRow(ctx, c.item.EventID); err != nil {
		return reply, err
	}
	if ok, err := u.Dequeue(ctx, c.item.EventID); err != nil {
		return reply, err
	} else if !ok {
		return reply, errNotRecallable()
	}
	e := &gateway.Event{ID: req.ClientEventID, EventType: gateway.EventControlRevoke, RevokesEventID: c.item.EventID}
	if e.ID == "" {
		e.ID = newID()
	}
	reply.EventID = e.ID
	if err := u.append(ctx, e); errors.Is(err, gateway.ErrRowExists) {
		return reply, errClientEventInUse()
	} else if err != nil {
		return reply, err
	}
	return reply, nil
}
