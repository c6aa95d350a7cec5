package chat

import (
	"context"
	"errors"
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
		return s.settleSend(ctx, done.reply, m.candidate(done.reply.ThreadID))
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
	var at gateway.Placement
	err = s.store.View(ctx, func(tx gateway.ChatTx) error {
		_, authorised := s.telemetry.start(ctx, stageAuthoriseAgent, nested)
		err := checkAgent(ctx, tx, m.actor, m.req.AgentID)
		if authorised(err); err != nil {
			return err
		}
		if m.prompt, err = checkSend(m.req); err != nil {
			return err
		}
		if model, err = s.pinnedModel(ctx, tx, m); err != nil {
			return err
		}
		at, err = placementOf(ctx, tx, m.req.ThreadID)
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
	m.route, m.routeErr = s.routes.Resolve(ctx, m.actor, model, at)
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
	return code == wire.CodeNoHost || code == gateway.CodeRouteUnavailable || code == wire.CodeHostOffline
}

// candidate is the message with the route that was found for it; nil if it waits for
// its host to come back.
func (m *sending) candidate(threadID string) *candidate {
	if wire.CodeOf(m.routeErr) == wire.CodeHostOffline {
		return nil
	}
	return &candidate{
		orgID: m.actor.OrgID, threadID: threadID, eventID: m.req.ClientEventID,
		route: m.route, routeErr: m.routeErr,
	}
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
