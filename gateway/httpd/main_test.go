package httpd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	password    = "canary horse battery"
	adminEmail  = "ada@example.com"
	memberEmail = "bob@example.com"
	aThread     = "0195f7a0-0000-7000-8000-000000000001"
	noThread    = "0195f7a0-0000-7000-8000-00000000dead"
)

// bench is the whole server on a real store, behind a real listener.
type bench struct {
	*httptest.Server
	httpd    *httpd.Server
	gate     *httpd.Gate
	accounts *accounts.Service
	chat     *chat.Service
	hosts    *enroll.Service
	real     bool
	models   *gatewaytest.Routes
	host     *gatewaytest.Host
	sockets  *echo
	registry *hosts.Registry
	log      *lockedBuffer
	public   *url.URL
	base     string // URL of the server, base path included
}

type options struct {
	public  string // "" is the listener's own address
	origins []string
	proxies []netip.Prefix
	checks  []httpd.Check
	metrics httpd.Metrics
	chats   httpd.Chats
	static  string
	api     func(*httpd.APIConfig)
	limits  chat.Limits
	// real has the dashboard show the chat and the hosts in place of a fixed board.
	real bool
}

func newBench(t *testing.T, o options) *bench {
	t.Helper()
	b := &bench{log: &lockedBuffer{}, sockets: &echo{}, real: o.real}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.httpd.ServeHTTP(w, r) }))
	t.Cleanup(b.Close)
	if o.public == "" {
		o.public = b.URL
	}
	var err error
	if b.public, err = httpd.ParsePublicURL(o.public); err != nil {
		t.Fatal(err)
	}
	b.base = b.URL + b.public.Path
	dir := t.TempDir()
	store, err := gatewaysql.Open(t.Context(), gatewaysql.Options{Path: filepath.Join(dir, "gateway.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	logger := slog.New(slog.NewTextHandler(b.log, nil))
	b.accounts, err = accounts.New(accounts.Config{Store: store.Accounts(), Bus: silentBus{}, Logger: logger, Passwords: smallArgon{}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := httpd.LoadCookieKeys(filepath.Join(dir, "cookie.key"))
	if err != nil {
		t.Fatal(err)
	}
	b.gate, err = httpd.NewGate(httpd.GateConfig{
		Accounts: b.accounts, PublicURL: b.public, Keys: keys, AllowedOrigins: o.origins, TrustedProxies: o.proxies,
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.chats == nil {
		o.chats = chats{}
	}
	api := b.api(t, store, o.limits)
	if o.api != nil {
		o.api(&api)
	}
	b.openHosts(t, store, logger)
	b.httpd, err = httpd.New(httpd.Config{
		Gate: b.gate, Accounts: b.accounts, Chats: o.chats, Dashboard: b.dashboard(), API: api, Socket: b.sockets,
		Hosts: b.hosts, HostLink: b.serveHostLink,
		Metrics: o.metrics, Checks: o.checks, Logger: logger, Version: "1.2.3", StaticDir: o.static,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) dashboard() *httpd.Dashboard {
	if b.real {
		return &httpd.Dashboard{Base: b.public.Path, Turns: b.chat, Hosts: b.hosts, Routes: board{}, Users: b.accounts}
	}
	return &httpd.Dashboard{Turns: board{}, Hosts: board{}, Routes: board{}, Users: b.accounts}
}

// people creates an admin and a member.
func (b *bench) people(t *testing.T) {
	t.Helper()
	for _, u := range []accounts.NewUser{
		{Name: "Ada", Email: adminEmail, Password: password, Role: gateway.RoleAdmin},
		{Name: "Bob", Email: memberEmail, Password: password},
	} {
		if _, err := b.accounts.CreateUser(t.Context(), accounts.Operator(), u); err != nil {
			t.Fatal(err)
		}
	}
}

// token creates a token for an account.
func (b *bench) token(t *testing.T, email string, scopes ...gateway.Scope) string {
	t.Helper()
	acc, err := b.accounts.UserByEmail(t.Context(), accounts.Operator(), email)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := b.accounts.CreateToken(t.Context(), accounts.Operator(), accounts.NewToken{AccountID: acc.ID, Name: "t", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// browser is a client with a cookie jar that does not follow redirects.
type browser struct {
	t    *testing.T
	b    *bench
	http *http.Client
}

func (b *bench) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t: t, b: b, http: &http.Client{
		Jar: jar, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type answer struct {
	*http.Response
	body string
}

func (br *browser) do(method, path string, form url.Values, header ...string) answer {
	br.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	target := path
	if !strings.HasPrefix(path, "http") {
		target = br.b.base + path
	}
	req, err := http.NewRequestWithContext(br.t.Context(), method, target, body)
	if err != nil {
		br.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	res, err := br.http.Do(req)
	if err != nil {
		br.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		br.t.Fatal(err)
	}
	return answer{res, string(text)}
}

// at has the browser reach the server under a host name.
func (br *browser) at(host string) {
	to := br.b.Listener.Addr().String()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != host && addr != host+":80" {
			return nil, errors.New("no such host: " + addr)
		}
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}}
	br.t.Cleanup(transport.CloseIdleConnections)
	br.http.Transport = transport
}

// in gives the same browser to a subtest.
func (br *browser) in(t *testing.T) *browser { return &browser{t: t, b: br.b, http: br.http} }

func (br *browser) get(path string, header ...string) answer {
	return br.do("GET", path, nil, header...)
}

func (br *browser) login(email string) answer {
	br.t.Helper()
	return br.do("POST", "/login", url.Values{"email": {email}, "password": {password}})
}

// as gives a browser that is logged in.
func (b *bench) as(t *testing.T, email string) *browser {
	t.Helper()
	br := b.browser(t)
	if res := br.login(email); res.StatusCode != http.StatusSeeOther {
		t.Fatalf("log in as %s: %s", email, res.Status)
	}
	return br
}

// echo is a socket that sends back one message.
type echo struct{ calls atomic.Int32 }

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.calls.Add(1)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	kind, data, err := conn.Read(r.Context())
	if err == nil {
		err = conn.Write(r.Context(), kind, data)
	}
	if err == nil {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
}

// chats has one thread, which is everybody's.
type chats struct{}

func (chats) List(context.Context, gateway.Actor, gateway.ListRequest) (gateway.ListReply, error) {
	title := "</script><script>alert(1)</script>"
	return gateway.ListReply{Threads: []gateway.Thread{{ID: aThread, Title: &title}}}, nil
}

func (chats) Open(_ context.Context, _ gateway.Actor, req gateway.OpenRequest) (gateway.OpenReply, error) {
	if req.ThreadID != aThread {
		return gateway.OpenReply{}, wire.NewError(wire.CodeNotFound, "thread")
	}
	title := "Tides & knots"
	return gateway.OpenReply{Thread: gateway.Thread{ID: aThread, Title: &title}}, nil
}

type board struct{}

func (board) AdminBindings(context.Context, gateway.Actor, gateway.Page) (gateway.Rows[gateway.AdminBinding], error) {
	return gateway.Rows[gateway.AdminBinding]{Rows: []gateway.AdminBinding{{BindingID: "binding-7", HostID: "h1", Model: "demo-1"}}}, nil
}

func (board) AdminTurns(context.Context, gateway.Actor, gateway.Page) (gateway.Rows[gateway.AdminTurn], error) {
	return gateway.Rows[gateway.AdminTurn]{Rows: []gateway.AdminTurn{{TurnID: "turn-7", HostID: "h1", Status: gateway.TurnRunning}}}, nil
}

func (board) AdminQueue(context.Context, gateway.Actor, gateway.Page) (gateway.Rows[gateway.AdminQueueItem], error) {
	return gateway.Rows[gateway.AdminQueueItem]{Rows: []gateway.AdminQueueItem{{OriginID: "message-7", Mode: gateway.ModeSteer, Position: 1}}}, nil
}

// AdminBinding gives the one binding that there is, to anybody.
func (board) AdminBinding(_ context.Context, _ gateway.Actor, id string) (gateway.AdminBindingView, error) {
	if id != "binding-7" {
		return gateway.AdminBindingView{}, wire.NewError(wire.CodeNotFound, "binding")
	}
	return gateway.AdminBindingView{AdminBinding: gateway.AdminBinding{BindingID: id, HostID: "h1"}}, nil
}

func (board) AdminEnd(context.Context, gateway.Actor, gateway.TurnRequest) error     { return nil }
func (board) AdminRelease(context.Context, gateway.Actor, gateway.TurnRequest) error { return nil }

func (board) AdminHosts(context.Context, gateway.Actor) ([]gateway.AdminHost, error) {
	return []gateway.AdminHost{{HostID: "h1", Name: "Embedded host", State: gateway.HostOnline}}, nil
}

func (board) AdminRoutes(context.Context, gateway.Actor) ([]gateway.AdminRoute, error) {
	return []gateway.AdminRoute{{HostID: "h1", Model: "demo-1", ProviderID: "demo", Ready: true}}, nil
}

// smallArgon is argon2id with little memory: the race detector makes the real one
// slow.
type smallArgon struct{}

func (smallArgon) Verify(_ context.Context, password, hash string) (bool, error) {
	return argon2id.ComparePasswordAndHash(password, hash)
}

func (smallArgon) Hash(_ context.Context, password string) (string, error) {
	return argon2id.CreateHash(password, &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
}

type silentBus struct{}

func (silentBus) Publish(string, gateway.Push)                {}
func (silentBus) Subscribe(string, func(gateway.Push)) func() { return func() {} }

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
