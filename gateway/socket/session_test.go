package socket_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestCommandsOfOneSessionRunInTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.dial("ann")
	thread := r.chat.newThread("acc-ann")
	var last string
	for i := range 25 {
		last = c.say("message.send", fields{"threadId": thread, "clientEventId": newID(), "userMessage": message(itoa(i))})
	}
	c.until(last)
	for i, e := range r.chat.threads[thread].events {
		if got := e.UserMessage.Parts[0].Text; got != itoa(i) {
			t.Errorf("message %d is %s", i, got)
		}
	}
}

func message(text string) fields {
	return fields{"version": 1, "parts": []any{fields{"type": "text", "text": text}}}
}

func TestF06_ACommandThatArrivedRunsThoughThePeerIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.chat.block = make(chan struct{})
	c := r.dial("ann")
	thread := r.chat.newThread("acc-ann")
	for range 3 {
		c.say("message.send", fields{"threadId": thread, "clientEventId": newID(), "userMessage": message("x")})
	}
	eventually(t, "the first send runs", func() bool { return r.chat.count("send") == 1 })
	eventually(t, "all were read", func() bool { return r.Stats().Commands == 3 })
	_ = c.ws.CloseNow()
	close(r.chat.block)
	eventually(t, "all three are stored", func() bool {
		r.chat.mu.Lock()
		defer r.chat.mu.Unlock()
		return len(r.chat.threads[thread].events) == 3
	})
	eventually(t, "the session ends", func() bool { return r.Stats().Sessions == 0 })
}

func TestTooManyCommandsInFlightAreRefusedAndTheOthersAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) { c.Limits.InFlight = 4 })
	r.chat.block = make(chan struct{})
	c := r.dial("bob")
	for range 6 {
		c.say("threads.list", nil)
	}
	for _, id := range []string{"c5", "c6"} {
		f := c.until(id)
		if f.Error == nil || f.Error.Code != wire.CodeRateLimited || f.Error.RetryAfterMs <= 0 || !f.Error.Retryable {
			t.Errorf("%s is answered %s", id, f.raw)
		}
	}
	close(r.chat.block)
	for range 4 {
		if f := c.read(); f.OK == nil || !*f.OK {
			t.Errorf("answered %s", f.raw)
		}
	}
}

func TestAClientThatSendsTooFastIsRefusedAndThenCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) { c.Limits.CommandsPerSecond = 2 })
	c := r.dial("bob")
	go func() {
		for i := range 1000 {
			raw := fmt.Appendf(nil, `{"id":"p%d","type":"ping"}`, i)
			if c.ws.Write(context.Background(), websocket.MessageText, raw) != nil {
				return
			}
		}
	}()
	if code := c.closed(); code != 4429 {
		t.Errorf("close code %d", code)
	}
	answered, refused := 0, 0
	for _, f := range c.frames {
		switch {
		case f.OK != nil && *f.OK:
			answered++
		case f.Error != nil && f.Error.Code == wire.CodeRateLimited && f.Re != "" && f.Error.RetryAfterMs >= 500:
			refused++
		default:
			t.Errorf("told %s", f.raw)
		}
	}
	if answered > 8 || refused < 100 || refused > 110 {
		t.Errorf("%d answered, %d refused", answered, refused)
	}
}

func TestCredentialThatEndsClosesItsSessionsWith4401(t *testing.T) {
	t.Parallel()
	t.Run("told by the bus", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		mine, other := r.dial("bob"), r.dial("ann")
		mine.must("ping", nil) // the session watches
		eventually(t, "the credential is looked at again", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.asked == 4
		})
		r.bus.Publish(gateway.CredentialTopic("cred-bob"), gateway.Push{})
		if code := mine.closed(); code != 4401 {
			t.Errorf("close code %d", code)
		}
		other.must("ping", nil)
	})
	t.Run("between the first look and the watch", func(t *testing.T) {
		t.Parallel()
		var r *rig
		r = newRig(t, func(c *socket.Config) {
			c.Account = func(ctx context.Context, actor gateway.Actor) (gateway.Account, error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.ended["bob"] = true
				return account(ctx, actor)
			}
		})
		ws, _, err := websocket.Dial(t.Context(), r.http.URL, &websocket.DialOptions{
			Subprotocols: []string{socket.Protocol}, HTTPHeader: bearer("bob"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if code := websocket.CloseStatus(readAll(ws)); code != 4401 {
			t.Errorf("close code %d", code)
		}
	})
}

func TestF12_ShutdownTellsClientsWhenToReturnAndWaitsForThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.chat.block = make(chan struct{})
	const n = 40
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = r.dial("ann")
	}
	busy := clients[0]
	id := busy.say("threads.list", nil)
	eventually(t, "a command runs", func() bool { return r.chat.count("list") == 1 })

	done := make(chan error, 1)
	go func() { done <- r.Shutdown(context.Background()) }()
	delays := map[int64]bool{}
	check := func(c *client) {
		code := c.closed()
		f := c.frames[len(c.frames)-1]
		for _, g := range c.frames {
			if g.Type == "goaway" {
				f = g
			}
		}
		if code != websocket.StatusGoingAway || f.Type != "goaway" || f.RetryAfterMs < 1000 || f.RetryAfterMs >= 3000 {
			t.Errorf("close code %d after %s", code, f.raw)
		}
		delays[f.RetryAfterMs] = true
	}
	for _, c := range clients[1:] {
		check(c)
	}
	if len(delays) < n/2 {
		t.Errorf("clients return at %d moments only", len(delays))
	}
	busy.until("") // the goaway
	late := busy.say("threads.list", nil)
	if f := busy.until(late); f.Error == nil || f.Error.Code != wire.CodeShuttingDown || !f.Error.Retryable {
		t.Errorf("a command after the goaway is answered %s", f.raw)
	}
	select {
	case err := <-done:
		t.Fatalf("shutdown ended before the command that runs: %v", err)
	default:
	}
	close(r.chat.block)
	if f := busy.until(id); f.OK == nil || !*f.OK {
		t.Errorf("the command that ran is answered %s", f.raw)
	}
	check(busy)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if st := r.Stats(); st.Sessions != 0 || st.Opened != n {
		t.Errorf("%+v", st)
	}
}

func TestShutdown_CutsWhatDoesNotEndInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	started, block := make(chan struct{}), make(chan struct{})
	r.chat.during = func(step int) {
		if step == 0 {
			close(started)
			<-block
		}
	}
	c := r.dial("ann")
	c.say("thread.open", fields{"threadId": r.chat.newThread("acc-ann")})
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(ctx) }()
	cancel()
	c.closed() // cut, though its command still runs
	close(block)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestF11_NothingStaysBehindASession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	thread := r.chat.newThread("acc-ann")
	for range 30 {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				c, _, err := r.tryDial(bearer("ann"))
				if err != nil {
					t.Error(err)
					return
				}
				c.say("thread.open", fields{"threadId": thread})
				c.say("threads.follow", nil)
				_ = c.ws.CloseNow()
			})
		}
		wg.Wait()
	}
	eventually(t, "all sessions are gone", func() bool { return r.Stats().Sessions == 0 })
	// goleak finds what was started and not ended.
}

// stalled is a TCP client that shakes hands, sends a few commands and then reads
// nothing any more.
func (r *rig) stalled(commands ...string) net.Conn {
	r.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.http.URL, "http://"))
	if err != nil {
		r.Fatal(err)
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	req := "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: " + socket.Protocol + "\r\nAuthorization: Bearer ann\r\n\r\n"
	for _, c := range commands {
		if len(c) > 125 {
			r.Fatal("too long for a short frame")
		}
		req += string([]byte{0x81, 0x80 | byte(len(c)), 0, 0, 0, 0}) + c
	}
	if _, err := conn.Write([]byte(req)); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestF10_ASlowReaderHurtsOnlyItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) { c.Limits.QueueBytes = 1 << 20 })
	thread := r.chat.newThread("acc-ann")
	turnID := r.chat.start(thread)
	r.stalled(fmt.Sprintf(`{"id":"1","type":"thread.open","threadId":%q}`, thread))
	const n = 5
	readers := make([]*client, n)
	for i := range readers {
		readers[i] = r.dial("ann")
		readers[i].must("thread.open", fields{"threadId": thread})
	}
	eventually(t, "the slow one has opened too", func() bool { return r.chat.count("open") == n+1 })

	const chunks, size = 300, 32 << 10
	chunk := strings.Repeat("x", size)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8*n) // the healthy ones are at most 8 chunks behind
	for _, c := range readers {
		wg.Go(func() {
			for known := int64(0); known < chunks*size; <-slots {
				f := c.read()
				if f.Type != "turn.delta" || f.Offset != known || f.TurnID != turnID {
					t.Errorf("after %d: %.200s", known, f.raw)
					return
				}
				known = f.next()
			}
		})
	}
	var slowest time.Duration
	for range chunks {
		for range n {
			select {
			case slots <- struct{}{}:
			case <-time.After(20 * time.Second):
				t.Fatal("a healthy reader is stuck")
			}
		}
		start := time.Now()
		r.chat.delta(thread, chunk)
		slowest = max(slowest, time.Since(start))
	}
	wg.Wait()
	if slowest > time.Second {
		t.Errorf("a publication took %v", slowest)
	}
	eventually(t, "the slow one is cut", func() bool { return r.Stats().Sessions == n })
	if st := r.Stats(); st.TooSlow != 1 {
		t.Errorf("%+v", st)
	}
}

func TestASlowReaderThatReadsAgainFindsCode4408(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) {
		c.Limits.QueueBytes = 64 << 10
	})
	thread := r.chat.newThread("acc-ann")
	r.chat.start(thread)
	c := r.dial("ann")
	c.must("thread.open", fields{"threadId": thread})
	// More at once than the queue holds: the writer cannot keep up, the network can.
	r.bus.Publish(gateway.ThreadTopic(thread), gateway.Push{Type: "turn.state", ThreadID: thread, Raw: mustJSON(fields{"pad": strings.Repeat("x", 80<<10)})})
	if code := c.closed(); code != 4408 {
		t.Errorf("close code %d", code)
	}
}

func TestAPushBeyondTheFrameLimitEndsTheSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	thread := r.chat.newThread("acc-ann")
	c := r.dial("ann")
	c.must("thread.open", fields{"threadId": thread})
	r.bus.Publish(gateway.ThreadTopic(thread), gateway.Push{Type: "turn.state", ThreadID: thread, Raw: mustJSON(fields{"pad": strings.Repeat("x", gateway.MaxFrameBytes)})})
	if code := c.closed(); code != 4408 {
		t.Errorf("close code %d", code)
	}
}

func TestAsManyThreadsAsAllowedAreOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) { c.Limits.OpenThreads = 2 })
	c := r.dial("ann")
	a, b, d := r.chat.newThread("acc-ann"), r.chat.newThread("acc-ann"), r.chat.newThread("acc-ann")
	c.must("thread.open", fields{"threadId": a})
	c.must("thread.open", fields{"threadId": b})
	if f := c.call("thread.open", fields{"threadId": d}); f.Error == nil || f.Error.Code != wire.CodeBadRequest {
		t.Errorf("a third is answered %s", f.raw)
	}
	c.must("thread.open", fields{"threadId": a})
	c.must("thread.close", fields{"threadId": b})
	c.must("thread.open", fields{"threadId": d})
}
