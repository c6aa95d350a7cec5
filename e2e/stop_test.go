package e2e

import (
	"context"
	"testing"
	"time"
)

// TestF20_StopEndsTheProvidersRequest stops answers after their first word: the
// provider sees its client go within a second, what was shown stays, and a late
// answer changes nothing.
func TestF20_StopEndsTheProvidersRequest(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"hang", "count:500+stall=3"}, model{"counter", "count:500+delay=5ms"})
	in.start()
	token := in.user("stop@example.com")
	for _, name := range []string{"hang", "counter"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		thread := newID()
		c, err := dial(ctx, in.url, token)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		sent, err := c.send(ctx, "", thread, newID(), "stop "+name, name)
		if err != nil {
			t.Fatal(err)
		}
		v := &view{threadID: thread}
		if err := v.open(ctx, c); err != nil {
			t.Fatal(err)
		}
		for v.offset < 4 {
			if _, err := c.next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		pressed := time.Now()
		stop := map[string]any{"type": "turn.interrupt", "threadId": thread, "turnId": *sent.TurnID, "clientEventId": newID()}
		if f, err := c.call(ctx, stop); err != nil || f.Disposition != "interrupted" {
			t.Fatalf("stop: %v %s", err, f.raw)
		}
		answered := time.Since(pressed)
		for v.terminal(*sent.TurnID) == nil {
			if _, err := c.next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		shown := v.text.String()
		left := waitGone(ctx, t, p, "stop "+name).Sub(pressed)
		t.Logf("%s: answered after %s, provider saw the client go after %s", name, answered, left)
		if answered > time.Second || left > time.Second {
			t.Errorf("%s: too slow", name)
		}
		again := &view{threadID: thread}
		if err := again.open(ctx, c); err != nil {
			t.Fatal(err)
		}
		if got := again.answer(*sent.TurnID); got != shown || again.terminal(*sent.TurnID).EventType != "turn.cancelled" {
			t.Errorf("%s: shown %q, kept %q\n%s", name, shown, got, describe(again))
		}
	}
}

func waitGone(ctx context.Context, t *testing.T, p *provider, prompt string) time.Time {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if at, ok := p.leftAt(t, prompt); ok {
			return at
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the provider's client never went")
		}
	}
}
