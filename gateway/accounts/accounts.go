// Package accounts knows who somebody is. It owns orgs, accounts, sessions,
// tokens, the one-time setup link and the audit log; what they may do with
// threads and turns is decided elsewhere, by the gateway.Actor that it gives out.
//
// Invariants:
//   - A secret (session id, token, setup token) has 256 random bits, is handed
//     out once and stored as its SHA-256; a password is stored as argon2id.
//   - Whether an email is known cannot be told from an answer or from the time
//     that it took: every failed login compares one hash and writes one audit
//     row.
//   - A login starts a new session and ends the one that the browser had.
//   - A credential that ended is published on its gateway.CredentialTopic, also
//     when another process ended it (see Run), so that its sockets close.
//   - While no admin exists there is at most one setup link, and exactly one
//     caller can use it.
//
// The service starts no goroutine; Run is one for the caller to start.
package accounts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Store keeps accounts. Each method is one transaction and is durable when it
// returns. What does not exist, or belongs to another org, is an error with
// wire.CodeNotFound.
type Store interface {
	// Epoch gives the epoch of the installation; the first call makes it fresh.
	Epoch(ctx context.Context, fresh string) (string, error)

	HasAdmin(ctx context.Context) (bool, error)
	// PutSetupLink replaces the setup link, unless an admin exists: then false.
	PutSetupLink(ctx context.Context, secretHash string, at time.Time) (bool, error)
	SetupLinkStands(ctx context.Context, secretHash string) (bool, error)
	// Setup uses up the setup link and creates the admin, in the org fresh unless
	// one exists. If the link does not stand or an admin exists:
	// gateway.CodeSetupLinkInvalid.
	Setup(ctx context.Context, secretHash string, fresh gateway.Org, admin gateway.StoredAccount, audit gateway.AuditEntry) (gateway.Account, error)

	// CreateAccount stores an account. With an empty OrgID it joins the org named
	// wanted, or the first one for ""; where no org exists at all, fresh is
	// created. An admin voids the setup link. An email in use:
	// gateway.ErrEmailTaken.
	CreateAccount(ctx context.Context, acc gateway.StoredAccount, wanted string, fresh gateway.Org, audit gateway.AuditEntry) (gateway.Account, error)
	Org(ctx context.Context, id string) (gateway.Org, error)
	AccountByEmail(ctx context.Context, email string) (gateway.StoredAccount, error)
	// AccountByID looks in one org, or everywhere for "".
	AccountByID(ctx context.Context, orgID, id string) (gateway.StoredAccount, error)
	// Accounts lists an org, or all for "", oldest first.
	Accounts(ctx context.Context, orgID string) ([]gateway.StoredAccount, error)
	// SetPassword changes the password and ends all credentials of the account
	// but keep; it gives the ids of those ended.
	SetPassword(ctx context.Context, accountID, passwordHash, keep string, audit gateway.AuditEntry) ([]string, error)

	// StartCredential stores c and ends the session replaces of the same account
	// or another, if it is not "".
	StartCredential(ctx context.Context, c gateway.Credential, replaces string, audit gateway.AuditEntry) error
	CredentialBySecret(ctx context.Context, kind gateway.CredentialKind, secretHash string) (gateway.Credential, gateway.Account, error)
	// Credentials lists those of an org that did not end, or all for "", newest
	// first.
	Credentials(ctx context.Context, orgID string, kind gateway.CredentialKind) ([]gateway.Credential, error)
	TouchCredential(ctx context.Context, id string, at time.Time) error
	// EndCredential ends one of an org, or any for ""; one that ended already is
	// not found.
	EndCredential(ctx context.Context, orgID, id string, audit gateway.AuditEntry) error
	// SweepCredentials ends sessions last seen before idleSince and whatever
	// expired by now, and forgets what ended before forget.
	SweepCredentials(ctx context.Context, now, idleSince, forget time.Time) error
	// EndedSince lists the credentials that ended at since or later.
	EndedSince(ctx context.Context, since time.Time) ([]string, error)

	AppendAudit(ctx context.Context, entry gateway.AuditEntry) error
	// Audit lists the newest entries of an org and of no org, older than before
	// if that is not "".
	Audit(ctx context.Context, orgID, before string, limit int) ([]gateway.AuditEntry, error)
}

// Defaults of Config.
const (
	DefaultSessionIdle = 14 * 24 * time.Hour
	DefaultSessionMax  = 90 * 24 * time.Hour
)

// Config is what a Service needs. Store, Bus and Logger are required.
type Config struct {
	Store  Store
	Bus    gateway.Bus
	Logger *slog.Logger
	// Now is the clock of all that is stored and throttled; nil is time.Now.
	Now func() time.Time
	// Passwords hashes passwords; nil is NewArgon2id.
	Passwords Passwords
	// SessionIdle ends a session that was not used for so long; SessionMax ends
	// any session so long after its login.
	SessionIdle, SessionMax time.Duration
	// Throttle limits attempts to log in; zero is DefaultThrottle.
	Throttle ThrottleConfig
}

// Service answers who somebody is.
type Service struct {
	store       Store
	bus         gateway.Bus
	log         *slog.Logger
	now         func() time.Time
	passwords   Passwords
	decoy       string // hash that logins with an unknown email are compared with
	sessionIdle time.Duration
	sessionMax  time.Duration
	byAddress   *throttle
	byAccount   *throttle
	refusals    *throttle // bounds the audit rows that strangers can cause
}

// New checks the configuration and prepares a Service; it takes the time of one
// password hash.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Bus == nil || cfg.Logger == nil {
		return nil, errors.New("accounts: Store, Bus and Logger are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Passwords == nil {
		cfg.Passwords = NewArgon2id()
	}
	if cfg.SessionIdle == 0 {
		cfg.SessionIdle = DefaultSessionIdle
	}
	if cfg.SessionMax == 0 {
		cfg.SessionMax = DefaultSessionMax
	}
	if cfg.Throttle == (ThrottleConfig{}) {
		cfg.Throttle = DefaultThrottle()
	}
	decoy, err := cfg.Passwords.Hash(context.Background(), newSecret(""))
	if err != nil {
		return nil, err
	}
	return &Service{
		store: cfg.Store, bus: cfg.Bus, log: cfg.Logger, now: cfg.Now,
		passwords: cfg.Passwords, decoy: decoy,
		sessionIdle: cfg.SessionIdle, sessionMax: cfg.SessionMax,
		byAddress: newThrottle(cfg.Throttle.AddressEvery, cfg.Throttle.AddressBurst),
		byAccount: newThrottle(cfg.Throttle.AccountEvery, cfg.Throttle.AccountBurst),
		refusals:  newThrottle(refusalEvery, refusalBurst),
	}, nil
}

// Epoch is the epoch of the installation (protocol.md, welcome.epoch). It is
// made once and changes only when a backup is restored.
func (s *Service) Epoch(ctx context.Context) (string, error) {
	return s.store.Epoch(ctx, uuid.NewString())
}

// Account gives the account behind an actor.
func (s *Service) Account(ctx context.Context, actor gateway.Actor) (gateway.Account, error) {
	acc, err := s.store.AccountByID(ctx, actor.OrgID, actor.AccountID)
	return acc.Account, err
}

// Org gives the org of an actor.
func (s *Service) Org(ctx context.Context, actor gateway.Actor) (gateway.Org, error) {
	return s.store.Org(ctx, actor.OrgID)
}

// newID is a UUIDv7: ids sort by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// requireAdmin refuses an actor without the admin scope.
func requireAdmin(actor gateway.Actor) error {
	if actor.May(gateway.ScopeAdmin) {
		return nil
	}
	return wire.NewError(wire.CodeForbidden, "Only an admin may do this.")
}
