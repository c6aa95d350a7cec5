package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestF36_ManySendersBesideTheCommandLineSeeNoLockedDatabase lets 50 senders write
// into 20 threads while tokens are made on the command line in a loop. No send may
// fail, each message becomes one turn, in the order of arrival, one at a time in a
// thread. E2E_LOAD_SECONDS sets how long it goes on.
func TestF36_ManySendersBesideTheCommandLineSeeNoLockedDatabase(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	onBoth(t, p, "count:3", manySenders)
}

func manySenders(t *testing.T, in *install) {
	t.Helper()
	const senders, threads = 50, 20
	in.start()
	token := in.user("load@example.com")
	lasts := time.Duration(number(t, "E2E_LOAD_SECONDS", 4)) * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), lasts+2*time.Minute)
	defer cancel()

	ids := openThreads(ctx, t, in, token, threads)
	until := time.Now().Add(lasts)
	var tokens atomic.Int64
	var work sync.WaitGroup
	work.Go(func() {
		for time.Now().Before(until) && ctx.Err() == nil {
			in.command("", "admin", "token", "create", "--email", "load@example.com", "--scopes", "chat", "--ttl", "1h")
			tokens.Add(1)
		}
	})
	sent := make([][]string, senders)
	faults := make(chan error, senders)
	for i := range senders {
		work.Go(func() {
			var err error
			if sent[i], err = keepSending(ctx, in, token, ids[i%threads], i, until); err != nil {
				faults <- fmt.Errorf("sender %d: %w", i, err)
				cancel()
			}
		})
	}
	work.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	total := 0
	for i, id := range ids {
		v := &view{threadID: id}
		if err := follow(ctx, in, token, v, func() bool { return v.lastSeq > 0 }); err != nil {
			t.Fatal(err)
		}
		var mine []string
		for s := i; s < senders; s += threads {
			mine = append(mine, sent[s]...)
		}
		total += checkQueue(t, v, mine)
	}
	in.stop()
	checkLogs(t, in)
	t.Logf("%d messages of %d senders in %s, %d tokens made beside them", total, senders, lasts, tokens.Load())
}

func openThreads(ctx context.Context, t *testing.T, in *install, token string, n int) (ids []string) {
	t.Helper()
	c, err := dial(ctx, in.url, token)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for range n {
		id := newID()
		if _, err := c.call(ctx, map[string]any{"type": "thread.create", "clientThreadId": id}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// keepSending sends a message, waits for the end of its turn, and begins again.
func keepSending(ctx context.Context, in *install, token, threadID string, sender int, until time.Time) (sent []string, err error) {
	c, err := dial(ctx, in.url, token)
	if err != nil {
		return nil, err
	}
	defer c.close()
	v := &view{threadID: threadID}
	if err := v.open(ctx, c); err != nil {
		return nil, err
	}
	for time.Now().Before(until) {
		message := newID()
		if _, err := c.send(ctx, threadID, "", message, fmt.Sprintf("sender %d message %d", sender, len(sent)), "counter"); err != nil {
			return sent, err
		}
		sent = append(sent, message)
		for v.terminal(v.turnOf(message)) == nil {
			if _, err := c.next(ctx); err != nil {
				return sent, fmt.Errorf("message %s: %w", message, err)
			}
		}
		if v.fault != nil {
			return sent, v.fault
		}
	}
	return sent, nil
}

// checkQueue checks a thread's log: the messages are those that were sent, each
// became one completed turn, in their order, and no two turns overlap.
func checkQueue(t *testing.T, v *view, sent []string) int {
	t.Helper()
	waiting := map[string]bool{}
	var order, taken []string
	running := ""
	for _, e := range v.events {
		switch {
		case e.EventType == "input.prompt" && e.TurnID == "":
			order = append(order, e.ID)
			waiting[e.ID] = true
		case e.EventType == "input.prompt":
			if running != "" || !waiting[e.RevokesEventID] {
				t.Errorf("turn %s starts while %q runs, or takes %s twice", e.TurnID, running, e.RevokesEventID)
			}
			delete(waiting, e.RevokesEventID)
			running, taken = e.TurnID, append(taken, e.RevokesEventID)
		case e.EventType == "turn.completed":
			if e.TurnID != running {
				t.Errorf("turn %s ends while %q runs", e.TurnID, running)
			}
			running = ""
		case e.EventType != "output.message":
			t.Errorf("unexpected event %s (%s)", e.EventType, e.Error)
		}
	}
	if fmt.Sprint(order) != fmt.Sprint(taken) {
		t.Errorf("thread %s: sent in the order %v, taken as %v", v.threadID, order, taken)
	}
	known := map[string]bool{}
	for _, id := range order {
		known[id] = true
	}
	for _, id := range sent {
		if !known[id] {
			t.Errorf("message %s is lost", id)
		}
	}
	if len(order) != len(sent) {
		t.Errorf("thread %s: %d messages for %d that were sent", v.threadID, len(order), len(sent))
	}
	return len(order)
}
