package httpd_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

// sessionCookie is the cookie that an answer sets.
func sessionCookie(t *testing.T, res answer) *http.Cookie {
	t.Helper()
	cookies := res.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%s sets %d cookies: %s", res.Status, len(cookies), res.body)
	}
	return cookies[0]
}

func TestF14_CookieFlagsFollowThePublicURL(t *testing.T) {
	t.Parallel()
	tests := []struct {
		public, name, path string
		secure             bool
	}{
		{public: "http://nas.example.net:8080", name: "fairlead", path: "/"},
		{public: "http://192.168.1.5:8080/", name: "fairlead", path: "/"},
		{public: "http://nas.local/tools/chat", name: "fairlead-tools-chat", path: "/tools/chat/"},
		{public: "https://chat.example.com", name: "__Host-fairlead", path: "/", secure: true},
		{public: "https://example.com/chat/", name: "__Secure-fairlead-chat", path: "/chat/", secure: true},
	}
	for _, tt := range tests {
		t.Run(tt.public, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{public: tt.public})
			b.people(t)
			c := sessionCookie(t, b.browser(t).login(memberEmail))
			if c.Name != tt.name || c.Path != tt.path || c.Secure != tt.secure || c.Domain != "" ||
				!c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != int(accounts.DefaultSessionMax.Seconds()) {
				t.Errorf("cookie %+v", c)
			}
			if len(c.Value) > 1000 {
				t.Errorf("the cookie holds %d bytes", len(c.Value))
			}
		})
	}
}

func TestF14_ALoginThatCannotStickSaysSo(t *testing.T) {
	t.Parallel()
	t.Run("F14: https address used over http", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, options{public: "https://chat.example.com"})
		b.people(t)
		br := b.browser(t)
		// Cookie jars take a loopback address for safe, so go by a name.
		br.at("chat.example.com")
		res := br.do("POST", "http://chat.example.com/login", url.Values{"email": {memberEmail}, "password": {password}})
		if at := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(at, "/login/check") {
			t.Fatalf("%s to %s", res.Status, at)
		}
		res = br.get("http://chat.example.com" + res.Header.Get("Location"))
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(res.body, "did not send the session cookie back") ||
			!strings.Contains(res.body, "https://chat.example.com/") || !strings.Contains(res.body, "public_url") {
			t.Errorf("%s: %s", res.Status, res.body)
		}
	})
	t.Run("F14: plain http sticks", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, options{public: "http://nas.example.net:8080/chat"})
		b.people(t)
		br := b.browser(t)
		b.base, b.URL = "http://nas.example.net:8080/chat", "http://nas.example.net:8080"
		br.at("nas.example.net:8080")
		res := br.do("POST", "/login", url.Values{"email": {memberEmail}, "password": {password}, "next": {"/chats/" + aThread}})
		res = br.get(b.URL + res.Header.Get("Location"))
		if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/chat/chats/"+aThread {
			t.Fatalf("%s to %s", res.Status, res.Header.Get("Location"))
		}
		if res = br.get(b.URL + res.Header.Get("Location")); res.StatusCode != http.StatusOK || !strings.Contains(res.body, "Tides &amp; knots") {
			t.Errorf("%s: %s", res.Status, res.body)
		}
		if res = br.get("/login?next=/admin"); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/chat/admin" {
			t.Errorf("logged in already: %s to %s", res.Status, res.Header.Get("Location"))
		}
	})
}

func TestSessionStaysWithTheFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cookie.key")
	first, err := httpd.LoadCookieKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	second, err := httpd.LoadCookieKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, options{})
	b.people(t)
	session, err := b.accounts.Login(t.Context(), accounts.LoginRequest{Email: memberEmail, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	gates := make([]*httpd.Gate, 0, 3)
	other, err := httpd.LoadCookieKeys(filepath.Join(t.TempDir(), "cookie.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range []httpd.CookieKeys{first, second, other} {
		g, err := httpd.NewGate(httpd.GateConfig{Accounts: b.accounts, PublicURL: b.public, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, g)
	}
	for i, want := range []wire.Code{"", "", wire.CodeUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(gates[0].SessionCookie(t, session.Secret))
		if _, err := gates[i].Authenticate(req); wire.CodeOf(err) != want {
			t.Errorf("gate %d: %v", i, err)
		}
	}
	for name, damage := range map[string]func() error{
		"damaged": func() error { return os.WriteFile(path, []byte("AAAA"), 0o600) },
		"open":    func() error { return os.Chmod(path, 0o644) }, //nolint:gosec // on purpose
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := httpd.LoadCookieKeys(path); err == nil {
			t.Errorf("%s keys are taken", name)
		}
	}
}

func TestLoginFailsWithTheFormAndWhatWasTyped(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	br := b.browser(t)
	tests := []struct {
		name, email, password, want string
		status                      int
	}{
		{name: "wrong", email: memberEmail, password: "wrong", status: 401, want: "Email or password is wrong."},
		{name: "unknown", email: `x"><b>@example.com`, password: "wrong", status: 401, want: "Email or password is wrong."},
		{name: "empty", email: memberEmail, status: 400, want: "Enter your email and your password."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := br.in(t).do("POST", "/login", url.Values{"email": {tt.email}, "password": {tt.password}, "next": {"/admin"}})
			if res.StatusCode != tt.status || !strings.Contains(res.body, tt.want) || len(res.Cookies()) != 0 {
				t.Errorf("%s: %s", res.Status, res.body)
			}
			if strings.Contains(res.body, "<b>") || !strings.Contains(res.body, `value="/admin"`) || !strings.Contains(res.body, "example.com\"") {
				t.Errorf("what was typed is not kept: %s", res.body)
			}
		})
	}
	t.Run("throttled", func(t *testing.T) {
		br := br.in(t)
		var res answer
		for range accounts.DefaultThrottle().AddressBurst + 1 {
			res = br.do("POST", "/login", url.Values{"email": {memberEmail}, "password": {"wrong"}})
		}
		wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if res.StatusCode != http.StatusTooManyRequests || err != nil || wait < 1 || !strings.Contains(res.body, memberEmail) {
			t.Errorf("%s, Retry-After %q: %s", res.Status, res.Header.Get("Retry-After"), res.body)
		}
		res = br.do("POST", "/login", url.Values{"email": {memberEmail}, "password": {password}}, "Accept", "application/json")
		if errorCode(t, res) != wire.CodeRateLimited || !strings.Contains(res.body, "retryAfterMs") {
			t.Errorf("%s: %s", res.Status, res.body)
		}
	})
}

func TestLoginRotatesTheSessionAndLogoutEndsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	br := b.browser(t)
	first := sessionCookie(t, br.login(memberEmail))
	stolen := b.browser(t)
	with := func(c *http.Cookie) int {
		return stolen.get("/", "Cookie", c.Name+"="+c.Value, "Accept", "*/*").StatusCode
	}
	if got := with(first); got != 200 {
		t.Fatalf("the first cookie: %d", got)
	}
	second := sessionCookie(t, br.login(memberEmail))
	if got := with(first); got != 401 || first.Value == second.Value {
		t.Errorf("the first cookie after a second login: %d", got)
	}
	res := br.do("POST", "/logout", url.Values{})
	if c := sessionCookie(t, res); res.StatusCode != http.StatusSeeOther || c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("logout: %s, cookie %+v", res.Status, c)
	}
	if got := with(second); got != 401 {
		t.Errorf("the cookie after logout: %d", got)
	}
	if got := with(&http.Cookie{Name: second.Name, Value: "forged"}); got != 401 {
		t.Errorf("a forged cookie: %d", got)
	}
	if res := br.get("/admin"); res.Header.Get("Location") != "/login?next=%2Fadmin" {
		t.Errorf("after logout: %s to %s", res.Status, res.Header.Get("Location"))
	}
}

func TestNextStaysOnThisSite(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"/admin": "/admin", "/chats/" + aThread: "/chats/" + aThread, "": "/", "/": "/",
		"//evil.example": "/", "https://evil.example/": "/", `/\evil.example`: "/", `\/evil.example`: "/",
		"/%2f/evil.example": "/", "/%5cevil.example": "/", "javascript:alert(1)": "/", "/a/../../x": "/", "/a//b": "/",
		"evil": "/", "/login": "/", "/logout": "/", "/setup": "/", "/login/check": "/", "/a\nb": "/", "/admin?x=1": "/admin",
		"/static/x": "/", "//": "/", "///evil.example": "/", "/ws": "/", "http:admin": "/", "/\tx": "/",
	}
	for next, want := range tests {
		if got := httpd.SafeNext(next); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

func TestSetupOverHTTP(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{public: "http://127.0.0.1/fair"})
	token, err := b.accounts.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	link, err := url.Parse(httpd.SetupURL(b.public, token))
	if err != nil {
		t.Fatal(err)
	}
	br := b.browser(t)
	if res := br.get("/login"); !strings.Contains(res.body, "not set up yet") {
		t.Errorf("the login page does not say what to do: %s", res.body)
	}
	if res := br.get("/setup"); res.StatusCode != http.StatusBadRequest || !strings.Contains(res.body, "whole setup link") {
		t.Errorf("without token: %s", res.Status)
	}
	res := br.get(b.URL + link.RequestURI())
	if res.StatusCode != http.StatusOK || !strings.Contains(res.body, `data-testid="setup-form"`) || !strings.Contains(res.body, `action="/fair/setup"`) {
		t.Fatalf("%s: %s", res.Status, res.body)
	}
	form := url.Values{"setup": {token}, "name": {"Ada <3"}, "email": {"nonsense"}, "password": {"short"}}
	res = br.do("POST", "/setup", form)
	for _, want := range []string{"This is not an email address.", "at least 10 characters", `value="Ada &lt;3"`, `value="nonsense"`} {
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(res.body, want) {
			t.Errorf("%s lacks %q: %s", res.Status, want, res.body)
		}
	}
	form.Set("email", adminEmail)
	form.Set("password", password)
	answers := make([]answer, 4)
	var wg sync.WaitGroup
	for i := range answers {
		racer := b.browser(t)
		wg.Go(func() { answers[i] = racer.do("POST", "/setup", form) })
	}
	wg.Wait()
	won := 0
	for _, res := range answers {
		switch res.StatusCode {
		case http.StatusSeeOther:
			won++
			c := sessionCookie(t, res)
			if got := br.get("/admin", "Cookie", c.Name+"="+c.Value); got.StatusCode != http.StatusOK || !strings.Contains(got.body, "binding-7") {
				t.Errorf("the new admin's dashboard: %s", got.Status)
			}
		case http.StatusBadRequest:
			if !strings.Contains(res.body, "not valid any more") {
				t.Errorf("a loser gets %s", res.body)
			}
		default:
			t.Errorf("%s: %s", res.Status, res.body)
		}
	}
	if won != 1 {
		t.Errorf("%d of 4 setups won", won)
	}
	if res := br.get(b.URL + link.RequestURI()); res.StatusCode != http.StatusBadRequest {
		t.Errorf("the used link: %s", res.Status)
	}
	if res := br.get("/setup"); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/fair/login" {
		t.Errorf("setup afterwards: %s", res.Status)
	}
}

// TestSecretsLeaveOnlyInTheCookie is a canary over everything that the server
// says and logs.
func TestSecretsLeaveOnlyInTheCookie(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	link, err := b.accounts.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	br := b.browser(t)
	say := func(res answer) answer {
		header := res.Header.Clone()
		header.Del("Set-Cookie")
		_ = header.Write(&said)
		said.WriteString(res.body)
		return res
	}
	br.get("/setup?token=" + link) // the form carries its own token
	res := say(br.do("POST", "/setup", url.Values{"setup": {link}, "name": {"Ada"}, "email": {adminEmail}, "password": {password}}))
	cookie := sessionCookie(t, res).Value
	token := b.token(t, adminEmail, gateway.ScopeChat, gateway.ScopeAdmin)
	session, err := b.accounts.Login(t.Context(), accounts.LoginRequest{Email: adminEmail, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range b.httpd.Table() {
		if rt.Path == "/logout" {
			continue
		}
		target := path(rt.Path) + "?token=" + link + "&password=" + password + "&next=/admin"
		form := url.Values{"email": {adminEmail}, "password": {"canary-typed"}, "setup": {link}, "next": {"/x?" + link}}
		if rt.Method == http.MethodGet {
			form = nil
		}
		target = strings.ReplaceAll(target, " ", "%20")
		say(br.do(rt.Method, target, form))
		say(br.do(rt.Method, target, form, "Accept", "*/*", "Authorization", "Bearer "+token))
		say(b.browser(t).do(rt.Method, target, form, "Cookie", "fairlead="+session.Secret))
	}
	everything := said.String() + b.log.String()
	for name, secret := range map[string]string{
		"setup link": link, "password": password, "typed password": "canary-typed", "token": token, "cookie": cookie, "session": session.Secret,
	} {
		for _, form := range []string{secret, url.QueryEscape(secret)} {
			if at := strings.Index(everything, form); at >= 0 {
				t.Errorf("the %s leaves: …%s…", name, everything[max(0, at-80):at])
			}
		}
	}
	if !strings.Contains(b.log.String(), "path=/setup") || !strings.Contains(said.String(), "Log in") {
		t.Error("the canary saw nothing")
	}
}
