package socket_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/bus"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/wire"
)

const origin = "https://chat.example"

// noon is when the rigs' clock stands.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// The people of the tests. Their name is their bearer token and their cookie.
var people = map[string]gateway.Actor{
	"ann": {
		AccountID: "acc-ann", OrgID: "org-1", Role: gateway.RoleAdmin, CredentialID: "cred-ann",
		Scopes: []gateway.Scope{gateway.ScopeChat, gateway.ScopeAdmin},
	},
	"bob": {
		AccountID: "acc-bob", OrgID: "org-1", Role: gateway.RoleMember, CredentialID: "cred-bob",
		Scopes: []gateway.Scope{gateway.ScopeChat},
	},
	"meter": {
		AccountID: "acc-meter", OrgID: "org-1", Role: gateway.RoleMember, CredentialID: "cred-meter",
		Scopes: []gateway.Scope{gateway.ScopeAdmin},
	},
}

// rig is a server of sockets behind a real HTTP server, over a chat of its own.
type rig struct {
	testing.TB
	*socket.Server
	http *httptest.Server
	bus  *bus.Memory
	chat *chatDouble

	mu    sync.Mutex
	ended map[string]bool // credentials
	asked int             // authentications
}

func newRig(t testing.TB, with ...func(*socket.Config)) *rig {
	t.Helper()
	r := &rig{TB: t, bus: bus.NewMemory(), ended: make(map[string]bool)}
	r.chat = newChatDouble(r.bus)
	cfg := socket.Config{
		Chat: r.chat, Routes: modelsDouble{}, Bus: r.bus, Authenticate: r.authenticate,
		AllowedOrigins: []string{origin}, Account: account, Epoch: "e1",
		Now: func() time.Time { return noon },
	}
	for _, f := range with {
		f(&cfg)
	}
	r.Server = socket.New(cfg)
	r.http = httptest.NewServer(r.Server)
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		r.Errorf("shutdown: %v", err)
	}
	r.http.Close()
}

func account(_ context.Context, actor gateway.Actor) (gateway.Account, error) {
	name := strings.TrimPrefix(actor.AccountID, "acc-")
	return gateway.Account{
		ID: actor.AccountID, Name: name, Email: name + "@example.com", OrgID: actor.OrgID, Role: actor.Role,
	}, nil
}

func (r *rig) authenticate(req *http.Request) (gateway.Actor, error) {
	name, bearer := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		if cookie, err := req.Cookie("s"); err == nil {
			name = cookie.Value
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	actor, ok := people[name]
	if !ok || r.ended[name] {
		return actor, wire.NewError(wire.CodeUnauthorized, "Sign in first.")
	}
	return actor, nil
}

type modelsDouble struct{}

func (modelsDouble) Models(context.Context, gateway.Actor) ([]gateway.Model, error) {
	return []gateway.Model{{
		ID: "demo", Name: "Demo", Provider: "demo", Family: "demo", Ready: true, Default: true,
		Capabilities: gateway.ModelCapabilities{ReasoningEffortLevels: []string{}},
	}}, nil
}

// client is one socket. Frames that are not the awaited reply gather in frames.
type client struct {
	testing.TB
	ws      *websocket.Conn
	frames  []frame
	nextID  int
	welcome frame
}

// frame is any message of the server.
type frame struct {
	Re     string          `json:"re"`
	OK     *bool           `json:"ok"`
	Error  *wire.ErrorBody `json:"error"`
	Type   string          `json:"type"`
	Events []struct {
		SeqID     int64             `json:"seqId"`
		EventType gateway.EventType `json:"eventType"`
		Kind      gateway.FeedKind  `json:"kind"`
		TurnID    string            `json:"turnId"`
		ThreadID  string            `json:"threadId"`
		Content   *string           `json:"content"`
		HTML      string            `json:"html"`
	} `json:"events"`
	ThreadID     string          `json:"threadId"`
	TurnID       string          `json:"turnId"`
	LatestSeq    int64           `json:"latestSeq"`
	More         bool            `json:"more"`
	Turn         json.RawMessage `json:"turn"`
	Offset       int64           `json:"offset"`
	Next         json.RawMessage `json:"next"`
	From         int64           `json:"from"`
	To           int64           `json:"to"`
	HTML         string          `json:"html"`
	Text         string          `json:"text"`
	RetryAfterMs int64           `json:"retryAfterMs"`
	raw          string
}

func (f frame) next() int64 {
	n, _ := strconv.ParseInt(string(f.Next), 10, 64)
	return n
}

func (f frame) turn(t testing.TB) *gateway.LiveTurn {
	if f.Turn == nil {
		return nil
	}
	var turn gateway.LiveTurn
	if err := json.Unmarshal(f.Turn, &turn); err != nil {
		t.Fatal(err)
	}
	return &turn
}

func bearer(name string) http.Header { return http.Header{"Authorization": {"Bearer " + name}} }

func (r *rig) dial(name string) *client {
	r.Helper()
	c, res, err := r.tryDial(bearer(name))
	if err != nil {
		status := 0
		if res != nil {
			status = res.StatusCode
		}
		r.Fatalf("dial: %v (%d)", err, status)
	}
	return c
}

func (r *rig) tryDial(header http.Header) (*client, *http.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, r.http.URL+"/ws", &websocket.DialOptions{
		Subprotocols: []string{socket.Protocol}, HTTPHeader: header,
	})
	if err != nil {
		return nil, res, err
	}
	c := newClient(r, ws)
	r.Cleanup(func() { _ = ws.CloseNow() })
	return c, res, nil
}

func newClient(t testing.TB, ws *websocket.Conn) *client {
	ws.SetReadLimit(gateway.MaxFrameBytes) // no frame above it may come
	c := &client{TB: t, ws: ws}
	c.welcome = c.read()
	if c.welcome.Type != "welcome" {
		t.Fatalf("first frame is %s", c.welcome.raw)
	}
	return c
}

// tryRead reads one frame.
func (c *client) tryRead() (frame, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	kind, raw, err := c.ws.Read(ctx)
	if err != nil {
		return frame{}, err
	}
	var f frame
	if err := json.Unmarshal(raw, &f); err != nil || kind != websocket.MessageText {
		c.Errorf("frame %v %.200q: %v", kind, raw, err)
	}
	f.raw = string(raw)
	return f, nil
}

func (c *client) read() frame {
	c.Helper()
	f, err := c.tryRead()
	if err != nil {
		c.Fatalf("read: %v", err)
	}
	return f
}

func (c *client) write(raw string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, []byte(raw)); err != nil {
		c.Fatalf("write: %v", err)
	}
}

type fields map[string]any

// say sends a command and gives its id.
func (c *client) say(kind string, with fields) string {
	c.Helper()
	c.nextID++
	id := "c" + strconv.Itoa(c.nextID)
	command := fields{"id": id, "type": kind}
	for k, v := range with {
		command[k] = v
	}
	raw, err := json.Marshal(command)
	if err != nil {
		c.Fatal(err)
	}
	c.write(string(raw))
	return id
}

// until reads to the reply of a command; what comes before it stays in frames,
// and so does the reply.
func (c *client) until(id string) frame {
	c.Helper()
	for {
		f := c.read()
		c.frames = append(c.frames, f)
		if f.Re == id {
			return f
		}
	}
}

func (c *client) call(kind string, with fields) frame {
	c.Helper()
	return c.until(c.say(kind, with))
}

// must calls and wants a success.
func (c *client) must(kind string, with fields) frame {
	c.Helper()
	f := c.call(kind, with)
	if f.OK == nil || !*f.OK {
		c.Fatalf("%s: %s", kind, f.raw)
	}
	return f
}

// settle reads all that was sent up to now, and forgets the ping.
func (c *client) settle() []frame {
	c.Helper()
	c.must("ping", nil)
	got := c.frames[:len(c.frames)-1]
	c.frames = nil
	return got
}

// closed reads to the end of the connection and gives its code.
func (c *client) closed() websocket.StatusCode {
	c.Helper()
	for {
		f, err := c.tryRead()
		if err == nil {
			c.frames = append(c.frames, f)
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) {
			c.Fatal("the connection stays open")
		}
		return websocket.CloseStatus(err)
	}
}

func newID() string { return uuid.NewString() }

// eventually waits for what happens in another goroutine.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen: %s", what)
		}
	}
}
