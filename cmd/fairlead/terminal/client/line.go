package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	minReadLimit = 1 << 20
	maxReadLimit = 16 << 20
	dialWithin   = 20 * time.Second
	writeWithin  = 10 * time.Second
	defaultPing  = 25 * time.Second
	// silentPings is how many pings may be missing before a line counts as lost.
	silentPings = 2.5
	waitingOut  = 256 // frames that wait to be written

	firstDelay   = 400 * time.Millisecond
	longestDelay = 20 * time.Second
	laterDelay   = 20 * time.Second
)

// Close codes (protocol.md §1).
const (
	closeMisuse     = 4400
	closeLogin      = 4401
	closeForbidden  = 4403
	closeSlow       = 4408
	closeSuperseded = 4409
	closeTooMany    = 4429
)

// ErrLogin says that the token is not, or no longer, good: log in again.
var ErrLogin = errors.New("the server does not accept the token: log in again with fairlead chat --login URL, or give another token")

// RefusedError says that the same connection again does not help.
type RefusedError struct {
	Reason string
	Code   wire.Code // "" where whoever refused named none
}

func (e *RefusedError) Error() string { return e.Reason }

// UnreachableError says that the server is not there, or was away for too long.
type UnreachableError struct{ Cause error }

func (e *UnreachableError) Error() string { return e.Cause.Error() }

func (e *UnreachableError) Unwrap() error { return e.Cause }

// Options are the options of a Line.
type Options struct {
	URL   string // of the server, as people open it
	Token string
	Agent string // who calls, for the server's log
	// GiveUp is how long a server that was there may be away; 0 is for ever.
	GiveUp time.Duration
	// Patient: a server that was never there is waited for as well.
	Patient bool
	// Pause is how long to wait before try number n; nil takes a growing, random
	// time.
	Pause func(n int) time.Duration
	// Transport is how requests are made; nil is the usual way.
	Transport http.RoundTripper
}

// Incoming is what a Line brings, in order: Up, frames, Down, and again.
type Incoming struct {
	Up    bool
	Frame []byte
	// Down says why the connection ended or could not be made; Again is when the
	// next try is.
	Down  error
	Again time.Duration
}

// Line is the connection to a server, over any number of sockets.
type Line struct {
	o  Options
	in chan Incoming

	mu    sync.Mutex
	write chan []byte // of the socket that is up, else nil
	ended context.CancelFunc

	// Owned by Run.
	goaway time.Duration
	ping   time.Duration
	tries  int
	met    bool // there was a connection, ever
	lostAt time.Time
}

// NewLine makes a line; Run works it.
func NewLine(o Options) *Line {
	if o.Pause == nil {
		o.Pause = func(n int) time.Duration {
			top := min(firstDelay<<min(n, 10), longestDelay)
			return top/4 + rand.N(top*3/4)
		}
	}
	return &Line{o: o, in: make(chan Incoming), ping: defaultPing}
}

// In brings what happens on the line. Its owner reads it until Run has returned.
func (l *Line) In() <-chan Incoming { return l.in }

// Write queues a frame for the socket that is up. Without one it is dropped: what
// matters is said again after the next welcome. A socket that takes nothing is
// cut.
func (l *Line) Write(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.write == nil {
		return
	}
	select {
	case l.write <- frame:
	default:
		l.ended()
	}
}

// Run keeps the line until the context ends (nil), the server must not be asked
// again (ErrLogin, *RefusedError), or it was away for too long
// (*UnreachableError).
func (l *Line) Run(ctx context.Context) error {
	for {
		err := l.once(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Whatever a socket says then, it was asked to end.
		}
		pause, err := l.after(err)
		if pause < 0 {
			return err
		}
		if !l.tell(ctx, Incoming{Down: err, Again: pause}) || !sleep(ctx, pause) {
			return nil
		}
	}
}

func (l *Line) tell(ctx context.Context, in Incoming) bool {
	select {
	case l.in <- in:
		return true
	case <-ctx.Done():
		return false
	}
}

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

// after tells how long to wait after a socket ended with err; below 0 not to come
// back.
func (l *Line) after(err error) (time.Duration, error) {
	var refused *RefusedError
	if errors.Is(err, ErrLogin) || errors.As(err, &refused) {
		return -1, err
	}
	goaway := l.goaway
	l.goaway = 0
	if l.lostAt.IsZero() {
		l.lostAt = time.Now()
	}
	switch {
	case !l.met && !l.o.Patient && goaway == 0:
		return -1, &UnreachableError{err}
	case l.o.GiveUp > 0 && time.Since(l.lostAt) > l.o.GiveUp:
		return -1, &UnreachableError{err}
	}
	l.tries++
	switch code := websocket.CloseStatus(err); {
	case goaway > 0:
		return goaway + rand.N(goaway/4+1), err
	case code == closeSlow:
		return 0, err
	case code == closeTooMany:
		return laterDelay + rand.N(laterDelay/4), err
	}
	return l.o.Pause(l.tries - 1), err
}

// once is one socket from the dial to its end.
func (l *Line) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := newWatch(silence(l.ping), cancel)
	defer watch.stop()
	conn, err := l.dial(ctx, watch)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	l.met = true
	conn.SetReadLimit(minReadLimit)
	if !l.tell(ctx, Incoming{Up: true}) {
		return ctx.Err()
	}
	writes := make(chan []byte, waitingOut)
	l.attach(writes, cancel)
	var writer sync.WaitGroup
	writer.Go(func() {
		defer cancel()
		writeAll(ctx, conn, writes)
	})
	err = l.read(ctx, conn, watch)
	l.attach(nil, nil)
	if errors.Is(err, context.Canceled) {
		err = errors.New("the connection fell silent")
	}
	cancel()
	writer.Wait()
	return mustStay(err)
}

func (l *Line) attach(writes chan []byte, ended context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write, l.ended = writes, ended
}

func silence(ping time.Duration) time.Duration { return time.Duration(float64(ping) * silentPings) }

// mustStay turns close codes after which nobody comes back by itself into errors
// that say so.
func mustStay(err error) error {
	switch code := websocket.CloseStatus(err); code {
	case closeLogin:
		return ErrLogin
	case closeMisuse, closeForbidden, closeSuperseded:
		var c websocket.CloseError
		errors.As(err, &c)
		return &RefusedError{Reason: fmt.Sprintf("the server ended the connection (%d %s)", code, c.Reason)}
	}
	return err
}

func writeAll(ctx context.Context, conn *websocket.Conn, writes <-chan []byte) {
	for {
		select {
		case <-ctx.Done():
			return
		case frame := <-writes:
			if err := writeOne(ctx, conn, frame); err != nil {
				return
			}
		}
	}
}

func writeOne(ctx context.Context, conn *websocket.Conn, frame []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, frame)
}

func (l *Line) read(ctx context.Context, conn *websocket.Conn, watch *watch) error {
	for {
		kind, raw, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		watch.alive()
		if kind != websocket.MessageText {
			continue
		}
		l.look(raw, conn, watch)
		if !l.tell(ctx, Incoming{Frame: raw}) {
			return ctx.Err()
		}
	}
}

// look reads what concerns the line itself.
func (l *Line) look(raw []byte, conn *websocket.Conn, watch *watch) {
	if !bytes.Contains(raw, []byte(`"welcome"`)) && !bytes.Contains(raw, []byte(`"goaway"`)) {
		return
	}
	var f struct {
		Type         string `json:"type"`
		RetryAfterMs int64  `json:"retryAfterMs"`
		PingMs       int64  `json:"pingMs"`
		Limits       struct {
			FrameBytes int64 `json:"frameBytes"`
		} `json:"limits"`
	}
	if json.Unmarshal(raw, &f) != nil {
		return
	}
	switch f.Type {
	case "welcome":
		l.tries, l.goaway, l.lostAt = 0, 0, time.Time{}
		conn.SetReadLimit(min(max(f.Limits.FrameBytes, minReadLimit), maxReadLimit))
		if f.PingMs > 0 {
			l.ping = time.Duration(f.PingMs) * time.Millisecond
			watch.set(silence(l.ping))
		}
	case "goaway":
		l.goaway = time.Duration(max(f.RetryAfterMs, 1)) * time.Millisecond
	}
}

func (l *Line) dial(ctx context.Context, watch *watch) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	// A redirect would take the token to a server that nobody named.
	stay := &http.Client{Transport: l.o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	conn, res, err := websocket.Dial(ctx, strings.TrimSuffix(l.o.URL, "/")+"/ws", &websocket.DialOptions{
		HTTPClient:     stay,
		Subprotocols:   []string{Protocol},
		HTTPHeader:     http.Header{"Authorization": {"Bearer " + l.o.Token}, "User-Agent": {l.o.Agent}},
		OnPingReceived: func(context.Context, []byte) bool { watch.alive(); return true },
	})
	if err == nil {
		return conn, nil
	}
	if res == nil {
		return nil, fmt.Errorf("cannot reach %s: %w", l.o.URL, unwrapped(err))
	}
	defer res.Body.Close()
	return nil, l.refusal(res)
}

// unwrapped leaves out what the libraries say on the way to the cause.
func unwrapped(err error) error {
	var cause interface{ Timeout() bool }
	if errors.As(err, &cause) {
		if e, ok := cause.(error); ok {
			return e
		}
	}
	return err
}

// refusal reads an answer that is no upgrade. Only 5xx and 429 get better.
func (l *Line) refusal(res *http.Response) error {
	var body struct {
		Error wire.ErrorBody `json:"error"`
	}
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	_ = json.Unmarshal(raw, &body)
	said := body.Error.Message
	if said == "" {
		said = "no Fairlead at this address?"
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return ErrLogin
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		l.goaway = time.Duration(body.Error.RetryAfterMs) * time.Millisecond
		return fmt.Errorf("%s answers %s: %s", l.o.URL, res.Status, said)
	}
	return &RefusedError{Reason: fmt.Sprintf("%s answers %s: %s", l.o.URL, res.Status, said), Code: body.Error.Code}
}

// watch cuts a line on which nothing came for a while.
type watch struct {
	mu    sync.Mutex
	limit time.Duration
	timer *time.Timer
}

func newWatch(limit time.Duration, cut func()) *watch {
	return &watch{limit: limit, timer: time.AfterFunc(limit, cut)}
}

func (w *watch) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(w.limit)
}

func (w *watch) set(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = limit
	w.timer.Reset(limit)
}

func (w *watch) stop() { w.timer.Stop() }
