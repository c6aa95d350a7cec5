package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/relay/control"
	"github.com/fairlead/fairlead/relay/wire"
)

func attachment(cursor uint64) control.Attachment {
	return control.Attachment{
		TargetRef: "target", AccountRef: "account", SessionID: "session", RunID: "run", WorkspaceID: "main",
		Cursor: cursor, CommandSeq: 10,
	}
}

type result[T any] struct {
	value T
	err   error
}

func later[T any](do func() (T, error)) <-chan result[T] {
	c := make(chan result[T], 1)
	go func() {
		v, err := do()
		c <- result[T]{v, err}
	}()
	return c
}

func get[T any](t *testing.T, c <-chan result[T]) (T, error) {
	t.Helper()
	select {
	case r := <-c:
		return r.value, r.err
	case <-time.After(10 * time.Second):
		t.Fatal("waited in vain")
		panic("unreachable")
	}
}

// attach opens a client with an attached run.
func attach(t *testing.T, cursor uint64) (*gateway, *control.Client, *control.Run, *socket) {
	t.Helper()
	g := newGateway(t)
	c := g.dial()
	s := g.next()
	attaching := later(func() (*control.Run, error) { return c.Attach(context.Background(), attachment(cursor)) })
	if f := s.read("attach"); f.Cursor != cursor {
		t.Errorf("attach: %s", f.raw)
	}
	s.attached(cursor)
	run, err := get(t, attaching)
	if err != nil {
		t.Fatal(err)
	}
	return g, c, run, s
}

func prompt(run *control.Run, text string) <-chan result[wire.Ack] {
	return later(func() (wire.Ack, error) {
		return run.Prompt(context.Background(), wire.PromptRequest{
			TurnID: "local_turn_0123456789abcdef01234567", OperationKey: "op", RuntimeBindingID: "binding",
			RuntimeThreadID: "local_thread_0123456789abcdef01234567", Prompt: text, Model: "m", ModelProvider: "p", ModelProviderID: "p",
		})
	})
}

// events reads n envelopes and gives their Seqs.
func events(t *testing.T, run *control.Run, n int) (seqs []uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for e, err := range run.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, e.Seq); len(seqs) == n {
			break
		}
	}
	return seqs
}

func TestRH52_AnUnansweredCommandIsSentAgainAsItWas(t *testing.T) {
	t.Parallel()
	g, _, run, s := attach(t, 0)
	answer := prompt(run, "<one> & two")
	first := s.read("command")
	if first.Seq != 11 {
		t.Errorf("seq %d", first.Seq)
	}
	cmd, err := wire.ParseCommand(first.Command)
	if err == nil {
		err = cmd.Validate()
	}
	if err != nil {
		t.Errorf("%s: %v", first.raw, err)
	}
	_ = s.ws.CloseNow()
	s = g.next()
	s.read("attach")
	s.attached(0)
	if again := s.read("command"); again.raw != first.raw {
		t.Errorf("%s\nis sent again as\n%s", first.raw, again.raw)
	}
	// That the run is not attached is no answer either.
	s.ack(11, wire.NewError(wire.CodeRunNotAuthorized, "").Body())
	s.read("attach")
	s.attached(0)
	if again := s.read("command"); again.raw != first.raw {
		t.Errorf("%s\nis sent again as\n%s", first.raw, again.raw)
	}
	s.ack(11, nil)
	if ack, err := get(t, answer); err != nil || ack.Status != wire.AckApplied {
		t.Errorf("%+v, %v", ack, err)
	}
	answer = prompt(run, "three")
	if f := s.read("command"); f.Seq != 12 {
		t.Errorf("the next: %s", f.raw)
	}
	s.ack(12, wire.NewError(wire.CodeInferenceBusy, "No room.").Body())
	if _, err := get(t, answer); wire.CodeOf(err) != wire.CodeInferenceBusy || !wire.AsError(err).Retryable {
		t.Errorf("refused: %v", err)
	}
}

func TestRH49_EachEnvelopeComesOnceAndFromTheCursor(t *testing.T) {
	t.Parallel()
	g, _, run, s := attach(t, 41)
	for seq := uint64(42); seq <= 45; seq++ {
		s.event(seq, "source"+string(rune('a'+seq-42)))
	}
	if got := events(t, run, 4); got[0] != 42 || got[3] != 45 {
		t.Errorf("came %v", got)
	}
	run.Acknowledge(43)
	if f := s.read("cursor"); f.Cursor != 43 {
		t.Errorf("cursor: %s", f.raw)
	}
	_ = s.ws.CloseNow()
	s = g.next()
	if f := s.read("attach"); f.Cursor != 43 {
		t.Errorf("attach: %s", f.raw)
	}
	s.attached(43)
	s.event(44, "sourcec")
	s.event(45, "sourced")
	s.event(46, "sourced") // RH42: after a crash of the host, under a new seq
	s.event(47, "sourcee")
	if got := events(t, run, 1); got[0] != 47 {
		t.Errorf("came %v", got)
	}
	// What was dropped as a repetition is acknowledged with what is before it.
	run.Acknowledge(45)
	if f := s.read("cursor"); f.Cursor != 46 {
		t.Errorf("cursor: %s", f.raw)
	}
	run.Acknowledge(1000) // nobody can hold what did not come
	if f := s.read("cursor"); f.Cursor != 47 {
		t.Errorf("cursor: %s", f.raw)
	}
}

func TestRH47_ARunIsAttachedAgainWhileItsHostIsAway(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.dial()
	s := g.next()
	attaching := later(func() (*control.Run, error) { return c.Attach(context.Background(), attachment(0)) })
	for range 3 {
		s.read("attach")
		s.refused(wire.CodeHostOffline)
	}
	s.read("attach")
	s.attached(7)
	run, err := get(t, attaching)
	if err != nil || run.Runner().ID != "host" {
		t.Fatalf("%+v, %v", run, err)
	}
	s.refused(wire.CodeHostOffline)
	if f := s.read("attach"); f.Cursor != 7 {
		t.Errorf("attach: %s", f.raw)
	}
	s.attached(7)
	s.refused("superseded")
	for _, err := range run.Events(context.Background()) {
		if wire.CodeOf(err) != "superseded" {
			t.Errorf("ended with %v", err)
		}
	}
	if _, err := get(t, prompt(run, "x")); wire.CodeOf(err) != "superseded" {
		t.Errorf("a prompt: %v", err)
	}
}

func TestControl_WhatEndsAClient(t *testing.T) {
	t.Parallel()
	g, c, run, s := attach(t, 0)
	// It comes back after a restart, when it is told to.
	s.push(wire.ControlGoaway{Type: "goaway", Goaway: wire.Goaway{Reason: "shutting_down", RetryAfterMs: 30}})
	left := time.Now()
	go func() { _ = s.ws.Close(websocket.StatusGoingAway, "shutting down") }()
	s2 := g.next()
	if away := time.Since(left); away < 30*time.Millisecond {
		t.Errorf("back after %v", away)
	}
	s2.read("attach")
	s2.attached(0)
	// The end of its token is the end.
	go func() { _ = s2.ws.Close(4401, "session or token ended") }()
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the client lives on")
	}
	if err := c.Err(); wire.CodeOf(err) != wire.CodeUnauthorized {
		t.Errorf("ended with %v", err)
	}
	if _, err := get(t, prompt(run, "x")); wire.CodeOf(err) != wire.CodeUnauthorized {
		t.Errorf("a prompt: %v", err)
	}
	if _, err := c.Attach(context.Background(), attachment(0)); wire.CodeOf(err) != wire.CodeUnauthorized {
		t.Errorf("attach: %v", err)
	}
}

func TestControl_DialTellsWhyItIsRefused(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.refuse.Store(401)
	_, err := control.Dial(context.Background(), control.Options{URL: g.URL + "/base", Token: "token"})
	if wire.CodeOf(err) != wire.CodeUnauthorized {
		t.Errorf("%v", err)
	}
	if _, err := control.Dial(context.Background(), control.Options{URL: "ftp://x"}); err == nil {
		t.Error("an address of another kind is taken")
	}
}

func TestControl_DetachTellsTheCursorFirst(t *testing.T) {
	t.Parallel()
	_, c, run, s := attach(t, 0)
	s.event(1, "a")
	events(t, run, 1)
	run.Acknowledge(1)
	detaching := later(func() (struct{}, error) { return struct{}{}, run.Detach(context.Background()) })
	if f := s.read("cursor"); f.Cursor != 1 {
		t.Errorf("cursor: %s", f.raw)
	}
	s.read("detach")
	if _, err := get(t, detaching); err != nil {
		t.Error(err)
	}
	for _, err := range run.Events(context.Background()) {
		if !errors.Is(err, control.ErrClosed) {
			t.Errorf("ended with %v", err)
		}
	}
	// The session is free for another run.
	next := attachment(1)
	attaching := later(func() (*control.Run, error) { return c.Attach(context.Background(), next) })
	s.read("attach")
	s.attached(1)
	if _, err := get(t, attaching); err != nil {
		t.Error(err)
	}
	if _, err := c.Attach(context.Background(), next); err == nil {
		t.Error("two runs of one session are attached")
	}
}

func TestControl_AttachEndsWithItsContext(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.dial()
	s := g.next()
	ctx, cancel := context.WithCancel(context.Background())
	attaching := later(func() (*control.Run, error) { return c.Attach(ctx, attachment(0)) })
	s.read("attach")
	cancel()
	if _, err := get(t, attaching); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	s.read("detach")
}
