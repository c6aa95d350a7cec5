package link

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// guardedChunk is how much of a write must pass within the timeout: a large frame
// may take its time on a slow line, as long as it moves.
const guardedChunk = 64 << 10

// guard is the connection under a WebSocket. It ends a connection that takes nothing
// for timeout. A context with a timeout would not do: the library closes the
// connection whenever such a context ends, and bounds the whole frame with it.
type guard struct {
	io.ReadWriteCloser
	timeout time.Duration
	stuck   atomic.Bool // it was ended so
	// When bytes last came and went.
	came, went instant
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.ReadWriteCloser.Read(p)
	if n > 0 {
		g.came.set(time.Now())
	}
	return n, err
}

func (g *guard) Write(p []byte) (written int, err error) {
	late := time.AfterFunc(g.timeout, func() {
		g.stuck.Store(true)
		_ = g.Close() // the write then fails
	})
	defer late.Stop()
	for len(p) > written {
		n, err := g.ReadWriteCloser.Write(p[written:min(len(p), written+guardedChunk)])
		written += n
		if err != nil {
			return written, err
		}
		late.Reset(g.timeout)
		g.went.set(time.Now())
	}
	return written, nil
}

// guardedConn is a guard where a net.Conn is asked for.
type guardedConn struct {
	net.Conn
	guard *guard
}

func (c guardedConn) Read(p []byte) (int, error)  { return c.guard.Read(p) }
func (c guardedConn) Write(p []byte) (int, error) { return c.guard.Write(p) }

// guardedTransport puts a guard around the connection that a handshake gives.
type guardedTransport struct {
	http.RoundTripper
	timeout time.Duration
	guard   *guard // set by a handshake that succeeded
}

func (t *guardedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok {
		t.guard = &guard{ReadWriteCloser: conn, timeout: t.timeout}
		resp.Body = t.guard
	}
	return resp, nil
}
