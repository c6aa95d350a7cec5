package httpd_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

// paths fills the patterns of the table.
func path(pattern string) string {
	return strings.NewReplacer("{$}", "", "{id}", aThread, "{threadId}", noThread, "{turnId}", noThread, "{agentId}", noThread, "{hostId}", "no-host", "{inviteId}", noThread).Replace(pattern)
}

// TestSQ12_EveryRouteLetsInWhomItNames walks the table itself, so that a new
// route is walked too.
func TestSQ12_EveryRouteLetsInWhomItNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{metrics: &metrics{}})
	b.people(t)
	stranger, member, admin := b.browser(t), b.as(t, memberEmail), b.as(t, adminEmail)
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token, "Accept", "*/*"} }
	chatToken := bearer(b.token(t, adminEmail, gateway.ScopeChat))
	adminToken := bearer(b.token(t, adminEmail, gateway.ScopeAdmin))
	controlToken := bearer(b.controlToken(t, adminEmail))
	table := b.httpd.Table()
	if len(table) < 14 {
		t.Fatalf("the table has %d routes only", len(table))
	}
	for _, rt := range table {
		t.Run(rt.Method+" "+rt.Path, func(t *testing.T) {
			var form url.Values
			if rt.Method == http.MethodPost {
				form = url.Values{}
			}
			if rt.Path == "/logout" { // of nobody, so that the sessions stay
				member, admin = stranger, stranger
				defer func() { member, admin = b.as(t, memberEmail), b.as(t, adminEmail) }()
			}
			status := func(br *browser, header ...string) answer {
				t.Helper()
				return br.in(t).do(rt.Method, path(rt.Path), form, header...)
			}
			calls := b.sockets.calls.Load()
			page := status(stranger)
			program := status(stranger, "Accept", "application/json")
			forged := status(stranger, "Authorization", "Bearer fl_forged", "Accept", "*/*", "Upgrade", "websocket", "Connection", "Upgrade")
			if rt.Open {
				for _, res := range []answer{page, program, forged} {
					if res.StatusCode == http.StatusUnauthorized && rt.Path != "/login" || res.StatusCode == http.StatusForbidden || res.StatusCode >= http.StatusInternalServerError {
						t.Errorf("an open route answers a stranger with %s", res.Status)
					}
				}
				return
			}
			switch {
			case rt.Page && (page.StatusCode != http.StatusSeeOther || !strings.HasPrefix(page.Header.Get("Location"), "/login")):
				t.Errorf("a stranger's browser gets %s to %q", page.Status, page.Header.Get("Location"))
			case !rt.Page && page.StatusCode != http.StatusUnauthorized:
				t.Errorf("a stranger's browser gets %s", page.Status)
			}
			for _, res := range []answer{program, forged} {
				if res.StatusCode != http.StatusUnauthorized || errorCode(t, res) != wire.CodeUnauthorized {
					t.Errorf("a stranger's program gets %s: %s", res.Status, res.body)
				}
			}
			if b.sockets.calls.Load() != calls {
				t.Error("the socket was called for a stranger")
			}
			if rt.Host {
				for _, header := range [][]string{chatToken, adminToken, {"Authorization", "Fairlead-Host no-host.x.y"}} {
					if res := status(admin, header...); res.StatusCode != http.StatusUnauthorized {
						t.Errorf("who is no host gets %s", res.Status)
					}
				}
				return
			}
			if got := status(stranger, controlToken...).StatusCode; (got == http.StatusForbidden) == rt.Control {
				t.Errorf("a token for control planes gets %d", got)
			}
			if rt.Control {
				for _, got := range []answer{status(member), status(admin), status(stranger, chatToken...), status(stranger, adminToken...)} {
					if got.StatusCode != http.StatusForbidden {
						t.Errorf("no control plane gets %d", got.StatusCode)
					}
				}
				return
			}
			if got := status(member).StatusCode; (got == http.StatusForbidden) != rt.Admin {
				t.Errorf("a member gets %d", got)
			}
			if got := status(admin).StatusCode; got == 401 || got == 403 || got >= 500 {
				t.Errorf("an admin gets %d", got)
			}
			if got := status(stranger, chatToken...).StatusCode; (got == http.StatusForbidden) != rt.Admin {
				t.Errorf("a chat token gets %d", got)
			}
			if got := status(stranger, adminToken...).StatusCode; (got == http.StatusForbidden) == rt.Admin {
				t.Errorf("a token for admin alone gets %d", got)
			}
		})
	}
}

// controlToken makes a token of a control plane.
func (b *bench) controlToken(t *testing.T, email string) string {
	t.Helper()
	acc, err := b.accounts.UserByEmail(t.Context(), accounts.Operator(), email)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := b.accounts.CreateToken(t.Context(), accounts.Operator(), accounts.NewToken{
		AccountID: acc.ID, Name: "control", Scopes: []gateway.Scope{gateway.ScopeControl}, Targets: []string{"target_1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestSQ12_NoSessionComesBeforeAnUnknownThread(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	for _, id := range []string{aThread, noThread, "no-uuid"} {
		res := b.browser(t).get("/chats/"+id, "Accept", "application/json")
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: a stranger gets %s", id, res.Status)
		}
	}
	res := b.browser(t).get("/ws?agentId=unknown", "Accept", "*/*")
	if res.StatusCode != http.StatusUnauthorized || errorCode(t, res) != wire.CodeUnauthorized {
		t.Errorf("socket: %s", res.Status)
	}
	member := b.as(t, memberEmail)
	for id, want := range map[string]int{aThread: 200, noThread: 404, "no-uuid": 404, strings.ToUpper("0195f7a0-0000-7000-8000-00000000000a"): 404} {
		if res := member.get("/chats/" + id); res.StatusCode != want {
			t.Errorf("%s: a member gets %s", id, res.Status)
		}
	}
}

func TestEveryAnswerHasItsHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{public: "https://chat.example.com"})
	b.people(t)
	br := b.browser(t)
	for _, res := range []answer{
		br.get("/"), br.get("/login"), br.get("/livez"), br.get("/nothing"), br.get("/ws"),
		br.do("DELETE", "/login", nil), br.do("POST", "/login", url.Values{}, "Origin", "https://evil.example"),
		br.get(b.asset("css/app.css")),
	} {
		where := res.Request.Method + " " + res.Request.URL.Path + " " + res.Status
		h := res.Header
		if h.Get("X-Request-Id") == "" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: %v", where, h)
		}
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'self'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "connect-src 'self' wss://chat.example.com"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy lacks %q", where, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", where, policy)
		}
		if cache := h.Get("Cache-Control"); !strings.Contains(res.Request.URL.Path, "/static/") && cache != "no-store" {
			t.Errorf("%s: Cache-Control %q", where, cache)
		}
	}
}

func TestErrorsFitWhoIsLooking(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	br := b.browser(t)
	tests := []struct {
		name, method, path string
		status             int
		code               wire.Code
	}{
		{name: "no route", method: "GET", path: "/nothing", status: 404, code: wire.CodeNotFound},
		{name: "no file", method: "GET", path: "/static/x/y.js", status: 404, code: wire.CodeNotFound},
		{name: "no method", method: "DELETE", path: "/login", status: 405, code: wire.CodeBadRequest},
		{name: "link of nobody", method: "GET", path: "/setup?token=canary-link", status: 400, code: gateway.CodeSetupLinkInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			br := br.in(t)
			program := br.do(tt.method, tt.path, nil, "Accept", "application/json")
			if program.StatusCode != tt.status || errorCode(t, program) != tt.code {
				t.Errorf("a program gets %s: %s", program.Status, program.body)
			}
			if tt.status == 405 && !strings.Contains(program.Header.Get("Allow"), "POST") {
				t.Errorf("Allow %q", program.Header.Get("Allow"))
			}
			page := br.do(tt.method, tt.path, nil)
			if tt.name != "no file" && (page.StatusCode != tt.status || !strings.Contains(page.body, `data-testid="error-page"`)) {
				t.Errorf("a person gets %s: %s", page.Status, page.body)
			}
		})
	}
	big := br.do("POST", "/login", url.Values{"email": {strings.Repeat("x", 100<<10)}}, "Accept", "application/json")
	if big.StatusCode != http.StatusRequestEntityTooLarge || errorCode(t, big) != wire.CodeFrameTooLarge || !strings.Contains(big.body, `"limit":65536`) {
		t.Errorf("a large body gets %s: %s", big.Status, big.body)
	}
}

func errorCode(t *testing.T, res answer) wire.Code {
	t.Helper()
	var body struct {
		Error wire.ErrorBody `json:"error"`
	}
	if err := json.Unmarshal([]byte(res.body), &body); err != nil {
		t.Fatalf("%s %s: %v in %q", res.Status, res.Request.URL, err, res.body)
	}
	if body.Error.Message == "" {
		t.Errorf("an error without a message: %s", res.body)
	}
	return body.Error.Code
}
