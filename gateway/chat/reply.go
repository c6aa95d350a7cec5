package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/gateway"
)

// The reply to a send is stored with the client event id. Accepting the message
// stores what would be answered if nothing more happened, not settled where its
// turn might start at once; it is settled once, by the claim of the message or by
// whoever comes to answer and finds that it waits. From then on it never changes,
// and every later send of the id gets it again.

// replay gives the first reply to a client event again. One that is not settled
// yet, since its sender is still at it or its process ended, is settled first.
func (s *Service) replay(ctx context.Context, first gateway.ClientEvent, m *sending) (gateway.SendReply, error) {
	reply, err := replay(first, m.actor, gateway.ClientSend, m.hash)
	if err != nil || first.Settled {
		return reply, err
	}
	again := reply
	if reply, err = s.settleSend(ctx, reply, nil); err != nil {
		return gateway.SendReply{}, err
	}
	reply.Replayed, reply.Differs = again.Replayed, again.Differs
	return reply, nil
}

// settleSend looks whether an accepted message can start, and gives the reply that
// stands from then on. The message is stored, so a sender who goes away does not
// stop it.
func (s *Service) settleSend(ctx context.Context, provisional gateway.SendReply, c *candidate) (gateway.SendReply, error) {
	ctx = context.WithoutCancel(ctx)
	var settled *gateway.SendReply
	err := s.launch(ctx, provisional.ThreadID, c, func(done claimed) {
		if done.reply != nil && done.reply.EventID == provisional.EventID {
			settled = done.reply
		}
	})
	if err != nil {
		return gateway.SendReply{}, err
	}
	if settled != nil {
		return *settled, nil
	}
	first, err := s.spent(ctx, provisional.EventID)
	if err != nil || first == nil {
		return provisional, err
	}
	if first.Settled {
		return decodeReply(*first)
	}
	return s.settleWaiting(ctx, provisional.EventID)
}

// settleWaiting settles the reply to a message that no claim of this sender took.
func (s *Service) settleWaiting(ctx context.Context, eventID string) (reply gateway.SendReply, err error) {
	err = s.update(ctx, func(u *unit) error {
		first, err := u.ClientEvent(ctx, eventID)
		if err != nil {
			return err
		}
		if reply, err = decodeReply(first); err != nil {
			return err
		}
		if err := u.LockThread(ctx, reply.ThreadID); err != nil {
			return err
		}
		if first, err = u.ClientEvent(ctx, eventID); err != nil {
			return err
		}
		if first.Settled {
			reply, err = decodeReply(first)
			return err
		}
		if reply, err = fate(ctx, u, reply); err != nil {
			return err
		}
		return u.SetClientReply(ctx, eventID, encode(reply), true)
	})
	return reply, err
}

// fate completes the reply to a message by what became of it (SQ73).
func fate(ctx context.Context, u *unit, reply gateway.SendReply) (gateway.SendReply, error) {
	c, err := follow(ctx, u, reply.EventID)
	if errors.Is(err, gateway.ErrNoRow) {
		return reply, nil // its thread was deleted
	}
	if err != nil {
		return reply, err
	}
	prompt := c.last.EventType == gateway.EventInputPrompt && c.last.TurnID != ""
	switch {
	case prompt && c.last.Mode == gateway.ModeSteer:
		reply.Disposition = gateway.DispositionSteering
	case prompt:
		t, err := u.Turn(ctx, c.last.TurnID)
		if err != nil {
			return reply, err
		}
		return answered(reply, startedReply(t)), nil
	case c.last.EventType == gateway.EventInputRejected:
		reply.Disposition = gateway.DispositionRefused
	case c.item != nil && c.item.Mode == gateway.ModeSteer:
		reply.Disposition = gateway.DispositionSteering
	}
	return reply, nil
}

// startedReply answers a message that became a turn, by how the turn began.
func startedReply(t gateway.TurnRow) gateway.SendReply {
	reply := gateway.SendReply{
		ThreadID: t.ThreadID, TurnID: &t.ID, Status: gateway.TurnPending, Disposition: gateway.DispositionStarted,
	}
	switch {
	case t.Status == gateway.TurnFailed && t.RunID == "":
		reply.Status, reply.Disposition = t.Status, gateway.DispositionFailed
	case t.Status == gateway.TurnQueued:
		reply.Status, reply.Disposition = t.Status, gateway.DispositionOrgQueued
	case t.Status == gateway.TurnRunning:
		reply.Status = t.Status
	}
	return reply
}

// answered is a reply with what another says of the turn.
func answered(reply, with gateway.SendReply) gateway.SendReply {
	reply.TurnID, reply.Status, reply.Disposition = with.TurnID, with.Status, with.Disposition
	return reply
}

// answer settles the reply to the send of a message that was claimed, in the
// transaction of the claim, unless another reply stands already.
func (s *Service) answer(ctx context.Context, u *unit, done *claimed, with gateway.SendReply) error {
	for _, id := range slices.Compact([]string{done.input.EventID, done.input.OriginID}) {
		first, err := u.ClientEvent(ctx, id)
		if err != nil && !errors.Is(err, gateway.ErrNoRow) {
			return err
		}
		if err != nil || first.Settled || first.Kind != gateway.ClientSend {
			continue
		}
		reply, err := decodeReply(first)
		if err != nil {
			return err
		}
		reply = answered(reply, with)
		done.reply = &reply
		return u.SetClientReply(ctx, id, encode(reply), true)
	}
	return nil
}

func decodeReply(first gateway.ClientEvent) (reply gateway.SendReply, err error) {
	if err := json.Unmarshal(first.Reply, &reply); err != nil {
		return reply, fmt.Errorf("decode stored reply: %w", err)
	}
	return reply, nil
}
