package httpd

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/sessions"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Authenticator tells who bears a credential; *accounts.Service is one.
type Authenticator interface {
	AuthenticateSession(ctx context.Context, secret string) (gateway.Actor, error)
	AuthenticateToken(ctx context.Context, token string) (gateway.Actor, error)
}

// GateConfig is what a Gate needs. Accounts, PublicURL and Keys are required.
type GateConfig struct {
	Accounts Authenticator
	// PublicURL comes from ParsePublicURL.
	PublicURL *url.URL
	Keys      CookieKeys
	// AllowedOrigins are further origins whose pages may use sessions.
	AllowedOrigins []string
	// TrustedProxies are the peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// SessionMax is how long a browser keeps the cookie; 0 is 90 days.
	SessionMax time.Duration
}

// Gate tells who a request comes from, and whether the page that caused it may
// act for them. The server and the socket share one.
type Gate struct {
	accounts Authenticator
	public   *url.URL
	cookies  *sessions.CookieStore
	cookie   string // name of the cookie
	origins  *origins
	proxies  proxies
}

const (
	defaultSessionMax = 90 * 24 * time.Hour
	// sessionValue is the one value in the cookie: the secret of the session.
	sessionValue = "s"
)

// NewGate checks the configuration and makes a Gate.
func NewGate(cfg GateConfig) (*Gate, error) {
	if cfg.Accounts == nil || cfg.PublicURL == nil || len(cfg.Keys.sign) == 0 {
		return nil, errors.New("httpd: Accounts, PublicURL and Keys are required")
	}
	allowed, err := newOrigins(cfg.PublicURL, cfg.AllowedOrigins)
	if err != nil {
		return nil, err
	}
	if cfg.SessionMax == 0 {
		cfg.SessionMax = defaultSessionMax
	}
	cookies := sessions.NewCookieStore(cfg.Keys.sign, cfg.Keys.seal)
	secure := cfg.PublicURL.Scheme == "https"
	cookies.Options = &sessions.Options{
		Path: cfg.PublicURL.Path + "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
	cookies.MaxAge(int(cfg.SessionMax.Seconds()))
	return &Gate{
		accounts: cfg.Accounts, public: cfg.PublicURL, cookies: cookies,
		cookie: cookieName(secure, cfg.PublicURL.Path), origins: allowed, proxies: cfg.TrustedProxies,
	}, nil
}

// cookieName keeps installations under several paths of one host apart. The
// prefixes make browsers hold the cookie to its flags.
func cookieName(secure bool, base string) string {
	name := "fairlead"
	for _, segment := range strings.FieldsFunc(base, func(r rune) bool { return !isNameRune(r) }) {
		name += "-" + segment
	}
	switch {
	case secure && base == "":
		return "__Host-" + name
	case secure:
		return "__Secure-" + name
	}
	return name
}

func isNameRune(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-'
}

// Authenticate tells who a request comes from: by its bearer token, else by its
// session cookie. Errors: unauthorized without a credential that stands, before
// anything else is looked at (SQ12); forbidden for an upgrade with a session
// whose Origin is not allowed (F18). A token needs no Origin.
func (g *Gate) Authenticate(r *http.Request) (gateway.Actor, error) {
	actor, err := g.authenticate(r)
	if err == nil {
		actor.Origin = g.siteOrigin(r)
	}
	return actor, err
}

// siteOrigin is the one of the configured origins that a request came through: the
// origin of its page, else the one of its host. Whatever else a client claims gives
// "", the default.
func (g *Gate) siteOrigin(r *http.Request) string {
	if origin := r.Header.Get("Origin"); g.origins.allowed[origin] {
		return origin
	}
	for _, scheme := range []string{g.public.Scheme, "https", "http"} {
		if origin := scheme + "://" + canonicalHost(scheme, r.Host); g.origins.allowed[origin] {
			return origin
		}
	}
	return ""
}

func (g *Gate) authenticate(r *http.Request) (gateway.Actor, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return gateway.Actor{}, unauthorized()
		}
		return g.accounts.AuthenticateToken(r.Context(), strings.TrimSpace(token))
	}
	secret := g.sessionSecret(r)
	if secret == "" {
		return gateway.Actor{}, unauthorized()
	}
	actor, err := g.accounts.AuthenticateSession(r.Context(), secret)
	if err != nil {
		return gateway.Actor{}, err
	}
	if r.Header.Get("Upgrade") != "" && !g.CheckOrigin(r) {
		return gateway.Actor{}, originRefused()
	}
	return actor, nil
}

// CheckOrigin tells whether the page behind a request may use a session. One
// without Origin may not: browsers send it with every upgrade.
func (g *Gate) CheckOrigin(r *http.Request) bool {
	origin := r.Header.Values("Origin")
	return len(origin) == 1 && g.origins.allow(r, origin[0])
}

// ClientAddress is the address of the client, for logs and limits.
func (g *Gate) ClientAddress(r *http.Request) string { return g.proxies.clientAddress(r) }

// sessionSecret opens the cookie; "" is none, or one that these keys did not make.
func (g *Gate) sessionSecret(r *http.Request) string {
	// New, unlike Get, leaves the request as it is.
	session, err := g.cookies.New(r, g.cookie)
	if err != nil {
		return ""
	}
	secret, _ := session.Values[sessionValue].(string)
	return secret
}

// setSession puts the secret of a session into the browser's cookie.
func (g *Gate) setSession(w http.ResponseWriter, r *http.Request, secret string) error {
	session := sessions.NewSession(g.cookies, g.cookie)
	options := *g.cookies.Options
	session.Options = &options
	session.Values[sessionValue] = secret
	return g.cookies.Save(r, w, session)
}

// dropSession takes the cookie away.
func (g *Gate) dropSession(w http.ResponseWriter) {
	options := *g.cookies.Options
	options.MaxAge = -1
	http.SetCookie(w, sessions.NewCookie(g.cookie, "", &options))
}

func unauthorized() error {
	return wire.NewError(wire.CodeUnauthorized, "Log in first.")
}

// errOrigin marks the refusals that are audited.
var errOrigin = errors.New("origin is not allowed")

func originRefused() error {
	return wire.WrapError(wire.CodeForbidden,
		"This request came from a page of another site and was refused. If you reached Fairlead under this address yourself, set public_url to it.",
		errOrigin)
}
