package link_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay/link"
)

// memnet is a network in memory, for tests in a bubble: HTTP and WebSockets as they
// are, time and faults as the test wants them.
type memnet struct {
	t     *testing.T
	conns chan link.Conn // the gateway's ends
	accept
	// idleCut is how long a proxy lets either direction be silent; 0: for ever.
	idleCut time.Duration

	mu       sync.Mutex
	cables   []*cable
	accepted []link.Conn
}

// accept is a listener whose connections are made by Dial.
type accept struct {
	incoming chan net.Conn
	closed   chan struct{}
}

func (a accept) Accept() (net.Conn, error) {
	select {
	case c := <-a.incoming:
		return c, nil
	case <-a.closed:
		return nil, net.ErrClosed
	}
}

func (a accept) Close() error   { return nil }
func (a accept) Addr() net.Addr { return &net.TCPAddr{} }

func newMemnet(t *testing.T) *memnet {
	t.Helper()
	n := &memnet{
		t: t, conns: make(chan link.Conn, 64),
		accept: accept{incoming: make(chan net.Conn), closed: make(chan struct{})},
	}
	server := &http.Server{Handler: http.HandlerFunc(n.serve)}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(n.accept) })
	t.Cleanup(func() {
		n.mu.Lock()
		cables, accepted := n.cables, n.accepted
		n.mu.Unlock()
		for _, c := range cables {
			c.cut()
		}
		for _, c := range accepted {
			_ = c.Close(link.Ending{})
		}
		close(n.closed)
		_ = server.Close()
		served.Wait()
	})
	return n
}

func (n *memnet) serve(w http.ResponseWriter, r *http.Request) {
	conn, err := link.Accept(w, r, link.SocketOptions{})
	if err != nil {
		n.t.Errorf("not accepted: %v", err)
		return
	}
	n.mu.Lock()
	n.accepted = append(n.accepted, conn)
	n.mu.Unlock()
	n.conns <- conn
}

// connect gives both ends of a link, and what lies between.
func (n *memnet) connect() (host, gateway link.Conn, between *cable) {
	n.t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, a := net.Pipe()
		b, far := net.Pipe()
		between = &cable{a: a, b: b, idleCut: n.idleCut}
		between.run()
		n.mu.Lock()
		n.cables = append(n.cables, between)
		n.mu.Unlock()
		n.incoming <- far
		return near, nil
	}}
	host, err := link.Dial(n.t.Context(), link.DialOptions{URL: "http://gateway.test/ws/host", Client: &http.Client{Transport: transport}})
	if err != nil {
		n.t.Fatal(err)
	}
	return host, <-n.conns, between
}

// cable carries bytes between two connections.
type cable struct {
	a, b       net.Conn
	idleCut    time.Duration
	goroutines sync.WaitGroup

	mu    sync.Mutex
	fault func()        // what happens in place of passing bytes on; nil passes them
	pace  time.Duration // between two reads
	ended chan struct{}
}

func (c *cable) run() {
	c.ended = make(chan struct{})
	c.goroutines.Go(func() { c.carry(c.a, c.b) })
	c.goroutines.Go(func() { c.carry(c.b, c.a) })
}

func (c *cable) carry(from, to net.Conn) {
	defer c.a.Close()
	defer c.b.Close()
	buf := make([]byte, 64<<10)
	for {
		if c.idleCut > 0 {
			_ = from.SetReadDeadline(time.Now().Add(c.idleCut))
		}
		got, err := from.Read(buf)
		if err != nil {
			return
		}
		c.mu.Lock()
		fault, pace := c.fault, c.pace
		c.mu.Unlock()
		time.Sleep(pace * time.Duration(got) / time.Duration(len(buf)))
		if fault != nil {
			fault()
			continue
		}
		if _, err := to.Write(buf[:got]); err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
}

// slow lets 64 KiB pass in pace.
func (c *cable) slow(pace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pace = pace
}

// swallow drops all that comes from now on, as a line does that is gone without a
// word: what is sent still finds room in some buffer.
func (c *cable) swallow() { c.breakWith(func() {}) }

// clog takes nothing any more.
func (c *cable) clog() { c.breakWith(func() { <-c.ended }) }

func (c *cable) breakWith(fault func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// cut ends it.
func (c *cable) cut() {
	_ = c.a.Close()
	_ = c.b.Close()
	c.mu.Lock()
	select {
	case <-c.ended:
	default:
		close(c.ended)
	}
	c.mu.Unlock()
	c.goroutines.Wait()
}
