package httpd

import (
	"net/http"
	"net/url"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views/account"
)

const loginPath = "/login"

func (s *Server) newLoginPage(next string) account.LoginPage {
	return account.LoginPage{Site: s.site, Action: loginPath, Next: next}
}

func (s *Server) getLogin(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	next := safeNext(r.URL.Query().Get("next"))
	if _, err := s.gate.Authenticate(r); err == nil {
		s.redirect(w, r, next)
		return nil
	}
	needs, err := s.cfg.Accounts.NeedsSetup(r.Context())
	if err != nil {
		return err
	}
	p := s.newLoginPage(next)
	switch {
	case needs:
		p.Notice = "Fairlead is not set up yet. Open the setup link that it printed when it was started."
	case s.gate.sessionSecret(r) != "":
		p.Notice = "Your session ended. Log in to go on."
	}
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

func (s *Server) postLogin(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	if err := parseForm(r); err != nil {
		return err
	}
	p := s.newLoginPage(safeNext(r.PostForm.Get("next")))
	p.Email = r.PostForm.Get("email")
	if p.Email == "" || r.PostForm.Get("password") == "" {
		return s.loginFailed(w, r, p, wire.NewError(wire.CodeBadRequest, "Enter your email and your password."))
	}
	session, err := s.cfg.Accounts.Login(r.Context(), accounts.LoginRequest{
		Email: p.Email, Password: r.PostForm.Get("password"),
		Address: s.gate.ClientAddress(r), Replaces: s.gate.sessionSecret(r),
	})
	if err != nil {
		return s.loginFailed(w, r, p, err)
	}
	return s.loggedIn(w, r, session, p.Next)
}

// loginFailed shows the form again with what was typed, where the person can do
// something about it.
func (s *Server) loginFailed(w http.ResponseWriter, r *http.Request, p account.LoginPage, err error) error {
	e := wire.AsError(err)
	status := gateway.HTTPStatus(e.Code)
	if !wantsPage(r) || status == http.StatusInternalServerError {
		return err
	}
	setRetryAfter(w, e)
	p.Error = e.Message
	s.render(w, r, status, p.View())
	return nil
}

// loggedIn gives the browser its session and has it come back once with the
// cookie, before it goes on.
func (s *Server) loggedIn(w http.ResponseWriter, r *http.Request, session accounts.Session, next string) error {
	if err := s.gate.setSession(w, r, session.Secret); err != nil {
		return err
	}
	s.redirect(w, r, "/login/check?next="+url.QueryEscape(next))
	return nil
}

// getLoginCheck tells somebody whose browser dropped the cookie so, instead of
// showing the login form again and again (F14).
func (s *Server) getLoginCheck(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	next := safeNext(r.URL.Query().Get("next"))
	_, err := s.gate.Authenticate(r)
	if err == nil {
		s.redirect(w, r, next)
		return nil
	}
	if wire.CodeOf(err) != wire.CodeUnauthorized {
		return err
	}
	public := originOf(s.gate.public) + s.site.Base + "/"
	why := "Your browser did not send the session cookie back, so you cannot stay logged in. "
	if s.gate.public.Scheme == "https" {
		why += "The cookie is kept on https alone: open " + public + ", or set public_url to the address that you use."
	} else {
		why += "Allow cookies for this site. Its public address is " + public + "; if you use another one, set public_url to it."
	}
	p := s.newLoginPage(next)
	p.Error = why
	s.render(w, r, http.StatusBadRequest, p.View())
	return nil
}

func (s *Server) postLogout(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	if secret := s.gate.sessionSecret(r); secret != "" {
		if err := s.cfg.Accounts.Logout(r.Context(), secret, s.gate.ClientAddress(r)); err != nil {
			return err
		}
	}
	s.gate.dropSession(w)
	s.redirect(w, r, loginPath)
	return nil
}

// parseForm reads a posted form; what is none is bad_request, except a body that
// is too large.
func parseForm(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return wire.WrapError(wire.CodeBadRequest, "This form could not be read.", err)
	}
	return nil
}
