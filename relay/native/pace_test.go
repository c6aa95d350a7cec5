package native_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/provider"
)

// Deltas go at once where an append is quick or the turn is alone, and gather in
// proportion to what an append takes where it is not. Time passes in a bubble, so it is exact.
func TestRH71_DeltasGatherWhileTheLedgerIsBusy(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		name           string
		others         int // turns that are at work besides
		append, every  time.Duration
		slow           time.Duration // what the tenth append takes, if it is longer
		deltas, writes int
		latest         time.Duration // from a delta to its being durable
	}{
		{"an idle machine", 8, 1 * ms, 20 * ms, 0, 50, 50, 1 * ms},
		{"one slow sync", 8, 1 * ms, 20 * ms, 30 * ms, 50, 49, 31 * ms},
		{"a busy one", 8, 4 * ms, 5 * ms, 0, 180, 900 / 36, 40 * ms},
		{"the most", 8, 100 * ms, 5 * ms, 0, 300, 10, 250 * ms},
		{"alone at a slow disk", 0, 10 * ms, 20 * ms, 0, 50, 50, 10 * ms},
		{"a burst", 8, 4 * ms, 0, 0, 100, 2, 40 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var said []time.Time
				others, release := c.others, make(chan struct{})
				client := &script{play: func(_ context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
					if others > 0 {
						others--
						<-release
						return provider.Result{Finish: provider.FinishStop, Usage: &usage}, nil
					}
					for range c.deltas {
						said = append(said, time.Now())
						if err := emit(text("x")); err != nil {
							return provider.Result{}, err
						}
						time.Sleep(c.every)
					}
					time.Sleep(time.Second) // what is left is not taken because of the end
					return provider.Result{Finish: provider.FinishStop, Usage: &usage}, nil
				}}
				h := &host{t: t, path: filepath.Join(dir, "host.db"), driver: "sqlite3"}
				h.serve(client)
				h.open()
				for range c.others {
					h.start(turnOf(h.thread(), 1))
					synctest.Wait()
				}
				s := turnOf(h.thread(), 1)
				var began, stored []time.Time
				h.store.set(nil, func(step string) error {
					if step == "AppendDeltas" {
						took := c.append
						if len(stored) == 9 {
							took = max(took, c.slow)
						}
						time.Sleep(took)
						began, stored = append(began, time.Now().Add(-took)), append(stored, time.Now())
					}
					return nil
				})
				h.start(s)
				h.end(s.ThreadID, s.TurnID)
				close(release)
				h.close()
				if n := len(stored); n < c.writes-1 || n > c.writes+3 {
					t.Errorf("%d appends, want about %d", n, c.writes)
				}
				next := 0
				for _, at := range said {
					for next < len(stored) && began[next].Before(at) {
						next++
					}
					if next == len(stored) {
						break
					}
					if late := stored[next].Sub(at); late > c.latest {
						t.Errorf("a delta was durable after %v", late)
					}
				}
			})
		})
	}
}
