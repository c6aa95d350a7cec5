package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH36_IsExactPromptReplay(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	r.finish(s, 0)
	r.reopen()
	s = r.scope() // no authorised run
	check := func(name string, want bool, code wire.Code, cmd *wire.PromptRequest) {
		t.Helper()
		got, err := s.IsExactPromptReplay(ctx, cmd)
		if wire.CodeOf(err) != code || got != want {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
	}
	with := func(change func(*wire.PromptRequest)) *wire.PromptRequest {
		p := relaytest.Prompt(1, 1)
		change(p)
		return p
	}
	check("shape", false, wire.CodeCommandInvalid, with(func(p *wire.PromptRequest) { p.Prompt = "" }))
	check("no binding", false, "", relaytest.Prompt(2, 1))
	check("disagreement", false, wire.CodeBindingMismatch, with(func(p *wire.PromptRequest) { p.RuntimeThreadID = relaytest.ThreadID(7) }))
	check("other run", false, wire.CodeRunNotAuthorized, with(func(p *wire.PromptRequest) { p.RunID = "run_other" }))
	check("no such turn", false, "", relaytest.Prompt(1, 2))
	check("exact", true, "", relaytest.Prompt(1, 1))
	check("changed", false, wire.CodeTurnMismatch, with(func(p *wire.PromptRequest) { p.Prompt = "else" }))
}

func TestRH37_InterruptFindsExactlyItsTurn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	with := func(change func(*wire.RunControl)) *wire.RunControl {
		c := relaytest.Interrupt(1, 1)
		change(c)
		return c
	}
	wantCode(t, s.Interrupt(ctx, with(func(c *wire.RunControl) { c.TurnID = "turn" })), wire.CodeCommandInvalid)
	wantCode(t, s.Interrupt(ctx, relaytest.Interrupt(2, 1)), wire.CodeInterruptUnknown)
	wantCode(t, s.Interrupt(ctx, with(func(c *wire.RunControl) { c.RuntimeThreadID = relaytest.ThreadID(2) })), wire.CodeInterruptUnknown)
	wantCode(t, s.Interrupt(ctx, with(func(c *wire.RunControl) { c.RunID = "run_other" })), wire.CodeInterruptOtherRun)
	wantCode(t, s.Interrupt(ctx, relaytest.Interrupt(1, 2)), wire.CodeInterruptUnknown)
	equal(t, "interrupts", len(r.runtime.Interrupted()), 0)
	must(t, s.Interrupt(ctx, relaytest.Interrupt(1, 1)))
	_, turn := r.started(0)
	equal(t, "interrupted", r.runtime.Interrupted()[0], turn)
}

func TestRH38_Interrupt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("RH38 settles nothing by itself and may be repeated", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		must(t, s.Interrupt(ctx, relaytest.Interrupt(1, 1)))
		turn, _ := r.turn(1, 1)
		equal(t, "unsettled", turn.Unsettled(), true)
		must(t, s.Interrupt(ctx, relaytest.Interrupt(1, 1)))
		equal(t, "native interrupts", len(r.runtime.Interrupted()), 1)
		last := r.drain(s)
		var done wire.CompletedPayload
		must(t, json.Unmarshal(last[len(last)-1].Payload, &done))
		equal(t, "status", done.Turn.Status, wire.NativeInterrupted)
		turn, _ = r.turn(1, 1)
		equal(t, "unsettled", turn.Unsettled(), false)
	})
	t.Run("RH38 a turn that was never accepted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		r.runtime.Fail(relaytest.StartTurn, errors.New("no"), false, 1)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeStartFailed)
		wantCode(t, s.Interrupt(ctx, relaytest.Interrupt(1, 1)), wire.CodeNativeUnavailable)
	})
	t.Run("RH38 the runtime's failure is sanitised", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		r.runtime.Fail(relaytest.InterruptTurn, errors.New("sk-secret"), false, 1)
		err := s.Interrupt(ctx, relaytest.Interrupt(1, 1))
		wantCode(t, err, wire.CodeInterruptFailed)
		if strings.Contains(wire.AsError(err).Message, "sk-secret") {
			t.Fatalf("the message tells the cause: %v", err)
		}
		r.runtime.Fail(relaytest.ReadTurn, errors.New("no"), false, -1) // the host's goroutine may ask, too
		wantCode(t, s.Interrupt(ctx, relaytest.Interrupt(1, 1)), wire.CodeNativeUnavailable)
	})
}
