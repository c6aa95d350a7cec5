package httpd

import (
	"net/http"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views/account"
)

const joinPath = "/join"

// newJoinPage looks at an invitation, which uses nothing up.
func (s *Server) newJoinPage(r *http.Request, token string) (account.JoinPage, error) {
	inv, org, err := s.cfg.Accounts.CheckInvitation(r.Context(), token)
	return account.JoinPage{
		Site: s.site, Action: joinPath, Token: token, Org: org.Name, Email: inv.Email,
		Admin: inv.Role == gateway.RoleAdmin, MinPassword: accounts.MinPasswordRunes,
	}, err
}

func (s *Server) getJoin(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	token := r.URL.Query().Get("token")
	if token == "" {
		return wire.NewError(gateway.CodeInvitationInvalid, "Open the whole link of your invitation; it ends with a token.")
	}
	p, err := s.newJoinPage(r, token)
	if err != nil {
		return err
	}
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

func (s *Server) postJoin(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	if err := parseForm(r); err != nil {
		return err
	}
	token := r.PostForm.Get("invitation")
	session, err := s.cfg.Accounts.AcceptInvitation(r.Context(), accounts.AcceptRequest{
		Secret: token, Name: r.PostForm.Get("name"), Password: r.PostForm.Get("password"),
		Address: s.gate.ClientAddress(r), Replaces: s.gate.sessionSecret(r),
	})
	if err != nil {
		return s.joinFailed(w, r, token, err)
	}
	return s.loggedIn(w, r, session, "/")
}

// joinFailed shows the form again where the person can do something about it: the
// invitation stands.
func (s *Server) joinFailed(w http.ResponseWriter, r *http.Request, token string, err error) error {
	e := wire.AsError(err)
	if !wantsPage(r) || len(e.Fields) == 0 && e.Code != wire.CodeRateLimited {
		return err
	}
	p, pageErr := s.newJoinPage(r, token)
	if pageErr != nil {
		return pageErr
	}
	p.Form = refusedForm("", r, e)
	if p.Form.Errors["email"] != "" {
		p.Form.Error = "There is an account with this address already. Log in with it, or ask for an invitation to another address."
	}
	setRetryAfter(w, e)
	s.render(w, r, gateway.HTTPStatus(e.Code), p.View())
	return nil
}
