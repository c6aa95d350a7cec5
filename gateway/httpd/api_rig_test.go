package httpd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/bus"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

// api puts a real chat on the bench's store behind the API, with a host that the
// test moves by hand.
func (b *bench) api(t *testing.T, store *gatewaysql.Store, limits chat.Limits) httpd.APIConfig {
	t.Helper()
	fan := bus.NewMemory()
	b.models, b.host = gatewaytest.NewRoutes("host-1", "alpha", "beta"), gatewaytest.NewHost("host-1")
	limits.SweepEvery, limits.RouteGrace = time.Hour, time.Nanosecond
	b.chat = chat.New(chat.Config{
		Store: store.Chat(), Routes: b.models, Bus: fan, Dispatcher: noWakes{}, Limits: limits,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err := b.chat.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.chat.Stop)
	return httpd.APIConfig{Chat: b.chat, Models: facts{b.models}, Bus: fan}
}

// facts adds to models what a catalog says of them.
type facts struct{ *gatewaytest.Routes }

func (f facts) Models(ctx context.Context, actor gateway.Actor) ([]gateway.Model, error) {
	list, err := f.Routes.Models(ctx, actor)
	for i := range list {
		list[i].Provider, list[i].Family = "Test", "test"
		list[i].Capabilities = gateway.ModelCapabilities{
			ImageInput: wire.Unsupported, MaxOutputTokens: wire.Supported,
			ReasoningEffort: wire.Unknown, ReasoningEffortLevels: []string{},
		}
	}
	return list, err
}

type noWakes struct{}

func (noWakes) Wake(string) {}

// move lets the host take what it was told, answer, and send what it has.
func (b *bench) move(t *testing.T) {
	t.Helper()
	for _, step := range []error{
		b.host.Fetch(t.Context(), b.chat), b.host.Answer(t.Context(), b.chat), b.host.Deliver(t.Context(), b.chat, -1),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); !b.host.Settled(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("envelopes did not become durable")
		}
	}
}

// program is a client of the API with a token. Every answer that it gets is held
// against the description of the server.
type program struct {
	t     testing.TB
	b     *bench
	token string
	doc   *document
	http  *http.Client
}

// api gives a client for an account.
func (b *bench) program(t *testing.T, email string, scopes ...gateway.Scope) *program {
	t.Helper()
	if scopes == nil {
		scopes = []gateway.Scope{gateway.ScopeChat}
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p := &program{t: t, b: b, http: &http.Client{Transport: transport}}
	if email != "" {
		p.token = b.token(t, email, scopes...)
	}
	p.doc = readDocument(t, p.get("/openapi.json").body)
	return p
}

// newProgram is a bench with its people and a client for the member.
func newProgram(t *testing.T, o options) *program {
	t.Helper()
	b := newBench(t, o)
	b.people(t)
	return b.program(t, memberEmail)
}

// other is a client for somebody else.
func (p *program) other(t *testing.T, email string) *program { return p.b.program(t, email) }

// stranger makes an account in another org and gives a client for it.
func (p *program) stranger(t *testing.T) *program {
	t.Helper()
	const email = "eve@example.com"
	if _, err := p.b.accounts.CreateOrg(t.Context(), accounts.Operator(), "Elsewhere"); err != nil {
		t.Fatal(err)
	}
	_, err := p.b.accounts.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{
		Name: "Eve", Email: email, Password: password, Role: gateway.RoleAdmin, Org: "Elsewhere",
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.b.program(t, email)
}

// reply is an answer of the API.
type reply struct {
	*http.Response
	body  string
	Error *wire.ErrorBody
}

// call says something to the API: body is nil for none, a string as it stands, or
// anything else as JSON. Headers come in pairs.
func (p *program) call(method, path string, body any, header ...string) reply {
	p.t.Helper()
	var raw []byte
	switch v := body.(type) {
	case nil:
	case string:
		raw = []byte(v)
	default:
		var err error
		if raw, err = json.Marshal(v); err != nil {
			p.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.b.base+"/api/v1"+path, bytes.NewReader(raw))
	if err != nil {
		p.t.Fatal(err)
	}
	if raw != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if p.token != "" {
		req.Header.Set("Authorization", "Bearer "+p.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Del(header[i])
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	res, err := p.http.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	r := reply{Response: res, body: string(text)}
	if res.StatusCode >= 400 {
		var e struct{ Error *wire.ErrorBody }
		if err := json.Unmarshal(text, &e); err != nil || e.Error == nil || e.Error.Message == "" {
			p.t.Errorf("%s %s: not an error object: %s", method, path, text)
		}
		r.Error = e.Error
	}
	if p.doc != nil {
		p.doc.check(p.t, method, path, r)
	}
	return r
}

func (p *program) get(path string, header ...string) reply {
	p.t.Helper()
	return p.call("GET", path, nil, header...)
}

// want fails unless the answer has a status, and decodes it.
func want[T any](t testing.TB, r reply, status int) (v T) {
	t.Helper()
	if r.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d: %s", r.Request.Method, r.Request.URL.Path, r.Status, status, r.body)
	}
	if status != http.StatusNoContent {
		if err := json.Unmarshal([]byte(r.body), &v); err != nil {
			t.Fatalf("%v in %s", err, r.body)
		}
	}
	return v
}

// refused fails unless the answer is an error with a status and a code.
func refused(t testing.TB, r reply, status int, code wire.Code) {
	t.Helper()
	if r.StatusCode != status || r.Error == nil || r.Error.Code != code {
		t.Errorf("%s %s: %s, want %d %s: %s", r.Request.Method, r.Request.URL.Path, r.Status, status, code, r.body)
	}
	if h := r.Header; h.Get("X-Request-Id") == "" || h.Get("Cache-Control") != "no-store" || !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		t.Errorf("%s %s: headers %v", r.Request.Method, r.Request.URL.Path, h)
	}
}

type fields = map[string]any

func newID() string { return uuid.NewString() }

func message(text string) fields {
	return fields{"version": 1, "parts": []any{fields{"type": "text", "text": text}}}
}

// say sends a message into a thread, or with "" into a new one.
func (p *program) say(threadID, text string, with ...fields) gateway.SendReply {
	p.t.Helper()
	body := fields{"clientEventId": newID(), "userMessage": message(text)}
	for _, more := range with {
		for k, v := range more {
			body[k] = v
		}
	}
	path := "/messages"
	if threadID != "" {
		path = "/threads/" + threadID + "/messages"
	}
	return want[gateway.SendReply](p.t, p.call("POST", path, body), http.StatusCreated)
}

// events reads the whole log of a thread, page by page.
func (p *program) events(threadID string) []loggedEvent {
	p.t.Helper()
	var all []loggedEvent
	for since := "0"; ; {
		page := want[struct {
			Events  []loggedEvent
			HasMore bool
		}](p.t, p.get("/threads/"+threadID+"/events?sinceSeq="+since), http.StatusOK)
		all = append(all, page.Events...)
		if !page.HasMore {
			return all
		}
		since = itoa(page.Events[len(page.Events)-1].SeqID)
	}
}

// loggedEvent is what tests look at in an event.
type loggedEvent struct {
	ID, EventType, TurnID, RevokesEventID, Error string
	SeqID                                        int64
	Content                                      *string
	UserMessage                                  *gateway.UserMessage
}
