package accounts

import (
	"context"
	"errors"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Operator is the actor of the command line: who can write to the data folder
// may do all that an admin of any org may.
func Operator() gateway.Actor {
	return gateway.Actor{
		Role:         gateway.RoleAdmin,
		Scopes:       []gateway.Scope{gateway.ScopeChat, gateway.ScopeAdmin},
		CredentialID: "operator",
	}
}

// NewUser describes an account to create.
type NewUser struct {
	Name     string // "" is the part of Email before the @
	Email    string
	Password string
	Role     gateway.Role // "" is member
	// Org is the name of an org, for an operator alone: "" is the first one. An
	// installation without any org gets this one.
	Org string
}

// CreateUser creates an account in the actor's org. It needs the admin scope.
// Errors: forbidden; bad_request with Fields; not_found for an unknown Org.
func (s *Service) CreateUser(ctx context.Context, actor gateway.Actor, user NewUser) (gateway.Account, error) {
	if err := requireAdmin(actor); err != nil {
		return gateway.Account{}, err
	}
	if user.Role == "" {
		user.Role = gateway.RoleMember
	}
	if user.Role != gateway.RoleMember && user.Role != gateway.RoleAdmin {
		return gateway.Account{}, fieldError("role", "enum")
	}
	if strings.TrimSpace(user.Name) == "" {
		user.Name, _, _ = strings.Cut(strings.TrimSpace(user.Email), "@")
	}
	name, email, err := checkPerson(user.Name, user.Email, user.Password)
	if err != nil {
		return gateway.Account{}, err
	}
	hash, err := s.passwords.Hash(ctx, normalisePassword(user.Password))
	if err != nil {
		return gateway.Account{}, err
	}
	now := s.now()
	acc := gateway.StoredAccount{
		Account:      gateway.Account{ID: newID(), Name: name, Email: email, OrgID: actor.OrgID, Role: user.Role},
		PasswordHash: hash, CreatedAt: now,
	}
	audit := s.actorEntry(gateway.AuditUserCreated, actor, acc.ID)
	audit.Detail = string(user.Role)
	created, err := s.store.CreateAccount(ctx, acc, user.Org, s.freshOrg(user.Org), audit)
	return created, emailFault(err)
}

// User is an account as an admin sees it.
type User struct {
	gateway.Account
	CreatedAt gateway.Time
	Disabled  bool
}

// Users lists the accounts of the actor's org, oldest first; those of all orgs
// for an operator. It needs the admin scope.
func (s *Service) Users(ctx context.Context, actor gateway.Actor) ([]User, error) {
	if err := requireAdmin(actor); err != nil {
		return nil, err
	}
	rows, err := s.store.Accounts(ctx, actor.OrgID)
	if err != nil {
		return nil, err
	}
	users := make([]User, 0, len(rows))
	for _, row := range rows {
		users = append(users, User{Account: row.Account, CreatedAt: gateway.Time{Time: row.CreatedAt}, Disabled: !row.DisabledAt.IsZero()})
	}
	return users, nil
}

// UserByEmail finds an account of the actor's org; of any for an operator. It
// needs the admin scope. Errors: forbidden, not_found.
func (s *Service) UserByEmail(ctx context.Context, actor gateway.Actor, email string) (gateway.Account, error) {
	if err := requireAdmin(actor); err != nil {
		return gateway.Account{}, err
	}
	clean, ok := normaliseEmail(email)
	if !ok {
		return gateway.Account{}, notFound("account")
	}
	acc, err := s.store.AccountByEmail(ctx, clean)
	if err != nil {
		return gateway.Account{}, err
	}
	if actor.OrgID != "" && acc.OrgID != actor.OrgID {
		return gateway.Account{}, notFound("account")
	}
	return acc.Account, nil
}

// ChangePassword changes the actor's own password after checking the current
// one, and ends every other session and token of the account. Errors:
// credentials_invalid, bad_request with Fields, rate_limited.
func (s *Service) ChangePassword(ctx context.Context, actor gateway.Actor, current, password, address string) error {
	if err := checkPassword(password); err != nil {
		return err
	}
	acc, err := s.store.AccountByID(ctx, actor.OrgID, actor.AccountID)
	if err != nil {
		return err
	}
	if err := s.throttleLogin(ctx, address, acc.Email); err != nil {
		return err
	}
	verified, err := s.verify(ctx, acc.Email, true, current)
	if err != nil {
		return err
	}
	if verified == nil {
		return s.refuseLogin(ctx, address)
	}
	audit := s.entry(gateway.AuditPasswordChanged, acc.Account, address)
	return s.setPassword(ctx, acc.ID, password, actor.CredentialID, audit)
}

// ResetPassword sets the password of an account of the actor's org and ends all
// its sessions and tokens. It needs the admin scope.
func (s *Service) ResetPassword(ctx context.Context, actor gateway.Actor, accountID, password string) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	acc, err := s.store.AccountByID(ctx, actor.OrgID, accountID)
	if err != nil {
		return err
	}
	audit := s.actorEntry(gateway.AuditPasswordChanged, actor, acc.ID)
	audit.OrgID = acc.OrgID
	return s.setPassword(ctx, acc.ID, password, "", audit)
}

func (s *Service) setPassword(ctx context.Context, accountID, password, keep string, audit gateway.AuditEntry) error {
	if err := checkPassword(password); err != nil {
		return err
	}
	hash, err := s.passwords.Hash(ctx, normalisePassword(password))
	if err != nil {
		return err
	}
	audit.Target = accountID
	ended, err := s.store.SetPassword(ctx, accountID, hash, keep, audit)
	if err != nil {
		return err
	}
	s.publishEnd(ended...)
	return nil
}

// emailFault turns gateway.ErrEmailTaken into the answer of a form.
func emailFault(err error) error {
	if errors.Is(err, gateway.ErrEmailTaken) {
		return fieldError("email", "unique")
	}
	return err
}

func notFound(what string) error {
	return wire.NewError(wire.CodeNotFound, "There is no such "+what+".")
}
