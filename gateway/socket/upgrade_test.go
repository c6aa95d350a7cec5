package socket_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/wire"
)

// handshake is a request as a browser sends it, but for what a case changes.
func (r *rig) handshake(change func(http.Header)) *http.Response {
	r.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, r.http.URL+"/ws", nil)
	if err != nil {
		r.Fatal(err)
	}
	for k, v := range map[string]string{
		"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": socket.Protocol,
		"Authorization": "Bearer bob",
	} {
		req.Header.Set(k, v)
	}
	change(req.Header)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestRefusalsBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		name   string
		change func(http.Header)
		status int
		code   wire.Code
	}{
		{"SQ12: no credential", func(h http.Header) { h.Del("Authorization") }, 401, wire.CodeUnauthorized},
		{"SQ12: ended credential before all else", func(h http.Header) {
			h.Set("Authorization", "Bearer nobody")
			h.Del("Upgrade")
			h.Set("Sec-WebSocket-Protocol", "other")
			h.Set("Origin", "https://evil.example")
		}, 401, wire.CodeUnauthorized},
		{"token without the scope chat", func(h http.Header) { h.Set("Authorization", "Bearer meter") }, 403, wire.CodeForbidden},
		{"no subprotocol", func(h http.Header) { h.Del("Sec-WebSocket-Protocol") }, 400, wire.CodeBadRequest},
		{"another subprotocol", func(h http.Header) { h.Set("Sec-WebSocket-Protocol", "fairlead.host.v1, fairlead.client.v2") }, 400, wire.CodeBadRequest},
		{"subprotocol in capitals", func(h http.Header) { h.Set("Sec-WebSocket-Protocol", "FAIRLEAD.client.v1") }, 400, wire.CodeBadRequest},
		{"plain GET", func(h http.Header) { h.Del("Connection"); h.Del("Upgrade") }, 426, wire.CodeBadRequest},
		{"plain GET with a cookie and no Origin", func(h http.Header) {
			h.Del("Authorization")
			h.Del("Upgrade")
			h.Set("Cookie", "s=bob")
		}, 426, wire.CodeBadRequest},
		{"old version", func(h http.Header) { h.Set("Sec-WebSocket-Version", "8") }, 400, wire.CodeBadRequest},
		{"bad key", func(h http.Header) { h.Set("Sec-WebSocket-Key", "short") }, 400, wire.CodeBadRequest},
		{"two subprotocols, ours second", func(h http.Header) { h.Set("Sec-WebSocket-Protocol", "x, "+socket.Protocol) }, 101, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := r.handshake(c.change)
			if res.StatusCode != c.status {
				t.Fatalf("status %d, want %d", res.StatusCode, c.status)
			}
			if c.code == "" {
				return
			}
			var body struct {
				Error wire.ErrorBody `json:"error"`
			}
			if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			if body.Error.Code != c.code || body.Error.Message == "" {
				t.Errorf("error %+v, want code %s", body.Error, c.code)
			}
			if ct := res.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
				t.Errorf("content type %q", ct)
			}
			if c.status == 426 && res.Header.Get("Upgrade") != "websocket" {
				t.Error("426 does not name the protocol")
			}
		})
	}
}

func TestF18_OnlyPagesOfAnAllowedOriginMayUseASession(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) {
		c.AllowedOrigins = []string{origin, "http://lan.example:8080", "https://plain.example:443"}
	})
	for _, c := range []struct {
		name, origin string
		bearer       bool
		status       int
	}{
		{"the site", origin, false, 101},
		{"the site in capitals", "HTTPS://Chat.Example", false, 101},
		{"the site with its default port", origin + ":443", false, 101},
		{"default port left out", "https://plain.example", false, 101},
		{"another allowed one", "http://lan.example:8080", false, 101},
		{"none", "", false, 403},
		{"null", "null", false, 403},
		{"another site", "https://evil.example", false, 403},
		{"another scheme", "http://chat.example", false, 403},
		{"another port", "https://chat.example:8443", false, 403},
		{"a subdomain", "https://a.chat.example", false, 403},
		{"a name that ends so", "https://evilchat.example", false, 403},
		{"a name that begins so", "https://chat.example.evil", false, 403},
		{"with a path", origin + "/x", false, 403},
		{"with a user", "https://chat.example@evil.example", false, 403},
		{"no url", "::", false, 403},
		{"the host that was dialled", r.http.URL, false, 403},
		{"a token needs none", "", true, 101},
		{"a token from anywhere", "https://evil.example", true, 101},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := r.handshake(func(h http.Header) {
				if !c.bearer {
					h.Del("Authorization")
					h.Set("Cookie", "s=bob")
				}
				if c.origin != "" {
					h.Set("Origin", c.origin)
				}
			})
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d", res.StatusCode, c.status)
			}
		})
	}
	t.Run("two of them", func(t *testing.T) {
		res := r.handshake(func(h http.Header) {
			h.Del("Authorization")
			h.Set("Cookie", "s=bob")
			h["Origin"] = []string{origin, "https://evil.example"}
		})
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("status %d", res.StatusCode)
		}
	})
}

func TestWelcomeTellsWhoAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.dial("bob")
	var w struct {
		Type, Protocol, ConnectionID, Epoch, ServerTime string
		Account                                         map[string]string
		Limits                                          map[string]int
		PingMs                                          int
	}
	if err := json.Unmarshal([]byte(c.welcome.raw), &w); err != nil {
		t.Fatal(err)
	}
	if w.Protocol != socket.Protocol || w.ConnectionID == "" || w.Epoch != "e1" || w.ServerTime != "2026-01-02T12:00:00.000Z" || w.PingMs != 25000 {
		t.Errorf("welcome %s", c.welcome.raw)
	}
	if len(w.Account) != 4 || w.Account["id"] != "acc-bob" || w.Account["name"] != "bob" || w.Account["orgId"] != "org-1" || w.Account["role"] != "member" {
		t.Errorf("account %v", w.Account)
	}
	for name, want := range map[string]int{
		"frameBytes": gateway.MaxFrameBytes, "promptBytes": wire.MaxPromptBytes, "queuedPerThread": gateway.MaxQueuedPerThread,
		"commandsPerSecond": 50, "inFlight": 32,
	} {
		if w.Limits[name] != want {
			t.Errorf("limit %s is %d, want %d", name, w.Limits[name], want)
		}
	}
}

func TestShutdown_RefusesNewSessionsWith503(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if res := r.handshake(func(http.Header) {}); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", res.StatusCode)
	}
}
