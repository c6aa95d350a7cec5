package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Agents lists the assistants that the actor may use: the org's, the default one
// first, and the actor's own private ones.
func (s *Service) Agents(ctx context.Context, actor gateway.Actor) (gateway.AgentsReply, error) {
	reply := gateway.AgentsReply{Agents: []gateway.Agent{}}
	rows, err := s.visibleAgents(ctx, actor)
	for _, a := range rows {
		reply.Agents = append(reply.Agents, agentFor(a, actor))
	}
	return reply, err
}

// visibleAgents reads what the actor may see. The default assistant is made when
// somebody first asks for it.
func (s *Service) visibleAgents(ctx context.Context, actor gateway.Actor) (rows []gateway.AgentRow, err error) {
	read := func(tx gateway.ChatTx) (err error) {
		rows, err = tx.Agents(ctx, actor.OrgID, actor.AccountID)
		return err
	}
	if err := s.store.View(ctx, read); err != nil || (len(rows) > 0 && rows[0].Default) {
		return rows, err
	}
	err = s.update(ctx, func(u *unit) error {
		if _, err := s.defaultAgent(ctx, u, actor.OrgID); err != nil {
			return err
		}
		return read(u)
	})
	return rows, err
}

// defaultAgent gives the assistant that every org has.
func (s *Service) defaultAgent(ctx context.Context, u *unit, orgID string) (gateway.AgentRow, error) {
	if err := u.LockOrg(ctx, orgID); err != nil {
		return gateway.AgentRow{}, err
	}
	return u.DefaultAgent(ctx, orgID, newID(), u.now)
}

// Agent gives one assistant.
//
// Errors: not_found, forbidden (another member's private one, SQ14).
func (s *Service) Agent(ctx context.Context, actor gateway.Actor, req gateway.AgentRequest) (gateway.AgentReply, error) {
	var reply gateway.AgentReply
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		a, err := usableAgent(ctx, tx, actor, req.AgentID)
		reply.Agent = agentFor(a, actor)
		return err
	})
	return reply, err
}

// CreateAgent makes an assistant that belongs to the actor.
//
// Errors: bad_request (displayName, visibility), model_unknown,
// model_not_allowed, rate_limited (the actor has MaxAgentsPerAccount).
func (s *Service) CreateAgent(ctx context.Context, actor gateway.Actor, req gateway.CreateAgentRequest) (gateway.AgentReply, error) {
	var reply gateway.AgentReply
	name, err := cleanAgentName(req.DisplayName)
	if err != nil {
		return reply, err
	}
	if err := checkVisibility(req.Visibility); err != nil {
		return reply, err
	}
	if err := s.checkModel(ctx, actor, req.Model); err != nil {
		return reply, err
	}
	err = s.update(ctx, func(u *unit) error {
		if err := u.LockOrg(ctx, actor.OrgID); err != nil {
			return err
		}
		if err := checkAgentCount(ctx, u, actor); err != nil {
			return err
		}
		a := gateway.AgentRow{
			ID: newID(), OrgID: actor.OrgID, OwnerID: actor.AccountID, Name: name,
			Description: strings.TrimSpace(req.Description), Instructions: strings.TrimSpace(req.Instructions),
			Model: req.Model, Private: req.Visibility != gateway.VisibilityOrg, CreatedAt: u.now, UpdatedAt: u.now,
		}
		reply.Agent = agentFor(a, actor)
		return u.InsertAgent(ctx, a)
	})
	return reply, err
}

// UpdateAgent changes an assistant: its owner may, and admins those that the
// whole org sees. An absent field stays as it is.
//
// Errors: not_found, forbidden, bad_request (displayName; visibility of the
// default assistant), model_unknown, model_not_allowed.
func (s *Service) UpdateAgent(ctx context.Context, actor gateway.Actor, req gateway.UpdateAgentRequest) (gateway.AgentReply, error) {
	var reply gateway.AgentReply
	err := s.store.View(ctx, func(tx gateway.ChatTx) error {
		_, err := changeableAgent(ctx, tx, actor, req.AgentID)
		return err
	})
	if err != nil {
		return reply, err
	}
	if req.Model != nil {
		if err := s.checkModel(ctx, actor, *req.Model); err != nil {
			return reply, err
		}
	}
	err = s.update(ctx, func(u *unit) error {
		if err := u.LockOrg(ctx, actor.OrgID); err != nil {
			return err
		}
		a, err := changeableAgent(ctx, u, actor, req.AgentID)
		if err != nil {
			return err
		}
		if err := applyAgent(&a, req); err != nil {
			return err
		}
		a.UpdatedAt = u.now
		reply.Agent = agentFor(a, actor)
		return u.UpdateAgent(ctx, a)
	})
	return reply, err
}

// DeleteAgent takes an assistant away. Threads that name it go on as if they
// named the default one; nothing new can name it. Who may: see UpdateAgent.
//
// Errors: not_found, forbidden (also the default assistant).
func (s *Service) DeleteAgent(ctx context.Context, actor gateway.Actor, req gateway.AgentRequest) error {
	return s.update(ctx, func(u *unit) error {
		if err := u.LockOrg(ctx, actor.OrgID); err != nil {
			return err
		}
		a, err := changeableAgent(ctx, u, actor, req.AgentID)
		if err != nil {
			return err
		}
		if a.Default {
			return wire.NewError(wire.CodeForbidden, "The default assistant stays.")
		}
		a.UpdatedAt, a.DeletedAt = u.now, u.now
		return u.UpdateAgent(ctx, a)
	})
}

// usableAgent reads an assistant that the actor may use. One that does not exist
// or was deleted is not_found, another member's private one forbidden, in this
// order (SQ13, SQ14).
func usableAgent(ctx context.Context, tx gateway.ChatTx, actor gateway.Actor, agentID string) (gateway.AgentRow, error) {
	a, err := tx.Agent(ctx, actor.OrgID, agentID)
	switch {
	case err != nil:
		return gateway.AgentRow{}, missing(err)
	case a.DeletedAt != 0:
		return gateway.AgentRow{}, errNotFound()
	case a.Private && a.OwnerID != actor.AccountID:
		return gateway.AgentRow{}, wire.NewError(wire.CodeForbidden, "This assistant is private to another member.")
	}
	return a, nil
}

// changeableAgent is usableAgent for who may change it.
func changeableAgent(ctx context.Context, tx gateway.ChatTx, actor gateway.Actor, agentID string) (gateway.AgentRow, error) {
	a, err := usableAgent(ctx, tx, actor, agentID)
	if err == nil && !mayChange(a, actor) {
		err = wire.NewError(wire.CodeForbidden, "Only its owner or an admin may change this assistant.")
	}
	return a, err
}

// mayChange tells whether an assistant that the actor may use is theirs to
// change, and so whether they see its instructions.
func mayChange(a gateway.AgentRow, actor gateway.Actor) bool {
	if a.OwnerID == actor.AccountID {
		return true
	}
	return !a.Private && actor.Role == gateway.RoleAdmin && actor.May(gateway.ScopeAdmin)
}

// checkAgent refuses an assistant that the actor may not use; "" is the default.
func checkAgent(ctx context.Context, tx gateway.ChatTx, actor gateway.Actor, agentID string) error {
	if agentID == "" {
		return nil
	}
	_, err := usableAgent(ctx, tx, actor, agentID)
	return err
}

// threadAgent gives the assistant that a thread of the account is answered by:
// its own, or the default one if that was deleted or taken back by its owner.
func threadAgent(ctx context.Context, u *unit, orgID, accountID, agentID string) (gateway.AgentRow, error) {
	a, err := u.Agent(ctx, orgID, agentID)
	if err == nil && a.DeletedAt == 0 && (!a.Private || a.OwnerID == accountID) {
		return a, nil
	}
	if err != nil && !errors.Is(err, gateway.ErrNoRow) {
		return a, err
	}
	return u.DefaultAgent(ctx, orgID, newID(), u.now)
}

// agentModel gives the model that an assistant has for new threads, "" for none;
// agentID "" is the default one.
func agentModel(ctx context.Context, tx gateway.ChatTx, actor gateway.Actor, agentID string) (string, error) {
	if agentID != "" {
		a, err := usableAgent(ctx, tx, actor, agentID)
		return a.Model, err
	}
	rows, err := tx.Agents(ctx, actor.OrgID, actor.AccountID)
	if err != nil || len(rows) == 0 || !rows[0].Default {
		return "", err
	}
	return rows[0].Model, nil
}

// offered is a model, or "" if it is not offered any more: nobody has to mend an
// assistant before they can write.
func (s *Service) offered(ctx context.Context, actor gateway.Actor, model string) string {
	if s.checkModel(ctx, actor, model) != nil {
		return ""
	}
	return model
}

func applyAgent(a *gateway.AgentRow, req gateway.UpdateAgentRequest) error {
	if req.DisplayName != nil {
		name, err := cleanAgentName(*req.DisplayName)
		if err != nil {
			return err
		}
		a.Name = name
	}
	if req.Description != nil {
		a.Description = strings.TrimSpace(*req.Description)
	}
	if req.Instructions != nil {
		a.Instructions = strings.TrimSpace(*req.Instructions)
	}
	if req.Model != nil {
		a.Model = *req.Model
	}
	if req.Visibility == nil {
		return nil
	}
	if err := checkVisibility(*req.Visibility); err != nil {
		return err
	}
	private := *req.Visibility == gateway.VisibilityPrivate
	if a.Default && private {
		return fieldError("visibility", "enum", "The default assistant is everybody's.")
	}
	a.Private = private
	return nil
}

func checkVisibility(v gateway.Visibility) error {
	switch v {
	case "", gateway.VisibilityOrg, gateway.VisibilityPrivate:
		return nil
	}
	return fieldError("visibility", "enum", "The visibilities are org and private.")
}

// cleanAgentName trims a name; it stands on one line.
func cleanAgentName(name string) (string, error) {
	name = strings.Join(strings.Fields(name), " ")
	if name == "" {
		return "", fieldError("displayName", "blank", "A name needs some text.")
	}
	return name, nil
}

func checkAgentCount(ctx context.Context, u *unit, actor gateway.Actor) error {
	rows, err := u.Agents(ctx, actor.OrgID, actor.AccountID)
	if err != nil {
		return err
	}
	own := 0
	for _, a := range rows {
		if a.OwnerID == actor.AccountID {
			own++
		}
	}
	if own < gateway.MaxAgentsPerAccount {
		return nil
	}
	e := wire.NewError(wire.CodeRateLimited,
		fmt.Sprintf("You have %d assistants already: delete one that you do not need.", gateway.MaxAgentsPerAccount))
	e.Limit, e.Retryable = gateway.MaxAgentsPerAccount, false
	return e
}

// agentFor is an assistant as the actor sees it: instructions are for those alone
// who may change them.
func agentFor(a gateway.AgentRow, actor gateway.Actor) gateway.Agent {
	mine := mayChange(a, actor)
	out := gateway.Agent{
		ID: a.ID, DisplayName: a.Name, Description: a.Description, Model: a.Model, Visibility: gateway.VisibilityOrg,
		Default: a.Default, Mine: mine, CreatedAt: gateway.Millis(a.CreatedAt), UpdatedAt: gateway.Millis(a.UpdatedAt),
	}
	if a.Private {
		out.Visibility = gateway.VisibilityPrivate
	}
	if mine {
		out.Instructions = a.Instructions
	}
	return out
}
