// Package accounts knows who somebody is. It owns orgs with their entitlements and
// limits, accounts, sessions, tokens, invitations, the one-time setup link and the
// audit log; what they may do with threads and turns is decided elsewhere, by the
// gateway.Actor that it gives out.
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
//   - A disabled account, and one that lost a role, holds no session, token or
//     invitation of before. An org that had an admin keeps one who can log in.
//   - An invitation is used at most once; its account, org and role are in the same
//     transaction.
//   - An actor sees and changes its own org alone; the operator (the command line)
//     every one. What an org may spend is its admin's to set only where it is the
//     only org (see Governs).
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
	// OrgTurns and MemberTurns are how many turns an org, and a member, may run at
	// once without such a limit of their own; 0 is without limit. They are shown,
	// not enforced, here.
	OrgTurns, MemberTurns int
	// Targets lists the target refs of the hosts that there are, which a token may name;
	// only who manages hosts is told that one is not among them. nil takes any.
	Targets func(ctx context.Context) ([]string, error)
	// LimitsChanged is told, after it is durable, that an org may now start turns
	// that had to wait; nil where nobody waits.
	LimitsChanged func(ctx context.Context, orgID string)
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

	orgTurns, memberTurns int

	targets       func(ctx context.Context) ([]string, error) // nil takes any
	limitsChanged func(ctx context.Context, orgID string)
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
	if cfg.LimitsChanged == nil {
		cfg.LimitsChanged = func(context.Context, string) {}
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
		orgTurns:  cfg.OrgTurns, memberTurns: cfg.MemberTurns,
		targets: cfg.Targets, limitsChanged: cfg.LimitsChanged,
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
