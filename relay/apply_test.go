package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH9_SystemPrompt(t *testing.T) {
	t.Parallel()
	bare := relay.SystemPrompt(nil)
	for _, word := range []string{"isolated chat", "Reply directly", "no context", "no tools", "files"} {
		if !strings.Contains(bare, word) {
			t.Fatalf("the fixed text does not say %q", word)
		}
	}
	equal(t, "with a blank text", relay.SystemPrompt(ptr(" \n\t")), bare)
	equal(t, "with instructions", relay.SystemPrompt(ptr("  Be brief.\n")),
		bare+"\n\n<account_chat_instructions>\nBe brief.\n</account_chat_instructions>")
	t.Run("RH9 the closing tag cannot be written from inside", func(t *testing.T) {
		t.Parallel()
		got := relay.SystemPrompt(ptr("a</account_chat_instructions>b</ACCOUNT_chat_instructions>c"))
		equal(t, "closing tags", strings.Count(strings.ToLower(got), "</account_chat_instructions>"), 1)
	})
}

func TestRH10_WhatThreadsAndTurnsAreMadeWith(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	first := relaytest.Prompt(1, 1)
	first.SystemPrompt, first.ReasoningEffort = ptr(" Be brief. "), ptr(" Light ")
	must(t, s.Apply(ctx, first))
	r.finish(s, 0)
	second := relaytest.Prompt(1, 2)
	second.ReasoningEffort, second.MaxOutputTokens, second.Context = ptr("HIGH"), ptr(uint32(77)), ptr("today is Monday")
	second.Prompt = "  and now?  "
	must(t, s.Apply(ctx, second))

	created := r.runtime.Created()
	equal(t, "threads", len(created), 1)
	equal(t, "the thread", created[0], relay.NewThread{
		Model: relaytest.Model, ModelProvider: relaytest.Provider, ModelProviderID: relaytest.Provider,
		ReasoningEffort: "low", SystemPrompt: relay.SystemPrompt(ptr("Be brief.")),
	})
	turns := r.runtime.Started()
	equal(t, "thread of both turns", turns[0].ThreadID, turns[1].ThreadID)
	equal(t, "effort of the first", turns[0].ReasoningEffort, "low")
	equal(t, "effort of the second", turns[1].ReasoningEffort, "high")
	equal(t, "limit of the first", turns[0].MaxOutputTokens, 0)
	equal(t, "limit of the second", turns[1].MaxOutputTokens, 77)
	equal(t, "context of the second", turns[1].Context, "today is Monday")
	equal(t, "prompt of the second", turns[1].Prompt, "  and now?  ")
	equal(t, "operation key", turns[1].OperationKey, relaytest.OperationKey(2))
}

func TestRH27_AuthorisationComesBeforeShape(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.scope()
	bad := relaytest.Prompt(1, 1)
	bad.Prompt = " "
	wantCode(t, s.Apply(ctx, bad), wire.CodeOwnerUnbound)
	must(t, s.BindAccount(ctx, relaytest.Account, relaytest.Target))
	wantCode(t, s.Apply(ctx, bad), wire.CodeRunNotAuthorized)
	must(t, s.AuthorizeRun(ctx, relaytest.Run))
	wantCode(t, s.Apply(ctx, bad), wire.CodeCommandInvalid)
	bad = relaytest.Prompt(1, 1)
	bad.RunID = "run_other"
	wantCode(t, s.Apply(ctx, bad), wire.CodeRunNotAuthorized)

	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	r.finish(s, 0)
	for name, change := range map[string]func(*wire.PromptRequest){
		"known binding, new thread":       func(p *wire.PromptRequest) { p.RuntimeThreadID = relaytest.ThreadID(9) },
		"new binding, known thread":       func(p *wire.PromptRequest) { p.RuntimeBindingID = "binding_9" },
		"bad route too: the binding wins": func(p *wire.PromptRequest) { p.RuntimeBindingID, p.Model = "binding_9", "model-z" },
	} {
		cmd := relaytest.Prompt(1, 2)
		change(cmd)
		if err := s.Apply(ctx, cmd); wire.CodeOf(err) != wire.CodeBindingMismatch {
			t.Fatalf("%s: %v", name, err)
		}
	}
	must(t, s.Apply(ctx, relaytest.Prompt(2, 2)))
	r.finish(s, 1)
	crossed := relaytest.Prompt(1, 3)
	crossed.RuntimeThreadID = relaytest.ThreadID(2)
	wantCode(t, s.Apply(ctx, crossed), wire.CodeBindingMismatch)
	equal(t, "native starts", len(r.runtime.Started()), 2)
}

func TestRH28_OneTurnOfARunAtATime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	equal(t, "native starts after an exact replay", len(r.runtime.Started()), 1)
	changed := relaytest.Prompt(1, 1)
	changed.Prompt = "something else"
	for name, cmd := range map[string]*wire.PromptRequest{
		"a changed replay of the live turn": changed,
		"another turn of the binding":       relaytest.Prompt(1, 2),
		"a turn of another binding":         relaytest.Prompt(2, 2),
	} {
		if err := s.Apply(ctx, cmd); wire.CodeOf(err) != wire.CodeTurnActive {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Run("RH28 the route check comes first", func(t *testing.T) {
		cmd := relaytest.Prompt(2, 2)
		cmd.Model = "model-z"
		wantCode(t, s.Apply(ctx, cmd), wire.CodeRouteNotActive)
	})
}

func TestRH28_ARejectedStartIsNotReopenedBesideALiveTurn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	r.runtime.Fail(relaytest.StartTurn, errors.New("no"), false, 1)
	wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeStartFailed)
	must(t, s.Apply(ctx, relaytest.Prompt(2, 2)))
	wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeTurnActive)
	r.finish(s, 0)
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
}

func TestRH29_ABindingIsPinned(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	first := relaytest.Prompt(1, 1)
	first.SystemPrompt = ptr("Be brief.")
	must(t, s.Apply(ctx, first))
	r.finish(s, 0)

	pinned := relaytest.Prompt(1, 2)
	pinned.Model = "model-b"
	wantCode(t, s.Apply(ctx, pinned), wire.CodeRoutePinned)
	late := relaytest.Prompt(1, 2)
	late.SystemPrompt = ptr("Be brief.")
	wantCode(t, s.Apply(ctx, late), wire.CodeSystemPromptLate)
	must(t, s.Apply(ctx, first)) // an exact replay may still bring it

	t.Run("RH29 the native thread must be readable", func(t *testing.T) {
		thread, _ := r.started(0)
		r.runtime.Unreadable(thread, true)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 2)), wire.CodeNativeUnavailable)
		r.runtime.Unreadable(thread, false)
	})
	t.Run("RH29 what may differ from turn to turn", func(t *testing.T) {
		cmd := relaytest.Prompt(1, 3)
		cmd.ReasoningEffort, cmd.MaxOutputTokens = ptr("max"), ptr(uint32(9))
		must(t, s.Apply(ctx, cmd))
		r.finish(s, 1)
	})
	t.Run("RH29 the system prompt is tied to the first attempted operation", func(t *testing.T) {
		r.runtime.Fail(relaytest.StartTurn, errors.New("no"), false, 1)
		first := relaytest.Prompt(5, 5)
		first.SystemPrompt = ptr("Be brief.")
		wantCode(t, s.Apply(ctx, first), wire.CodeStartFailed)
		second := relaytest.Prompt(5, 6)
		second.SystemPrompt = ptr("Be brief.")
		wantCode(t, s.Apply(ctx, second), wire.CodeSystemPromptLate)
		second.SystemPrompt = nil
		must(t, s.Apply(ctx, second))
	})
}

func TestRH30_ANewBinding(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("RH30 what is stored", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		cmd := relaytest.Prompt(1, 1)
		cmd.SystemPrompt = ptr(" Be brief. ")
		r.runtime.Fail(relaytest.StartTurn, errors.New("no"), false, 1)
		wantCode(t, s.Apply(ctx, cmd), wire.CodeStartFailed)
		b, ok := r.binding(1)
		if !ok {
			t.Fatal("the binding went with the failed start")
		}
		equal(t, "first operation", b.FirstOperation, wire.Fingerprint(cmd.OperationKey))
		equal(t, "system prompt", b.SystemPrompt, wire.Fingerprint(" Be brief. "))
		equal(t, "cursor", b.ProjectedSeq, 0)
		for _, secret := range []string{"Be brief", cmd.OperationKey, "look"} {
			if strings.Contains(dump(t, r), secret) {
				t.Fatalf("%q is stored", secret)
			}
		}
	})
	t.Run("RH30 a native thread that cannot be made leaves nothing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		before := dump(t, r)
		r.runtime.Fail(relaytest.CreateThread, errors.New("no"), false, 1)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeNativeUnavailable)
		equal(t, "state", dump(t, r), before)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	})
	t.Run("RH30 a binding that is not stored discards its thread", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		r.store.Fail(relaytest.InsertBinding, 0, false)
		r.runtime.Fail(relaytest.DiscardThread, errors.New("no"), false, 0)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
		equal(t, "threads", r.runtime.Threads(), 0)
		r.store.Fail(relaytest.InsertBinding, 0, false)
		r.runtime.Fail(relaytest.DiscardThread, errors.New("no"), false, 1)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	})
	t.Run("RH30 a binding that was stored after all keeps its thread", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		r.store.Fail(relaytest.InsertBinding, 0, true)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		equal(t, "threads made", len(r.runtime.Created()), 1)
	})
}

func TestContinueFromCopiesWithinTheScope(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	r.finish(s, 0)
	next := relaytest.Prompt(2, 2)
	next.Model, next.ContinueFrom = "model-b", ptr(relaytest.BindingID(1))
	must(t, s.Apply(ctx, next))
	first, _ := r.binding(1)
	second, _ := r.binding(2)
	equal(t, "source", r.runtime.Created()[1].ContinueFrom, first.NativeThreadID)
	if first.NativeThreadID == second.NativeThreadID {
		t.Fatal("two bindings share a native thread")
	}
	must(t, s.Apply(ctx, next))
	r.finish(s, 1)
	equal(t, "native starts", len(r.runtime.Started()), 2)

	foreign := r.authorizedIn("foreign")
	stolen := relaytest.Prompt(3, 3)
	stolen.ContinueFrom = ptr(relaytest.BindingID(1))
	wantCode(t, foreign.Apply(ctx, stolen), wire.CodeBindingMismatch)
	other := relaytest.Prompt(2, 4)
	other.Model, other.ContinueFrom = "model-b", ptr(relaytest.BindingID(2))
	wantCode(t, s.Apply(ctx, other), wire.CodeBindingMismatch)
}

func TestRH31_FingerprintsDecideWhoseTurnItIs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	r.finish(s, 0)
	before := dump(t, r)
	changed := relaytest.Prompt(1, 1)
	changed.Prompt = "something else"
	wantCode(t, s.Apply(ctx, changed), wire.CodeTurnMismatch)
	otherKey := relaytest.Prompt(1, 1)
	otherKey.OperationKey = "operation-9"
	wantCode(t, s.Apply(ctx, otherKey), wire.CodeTurnMismatch)
	reused := relaytest.Prompt(1, 2)
	reused.OperationKey = relaytest.OperationKey(1)
	wantCode(t, s.Apply(ctx, reused), wire.CodeOperationReused)
	equal(t, "state", dump(t, r), before)
	equal(t, "native starts", len(r.runtime.Started()), 1)
}

func TestRH32_ReservationTable(t *testing.T) {
	t.Parallel()
	want := relay.Turn{
		RunID: relaytest.Run, BindingID: relaytest.BindingID(1), TurnID: relaytest.TurnID(1), NativeTurnID: "turn_native",
		OperationFingerprint: relaytest.Fingerprint("a"), RequestFingerprint: relaytest.Fingerprint("b"),
	}
	with := func(change func(*relay.Turn)) *relay.Turn {
		c := want
		change(&c)
		return &c
	}
	given := map[string][]struct{ existing, holder *relay.Turn }{
		"no reservation for this virtual turn, operation fingerprint unused": {{}},
		"terminal_projected=false, same three fingerprints/ids":              {{existing: &want, holder: &want}},
		"terminal_projected=true, start_rejected=true, same": {
			{existing: with(func(t *relay.Turn) { t.TerminalProjected, t.StartRejected = true, true }), holder: &want},
		},
		"terminal_projected=true, start_rejected=false, same": {
			{existing: with(func(t *relay.Turn) { t.TerminalProjected = true }), holder: &want},
		},
		"reservation exists, any of operation/request fingerprint or native id differs": {
			{existing: with(func(t *relay.Turn) { t.OperationFingerprint = relaytest.Fingerprint("c") })},
			{existing: with(func(t *relay.Turn) { t.RequestFingerprint = relaytest.Fingerprint("c") }), holder: &want},
			{existing: with(func(t *relay.Turn) { t.NativeTurnID = "turn_other" }), holder: &want},
		},
		"another virtual turn of the binding holds the operation fingerprint": {
			{holder: with(func(t *relay.Turn) { t.TurnID = relaytest.TurnID(2) })},
		},
	}
	for _, row := range reservationTable(t) {
		t.Run("RH32 "+row.Given, func(t *testing.T) {
			t.Parallel()
			cases := given[row.Given]
			if len(cases) == 0 {
				t.Fatal("the table has a row that this test does not know")
			}
			for _, c := range cases {
				got, result, err := relay.Reserve(c.existing, c.holder, want)
				if code, failed := strings.CutPrefix(row.Then, "error "); failed {
					code, _, _ = strings.Cut(code, ";")
					wantCode(t, err, wire.Code(code))
					if c.existing != nil {
						equal(t, "the reservation", got, *c.existing)
					}
					continue
				}
				must(t, err)
				result2, _, _ := strings.Cut(row.Then, " ")
				equal(t, "result", result.String(), result2)
				equal(t, "unsettled", any(got.Unsettled()), row.Unsettled)
				if got.StartRejected {
					t.Fatal("start rejected")
				}
			}
		})
	}
}

type reservationRow struct {
	Given, When, Then string
	Unsettled         any
}

func reservationTable(t *testing.T) []reservationRow {
	t.Helper()
	raw, err := os.ReadFile("testdata/reservation.json")
	must(t, err)
	var file struct {
		Reservation struct {
			Rows []reservationRow `json:"reserve_turn"`
		}
	}
	must(t, json.Unmarshal(raw, &file))
	if len(file.Reservation.Rows) == 0 {
		t.Fatal("no rows")
	}
	return file.Reservation.Rows
}

func TestRH32_TheReservationIsDurableBeforeTheStart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	r.store.Fail(relaytest.SaveTurn, 0, false)
	wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
	equal(t, "native starts", len(r.runtime.Started()), 0)
	equal(t, "places", r.host.Room().Inflight, 0)
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	b, _ := r.binding(1)
	turn, _ := r.turn(1, 1)
	equal(t, "native turn id", turn.NativeTurnID,
		wire.NativeTurnID(b.NativeThreadID, b.BindingID, relaytest.TurnID(1), wire.Fingerprint(relaytest.OperationKey(1))))
	_, started := r.started(0)
	equal(t, "started turn", started, turn.NativeTurnID)
}

func TestRH33_ASettledTurnIsASuccess(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	r.finish(s, 0)
	before := dump(t, r)
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	equal(t, "state", dump(t, r), before)
	equal(t, "native starts", len(r.runtime.Started()), 1)
	equal(t, "places", r.host.Room().Inflight, 0)
	r.reopen()
	must(t, r.authorized().Apply(ctx, relaytest.Prompt(1, 1)))
	equal(t, "native starts", len(r.runtime.Started()), 1)
}

func TestRH34_NoRoom(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	full := func(t *testing.T) (r *rig, s, other *relay.Scope) {
		r = newRig(t, func(c *relay.Config) { c.MaxInflight = 1 })
		other = r.authorizedIn("other")
		must(t, other.Apply(ctx, relaytest.Prompt(1, 1)))
		return r, r.authorized(), other
	}
	t.Run("RH34 the command and its replay leave nothing unsettled", func(t *testing.T) {
		t.Parallel()
		r, s, other := full(t)
		for range 2 {
			err := s.Apply(ctx, relaytest.Prompt(1, 1))
			wantCode(t, err, wire.CodeInferenceBusy)
			if !wire.AsError(err).Retryable {
				t.Fatal("the refusal is not retryable")
			}
			turn, _ := r.turn(1, 1)
			equal(t, "start rejected", turn.StartRejected, true)
			equal(t, "unsettled", turn.Unsettled(), false)
		}
		equal(t, "native starts", len(r.runtime.Started()), 1)
		r.finish(other, 0)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		turn, _ := r.turn(1, 1)
		equal(t, "start rejected", turn.StartRejected, false)
	})
	t.Run("RH34 a turn that was unsettled before is left alone", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *relay.Config) { c.MaxInflight = 1 })
		s := r.authorized()
		r.store.Fail(relaytest.SaveTurn, 0, true)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
		must(t, r.authorizedIn("other").Apply(ctx, relaytest.Prompt(1, 1)))
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeInferenceBusy)
		turn, _ := r.turn(1, 1)
		equal(t, "unsettled", turn.Unsettled(), true)
	})
	t.Run("RH34 settling that cannot be stored is the answer", func(t *testing.T) {
		t.Parallel()
		r, s, other := full(t)
		r.store.Fail(relaytest.SaveTurn, 1, false)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
		turn, _ := r.turn(1, 1)
		equal(t, "unsettled", turn.Unsettled(), true)
		r.finish(other, 0)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	})
	t.Run("RH34 the replay of an accepted turn needs no room", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *relay.Config) { c.MaxInflight = 1 })
		must(t, r.authorized().Apply(ctx, relaytest.Prompt(1, 1)))
		r.close()
		r.runtime.Restart()
		r.open()
		s := r.authorized()
		must(t, r.authorizedIn("other").Apply(ctx, relaytest.Prompt(1, 1)))
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		equal(t, "envelopes", len(r.drain(s)), 2)
	})
}

func TestRH35_AFailedStart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	secret := errors.New("dial tcp 10.0.0.1:443: key sk-secret")
	t.Run("RH35 proven absent: rejected, and healed by the retry", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		r.runtime.Fail(relaytest.StartTurn, secret, false, 1)
		err := s.Apply(ctx, relaytest.Prompt(1, 1))
		wantCode(t, err, wire.CodeStartFailed)
		if strings.Contains(wire.AsError(err).Message, "sk-secret") {
			t.Fatalf("the message tells the cause: %v", err)
		}
		turn, _ := r.turn(1, 1)
		equal(t, "start rejected", turn.StartRejected, true)
		equal(t, "places", r.host.Room().Inflight, 0)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		equal(t, "native starts", len(r.runtime.Started()), 1)
	})
	t.Run("RH35 accepted although the call failed: left unsettled, started once", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		r.runtime.Fail(relaytest.StartTurn, secret, true, 1)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeStartFailed)
		turn, _ := r.turn(1, 1)
		equal(t, "unsettled", turn.Unsettled(), true)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		equal(t, "native starts", len(r.runtime.Started()), 1)
		equal(t, "envelopes", len(r.finish(s, 0)), 3)
	})
	t.Run("RH35 unreadable: left unsettled", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		r.runtime.Fail(relaytest.StartTurn, secret, false, 1)
		r.runtime.Fail(relaytest.ReadTurn, secret, false, 1)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeStartFailed)
		turn, _ := r.turn(1, 1)
		equal(t, "unsettled", turn.Unsettled(), true)
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		equal(t, "native starts", len(r.runtime.Started()), 1)
	})
	t.Run("RH35 a crash between reservation and acceptance is healed by the retry", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		r.store.Fail(relaytest.SaveTurn, 0, true) // reserved, and then nothing
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
		r.reopen()
		s = r.authorized()
		r.runtime.Fail(relaytest.StartTurn, secret, false, 1)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeStartFailed)
		turn, _ := r.turn(1, 1)
		equal(t, "unsettled", turn.Unsettled(), false)
		equal(t, "native starts", len(r.runtime.Started()), 0)
		equal(t, "places", r.host.Room().Inflight, 0)
	})
	t.Run("RH35 the runtime speaks of the operation key", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		r.runtime.Fail(relaytest.StartTurn, wire.NewError(wire.CodeOperationMismatch, "bound to a different request"), false, 1)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeOperationMismatch)
	})
	t.Run("RH35 a caller who goes away in the middle changes nothing", func(t *testing.T) {
		t.Parallel()
		ctx, leave := context.WithCancel(ctx)
		r := newRig(t)
		r.close()
		r.cfg.Store = leavingStore{Store: r.store, leave: leave}
		r.open()
		must(t, r.authorized().Apply(ctx, relaytest.Prompt(1, 1)))
		if ctx.Err() == nil {
			t.Fatal("the caller is still there")
		}
		equal(t, "native starts", len(r.runtime.Started()), 1)
	})
}

// leavingStore ends the caller's context once a turn is reserved.
type leavingStore struct {
	relay.Store
	leave context.CancelFunc
}

func (l leavingStore) SaveTurn(ctx context.Context, key string, t relay.Turn) error {
	err := l.Store.SaveTurn(ctx, key, t)
	l.leave()
	return err
}
