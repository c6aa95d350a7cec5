package chat

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// candidate is a waiting message that may become a turn, with the route that was
// found for it.
type candidate struct {
	orgID, threadID string
	eventID         string
	route           gateway.Route
	routeErr        error
}

// claimResult says what became of a candidate.
type claimResult string

// The results of a claim. Only started and refused leave a trace in the store.
const (
	claimStarted claimResult = "started" // it is a turn now: pending, queued or failed
	claimRefused claimResult = "refused" // admission refused it, in the thread
	claimBusy    claimResult = "busy"    // the thread takes no turn now
	claimMoved   claimResult = "moved"   // another message is first in line
	claimLost    claimResult = "lost"    // it was recalled or taken meanwhile (CG78)
)

// claimed is what a claim did, and the reply to the send of its message.
type claimed struct {
	result claimResult
	turn   gateway.TurnRow
	input  gateway.QueueRow
	reply  *gateway.SendReply // set if the send had none that stands yet
}

// claimHead makes a turn of a candidate, in one transaction: org, thread and queue
// row are locked in this order, and only then is it looked at whether the thread
// is idle and the message still its head. Who is too late leaves nothing behind,
// not even a used sequence number.
func (s *Service) claimHead(ctx context.Context, c candidate) (done claimed, err error) {
	err = s.update(ctx, func(u *unit) error {
		done = claimed{result: claimBusy}
		claim := u.stage(stageClaim, topLevel)
		waited := u.stage(stageAdmissionLockWait, nested)
		if err := u.LockOrg(ctx, c.orgID); err != nil {
			return err
		}
		waited()
		if err := u.LockThread(ctx, c.threadID); err != nil {
			return err
		}
		th, err := u.Thread(ctx, c.threadID)
		if err != nil || !idle(th) {
			return err
		}
		u.of(th)
		done.result = claimLost
		head, err := u.QueueHead(ctx, c.threadID)
		if errors.Is(err, gateway.ErrNoRow) {
			claim(done.traits()...)
			return nil
		}
		if err != nil {
			return err
		}
		if head.EventID != c.eventID {
			done.result = claimMoved
			return nil
		}
		if offered, err := s.holdOffered(ctx, u, head); err != nil || offered {
			done.result = claimBusy
			return err
		}
		done, err = s.claim(ctx, u, th, head, c)
		claim(done.traits()...)
		return err
	})
	return done, err
}

// idle tells whether a thread may take a turn: none is active, none that was
// cancelled waits for its host's end (CG81) or for a delivery (SQ35), and its owner is
// not disabled.
func idle(th gateway.ThreadRow) bool {
	return th.Active == nil && !th.Recovering && !th.Disabled && th.DeletedAt == 0
}

// claim takes a waiting message out of the queue and makes the turn that it
// becomes: turn, replacement event, run, binding and command. Without a route the
// turn is stored as failed at once (SQ60, SQ61), so that the person sees why; at
// a limit of its org it is stored as queued (SQ56). The caller holds the locks and
// has found the thread idle.
func (s *Service) claim(ctx context.Context, u *unit, th gateway.ThreadRow, q gateway.QueueRow, c candidate) (claimed, error) {
	done := claimed{result: claimLost, input: q}
	if q.EventID == "" {
		return done, wire.NewError(gateway.CodeQueueAssociationRequired, "A turn needs the waiting message that it takes.")
	}
	resolved := u.stage(stageResolveClaim, nested)
	if err := u.LockQueueRow(ctx, q.EventID); err != nil {
		return done, err
	}
	if ok, err := u.Dequeue(ctx, q.EventID); err != nil || !ok {
		return done, err
	}
	input, err := u.Event(ctx, q.EventID)
	if err != nil {
		return done, fmt.Errorf("claim %s: %w", q.EventID, err)
	}
	resolved(traitAssociation())
	admitted := u.stage(stageResolveAdmission, nested)
	code, admission, err := s.refusal(ctx, u, th.OrgID, th.AccountID, c.route.Billing)
	if err != nil {
		return done, err
	}
	admitted()
	if code != "" {
		done.result = claimRefused
		if err := s.reject(ctx, u, input, code, q.Origin); err != nil {
			return done, err
		}
		err := s.answer(ctx, u, &done, gateway.SendReply{Disposition: gateway.DispositionRefused})
		return done, err
	}
	done.result = claimStarted
	launched := u.stage(stageLaunch, nested)
	if done.turn, err = s.makeTurn(ctx, u, th, q, input, c, admission); err != nil {
		return done, err
	}
	launched()
	err = s.answer(ctx, u, &done, startedReply(done.turn))
	return done, err
}

// makeTurn stores the turn of a message that was taken out of the queue.
func (s *Service) makeTurn(ctx context.Context, u *unit, th gateway.ThreadRow, q gateway.QueueRow, input gateway.Event, c candidate, a gateway.Admission) (gateway.TurnRow, error) {
	t := gateway.TurnRow{
		ID: newID(), OrgID: th.OrgID, AccountID: th.AccountID, ThreadID: th.ID, InputEventID: q.EventID, CreatedAt: u.now,
		Model: c.route.Model, Route: c.route.ModelProviderID, Billing: string(c.route.Billing), Family: c.route.Family,
	}
	if c.routeErr != nil {
		t.Model, t.Error = q.Model, endCode(wire.CodeOf(c.routeErr))
		if err := s.insertTurn(ctx, u, &t, q, input, causeNoRoute); err != nil {
			return t, err
		}
		return t, u.append(ctx, &gateway.Event{ID: newID(), EventType: gateway.EventTurnFailed, TurnID: t.ID, Error: t.Error})
	}
	wait, err := s.mustWait(ctx, u, th.OrgID, th.AccountID, a)
	if err != nil {
		return t, err
	}
	body, err := s.bind(ctx, u, &t, q, c.route)
	if err != nil {
		return t, err
	}
	command := gateway.CommandRow{RunID: t.RunID, Kind: wire.TypePromptRequest, Body: body, State: gateway.CommandPending, CreatedAt: u.now}
	command.TurnID = t.ID
	why := causeClaimed
	if wait {
		why, command.State, t.MarkerEventID = causeOrgFull, gateway.CommandParked, newID()
	}
	if err := s.insertTurn(ctx, u, &t, q, input, why); err != nil {
		return t, err
	}
	if wait {
		if err := s.markWaiting(ctx, u, t); err != nil {
			return t, err
		}
		if err := u.recordEnqueue(ctx, t); err != nil {
			return t, err
		}
	} else {
		u.wakes = append(u.wakes, t.RunID)
	}
	u.stage(stageCallbacks, nested)(traitInternalCallbacks(1), traitHTTPCallbacks(0))
	u.afterCommit(func() {
		s.lives.add(s.newLive(t))
		if wait {
			s.waiting.add(t.OrgID, t.ID)
		}
	})
	_, err = u.AppendCommand(ctx, command)
	return t, err
}

// insertTurn stores the turn and the replacement event that binds its message.
func (s *Service) insertTurn(ctx context.Context, u *unit, t *gateway.TurnRow, q gateway.QueueRow, input gateway.Event, why cause) error {
	detail := t.Route
	if t.Error != "" {
		detail = string(t.Error)
	}
	before := []mark{{at: q.ReceivedAt, stage: "received"}, {at: q.CreatedAt, stage: "queued"}}
	if err := u.transition(ctx, t, why, detail, before...); err != nil {
		return err
	}
	persisted := u.stage(stagePersistReplace, nested)
	err := u.append(ctx, &gateway.Event{
		ID: newID(), EventType: gateway.EventInputPrompt, TurnID: t.ID,
		RevokesEventID: q.EventID, OriginID: originOf(q), UserMessage: onModel(input.UserMessage, t.Model),
	})
	persisted(traitAssociation())
	return err
}

// originOf names the client's event on a replacement when it is not the one that
// the replacement revokes.
func originOf(q gateway.QueueRow) string {
	if q.OriginID == q.EventID {
		return ""
	}
	return q.OriginID
}

// onModel is a message as its turn takes it: model parts of the client are gone,
// and the model that it runs on, if there is one, stands last (CG68).
func onModel(m *gateway.UserMessage, model string) *gateway.UserMessage {
	if m == nil {
		return nil
	}
	taken := &gateway.UserMessage{Version: m.Version, Parts: make([]gateway.Part, 0, len(m.Parts)+1)}
	for _, p := range m.Parts {
		if p.Type != partModel {
			taken.Parts = append(taken.Parts, p)
		}
	}
	if model != "" {
		taken.Parts = append(taken.Parts, gateway.Part{Type: partModel, SelectedModel: model})
	}
	return taken
}

// drainSoon looks at a thread in the background: see drain.
func (s *Service) drainSoon(threadID string) {
	s.spawn(func(ctx context.Context) {
		if err := s.drain(ctx, threadID); err != nil && ctx.Err() == nil {
			s.log.Error("a waiting message could not be started; the next sweep tries again", "thread", threadID, "error", err)
		}
	})
}

// drainIdle drains every idle thread in which something waits.
func (s *Service) drainIdle(ctx context.Context) error {
	var idle []string
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		idle, err = tx.IdleThreads(ctx, 1000)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for idle threads: %w", err)
	}
	for _, id := range idle {
		if err := s.drain(ctx, id); err != nil {
			s.log.Error("a waiting message could not be started; the next sweep tries again", "thread", id, "error", err)
		}
	}
	return nil
}

// drain starts the head of an idle thread's queue (FIFO within a rank, one
// message for a turn). It does nothing if the thread is not idle; each end of a
// turn, each start of the program and each sweep comes through here.
func (s *Service) drain(ctx context.Context, threadID string) error {
	return s.launch(ctx, threadID, nil, func(claimed) {})
}

// launch is drain with a first candidate, if there is one, whose route is known;
// done is told of every claim. After Rest it claims nothing.
func (s *Service) launch(ctx context.Context, threadID string, first *candidate, done func(claimed)) error {
	for !s.resting.Load() {
		c, err := first, error(nil)
		if first = nil; c == nil {
			c, err = s.next(ctx, threadID)
		}
		if err != nil || c == nil {
			return err
		}
		claim, err := s.claimHead(ctx, *c)
		if err != nil {
			return err
		}
		done(claim)
		// A turn that failed at once leaves the thread idle for the next.
		if claim.result == claimBusy || (claim.result == claimStarted && !claim.turn.Status.Final()) {
			return nil
		}
	}
	return nil
}

// next gives the head of the queue with its route, if the thread could start it.
func (s *Service) next(ctx context.Context, threadID string) (*candidate, error) {
	var th gateway.ThreadRow
	var head gateway.QueueRow
	var at gateway.Placement
	err := s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		if th, err = tx.Thread(ctx, threadID); err != nil {
			return err
		}
		if !idle(th) || th.Waiting == 0 {
			return gateway.ErrNoRow
		}
		if head, err = tx.QueueHead(ctx, threadID); err != nil {
			return err
		}
		at, err = placementOf(ctx, tx, threadID)
		return err
	})
	if errors.Is(err, gateway.ErrNoRow) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &candidate{orgID: th.OrgID, threadID: threadID, eventID: head.EventID}
	_, pinned := s.telemetry.start(ctx, stageModelPin, nested)
	model := head.Model
	if model == "" && th.Model != nil {
		model = *th.Model
	}
	c.route, c.routeErr = s.routes.Resolve(ctx, gateway.Actor{AccountID: th.AccountID, OrgID: th.OrgID}, model, at)
	pinned(c.routeErr)
	if c.routeErr != nil && (transient(c.routeErr) || s.settling()) {
		s.log.Debug("no route for a waiting message yet", "thread", threadID, "error", c.routeErr)
		return nil, nil
	}
	return c, nil
}

// settling tells whether the program has started so lately that a route may be
// missing only because its host is not back yet.
func (s *Service) settling() bool {
	return !s.started.IsZero() && s.now().Sub(s.started) < s.limits.RouteGrace
}

// transient tells whether a message should wait rather than fail for an error of
// its route.
func transient(err error) bool {
	switch wire.CodeOf(err) {
	case "", wire.CodeNoHost, gateway.CodeRouteUnavailable, gateway.CodeModelUnknown, gateway.CodeModelNotAllowed:
		return false
	}
	return true
}
