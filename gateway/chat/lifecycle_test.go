package chat_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
)

var statuses = []gateway.TurnStatus{
	"", gateway.TurnQueued, gateway.TurnPending, gateway.TurnRunning,
	gateway.TurnCompleted, gateway.TurnFailed, gateway.TurnCancelled, gateway.TurnTimeout,
}

// TestLifecycle_HasNoOtherTransition holds the table against the drawing of the
// rules: which states follow which, by any cause.
func TestLifecycle_HasNoOtherTransition(t *testing.T) {
	t.Parallel()
	follows := map[gateway.TurnStatus][]gateway.TurnStatus{
		"":                  {gateway.TurnFailed, gateway.TurnPending, gateway.TurnQueued},
		gateway.TurnQueued:  {gateway.TurnCancelled, gateway.TurnPending},
		gateway.TurnPending: {gateway.TurnCancelled, gateway.TurnFailed, gateway.TurnRunning},
		gateway.TurnRunning: {gateway.TurnCancelled, gateway.TurnCompleted, gateway.TurnFailed, gateway.TurnTimeout},
	}
	used := map[chat.Cause]bool{}
	for _, from := range statuses {
		var got []gateway.TurnStatus
		for _, c := range chat.Causes() {
			to, ok := chat.Next(from, c)
			switch {
			case !ok && to != from:
				t.Errorf("%q refuses %q and goes to %q all the same", from, c, to)
			case ok && from.Final():
				t.Errorf("%q is final, and %q leads to %q", from, c, to)
			case ok:
				used[c] = true
				got = append(got, to)
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, follows[from]) {
			t.Errorf("after %q: %q, want %q", from, got, follows[from])
		}
	}
	for _, c := range chat.Causes() {
		if !used[c] {
			t.Errorf("%q changes nothing", c)
		}
	}
}

// TestLifecycle_EveryTurnEndsOnce takes causes in any order: a final state stays,
// and a turn runs at most once.
func TestLifecycle_EveryTurnEndsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var status gateway.TurnStatus
		ran, ended := 0, 0
		for _, c := range rapid.SliceOfN(rapid.SampledFrom(chat.Causes()), 0, 40).Draw(rt, "causes") {
			to, ok := chat.Next(status, c)
			if ok && to == gateway.TurnRunning {
				ran++
			}
			if ok && to.Final() {
				ended++
			}
			status = to
		}
		if ran > 1 || ended > 1 || (ended == 1) != status.Final() {
			rt.Fatalf("ran %d times, ended %d times, is %q", ran, ended, status)
		}
	})
}
