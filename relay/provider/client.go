package provider

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	userAgent         = "fairlead"
	maxErrorBodyBytes = 64 << 10
	dialTimeout       = 10 * time.Second
)

// NewTransport makes the transport that New uses by default: HTTP/1.1, one
// connection per request. So nothing can be repeated underneath a stream (a
// request on a kept connection that turns out to be dead, a refused HTTP/2
// stream), and an ended context closes the connection itself. No answer is
// decompressed and no redirect followed here. Proxies are taken from the
// environment.
func NewTransport() *http.Transport {
	var only http.Protocols
	only.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		TLSClientConfig:        &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(0)},
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		Protocols:              &only,
	}
}

// dialect is one provider API: how a request is written and a stream read.
type dialect interface {
	path(base string) string
	authorise(h http.Header, key Key)
	encode(req Request) ([]byte, error)
	decoder(out *output) decoder
}

// decoder reads the events of one stream into an output.
type decoder interface {
	// event takes one event; data is JSON or [DONE]. done is true when nothing
	// more is to be read.
	event(data []byte) (done bool, err error)
	// ended tells whether the terminal marker of the API was seen.
	ended() bool
}

// client is a Client over HTTP. It has no state of its own between streams.
type client struct {
	cfg Config
	api dialect
	url string
}

func newClient(cfg Config, api dialect) *client {
	return &client{cfg: cfg, api: api, url: api.path(strings.TrimRight(cfg.BaseURL, "/"))}
}

// Stream implements Client. It makes one request through the transport itself,
// not through an http.Client, which would follow redirects.
func (c *client) Stream(ctx context.Context, req Request, emit func(Delta) error) (Result, error) {
	body, err := c.api.encode(req)
	if err != nil {
		return Result{}, fail(wire.CodeModelRequestRefused, "request cannot be written: %w", err)
	}
	out := &output{emit: emit, key: c.cfg.APIKey}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWatch(c.cfg.FirstTokenTimeout, func() { cancel(errStalled) })
	defer w.stop()

	err = c.run(inner, w, body, out)
	var own *emitError
	switch {
	case err == nil:
		return out.result, nil
	case errors.As(err, &own):
		return out.result, own.err
	case ctx.Err() != nil:
		return out.result, context.Cause(ctx)
	}
	f := c.failure(err, context.Cause(inner))
	f.Partial = out.result
	return out.result, f
}

// failure is err as a Failure. What broke because the watch ended the request
// is a stall; what was known before that stays what it was.
func (c *client) failure(err, cause error) *Failure {
	var f *Failure
	if !errors.As(err, &f) {
		f = fail(wire.CodeModelFailed, "unexpected failure of %s", c.cfg.API)
	}
	broke := f.Code == wire.CodeModelStreamCut || f.Code == wire.CodeModelUnreachable
	if broke && errors.Is(cause, errStalled) {
		return fail(wire.CodeModelStalled, "%w", errStalled)
	}
	return f
}

// run makes the request and reads the answer to its end.
func (c *client) run(ctx context.Context, w *watch, body []byte, out *output) error {
	resp, err := c.send(ctx, w, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := decoded(resp, w.reader(resp.Body))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		w.limit = min(w.limit, tailTimeout)
		b, _ := io.ReadAll(io.LimitReader(content, maxErrorBodyBytes))
		return refused(resp.StatusCode, resp.Header, b, c.cfg.Now())
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/html" {
		return fail(wire.CodeModelStreamInvalid, "answer is a web page, not an event stream")
	}
	s := &stream{
		events: newSSEReader(content, maxEventBytes),
		watch:  w, idle: c.cfg.IdleTimeout, out: out, dec: c.api.decoder(out),
	}
	return s.read(ctx)
}

// send makes the one HTTP request.
func (c *client) send(ctx context.Context, w *watch, body []byte) (*http.Response, error) {
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		written.Store(i.Err == nil)
	}}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace),
		http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, fail(wire.CodeModelUnreachable, "address cannot be used")
	}
	req.GetBody = nil // nothing below may send it again
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", userAgent)
	c.api.authorise(req.Header, c.cfg.APIKey)

	w.start()
	defer w.pause()
	resp, err := c.cfg.Transport.RoundTrip(req)
	switch {
	case err == nil:
		return resp, nil
	case written.Load():
		return nil, fail(wire.CodeModelStreamCut, "connection ended before an answer")
	}
	return nil, fail(wire.CodeModelUnreachable, "%w", connectCause(err))
}

// connectCause keeps what an operator can act upon and nothing that the other
// side has written.
func connectCause(err error) error {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("host name cannot be resolved: %w", dns)
	case errors.As(err, &cert):
		return fmt.Errorf("certificate: %w", cert.Err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("cannot connect: %w", op)
	}
	return errors.New("connection could not be opened")
}

// decoded undoes the content encoding, which some servers apply unasked.
func decoded(resp *http.Response, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		return &gunzip{src: body}, nil
	}
	return nil, fail(wire.CodeModelStreamInvalid, "content encoding is not supported")
}

// gunzip opens the gzip stream at the first read, when its header can be there.
type gunzip struct {
	src io.Reader
	z   *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.src)
		if err != nil {
			return 0, err
		}
		g.z = z
	}
	return g.z.Read(p)
}
