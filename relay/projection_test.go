package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// running is a scope with one turn that has been started and projected.
func running(t *testing.T) (r *rig, s *relay.Scope, thread, turn string) {
	t.Helper()
	r = newRig(t)
	s = r.authorized()
	must(t, s.Apply(context.Background(), relaytest.Prompt(1, 1)))
	thread, turn = r.started(0)
	equal(t, "first envelopes", len(r.drain(s)), 1)
	return r, s, thread, turn
}

func poll(t *testing.T, s *relay.Scope, max int) []relay.Projection {
	t.Helper()
	ps, err := s.Poll(context.Background(), max)
	must(t, err)
	return ps
}

func TestRH39_Poll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("RH39 nothing without a run", func(t *testing.T) {
		t.Parallel()
		r, _, thread, turn := running(t)
		r.reopen()
		r.runtime.Say(thread, turn, "x")
		equal(t, "projections", len(poll(t, r.scope(), 1)), 0)
	})
	t.Run("RH39 one outstanding event a binding", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		for i := range 3 {
			r.runtime.Say(thread, turn, fmt.Sprint(i))
		}
		first := poll(t, s, 1)
		equal(t, "projections", len(first), 1)
		r.runtime.Say(thread, turn, "more")
		equal(t, "projections while it is outstanding", len(poll(t, s, 1)), 0)
		_, err := s.Journal(ctx, first)
		must(t, err)
		equal(t, "projections while it is journaled", len(poll(t, s, 1)), 0)
		must(t, s.HandedOff(ctx, first))
		second := poll(t, s, 1)
		equal(t, "second", string(second[0].Payload), `{"kind":"agent_message","delta":"1"}`)
	})
	t.Run("RH39 bindings in order of creation, events in theirs", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		must(t, s.Apply(ctx, relaytest.Prompt(2, 2)))
		r.finish(s, 0)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		threadA, _ := r.started(0)
		threadB, turnB := r.started(1)
		_, turnA := r.started(0)
		r.runtime.Say(threadB, turnB, "b")
		// The older binding gets an event although its turns are settled.
		must(t, s.Apply(ctx, relaytest.Prompt(2, 2)))
		r.runtime.Say(threadA, turnA, "late")
		ps := poll(t, s, 10)
		equal(t, "projections", len(ps), 2)
		equal(t, "first", ps[0].BindingID, relaytest.BindingID(1))
	})
	t.Run("RH39 a batch keeps the order", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		for i := range 10 {
			r.runtime.Say(thread, turn, fmt.Sprint(i))
			r.runtime.Emit(thread, turn, "item.completed", map[string]any{})
		}
		var got []string
		for len(got) < 10 {
			ps := poll(t, s, 4)
			envelopes, err := s.Journal(ctx, ps)
			must(t, err)
			for i, e := range envelopes {
				equal(t, "seq", e.Seq, uint64(len(got)+i+2))
			}
			must(t, s.HandedOff(ctx, ps))
			for _, p := range ps {
				got = append(got, string(p.Payload))
			}
		}
		for i, payload := range got {
			equal(t, "payload", payload, fmt.Sprintf(`{"kind":"agent_message","delta":"%d"}`, i))
		}
	})
	t.Run("RH39 an unreadable ledger fails the poll and loses no claim", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.Say(thread, turn, "x")
		r.runtime.Fail(relaytest.Events, errors.New("disk"), false, 1)
		_, err := s.Poll(ctx, 1)
		wantCode(t, err, wire.CodeNativeUnavailable)
		equal(t, "projections", len(poll(t, s, 1)), 1)
	})
	t.Run("RH39 a skip that cannot be stored fails the poll", func(t *testing.T) {
		t.Parallel()
		for _, persisted := range []bool{false, true} {
			r, s, thread, turn := running(t)
			seq := r.runtime.Emit(thread, turn, "item.started", map[string]any{})
			r.store.Fail(relaytest.Advance, 0, persisted)
			_, err := s.Poll(ctx, 1)
			wantCode(t, err, wire.CodePersistFailed)
			equal(t, "projections", len(poll(t, s, 1)), 0)
			b, _ := r.binding(1)
			equal(t, "cursor", b.ProjectedSeq, seq)
		}
	})
	t.Run("RH39 an idle poll reads no ledger", func(t *testing.T) {
		t.Parallel()
		r, s, _, _ := running(t)
		before := r.runtime.Reads()
		for range 10 {
			poll(t, s, 1)
		}
		equal(t, "reads", r.runtime.Reads(), before)
	})
}

func TestRH40_WhatGoesOut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	type m = map[string]any
	const skip = ""
	plain := []string(nil)
	all := []string{wire.CapabilityOutcome, wire.CapabilityReasoning}
	for name, c := range map[string]struct {
		event        string
		payload      any
		capabilities []string
		want         string
	}{
		"started, effective model": {wire.EventTurnStarted, m{"turn": m{"effective_model": "model-x", "id": "turn_secret"}}, plain, `{"turn":{"model":"model-x","mode":"chat"}}`},
		"started, pinned model":    {wire.EventTurnStarted, m{"turn": m{"effective_model": 7}}, plain, `{"turn":{"model":"model-a","mode":"chat"}}`},
		"delta":                    {wire.EventItemDelta, m{"kind": "agent_message", "delta": "a<b>&\u2028", "item": "secret"}, plain, "{\"kind\":\"agent_message\",\"delta\":\"a<b>&\\u2028\"}"},
		"delta that is no text":    {wire.EventItemDelta, m{"kind": "agent_message", "delta": 7}, plain, skip},
		"reasoning":                {wire.EventItemDelta, m{"kind": "agent_reasoning", "delta": "hm"}, plain, skip},
		"reasoning, negotiated":    {wire.EventItemDelta, m{"kind": "agent_reasoning", "delta": "hm"}, all, `{"kind":"agent_reasoning","delta":"hm"}`},
		"another kind of delta":    {wire.EventItemDelta, m{"kind": "tool_call", "delta": "rm"}, all, skip},
		"an item":                  {"item.completed", m{"item": m{}}, all, skip},
		"an approval":              {"approval.required", m{}, all, skip},
		"an error":                 {"item.failed", m{"error": "sk-secret"}, all, skip},
		"completed, defaults": {
			wire.EventTurnCompleted,
			m{"turn": m{"error": "sk-secret", "duration_ms": 5}},
			plain,
			`{"turn":{"status":"failed","usage":{},"effective_model":"model-a","effective_provider":"fixture","effective_billing_surface":"provider_byok","effective_billing_mode":"local"}}`,
		},
		"completed, all there": {
			wire.EventTurnCompleted,
			m{"turn": m{
				"status": "completed", "usage": m{"input_tokens": 1, "output_tokens": 2, "prompt_cache_hit_tokens": 1, "secret": "sk-secret", "service_tier": "priority", "server_tool_use": m{"web_search": 2, "x": "sk"}},
				"effective_model": "mm", "effective_provider": "pp", "effective_billing_surface": "surface",
				"effective_billing_mode": "metered", "effective_provider_id": "private", "effective_endpoint_fingerprint": "beef",
			}},
			plain,
			`{"turn":{"status":"completed","usage":{"input_tokens":1,"output_tokens":2,"prompt_cache_hit_tokens":1,"server_tool_use":{"web_search":2},"service_tier":"priority"},"effective_model":"mm","effective_provider":"pp","effective_billing_surface":"surface","effective_billing_mode":"metered"}}`,
		},
		"completed, outcome not negotiated": {
			wire.EventTurnCompleted,
			m{"turn": m{"status": "failed", "usage": nil}, "outcome": m{"error": "model_failed"}},
			plain,
			`{"turn":{"status":"failed","usage":null,"effective_model":"model-a","effective_provider":"fixture","effective_billing_surface":"provider_byok","effective_billing_mode":"local"}}`,
		},
		"completed, outcome negotiated": {
			wire.EventTurnCompleted,
			m{"turn": m{"status": "failed"}, "outcome": m{
				"error": "model_rate_limited", "retryAt": "2026-05-01T10:00:00.000Z", "responseId": "resp_1", "finish": "made up", "text": "sk-secret",
			}},
			all,
			`{"turn":{"status":"failed","usage":{},"effective_model":"model-a","effective_provider":"fixture","effective_billing_surface":"provider_byok","effective_billing_mode":"local"},"outcome":{"error":"model_rate_limited","retryAt":"2026-05-01T10:00:00.000Z","responseId":"resp_1"}}`,
		},
		"completed, an outcome with prose": {
			wire.EventTurnCompleted,
			m{"turn": m{"status": "failed"}, "outcome": m{"error": "the key sk-secret is bad"}},
			all,
			`{"turn":{"status":"failed","usage":{},"effective_model":"model-a","effective_provider":"fixture","effective_billing_surface":"provider_byok","effective_billing_mode":"local"}}`,
		},
	} {
		t.Run("RH40 "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a, err := r.host.Attach(ctx, relaytest.Attach(0), c.capabilities)
			must(t, err)
			defer a.Close()
			applied(t, a, 1, relaytest.Prompt(1, 1))
			next(t, a, 1)
			thread, turn := r.started(0)
			r.runtime.Emit(thread, turn, c.event, c.payload)
			r.runtime.Say(thread, turn, "end")
			var got string
			envelopes, err := a.Next(ctx)
			must(t, err)
			e := envelopes[0]
			if string(e.Payload) != `{"kind":"agent_message","delta":"end"}` {
				got = string(e.Payload)
			}
			equal(t, "payload", got, c.want)
		})
	}
	t.Run("RH40 no turn id is skipped, an unknown turn waits for ever", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		skipped := r.runtime.Emit(thread, "", "thread.updated", map[string]any{})
		r.runtime.Emit(thread, "turn_unknown", wire.EventItemDelta, wire.DeltaPayload{Kind: wire.DeltaMessage, Delta: "x"})
		r.runtime.Say(thread, turn, "behind it")
		equal(t, "projections", len(poll(t, s, 5)), 0)
		b, _ := r.binding(1)
		equal(t, "cursor", b.ProjectedSeq, skipped)
	})
}

func TestRH41_IdsAreRewritten(t *testing.T) {
	t.Parallel()
	r, s, thread, turn := running(t)
	r.runtime.Say(thread, turn, "one")
	r.runtime.Say(thread, turn, "two")
	r.runtime.End(thread, turn, relay.NativeCompleted)
	form := regexp.MustCompile(`^native_event_[a-z0-9_]{64}$`)
	seen := map[string]bool{}
	for _, e := range r.drain(s) {
		equal(t, "thread", e.ThreadID, relaytest.ThreadID(1))
		equal(t, "turn", e.TurnID, relaytest.TurnID(1))
		raw, err := json.Marshal(e)
		must(t, err)
		if strings.Contains(string(raw), thread) || strings.Contains(string(raw), turn) {
			t.Fatalf("a native id goes out: %s", raw)
		}
		if !form.MatchString(e.SourceEventID) || seen[e.SourceEventID] {
			t.Fatalf("source event id %q", e.SourceEventID)
		}
		seen[e.SourceEventID] = true
	}
	equal(t, "events", len(seen), 3)
}

func TestRH42_OrderOfAnEvent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("RH42 the cursor moves with the journal, not before", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		before, _ := r.binding(1)
		seq := r.runtime.Say(thread, turn, "x")
		ps := poll(t, s, 1)
		b, _ := r.binding(1)
		equal(t, "cursor of a claim", b.ProjectedSeq, before.ProjectedSeq)
		_, err := s.Journal(ctx, ps)
		must(t, err)
		b, _ = r.binding(1)
		equal(t, "cursor after the journal", b.ProjectedSeq, seq)
		equal(t, "claims before the hand-off", len(poll(t, s, 1)), 0)
		must(t, s.HandedOff(ctx, ps))
		must(t, s.HandedOff(ctx, ps))
	})
	t.Run("RH42 the cursor passes the end of a turn with its hand-off, not before", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		said := r.runtime.Say(thread, turn, "x")
		ended := r.runtime.End(thread, turn, relay.NativeCompleted)
		ps := poll(t, s, 9)
		_, err := s.Journal(ctx, ps)
		must(t, err)
		b, _ := r.binding(1)
		if b.ProjectedSeq < said || b.ProjectedSeq >= ended {
			t.Fatalf("cursor after the journal is %d, want %d to %d", b.ProjectedSeq, said, ended-1)
		}
		must(t, s.HandedOff(ctx, ps))
		b, _ = r.binding(1)
		equal(t, "cursor after the hand-off", b.ProjectedSeq, ended)
	})
	t.Run("RH42 a crash behind the journal sends from it, and makes no event again", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.Say(thread, turn, "x")
		first, err := s.Journal(ctx, poll(t, s, 1))
		must(t, err)
		r.reopen()
		s = r.authorized()
		equal(t, "pending", len(s.Pending(0)), 1)
		equal(t, "seq", s.Pending(0)[0].Seq, first[0].Seq)
		equal(t, "claims", len(poll(t, s, 1)), 0)
	})
	t.Run("RH42 a gap in what is journaled stops the cursor", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		first := r.runtime.Say(thread, turn, "one")
		r.runtime.Say(thread, turn, "two")
		_, err := s.Journal(ctx, poll(t, s, 9)[1:])
		must(t, err)
		b, _ := r.binding(1)
		if b.ProjectedSeq >= first {
			t.Fatalf("the cursor passed an event that is not journaled: %d", b.ProjectedSeq)
		}
	})
	t.Run("RH42 what is not journaled cannot be handed off", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.Say(thread, turn, "x")
		if err := s.HandedOff(ctx, poll(t, s, 1)); err == nil {
			t.Fatal("no error")
		}
	})
	t.Run("RH42 a crash between journal and cursor sends the event again, under the same source", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.End(thread, turn, relay.NativeCompleted)
		first, err := s.Journal(ctx, poll(t, s, 1))
		must(t, err)
		r.reopen()
		s = r.authorized()
		equal(t, "pending", len(s.Pending(0)), 1)
		second, err := s.Journal(ctx, poll(t, s, 1))
		must(t, err)
		equal(t, "source", second[0].SourceEventID, first[0].SourceEventID)
		equal(t, "payload", string(second[0].Payload), string(first[0].Payload))
		equal(t, "seq", second[0].Seq, first[0].Seq+1)
	})
	t.Run("RH42 the terminal settles its turn in the same write", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.End(thread, turn, relay.NativeCompleted)
		ps := poll(t, s, 1)
		_, err := s.Journal(ctx, ps)
		must(t, err)
		r.store.Fail(relaytest.Advance, 0, false)
		wantCode(t, s.HandedOff(ctx, ps), wire.CodePersistFailed)
		got, _ := r.turn(1, 1)
		equal(t, "unsettled after a failed write", got.Unsettled(), true)
		must(t, s.HandedOff(ctx, ps))
		got, _ = r.turn(1, 1)
		equal(t, "terminal", got.TerminalProjected, true)
		equal(t, "rejected", got.StartRejected, false)
	})
	t.Run("RH42 a hand-off that was stored after all is not waited for", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.End(thread, turn, relay.NativeCompleted)
		ps := poll(t, s, 1)
		_, err := s.Journal(ctx, ps)
		must(t, err)
		r.store.Fail(relaytest.Advance, 0, true)
		wantCode(t, s.HandedOff(ctx, ps), wire.CodePersistFailed)
		equal(t, "projections", len(poll(t, s, 1)), 0)
		got, _ := r.turn(1, 1)
		equal(t, "terminal", got.TerminalProjected, true)
	})
	t.Run("RH42 unknown threads and turns move nothing", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.End(thread, turn, relay.NativeCompleted)
		ps := poll(t, s, 1)
		_, err := s.Journal(ctx, ps)
		must(t, err)
		before := dump(t, r)
		stranger, unknown := ps[0], ps[0]
		stranger.NativeThreadID = "thr_unknown"
		unknown.VirtualTurnID = relaytest.TurnID(9)
		wantCode(t, s.HandedOff(ctx, []relay.Projection{stranger}), wire.CodeBindingMismatch)
		wantCode(t, s.HandedOff(ctx, []relay.Projection{unknown}), wire.CodeTurnMismatch)
		wantCode(t, s.HandedOff(ctx, []relay.Projection{ps[0], stranger}), wire.CodeBindingMismatch)
		equal(t, "state", dump(t, r), before)
	})
}

func TestRH43_FailuresOfTheJournal(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("RH43 a failed append uses no seq up and frees the claim", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.Say(thread, turn, "x")
		r.store.Fail(relaytest.AppendJournal, 0, false)
		_, err := s.Journal(ctx, poll(t, s, 1))
		wantCode(t, err, wire.CodePersistFailed)
		equal(t, "pending", len(s.Pending(0)), 0)
		envelopes, err := s.Journal(ctx, poll(t, s, 1))
		must(t, err)
		equal(t, "seq", envelopes[0].Seq, 2)
	})
	t.Run("RH43 an append that was stored after all is sent, too", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.Say(thread, turn, "x")
		r.store.Fail(relaytest.AppendJournal, 0, true)
		_, err := s.Journal(ctx, poll(t, s, 1))
		wantCode(t, err, wire.CodePersistFailed)
		equal(t, "claims", len(poll(t, s, 1)), 0)
		pending := s.Pending(1)
		equal(t, "pending", len(pending), 1)
		equal(t, "seq", pending[0].Seq, 2)
	})
	t.Run("RH43 an aborted transport frees all claims", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.Say(thread, turn, "x")
		first := poll(t, s, 1)
		s.ReleaseClaims()
		again := poll(t, s, 1)
		equal(t, "source", again[0].SourceEventID, first[0].SourceEventID)
	})
	t.Run("RH43 a projection of a run that is gone is released in silence", func(t *testing.T) {
		t.Parallel()
		r, s, thread, turn := running(t)
		r.runtime.Say(thread, turn, "x")
		ps := poll(t, s, 1)
		ps[0].RunID = "run_other"
		envelopes, err := s.Journal(ctx, ps)
		must(t, err)
		equal(t, "envelopes", len(envelopes), 0)
		equal(t, "projections", len(poll(t, s, 1)), 1)
	})
}
