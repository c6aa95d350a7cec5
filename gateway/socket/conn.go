package socket

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// smallBuffer is the size of a connection's buffers in place of net/http's two
	// of 4 KiB: most sessions are silent most of the time.
	smallBuffer = 512
	// corkBytes is how much a corked connection gathers for one write.
	corkBytes = 64 << 10
)

// conn is a hijacked connection. While it is corked, what is written to it is
// gathered and leaves with one system call. Every write to the network has a
// deadline; the WebSocket library needs none of its own then.
type conn struct {
	net.Conn
	ahead []byte      // what net/http had read already; the reader's
	heard atomic.Bool // something came since the last beat

	// write is held for all of a write to the network.
	write  sync.Mutex
	corked bool
	buf    *[]byte // from corks while corked
	corks  *sync.Pool

	// limit guards timeout and until, so that hurry reaches a write that is about
	// to begin.
	limit   sync.Mutex
	timeout time.Duration
	until   time.Time // the deadline that is set
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
			c.ahead = nil
		}
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(true)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	if !c.corked {
		return c.send(p)
	}
	if len(*c.buf)+len(p) > corkBytes {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) >= corkBytes {
		return c.send(p)
	}
	*c.buf = append(*c.buf, p...)
	return len(p), nil
}

// cork begins to gather.
func (c *conn) cork() {
	c.write.Lock()
	defer c.write.Unlock()
	c.corked = true
	c.buf, _ = c.corks.Get().(*[]byte)
}

// uncork writes what was gathered.
func (c *conn) uncork() error {
	c.write.Lock()
	defer c.write.Unlock()
	err := c.flush()
	c.corked = false
	c.corks.Put(c.buf)
	c.buf = nil
	return err
}

// flush needs write.
func (c *conn) flush() error {
	if len(*c.buf) == 0 {
		return nil
	}
	_, err := c.send(*c.buf)
	*c.buf = (*c.buf)[:0]
	return err
}

// send needs write.
func (c *conn) send(p []byte) (int, error) {
	if err := c.extend(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// extend moves the deadline, unless most of the timeout is left: a stream of
// small writes then sets it once in a while.
func (c *conn) extend() error {
	c.limit.Lock()
	defer c.limit.Unlock()
	now := time.Now()
	if c.until.Sub(now) > c.timeout/2 {
		return nil
	}
	c.until = now.Add(c.timeout)
	return c.Conn.SetWriteDeadline(c.until)
}

// hurry bounds the write in progress and all later ones.
func (c *conn) hurry(timeout time.Duration) {
	c.limit.Lock()
	defer c.limit.Unlock()
	c.timeout, c.until = timeout, time.Now().Add(timeout)
	_ = c.Conn.SetWriteDeadline(c.until) // fails on a closed connection alone
}

// hijack hands the WebSocket library a conn with small buffers in place of what
// net/http made for requests.
type hijack struct {
	http.ResponseWriter
	timeout time.Duration
	corks   *sync.Pool
	conn    *conn
}

func (h *hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = &conn{Conn: raw, timeout: h.timeout, corks: h.corks}
	if n := rw.Reader.Buffered(); n > 0 {
		ahead, _ := rw.Reader.Peek(n)
		h.conn.ahead = append([]byte(nil), ahead...)
	}
	return h.conn, bufio.NewReadWriter(
		bufio.NewReaderSize(h.conn, smallBuffer), bufio.NewWriterSize(h.conn, smallBuffer)), nil
}
