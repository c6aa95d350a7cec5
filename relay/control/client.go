package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/wire"
)

// ErrClosed is what calls fail with after Close, and those of a run after Detach.
var ErrClosed = errors.New("control: closed")

// Options are the settings of a client. URL and Token are required.
type Options struct {
	// URL is the public URL of the gateway, with its base path.
	URL string
	// Token has the scope relay:control.
	Token string
	// HTTP dials; nil is http.DefaultClient. Redirects are never followed.
	HTTP *http.Client
	// Logger is told why connections end; nil discards it.
	Logger *slog.Logger
	// RetryMin and RetryMax bound the pause before a connection or an attachment is
	// tried again: 250 ms and 15 s.
	RetryMin, RetryMax time.Duration
}

// Client is one connection to a gateway and the runs on it. Its methods are safe for
// concurrent use.
type Client struct {
	o   Options
	url string

	life context.Context
	stop context.CancelFunc
	done chan struct{} // closed when the client's goroutines have ended

	// wake tells the writer that something may be due.
	wake chan struct{}

	// mu guards the rest and the state of every run.
	mu   sync.Mutex
	runs []*Run
	turn int // where the writer looks first
	err  error
	// quietUntil holds the writer back after the gateway said that it is too much.
	quietUntil time.Time
	// cursorAt is when the next cursor may be told.
	cursorAt time.Time
	// away is how long the gateway asked to stay away.
	away time.Duration
}

// Dial connects to a gateway. Errors: those of the gateway are *wire.Error
// (unauthorized, forbidden, not_found, bad_request, shutting_down), all others are
// of the network.
func Dial(ctx context.Context, o Options) (*Client, error) {
	address, err := socketURL(o.URL)
	if err != nil {
		return nil, err
	}
	c := &Client{o: o.filled(), url: address, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	ws, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.life, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	go c.live(ws)
	return c, nil
}

func (o Options) filled() Options {
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	direct := *o.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTP = &direct
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RetryMin <= 0 {
		o.RetryMin = 250 * time.Millisecond
	}
	if o.RetryMax <= 0 {
		o.RetryMax = 15 * time.Second
	}
	return o
}

func socketURL(public string) (string, error) {
	u, err := url.Parse(public)
	if err != nil {
		return "", fmt.Errorf("control: the URL of the gateway: %w", err)
	}
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "ws"
	case "https", "wss":
		u.Scheme = "wss"
	default:
		return "", errors.New("control: the URL of the gateway must begin with https:// or http://")
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + wire.ControlPath
	return u.String(), nil
}

// Close ends the connection and waits for the client's goroutines. Turns go on.
func (c *Client) Close() {
	c.stop()
	<-c.done
}

// Done is closed when the client has ended for good; Err says why.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is nil while the client lives, ErrClosed after Close, else why the gateway does
// not want it back (unauthorized, forbidden, bad_request).
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// live serves connections until the client is closed or must not come back.
func (c *Client) live(ws *websocket.Conn) {
	defer close(c.done)
	pause := backoff{least: c.o.RetryMin, most: c.o.RetryMax}
	for {
		began := time.Now()
		err := c.serve(ws)
		if time.Since(began) > c.o.RetryMax {
			pause.last = 0
		}
		for ws = nil; ws == nil; {
			if c.life.Err() != nil {
				c.fail(ErrClosed)
				return
			}
			if final(err) {
				c.fail(err)
				return
			}
			wait := max(pause.next(), c.stayAway())
			c.o.Logger.Info("control: not connected", "error", err, "again_in", wait)
			if sleep(c.life, wait) {
				ws, err = c.dial(c.life)
			}
		}
	}
}

// stayAway is what the gateway asked for last, once.
func (c *Client) stayAway() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	away := c.away
	c.away = 0
	return away
}

// fail ends the client and all of its runs.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, r := range slices.Clone(c.runs) {
		r.end(err)
	}
}

// poke tells the writer that something may be due.
func (c *Client) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// backoff doubles from least to most, with jitter so that programs do not come back
// all at once.
type backoff struct{ last, least, most time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(b.last*2, b.least), b.most)
	return b.last - rand.N(b.last/2+1)
}

// sleep waits for d; false means that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
