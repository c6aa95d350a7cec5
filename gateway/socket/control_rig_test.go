package socket_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	hostA, hostAway = relaytest.Target, "target_away"
	chatRun         = "run_of_the_chat"
)

// programs are the control planes of the tests: bearer tokens as people are.
var programs = map[string]gateway.Actor{
	"plane": program("acc-plane", "cred-plane", hostA, hostAway, "target_unknown"),
	"twin":  program("acc-plane", "cred-twin", hostA),
	"rival": program("acc-rival", "cred-rival", hostA),
	"bare":  program("acc-plane", "cred-bare"),
	"short": {
		AccountID: "acc-plane", OrgID: "org-1", CredentialID: "cred-short", Scopes: []gateway.Scope{gateway.ScopeControl},
		Targets: []string{hostA}, ExpiresAt: noon.Add(100 * time.Millisecond),
	},
}

func program(account, credential string, targets ...string) gateway.Actor {
	return gateway.Actor{
		AccountID: account, OrgID: "org-1", Role: gateway.RoleMember, CredentialID: credential,
		Scopes: []gateway.Scope{gateway.ScopeControl}, Targets: targets,
	}
}

// controlRig is a server of control planes over a registry with a real relay host on
// a database of its own.
type controlRig struct {
	*rig
	registry *hosts.Registry
	provider *scripted
	host     *relay.Host
	link     *hostLink

	mu       sync.Mutex
	commands []wire.CommandMessage
}

func newControlRig(t testing.TB, with ...func(*socket.Config)) *controlRig {
	t.Helper()
	r := &controlRig{
		provider: &scripted{tell: make(chan string), begun: make(chan struct{}, 64)},
		registry: hosts.New(hosts.Options{Ledger: chatLedger{}}),
	}
	r.registry.Register(hosts.Host{ID: hostA, TargetRef: hostA, Name: "A host"})
	r.registry.Register(hosts.Host{ID: hostAway, TargetRef: hostAway})
	r.host = openHost(t, r.provider)
	r.link = r.connect(t)
	t.Cleanup(r.registry.Close)
	r.rig = newRig(t, append([]func(*socket.Config){func(c *socket.Config) {
		authenticate := c.Authenticate
		c.Authenticate = func(req *http.Request) (gateway.Actor, error) {
			name := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
			if actor, ok := programs[name]; ok {
				return actor, nil
			}
			return authenticate(req)
		}
		c.OpenControl = func(account string, e gateway.ControlEvents) socket.Control {
			return &recorder{Control: r.registry.OpenControl(account, e), rig: r}
		}
	}}, with...)...)
	r.rig.http.Close()
	r.rig.http = httptest.NewServer(http.HandlerFunc(r.ServeControl))
	return r
}

// recorder notes which commands are forwarded to the hosts.
type recorder struct {
	socket.Control
	rig *controlRig
}

func (c *recorder) Command(ctx context.Context, m wire.CommandMessage) error {
	c.rig.mu.Lock()
	c.rig.commands = append(c.rig.commands, m)
	c.rig.mu.Unlock()
	return c.Control.Command(ctx, m)
}

func (r *controlRig) seen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.commands)
}

// hostLink is the link of the rig's host.
type hostLink struct {
	stop context.CancelFunc
	ends sync.WaitGroup
}

func (r *controlRig) connect(t testing.TB) *hostLink {
	t.Helper()
	l := &hostLink{}
	mine, theirs := link.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	l.stop = func() {
		stop()
		l.ends.Wait()
	}
	l.ends.Go(func() { _ = link.ServeHost(ctx, mine, relayHost{r.host}, link.HostOptions{}) })
	l.ends.Go(func() { _ = r.registry.Serve(context.Background(), hostA, theirs) })
	eventually(t, "the host is linked", func() bool {
		list, err := r.registry.AdminHosts(context.Background(), gateway.Actor{})
		return err == nil && len(list) > 0 && list[0].State == gateway.HostOnline
	})
	t.Cleanup(l.stop)
	return l
}

// relayHost is the relay host as a link serves it.
type relayHost struct{ *relay.Host }

func (h relayHost) Attach(ctx context.Context, a wire.Attach, capabilities []string) (link.Attachment, error) {
	attachment, err := h.Host.Attach(ctx, a, capabilities)
	if err != nil {
		return nil, err
	}
	return attachment, nil
}

// chatLedger is the gateway's own chat, which has one run and no work.
type chatLedger struct{}

func (chatLedger) OpenRuns(context.Context, string) ([]string, error) { return nil, nil }

func (chatLedger) HostOf(_ context.Context, runID string) (string, bool, error) {
	if runID == chatRun {
		return hostA, true, nil
	}
	return "", false, notFound()
}

func (chatLedger) Work(context.Context, string) (gateway.RunWork, error) {
	return gateway.RunWork{}, notFound()
}
func (chatLedger) Ack(context.Context, wire.Ack) error { return notFound() }
func (chatLedger) Intake(context.Context, string, []wire.Envelope, func(uint64)) error {
	return notFound()
}
func (chatLedger) Waiting(context.Context, string, string, time.Time) {}
func (chatLedger) Poll(context.Context, string, string) (gateway.SteerOffer, error) {
	return gateway.SteerOffer{}, notFound()
}

func (chatLedger) Receipt(context.Context, string, wire.Receipt) (wire.ReceiptOutcome, error) {
	return "", notFound()
}
func (chatLedger) Refused(context.Context, string, *wire.ErrorBody) error { return notFound() }

// scripted is a provider that says what the test tells it; "." ends the answer.
type scripted struct {
	tell  chan string
	begun chan struct{}
}

func (s *scripted) Stream(ctx context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
	s.begun <- struct{}{}
	for {
		select {
		case text := <-s.tell:
			if text == "." {
				return provider.Result{Finish: provider.FinishStop}, nil
			}
			if err := emit(provider.Delta{Kind: provider.DeltaText, Text: text}); err != nil {
				return provider.Result{}, err
			}
		case <-ctx.Done():
			return provider.Result{}, context.Cause(ctx)
		}
	}
}

func openHost(t testing.TB, client provider.Client) *relay.Host {
	t.Helper()
	dir, ctx := t.TempDir(), context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqldb.Open(ctx, sqldb.Options{Path: filepath.Join(dir, "host.db")})
	must(err)
	t.Cleanup(func() { _ = db.Close() })
	must(db.Migrate(ctx, relaysql.Migrations()))
	runtime, err := native.Open(ctx, native.Config{
		Store: relaysql.NewNative(db),
		Routes: func(_, _, model string) (native.Route, bool) {
			return native.Route{Client: client, Upstream: model}, true
		},
	})
	must(err)
	t.Cleanup(func() { _ = runtime.Close(ctx) })
	host, err := relay.Open(ctx, relay.Config{
		Dir: dir, Store: relaysql.NewHost(db), Runtime: runtime, HostID: hostA, Name: "A host", Version: "1.0.0",
		Providers: relaytest.Providers(),
	})
	must(err)
	t.Cleanup(func() { _ = host.Close() })
	return host
}

// plane is one socket of a control plane.
type plane struct {
	testing.TB
	rig *controlRig
	ws  *websocket.Conn
	// account is whom the plane attaches runs for.
	account string
	skipped []pushed // pushes that a wait passed over
}

// pushed is any frame of the gateway.
type pushed struct {
	Re         string          `json:"re"`
	OK         *bool           `json:"ok"`
	ServerTime string          `json:"serverTime"`
	Type       string          `json:"type"`
	RunID      string          `json:"runId"`
	Error      *wire.ErrorBody `json:"error"`
	Runner     *wire.Runner    `json:"runner"`
	Cursor     *uint64         `json:"runtimeCursor"`
	CommandSeq uint64          `json:"commandSeq"`
	Command    string          `json:"commandType"`
	Status     string          `json:"status"`
	TurnID     string          `json:"turnId"`
	Envelope   wire.Envelope   `json:"envelope"`
	RetryMs    int64           `json:"retryAfterMs"`
	raw        string
}

func (p pushed) code() wire.Code {
	if p.Error == nil {
		return ""
	}
	return p.Error.Code
}

func (r *controlRig) plane(token string) *plane {
	r.Helper()
	p, res, err := r.tryPlane(bearer(token))
	if err != nil {
		r.Fatalf("dial: %v, %+v", err, res)
	}
	p.account = programs[token].AccountID
	return p
}

func (r *controlRig) tryPlane(header http.Header) (*plane, *http.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, r.rig.http.URL+wire.ControlPath, &websocket.DialOptions{
		Subprotocols: []string{socket.ControlProtocol}, HTTPHeader: header,
	})
	if err != nil {
		return nil, res, err
	}
	ws.SetReadLimit(wire.MaxControlFrameBytes)
	r.Cleanup(func() { _ = ws.CloseNow() })
	return &plane{TB: r, rig: r, ws: ws}, res, nil
}

func (p *plane) write(raw string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.ws.Write(ctx, websocket.MessageText, []byte(raw)); err != nil {
		p.Fatalf("write: %v", err)
	}
}

func (p *plane) say(frame any) {
	p.Helper()
	raw, err := json.Marshal(frame)
	if err != nil {
		p.Fatal(err)
	}
	p.write(string(raw))
}

func (p *plane) tryRead() (pushed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, raw, err := p.ws.Read(ctx)
	if err != nil {
		return pushed{}, err
	}
	var m pushed
	if err := json.Unmarshal(raw, &m); err != nil {
		p.Errorf("frame %.200q: %v", raw, err)
	}
	m.raw = string(raw)
	return m, nil
}

func (p *plane) read() pushed {
	p.Helper()
	m, err := p.tryRead()
	if err != nil {
		p.Fatalf("read: %v", err)
	}
	return m
}

// until reads to a frame that fits; what comes before it is kept in skipped.
func (p *plane) until(what string, fits func(pushed) bool) pushed {
	p.Helper()
	for range 5000 {
		m := p.read()
		if fits(m) {
			return m
		}
		p.skipped = append(p.skipped, m)
	}
	p.Fatalf("waited in vain for %s", what)
	return pushed{}
}

func (p *plane) untilType(kind string) pushed {
	p.Helper()
	return p.until(kind, func(m pushed) bool { return m.Type == kind })
}

func (p *plane) untilEvent(event string) pushed {
	p.Helper()
	return p.until(event, func(m pushed) bool { return m.Envelope.Event == event })
}

// closed reads to the end of the connection and gives its code.
func (p *plane) closed() websocket.StatusCode {
	p.Helper()
	for {
		m, err := p.tryRead()
		if err != nil {
			return websocket.CloseStatus(err)
		}
		p.skipped = append(p.skipped, m)
	}
}

func (p *plane) attachment(run, session string, cursor uint64) *wire.ControlAttach {
	return &wire.ControlAttach{
		ControlHead: wire.ControlHead{Type: "attach"}, TargetRef: hostA, SessionID: session, AccountRef: p.account,
		RunID: run, WorkspaceID: relaytest.Workspace, Cursor: cursor, Challenge: relaytest.Challenge,
	}
}

// attach attaches the fixture's run and wants a success.
func (p *plane) attach(cursor uint64) pushed {
	p.Helper()
	p.say(p.attachment(relaytest.Run, relaytest.Session, cursor))
	m := p.until("an answer", func(m pushed) bool { return m.Type == "attached" || m.Type == "refused" })
	if m.Type != "attached" {
		p.Fatalf("attach: %s", m.raw)
	}
	return m
}

func (p *plane) command(seq uint64, command any) {
	p.Helper()
	p.say(&wire.ControlCommand{ControlHead: wire.ControlHead{Type: "command"}, CommandMessage: relaytest.Message(seq, command)})
}

func (p *plane) cursor(cursor uint64) {
	p.Helper()
	p.write(fmt.Sprintf(`{"type":"cursor","runId":%q,"cursor":%d}`, relaytest.Run, cursor))
}

// pinged makes sure that all that was said is handled; what came is in skipped.
func (p *plane) pinged() {
	p.Helper()
	p.write(`{"type":"ping","id":"fence"}`)
	p.until("a pong", func(m pushed) bool { return m.Re == "fence" })
}
