package socket_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
)

// rawReader is the cheapest client there is: it shakes hands, sends its commands
// and then counts bytes.
type rawReader struct {
	conn net.Conn
	buf  *bufio.Reader
}

func dialRaw(b *testing.B, url string, commands ...string) *rawReader {
	b.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	req := "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: " + socket.Protocol + "\r\nAuthorization: Bearer ann\r\n\r\n"
	for _, c := range commands {
		req += string([]byte{0x81, 0x80 | byte(len(c)), 0, 0, 0, 0}) + c
	}
	if _, err := io.WriteString(conn, req); err != nil {
		b.Fatal(err)
	}
	r := &rawReader{conn: conn, buf: bufio.NewReaderSize(conn, 64<<10)}
	for line := ""; line != "\r\n"; {
		if line, err = r.buf.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

// frame skips one frame and gives its payload.
func (r *rawReader) frame(b *testing.B) []byte {
	b.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(r.buf, head); err != nil {
		b.Fatal(err)
	}
	size := int(head[1])
	if size == 126 {
		if _, err := io.ReadFull(r.buf, head); err != nil {
			b.Fatal(err)
		}
		size = int(head[0])<<8 | int(head[1])
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r.buf, payload); err != nil {
		b.Fatal(err)
	}
	return payload
}

func (r *rawReader) skip(bytes int64) error {
	_, err := io.CopyN(io.Discard, r.buf, bytes)
	return err
}

// deltas makes n pushes of about size bytes that continue at offset.
func deltas(threadID string, offset int64, n, size int) []gateway.Push {
	list := make([]gateway.Push, n)
	text := strings.Repeat("x", size)
	for i := range list {
		next := offset + int64(size)
		list[i] = gateway.Push{
			Type: "turn.delta", ThreadID: threadID, TurnID: goldenTurn, Offset: offset, Next: next, Text: text,
			Raw: json.RawMessage(fmt.Sprintf(`{"type":"turn.delta","threadId":%q,"turnId":%q,"offset":%d,"next":%d,"text":%q}`,
				threadID, goldenTurn, offset, next, text)),
		}
		offset = next
	}
	return list
}

func wireBytes(list []gateway.Push) (n int64) {
	for _, p := range list {
		n += int64(len(p.Raw)) + 2
		if len(p.Raw) > 125 {
			n += 2
		}
	}
	return n
}

// bare is the peer: coder/websocket as it comes, one write per message and
// connection.
type bare struct {
	mu    sync.Mutex
	conns []*websocket.Conn
}

func (s *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{socket.Protocol}, InsecureSkipVerify: true})
	if err != nil {
		return
	}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	_, _, _ = c.Read(context.Background()) // to the end of the connection
}

func (s *bare) publish(b *testing.B, list []gateway.Push) {
	b.Helper()
	for _, p := range list {
		for _, c := range s.conns {
			if err := c.Write(context.Background(), websocket.MessageText, p.Raw); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// arena is both servers with the same number of readers.
type arena struct {
	rig      *rig
	threadID string
	bare     *bare
	ours     []*rawReader
	theirs   []*rawReader
	offset   int64
}

func newArena(b *testing.B, readers int) *arena {
	b.Helper()
	r := newRig(b)
	a := &arena{rig: r, threadID: r.chat.newThread("acc-ann"), bare: &bare{}}
	web := httptest.NewServer(a.bare)
	b.Cleanup(web.Close)
	open := fmt.Sprintf(`{"id":"1","type":"thread.open","threadId":%q}`, a.threadID)
	for range readers {
		mine := dialRaw(b, r.http.URL, open)
		mine.frame(b) // welcome
		mine.frame(b) // reply
		a.ours, a.theirs = append(a.ours, mine), append(a.theirs, dialRaw(b, web.URL))
	}
	eventually(b, "all are connected", func() bool {
		a.bare.mu.Lock()
		defer a.bare.mu.Unlock()
		return len(a.bare.conns) == readers
	})
	b.Cleanup(func() {
		for _, c := range a.bare.conns {
			_ = c.CloseNow()
		}
	})
	return a
}

// time publishes and waits until every reader has all of it.
func (a *arena) time(b *testing.B, readers []*rawReader, bytes int64, publish func()) time.Duration {
	b.Helper()
	var wg sync.WaitGroup
	start := time.Now()
	for _, r := range readers {
		wg.Go(func() {
			if err := r.skip(bytes); err != nil {
				b.Error(err)
			}
		})
	}
	publish()
	wg.Wait()
	return time.Since(start)
}

func (a *arena) run(b *testing.B, messages, size int) {
	b.Helper()
	var ours, theirs time.Duration
	rounds := 0
	for b.Loop() {
		list := deltas(a.threadID, a.offset, messages, size)
		a.offset = list[len(list)-1].Next
		bytes := wireBytes(list)
		theirs += a.time(b, a.theirs, bytes, func() { a.bare.publish(b, list) })
		ours += a.time(b, a.ours, bytes, func() {
			for _, p := range list {
				a.rig.bus.Publish(gateway.ThreadTopic(a.threadID), p)
			}
		})
		rounds++
	}
	n := float64(rounds * messages * len(a.ours))
	b.ReportMetric(float64(theirs)/float64(ours), "x-bare")
	b.ReportMetric(float64(ours)/n, "ns/delivery")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFanout publishes bursts to many readers. x-bare is how many times
// faster they arrive than from a loop over bare connections in the same run.
func BenchmarkFanout(b *testing.B) {
	for _, readers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("%d_readers", readers), func(b *testing.B) {
			newArena(b, readers).run(b, 100, 128)
		})
	}
}

// BenchmarkDeltas publishes one delta at a time and waits for it: the hop that
// every token takes.
func BenchmarkDeltas(b *testing.B) {
	for _, readers := range []int{1, 10} {
		b.Run(fmt.Sprintf("%d_readers", readers), func(b *testing.B) {
			newArena(b, readers).run(b, 1, 200)
		})
	}
}

// BenchmarkCommand is the way of one command through the socket, without a
// service behind it.
func BenchmarkCommand(b *testing.B) {
	r := newRig(b, func(c *socket.Config) { c.Limits.CommandsPerSecond = 1 << 20 })
	c := r.dial("ann")
	raw := fmt.Sprintf(`{"id":"1","type":"turn.interrupt","threadId":%q,"turnId":%q,"clientEventId":%q}`, newID(), newID(), newID())
	b.ReportAllocs()
	for b.Loop() {
		c.write(raw)
		c.read()
	}
}
