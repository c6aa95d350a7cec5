package httpd

import (
	"net/http"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views/account"
)

const setupPath = "/setup"

func (s *Server) newSetupPage(token string) account.SetupPage {
	return account.SetupPage{
		Site: s.site, Action: setupPath, Token: token, MinPassword: accounts.MinPasswordRunes,
	}
}

func (s *Server) getSetup(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	needs, err := s.cfg.Accounts.NeedsSetup(r.Context())
	if err != nil {
		return err
	}
	token := r.URL.Query().Get("token")
	if !needs && token == "" {
		s.redirect(w, r, loginPath)
		return nil
	}
	if token == "" {
		return wire.NewError(gateway.CodeSetupLinkInvalid,
			"Open the whole setup link that Fairlead printed when it was started; it ends with a token.")
	}
	if err := s.cfg.Accounts.CheckSetupLink(r.Context(), token); err != nil {
		return err
	}
	s.render(w, r, http.StatusOK, s.newSetupPage(token).View())
	return nil
}

func (s *Server) postSetup(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	if err := parseForm(r); err != nil {
		return err
	}
	p := s.newSetupPage(r.PostForm.Get("setup"))
	p.Name, p.Email = r.PostForm.Get("name"), r.PostForm.Get("email")
	session, err := s.cfg.Accounts.Setup(r.Context(), accounts.SetupRequest{
		Token: p.Token, Name: p.Name, Email: p.Email, Password: r.PostForm.Get("password"),
		Address: s.gate.ClientAddress(r), Replaces: s.gate.sessionSecret(r),
	})
	if err != nil {
		return s.setupFailed(w, r, p, err)
	}
	return s.loggedIn(w, r, session, "/")
}

// setupFailed shows the form again with the fault beside each field. The link
// stands: it is used up by success alone.
func (s *Server) setupFailed(w http.ResponseWriter, r *http.Request, p account.SetupPage, err error) error {
	e := wire.AsError(err)
	if len(e.Fields) == 0 || !wantsPage(r) {
		return err
	}
	p.Errors = make(map[string]string, len(e.Fields))
	for _, field := range e.Fields {
		p.Errors[field.Path] = accounts.FieldMessage(field)
	}
	s.render(w, r, gateway.HTTPStatus(e.Code), p.View())
	return nil
}
