package accounts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// NewToken describes a token to create.
type NewToken struct {
	// AccountID is the account that the token acts for, in the actor's org.
	AccountID string
	Name      string
	Scopes    []gateway.Scope
	// Targets are the hosts that a token with the scope relay:control reaches, by their
	// target refs. It goes with that scope alone, and that scope with it.
	Targets []string
	// TTL is how long it is valid; 0 is until it is revoked.
	TTL time.Duration
}

// Token is a token as it is listed.
type Token struct {
	ID        string
	AccountID string
	Name      string
	Scopes    []gateway.Scope
	Targets   []string
	CreatedAt time.Time
	UsedAt    time.Time // to about a minute; zero: never
	ExpiresAt time.Time // zero: never
}

// CreateToken creates a token and gives its secret, which is not to be had
// again. It needs the admin scope. Errors: forbidden; not_found for the account;
// bad_request with Fields.
func (s *Service) CreateToken(ctx context.Context, actor gateway.Actor, req NewToken) (secret string, token Token, err error) {
	if err := requireAdmin(actor); err != nil {
		return "", Token{}, err
	}
	acc, err := s.store.AccountByID(ctx, actor.OrgID, req.AccountID)
	if err != nil {
		return "", Token{}, err
	}
	if err := checkToken(req, acc.Role); err != nil {
		return "", Token{}, err
	}
	if err := s.mayControl(ctx, actor, req); err != nil {
		return "", Token{}, err
	}
	c, secret := s.newToken(req)
	audit := s.actorEntry(gateway.AuditTokenCreated, actor, c.ID)
	audit.OrgID = acc.OrgID
	if err := s.store.StartCredential(ctx, c, "", audit); err != nil {
		return "", Token{}, err
	}
	return secret, newTokenView(c), nil
}

func checkToken(req NewToken, role gateway.Role) error {
	var faults faultList
	faults.name(req.Name)
	if len(req.Scopes) == 0 {
		faults.add("scopes", "required")
	}
	for _, scope := range req.Scopes {
		if !allows(role, scope) {
			faults.add("scopes", "enum")
			break
		}
	}
	faults.targets(req)
	if req.TTL < 0 {
		faults.add("ttl", "min")
	}
	return faults.err()
}

// allows tells whether a token of an account may have a scope.
func allows(role gateway.Role, scope gateway.Scope) bool {
	switch scope {
	case gateway.ScopeChat, gateway.ScopeControl:
		return true
	case gateway.ScopeAdmin:
		return role == gateway.RoleAdmin
	}
	return false
}

// maxTargets bounds the hosts of one token.
const maxTargets = 64

func (f *faultList) targets(req NewToken) {
	switch control := slices.Contains(req.Scopes, gateway.ScopeControl); {
	case control && len(req.Targets) == 0:
		f.add("targets", "required")
	case !control && len(req.Targets) > 0:
		f.add("targets", "unknown")
	case len(req.Targets) > maxTargets:
		f.add("targets", "max")
	}
	for _, target := range req.Targets {
		if !wire.ValidRelayID(target) {
			f.add("targets", "type")
			return
		}
	}
}

// mayControl refuses a token for hosts to an admin who does not manage them, and one
// that names a host that is not there to an admin who does.
func (s *Service) mayControl(ctx context.Context, actor gateway.Actor, req NewToken) error {
	if len(req.Targets) == 0 {
		return nil
	}
	governs, err := s.GovernsHosts(ctx, actor)
	if err != nil {
		return err
	}
	if !governs {
		return wire.NewError(wire.CodeForbidden, "Hosts serve the whole installation: the admins of its first org make tokens for them.")
	}
	return s.knownTargets(ctx, req.Targets)
}

func (s *Service) knownTargets(ctx context.Context, targets []string) error {
	if s.targets == nil {
		return nil
	}
	known, err := s.targets(ctx)
	if err != nil {
		return err
	}
	var fields []wire.Field
	var unknown []string
	for i, target := range targets {
		if !slices.Contains(known, target) {
			fields = append(fields, wire.Field{Path: fmt.Sprintf("targets[%d]", i), Rule: "known"})
			unknown = append(unknown, target)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	e := wire.NewError(wire.CodeBadRequest, "There is no host with this id, or it was revoked: "+strings.Join(unknown, ", ")+".")
	e.Fields = fields
	return e
}

// Tokens lists the tokens of the actor's org that stand, newest first; those of
// all orgs for an operator. It needs the admin scope.
func (s *Service) Tokens(ctx context.Context, actor gateway.Actor) ([]Token, error) {
	if err := requireAdmin(actor); err != nil {
		return nil, err
	}
	rows, err := s.store.Credentials(ctx, actor.OrgID, gateway.CredentialToken)
	if err != nil {
		return nil, err
	}
	now := s.now()
	tokens := make([]Token, 0, len(rows))
	for _, c := range rows {
		if s.stands(c, now) {
			tokens = append(tokens, newTokenView(c))
		}
	}
	return tokens, nil
}

func newTokenView(c gateway.Credential) Token {
	return Token{
		ID: c.ID, AccountID: c.AccountID, Name: c.Name, Scopes: c.Scopes, Targets: c.Targets,
		CreatedAt: c.CreatedAt, UsedAt: c.SeenAt, ExpiresAt: c.ExpiresAt,
	}
}

// Revoke ends a token or session of the actor's org by its id and closes its
// sockets. It needs the admin scope. Errors: forbidden, not_found.
func (s *Service) Revoke(ctx context.Context, actor gateway.Actor, credentialID string) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	audit := s.actorEntry(gateway.AuditRevoked, actor, credentialID)
	if err := s.store.EndCredential(ctx, actor.OrgID, credentialID, audit); err != nil {
		return err
	}
	s.publishEnd(credentialID)
	return nil
}
