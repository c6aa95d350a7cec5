package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
)

const (
	testLimit = 20 * time.Second
	welcome   = `{"type":"welcome","epoch":"e","pingMs":25000}`
)

// serve runs a server whose n-th connection does what script says.
func serve(t *testing.T, script func(n int, w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		script(int(n.Add(1)), w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// greet upgrades and says the welcome.
func greet(t *testing.T, w http.ResponseWriter, r *http.Request) *websocket.Conn {
	t.Helper()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{client.Protocol}})
	if err != nil {
		t.Error(err)
		return nil
	}
	say(t, conn, welcome)
	return conn
}

func say(t *testing.T, conn *websocket.Conn, frame string) {
	t.Helper()
	if err := conn.Write(context.Background(), websocket.MessageText, []byte(frame)); err != nil {
		t.Error(err)
	}
}

// follow runs a line and gives what it brings until it ends or enough says so.
func follow(t *testing.T, o client.Options, enough func(client.Incoming) bool) ([]client.Incoming, error) {
	t.Helper()
	limit := testLimit
	if o.Transport != nil { // time is not real there
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if o.Pause == nil {
		o.Pause = func(int) time.Duration { return time.Millisecond }
	}
	line := client.NewLine(o)
	ended := make(chan error, 1)
	go func() { ended <- line.Run(ctx) }()
	var got []client.Incoming
	for {
		select {
		case in := <-line.In():
			if got = append(got, in); enough(in) {
				cancel()
				return got, <-ended
			}
		case err := <-ended:
			if ctx.Err() != nil {
				t.Fatalf("nothing came of it: %+v", got)
			}
			return got, err
		}
	}
}

func never(client.Incoming) bool { return false }

func downs(list []client.Incoming) (pauses []time.Duration) {
	for _, in := range list {
		if in.Down != nil {
			pauses = append(pauses, in.Again)
		}
	}
	return pauses
}

// second is enough once the second connection speaks.
func second() func(client.Incoming) bool {
	frames := 0
	return func(in client.Incoming) bool {
		if in.Frame != nil {
			frames++
		}
		return frames == 2
	}
}

func TestCloseCodesSayWhetherToComeBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code        websocket.StatusCode
		back, login bool
	}{{4400, false, false}, {4401, false, true}, {4403, false, false}, {4409, false, false}, {4408, true, false}, {4413, true, false}, {1001, true, false}, {1012, true, false}, {1000, true, false}} {
		t.Run(c.code.String(), func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
				conn := greet(t, w, r)
				if n == 1 {
					_ = conn.Close(c.code, "because")
					return
				}
				<-conn.CloseRead(context.Background()).Done()
			})
			got, err := follow(t, client.Options{URL: url, Token: "t"}, second())
			var refused *client.RefusedError
			switch {
			case c.back && (err != nil || len(downs(got)) != 1):
				t.Errorf("did not come back: %v, %+v", err, got)
			case c.login && !errors.Is(err, client.ErrLogin):
				t.Errorf("told %v, not to log in", err)
			case !c.back && !c.login && !errors.As(err, &refused):
				t.Errorf("told %v", err)
			}
		})
	}
}

func TestGoawayIsKeptTo(t *testing.T) {
	t.Parallel()
	const pause = 60 * time.Millisecond
	url := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		conn := greet(t, w, r)
		if n == 1 {
			say(t, conn, `{"type":"goaway","reason":"restart","retryAfterMs":60}`)
			_ = conn.Close(1001, "")
			return
		}
		<-conn.CloseRead(context.Background()).Done()
	})
	frames := 0
	got, err := follow(t, client.Options{URL: url}, func(in client.Incoming) bool {
		if in.Frame != nil {
			frames++
		}
		return frames == 3
	})
	if pauses := downs(got); err != nil || len(pauses) != 1 || pauses[0] < pause || pauses[0] > 2*pause {
		t.Errorf("%v, pauses %v", err, pauses)
	}
}

func TestALostSocketIsDialledAgain(t *testing.T) {
	t.Parallel()
	url := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1:
			_ = greet(t, w, r).CloseNow()
		case 2:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":{"code":"shutting_down","message":"Restarting.","retryAfterMs":5}}`))
		default:
			<-greet(t, w, r).CloseRead(context.Background()).Done()
		}
	})
	got, err := follow(t, client.Options{URL: url}, second())
	if err != nil || len(downs(got)) != 2 {
		t.Errorf("%v, %+v", err, got)
	}
}

// pipes is a network in memory, on which no time passes by itself.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.done); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.conns <- far
	return near, nil
}

func TestASilentLineIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		var n atomic.Int64
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			again := n.Add(1) == 2
			conn := greet(t, w, r)
			ctx := conn.CloseRead(context.Background())
			if again { // alive by pings alone
				for range 20 {
					time.Sleep(25 * time.Second)
					if err := conn.Ping(ctx); err != nil {
						t.Error("a line with pings was cut")
					}
				}
				say(t, conn, `{"type":"news"}`)
			}
			<-ctx.Done()
		})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(network) })
		begun, frames := time.Now(), 0
		var cut time.Duration
		got, err := follow(t, client.Options{URL: "http://memory", Transport: &http.Transport{DialContext: network.dial}},
			func(in client.Incoming) bool {
				if in.Frame != nil {
					frames++
				}
				if in.Down != nil {
					cut = time.Since(begun)
				}
				return frames == 3
			})
		_ = server.Close()
		serving.Wait()
		if err != nil || len(downs(got)) != 1 || cut < time.Minute || cut > 65*time.Second {
			t.Errorf("%v, %d cuts, the first after %s", err, len(downs(got)), cut)
		}
	})
}

func TestRefusalsBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	refuse := func(status int) func(int, http.ResponseWriter, *http.Request) {
		return func(n int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			if r.URL.Path != "/ws" {
				t.Errorf("followed to %s with %q", r.URL, r.Header.Get("Authorization"))
			}
			w.WriteHeader(status)
		}
	}
	var refused *client.RefusedError
	var away *client.UnreachableError
	for _, status := range []int{302, 307, 400, 403, 404, 426} {
		if _, err := follow(t, client.Options{URL: serve(t, refuse(status))}, never); !errors.As(err, &refused) {
			t.Errorf("%d: %v", status, err)
		}
	}
	if _, err := follow(t, client.Options{URL: serve(t, refuse(401))}, never); !errors.Is(err, client.ErrLogin) {
		t.Errorf("401: %v", err)
	}
	if _, err := follow(t, client.Options{URL: "http://127.0.0.1:1"}, never); !errors.As(err, &away) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestAServerThatStaysAwayIsGivenUp(t *testing.T) {
	t.Parallel()
	url := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			_ = greet(t, w, r).CloseNow()
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	})
	got, err := follow(t, client.Options{URL: url, GiveUp: 30 * time.Millisecond}, never)
	var away *client.UnreachableError
	if !errors.As(err, &away) || len(downs(got)) == 0 {
		t.Errorf("%v after %d cuts", err, len(downs(got)))
	}
}

func TestLargeFramesAreRead(t *testing.T) {
	t.Parallel()
	url := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		conn := greet(t, w, r)
		say(t, conn, `{"type":"news","text":"`+pad(1<<20-64)+`"}`)
		<-conn.CloseRead(context.Background()).Done()
	})
	if got, err := follow(t, client.Options{URL: url}, second()); err != nil || len(downs(got)) != 0 {
		t.Errorf("%v, cut %v", err, downs(got))
	}
}

func pad(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}
