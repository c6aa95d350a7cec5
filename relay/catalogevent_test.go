package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func challenge(letter string) string { return strings.Repeat(letter, 32) }

func challenged(cursor uint64, challenge string) wire.Attach {
	at := relaytest.Attach(cursor)
	at.Challenge = challenge
	return at
}

// announced attaches with a challenge and gives what is sent at once.
func announced(t *testing.T, r *rig, at wire.Attach) (*relay.Attachment, []wire.Envelope) {
	t.Helper()
	ctx := context.Background()
	a, err := r.host.Attach(ctx, at, nil)
	must(t, err)
	t.Cleanup(a.Close)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	envelopes, err := a.Next(gone)
	if err != nil {
		return a, nil
	}
	must(t, a.HandedOff(ctx, envelopes[len(envelopes)-1].Seq))
	return a, envelopes
}

func TestRH60_TheCatalogEvent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	_, first := announced(t, r, challenged(41, challenge("c")))
	equal(t, "events", len(first), 1)
	e := first[0]
	equal(t, "seq", e.Seq, 42)
	equal(t, "event", e.Event, wire.EventRuntimeCatalog)
	equal(t, "kind", e.Kind, wire.EventRuntimeCatalog)
	equal(t, "thread and turn", e.ThreadID+e.TurnID, "")
	equal(t, "timestamp", e.Timestamp, "1970-01-01T00:00:00Z")
	var catalog wire.Catalog
	must(t, json.Unmarshal(e.Payload, &catalog))
	equal(t, "challenge", catalog.Challenge, challenge("c"))
	canonical, err := wire.Canonical(catalog)
	must(t, err)
	equal(t, "source", e.SourceEventID, wire.CatalogEventID(relaytest.Run, wire.Fingerprint(string(canonical))))

	t.Run("RH60 it is not queued twice in a process", func(t *testing.T) {
		a, again := announced(t, r, challenged(41, challenge("c")))
		equal(t, "events", len(again), 1) // the pending one, above the cursor
		equal(t, "seq", again[0].Seq, 42)
		must(t, a.Acknowledge(ctx, 42))
		_, again = announced(t, r, challenged(42, challenge("c")))
		equal(t, "events after its acknowledgement", len(again), 0)
	})
	t.Run("RH60 another challenge has another id", func(t *testing.T) {
		a, other := announced(t, r, challenged(42, challenge("d")))
		equal(t, "seq", other[0].Seq, 43)
		if other[0].SourceEventID == e.SourceEventID {
			t.Fatal("two catalogs have one id")
		}
		must(t, a.Acknowledge(ctx, 43))
	})
	t.Run("RH60 after a restart a replay differs in its seq alone", func(t *testing.T) {
		r.reopen()
		_, again := announced(t, r, challenged(43, challenge("c")))
		equal(t, "events", len(again), 1)
		equal(t, "seq", again[0].Seq, 44)
		again[0].Seq = e.Seq
		equal(t, "event", text(t, again[0]), text(t, e))
	})
	t.Run("RH60 a pending one comes again as it was", func(t *testing.T) {
		r.reopen()
		_, again := announced(t, r, challenged(43, challenge("c")))
		equal(t, "events", len(again), 1)
		equal(t, "seq", again[0].Seq, 44)
	})
	t.Run("RH60 a changed catalog has another id", func(t *testing.T) {
		r.cfg.Version = "1.2.4"
		r.reopen()
		_, both := announced(t, r, challenged(43, challenge("c")))
		equal(t, "events", len(both), 2)
		if both[0].SourceEventID == both[1].SourceEventID {
			t.Fatal("two catalogs have one id")
		}
	})
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	must(t, err)
	return string(raw)
}

func TestRH60_WithoutAChallengeThereIsNone(t *testing.T) {
	t.Parallel()
	_, none := announced(t, newRig(t), relaytest.Attach(0))
	equal(t, "events", len(none), 0)
}

// TestRH47_ACatalogThatCannotBeMadeRefusesTheAttachment, and leaves the one before.
func TestRH47_ACatalogThatCannotBeMadeRefusesTheAttachment(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, func(c *relay.Config) { c.Providers[0].Ready = false })
	old := attach(t, r, 0)
	other := challenged(0, challenge("c"))
	other.RunID = "run_other"
	_, err := r.host.Attach(ctx, other, nil)
	wantCode(t, err, wire.CodeProviderNotReady)
	other.Challenge = "short"
	_, err = r.host.Attach(ctx, other, nil)
	wantCode(t, err, wire.CodeBadRequest)
	must(t, old.Acknowledge(ctx, 0)) // still the authorised run
	refused(t, old, relaytest.Message(1, relaytest.Prompt(1, 1)), wire.CodeProviderNotReady)
}

func TestRH60_ACatalogThatWasNotStoredIsTriedAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, persisted := range []bool{false, true} {
		t.Run(fmt.Sprintf("RH60 persisted=%v", persisted), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.store.Fail(relaytest.AppendJournal, 0, persisted)
			_, err := r.host.Attach(ctx, challenged(0, challenge("c")), nil)
			wantCode(t, err, wire.CodePersistFailed)
			_, once := announced(t, r, challenged(0, challenge("c")))
			equal(t, "events", len(once), 1)
			equal(t, "seq", once[0].Seq, 1)
		})
	}
}

// TestRH56_ACatalogIsNeverShed: it holds the lease, has a place of its own above the
// ordinary share, and fails closed where there is none.
func TestRH56_ACatalogIsNeverShed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a, _ := announced(t, r, challenged(0, challenge("c")))
	list, err := r.host.Scopes(ctx, relay.ScopeRecord{}, 0)
	must(t, err)
	equal(t, "leased", list[0].Leased, true)
	equal(t, "place", r.host.Room().Inflight, 0)
	must(t, a.Acknowledge(ctx, 1))
	list, err = r.host.Scopes(ctx, relay.ScopeRecord{}, 0)
	must(t, err)
	equal(t, "leased after its acknowledgement", list[0].Leased, false)

	applied(t, a, 1, relaytest.Prompt(1, 1))
	thread, turn := r.started(0)
	for range 300 {
		r.runtime.Say(thread, turn, "x")
	}
	r.runtime.End(thread, turn, relay.NativeCompleted)
	next(t, a, 192) // what ordinary events may use
	for n := range 256 - 192 {
		at := challenged(1, fmt.Sprintf("%032d", n))
		b, err := r.host.Attach(ctx, at, nil)
		must(t, err)
		b.Close()
	}
	before := dump(t, r)
	_, err = r.host.Attach(ctx, challenged(1, challenge("d")), nil)
	wantCode(t, err, wire.CodePersistFailed)
	equal(t, "state", dump(t, r), before)

	// Nothing was lost: all of it comes, the end of the turn too.
	a = attach(t, r, 1)
	seen := map[string]int{}
	for last := uint64(1); seen[wire.EventTurnCompleted] == 0; {
		envelopes, err := a.Next(ctx)
		must(t, err)
		for _, e := range envelopes {
			if e.Seq != last+1 {
				t.Fatalf("seq %d after %d", e.Seq, last)
			}
			last = e.Seq
			seen[e.Event]++
		}
		must(t, a.HandedOff(ctx, last))
		must(t, a.Acknowledge(ctx, last))
	}
	equal(t, "deltas", seen[wire.EventItemDelta], 300)
	equal(t, "catalogs", seen[wire.EventRuntimeCatalog], 256-192)
}

func TestRH56_ACatalogOfAnySizeIsNotTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *relay.Config) {
		models := make([]relay.ModelEntry, 10_000)
		for i := range models {
			models[i].ID = fmt.Sprintf("m%05d-%s", i, strings.Repeat("x", 200))
		}
		p := c.Providers[0]
		p.Models = models
		q := p
		q.Key = "second"
		c.Providers = []relay.ProviderEntry{p, q}
	})
	_, err := r.host.Attach(context.Background(), challenged(0, challenge("c")), nil)
	wantCode(t, err, wire.CodeCatalogEmpty)
}
