package accounts

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// DefaultOrg is the name of the org of an installation that has one.
const DefaultOrg = "Home"

// NeedsSetup tells whether no admin exists yet.
func (s *Service) NeedsSetup(ctx context.Context) (bool, error) {
	has, err := s.store.HasAdmin(ctx)
	return !has, err
}

// SetupLink makes the one-time token with which the first admin is created, and
// voids the one before. While an admin exists it gives "".
func (s *Service) SetupLink(ctx context.Context) (string, error) {
	token := newSecret("")
	stored, err := s.store.PutSetupLink(ctx, hashSecret(token), s.now())
	if err != nil || !stored {
		return "", err
	}
	return token, nil
}

// CheckSetupLink tells whether Setup would take the token. Errors:
// setup_link_invalid.
func (s *Service) CheckSetupLink(ctx context.Context, token string) error {
	stands, err := s.store.SetupLinkStands(ctx, hashSecret(token))
	if err != nil {
		return err
	}
	if !stands {
		return SetupLinkInvalid()
	}
	return nil
}

// SetupRequest creates the first admin.
type SetupRequest struct {
	Token    string
	Name     string
	Email    string
	Password string
	Address  string
	// Replaces is as in LoginRequest.
	Replaces string
}

// Setup uses up the setup link, creates the org and its admin in one
// transaction, and logs the admin in. Errors: setup_link_invalid; bad_request
// with Fields, which leaves the link standing.
func (s *Service) Setup(ctx context.Context, req SetupRequest) (Session, error) {
	if err := s.CheckSetupLink(ctx, req.Token); err != nil {
		return Session{}, err
	}
	name, email, err := checkPerson(req.Name, req.Email, req.Password)
	if err != nil {
		return Session{}, err
	}
	hash, err := s.passwords.Hash(ctx, normalisePassword(req.Password))
	if err != nil {
		return Session{}, err
	}
	now := s.now()
	admin := gateway.StoredAccount{
		Account:      gateway.Account{ID: newID(), Name: name, Email: email, Role: gateway.RoleAdmin},
		PasswordHash: hash, CreatedAt: now,
	}
	audit := s.entry(gateway.AuditSetup, admin.Account, req.Address)
	audit.Target = admin.ID
	created, err := s.store.Setup(ctx, hashSecret(req.Token), s.freshOrg(""), admin, audit)
	if err != nil {
		return Session{}, setupFault(err)
	}
	s.log.InfoContext(ctx, "the first admin was created", "account", created.ID)
	return s.startSession(ctx, created, req.Replaces, s.entry(gateway.AuditLogin, created, req.Address))
}

// setupFault gives the answers that a form can show.
func setupFault(err error) error {
	if wire.CodeOf(err) == gateway.CodeSetupLinkInvalid {
		return SetupLinkInvalid()
	}
	return emailFault(err)
}

// freshOrg is the org of an installation that has none yet.
func (s *Service) freshOrg(name string) gateway.Org {
	if name == "" {
		name = DefaultOrg
	}
	return gateway.Org{ID: newID(), Name: name, CreatedAt: s.now()}
}

// SetupLinkInvalid is the answer to a setup link that was used, replaced or
// never given out.
func SetupLinkInvalid() error {
	return wire.NewError(gateway.CodeSetupLinkInvalid,
		"This setup link is not valid any more. Restart Fairlead to get a new one, or log in if somebody has set it up already.")
}
