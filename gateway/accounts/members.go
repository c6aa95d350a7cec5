package accounts

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
)

// Members lists the accounts of the actor's org, oldest first, with what admins
// set for each; those of all orgs for an operator. It needs the admin scope.
func (s *Service) Members(ctx context.Context, actor gateway.Actor) ([]gateway.Member, error) {
	if err := requireAdmin(actor); err != nil {
		return nil, err
	}
	return s.store.Members(ctx, actor.OrgID)
}

// SetRole changes the role of a member of the actor's org. Who becomes less than an
// admin is logged out everywhere, loses all tokens, and the invitations that they
// gave out end. It needs the admin scope. Errors: forbidden, not_found, last_admin;
// bad_request with Fields.
func (s *Service) SetRole(ctx context.Context, actor gateway.Actor, accountID string, role gateway.Role) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	if !validRole(role) {
		return fieldError("role", "enum")
	}
	audit := s.actorEntry(gateway.AuditRoleChanged, actor, accountID)
	audit.Detail = string(role)
	ended, err := s.store.SetRole(ctx, actor.OrgID, accountID, role, audit)
	s.publishEnd(ended...)
	return err
}

// DisableMember keeps a member of the actor's org from logging in, ends all its
// sessions and tokens at once, and the invitations that it gave out. Its threads
// stay; messages that wait in them are not started before it is enabled again. It
// needs the admin scope. Errors: forbidden, not_found, last_admin.
func (s *Service) DisableMember(ctx context.Context, actor gateway.Actor, accountID string) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	ended, err := s.store.DisableMember(ctx, actor.OrgID, accountID, s.actorEntry(gateway.AuditMemberDisabled, actor, accountID))
	s.publishEnd(ended...)
	return err
}

// EnableMember lets a disabled member log in again, with the same password; its
// waiting messages go on. It needs the admin scope. Errors: forbidden, not_found.
func (s *Service) EnableMember(ctx context.Context, actor gateway.Actor, accountID string) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	return s.store.EnableMember(ctx, actor.OrgID, accountID, s.actorEntry(gateway.AuditMemberEnabled, actor, accountID))
}

// SetMemberLimits gives a member of the actor's org limits of its own; nil takes
// them away, and those of the org hold again. It needs the admin scope. Errors:
// forbidden, not_found; bad_request with Fields.
func (s *Service) SetMemberLimits(ctx context.Context, actor gateway.Actor, accountID string, l *gateway.Limits) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	audit := s.actorEntry(gateway.AuditMemberLimitsChanged, actor, accountID)
	audit.Detail = "as the org"
	if l != nil {
		if err := checkLimits(*l); err != nil {
			return err
		}
		audit.Detail = limitDetail(*l)
	}
	orgID, err := s.store.SetMemberLimits(ctx, actor.OrgID, accountID, l, audit)
	if err != nil {
		return err
	}
	s.limitsChanged(ctx, orgID)
	return nil
}
