package sqldb_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// proxy stands between a database and its clients and can cut their connections
// around a COMMIT.
type proxy struct {
	server   string // socket of the server
	listener net.Listener

	mu      sync.Mutex
	cut     int // of the next COMMIT: see the constants
	refuses bool
	conns   map[net.Conn]bool
	done    sync.WaitGroup
}

const (
	cutNothing = iota
	cutBefore  // the server is not asked
	cutAfter   // the server is asked, its answer is lost
)

// newProxy gives a proxy and the URL of a new database through it.
func newProxy(t *testing.T, place string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	// The path of a socket must be short.
	dir, err := os.MkdirTemp("", "px")
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	p := &proxy{server: filepath.Join(q.Get("host"), socket), conns: make(map[net.Conn]bool)}
	if p.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, socket)); err != nil {
		t.Fatal(err)
	}
	p.done.Go(p.serve)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.drop()
		p.done.Wait()
		_ = os.RemoveAll(dir)
	})
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	return p, u.String()
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuses := p.refuses
		p.mu.Unlock()
		server, err := net.Dial("unix", p.server)
		if refuses || err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.done.Go(func() { p.up(client, server) })
		p.done.Go(func() { _, _ = io.Copy(client, server); p.hangUp(client, server) })
	}
}

// up carries what a client says.
func (p *proxy) up(client, server net.Conn) {
	defer p.hangUp(client, server)
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		cut := cutNothing
		if bytes.Contains(buf[:n], []byte("\x0bCOMMIT\x00")) {
			p.mu.Lock()
			cut, p.cut = p.cut, cutNothing
			p.mu.Unlock()
		}
		switch cut {
		case cutBefore:
			return
		case cutAfter:
			_ = client.Close()
			_, _ = server.Write(buf[:n])
			_, _ = io.Copy(io.Discard, io.LimitReader(server, 1)) // until it has answered
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) hangUp(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// drop ends all connections.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// next tells what happens at the next COMMIT, and whether anybody is let in
// afterwards.
func (p *proxy) next(cut int, refuses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.refuses = cut, refuses
}
