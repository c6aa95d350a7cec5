package provider_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead/fairlead/relay/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-canary-5f1d7e0b2c"

// upstream is a provider whose test decides every byte: connections are pipes
// in memory, so one write of the script is one read of the client, never more.
type upstream struct {
	script func(*exchange)

	mu       sync.Mutex
	requests []recorded
	running  sync.WaitGroup
}

// recorded is one request as it arrived.
type recorded struct {
	path   string
	header http.Header
	body   string
}

// exchange is the server's side of one request.
type exchange struct {
	conn net.Conn
	recorded
}

func newUpstream(t testing.TB, script func(*exchange)) *upstream {
	u := &upstream{script: script}
	t.Cleanup(u.running.Wait)
	return u
}

// transport is the product's own, dialling the upstream.
func (u *upstream) transport() *http.Transport {
	tr := provider.NewTransport()
	tr.Proxy = nil
	tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		u.running.Go(func() { u.serve(far) })
		return near, nil
	}
	return tr
}

// serve reads requests until the client closes, so that a second request on
// the same connection would be seen too.
func (u *upstream) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(req.Body)
	x := &exchange{conn: conn, recorded: recorded{req.URL.Path, req.Header, string(body)}}
	u.mu.Lock()
	u.requests = append(u.requests, x.recorded)
	u.mu.Unlock()
	u.script(x)
}

func (u *upstream) seen() []recorded {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.requests
}

// head sends the head of an answer; its body is chunked, so that a cut can be
// told from an end.
func (x *exchange) head(status int, headers ...string) {
	head := fmt.Sprintf("HTTP/1.1 %d X\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n", status)
	if len(headers) == 0 {
		headers = []string{"Content-Type: text/event-stream"}
	}
	_, _ = io.WriteString(x.conn, head+strings.Join(headers, "\r\n")+"\r\n\r\n")
}

// send sends one piece of the body and reports whether the client took it.
func (x *exchange) send(piece string) bool {
	if piece == "" {
		return true
	}
	_, err := fmt.Fprintf(x.conn, "%x\r\n%s\r\n", len(piece), piece)
	return err == nil
}

// end ends the body as it should be.
func (x *exchange) end() { _, _ = io.WriteString(x.conn, "0\r\n\r\n") }

// cut closes the connection in mid-body.
func (x *exchange) cut() { _ = x.conn.Close() }

// stay waits until the client has closed the connection.
func (x *exchange) stay() { _, _ = io.Copy(io.Discard, x.conn) }

// play is a script: a regular answer with these pieces.
func play(pieces ...string) func(*exchange) {
	return func(x *exchange) {
		x.head(200)
		for _, p := range pieces {
			if !x.send(p) {
				return
			}
		}
		x.end()
	}
}

// then sends the pieces and goes on with another script, without an end.
func then(next func(*exchange), pieces ...string) func(*exchange) {
	return func(x *exchange) {
		x.head(200)
		for _, p := range pieces {
			if !x.send(p) {
				return
			}
		}
		next(x)
	}
}

// status is a script: an answer of that status.
func status(code int, body string, headers ...string) func(*exchange) {
	return func(x *exchange) {
		x.head(code, append([]string{"Content-Type: application/json"}, headers...)...)
		x.send(body)
		x.end()
	}
}

// reply is everything that a stream came to.
type reply struct {
	deltas    []provider.Delta
	text      string
	reasoning string
	res       provider.Result
	err       error
}

func (r reply) outcome() provider.Outcome {
	return provider.Settle(r.res, r.err, strings.TrimSpace(r.text) != "")
}

func (r reply) failure(t testing.TB) *provider.Failure {
	t.Helper()
	var f *provider.Failure
	if !errors.As(r.err, &f) {
		t.Fatalf("err = %v, want a *Failure", r.err)
	}
	return f
}

var question = provider.Request{
	Model: "m", Messages: []provider.Message{{Role: provider.RoleUser, Text: "hi"}},
}

// ask makes a client for the upstream and streams one answer.
func ask(ctx context.Context, t testing.TB, u *upstream, cfg provider.Config, req provider.Request) reply {
	t.Helper()
	if cfg.APIKey.IsZero() {
		cfg.APIKey = provider.NewKey(canary)
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = "http://upstream.test/v1"
	}
	cfg.Transport = u.transport()
	c, err := provider.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return collect(ctx, c, req)
}

func collect(ctx context.Context, c provider.Client, req provider.Request) reply {
	var r reply
	r.res, r.err = c.Stream(ctx, req, func(d provider.Delta) error {
		r.deltas = append(r.deltas, d)
		if d.Kind == provider.DeltaText {
			r.text += d.Text
		} else {
			r.reasoning += d.Text
		}
		return nil
	})
	return r
}

// run is ask with what most tests need.
func run(t testing.TB, api provider.API, script func(*exchange)) reply {
	t.Helper()
	return ask(t.Context(), t, newUpstream(t, script), provider.Config{API: api}, question)
}

var httpAPIs = []provider.API{provider.APIChat, provider.APIResponses, provider.APIMessages}

// eachAPI runs a test for every API that speaks HTTP.
func eachAPI(t *testing.T, test func(t *testing.T, api provider.API)) {
	t.Helper()
	for _, api := range httpAPIs {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			test(t, api)
		})
	}
}

// gate is closed once, by whoever comes first.
type gate struct {
	once sync.Once
	c    chan struct{}
}

func newGate() *gate { return &gate{c: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.c) }) }

func (g *gate) wait(t testing.TB, what string) {
	t.Helper()
	select {
	case <-g.c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
}

func lines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
}

func compact(b []byte) string { return string(bytes.TrimSpace(b)) }
