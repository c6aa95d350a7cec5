package e2e

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const everyNumber = "Every number once, please."

// TestF01_F02_CutSocketsSeeEveryNumberOnce cuts a reader's socket at random
// moments of a long answer while a second reader stays, and compares both with
// the log. E2E_CUTS sets the number of cuts.
func TestF01_F02_CutSocketsSeeEveryNumberOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:2000+delay=1ms"})
	in.start()
	token := in.user("resume@example.com")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	thread, message := newID(), newID()
	c, err := dial(ctx, in.url, token)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := c.send(ctx, "", thread, message, everyNumber, "")
	if err != nil {
		t.Fatal(err)
	}
	c.close()
	turn := *sent.TurnID
	other, steady := &view{threadID: thread}, make(chan error, 1)
	go func() {
		steady <- follow(ctx, in, token, other, func() bool { return other.terminal(turn) != nil })
	}()
	cut := &view{threadID: thread}
	for range number(t, "E2E_CUTS", 50) {
		readFor(ctx, t, in, token, cut, time.Duration(rand.Int64N(int64(60*time.Millisecond))))
	}
	if err := follow(ctx, in, token, cut, func() bool { return cut.terminal(turn) != nil }); err != nil {
		t.Fatal(err)
	}
	if err := <-steady; err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]*view{"cut": cut, "steady": other} {
		if got := v.answer(turn); got != counted(2000) {
			t.Errorf("%s: the log holds %d of %d bytes", name, len(got), len(counted(2000)))
		}
		if v.turnID == turn && !strings.HasPrefix(counted(2000), v.text.String()) {
			t.Errorf("%s: the stream was not the answer", name)
		}
		if describe(v) != describe(other) {
			t.Errorf("the readers differ:\n%s\n%s", describe(v), describe(other))
		}
	}
	if n := p.requests(t, everyNumber); n != 1 {
		t.Errorf("%d provider requests", n)
	}
}

// readFor follows a thread for a while and then cuts the socket.
func readFor(ctx context.Context, t *testing.T, in *install, token string, v *view, d time.Duration) {
	t.Helper()
	c, err := dial(ctx, in.url, token)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	timer := time.AfterFunc(d, c.close)
	defer timer.Stop()
	err = v.open(ctx, c)
	for err == nil {
		_, err = c.next(ctx)
	}
	if v.fault != nil {
		t.Fatal(v.fault)
	}
}
