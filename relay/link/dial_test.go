package link_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH44_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	for name, client := range map[string]*http.Client{"its own client": nil, "the caller's": {Transport: link.NewClient().Transport}} {
		_, err := link.Dial(t.Context(), link.DialOptions{
			URL: s.URL, Client: client,
			Header: func(context.Context) (http.Header, error) { return http.Header{"Authorization": {"canary"}}, nil },
		})
		var refused *link.RefusedError
		if !errors.As(err, &refused) || refused.Status != http.StatusTemporaryRedirect {
			t.Errorf("%s: %v", name, err)
		}
		if client != nil {
			client.CloseIdleConnections()
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("the credential went to %d other addresses", n)
	}
}

func TestRH44_AnAttemptTakesTwentySeconds(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]func(context.Context) (http.Header, error){
		"a gateway that does not answer":  nil,
		"a credential that does not come": func(ctx context.Context) (http.Header, error) { <-ctx.Done(); return nil, context.Cause(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var far net.Conn
				transport := &http.Transport{DialContext: func(context.Context, string, string) (near net.Conn, _ error) {
					near, far = net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, far) }()
					return near, nil
				}}
				start := time.Now()
				_, err := link.Dial(t.Context(), link.DialOptions{URL: "http://gateway.test", Header: header, Client: &http.Client{Transport: transport}})
				if waited := time.Since(start); err == nil || waited != 20*time.Second {
					t.Errorf("after %s: %v", waited, err)
				}
				if far != nil {
					_ = far.Close()
				}
			})
		})
	}
}

func TestRH44_LongAnswersAreNotRead(t *testing.T) {
	t.Parallel()
	var body atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/headers" {
			w.Header().Set("X-Long", strings.Repeat("x", 2<<20))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
		for range 64 {
			n, err := w.Write(make([]byte, 1<<20))
			body.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	defer s.Close()
	var refused *link.RefusedError
	if _, err := link.Dial(t.Context(), link.DialOptions{URL: s.URL + "/headers"}); err == nil || errors.As(err, &refused) {
		t.Errorf("2 MiB of headers: %v", err)
	}
	if _, err := link.Dial(t.Context(), link.DialOptions{URL: s.URL}); !errors.As(err, &refused) || refused.Status != http.StatusBadGateway {
		t.Errorf("64 MiB of body: %v", err)
	}
	if n := body.Load(); n > 32<<20 {
		t.Errorf("%d bytes were read", n)
	}
}

func TestRH64_RefusalsAreShownShortAndPlain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body, message string
		code          wire.Code
		header        string
		after         time.Duration
	}{
		"a gateway's":    {`{"error":{"code":"unauthorized","message":"Who\u001b[31m is\n this?","retryAfterMs":1500}}`, "Who[31m is this?", wire.CodeUnauthorized, "", 1500 * time.Millisecond},
		"a long one":     {`{"error":{"code":"unauthorized","message":"` + strings.Repeat("é", 300) + `"}}`, strings.Repeat("é", 140), wire.CodeUnauthorized, "", 0},
		"a proxy's":      {`<html>`, "", "", "7", 7 * time.Second},
		"a hostile wait": {`{}`, "", "", "999999999999999", 0},
		"a long wait":    {`{"error":{"code":"shutting_down","message":"x","retryAfterMs":9223372036854775807}}`, "x", wire.CodeShuttingDown, "", time.Hour},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if tt.header != "" {
				w.Header().Set("Retry-After", tt.header)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, tt.body)
		}))
		_, err := link.Dial(t.Context(), link.DialOptions{URL: s.URL})
		s.Close()
		var refused *link.RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := link.RefusedError{Status: http.StatusServiceUnavailable, Code: tt.code, Message: tt.message, RetryAfter: tt.after}
		if name == "a hostile wait" {
			want.RetryAfter = min(refused.RetryAfter, time.Hour)
		}
		if *refused != want {
			t.Errorf("%s: %+v", name, *refused)
		}
	}
}

func TestDial_NamesAVersionGap(t *testing.T) {
	t.Parallel()
	// A gateway of another version refuses before the upgrade, and names both.
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Sec-WebSocket-Protocol", "fairlead.host.v9")
		_, _ = link.Accept(w, r, link.SocketOptions{})
	}))
	defer s.Close()
	_, err := link.Dial(t.Context(), link.DialOptions{URL: s.URL})
	if err == nil || !strings.Contains(err.Error(), "fairlead.host.v9") || !strings.Contains(err.Error(), wire.HostProtocol) {
		t.Errorf("refused: %v", err)
	}
	// One that takes whatever comes names none.
	lax := httptest.NewServer(http.HandlerFunc(takeAnything))
	defer lax.Close()
	var misuse *link.ProtocolError
	if _, err := link.Dial(t.Context(), link.DialOptions{URL: lax.URL}); !errors.As(err, &misuse) || !strings.Contains(err.Error(), wire.HostProtocol) {
		t.Errorf("taken without a protocol: %v", err)
	}
}

// takeAnything is a WebSocket server without subprotocols.
func takeAnything(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	_, _, _ = ws.Read(r.Context())
	_ = ws.CloseNow()
}
