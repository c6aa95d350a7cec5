package link

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// dialTimeout and maxAnswer are those of RH44.
	dialTimeout = 20 * time.Second
	maxAnswer   = 1 << 20
	// maxRefusal is how much of a refusal is read.
	maxRefusal = 64 << 10
)

// DialOptions are the settings of a host's end.
type DialOptions struct {
	// URL is the gateway's address for links, ws, wss, http or https.
	URL string
	// Header gives the headers of one attempt, the credential among them; nil for
	// none. It is part of the time that an attempt may take.
	Header func(context.Context) (http.Header, error)
	// Client makes the request; nil is NewClient. Its redirects are never followed.
	Client *http.Client
	SocketOptions
}

// RefusedError is an HTTP answer in place of a link.
type RefusedError struct {
	Status     int
	Code       wire.Code // "" if the answer held none
	Message    string    // of the gateway, as it may be shown (RH64)
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string {
	said := fmt.Sprintf("link: the gateway answers %d %s", e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		said += ": " + e.Message
	}
	return said
}

// NewClient is a client that asks gateways as RH44 demands: it follows no redirect,
// waits 20 seconds and reads 1 MiB of headers. Who reads a body bounds it alike.
func NewClient() *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: dialTimeout,
		DisableCompression: true, MaxResponseHeaderBytes: maxAnswer, MaxIdleConns: 2, IdleConnTimeout: dialTimeout,
	}
	return &http.Client{Transport: transport, Timeout: dialTimeout, CheckRedirect: follow}
}

func follow(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Dial opens the host's end of a link. It follows no redirect and takes 20 seconds at
// most (RH44). An answer of the gateway other than a link is a *RefusedError; a
// gateway of another version a *RefusedError or a *ProtocolError that names both.
func Dial(ctx context.Context, o DialOptions) (Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("link: no answer within %s", dialTimeout))
	defer cancel()
	var header http.Header
	if o.Header != nil {
		var err error
		if header, err = o.Header(ctx); err != nil {
			return nil, err
		}
	}
	transport, client, release := o.client()
	defer release()
	ws, resp, err := websocket.Dial(ctx, o.URL, &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: header, Subprotocols: []string{wire.HostProtocol},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, dialFault(ctx, transport, resp, err)
	}
	if got := ws.Subprotocol(); got != wire.HostProtocol {
		s := newSocket(ws, transport.guard)
		fault := skew([]string{wire.HostProtocol}, named(nonEmpty(got)))
		_ = s.Close(endingFor(fault)) // it was no link
		return nil, fault
	}
	return newSocket(ws, transport.guard), nil
}

// client is the caller's, with what a link needs besides.
func (o DialOptions) client() (t *guardedTransport, wrapped *http.Client, release func()) {
	client, release := o.Client, func() {}
	if client == nil {
		client = NewClient()
		release = client.CloseIdleConnections
	}
	own := *client
	t = &guardedTransport{RoundTripper: own.Transport, timeout: o.WriteTimeout}
	if t.RoundTripper == nil {
		t.RoundTripper = http.DefaultTransport
	}
	if t.timeout == 0 {
		t.timeout = writeTimeout
	}
	own.Transport, own.CheckRedirect, own.Timeout = t, follow, 0
	return t, &own, release
}

func dialFault(ctx context.Context, t *guardedTransport, resp *http.Response, err error) error {
	if t.guard != nil {
		_ = t.guard.Close() // a link that is none
	}
	switch {
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return refusal(resp)
	case resp != nil:
		return misuse("the gateway's handshake is not one: %s", shown(err.Error()))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("link: the gateway cannot be reached: %w", err)
}

// refusal reads what a gateway answers in place of a link. What is no answer of a
// gateway, such as a proxy's page, counts by its status alone.
func refusal(resp *http.Response) *RefusedError {
	e := &RefusedError{Status: resp.StatusCode}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = min(time.Duration(min(seconds, int(maxRetryAfter.Seconds())))*time.Second, maxRetryAfter)
	}
	var said answer
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil || json.Unmarshal(raw, &said) != nil || said.Error == nil {
		return e
	}
	e.Code, e.Message = wire.Code(shown(string(said.Error.Code))), shown(said.Error.Message)
	if ms := said.Error.RetryAfterMs; ms > 0 {
		e.RetryAfter = time.Duration(min(ms, maxRetryAfter.Milliseconds())) * time.Millisecond
	}
	return e
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
