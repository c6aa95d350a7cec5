package accounts

import (
	"context"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Rename changes the actor's own name. Errors: bad_request with Fields.
func (s *Service) Rename(ctx context.Context, actor gateway.Actor, name string) error {
	var faults faultList
	name = faults.name(name)
	if err := faults.err(); err != nil {
		return err
	}
	return s.store.SetName(ctx, actor.AccountID, name, s.actorEntry(gateway.AuditRenamed, actor, actor.AccountID))
}

// OwnCredential is a session or token as its owner sees it.
type OwnCredential struct {
	Token
	Kind gateway.CredentialKind
	// Current is set on the one behind the request.
	Current bool
}

// OwnCredentials lists the actor's own sessions and tokens that stand, newest
// first.
func (s *Service) OwnCredentials(ctx context.Context, actor gateway.Actor) ([]OwnCredential, error) {
	rows, err := s.store.AccountCredentials(ctx, actor.AccountID)
	if err != nil {
		return nil, err
	}
	now := s.now()
	list := make([]OwnCredential, 0, len(rows))
	for _, c := range rows {
		if s.stands(c, now) {
			list = append(list, OwnCredential{Token: newTokenView(c), Kind: c.Kind, Current: c.ID == actor.CredentialID})
		}
	}
	return list, nil
}

// maxOwnTokens bounds the tokens that a person may have at once.
const maxOwnTokens = 100

// CreateOwnToken creates a token that acts for the actor and gives its secret,
// which is not to be had again. Only a session may: a token that made tokens could
// never be taken back. AccountID is not read. Errors: forbidden; bad_request with
// Fields.
func (s *Service) CreateOwnToken(ctx context.Context, actor gateway.Actor, req NewToken) (secret string, token Token, err error) {
	own, err := s.ownSession(ctx, actor)
	if err != nil {
		return "", Token{}, err
	}
	if err := checkToken(req, actor.Role); err != nil {
		return "", Token{}, err
	}
	if len(own) >= maxOwnTokens {
		return "", Token{}, fieldError("name", "limit")
	}
	if err := s.mayControl(ctx, actor, req); err != nil {
		return "", Token{}, err
	}
	req.AccountID = actor.AccountID
	c, secret := s.newToken(req)
	if err := s.store.StartCredential(ctx, c, "", s.actorEntry(gateway.AuditTokenCreated, actor, c.ID)); err != nil {
		return "", Token{}, err
	}
	return secret, newTokenView(c), nil
}

// RevokeOwn ends a session or token of the actor's and closes its sockets. Only a
// session may. Errors: forbidden, not_found.
func (s *Service) RevokeOwn(ctx context.Context, actor gateway.Actor, credentialID string) error {
	own, err := s.ownSession(ctx, actor)
	if err != nil {
		return err
	}
	for _, c := range own {
		if c.ID != credentialID {
			continue
		}
		err := s.store.EndCredential(ctx, actor.OrgID, c.ID, s.actorEntry(gateway.AuditRevoked, actor, c.ID))
		if err == nil {
			s.publishEnd(c.ID)
		}
		return err
	}
	return notFound("session or token")
}

// ownSession gives the actor's credentials if the one behind the request is a
// session.
func (s *Service) ownSession(ctx context.Context, actor gateway.Actor) ([]OwnCredential, error) {
	own, err := s.OwnCredentials(ctx, actor)
	if err != nil {
		return nil, err
	}
	for _, c := range own {
		if c.Current && c.Kind == gateway.CredentialSession {
			return own, nil
		}
	}
	return nil, wire.NewError(wire.CodeForbidden, "This needs a browser session: a token cannot manage tokens.")
}

// newToken makes the row and the secret of a token that was checked.
func (s *Service) newToken(req NewToken) (c gateway.Credential, secret string) {
	now := s.now()
	secret = newSecret(tokenPrefix)
	c = gateway.Credential{
		ID: newID(), Kind: gateway.CredentialToken, AccountID: req.AccountID, SecretHash: hashSecret(secret),
		Name: strings.TrimSpace(req.Name), Scopes: req.Scopes, Targets: req.Targets, CreatedAt: now,
	}
	if req.TTL > 0 {
		c.ExpiresAt = now.Add(req.TTL)
	}
	return c, secret
}
