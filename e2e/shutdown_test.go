package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestF12_ARestartLetsTurnsEndAndSpreadsClients ends the program under 200 sockets
// and five running turns that are over within the drain time, and starts it again:
// every turn is completed with one provider request, nothing is shown twice, and
// the clients come back spread. E2E_SOCKETS sets the number of sockets.
func TestF12_ARestartLetsTurnsEndAndSpreadsClients(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	onBoth(t, p, "count:300+delay=10ms", func(t *testing.T, in *install) {
		t.Helper()
		r := newRestart(t, p, in.stayAt().set("shutdown: {drain: 60s}"), 300)
		r.run()
		if r.took > 50*time.Second {
			t.Errorf("the program waited for %s although its turns were over:\n%s", r.took, in.log())
		}
		r.check("turn.completed", "")
	})
}

// TestF12_ADrainThatIsTooShortDoublesNothing is the same with 3 s for turns of 10 s:
// they fail visibly, keep what they had said, and are not run again; what was sent
// meanwhile runs after the restart.
func TestF12_ADrainThatIsTooShortDoublesNothing(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	onBoth(t, p, "count:1000+delay=10ms", func(t *testing.T, in *install) {
		t.Helper()
		r := newRestart(t, p, in.stayAt().set("shutdown: {drain: 3s}"), 1000)
		r.run()
		r.check("turn.failed", "host_restarted")
	})
}

// restart is one end of the program with people at it, and its next start.
type restart struct {
	t       *testing.T
	p       *provider
	in      *install
	token   string
	numbers int // of a whole answer
	url     string
	turns   []runningTurn
	sent    []sentMessage // during the shutdown
	people  []*person
	ended   time.Time
	took    time.Duration
}

type runningTurn struct{ thread, turn, prompt string }

type sentMessage struct{ thread, message, prompt string }

// person is a socket of somebody who reads along, or of somebody who does not.
type person struct {
	view     *view // nil for one who has no thread open
	goaway   time.Duration
	told     int
	code     websocket.StatusCode
	returned time.Time
	fault    error
}

func newRestart(t *testing.T, p *provider, in *install, numbers int) *restart {
	t.Helper()
	r := &restart{t: t, p: p, in: in, numbers: numbers}
	in.start()
	r.url, r.token = in.url, in.user("restart@example.com")
	return r
}

func (r *restart) run() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	for i := range 5 {
		r.turns = append(r.turns, r.begin(ctx, fmt.Sprintf("running %d of %s", i, newID())))
	}
	var seated, gone sync.WaitGroup
	for i := range number(r.t, "E2E_SOCKETS", 200) {
		someone := &person{}
		if i < 25 {
			someone.view = &view{threadID: r.turns[i%len(r.turns)].thread}
		}
		r.people = append(r.people, someone)
		seated.Add(1)
		gone.Go(func() { someone.fault = someone.live(ctx, r.url, r.token, seated.Done) })
	}
	seated.Wait()
	began := time.Now()
	ended := r.in.tell(syscall.SIGTERM)
	r.unready(ctx)
	r.sendMeanwhile(ctx)
	select {
	case <-ended:
	case <-ctx.Done():
		r.t.Fatalf("the program did not end:\n%s", r.in.log())
	}
	r.ended, r.took = time.Now(), time.Since(began)
	r.in.start()
	gone.Wait()
}

// begin starts a turn and waits for its first words.
func (r *restart) begin(ctx context.Context, prompt string) runningTurn {
	r.t.Helper()
	c, err := dial(ctx, r.url, r.token)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.close()
	v := &view{threadID: newID()}
	reply, err := c.send(ctx, "", v.threadID, newID(), prompt, "")
	if err == nil {
		err = v.open(ctx, c)
	}
	for err == nil && v.offset == 0 {
		_, err = c.next(ctx)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return runningTurn{v.threadID, *reply.TurnID, prompt}
}

// unready waits until the program says that it goes, while it still answers.
func (r *restart) unready(ctx context.Context) {
	r.t.Helper()
	for ctx.Err() == nil {
		res, err := http.Get(r.url + "/readyz")
		if err != nil {
			r.t.Fatalf("/readyz during the drain: %v", err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "shutting_down") {
			return
		}
	}
}

// sendMeanwhile sends into a thread that is busy and into a new one: both are taken
// and wait.
func (r *restart) sendMeanwhile(ctx context.Context) {
	r.t.Helper()
	c, err := dial(ctx, r.url, r.token)
	if err != nil {
		r.t.Fatalf("a new socket during the drain: %v", err)
	}
	defer c.close()
	for i, thread := range []string{r.turns[0].thread, ""} {
		m := sentMessage{thread, newID(), fmt.Sprintf("meanwhile %d of %s", i, newID())}
		fresh := ""
		if thread == "" {
			fresh = newID()
		}
		reply, err := c.send(ctx, thread, fresh, m.message, m.prompt, "")
		if err != nil || reply.Disposition != "queued" || reply.TurnID != nil {
			r.t.Fatalf("sent during the drain: %v %s", err, reply.raw)
		}
		m.thread = reply.ThreadID
		r.sent = append(r.sent, m)
	}
}

// live holds a socket until the program ends it, and comes back when it was told to.
func (p *person) live(ctx context.Context, url, token string, seated func()) error {
	sit := sync.OnceFunc(seated)
	defer sit()
	c, err := dial(ctx, url, token)
	if err != nil {
		return err
	}
	defer c.close()
	if err := p.sit(ctx, c); err != nil {
		return err
	}
	sit()
	err = p.read(ctx, c)
	if p.code = websocket.CloseStatus(err); p.code == -1 {
		return fmt.Errorf("the socket ended without a code: %w", err)
	}
	select {
	case <-time.After(p.goaway):
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.comeBack(ctx, url, token)
}

func (p *person) sit(ctx context.Context, c *client) error {
	if p.view != nil {
		if err := p.view.open(ctx, c); err != nil {
			return err
		}
	} else if _, err := c.call(ctx, map[string]any{"type": "ping"}); err != nil {
		return err
	}
	pushed := c.onPush
	c.onPush = func(f frame) {
		if f.Type == "goaway" {
			p.told++
			var g struct{ RetryAfterMs int64 }
			_ = json.Unmarshal([]byte(f.raw), &g)
			p.goaway = time.Duration(g.RetryAfterMs) * time.Millisecond
		}
		pushed(f)
	}
	return nil
}

// read gives the error that the socket ends with.
func (p *person) read(ctx context.Context, c *client) error {
	for {
		if _, err := c.nextWithin(ctx, time.Minute); err != nil {
			return err
		}
		if p.view != nil && p.view.fault != nil {
			return p.view.fault
		}
	}
}

func (p *person) comeBack(ctx context.Context, url, token string) error {
	for {
		c, err := dial(ctx, url, token)
		if err == nil {
			defer c.close()
			p.returned = time.Now()
			if p.view == nil {
				return nil
			}
			return p.view.open(ctx, c)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

func (r *restart) check(end, code string) {
	r.t.Helper()
	if len(r.people) > 0 {
		r.checkPeople()
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for _, turn := range r.turns {
		v := &view{threadID: turn.thread}
		if err := follow(ctx, r.in, r.token, v, func() bool { return v.terminal(turn.turn) != nil }); err != nil {
			r.t.Fatal(err)
		}
		answer, over := v.answer(turn.turn), v.terminal(turn.turn)
		whole := counted(r.numbers)
		if over.EventType != end || over.Error != code || answer == "" || !strings.HasPrefix(whole, answer) ||
			(end == "turn.completed") != (answer == whole) {
			r.t.Errorf("%s: %s %s with %d of %d bytes", turn.prompt, over.EventType, over.Error, len(answer), len(whole))
		}
		if n := r.p.requests(r.t, turn.prompt); n != 1 {
			r.t.Errorf("%q: %d provider requests", turn.prompt, n)
		}
	}
	for _, m := range r.sent {
		v := &view{threadID: m.thread}
		if err := follow(ctx, r.in, r.token, v, func() bool { return v.terminal(v.turnOf(m.message)) != nil }); err != nil {
			r.t.Fatal(err)
		}
		if got := v.answer(v.turnOf(m.message)); got != counted(r.numbers) {
			r.t.Errorf("%s: %d of %d bytes", m.prompt, len(got), len(counted(r.numbers)))
		}
		if n := r.p.requests(r.t, m.prompt); n != 1 {
			r.t.Errorf("%q: %d provider requests", m.prompt, n)
		}
	}
	r.in.stop()
	checkLogs(r.t, r.in)
}

// checkPeople checks that everybody was told when to come back, and that they did
// not all come at once.
func (r *restart) checkPeople() {
	r.t.Helper()
	var returns []time.Duration
	for i, someone := range r.people {
		if someone.fault != nil {
			r.t.Fatalf("socket %d: %v", i, someone.fault)
		}
		if someone.code != websocket.StatusGoingAway || someone.told != 1 || someone.goaway < time.Second {
			r.t.Errorf("socket %d: code %d, told %d times, last to return after %s", i, someone.code, someone.told, someone.goaway)
		}
		returns = append(returns, someone.returned.Sub(r.ended))
	}
	slices.Sort(returns)
	const window = 250 * time.Millisecond
	most := 0
	for i := range returns {
		j := i
		for j < len(returns) && returns[j]-returns[i] < window {
			j++
		}
		most = max(most, j-i)
	}
	n := len(returns)
	r.t.Logf("the program ended %s after the signal; %d clients returned between %s and %s after that, half of them by %s, at most %d within %s",
		r.took.Round(time.Millisecond), n, returns[0].Round(time.Millisecond), returns[n-1].Round(time.Millisecond),
		returns[n/2].Round(time.Millisecond), most, window)
	if most > n/2 {
		r.t.Errorf("%d of %d clients returned within %s", most, n, window)
	}
}

// TestF12_WithoutTurnsTheEndIsAtOnce ends the program while a deaf client holds a
// socket: nothing waits for a drain, nor for that client for long.
func TestF12_WithoutTurnsTheEndIsAtOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:3"}).set("shutdown: {drain: 1h}")
	in.start()
	deaf, err := dial(t.Context(), in.url, in.user("deaf@example.com"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.close()
	began := time.Now()
	in.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %s", took)
	}
}

// TestF12_ASecondSignalEndsTheDrain cuts a turn that says no more: the program ends
// at once, and the turn is failed by the next start without a second request.
func TestF12_ASecondSignalEndsTheDrain(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	onBoth(t, p, "count:500+stall=3", func(t *testing.T, in *install) {
		t.Helper()
		r := newRestart(t, p, in.stayAt().set("shutdown: {drain: 1h}"), 500)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.turns = []runningTurn{r.begin(ctx, "silent "+newID())}
		ended := in.tell(syscall.SIGTERM)
		r.unready(ctx)
		select {
		case <-ended:
			t.Fatal("the program did not wait for its turn")
		default:
		}
		began := time.Now()
		in.stop()
		t.Logf("ended %s after the second signal", time.Since(began))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the end took %s", took)
		}
		in.start()
		r.check("turn.failed", "host_restarted")
	})
}
