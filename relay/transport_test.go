package relay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH48_ARunCountsFromItsCursor(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 41)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	first := next(t, a, 1)
	equal(t, "first seq after cursor 41", first[0].Seq, 42)
	thread, turn := r.started(0)
	r.runtime.Say(thread, turn, "x")
	equal(t, "seq", next(t, a, 1)[0].Seq, 43)

	// A cursor beyond the last pending event moves on the count.
	a.Close()
	a = attach(t, r, 50)
	r.runtime.Say(thread, turn, "y")
	equal(t, "seq after cursor 50", next(t, a, 1)[0].Seq, 51)

	t.Run("RH48 the last number is 2^53-1", func(t *testing.T) {
		a.Close()
		a = attach(t, r, 1<<53-2)
		r.runtime.Say(thread, turn, "z")
		equal(t, "seq", next(t, a, 1)[0].Seq, 1<<53-1)
		r.runtime.Say(thread, turn, "too much")
		_, err := a.Next(ctx)
		wantCode(t, err, wire.CodeInternal)
		_, err = r.host.Attach(ctx, challenged(1<<53-1, challenge("c")), nil)
		wantCode(t, err, wire.CodeInternal)
	})
}

// TestRH50_WhatTheTransportLostIsSentAgain drops the transport at each point between
// an event and its acknowledgement: it comes again with the same bytes, and none is
// missing or has another place.
func TestRH50_WhatTheTransportLostIsSentAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, point := range []string{"before it was given", "given", "handed off", "acknowledged in part"} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("RH50 %s, restart=%v", point, restart), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				a := attach(t, r, 0)
				applied(t, a, 1, relaytest.Prompt(1, 1))
				thread, turn := r.started(0)
				r.runtime.Say(thread, turn, "<>&\u2028")
				r.runtime.End(thread, turn, relay.NativeCompleted)
				var sent []wire.Envelope
				cursor := uint64(0)
				if point != "before it was given" {
					var err error
					sent, err = a.Next(ctx)
					must(t, err)
				}
				switch point {
				case "handed off":
					must(t, a.HandedOff(ctx, 3))
				case "acknowledged in part":
					must(t, a.HandedOff(ctx, 3))
					cursor = 1
					must(t, a.Acknowledge(ctx, cursor))
				}
				a.Close()
				if restart {
					r.reopen()
				}
				a = attach(t, r, cursor)
				again := next(t, a, 3-int(cursor))
				for i, e := range again {
					equal(t, "seq", e.Seq, cursor+uint64(i)+1)
				}
				if len(sent) > 0 {
					equal(t, "events", text(t, again), text(t, sent[cursor:]))
				}
				must(t, a.Acknowledge(ctx, 3))
				if point == "given" {
					// Nobody knows that the end was handed off, and only that settles the turn:
					// it is projected once more, under the same name.
					end := next(t, a, 1)[0]
					equal(t, "source", end.SourceEventID, sent[2].SourceEventID)
					must(t, a.Acknowledge(ctx, 4))
				}
				equal(t, "journal rows", strings.Count(dump(t, r), "relay_journal"), 0)
				reserved, _ := r.turn(1, 1)
				equal(t, "terminal", reserved.TerminalProjected, true)
			})
		}
	}
}

func TestRH49_ACursorRetiresWhatIsBelowAndNoMore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	thread, turn := r.started(0)
	for range 3 {
		r.runtime.Say(thread, turn, "x")
	}
	sent := next(t, a, 4)
	a.Close()
	for _, c := range []struct{ cursor, from uint64 }{{2, 3}, {1, 3}, {0, 3}, {3, 4}} {
		b := attach(t, r, c.cursor)
		again, err := b.Next(ctx)
		must(t, err)
		equal(t, fmt.Sprintf("events above cursor %d", c.cursor), text(t, again), text(t, sent[c.from-1:]))
		b.Close()
	}
}

// TestRH52_ADurableReplayPassesTheGatesOfNewWork: a config that is about to change, a
// turn that runs, an end that is not acknowledged. A changed command does not.
func TestRH52_ADurableReplayPassesTheGatesOfNewWork(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	r.host.Quiesce("settings_changed")
	changed := relaytest.Prompt(1, 1)
	changed.Prompt = "another"
	check := func(what string) {
		t.Helper()
		applied(t, a, 1, relaytest.Prompt(1, 1))
		refused(t, a, relaytest.Message(1, changed), wire.CodeBadRequest)
		equal(t, "native starts "+what, len(r.runtime.Started()), 1)
	}
	check("while the turn runs")
	thread, turn := r.started(0)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	next(t, a, 2)
	check("while its end is not acknowledged")
	must(t, a.Acknowledge(ctx, 2))
	check("after its end")
	must(t, r.host.Settled(ctx))

	// The claims of a process end with it; the turn's own fingerprints do not.
	r.reopen()
	a = attach(t, r, 2)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	refused(t, a, relaytest.Message(2, changed), wire.CodeTurnMismatch)
	equal(t, "native starts", len(r.runtime.Started()), 1)
}

// TestRH53_AnAnswerIsAppliedOnlyWhenItIsDurable lets each write on the way fail.
func TestRH53_AnAnswerIsAppliedOnlyWhenItIsDurable(t *testing.T) {
	t.Parallel()
	for _, step := range []relaytest.Step{relaytest.InsertBinding, relaytest.SaveTurn} {
		for _, persisted := range []bool{false, true} {
			t.Run(fmt.Sprintf("RH53 %s, persisted=%v", step, persisted), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				a := attach(t, r, 0)
				r.store.Fail(step, 0, persisted)
				refused(t, a, relaytest.Message(1, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
				equal(t, "native starts", len(r.runtime.Started()), 0)
				applied(t, a, 1, relaytest.Prompt(1, 1))
				applied(t, a, 1, relaytest.Prompt(1, 1)) // applied again, answered again
				equal(t, "native starts", len(r.runtime.Started()), 1)
			})
		}
	}
	t.Run("RH53 the runtime fails", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		a := attach(t, r, 0)
		r.runtime.Fail(relaytest.StartTurn, errors.New("no"), false, 1)
		refused(t, a, relaytest.Message(1, relaytest.Prompt(1, 1)), wire.CodeStartFailed)
		applied(t, a, 1, relaytest.Prompt(1, 1))
	})
}

func TestRH59_TheJournalOfAFolder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	journaled := func(t *testing.T) *rig {
		r := newRig(t)
		a := attach(t, r, 0)
		applied(t, a, 1, relaytest.Prompt(1, 1))
		thread, turn := r.started(0)
		r.runtime.Say(thread, turn, "x")
		r.runtime.End(thread, turn, relay.NativeCompleted)
		next(t, a, 3)
		a.Close()
		return r
	}
	t.Run("RH59 is for its owner alone, and empty when all is acknowledged", func(t *testing.T) {
		t.Parallel()
		r := journaled(t)
		equal(t, "mode of the folder", modeOf(t, r.dir), 0o700)
		for _, file := range []string{"host.db", "host.db-wal"} {
			if _, err := os.Stat(filepath.Join(r.dir, file)); err == nil {
				equal(t, "mode of "+file, modeOf(t, filepath.Join(r.dir, file)), 0o600)
			}
		}
		equal(t, "rows", strings.Count(dump(t, r), "relay_journal"), 3)
		attach(t, r, 3)
		equal(t, "rows", strings.Count(dump(t, r), "relay_journal"), 0)
	})
	for name, tamper := range map[string]string{
		"schema":        `UPDATE relay_journal SET envelope = replace(envelope, '"schema_version":2', '"schema_version":3') WHERE seq = 2`,
		"place":         `UPDATE relay_journal SET seq = 9 WHERE seq = 3`,
		"place inside":  `UPDATE relay_journal SET envelope = replace(envelope, '"seq":2', '"seq":7') WHERE seq = 2`,
		"lost row":      `DELETE FROM relay_journal WHERE seq = 2`,
		"lost first":    `DELETE FROM relay_journal WHERE seq = 1`,
		"event":         `UPDATE relay_journal SET envelope = replace(envelope, 'item.delta', 'item.secret')`,
		"weight":        `UPDATE relay_journal SET integrity = 0`,
		"thread":        `UPDATE relay_journal SET envelope = replace(envelope, 'local_thread_', 'thread_')`,
		"source":        `UPDATE relay_journal SET envelope = replace(envelope, '"source_event_id"', '"source"')`,
		"no JSON":       `UPDATE relay_journal SET envelope = '{' WHERE seq = 2`,
		"too many rows": `WITH RECURSIVE n(i) AS (SELECT 4 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO relay_journal SELECT scope_key, run_id, n.i, 0, replace(envelope, '"seq":2', '"seq":' || n.i) FROM relay_journal, n WHERE seq = 2`,
	} {
		t.Run("RH59 untrusted: "+name, func(t *testing.T) {
			t.Parallel()
			r := journaled(t)
			r.close()
			raw := rawDB(t, filepath.Join(r.dir, "host.db"))
			result, err := raw.ExecContext(ctx, tamper)
			must(t, err)
			if n, err := result.RowsAffected(); err != nil || n == 0 {
				t.Fatalf("nothing was changed: %v", err)
			}
			must(t, raw.Close())
			before := dump(t, r)
			r.open()
			_, err = r.host.Attach(ctx, relaytest.Attach(0), nil)
			wantCode(t, err, wire.CodeStateUntrusted)
			equal(t, "state", dump(t, r), before)

			// It is the trouble of this scope alone.
			other := relaytest.Attach(0)
			other.SessionID = "another session"
			a, err := r.host.Attach(ctx, other, nil)
			must(t, err)
			a.Close()
		})
	}
}

// TestRH61_TheNextSettingsFollowOnADrain is what a host does about new settings: the
// old one ends what it has, the next one binds and authorises again.
func TestRH61_TheNextSettingsFollowOnADrain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a, first := announced(t, r, challenged(0, challenge("c")))
	must(t, a.Acknowledge(ctx, 1))
	applied(t, a, 1, relaytest.Prompt(1, 1))
	r.host.Quiesce("settings_changed")
	refused(t, a, relaytest.Message(2, relaytest.Prompt(2, 2)), wire.CodeShuttingDown)
	done := settling(ctx, r)
	thread, turn := r.started(0)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	must(t, a.Acknowledge(ctx, next(t, a, 2)[1].Seq))
	must(t, <-done)

	r.cfg.Providers = relaytest.Providers()
	r.cfg.Providers[0].Models = r.cfg.Providers[0].Models[1:]
	r.reopen()
	if _, draining := r.host.Draining(); draining {
		t.Fatal("the next host drains")
	}
	a, second := announced(t, r, challenged(3, challenge("c")))
	equal(t, "events", len(second), 1)
	equal(t, "seq", second[0].Seq, 4)
	if second[0].SourceEventID == first[0].SourceEventID {
		t.Fatal("the new catalog has the old one's id")
	}
	applied(t, a, 2, relaytest.Prompt(2, 2))
	applied(t, a, 1, relaytest.Prompt(1, 1))
	equal(t, "native starts", len(r.runtime.Started()), 2)
}

func TestRH64_ErrorTextsThatLeaveTheHost(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct{ message, want string }{
		"plain":       {"The turn could not start.", "The turn could not start."},
		"key":         {`The key "sk-live-0123456789" was refused.`, "The key [redacted] was refused."},
		"header":      {"Authorization: Bearer abc.def failed", "Authorization: [redacted] [redacted] failed"},
		"assignment":  {"api_key=hunter2 is wrong", "[redacted] is wrong"},
		"address":     {"dial https://user:pw@inside.example/v1 failed", "dial [redacted] failed"},
		"path":        {"open /home/ada/.config/x: no", "open [redacted] no"},
		"empty":       {" ", "The host could not do this."},
		"long":        {strings.Repeat("ü", 3000), strings.Repeat("ü", 2048)},
		"long, odd":   {"x" + strings.Repeat("ü", 3000), "x" + strings.Repeat("ü", 2047)},
		"broken text": {"a\xffb", "a\uFFFDb"},
	} {
		t.Run("RH64 "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(cfg *relay.Config) {
				cfg.Store = sayingStore{cfg.Store, wire.NewError(wire.CodeOwnerMismatch, c.message)}
			})
			_, err := r.host.Attach(ctx, relaytest.Attach(0), nil)
			e := wire.AsError(err)
			equal(t, "code", e.Code, wire.CodeOwnerMismatch)
			equal(t, "text", e.Message, c.want)
			if len(e.Message) > 4096 || !utf8.ValidString(e.Message) {
				t.Errorf("%d bytes", len(e.Message))
			}
		})
	}
	t.Run("RH64 the name of a field that the other end made up", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		a := attach(t, r, 0)
		m := wire.CommandMessage{RunID: relaytest.Run, Seq: 1, Command: []byte(`{"type":"prompt.request","sk-live-0123456789":1}`)}
		ack := a.Command(ctx, m)
		if said := text(t, ack); strings.Contains(said, "sk-live") || ack.Error.Message == "" {
			t.Errorf("ack is %s", said)
		}
	})
}

// sayingStore refuses every owner.
type sayingStore struct {
	relay.Store
	err error
}

func (s sayingStore) BindOwner(context.Context, relay.ScopeRecord) error { return s.err }
