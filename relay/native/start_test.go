package native_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH10_EachTurnGetsItsOwnCommandAndTheThreadsPrompt(t *testing.T) {
	t.Parallel()
	client := says(text("ok"))
	h := newHost(t, client)
	thread := h.thread()
	s := turnOf(thread, 1)
	s.Prompt, s.Model, s.ReasoningEffort, s.MaxOutputTokens = "  look at this \n", "model-2", "high", 99
	s.Images = []wire.Image{{Mime: "image/png", DataBase64: "AAAA"}}
	h.run(s)
	h.run(turnOf(thread, 2))
	calls := client.requests()
	if len(calls) != 2 {
		t.Fatalf("%d requests, want 2", len(calls))
	}
	first := calls[0]
	if first.System != "Be brief." || first.Model != "up/model-2" || first.ReasoningEffort != "high" || first.MaxOutputTokens != 99 {
		t.Errorf("first request: %+v", first)
	}
	if len(first.Messages) != 1 || first.Messages[0].Text != "look at this" || len(first.Messages[0].Images) != 1 {
		t.Errorf("first messages: %+v", first.Messages)
	}
	second := calls[1]
	if second.Model != "up/model-1" || second.ReasoningEffort != "" || second.MaxOutputTokens != 0 {
		t.Errorf("second request: %+v", second)
	}
	if len(second.Messages) != 3 || second.Messages[1].Role != provider.RoleAssistant || second.Messages[1].Text != "ok" ||
		len(second.Messages[0].Images) != 1 || len(second.Messages[2].Images) != 0 {
		t.Errorf("second messages: %+v", second.Messages)
	}
}

func TestRH65_WhatATurnIsStartedWith(t *testing.T) {
	t.Parallel()
	client := says(text("ok"))
	h := newHost(t, client)
	thread := h.thread()
	tests := []struct {
		name   string
		change func(*relay.StartTurn)
		code   wire.Code
	}{
		{"blank prompt", func(s *relay.StartTurn) { s.Prompt = " \t\n " }, wire.CodeCommandInvalid},
		{"invalid UTF-8", func(s *relay.StartTurn) { s.Prompt = "a\xff" }, wire.CodeCommandInvalid},
		{"bad turn id", func(s *relay.StartTurn) { s.TurnID = "turn-1" }, wire.CodeCommandInvalid},
		{"no operation key", func(s *relay.StartTurn) { s.OperationKey = "" }, wire.CodeOperationMismatch},
		{"long operation key", func(s *relay.StartTurn) { s.OperationKey = strings.Repeat("k", 129) }, wire.CodeOperationMismatch},
		{"white space at the edge of the key", func(s *relay.StartTurn) { s.OperationKey = "key " }, wire.CodeOperationMismatch},
		{"control character in the key", func(s *relay.StartTurn) { s.OperationKey = "k\x01y" }, wire.CodeOperationMismatch},
		{"route that is not served", func(s *relay.StartTurn) { s.Model = "unknown" }, wire.CodeRouteNotActive},
		{"thread that is not there", func(s *relay.StartTurn) { s.ThreadID = "thr_missing" }, wire.CodeNativeUnavailable},
	}
	for _, tt := range tests {
		s := turnOf(thread, 1)
		tt.change(&s)
		if got := wire.CodeOf(h.StartTurn(t.Context(), s)); got != tt.code {
			t.Errorf("%s: code %q, want %q", tt.name, got, tt.code)
		}
		if status := h.status(s.ThreadID, s.TurnID); status != "" {
			t.Errorf("%s: the turn is %s, want absent", tt.name, status)
		}
	}
	if n := len(client.requests()); n != 0 {
		t.Errorf("%d requests for refused turns", n)
	}
}

func TestRH65_TheOperationKeyIsNeverStored(t *testing.T) {
	t.Parallel()
	h := newHost(t, says(text("ok")))
	s := turnOf(h.thread(), 1)
	s.OperationKey = "key-that-must-not-be-found"
	h.run(s)
	files, err := filepath.Glob(h.path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(s.OperationKey)) {
			t.Errorf("%s holds the operation key", filepath.Base(f))
		}
	}
	// The same key in another thread is another operation.
	other := turnOf(h.thread(), 2)
	other.OperationKey = s.OperationKey
	h.run(other)
}

func TestRH66_ReplayGivesTheOriginalTurn(t *testing.T) {
	t.Parallel()
	client := hangs(text("working"))
	h := newHost(t, client)
	thread := h.thread()
	s := turnOf(thread, 1)
	s.Context = "note"
	s.Images = []wire.Image{{Mime: "image/png", DataBase64: "AAAA"}}
	h.start(s)
	receive(t, client.said, "the request")

	replay := func(when string) {
		t.Helper()
		if err := h.StartTurn(t.Context(), s); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		changes := map[string]func(*relay.StartTurn){
			"prompt":  func(s *relay.StartTurn) { s.Prompt += "!" },
			"turn id": func(s *relay.StartTurn) { s.TurnID += "x" },
			"model":   func(s *relay.StartTurn) { s.Model = "model-2" },
			"effort":  func(s *relay.StartTurn) { s.ReasoningEffort = "low" },
			"limit":   func(s *relay.StartTurn) { s.MaxOutputTokens = 1 },
			"context": func(s *relay.StartTurn) { s.Context = "another note" },
			"images":  func(s *relay.StartTurn) { s.Images = nil },
			"image":   func(s *relay.StartTurn) { s.Images = []wire.Image{{Mime: "image/png", DataBase64: "BBBB"}} },
		}
		for what, change := range changes {
			c := s
			change(&c)
			if code := wire.CodeOf(h.StartTurn(t.Context(), c)); code != wire.CodeOperationMismatch {
				t.Errorf("%s, another %s: code %q, want %q", when, what, code, wire.CodeOperationMismatch)
			}
		}
		white := s
		white.Prompt = "\n" + s.Prompt + " "
		if err := h.StartTurn(t.Context(), white); err != nil {
			t.Errorf("%s, prompt that trims to the same: %v", when, err)
		}
	}
	replay("running")
	close(client.release)
	h.end(thread, s.TurnID)
	replay("ended")
	h.reopen()
	replay("reopened")
	if n := len(client.requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestRH66_ConcurrentReplaysStartOneTurn(t *testing.T) {
	t.Parallel()
	client := says(text("ok"))
	h := newHost(t, client)
	s := turnOf(h.thread(), 1)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := h.StartTurn(context.Background(), s); err != nil {
				t.Errorf("replay: %v", err)
			}
		})
	}
	wg.Wait()
	h.end(s.ThreadID, s.TurnID)
	if n := len(client.requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestRH67_OneActiveTurnAThread(t *testing.T) {
	t.Parallel()
	client := hangs()
	h := newHost(t, client)
	thread := h.thread()
	h.start(turnOf(thread, 1))
	receive(t, client.said, "the request")
	wantCode(t, h.StartTurn(t.Context(), turnOf(thread, 2)), wire.CodeTurnActive)
	if status := h.status(thread, turnOf(thread, 2).TurnID); status != "" {
		t.Errorf("the second turn is %s, want absent", status)
	}
	h.start(turnOf(h.thread(), 1)) // another thread is free
	close(client.release)
	h.end(thread, turnOf(thread, 1).TurnID)
	h.run(turnOf(thread, 2))

	taken := turnOf(h.thread(), 3)
	taken.TurnID = turnOf(thread, 2).TurnID
	wantCode(t, h.StartTurn(t.Context(), taken), wire.CodeTurnMismatch)
}

func TestRH67_EverythingIsDurableBeforeTheEngineGetsTheWork(t *testing.T) {
	t.Parallel()
	var h *host
	var thread string
	client := &script{}
	client.play = func(_ context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
		s := turnOf(thread, 1)
		if status := h.status(thread, s.TurnID); status != relay.NativeInProgress {
			t.Errorf("at the request the turn is %q", status)
		}
		if n := len(of(h.events(thread), s.TurnID, wire.EventTurnStarted)); n != 1 {
			t.Errorf("at the request the ledger holds %d turn.started", n)
		}
		return provider.Result{Finish: provider.FinishStop}, emit(text("ok"))
	}
	h = newHost(t, client)
	thread = h.thread()
	h.run(turnOf(thread, 1))
}

func TestRH67_FailedAcceptance(t *testing.T) {
	t.Parallel()
	t.Run("not persisted", func(t *testing.T) {
		t.Parallel()
		client := says(text("ok"))
		h := newHost(t, client)
		s := turnOf(h.thread(), 1)
		h.store.set(once("AcceptTurn", errDisk), nil)
		wantCode(t, h.StartTurn(t.Context(), s), wire.CodeNativeUnavailable)
		if status := h.status(s.ThreadID, s.TurnID); status != "" {
			t.Errorf("the turn is %s, want absent", status)
		}
		if n := len(client.requests()); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
		h.run(s) // the identical retry
	})
	for _, persisted := range []bool{false, true} {
		name := map[bool]string{false: "outcome unknown, not persisted", true: "outcome unknown, but persisted"}[persisted]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := says(text("ok"))
			h := newHost(t, client)
			s := turnOf(h.thread(), 1)
			if persisted {
				h.store.set(nil, once("AcceptTurn", errUnknown))
			} else {
				h.store.set(once("AcceptTurn", errUnknown), nil)
			}
			wantCode(t, h.StartTurn(t.Context(), s), wire.CodeNativeUnavailable)
			receive(t, h.Broken(), "the runtime to be broken")
			if _, _, err := h.ReadTurn(t.Context(), s.ThreadID, s.TurnID); err == nil {
				t.Error("a broken runtime tells of a turn")
			}
			wantCode(t, h.StartTurn(t.Context(), s), wire.CodeNativeUnavailable)
			h.reopen()
			if !persisted {
				if status := h.status(s.ThreadID, s.TurnID); status != "" {
					t.Errorf("after reopening the turn is %s, want absent", status)
				}
			} else if c := h.end(s.ThreadID, s.TurnID); c.Outcome.Error != wire.CodeHostRestarted || !c.Recovered {
				t.Errorf("after reopening: %+v", c)
			}
			if n := len(client.requests()); n != 0 {
				t.Errorf("%d requests, want none", n)
			}
		})
	}
}

func TestThreads(t *testing.T) {
	t.Parallel()
	client := says(text("ok"))
	h := newHost(t, client)
	wantCode(t, h.ReadThread(t.Context(), "thr_missing"), wire.CodeNativeUnavailable)
	empty, used := h.thread(), h.thread()
	h.run(turnOf(used, 1))
	wantCode(t, h.DiscardThread(t.Context(), used), wire.CodeNativeUnavailable)
	if err := h.ReadThread(t.Context(), used); err != nil {
		t.Errorf("a thread with turns was discarded: %v", err)
	}
	if err := h.DiscardThread(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	wantCode(t, h.ReadThread(t.Context(), empty), wire.CodeNativeUnavailable)
	wantCode(t, h.StartTurn(t.Context(), turnOf(empty, 1)), wire.CodeNativeUnavailable)
	if !strings.HasPrefix(used, "thr_") || len(used) != len("thr_")+32 || !wire.ValidNativeID(used) {
		t.Errorf("thread id %q has not 128 random bits", used)
	}
	h.store.set(once("CreateThread", errDisk), nil)
	_, err := h.CreateThread(t.Context(), relay.NewThread{Model: "m", ModelProvider: "p", ModelProviderID: "p"})
	wantCode(t, err, wire.CodeNativeUnavailable)
}

func TestRHTrap22_ContinuedThreadHasItsOwnLedger(t *testing.T) {
	t.Parallel()
	client := says(thought("hm"), text("first answer"))
	h := newHost(t, client)
	old := h.thread()
	s := turnOf(old, 1)
	s.Images = []wire.Image{{Mime: "image/png", DataBase64: "AAAA"}}
	h.run(s)
	client.play = ends("never to be told again", provider.Result{Finish: provider.FinishLength}, nil).play
	h.run(turnOf(old, 2))

	next := h.threadFrom(old)
	for _, e := range h.events(next) {
		if e.TurnID != "" || strings.Contains(string(e.Payload), "turn_") || strings.Contains(string(e.Payload), old) {
			t.Errorf("the new ledger tells of the old thread: %+v", e)
		}
	}
	client.play = says(text("second answer")).play
	h.run(turnOf(next, 1))
	h.run(turnOf(h.threadFrom(next), 1))
	calls := client.requests()
	last := calls[len(calls)-1]
	var told []string
	for _, m := range last.Messages {
		told = append(told, m.Text)
	}
	if got := strings.Join(told, "|"); got != "question 1|first answer|question 1|second answer|question 1" {
		t.Errorf("the thread that continues was told %q", got)
	}
	if len(last.Messages[0].Images) != 1 || last.Messages[1].Reasoning != "hm" {
		t.Errorf("pictures or reasoning were lost: %+v", last.Messages[:2])
	}
	_, err := h.CreateThread(t.Context(), relay.NewThread{
		Model: "m", ModelProvider: "p", ModelProviderID: "p", ContinueFrom: "thr_missing",
	})
	wantCode(t, err, wire.CodeNativeUnavailable)
}

var _ relay.Runtime = (*native.Runtime)(nil)
