package accounts

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// LoginRequest is an attempt to log in.
type LoginRequest struct {
	Email    string
	Password string
	// Address is the client's, for throttle and audit.
	Address string
	// Replaces is the secret of the session that the browser had, if any; it ends.
	Replaces string
}

// Session is a session just started.
type Session struct {
	// Secret goes into the browser's cookie and nowhere else.
	Secret  string
	Account gateway.Account
	// ExpiresAt is the end of the session, however much it is used.
	ExpiresAt time.Time
}

// Login checks email and password and starts a session. Errors:
// credentials_invalid, the same for an unknown email, a wrong password and a
// disabled account;
// rate_limited with RetryAfter.
func (s *Service) Login(ctx context.Context, req LoginRequest) (Session, error) {
	email, valid := normaliseEmail(req.Email)
	if err := s.throttleLogin(ctx, req.Address, email); err != nil {
		return Session{}, err
	}
	acc, err := s.verify(ctx, email, valid, req.Password)
	if err != nil {
		return Session{}, err
	}
	if acc == nil {
		return Session{}, s.refuseLogin(ctx, req.Address)
	}
	session, err := s.startSession(ctx, acc.Account, req.Replaces, s.entry(gateway.AuditLogin, acc.Account, req.Address))
	if wire.CodeOf(err) == wire.CodeNotFound { // disabled since
		return Session{}, s.refuseLogin(ctx, req.Address)
	}
	if err == nil {
		s.byAccount.fill(email)
	}
	return session, err
}

// throttleLogin counts the attempt before anything is looked up, so that the
// answer does not depend on whether the account exists.
func (s *Service) throttleLogin(ctx context.Context, address, email string) error {
	now := s.now()
	wait := s.byAddress.take(addressKey(address), now)
	if wait == 0 && email != "" {
		wait = s.byAccount.take(email, now)
	}
	if wait == 0 {
		return nil
	}
	if s.refusals.take(addressKey(address), now) == 0 {
		entry := gateway.AuditEntry{ID: newID(), At: now, Action: gateway.AuditLoginThrottled, Address: address}
		if err := s.store.AppendAudit(ctx, entry); err != nil {
			return err
		}
	}
	e := wire.NewError(wire.CodeRateLimited, "Too many attempts. Wait a little, then try again.")
	e.RetryAfter = wait
	return e
}

// verify gives the account if the password is its own and it may log in, else nil.
// All ways through it compare exactly one hash.
func (s *Service) verify(ctx context.Context, email string, valid bool, password string) (*gateway.StoredAccount, error) {
	var acc gateway.StoredAccount
	known := false
	if valid {
		found, err := s.store.AccountByEmail(ctx, email)
		switch {
		case err == nil:
			acc, known = found, true
		case wire.CodeOf(err) != wire.CodeNotFound:
			return nil, err
		}
	}
	hash := s.decoy
	if known {
		hash = acc.PasswordHash
	}
	if len(password) > MaxPasswordBytes {
		password, known = "", false
	}
	match, err := s.passwords.Verify(ctx, normalisePassword(password), hash)
	if err != nil {
		return nil, err
	}
	if !match || !known || !acc.DisabledAt.IsZero() {
		return nil, nil
	}
	return &acc, nil
}

func (s *Service) refuseLogin(ctx context.Context, address string) error {
	entry := gateway.AuditEntry{ID: newID(), At: s.now(), Action: gateway.AuditLoginFailed, Address: address}
	if err := s.store.AppendAudit(ctx, entry); err != nil {
		return err
	}
	return wire.NewError(gateway.CodeCredentialsInvalid, "Email or password is wrong.")
}

func (s *Service) startSession(ctx context.Context, acc gateway.Account, replaces string, audit gateway.AuditEntry) (Session, error) {
	previous, err := s.sessionID(ctx, replaces)
	if err != nil {
		return Session{}, err
	}
	now := s.now()
	secret := newSecret(sessionPrefix)
	c := gateway.Credential{
		ID: newID(), Kind: gateway.CredentialSession, AccountID: acc.ID, SecretHash: hashSecret(secret),
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(s.sessionMax),
	}
	audit.Target = c.ID
	if err := s.store.StartCredential(ctx, c, previous, audit); err != nil {
		return Session{}, err
	}
	s.publishEnd(previous)
	return Session{Secret: secret, Account: acc, ExpiresAt: c.ExpiresAt}, nil
}

// sessionID gives the id of a session by its secret, or "" for none that stands.
func (s *Service) sessionID(ctx context.Context, secret string) (string, error) {
	if secret == "" {
		return "", nil
	}
	c, _, err := s.store.CredentialBySecret(ctx, gateway.CredentialSession, hashSecret(secret))
	if wire.CodeOf(err) == wire.CodeNotFound {
		return "", nil
	}
	return c.ID, err
}

// Logout ends a session by its secret; one that is not there is no error.
func (s *Service) Logout(ctx context.Context, secret, address string) error {
	c, acc, err := s.store.CredentialBySecret(ctx, gateway.CredentialSession, hashSecret(secret))
	if wire.CodeOf(err) == wire.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	audit := s.entry(gateway.AuditLogout, acc, address)
	audit.Target = c.ID
	err = s.store.EndCredential(ctx, "", c.ID, audit)
	if err != nil && wire.CodeOf(err) != wire.CodeNotFound {
		return err
	}
	s.publishEnd(c.ID)
	return nil
}

// entry is an audit entry by an account.
func (s *Service) entry(action gateway.AuditAction, by gateway.Account, address string) gateway.AuditEntry {
	return gateway.AuditEntry{
		ID: newID(), At: s.now(), OrgID: by.OrgID, AccountID: by.ID, Action: action, Address: address,
	}
}

// actorEntry is an audit entry by an actor, whose address is not known here.
func (s *Service) actorEntry(action gateway.AuditAction, actor gateway.Actor, target string) gateway.AuditEntry {
	return gateway.AuditEntry{
		ID: newID(), At: s.now(), OrgID: actor.OrgID, AccountID: actor.AccountID, Action: action, Target: target,
	}
}
