package accounts

import (
	"context"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// touchEvery is how exactly the last use of a credential is known: a write per
// request would buy nothing.
const touchEvery = time.Minute

// Authenticate tells who bears a credential: a session's secret or a token. An
// unknown, ended or expired one: unauthorized, the same for all three.
func (s *Service) Authenticate(ctx context.Context, credential string) (gateway.Actor, error) {
	if strings.HasPrefix(credential, tokenPrefix) {
		return s.AuthenticateToken(ctx, credential)
	}
	return s.AuthenticateSession(ctx, credential)
}

// AuthenticateSession is Authenticate for what came in a cookie: a token is
// refused.
func (s *Service) AuthenticateSession(ctx context.Context, secret string) (gateway.Actor, error) {
	return s.authenticate(ctx, gateway.CredentialSession, sessionPrefix, secret)
}

// AuthenticateToken is Authenticate for what came in an Authorization header: a
// session is refused.
func (s *Service) AuthenticateToken(ctx context.Context, token string) (gateway.Actor, error) {
	return s.authenticate(ctx, gateway.CredentialToken, tokenPrefix, token)
}

func (s *Service) authenticate(ctx context.Context, kind gateway.CredentialKind, prefix, secret string) (gateway.Actor, error) {
	if !strings.HasPrefix(secret, prefix) {
		return gateway.Actor{}, unauthorized()
	}
	c, acc, err := s.store.CredentialBySecret(ctx, kind, hashSecret(secret))
	if wire.CodeOf(err) == wire.CodeNotFound {
		return gateway.Actor{}, unauthorized()
	}
	if err != nil {
		return gateway.Actor{}, err
	}
	now := s.now()
	if !s.stands(c, now) {
		return gateway.Actor{}, unauthorized()
	}
	if now.Sub(c.SeenAt) >= touchEvery {
		if err := s.store.TouchCredential(ctx, c.ID, now); err != nil {
			// Who somebody is does not depend on this write, and a full disk must not
			// close the pages that say so.
			s.log.WarnContext(ctx, "last use of a credential was not stored", "credential", c.ID, "error", err)
		}
	}
	actor := gateway.Actor{
		AccountID: acc.ID, OrgID: acc.OrgID, Role: acc.Role, Scopes: scopes(c, acc.Role),
		CredentialID: c.ID, ExpiresAt: c.ExpiresAt,
	}
	if actor.May(gateway.ScopeControl) {
		actor.Targets = c.Targets
	}
	return actor, nil
}

// Touch tells that an open socket of the credential was used, which keeps a
// session from ending as idle. It may be called often; once an hour is enough.
func (s *Service) Touch(ctx context.Context, credentialID string) error {
	return s.store.TouchCredential(ctx, credentialID, s.now())
}

func (s *Service) stands(c gateway.Credential, now time.Time) bool {
	if !c.EndedAt.IsZero() {
		return false
	}
	if !c.ExpiresAt.IsZero() && !now.Before(c.ExpiresAt) {
		return false
	}
	return c.Kind != gateway.CredentialSession || now.Sub(c.SeenAt) < s.sessionIdle
}

// scopes are those of a credential within what the role allows today. A session never
// controls hosts: programs do, with a token made for it.
func scopes(c gateway.Credential, role gateway.Role) []gateway.Scope {
	granted := c.Scopes
	if c.Kind == gateway.CredentialSession {
		granted = []gateway.Scope{gateway.ScopeChat, gateway.ScopeAdmin}
	}
	var held []gateway.Scope
	for _, scope := range granted {
		if allows(role, scope) {
			held = append(held, scope)
		}
	}
	return held
}

func unauthorized() error {
	return wire.NewError(wire.CodeUnauthorized, "Log in first.")
}
