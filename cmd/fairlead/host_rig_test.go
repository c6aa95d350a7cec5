package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// doorway is a gateway's end of everything that a host does before and on its link,
// under the control of a test.
type doorway struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	gatewayID string
	keys      map[string]ed25519.PublicKey // by host id
	tokens    map[string]ed25519.PublicKey // nil: not used yet
	nonces    map[string]bool
	seen      bytes.Buffer // everything that came in, headers too
	// instead answers a path in place of the gateway.
	instead map[string]http.HandlerFunc

	links chan *doorLink
	over  sync.WaitGroup
}

// doorLink is a host's link.
type doorLink struct {
	*link.Session
	*doorHandler
	conn  link.Conn
	ended chan error
}

func newDoorway(t *testing.T) *doorway {
	d := &doorway{
		t: t, gatewayID: "gateway_1", keys: map[string]ed25519.PublicKey{}, tokens: map[string]ed25519.PublicKey{"fh_token": nil},
		nonces: map[string]bool{}, instead: map[string]http.HandlerFunc{}, links: make(chan *doorLink, 16),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /base"+wire.PathHostJoin, d.join)
	mux.HandleFunc("POST /base"+wire.PathHostChallenge, d.challenge)
	mux.HandleFunc("GET /base"+wire.PathHostLink, d.link)
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := d.record(r); h != nil {
			h(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		d.Close()
		d.over.Wait()
	})
	return d
}

func (d *doorway) base() string { return d.URL + "/base" }

// record keeps what came in.
func (d *doorway) record(r *http.Request) http.HandlerFunc {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = r.Header.Write(&d.seen)
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		d.seen.Write(append(body, '\n'))
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return d.instead[strings.TrimPrefix(r.URL.Path, "/base")]
}

func (d *doorway) answer(path string, h http.HandlerFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.instead[path] = h
}

func (d *doorway) everything() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen.String()
}

func (d *doorway) join(w http.ResponseWriter, r *http.Request) {
	var req wire.HostJoin
	raw, _ := io.ReadAll(r.Body)
	if err := wire.DecodeStrict(raw, &req); err != nil {
		refuseJSON(w, 400, wire.AsError(err))
		return
	}
	key, err := base64.RawURLEncoding.DecodeString(req.PublicKey)
	d.mu.Lock()
	defer d.mu.Unlock()
	used, known := d.tokens[req.Token]
	switch {
	case err != nil || len(key) != ed25519.PublicKeySize:
		refuseJSON(w, 400, wire.NewError(wire.CodeBadRequest, "The public key is not one."))
	case !known || used != nil && !used.Equal(ed25519.PublicKey(key)):
		refuseJSON(w, 401, wire.NewError(wire.CodeInviteInvalid, "This invitation is not valid."))
	default:
		d.tokens[req.Token], d.keys[req.HostID] = key, key
		writeJSON(w, 200, wire.HostJoined{HostID: req.HostID, Name: req.Name, GatewayID: d.gatewayID})
	}
}

func (d *doorway) challenge(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	nonce := wire.NewChallenge()
	d.nonces[nonce] = true
	writeJSON(w, 200, wire.HostChallenge{Nonce: nonce, GatewayID: d.gatewayID, ServerTime: "2030-01-01T00:00:00Z"})
}

func (d *doorway) link(w http.ResponseWriter, r *http.Request) {
	auth, ok := wire.ParseHostAuthorization(r.Header.Get("Authorization"))
	d.mu.Lock()
	key := d.keys[auth.HostID]
	fresh := d.nonces[auth.Nonce]
	delete(d.nonces, auth.Nonce)
	right := ok && fresh && key != nil && ed25519.Verify(key, wire.HostLinkProof(d.gatewayID, auth.HostID, auth.Nonce), auth.Signature)
	d.mu.Unlock()
	if !right {
		refuseJSON(w, 401, wire.NewError(wire.CodeUnauthorized, "This host is not known here."))
		return
	}
	conn, err := link.Accept(w, r, link.SocketOptions{})
	if err != nil {
		return
	}
	d.over.Add(1)
	defer d.over.Done()
	session, err := link.Open(d.t.Context(), conn, link.SessionOptions{
		Capabilities: []string{wire.CapabilityOutcome, wire.CapabilityReasoning},
	})
	if err != nil {
		return
	}
	l := &doorLink{Session: session, doorHandler: newDoorHandler(), conn: conn, ended: make(chan error, 1)}
	d.links <- l
	l.ended <- session.Serve(d.t.Context(), l.doorHandler)
}

// doorHandler keeps what a host says.
type doorHandler struct {
	attached chan wire.Attached
	refused  chan wire.Refused
	acks     chan wire.Ack
	events   chan wire.EventMessage
	catalogs chan wire.CatalogMessage
	draining chan wire.Draining
	offline  chan wire.Offline
}

func newDoorHandler() *doorHandler {
	const enough = 4096
	return &doorHandler{
		attached: make(chan wire.Attached, enough), refused: make(chan wire.Refused, enough), acks: make(chan wire.Ack, enough),
		events: make(chan wire.EventMessage, enough), catalogs: make(chan wire.CatalogMessage, enough),
		draining: make(chan wire.Draining, enough), offline: make(chan wire.Offline, enough),
	}
}

func (h *doorHandler) Attached(m wire.Attached)      { h.attached <- m }
func (h *doorHandler) Refused(m wire.Refused)        { h.refused <- m }
func (h *doorHandler) Ack(m wire.Ack)                { h.acks <- m }
func (h *doorHandler) Event(m wire.EventMessage)     { h.events <- m }
func (h *doorHandler) Receipt(wire.Receipt)          {}
func (h *doorHandler) Room(wire.Room)                {}
func (h *doorHandler) Catalog(m wire.CatalogMessage) { h.catalogs <- m }
func (h *doorHandler) Draining(m wire.Draining)      { h.draining <- m }
func (h *doorHandler) Offline(m wire.Offline)        { h.offline <- m }

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuseJSON(w http.ResponseWriter, status int, e *wire.Error) {
	writeJSON(w, status, map[string]any{"error": e.Body()})
}

func got[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// machine is a folder of settings and data on which commands are run.
type machine struct {
	t    *testing.T
	data string
	file string // settings
}

func newMachine(t *testing.T) *machine {
	dir := t.TempDir()
	m := &machine{t: t, data: dir + "/data", file: dir + "/fairlead.yaml"}
	// What a test leaves unacknowledged is not waited for.
	m.settings("host: {name: box, drain: 100ms}\n")
	return m
}

func (m *machine) settings(text string) {
	m.t.Helper()
	if err := os.WriteFile(m.file, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) environ() []string {
	return []string{"FAIRLEAD_DATA_DIR=" + m.data, "FAIRLEAD_CONFIG=" + m.file, "SECRET_IN_THE_ENVIRONMENT=hunter2"}
}

func (m *machine) call(stdin string, args ...string) (code int, stdout, stderr string) {
	m.t.Helper()
	var out, errs bytes.Buffer
	code = run(m.t.Context(), args, stdio{In: strings.NewReader(stdin), Out: &out, Err: &errs, Environ: m.environ()})
	return code, out.String(), errs.String()
}

// joined joins the machine to a gateway.
func (m *machine) joined(d *doorway) {
	m.t.Helper()
	if code, _, errs := m.call("", "host", "join", d.base(), "fh_token"); code != exitDone {
		m.t.Fatalf("join: exit code %d\n%s", code, errs)
	}
}

// served is a running `host run`.
type served struct {
	hangup chan os.Signal
	term   context.CancelFunc
	ended  chan error
	log    *syncBuffer
}

// serve runs the machine's host as the command does, but for its signals.
func (m *machine) serve() *served {
	m.t.Helper()
	s := &served{hangup: make(chan os.Signal, 1), ended: make(chan error, 1), log: &syncBuffer{}}
	std := stdio{In: strings.NewReader(""), Out: io.Discard, Err: s.log, Environ: m.environ()}
	load := func() (*config, error) { return loadConfig("", m.environ(), nil) }
	cfg, err := load()
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	s.term = cancel
	r := &hostRunner{std: std, load: load, hangup: s.hangup}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.ended <- r.run(ctx, cfg)
	}()
	m.t.Cleanup(func() {
		cancel()
		<-over
		if m.t.Failed() {
			m.t.Log(s.log.String())
		}
	})
	return s
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// attachDemo attaches the run of the demo model's conversation.
func (l *doorLink) attachDemo(t *testing.T, cursor uint64, challenge string) {
	t.Helper()
	a := demoAttach(l.Hello().HostID)
	a.Cursor, a.Challenge = cursor, challenge
	if err := l.Attach(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got(t, "the attachment", l.attached)
}

func demoAttach(hostID string) wire.Attach {
	a := relaytest.Attach(0)
	a.TargetRef = hostID
	return a
}

// prompt sends turn n of the demo conversation and gives the answer.
func (l *doorLink) prompt(t *testing.T, seq uint64, n int, text string) wire.Ack {
	t.Helper()
	p := relaytest.Prompt(1, n)
	p.Prompt, p.Model, p.ModelProvider, p.ModelProviderID = text, "demo", "demo", "demo"
	p.Workspace.TargetRef = l.Hello().HostID
	if err := l.Command(t.Context(), relaytest.Message(seq, p)); err != nil {
		t.Fatal(err)
	}
	return got(t, "the acknowledgement", l.acks)
}

// until takes events up to one of a kind.
func (l *doorLink) until(t *testing.T, event string) (all []wire.Envelope) {
	t.Helper()
	for {
		e := got(t, event, l.events).Envelope
		if all = append(all, e); e.Event == event {
			return all
		}
	}
}
