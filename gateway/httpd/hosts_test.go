package httpd_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// openHosts puts the real registry and enrolment beside the bench's chat, as the
// program does.
func (b *bench) openHosts(t *testing.T, store *gatewaysql.Store, log *slog.Logger) {
	t.Helper()
	b.registry = hosts.New(hosts.Options{Ledger: b.chat, Logger: log})
	t.Cleanup(b.registry.Close)
	var err error
	b.hosts, err = enroll.New(t.Context(), enroll.Config{
		Store: store.Hosts(), Links: enrolled{b.registry}, Governs: b.accounts.GovernsHosts, Throttle: b.accounts.ThrottleJoin, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
}

type enrolled struct{ *hosts.Registry }

func (e enrolled) Register(h gateway.RelayHost) { e.Registry.Register(hostOf(h)) }
func (e enrolled) Update(h gateway.RelayHost)   { e.Registry.Update(hostOf(h)) }

func hostOf(h gateway.RelayHost) hosts.Host {
	return hosts.Host{ID: h.ID, TargetRef: h.ID, Name: h.Name, Draining: !h.DrainedAt.IsZero(), Labels: h.Labels}
}

func (b *bench) serveHostLink(ctx context.Context, w http.ResponseWriter, r *http.Request, hostID string) {
	conn, err := link.Accept(w, r, link.SocketOptions{})
	if err == nil {
		_ = b.registry.Serve(ctx, hostID, conn)
	}
}

// relayHost is a host on another machine, with its key.
type relayHost struct {
	t  *testing.T
	p  *program // without a token
	id string

	key       ed25519.PrivateKey
	gatewayID string
}

func (b *bench) relayHost(t *testing.T, id string) *relayHost {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &relayHost{t: t, p: b.program(t, ""), id: id, key: key}
}

func (h *relayHost) publicKey() string {
	return base64.RawURLEncoding.EncodeToString(h.key.Public().(ed25519.PublicKey))
}

func (h *relayHost) request(token string) fields {
	return fields{"token": token, "hostId": h.id, "publicKey": h.publicKey(), "name": "Box", "version": "1.0"}
}

func (h *relayHost) join(token string) {
	h.t.Helper()
	got := want[wire.HostJoined](h.t, h.p.call("POST", "/hosts/join", h.request(token)), http.StatusOK)
	if got.HostID != h.id || got.Name != "Box" || got.GatewayID == "" {
		h.t.Errorf("joined as %+v", got)
	}
	h.gatewayID = got.GatewayID
}

// authorization asks for a nonce and signs it.
func (h *relayHost) authorization() string {
	h.t.Helper()
	c := want[wire.HostChallenge](h.t, h.p.call("POST", "/hosts/challenge", fields{"hostId": h.id}), http.StatusOK)
	if h.gatewayID != "" && c.GatewayID != h.gatewayID {
		h.t.Errorf("the gateway is %s, was %s", c.GatewayID, h.gatewayID)
	}
	signature := ed25519.Sign(h.key, wire.HostLinkProof(c.GatewayID, h.id, c.Nonce))
	return wire.HostAuthorization{HostID: h.id, Nonce: c.Nonce, Signature: signature}.Header()
}

// dial links as a host does.
func (h *relayHost) dial() (link.Conn, error) {
	h.t.Helper()
	client := link.NewClient()
	h.t.Cleanup(client.CloseIdleConnections)
	return link.Dial(h.t.Context(), link.DialOptions{
		URL: h.p.b.base + wire.PathHostLink, Client: client,
		Header: func(context.Context) (http.Header, error) {
			return http.Header{"Authorization": {h.authorization()}}, nil
		},
	})
}

// linked opens a link, which the gateway has welcomed.
func (h *relayHost) linked() link.Conn {
	h.t.Helper()
	conn, err := h.dial()
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close(link.Ending{}) })
	hello := wire.Hello{HostID: h.id, Name: "Box", Version: "1.0", Protocols: []string{wire.HostProtocol}, Capabilities: []string{}, ClockMs: 1}
	if err := conn.Send(h.t.Context(), hello); err != nil {
		h.t.Fatal(err)
	}
	m, err := conn.Receive(h.t.Context())
	if _, ok := m.(wire.Welcome); !ok || err != nil {
		h.t.Fatalf("%T, %v in place of the welcome", m, err)
	}
	return conn
}

// refused fails unless a link is refused with a status and a code.
func (h *relayHost) refused(status int, code wire.Code) {
	h.t.Helper()
	_, err := h.dial()
	var e *link.RefusedError
	if !errors.As(err, &e) || e.Status != status || e.Code != code {
		h.t.Errorf("dialling gives %v, want %d %s", err, status, code)
	}
}

// row is a host as the API lists it.
type row struct {
	HostID, Name, State, Version string
	Draining                     bool
	Labels                       []string
	Links                        int
	SeenAt                       string
}

func (p *program) hosts() []row {
	p.t.Helper()
	return want[struct{ Hosts []row }](p.t, p.get("/hosts"), http.StatusOK).Hosts
}

// until asks for the only host until it is as the test wants.
func (p *program) untilHost(what string, is func(row) bool) row {
	p.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		list := p.hosts()
		if len(list) == 1 && is(list[0]) {
			return list[0]
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: hosts %+v", what, list)
		}
	}
}

type invited struct {
	Invite         struct{ ID, Name, ExpiresAt string }
	Token, Command string
}

func (p *program) invite(with fields) invited {
	p.t.Helper()
	return want[invited](p.t, p.call("POST", "/hosts/invites", with), http.StatusCreated)
}

// TestRH44_AHostJoinsLinksAndIsRevoked goes the way of a host through the real server.
func TestRH44_AHostJoinsLinksAndIsRevoked(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	admin := b.program(t, adminEmail, gateway.ScopeAdmin)
	h := b.relayHost(t, "target_0123.45")
	h.refused(http.StatusUnauthorized, wire.CodeUnauthorized)
	got := admin.invite(fields{"labels": []string{"gpu"}, "ttlSeconds": 600})
	if got.Command != "fairlead host join "+b.base+" "+got.Token || got.Token == "" {
		t.Errorf("command %q", got.Command)
	}
	if list := admin.get("/hosts/invites").body; !strings.Contains(list, got.Invite.ID) || strings.Contains(list, got.Token) {
		t.Errorf("invitations %s", list)
	}
	h.join(got.Token)
	h.join(got.Token)
	conn := h.linked()
	shown := admin.untilHost("the host is online", func(r row) bool { return r.State == "online" })
	if shown.HostID != h.id || shown.Version != "1.0" || !slices.Equal(shown.Labels, []string{"gpu"}) || shown.Links != 1 || shown.SeenAt == "" {
		t.Errorf("row %+v", shown)
	}

	want[any](t, admin.call("PATCH", "/hosts/"+h.id, fields{"name": "Big box", "labels": []string{}}), http.StatusNoContent)
	want[any](t, admin.call("POST", "/hosts/"+h.id+"/drain", fields{}), http.StatusNoContent)
	shown = admin.untilHost("the host drains", func(r row) bool { return r.State == "draining" })
	if shown.Name != "Big box" || len(shown.Labels) != 0 || !shown.Draining {
		t.Errorf("row %+v", shown)
	}
	want[any](t, admin.call("POST", "/hosts/"+h.id+"/resume", fields{}), http.StatusNoContent)
	admin.untilHost("the host is back", func(r row) bool { return r.State == "online" })

	revoked := time.Now()
	want[any](t, admin.call("POST", "/hosts/"+h.id+"/revoke", fields{}), http.StatusNoContent)
	var told []string
	for {
		m, err := conn.Receive(t.Context())
		if err != nil {
			var ended *link.EndedError
			if !errors.As(err, &ended) || ended.Code != link.CloseForbidden {
				t.Errorf("the link ended with %v", err)
			}
			break
		}
		switch m := m.(type) {
		case wire.Drain:
			told = append(told, map[bool]string{false: "drain", true: "resume"}[m.Resume])
		case wire.Revoked:
			told = append(told, "revoked")
		}
	}
	if took := time.Since(revoked); took > 5*time.Second || !slices.Equal(told, []string{"drain", "resume", "revoked"}) {
		t.Errorf("the host was told %v, and its link ended after %s", told, took)
	}
	h.refused(http.StatusForbidden, wire.CodeHostRevoked)
	other := b.relayHost(t, h.id)
	other.refused(http.StatusUnauthorized, wire.CodeUnauthorized)
	other.join(admin.invite(fields{}).Token)
	other.linked()
	h.refused(http.StatusUnauthorized, wire.CodeUnauthorized)
}

func TestRH45_ALinkIsOfTheHostThatSignedForIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	h := b.relayHost(t, "h1")
	h.join(b.program(t, adminEmail, gateway.ScopeAdmin).invite(fields{}).Token)
	conn, err := h.dial()
	if err != nil {
		t.Fatal(err)
	}
	hello := wire.Hello{HostID: "h2", Name: "Box", Version: "1.0", Protocols: []string{wire.HostProtocol}, Capabilities: []string{}, ClockMs: 1}
	if err := conn.Send(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = conn.Receive(t.Context())
	}
	var ended *link.EndedError
	if !errors.As(err, &ended) || ended.Code != link.CloseForbidden {
		t.Errorf("the link ended with %v", err)
	}
}

// TestRH44_RefusalsComeBeforeTheUpgrade asks for links that are none.
func TestRH44_RefusalsComeBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	h := b.relayHost(t, "h1")
	h.join(b.program(t, adminEmail, gateway.ScopeAdmin).invite(fields{}).Token)
	upgrade := []string{
		"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==", "Accept", "*/*",
	}
	protocol := func(p string) []string { return append([]string{"Sec-WebSocket-Protocol", p}, upgrade...) }
	used := h.authorization()
	for _, tt := range []struct {
		name   string
		header []string
		status int
		code   wire.Code
		says   string
	}{
		{"no upgrade", []string{"Authorization", h.authorization()}, 426, wire.CodeBadRequest, wire.HostProtocol},
		{"another version", append(protocol("fairlead.host.v9"), "Authorization", h.authorization()), 400, wire.CodeBadRequest, "fairlead.host.v9"},
		{"no version", append(upgrade, "Authorization", h.authorization()), 400, wire.CodeBadRequest, wire.HostProtocol},
		{"a page of another site", append(protocol(wire.HostProtocol), "Authorization", h.authorization(), "Origin", "https://evil.example"), 403, wire.CodeForbidden, ""},
		{"a nonce", append(protocol("x"), "Authorization", used), 400, wire.CodeBadRequest, ""},
		{"the nonce again", append(protocol(wire.HostProtocol), "Authorization", used), 409, wire.CodeChallengeStale, ""},
		{"a page without a credential", append(protocol(wire.HostProtocol), "Origin", "https://evil.example"), 401, wire.CodeUnauthorized, ""},
	} {
		res := b.browser(t).get(wire.PathHostLink, tt.header...)
		if res.StatusCode != tt.status || errorCode(t, res) != tt.code || !strings.Contains(res.body, tt.says) {
			t.Errorf("%s: %s %s", tt.name, res.Status, res.body)
		}
		if strings.Contains(tt.name, "version") && !strings.Contains(res.body, wire.HostProtocol) {
			t.Errorf("%s: the gateway's own is not named: %s", tt.name, res.body)
		}
	}
	b.httpd.Drain()
	res := b.browser(t).get(wire.PathHostLink, "Authorization", h.authorization())
	if res.StatusCode != http.StatusServiceUnavailable || errorCode(t, res) != wire.CodeShuttingDown || res.Header.Get("Retry-After") == "" {
		t.Errorf("while the server leaves: %s %s", res.Status, res.body)
	}
}

// TestF18_NoPageJoinsAHost: pages of other sites reach neither of the open routes,
// whatever they send along.
func TestF18_NoPageJoinsAHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	p := b.program(t, "")
	h := b.relayHost(t, "h1")
	for _, header := range [][]string{
		{"Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "cross-site"},
		{"Origin", "https://evil.example", "Authorization", "Bearer fl_x"},
	} {
		refused(t, p.call("POST", "/hosts/join", h.request("fh_x"), header...), http.StatusForbidden, wire.CodeForbidden)
		refused(t, p.call("POST", "/hosts/challenge", fields{"hostId": "h1"}, header...), http.StatusForbidden, wire.CodeForbidden)
	}
	log, err := b.accounts.Audit(t.Context(), accounts.Operator(), "", 10)
	if err != nil || len(log) != 6 || log[0].Action != gateway.AuditOriginRefused {
		t.Errorf("audit log %+v, %v", log, err)
	}
}

// TestRH46_AJoinTakesTheListedFieldsAlone sends a canary in every place that a host
// might fill by mistake.
func TestRH46_AJoinTakesTheListedFieldsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	admin := b.program(t, adminEmail, gateway.ScopeAdmin)
	token, h := admin.invite(fields{}).Token, b.relayHost(t, "h1")
	const canary = "canary-5f2c"
	for _, key := range []string{"privateKey", "apiKey", "path", "env", "prompt", "Token", "labels"} {
		body := h.request(token)
		body[key] = canary
		r := h.p.call("POST", "/hosts/join", body)
		refused(t, r, http.StatusBadRequest, wire.CodeBadRequest)
		if strings.Contains(r.body, canary) || strings.Contains(r.body, token) {
			t.Errorf("the answer repeats what was sent: %s", r.body)
		}
	}
	for key := range h.request(token) {
		body := h.request(token)
		delete(body, key)
		refused(t, h.p.call("POST", "/hosts/join", body), http.StatusBadRequest, wire.CodeBadRequest)
	}
	refused(t, h.p.call("POST", "/hosts/join", nil), http.StatusBadRequest, wire.CodeBadRequest)
	refused(t, h.p.call("POST", "/hosts/join", h.request(token), "Content-Type", "text/plain"), http.StatusUnsupportedMediaType, wire.CodeBadRequest)
}

// TestOfAStrangersBodyLittleIsRead: as JSON a body takes hundreds of times its size.
func TestOfAStrangersBodyLittleIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	h := b.relayHost(t, "h1")
	for _, path := range []string{"/hosts/join", "/hosts/challenge"} {
		body := fields{"hostId": strings.Repeat("x", 9<<10)}
		refused(t, h.p.call("POST", path, body), http.StatusRequestEntityTooLarge, wire.CodeFrameTooLarge)
	}
}

func TestRH46_NoHostSecretIsWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	admin := b.program(t, adminEmail, gateway.ScopeAdmin)
	token, spare, h := admin.invite(fields{}).Token, admin.invite(fields{}).Token, b.relayHost(t, "h1")
	h.join(token)
	header := h.authorization()
	refused(t, b.relayHost(t, "h1").p.call("POST", "/hosts/join", b.relayHost(t, "h1").request(spare)), http.StatusConflict, wire.CodeHostExists)
	res := b.browser(t).get(wire.PathHostLink, "Authorization", header)
	written := b.log.String() + res.body
	if !strings.Contains(written, wire.PathHostLink) {
		t.Fatal("the log was not read")
	}
	for what, secret := range map[string]string{
		"token": token, "other token": spare, "header": strings.TrimPrefix(header, wire.HostScheme+" h1."),
		"private key": base64.RawURLEncoding.EncodeToString(h.key.Seed()),
	} {
		if strings.Contains(written, secret) {
			t.Errorf("the %s was written", what)
		}
	}
}

func TestHostsAreManagedByTheFirstOrgAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	admin, member := b.program(t, adminEmail, gateway.ScopeAdmin), b.program(t, memberEmail)
	admin.invite(fields{})
	other := admin.stranger(t) // an admin of another org, with a token for chat
	other.token = b.token(t, "eve@example.com", gateway.ScopeAdmin)
	nobody := b.program(t, "")
	for _, call := range [][2]string{
		{"POST", "/hosts/invites"},
		{"GET", "/hosts/invites"},
		{"DELETE", "/hosts/invites/" + noThread},
		{"GET", "/hosts"},
		{"PATCH", "/hosts/h1"},
		{"POST", "/hosts/h1/drain"},
		{"POST", "/hosts/h1/resume"},
		{"POST", "/hosts/h1/revoke"},
	} {
		refused(t, nobody.call(call[0], call[1], nil), http.StatusUnauthorized, wire.CodeUnauthorized)
		refused(t, member.call(call[0], call[1], nil), http.StatusForbidden, wire.CodeForbidden)
		if call[1] == "/hosts" {
			want[any](t, other.get("/hosts"), http.StatusOK)
			continue
		}
		refused(t, other.call(call[0], call[1], nil), http.StatusForbidden, wire.CodeForbidden)
	}
	refused(t, admin.call("POST", "/hosts/h1/drain", nil), http.StatusNotFound, wire.CodeNotFound)
	refused(t, admin.call("POST", "/hosts/invites", fields{"ttlSeconds": 901}), http.StatusBadRequest, wire.CodeBadRequest)
}

func TestJoinsAreRateLimitedPerAddress(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	h := b.relayHost(t, "h1")
	token := b.program(t, adminEmail, gateway.ScopeAdmin).invite(fields{}).Token
	for range accounts.DefaultThrottle().AddressBurst {
		refused(t, h.p.call("POST", "/hosts/join", h.request("fh_guess")), http.StatusUnauthorized, wire.CodeInviteInvalid)
	}
	r := h.p.call("POST", "/hosts/join", h.request(token))
	refused(t, r, http.StatusTooManyRequests, wire.CodeRateLimited)
	if r.Header.Get("Retry-After") == "" {
		t.Error("nothing says how long to wait")
	}
	// Nonces are not guessed at, and a host that comes back must get one.
	for range 30 {
		h.authorization()
	}
}
