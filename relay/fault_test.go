package relay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// TestRH5_EveryStepMayFail lets each write of a turn's life fail, not stored and
// stored, and sends the identical step again.
func TestRH5_EveryStepMayFail(t *testing.T) {
	t.Parallel()
	for _, step := range []relaytest.Step{
		relaytest.BindOwner, relaytest.InsertBinding, relaytest.SaveTurn,
		relaytest.AppendJournal, relaytest.Advance, relaytest.Retire,
	} {
		for _, persisted := range []bool{false, true} {
			for _, restart := range []bool{false, true} {
				name := fmt.Sprintf("RH5 %s fails, persisted=%v, restart=%v", step, persisted, restart)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					checkFault(t, step, persisted, restart)
				})
			}
		}
	}
}

func checkFault(t *testing.T, step relaytest.Step, persisted, restart bool) {
	ctx := context.Background()
	r := newRig(t)
	s := r.scope()
	failures := 0
	// retry repeats a step until it succeeds; only the armed one may fail, once.
	retry := func(do func() error) {
		t.Helper()
		for {
			before := dump(t, r)
			err := do()
			if err == nil {
				return
			}
			wantCode(t, err, wire.CodePersistFailed)
			if failures++; failures > 1 {
				t.Fatalf("a second failure: %v", err)
			}
			// SaveTurn and Advance follow on a write that has succeeded.
			first := step != relaytest.SaveTurn && step != relaytest.Advance
			if after := dump(t, r); first && !persisted && after != before {
				t.Fatalf("a write that was not stored changed\n%s\nto\n%s", before, after)
			}
			if restart {
				r.reopen()
				s = r.scope()
				if step != relaytest.BindOwner {
					must(t, s.BindAccount(ctx, relaytest.Account, relaytest.Target))
					must(t, s.AuthorizeRun(ctx, relaytest.Run))
				}
			}
		}
	}
	r.store.Fail(step, 0, persisted)
	retry(func() error { return s.BindAccount(ctx, relaytest.Account, relaytest.Target) })
	must(t, s.AuthorizeRun(ctx, relaytest.Run))
	retry(func() error { return s.Apply(ctx, relaytest.Prompt(1, 1)) })
	equal(t, "native starts", len(r.runtime.Started()), 1)
	thread, turn := r.started(0)
	r.runtime.Say(thread, turn, "one")
	r.runtime.Emit(thread, turn, "item.completed", map[string]any{})
	r.runtime.End(thread, turn, relay.NativeCompleted)

	received := map[string]bool{}
	var texts []string
	for settled := false; !settled; {
		var got []wire.Envelope
		var ps []relay.Projection
		retry(func() (err error) {
			if ps, err = s.Poll(ctx, 2); err != nil {
				return err
			}
			if _, err = s.Journal(ctx, ps); err != nil {
				return err
			}
			got = s.Pending(0)
			return nil
		})
		retry(func() error { return s.HandedOff(ctx, ps) })
		retry(func() error {
			if len(got) == 0 {
				return nil
			}
			return s.Acknowledge(ctx, relaytest.Run, got[len(got)-1].Seq)
		})
		for _, e := range got {
			if !received[e.SourceEventID] {
				texts = append(texts, e.Event)
			}
			received[e.SourceEventID] = true
		}
		reserved, _ := r.turn(1, 1)
		settled = !reserved.Unsettled() && len(s.Pending(0)) == 0
	}
	equal(t, "failures", failures, 1)
	equal(t, "events", strings.Join(texts, " "), "turn.started item.delta turn.completed")
	r.reopen()
	s = r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	equal(t, "native starts", len(r.runtime.Started()), 1)
	equal(t, "threads", r.runtime.Threads(), 1)
	equal(t, "places", r.host.Room().Inflight, 0)
	list, err := r.host.Scopes(ctx, relay.ScopeRecord{}, 0)
	must(t, err)
	equal(t, "leased", list[0].Leased, false)
}

func TestRH5_WhatIsRefusedIsNotWritten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	before := dump(t, r)
	writes := r.store.Writes(relaytest.SaveTurn)
	must(t, s.BindAccount(ctx, relaytest.Account, relaytest.Target))
	wantCode(t, s.BindAccount(ctx, "else", relaytest.Target), wire.CodeOwnerMismatch)
	wantCode(t, s.Apply(ctx, relaytest.Prompt(2, 2)), wire.CodeTurnActive)
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	equal(t, "state", dump(t, r), before)
	equal(t, "writes of reservations", r.store.Writes(relaytest.SaveTurn), writes)
	equal(t, "writes of owners", r.store.Writes(relaytest.BindOwner), 1)
}

// TestTheCostOfATurnDoesNotGrow counts what a turn asks of store and runtime in a
// scope with many bindings behind it.
func TestTheCostOfATurnDoesNotGrow(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	cost := func(n int) (reads, watchers int) {
		t.Helper()
		before := r.runtime.Reads()
		must(t, s.Apply(ctx, relaytest.Prompt(n, n)))
		watchers = r.runtime.Watchers()
		r.finish(s, n-1)
		return r.runtime.Reads() - before, watchers
	}
	reads, watchers := cost(1)
	for n := 2; n < 40; n++ {
		cost(n)
	}
	laterReads, laterWatchers := cost(40)
	equal(t, "ledger reads", laterReads, reads)
	equal(t, "watched threads", laterWatchers, watchers)
	equal(t, "watched threads at rest", r.runtime.Watchers(), 0)
}
