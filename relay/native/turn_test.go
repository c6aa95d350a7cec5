package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH68_Interrupt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		said []provider.Delta
	}{
		{name: "F20 before the first byte"},
		{name: "F20 in mid-stream", said: []provider.Delta{thought("let me see"), text("half an ans")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := hangs(tt.said...)
			h := newHost(t, client)
			thread := h.thread()
			s := turnOf(thread, 1)
			h.start(s)
			receive(t, client.said, "the request")
			wantCode(t, h.InterruptTurn(t.Context(), thread, "turn_other"), wire.CodeNativeUnavailable)
			for range 2 { // repeating is allowed
				if err := h.InterruptTurn(t.Context(), thread, s.TurnID); err != nil {
					t.Fatal(err)
				}
			}
			c := h.end(thread, s.TurnID)
			if c.Turn.Status != wire.NativeInterrupted || c.Outcome.Error != "" || string(c.Turn.Usage) != "{}" {
				t.Errorf("end: %+v, outcome %+v", c.Turn, c.Outcome)
			}
			if n := len(of(h.events(thread), s.TurnID, "turn.interrupt_requested")); n != 1 {
				t.Errorf("%d turn.interrupt_requested, want 1", n)
			}
			want := ""
			for _, d := range tt.said {
				if d.Kind == provider.DeltaText {
					want += d.Text
				}
			}
			if got, _ := h.said(thread, s.TurnID); got != want {
				t.Errorf("the ledger holds %q, want %q", got, want)
			}
			if err := h.InterruptTurn(t.Context(), thread, s.TurnID); err != nil {
				t.Errorf("interrupt after the end: %v", err)
			}
			client.play = says(text("ok")).play
			h.run(turnOf(thread, 2))
		})
	}
}

func TestRH68_InterruptedWinsOverCompleted(t *testing.T) {
	t.Parallel()
	client := &script{}
	asked, about := make(chan struct{}), make(chan struct{})
	client.play = func(_ context.Context, _ provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
		close(about)
		<-asked // deaf to its context, and done all the same
		return provider.Result{Finish: provider.FinishStop, Usage: &usage, ResponseID: "resp_9"}, nil
	}
	h := newHost(t, client)
	s := turnOf(h.thread(), 1)
	h.start(s)
	receive(t, about, "the request")
	if err := h.InterruptTurn(t.Context(), s.ThreadID, s.TurnID); err != nil {
		t.Fatal(err)
	}
	close(asked)
	c := h.end(s.ThreadID, s.TurnID)
	if c.Turn.Status != wire.NativeInterrupted || c.Outcome.ResponseID != "resp_9" || !strings.Contains(string(c.Turn.Usage), `"input_tokens":7`) {
		t.Errorf("end: %+v %+v, want interrupted with the usage that was reported", c.Turn, c.Outcome)
	}
}

func TestRH68_InterruptThatIsNotStoredIsAnError(t *testing.T) {
	t.Parallel()
	client := hangs()
	h := newHost(t, client)
	s := turnOf(h.thread(), 1)
	h.start(s)
	receive(t, client.said, "the request")
	h.store.set(func(step string) error {
		if step == "AppendDeltas" {
			return nil
		}
		return errDisk
	}, nil)
	wantCode(t, h.InterruptTurn(t.Context(), s.ThreadID, s.TurnID), wire.CodeInterruptFailed)
	h.store.set(nil, nil)
	if c := h.end(s.ThreadID, s.TurnID); c.Turn.Status != wire.NativeInterrupted {
		t.Errorf("end: %+v", c.Turn)
	}
}

func TestRH69_FinalStatus(t *testing.T) {
	t.Parallel()
	retry := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	stop := provider.Result{Finish: provider.FinishStop}
	tests := []struct {
		name   string
		said   string
		res    provider.Result
		err    error
		status string
		want   wire.Outcome
	}{
		{name: "completed", said: "hi", res: stop, status: wire.NativeCompleted},
		{
			name: "an error followed by completed stays failed", said: "hi", res: stop,
			err: &provider.Failure{Code: wire.CodeModelFailed}, status: wire.NativeFailed,
			want: wire.Outcome{Error: wire.CodeModelFailed},
		},
		{
			name: "completed without any output", res: stop, status: wire.NativeFailed,
			want: wire.Outcome{Error: wire.CodeModelOutputEmpty},
		},
		{
			name: "completed with white space alone", said: " \n", res: stop, status: wire.NativeFailed,
			want: wire.Outcome{Error: wire.CodeModelOutputEmpty},
		},
		{
			name: "ended without a result", said: "hi", status: wire.NativeFailed,
			want: wire.Outcome{Error: wire.CodeModelStreamCut},
		},
		{
			name: "an error that is no failure", said: "hi", err: errors.New("boom"), status: wire.NativeFailed,
			want: wire.Outcome{Error: wire.CodeInternal},
		},
		{
			name: "token cap", said: "hi", res: provider.Result{Finish: provider.FinishLength, ResponseID: "r"},
			status: wire.NativeFailed, want: wire.Outcome{Error: wire.CodeModelOutputIncomplete, ResponseID: "r"},
		},
		{
			name: "F34 tool call beside text", said: "hi", res: provider.Result{Finish: provider.FinishToolCall, ToolCall: true},
			status: wire.NativeCompleted, want: wire.Outcome{Finish: wire.FinishToolCallIgnored},
		},
		{
			name: "F34 tool call alone", res: provider.Result{Finish: provider.FinishToolCall, ToolCall: true},
			status: wire.NativeFailed, want: wire.Outcome{Error: wire.CodeModelToolCallUnsupported},
		},
		{
			name: "rate limit", err: &provider.Failure{Code: wire.CodeModelRateLimited, RetryAt: retry, Partial: provider.Result{ResponseID: "r"}},
			status: wire.NativeFailed,
			want:   wire.Outcome{Error: wire.CodeModelRateLimited, RetryAt: "2030-01-02T03:04:05.006Z", ResponseID: "r"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, ends(tt.said, tt.res, tt.err))
			s := turnOf(h.thread(), 1)
			c := h.run(s)
			if c.Turn.Status != tt.status || !reflect.DeepEqual(*c.Outcome, tt.want) {
				t.Errorf("end %s %+v, want %s %+v", c.Turn.Status, *c.Outcome, tt.status, tt.want)
			}
			if string(h.status(s.ThreadID, s.TurnID)) != tt.status {
				t.Errorf("the turn reads as %s", h.status(s.ThreadID, s.TurnID))
			}
			if c.Turn.EffectiveModel != "model-1" || c.Turn.EffectiveProvider != "demo" ||
				c.Turn.EffectiveBillingMode != "metered" || c.Turn.EffectiveBillingSurface != "" || string(c.Turn.Usage) != "{}" {
				t.Errorf("turn %+v", c.Turn)
			}
		})
	}
	t.Run("a client that panics", func(t *testing.T) {
		t.Parallel()
		client := &script{play: func(context.Context, provider.Request, func(provider.Delta) error) (provider.Result, error) {
			panic("oops")
		}}
		h := newHost(t, client)
		if c := h.run(turnOf(h.thread(), 1)); c.Outcome.Error != wire.CodeInternal {
			t.Errorf("outcome %+v", c.Outcome)
		}
	})
}

func TestRH69_TheSlotIsFreeOnceTheEndIsTold(t *testing.T) {
	t.Parallel()
	h := newHost(t, says(text("ok")))
	thread := h.thread()
	for n := range 20 {
		h.run(turnOf(thread, n)) // never refused
	}
}

func TestRH71_EveryDeltaIsDurableBeforeItIsTold(t *testing.T) {
	t.Parallel()
	const pieces = 400
	var all []provider.Delta
	want := ""
	for range pieces {
		all = append(all, text("αβ 🌍 "))
		want += "αβ 🌍 "
	}
	h := newHost(t, says(all...))
	thread := h.thread()
	s := turnOf(thread, 1)
	told := make(chan int, 2*pieces) // what the ledger held at each call, one call after another
	stop := h.Watch(thread, func() { told <- len(h.events(thread)) })
	defer stop()
	h.run(s)
	events := h.events(thread)
	for i := range events {
		if i > 0 && events[i].Seq <= events[i-1].Seq {
			t.Errorf("seq %d follows %d", events[i].Seq, events[i-1].Seq)
		}
	}
	for deadline := time.After(patience); ; {
		select {
		case held := <-told:
			if held < len(events) {
				continue
			}
		case <-deadline:
			t.Errorf("no call saw all %d events", len(events))
		}
		break
	}
	if got, _ := h.said(thread, s.TurnID); got != want {
		t.Errorf("the ledger holds %d bytes, want %d", len(got), len(want))
	}
	deltas := len(of(events, s.TurnID, wire.EventItemDelta))
	if deltas >= pieces {
		t.Errorf("%d deltas in the ledger for %d emitted: nothing was rolled up", deltas, pieces)
	}
}

func TestRH71_TheFirstDeltaGoesAtOnce(t *testing.T) {
	t.Parallel()
	client := hangs(text("now"))
	h := newHost(t, client)
	s := turnOf(h.thread(), 1)
	h.start(s)
	h.await(s.ThreadID, "the first delta", func(events []relay.NativeEvent) bool {
		return len(of(events, s.TurnID, wire.EventItemDelta)) == 1
	})
	close(client.release)
	h.end(s.ThreadID, s.TurnID)
}

func TestF28_PiecesOfTheLedgerEndBetweenCharacters(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("你好🌍", 30_000) // 300 KB in one delta
	hostile := strings.Repeat("<\x01\u2028>", 20_000)
	h := newHost(t, says(text("a"+big), thought(hostile), text(hostile)))
	s := turnOf(h.thread(), 1)
	h.run(s)
	answer, reasoning := h.said(s.ThreadID, s.TurnID)
	if answer != "a"+big+hostile || reasoning != hostile {
		t.Error("the pieces do not make up the text")
	}
	for _, e := range of(h.events(s.ThreadID), s.TurnID, wire.EventItemDelta) {
		if raw, _ := json.Marshal(e.Payload); len(raw) > wire.MaxEnvelopeBytes-4096 {
			t.Errorf("delta %d takes %d bytes of an envelope", e.Seq, len(raw))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringOfN(rapid.SampledFrom([]rune("aé你🌍<\"\x00\u2028")), 0, -1, 200_000).Draw(t, "text")
		var out strings.Builder
		for _, piece := range native.Cut(in) {
			if piece == "" || len(piece) > wire.MaxDeltaBytes || !utf8.ValidString(piece) {
				t.Fatalf("bad piece of %d bytes", len(piece))
			}
			out.WriteString(piece)
		}
		if out.String() != in {
			t.Fatal("the pieces do not make up the text")
		}
	})
}

func TestRH71_FailedAppendIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"AppendDeltas", "CompleteTurn"} {
		t.Run(step+" not persisted", func(t *testing.T) {
			t.Parallel()
			client := says(text("one "), text("two"))
			h := newHost(t, client)
			h.store.set(once(step, errDisk), nil)
			s := turnOf(h.thread(), 1)
			if c := h.run(s); c.Turn.Status != wire.NativeCompleted {
				t.Errorf("end %+v %+v", c.Turn, c.Outcome)
			}
			if got, _ := h.said(s.ThreadID, s.TurnID); got != "one two" {
				t.Errorf("the ledger holds %q", got)
			}
			if n := len(client.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestRH71_UnknownOutcomeIsNeverRepeated(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"AppendDeltas", "CompleteTurn"} {
		for _, persisted := range []bool{false, true} {
			name := step + map[bool]string{false: ", not persisted", true: ", but persisted"}[persisted]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				client := says(text("answer"))
				h := newHost(t, client)
				if persisted {
					h.store.set(nil, once(step, errUnknown))
				} else {
					h.store.set(once(step, errUnknown), nil)
				}
				s := turnOf(h.thread(), 1)
				h.start(s)
				receive(t, h.Broken(), "the runtime to be broken")
				wantCode(t, h.StartTurn(t.Context(), turnOf(s.ThreadID, 2)), wire.CodeNativeUnavailable)
				h.reopen()
				c := h.end(s.ThreadID, s.TurnID)
				wantAnswer, wantStatus := "answer", wire.NativeInterrupted
				if step == "AppendDeltas" && !persisted {
					wantAnswer = ""
				}
				if step == "CompleteTurn" && persisted {
					wantStatus = wire.NativeCompleted
				}
				if got, _ := h.said(s.ThreadID, s.TurnID); got != wantAnswer {
					t.Errorf("the ledger holds %q, want %q", got, wantAnswer)
				}
				if c.Turn.Status != wantStatus {
					t.Errorf("the turn ended %s, want %s", c.Turn.Status, wantStatus)
				}
				if n := len(client.requests()); n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

func TestF25_LateOutputOfATurnThatEndedIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t, says(text("ok")))
	s := turnOf(h.thread(), 1)
	h.run(s)
	before := len(h.events(s.ThreadID))
	late := native.Event{Name: wire.EventItemDelta, At: time.Now(), Payload: json.RawMessage(`{}`)}
	err := h.store.AppendDeltas(t.Context(), s.ThreadID, s.TurnID, []native.Delta{{ItemID: "item_late", Kind: native.ItemAnswer, Event: late}})
	if !errors.Is(err, native.ErrOver) {
		t.Errorf("late delta: %v, want ErrOver", err)
	}
	late.Name = wire.EventTurnCompleted
	err = h.store.CompleteTurn(t.Context(), native.Completion{
		ThreadID: s.ThreadID, TurnID: s.TurnID, Status: relay.NativeFailed, EndedAt: time.Now(), Completed: late,
	})
	if err != nil {
		t.Errorf("second end: %v, want nothing to happen", err)
	}
	if err := h.store.RequestInterrupt(t.Context(), s.ThreadID, s.TurnID, late); err != nil {
		t.Errorf("late interrupt: %v, want nothing to happen", err)
	}
	if after := len(h.events(s.ThreadID)); after != before || h.status(s.ThreadID, s.TurnID) != relay.NativeCompleted {
		t.Errorf("%d events became %d, status %s", before, after, h.status(s.ThreadID, s.TurnID))
	}
}

func TestCoolingAfterARateLimit(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Hour)
	h := newHost(t, ends("", provider.Result{}, &provider.Failure{Code: wire.CodeModelRateLimited, RetryAt: until}))
	h.run(turnOf(h.thread(), 1))
	if got := h.Cooling("demo", "model-1"); !got.Equal(until) {
		t.Errorf("cooling until %v, want %v", got, until)
	}
	if got := h.Cooling("demo", "model-2"); !got.IsZero() {
		t.Errorf("another route cools until %v", got)
	}
}

func TestThreadsRunBesideEachOther(t *testing.T) {
	t.Parallel()
	client := &script{play: func(_ context.Context, req provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
		for _, m := range req.Messages { // an answer shows the whole request
			for word := range strings.FieldsSeq(m.Text) {
				if err := emit(text(word + " ")); err != nil {
					return provider.Result{}, err
				}
			}
		}
		return provider.Result{Finish: provider.FinishStop}, nil
	}}
	h := newHost(t, client)
	var wg sync.WaitGroup
	for i := range 24 {
		thread := h.thread()
		wg.Go(func() {
			want := ""
			for n := range 3 {
				s := turnOf(thread, n)
				s.Prompt = fmt.Sprintf("thread %d round %d", i, n)
				if err := h.StartTurn(context.Background(), s); err != nil {
					t.Errorf("thread %d: %v", i, err)
					return
				}
				c := h.end(thread, s.TurnID)
				want += s.Prompt + " "
				answer, _ := h.said(thread, s.TurnID)
				if c.Turn.Status != wire.NativeCompleted || answer != want {
					t.Errorf("thread %d said %q, want %q", i, answer, want)
				}
				want += answer
			}
		})
	}
	wg.Wait()
}

func TestDemoModelTalks(t *testing.T) {
	t.Parallel()
	client, err := provider.New(provider.Config{API: provider.APIDemo, DemoDelay: -1})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, client)
	s := turnOf(h.thread(), 1)
	c := h.run(s)
	if answer, _ := h.said(s.ThreadID, s.TurnID); c.Turn.Status != wire.NativeCompleted || len(answer) < 10 {
		t.Errorf("end %+v %+v, answer %q", c.Turn, c.Outcome, answer)
	}
	var u wire.Usage
	if err := json.Unmarshal(c.Turn.Usage, &u); err != nil || u.OutputTokens == 0 {
		t.Errorf("usage %s, %v", c.Turn.Usage, err)
	}
}
