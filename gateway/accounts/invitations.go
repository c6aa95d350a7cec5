package accounts

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// InvitationTTL is how long an invitation can be used.
const InvitationTTL = 7 * 24 * time.Hour

// NewInvitation describes an invitation to make.
type NewInvitation struct {
	Email string
	Role  gateway.Role // "" is member
	// Org is the name of an org, for an operator alone, as in NewUser.
	Org string
}

// Invite makes an invitation to the actor's org and gives the secret of its link,
// which is not to be had again. One that stands for the same email is revoked. It
// needs the admin scope. Errors: forbidden; bad_request with Fields, also for an
// email that has an account; not_found for an unknown Org.
func (s *Service) Invite(ctx context.Context, actor gateway.Actor, req NewInvitation) (secret string, inv gateway.Invitation, err error) {
	if err := requireAdmin(actor); err != nil {
		return "", gateway.Invitation{}, err
	}
	if req.Role == "" {
		req.Role = gateway.RoleMember
	}
	email, err := checkInvitation(req)
	if err != nil {
		return "", gateway.Invitation{}, err
	}
	now := s.now()
	secret = newSecret("")
	inv = gateway.Invitation{
		ID: newID(), OrgID: actor.OrgID, Email: email, Role: req.Role, SecretHash: hashSecret(secret),
		CreatedBy: actor.AccountID, CreatedAt: now, ExpiresAt: now.Add(InvitationTTL),
	}
	audit := s.actorEntry(gateway.AuditInvited, actor, inv.ID)
	audit.Detail = string(req.Role)
	inv, err = s.store.PutInvitation(ctx, inv, req.Org, s.freshOrg(req.Org), audit)
	if err != nil {
		return "", gateway.Invitation{}, emailFault(err)
	}
	return secret, inv, nil
}

func checkInvitation(req NewInvitation) (email string, err error) {
	var faults faultList
	email, ok := normaliseEmail(req.Email)
	switch {
	case strings.TrimSpace(req.Email) == "":
		faults.add("email", "required")
	case !ok:
		faults.add("email", "type")
	}
	if !validRole(req.Role) {
		faults.add("role", "enum")
	}
	return email, faults.err()
}

func validRole(r gateway.Role) bool { return r == gateway.RoleMember || r == gateway.RoleAdmin }

// Invitations lists the invitations of the actor's org that were neither used nor
// revoked, newest first, also those that expired; of all orgs for an operator. It
// needs the admin scope.
func (s *Service) Invitations(ctx context.Context, actor gateway.Actor) ([]gateway.Invitation, error) {
	if err := requireAdmin(actor); err != nil {
		return nil, err
	}
	return s.store.Invitations(ctx, actor.OrgID)
}

// RevokeInvitation makes the link of an invitation useless. It needs the admin
// scope. Errors: forbidden; not_found, also for one that was used or revoked.
func (s *Service) RevokeInvitation(ctx context.Context, actor gateway.Actor, id string) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	return s.store.RevokeInvitation(ctx, actor.OrgID, id, s.actorEntry(gateway.AuditInvitationRevoked, actor, id))
}

// CheckInvitation tells what an invitation is for, without using it up. Errors:
// invitation_invalid.
func (s *Service) CheckInvitation(ctx context.Context, secret string) (gateway.Invitation, gateway.Org, error) {
	inv, err := s.store.InvitationBySecret(ctx, hashSecret(secret), s.now())
	if wire.CodeOf(err) == wire.CodeNotFound {
		return gateway.Invitation{}, gateway.Org{}, InvitationInvalid()
	}
	if err != nil {
		return gateway.Invitation{}, gateway.Org{}, err
	}
	org, err := s.store.Org(ctx, inv.OrgID)
	return inv, org, err
}

// AcceptRequest uses an invitation.
type AcceptRequest struct {
	Secret   string
	Name     string
	Password string
	Address  string
	// Replaces is as in LoginRequest.
	Replaces string
}

// AcceptInvitation uses up an invitation, creates its account in one transaction,
// and logs the person in. Errors, all of which leave the invitation as it was:
// invitation_invalid; bad_request with Fields, of which email is set if it has got
// an account since; rate_limited with RetryAfter.
func (s *Service) AcceptInvitation(ctx context.Context, req AcceptRequest) (Session, error) {
	if err := s.throttleLogin(ctx, req.Address, ""); err != nil {
		return Session{}, err
	}
	inv, _, err := s.CheckInvitation(ctx, req.Secret)
	if err != nil {
		return Session{}, err
	}
	name, _, err := checkPerson(req.Name, inv.Email, req.Password)
	if err != nil {
		return Session{}, err
	}
	hash, err := s.passwords.Hash(ctx, normalisePassword(req.Password))
	if err != nil {
		return Session{}, err
	}
	acc := gateway.StoredAccount{
		Account:      gateway.Account{ID: newID(), Name: name},
		PasswordHash: hash, CreatedAt: s.now(),
	}
	created, err := s.store.AcceptInvitation(ctx, inv.SecretHash, acc, s.entry(gateway.AuditJoined, acc.Account, req.Address))
	switch {
	case errors.Is(err, gateway.ErrEmailTaken):
		return Session{}, emailFault(err)
	case wire.CodeOf(err) == gateway.CodeInvitationInvalid:
		return Session{}, InvitationInvalid()
	case err != nil:
		return Session{}, err
	}
	return s.startSession(ctx, created, req.Replaces, s.entry(gateway.AuditLogin, created, req.Address))
}

// InvitationInvalid is the answer to an invitation that was used, revoked, replaced
// by a newer one, has expired or was never given out: which of them is not told.
func InvitationInvalid() error {
	return wire.NewError(gateway.CodeInvitationInvalid,
		"This invitation is not valid any more: it was used, replaced or taken back, or it is older than 7 days. Ask for a new one, or log in if you have an account.")
}
