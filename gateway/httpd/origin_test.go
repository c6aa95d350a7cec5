package httpd_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestF18_FormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{public: "https://chat.example.com", origins: []string{"https://also.example.com"}})
	b.people(t)
	br := b.browser(t)
	self := strings.TrimPrefix(b.URL, "http://")
	tests := []struct {
		name   string
		header []string
		ok     bool
	}{
		{name: "F18: no browser", ok: true},
		{name: "F18: own page", header: []string{"Origin", "https://chat.example.com", "Sec-Fetch-Site", "same-origin"}, ok: true},
		{name: "F17: own page, Host rewritten by the proxy", header: []string{"Origin", "https://chat.example.com"}, ok: true},
		{name: "F18: allowed page", header: []string{"Origin", "https://also.example.com", "Sec-Fetch-Site", "same-site"}, ok: true},
		{name: "F14: own address on a LAN", header: []string{"Origin", b.URL}, ok: true},
		{name: "F14: own name on a LAN", header: []string{"Origin", "http://nas:8080", "Host", "nas:8080"}, ok: true},
		{name: "F18: another site", header: []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}},
		{name: "F18: another site, old browser", header: []string{"Origin", "https://evil.example"}},
		{name: "F18: sandboxed page", header: []string{"Origin", "null"}},
		{name: "F18: sibling of the site", header: []string{"Origin", "https://evil.example.com", "Sec-Fetch-Site", "same-site"}},
		{name: "F18: http form of the site", header: []string{"Origin", "http://chat.example.com", "Sec-Fetch-Site", "cross-site"}},
		{name: "F18: another port of the address", header: []string{"Origin", "http://127.0.0.1:1"}},
		{name: "F18: name bound to the address", header: []string{"Origin", "http://evil.example:8080", "Host", "evil.example:8080", "Sec-Fetch-Site", "same-origin"}},
		{name: "F18: site in the fragment", header: []string{"Origin", "http://" + self + "#https://chat.example.com"}},
		{name: "F18: link that claims no origin", header: []string{"Sec-Fetch-Site", "cross-site"}},
	}
	refused := 0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, path := range []string{"/login", "/setup", "/logout"} {
				res := br.in(t).do("POST", path, url.Values{}, tt.header...)
				if (res.StatusCode != http.StatusForbidden) != tt.ok {
					t.Errorf("%s: %s", path, res.Status)
				}
			}
		})
		if !tt.ok {
			refused += 3
		}
	}
	entries, err := b.accounts.Audit(t.Context(), accounts.Operator(), "", 500)
	if err != nil {
		t.Fatal(err)
	}
	audited := 0
	for _, e := range entries {
		if e.Action != gateway.AuditOriginRefused {
			continue
		}
		audited++
		if e.Address != "127.0.0.1" || !strings.HasPrefix(e.Detail, "POST /") {
			t.Errorf("entry %+v", e)
		}
	}
	if audited == 0 || audited > refused {
		t.Errorf("%d of %d refusals are audited", audited, refused)
	}
	if audited > 25 {
		t.Errorf("a stranger wrote %d audit rows at once", audited)
	}
}

func TestF18_SocketWithACookieNeedsAnAllowedOrigin(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	cookie := sessionCookie(t, b.browser(t).login(memberEmail))
	withCookie := "Cookie"
	token := "Bearer " + b.token(t, memberEmail, gateway.ScopeChat)
	tests := []struct {
		name   string
		header http.Header
		want   int
	}{
		{name: "F18: cookie, own page", header: http.Header{"Origin": {b.URL}, withCookie: {cookie.Name + "=" + cookie.Value}}, want: 101},
		{name: "F18: cookie, no Origin", header: http.Header{withCookie: {cookie.Name + "=" + cookie.Value}}, want: 403},
		{name: "F18: cookie, another site", header: http.Header{"Origin": {"https://evil.example"}, withCookie: {cookie.Name + "=" + cookie.Value}}, want: 403},
		{name: "F18: cookie, null", header: http.Header{"Origin": {"null"}, withCookie: {cookie.Name + "=" + cookie.Value}}, want: 403},
		{name: "F18: token, no Origin", header: http.Header{"Authorization": {token}}, want: 101},
		{name: "F18: token, another site", header: http.Header{"Origin": {"https://app.example"}, "Authorization": {token}}, want: 101},
		{name: "F18: bad token does not fall back to the cookie", header: http.Header{"Origin": {b.URL}, "Authorization": {"Bearer fl_x"}, withCookie: {cookie.Name + "=" + cookie.Value}}, want: 401},
		{name: "F18: session as a token", header: http.Header{"Authorization": {"Bearer " + cookie.Value}}, want: 401},
		{name: "SQ12: nothing, another site", header: http.Header{"Origin": {"https://evil.example"}}, want: 401},
		{name: "SQ12: nothing", header: http.Header{"Origin": {b.URL}}, want: 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls := b.sockets.calls.Load()
			conn, res, err := websocket.Dial(t.Context(), strings.Replace(b.URL, "http", "ws", 1)+"/ws", &websocket.DialOptions{HTTPHeader: tt.header})
			if res == nil || res.StatusCode != tt.want {
				t.Fatalf("%v, %v; want %d", res, err, tt.want)
			}
			if err != nil {
				if b.sockets.calls.Load() != calls {
					t.Error("the socket was called")
				}
				return
			}
			defer conn.CloseNow()
			if err := conn.Write(t.Context(), websocket.MessageText, []byte("ahoy")); err != nil {
				t.Fatal(err)
			}
			if _, data, err := conn.Read(t.Context()); err != nil || string(data) != "ahoy" {
				t.Errorf("%q, %v", data, err)
			}
			_, _, _ = conn.Read(t.Context()) // its close
		})
	}
}

func TestF17_ForgedProxyHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	forged := []string{
		"X-Forwarded-Proto", "https", "X-Forwarded-Host", "evil.example", "X-Forwarded-For", "203.0.113.9",
		"X-Real-Ip", "203.0.113.9", "Forwarded", "for=203.0.113.9;host=evil.example;proto=https", "X-Forwarded-Prefix", "/evil",
	}
	for _, public := range []string{"http://nas.example.net:8080/chat", "https://chat.example.com"} {
		t.Run("F17: "+public, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options{public: public, proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
			b.people(t)
			br := b.browser(t)
			form := url.Values{"email": {memberEmail}, "password": {password}}
			for _, call := range []struct {
				method, path string
				form         url.Values
			}{{"GET", "/", nil}, {"GET", "/login", nil}, {"GET", "/admin", nil}, {"POST", "/login", form}, {"POST", "/logout", url.Values{}}} {
				plain := b.browser(t).do(call.method, call.path, call.form)
				res := b.browser(t).do(call.method, call.path, call.form, forged...)
				if res.StatusCode != plain.StatusCode || res.Header.Get("Location") != plain.Header.Get("Location") ||
					res.Header.Get("Content-Security-Policy") != plain.Header.Get("Content-Security-Policy") || res.body != plain.body {
					t.Errorf("%s %s: %s to %q, without them %s to %q", call.method, call.path,
						res.Status, res.Header.Get("Location"), plain.Status, plain.Header.Get("Location"))
				}
				for i, c := range res.Cookies() {
					want := plain.Cookies()[i]
					if c.Secure != want.Secure || c.Name != want.Name || c.Path != want.Path || c.Domain != want.Domain {
						t.Errorf("cookie %+v, without them %+v", c, want)
					}
				}
			}
			if res := br.do("POST", "/login", url.Values{}, append(forged, "Origin", "https://evil.example")...); res.StatusCode != http.StatusForbidden {
				t.Errorf("a foreign form: %s", res.Status)
			}
			if log := b.log.String(); strings.Contains(log, "203.0.113.9") || strings.Contains(log, "evil.example") {
				t.Error("the log believes them")
			}
		})
	}
}

func TestF17_OnlyListedProxiesNameTheClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}})
	tests := []struct {
		name, peer, want string
		forwarded        []string
	}{
		{name: "F17: unlisted peer", peer: "198.51.100.1:9", forwarded: []string{"203.0.113.9"}, want: "198.51.100.1"},
		{name: "F17: listed peer", peer: "10.0.0.1:9", forwarded: []string{"203.0.113.9"}, want: "203.0.113.9"},
		{name: "F17: what the client forged stands in front", peer: "10.0.0.1:9", forwarded: []string{"192.0.2.1, 203.0.113.9"}, want: "203.0.113.9"},
		{name: "F17: two proxies", peer: "10.0.0.1:9", forwarded: []string{"192.0.2.1", "203.0.113.9, 10.0.0.2"}, want: "203.0.113.9"},
		{name: "F17: listed peer without header", peer: "10.0.0.1:9", want: "10.0.0.1"},
		{name: "F17: nonsense", peer: "10.0.0.1:9", forwarded: []string{"203.0.113.9, nonsense"}, want: "10.0.0.1"},
		{name: "F17: IPv6", peer: "[fd00::1]:9", forwarded: []string{"2001:db8::7"}, want: "2001:db8::7"},
		{name: "F17: mapped", peer: "[::ffff:10.0.0.1]:9", forwarded: []string{"::ffff:203.0.113.9"}, want: "203.0.113.9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.RemoteAddr = tt.peer
			for _, line := range tt.forwarded {
				r.Header.Add("X-Forwarded-For", line)
			}
			if got := b.gate.ClientAddress(r); got != tt.want {
				t.Errorf("client %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"http://localhost:8080": "http://localhost:8080", "https://Chat.Example.com:443/": "https://chat.example.com",
		"http://example.com:80/a/b/": "http://example.com/a/b", "http://[::1]:8080/x": "http://[::1]:8080/x",
	} {
		if u, err := httpd.ParsePublicURL(raw); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v", raw, u, err)
		}
	}
	for _, raw := range []string{
		"", "chat.example.com", "ftp://example.com", "http://", "http://u:p@example.com", "http://example.com/?x", "http://example.com/?",
		"http://example.com/#x", "http://example.com/{x}", "http://example.com/a//b", "http://example.com/a/../b", "http://example.com/a%2fb",
	} {
		if u, err := httpd.ParsePublicURL(raw); err == nil {
			t.Errorf("%q is taken as %v", raw, u)
		}
	}
	if _, err := httpd.NewGate(httpd.GateConfig{}); err == nil || wire.CodeOf(err) != wire.CodeInternal {
		t.Errorf("an empty gate: %v", err)
	}
}
