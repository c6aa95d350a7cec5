package chat

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fairlead/fairlead/gateway"
)

// Turns that wait for their org (SQ56–SQ59). A turn that would exceed what its org
// or its member may run at once is made all the same, as queued, with a command
// that no host is told yet, and the marker turn.queued in its thread. Whenever a
// place may have become free (a turn ended, limits were raised, a sweep, Start),
// Promote lets the oldest ones go on. A marker is revoked by exactly one
// turn.dequeued: when its turn goes on, or right before the terminal event of one
// that never did.

// The markers of the org queue, and the text that stands in the thread meanwhile.
const (
	markerQueued   = "queue:queued"
	markerDequeued = "queue:dequeued"
	waitingText    = "Waiting for a free place. Your organisation runs as many turns at once as it may; this one starts by itself."
)

// maxQueuedTurns bounds what is read of an org's queue at once.
const maxQueuedTurns = 10_000

// orgWaits knows in which orgs turns wait, so that the end of a turn anywhere else
// costs nothing.
type orgWaits struct {
	mu    sync.Mutex
	byOrg map[string]map[string]struct{} // org → turns
}

func newOrgWaits() *orgWaits { return &orgWaits{byOrg: make(map[string]map[string]struct{})} }

func (w *orgWaits) add(orgID, turnID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byOrg[orgID] == nil {
		w.byOrg[orgID] = make(map[string]struct{})
	}
	w.byOrg[orgID][turnID] = struct{}{}
}

func (w *orgWaits) remove(orgID, turnID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byOrg[orgID], turnID)
	if len(w.byOrg[orgID]) == 0 {
		delete(w.byOrg, orgID)
	}
}

func (w *orgWaits) any(orgID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byOrg[orgID]) > 0
}

// places counts what an org and its members have room for. It is right while the
// org's lock is held.
type places struct {
	s      *Service
	tx     gateway.ChatTx
	orgID  string
	taken  int // by those that take found room for
	member map[string]*memberPlaces
}

type memberPlaces struct {
	admission gateway.Admission
	load      gateway.Load
	taken     int
}

func (s *Service) placesOf(tx gateway.ChatTx, orgID string) *places {
	return &places{s: s, tx: tx, orgID: orgID, member: make(map[string]*memberPlaces)}
}

// take takes a place for a turn of the account, if there is one; for one that is
// disabled there is none.
func (p *places) take(ctx context.Context, accountID string) (bool, error) {
	m := p.member[accountID]
	if m == nil {
		m = &memberPlaces{}
		var err error
		if m.admission, err = admissionOf(ctx, p.tx, p.orgID, accountID); err != nil {
			return false, err
		}
		if m.load, err = p.tx.Load(ctx, p.orgID, accountID, never); err != nil {
			return false, err
		}
		p.member[accountID] = m
	}
	org, member := p.s.orgLimit(m.admission), p.s.memberLimit(m.admission)
	if m.admission.Disabled || (org > 0 && m.load.OrgActive+p.taken >= org) || (member > 0 && m.load.MemberActive+m.taken >= member) {
		return false, nil
	}
	p.taken++
	m.taken++
	return true, nil
}

// mustWait tells whether a new turn has to wait for its org: there is no place, or
// none besides those of turns that wait already.
func (s *Service) mustWait(ctx context.Context, tx gateway.ChatTx, orgID, accountID string, a gateway.Admission) (bool, error) {
	if s.orgLimit(a) == 0 && s.memberLimit(a) == 0 {
		return false, nil
	}
	p := s.placesOf(tx, orgID)
	queued, err := tx.QueuedTurns(ctx, orgID, maxQueuedTurns)
	if err != nil {
		return false, err
	}
	for _, t := range queued {
		if _, err := p.take(ctx, t.AccountID); err != nil {
			return false, err
		}
	}
	free, err := p.take(ctx, accountID)
	return !free, err
}

// orgLimit is how many turns an org may run at once; 0 is any number.
func (s *Service) orgLimit(a gateway.Admission) int {
	if a.OrgTurns > 0 {
		return a.OrgTurns
	}
	return s.limits.OrgConcurrentTurns
}

// memberLimit is how many turns a member may run at once; 0 is any number.
func (s *Service) memberLimit(a gateway.Admission) int {
	if a.MemberTurns > 0 {
		return a.MemberTurns
	}
	return s.limits.MemberConcurrentTurns
}

// markWaiting appends the marker of a turn that waits for its org.
func (s *Service) markWaiting(ctx context.Context, u *unit, t gateway.TurnRow) error {
	text := waitingText
	e := &gateway.Event{ID: t.MarkerEventID, EventType: gateway.EventTurnQueued, TurnID: t.ID, Content: &text, Marker: markerQueued}
	s.html.prepare([]*gateway.Event{e})
	return u.append(ctx, e)
}

// unmark makes the event that revokes the marker of a turn that waits for its org,
// if it is one.
func unmark(t gateway.TurnRow) []*gateway.Event {
	if t.Status != gateway.TurnQueued || t.MarkerEventID == "" {
		return nil
	}
	return []*gateway.Event{{
		ID: newID(), EventType: gateway.EventTurnDequeued, TurnID: t.ID, RevokesEventID: t.MarkerEventID, Marker: markerDequeued,
	}}
}

// Promote lets turns of an org go on that wait for it, the oldest first, as far as
// there is room; those of a member at its own limit, or disabled, are passed over. It
// is called by itself when a turn ends; call it when limits were raised. After Rest it
// does nothing.
func (s *Service) Promote(ctx context.Context, orgID string) error {
	for !s.resting.Load() {
		more, err := s.promoteNext(ctx, orgID)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// promoteNext promotes one turn: a transaction is about one thread.
func (s *Service) promoteNext(ctx context.Context, orgID string) (more bool, err error) {
	err = s.update(ctx, func(u *unit) error {
		more = false
		if err := u.LockOrg(ctx, orgID); err != nil {
			return err
		}
		queued, err := u.QueuedTurns(ctx, orgID, maxQueuedTurns)
		if err != nil {
			return err
		}
		p := s.placesOf(u, orgID)
		for _, t := range queued {
			free, err := p.take(ctx, t.AccountID)
			if err != nil {
				return err
			}
			if free {
				more = true
				return s.promote(ctx, u, t.ID)
			}
		}
		return nil
	})
	return more, err
}

func (s *Service) promote(ctx context.Context, u *unit, turnID string) error {
	t, err := u.lockTurn(ctx, turnID)
	if err != nil {
		return err
	}
	if t.Status != gateway.TurnQueued {
		return nil // its owner was faster
	}
	cmds, err := u.TurnCommands(ctx, t.ID)
	if err != nil {
		return err
	}
	for _, c := range cmds {
		if c.State != gateway.CommandParked {
			continue
		}
		if err := u.SetCommand(ctx, c.RunID, c.Seq, gateway.CommandPending, ""); err != nil {
			return err
		}
	}
	if err := u.append(ctx, unmark(t)...); err != nil {
		return err
	}
	if err := u.transition(ctx, &t, causeSlotFreed, ""); err != nil {
		return err
	}
	u.wakes = append(u.wakes, t.RunID)
	now := u.now
	u.afterCommit(func() {
		s.waiting.remove(t.OrgID, t.ID)
		if lt := s.lives.turn(t.ID); lt != nil {
			lt.pend(now)
		}
	})
	return nil
}

// promoteSoon promotes in the background if turns of the org wait. It is for the
// writer's goroutine, which must not wait.
func (s *Service) promoteSoon(orgID string) {
	if !s.waiting.any(orgID) {
		return
	}
	s.spawn(func(ctx context.Context) {
		if err := s.Promote(ctx, orgID); err != nil && ctx.Err() == nil {
			s.log.Error("turns that wait for their org could not go on; the next sweep tries again", "org", orgID, "error", err)
		}
	})
}

// promoteAll promotes in every org in which turns wait.
func (s *Service) promoteAll(ctx context.Context) error {
	var orgs []string
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		orgs, err = tx.WaitingOrgs(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for orgs in which turns wait: %w", err)
	}
	var errs []error
	for _, id := range orgs {
		if err := s.Promote(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("promote turns of org %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// OrgQueue lists the turns that wait for the actor's org, oldest first. Those of
// others are there without their thread.
func (s *Service) OrgQueue(ctx context.Context, actor gateway.Actor) (gateway.OrgQueueReply, error) {
	reply := gateway.OrgQueueReply{Queue: []gateway.OrgQueueItem{}}
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		queued, err := tx.QueuedTurns(ctx, actor.OrgID, maxQueuedTurns)
		for _, t := range queued {
			item := gateway.OrgQueueItem{TurnID: t.ID, CreatedAt: gateway.Millis(t.CreatedAt)}
			if t.AccountID == actor.AccountID {
				item.ThreadID = t.ThreadID
			}
			reply.Queue = append(reply.Queue, item)
		}
		return err
	})
	return reply, err
}
