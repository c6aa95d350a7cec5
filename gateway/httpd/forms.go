package httpd

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views"
)

// People is what the settings and the members page need of *accounts.Service.
type People interface {
	Rename(ctx context.Context, actor gateway.Actor, name string) error
	ChangePassword(ctx context.Context, actor gateway.Actor, current, password, address string) error
	OwnCredentials(ctx context.Context, actor gateway.Actor) ([]accounts.OwnCredential, error)
	CreateOwnToken(ctx context.Context, actor gateway.Actor, req accounts.NewToken) (string, accounts.Token, error)
	RevokeOwn(ctx context.Context, actor gateway.Actor, credentialID string) error
	Usage(ctx context.Context, actor gateway.Actor) (accounts.Usage, error)

	Members(ctx context.Context, actor gateway.Actor) ([]gateway.Member, error)
	SetRole(ctx context.Context, actor gateway.Actor, accountID string, role gateway.Role) error
	DisableMember(ctx context.Context, actor gateway.Actor, accountID string) error
	EnableMember(ctx context.Context, actor gateway.Actor, accountID string) error
	SetMemberLimits(ctx context.Context, actor gateway.Actor, accountID string, l *gateway.Limits) error

	Invite(ctx context.Context, actor gateway.Actor, req accounts.NewInvitation) (string, gateway.Invitation, error)
	Invitations(ctx context.Context, actor gateway.Actor) ([]gateway.Invitation, error)
	RevokeInvitation(ctx context.Context, actor gateway.Actor, id string) error
	CheckInvitation(ctx context.Context, secret string) (gateway.Invitation, gateway.Org, error)
	AcceptInvitation(ctx context.Context, req accounts.AcceptRequest) (accounts.Session, error)

	Entitlement(ctx context.Context, actor gateway.Actor, orgID string) (gateway.Entitlement, error)
	SetEntitlement(ctx context.Context, actor gateway.Actor, orgID string, e gateway.Entitlement) error
	OrgLimits(ctx context.Context, actor gateway.Actor, orgID string) (gateway.OrgLimits, error)
	SetOrgLimits(ctx context.Context, actor gateway.Actor, orgID string, l gateway.Limits) error
	SetMemberDefaults(ctx context.Context, actor gateway.Actor, orgID string, l gateway.Limits) error
	Governs(ctx context.Context, actor gateway.Actor, orgID string) (bool, error)
	InstallationTurns() (org, member int)
}

// form is one of the forms of a page: what it posts as "do" is its key.
type form struct {
	// tab is where its page goes back to, notice what is said there.
	tab, notice string
	// run does what the form asks. A secret that it gives is shown once.
	run func(r *http.Request, actor gateway.Actor) (secret string, err error)
}

// plain is the run of a form without a secret.
func plain(run func(r *http.Request, actor gateway.Actor) error) func(*http.Request, gateway.Actor) (string, error) {
	return func(r *http.Request, actor gateway.Actor) (string, error) { return "", run(r, actor) }
}

// posted runs the form that a request is of. What the person can mend comes back
// as the state of a form to show again, any other error as err.
func (s *Server) posted(r *http.Request, actor gateway.Actor, forms map[string]form) (f form, secret string, refused *views.FormState, err error) {
	if err := parseForm(r); err != nil {
		return form{}, "", nil, err
	}
	do := r.PostForm.Get("do")
	f, ok := forms[do]
	if !ok {
		return form{}, "", nil, wire.NewError(wire.CodeBadRequest, "This page does not know that form. Reload it, then try again.")
	}
	secret, err = f.run(r, actor)
	if err == nil {
		return f, secret, nil, nil
	}
	e := wire.AsError(err)
	if !wantsPage(r) || gateway.HTTPStatus(e.Code) >= http.StatusInternalServerError {
		return form{}, "", nil, err
	}
	state := refusedForm(do, r, e)
	return f, "", &state, err
}

// refusedForm is a form to show again: what was typed, but for passwords, and what
// is wrong with it.
func refusedForm(name string, r *http.Request, e *wire.Error) views.FormState {
	state := views.FormState{Name: name, Values: map[string]string{}, Errors: map[string]string{}}
	for field, values := range r.PostForm {
		if field != "password" && field != "current" && len(values) > 0 {
			state.Values[field] = values[0]
		}
	}
	for _, f := range e.Fields {
		if state.Errors[f.Path] == "" {
			state.Errors[f.Path] = faultWords(f)
		}
	}
	if len(e.Fields) == 0 {
		state.Error = e.Message
	}
	return state
}

// faultWords says what is wrong with a field of an assistant, or of an account.
func faultWords(f wire.Field) string {
	switch f.Path {
	case "displayName":
		if f.Rule == "max" {
			return "A name may have at most 80 characters."
		}
		return "Enter a name."
	case "description":
		return "A description may have at most 400 characters."
	case "instructions":
		return "Instructions may have at most 16,000 bytes."
	case "model":
		return "This model is not offered."
	case "visibility":
		return "This assistant cannot be private."
	case "labels":
		return "A label has 1 to 64 letters, digits or . _ : = / + -; a host has at most 32."
	case "current":
		return "This is not your current password."
	}
	return accounts.FieldMessage(f)
}

// formStatus is the status of a page that shows a refused form. A wrong password
// within the settings does not say that nobody is logged in.
func formStatus(err error) int {
	status := gateway.HTTPStatus(wire.CodeOf(err))
	if status == http.StatusUnauthorized {
		return http.StatusBadRequest
	}
	return status
}

// idOf is the id that a form is about; what is none names nothing.
func idOf(r *http.Request) (string, error) {
	id, err := uuid.Parse(r.PostForm.Get("id"))
	if err != nil {
		return "", wire.NewError(wire.CodeNotFound, "This is not there any more. Reload the page.")
	}
	return id.String(), nil
}

// limitsOf reads the two fields of limits. What is no number becomes one that the
// service refuses, so that all faults are named together.
func limitsOf(r *http.Request) gateway.Limits {
	number := func(field string) int {
		n, err := strconv.Atoi(strings.TrimSpace(r.PostForm.Get(field)))
		if err != nil {
			return -1
		}
		return n
	}
	return gateway.Limits{ConcurrentTurns: number("concurrentTurns"), DailyTurns: number("dailyTurns")}
}

func badFields(faults []wire.Field) error {
	if len(faults) == 0 {
		return nil
	}
	e := wire.NewError(wire.CodeBadRequest, "Some fields cannot be used like this.")
	e.Fields = faults
	return e
}
