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

// sending is a send on its way through its checks.
type sending struct {
	actor    gateway.Actor
	req      gateway.SendRequest
	received time.Time
	hash     string
	prompt   string
	route    gateway.Route
	routeErr error
	// preset is the model of the assistant of a new thread, if the message names none.
	preset string
	// refusal is why the message may start no turn, found before it is accepted.
	refusal wire.Code
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
// Accepting is one transaction. If the thread was idle then, a second one claims
// the message; whoever claims it, also the drain after another turn, settles the
// reply. A message that a crash left between the two is claimed by Start or a
// sweep, and its reply settled with it.
//
// A sender who may start no turn is answered in the thread (disposition refused).
//
// Errors: client_event_id_in_use, not_found (thread, agent), forbidden (private
// agent, SQ14), bad_request with the field at fault, prompt_too_large,
// client_thread_id_in_use, not_recallable, model_unknown, model_not_allowed,
// route_unavailable, rate_limited (too many wait), insufficient_credits (the right
// was lost while the message was on its way, AD29), storage_unavailable.
func (s *Service) Send(ctx context.Context, actor gateway.Actor, req gateway.SendRequest) (gateway.SendReply, error) {
	reply, err := s.send(ctx, actor, req)
	if err != nil {
		s.metrics.refused(wire.CodeOf(err))
		return gateway.SendReply{}, err
	}
	s.metrics.sent(reply)
	return reply, nil
}

func (s *Service) send(ctx context.Context, actor gateway.Actor, req gateway.SendRequest) (gateway.SendReply, error) {
	m := &sending{actor: actor, req: req, received: req.ReceivedAt, hash: contentHash(req)}
	if m.received.IsZero() {
		m.received = s.now()
	}
	done, err := s.preCreate(ctx, m)
	switch {
	case err != nil:
		return gateway.SendReply{}, err
	case done.first != nil:
		return s.replay(ctx, *done.first, m)
	case !done.settled:
		return s.settleSend(ctx, done.reply, &candidate{
			orgID: actor.OrgID, threadID: done.reply.ThreadID, eventID: req.ClientEventID,
			route: m.route, routeErr: m.routeErr, origin: actor.Origin,
		})
	case m.victim != nil:
		s.drainSoon(done.reply.ThreadID) // its host may have had nothing of the victim
	}
	return done.reply, nil
}

// preCreate is all of a send before its turn is made: the look-up of its client
// event id, the checks, and the message itself.
func (s *Service) preCreate(ctx context.Context, m *sending) (done accepted, err error) {
	ctx, end := s.telemetry.start(ctx, stagePreCreate, topLevel)
	defer func() { end(err, traitSource(), traitAttachments(0)) }()
	_, found := s.telemetry.start(ctx, stageResolveEvent, nested)
	done.first, err = s.spent(ctx, m.req.ClientEventID)
	if found(err); err != nil || done.first != nil {
		return done, err
	}
	if err := s.prepare(ctx, m); err != nil {
		return done, err
	}
	return s.accept(ctx, m)
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
	var model string
	err = s.store.View(ctx, func(tx gateway.ChatTx) error {
		_, authorised := s.telemetry.start(ctx, stageAuthoriseAgent, nested)
		err := checkAgent(ctx, tx, m.actor, m.req.AgentID)
		if authorised(err); err != nil {
			return err
		}
		if m.prompt, err = checkSend(m.req); err != nil {
			return err
		}
		model, err = s.pinnedModel(ctx, tx, m)
		return err
	})
	if err != nil {
		return err
	}
	_, validated := s.telemetry.start(ctx, stageValidateModel, nested)
	if m.req.ThreadID == "" && m.req.Model == "" {
		model = s.offered(ctx, m.actor, model)
		m.preset = model
	}
	m.route, m.routeErr = s.routes.Resolve(ctx, m.actor, model)
	validated(m.routeErr)
	if m.routeErr == nil {
		err = checkOptions(m.route, m.req.Options)
	} else if !undispatched(m.routeErr) {
		err = m.routeErr
	}
	if err != nil {
		return err
	}
	_, admitted := s.telemetry.start(ctx, stageCheckAdmission, nested)
	err = s.store.View(ctx, func(tx gateway.ChatTx) (err error) {
		m.refusal, _, err = s.refusal(ctx, tx, m.actor.OrgID, m.actor.AccountID, m.route.Billing)
		return err
	})
	admitted(err)
	return err
}

// pinnedModel gives the model that a message runs on: the one that it names, else
// that of its thread, or of the assistant of a new one.
func (s *Service) pinnedModel(ctx context.Context, tx gateway.ChatTx, m *sending) (string, error) {
	if m.req.ThreadID == "" {
		if m.req.Model != "" {
			return m.req.Model, nil
		}
		return agentModel(ctx, tx, m.actor, m.req.AgentID)
	}
	_, loaded := s.telemetry.start(ctx, stageThreadSnapshot, nested)
	th, err := ownThread(ctx, tx, m.actor, m.req.ThreadID)
	loaded(err)
	if m.req.Model == "" && th.Model != nil {
		return *th.Model, err
	}
	return m.req.Model, err
}

// undispatched tells of an error of a route that only counts if the turn would
// start now, which is not known yet.
func undispatched(err error) bool {
	code := wire.CodeOf(err)
	return code == wire.CodeNoHost || code == gateway.CodeRouteUnavailable
}

// checkSend makes the checks of shape that the service owns, and renders the
// prompt.
func checkSend(r gateway.SendRequest) (string, error) {
	switch r.Mode {
	case "", gateway.ModeAuto, gateway.ModeQueue, gateway.ModeSteer, gateway.ModeInterrupt:
	default:
		return "", fieldError("mode", "enum", "The modes are auto, queue, steer and interrupt.")
	}
	if r.Now && r.Mode != gateway.ModeSteer {
		return "", fieldError("now", "unknown", "Only a steer can cut a response short.")
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
	case th.Waiting == 0 && wire.CodeOf(m.routeErr) == gateway.CodeRouteUnavailable:
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
