package socket_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/bus"
	"github.com/fairlead/fairlead/gateway/socket"
)

// pipeListener hands in-memory connections to an HTTP server, so that time is
// that of a synctest bubble.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	server, client := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs a server and one client of it within a synctest bubble.
func bubble(t *testing.T, expires time.Duration, run func(t *testing.T, ws *websocket.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := bus.NewMemory()
		srv := socket.New(socket.Config{
			Chat: newChatDouble(b), Routes: modelsDouble{}, Bus: b, Account: account,
			Authenticate: func(*http.Request) (gateway.Actor, error) {
				actor := people["bob"]
				if expires > 0 {
					actor.ExpiresAt = time.Now().Add(expires)
				}
				return actor, nil
			},
		})
		ln := newPipeListener()
		web := &http.Server{Handler: srv}
		served := make(chan error, 1)
		go func() { served <- web.Serve(ln) }()
		transport := &http.Transport{DialContext: ln.dial}
		ws, _, err := websocket.Dial(t.Context(), "http://pipe/ws", &websocket.DialOptions{
			Subprotocols: []string{socket.Protocol}, HTTPClient: &http.Client{Transport: transport},
			HTTPHeader: bearer("bob"),
		})
		if err != nil {
			t.Fatal(err)
		}
		run(t, ws)
		_ = ws.CloseNow()
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		_ = web.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
}

// readAll reads to the end and gives what ended it.
func readAll(ws *websocket.Conn) error {
	for {
		if _, _, err := ws.Read(context.Background()); err != nil {
			return err
		}
	}
}

func TestF08_AnIdleSessionIsPingedAndLives(t *testing.T) {
	t.Parallel()
	bubble(t, 0, func(t *testing.T, ws *websocket.Conn) {
		ended := make(chan error, 1)
		go func() { ended <- readAll(ws) }() // answers pings
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-time.After(time.Hour):
		}
		_ = ws.CloseNow()
		<-ended
	})
}

func TestADeadPeerIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bus.NewMemory()
		srv := socket.New(socket.Config{
			Chat: newChatDouble(b), Routes: modelsDouble{}, Bus: b, Account: account,
			Authenticate: func(*http.Request) (gateway.Actor, error) { return people["bob"], nil },
		})
		ln := newPipeListener()
		web := &http.Server{Handler: srv}
		served := make(chan error, 1)
		go func() { served <- web.Serve(ln) }()
		conn, err := ln.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: "+
			socket.Protocol+"\r\nAuthorization: Bearer bob\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// Bytes are taken off the wire, but nobody answers.
		pings, buf := 0, make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				break
			}
			if n == 2 && buf[0] == 0x89 {
				pings++
			}
		}
		if took := time.Since(start); pings < 2 || took < 50*time.Second || took > 90*time.Second {
			t.Errorf("dropped after %v and %d pings", took, pings)
		}
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		_ = web.Close()
		<-served
		_ = conn.Close()
	})
}

func TestACredentialsTimeIsTheSessionsEnd(t *testing.T) {
	t.Parallel()
	bubble(t, 20*time.Minute, func(t *testing.T, ws *websocket.Conn) {
		start := time.Now()
		err := readAll(ws)
		if code := websocket.CloseStatus(err); code != 4401 {
			t.Errorf("ended by %v", err)
		}
		if took := time.Since(start); took < 20*time.Minute || took > 20*time.Minute+5*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}
