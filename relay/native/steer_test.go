package native_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// begin starts a turn on a stage and waits for its first request.
func begin(t testing.TB, opts ...option) (h *host, client *stage, s relay.StartTurn) {
	t.Helper()
	client = newStage()
	h = newHost(t, client, opts...)
	s = turnOf(h.thread(), 1)
	h.start(s)
	client.await(t, 1)
	return h, client, s
}

func TestDecision4_ASteerWaitsForTheResponseAndContinuesTheTurn(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	settled := h.offer(s, steer(1))
	select {
	case res, known := <-settled:
		t.Fatalf("settled as %+v (%v) before the response ended", res, known)
	default:
	}
	client.ends <- whole()
	client.await(t, 2)
	want(t, settled, relay.SteerResult{Taken: true, At: uint64(len(answer1))})
	client.ends <- whole()
	c := h.end(s.ThreadID, s.TurnID)

	if got, want := transcript(client.requests()[1]), "user: question 1\nassistant: answer 1. \nuser: steer 1\n"; got != want {
		t.Errorf("the second request is\n%swant\n%s", got, want)
	}
	wantOutcome := wire.Outcome{
		ResponseID: "resp_2",
		Responses:  []wire.ResponseUsage{{ResponseID: "resp_1", Usage: *reported(1)}, {ResponseID: "resp_2", Usage: *reported(2)}},
		Deliveries: []wire.Delivered{{DeliveryID: delivery(1), At: uint64(len(answer1))}},
	}
	if c.Turn.Status != wire.NativeCompleted || !reflect.DeepEqual(*c.Outcome, wantOutcome) {
		t.Errorf("end %s %+v, want %+v", c.Turn.Status, *c.Outcome, wantOutcome)
	}
	var sum wire.Usage
	if err := json.Unmarshal(c.Turn.Usage, &sum); err != nil || sum.InputTokens != 300 || sum.OutputTokens != 3 || *sum.ReasoningTokens != 3 {
		t.Errorf("usage %s (%v)", c.Turn.Usage, err)
	}
	if got, _ := h.said(s.ThreadID, s.TurnID); got != answer1+answer2 {
		t.Errorf("the ledger holds %q", got)
	}
}

func TestDecision4_NowCutsTheResponse(t *testing.T) {
	t.Parallel()
	for _, raised := range []bool{false, true} {
		t.Run(map[bool]string{false: "at once", true: "raised later"}[raised], func(t *testing.T) {
			t.Parallel()
			// Omitting stopped answers does not tear a turn apart.
			h, client, s := begin(t, stopped(native.StoppedOmit))
			taken := relay.SteerResult{Taken: true, At: uint64(len(answer1)), Cut: true}
			if raised {
				settled := h.offer(s, steer(1))
				defer func() { want(t, settled, taken) }()
			}
			settled := h.offer(s, urgent(1))
			client.await(t, 2)
			want(t, settled, taken)
			client.ends <- whole()
			c := h.end(s.ThreadID, s.TurnID)
			const history = "user: question 1\nassistant: answer 1.||[This answer was interrupted here and is incomplete.]\nuser: steer 1\n"
			if got := transcript(client.requests()[1]); got != history {
				t.Errorf("the second request is\n%s", got)
			}
			if c.Turn.Status != wire.NativeCompleted || len(c.Outcome.Deliveries) != 1 || !c.Outcome.Deliveries[0].Cut {
				t.Errorf("end %+v %+v", c.Turn, c.Outcome)
			}
			if len(c.Outcome.Responses) != 2 {
				t.Errorf("F26: what the cut response reported is lost: %+v", c.Outcome.Responses)
			}
			h.start(turnOf(s.ThreadID, 2))
			client.await(t, 3)
			if got, want := transcript(client.requests()[2]), history+"assistant: answer 2. \nuser: question 2\n"; got != want {
				t.Errorf("the next turn asks\n%swant\n%s", got, want)
			}
			client.ends <- whole()
			h.end(s.ThreadID, turnOf(s.ThreadID, 2).TurnID)
		})
	}
}

func TestDecision4_LaterRequestsHoldTheSteersInTheirPlaces(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	h.offer(s, steer(1))
	client.ends <- whole()
	client.await(t, 2)
	h.offer(s, steer(2))
	client.ends <- whole()
	client.await(t, 3)
	client.ends <- whole()
	h.end(s.ThreadID, s.TurnID)
	const history = "user: question 1\nassistant: answer 1. \nuser: steer 1\nassistant: answer 2. \nuser: steer 2\nassistant: answer 3. \nuser: "
	next := func(name, thread string) {
		t.Helper()
		st := turnOf(thread, 2)
		n := len(client.requests()) + 1
		h.start(st)
		client.await(t, n)
		if got := transcript(client.requests()[n-1]); got != history+"question 2\n" {
			t.Errorf("%s asks\n%s", name, got)
		}
		if err := h.InterruptTurn(t.Context(), thread, st.TurnID); err != nil {
			t.Fatal(err)
		}
		h.end(thread, st.TurnID)
	}
	copied := h.threadFrom(s.ThreadID)
	next("a thread that continues this one", copied)
	next("the thread", s.ThreadID)
	another := h.threadFrom(s.ThreadID)
	h.known = true
	h.reopen() // from what is stored
	st := turnOf(another, 3)
	n := len(client.requests()) + 1
	h.start(st)
	client.await(t, n)
	if got := transcript(client.requests()[n-1]); !strings.HasPrefix(got, history+"question 2\nassistant: ") {
		t.Errorf("read from the store, the conversation is\n%s", got)
	}
	client.ends <- whole()
	h.end(another, st.TurnID)
}

// TestF24_InTheSameTickAsTheEnd: the last moment at which a steer is in time, and
// the first at which it is not, are next to each other.
func TestF24_InTheSameTickAsTheEnd(t *testing.T) {
	t.Parallel()
	t.Run("F24 as the response ends", func(t *testing.T) {
		t.Parallel()
		var h *host
		var s relay.StartTurn
		var settled <-chan relay.SteerResult
		client := &script{}
		client.play = func(_ context.Context, req provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
			if len(req.Messages) == 1 {
				defer func() { settled = h.offer(s, steer(1)) }() // the response has ended
			}
			return provider.Result{Finish: provider.FinishStop}, emit(text("ok"))
		}
		h = newHost(t, client)
		s = turnOf(h.thread(), 1)
		c := h.run(s)
		want(t, settled, relay.SteerResult{Taken: true, At: 2})
		if len(client.requests()) != 2 || len(c.Outcome.Deliveries) != 1 {
			t.Errorf("%d requests, end %+v", len(client.requests()), c.Outcome)
		}
	})
	t.Run("F24 as the end is stored", func(t *testing.T) {
		t.Parallel()
		h, client, s := begin(t)
		storing, goOn := make(chan struct{}), make(chan struct{})
		h.store.set(func(step string) error {
			if step == "CompleteTurn" {
				close(storing)
				<-goOn
			}
			return nil
		}, nil)
		client.ends <- whole()
		receive(t, storing, "the end")
		want(t, h.offer(s, steer(1)), turnOver)
		want(t, h.offer(s, urgent(1)), turnOver)
		close(goOn)
		if c := h.end(s.ThreadID, s.TurnID); c.Turn.Status != wire.NativeCompleted || c.Outcome.Deliveries != nil {
			t.Errorf("end %+v %+v", c.Turn, c.Outcome)
		}
		want(t, h.offer(s, steer(1)), turnOver)
	})
	t.Run("F24 whoever comes first", func(t *testing.T) {
		t.Parallel()
		client := newStage()
		h := newHost(t, client)
		thread := h.thread()
		for n := range 60 {
			s := turnOf(thread, n)
			before := len(client.requests())
			h.start(s)
			client.await(t, before+1)
			var settled <-chan relay.SteerResult
			var both sync.WaitGroup
			both.Go(func() { client.ends <- whole() })
			both.Go(func() { settled = h.offer(s, relay.Steer{DeliveryID: delivery(n), Text: "more", Now: n%2 == 0}) })
			both.Wait()
			res := <-settled
			requests := 1
			if res.Taken {
				requests++
				client.await(t, before+2)
				client.ends <- whole()
			}
			c := h.end(thread, s.TurnID)
			for len(client.ends) > 0 { // a cut request did not take its end
				<-client.ends
			}
			if got := len(client.requests()) - before; got != requests || (len(c.Outcome.Deliveries) == 1) != res.Taken {
				t.Fatalf("F25: %d requests, the end lists %+v, settled as %+v", got, c.Outcome.Deliveries, res)
			}
			if !res.Taken && res != turnOver {
				t.Fatalf("settled as %+v", res)
			}
		}
	})
}

// TestDecision13_AResponseThatFailsEndsTheTurn whatever waits: what is incomplete is
// not continued.
func TestDecision13_AResponseThatFailsEndsTheTurn(t *testing.T) {
	t.Parallel()
	refused := &provider.Failure{Code: wire.CodeModelOverloaded, Partial: provider.Result{ResponseID: "resp_x"}}
	for name, tt := range map[string]struct {
		end  ending
		code wire.Code
	}{
		"incomplete":     {ending{res: provider.Result{Finish: provider.FinishLength}}, wire.CodeModelOutputIncomplete},
		"provider error": {ending{err: refused}, wire.CodeModelOverloaded},
	} {
		for _, later := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", first response", true: ", later response"}[later], func(t *testing.T) {
				t.Parallel()
				h, client, s := begin(t)
				requests := 1
				if later {
					taken := h.offer(s, steer(1))
					client.ends <- whole()
					requests++
					client.await(t, 2)
					want(t, taken, relay.SteerResult{Taken: true, At: uint64(len(answer1))})
				}
				settled := h.offer(s, steer(2))
				client.ends <- tt.end
				want(t, settled, turnOver)
				c := h.end(s.ThreadID, s.TurnID)
				if c.Turn.Status != wire.NativeFailed || c.Outcome.Error != tt.code || len(c.Outcome.Deliveries) != requests-1 {
					t.Errorf("end %s %+v", c.Turn.Status, c.Outcome)
				}
				if got := len(client.requests()); got != requests {
					t.Errorf("F25: %d requests", got)
				}
				h.start(turnOf(s.ThreadID, 2))
				client.await(t, requests+1)
				history := "user: question 2\n"
				if later { // what was whole stays, what failed does not
					history = "user: question 1\nassistant: answer 1. \n" + history
				}
				if got := transcript(client.requests()[requests]); got != history {
					t.Errorf("the next turn asks\n%swant\n%s", got, history)
				}
				client.ends <- whole()
				h.end(s.ThreadID, turnOf(s.ThreadID, 2).TurnID)
			})
		}
	}
}

func TestDecision14_AToolCallIsIgnoredInEachResponse(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	h.offer(s, steer(1))
	client.ends <- ending{res: provider.Result{Finish: provider.FinishToolCall, ToolCall: true}}
	client.await(t, 2)
	client.ends <- whole()
	if c := h.end(s.ThreadID, s.TurnID); c.Turn.Status != wire.NativeCompleted || c.Outcome.Finish != wire.FinishToolCallIgnored {
		t.Errorf("end %+v %+v", c.Turn, c.Outcome)
	}
}

func TestF24_AnInterruptRejectsWhatWaits(t *testing.T) {
	t.Parallel()
	t.Run("F24 offered before", func(t *testing.T) {
		t.Parallel()
		h, client, s := begin(t)
		first, second := h.offer(s, steer(1)), h.offer(s, steer(2))
		if err := h.InterruptTurn(t.Context(), s.ThreadID, s.TurnID); err != nil {
			t.Fatal(err)
		}
		want(t, first, turnOver)
		want(t, second, turnOver)
		want(t, h.offer(s, steer(3)), turnOver)
		if c := h.end(s.ThreadID, s.TurnID); c.Turn.Status != wire.NativeInterrupted || c.Outcome.Deliveries != nil || len(client.requests()) != 1 {
			t.Errorf("end %+v %+v after %d requests", c.Turn, c.Outcome, len(client.requests()))
		}
	})
	for _, stored := range []bool{false, true} {
		name := map[bool]string{false: "F24 about to be taken", true: "F24 just taken"}[stored]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, client, s := begin(t)
			taking, goOn := make(chan struct{}), make(chan struct{})
			wait := func(step string) error {
				if step == "TakeSteer" {
					close(taking)
					<-goOn
				}
				return nil
			}
			if stored {
				h.store.set(nil, wait)
			} else {
				h.store.set(wait, nil)
			}
			settled := h.offer(s, steer(1))
			client.ends <- whole()
			receive(t, taking, "the steer to be taken")
			late := h.offer(s, steer(2))
			if err := h.InterruptTurn(t.Context(), s.ThreadID, s.TurnID); err != nil {
				t.Fatal(err)
			}
			want(t, late, turnOver)
			close(goOn)
			c := h.end(s.ThreadID, s.TurnID)
			deliveries := 0
			if stored {
				deliveries = 1
				want(t, settled, relay.SteerResult{Taken: true, At: uint64(len(answer1))})
			} else {
				want(t, settled, turnOver)
			}
			if c.Turn.Status != wire.NativeInterrupted || len(c.Outcome.Deliveries) != deliveries || len(client.requests()) != 1 {
				t.Errorf("end %+v %+v after %d requests", c.Turn, c.Outcome, len(client.requests()))
			}
		})
	}
}

func TestSQ26_TheSameDeliveryIsTheSameSteer(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	first, again := h.offer(s, steer(1)), h.offer(s, steer(1))
	client.ends <- whole()
	client.await(t, 2)
	taken := relay.SteerResult{Taken: true, At: uint64(len(answer1))}
	want(t, first, taken)
	want(t, again, taken)
	want(t, h.offer(s, urgent(1)), taken) // and cuts nothing
	client.ends <- whole()
	c := h.end(s.ThreadID, s.TurnID)
	if len(c.Outcome.Deliveries) != 1 || len(client.requests()) != 2 {
		t.Errorf("end %+v after %d requests", c.Outcome, len(client.requests()))
	}
	want(t, h.offer(s, steer(1)), taken)
	h.known = true
	h.reopen()
	want(t, h.offer(s, steer(1)), taken)

	other := turnOf(s.ThreadID, 2)
	unknown := relay.SteerResult{Reason: wire.ReasonTurnUnknown}
	want(t, h.offer(other, steer(2)), unknown) // it was never accepted
	h.start(other)
	client.await(t, 3)
	want(t, h.offer(other, steer(1)), unknown) // the delivery is another turn's
	client.ends <- whole()
	h.end(other.ThreadID, other.TurnID)
	_, err := h.OfferSteer(t.Context(), s.ThreadID, s.TurnID, relay.Steer{DeliveryID: delivery(9), Text: " \n"})
	wantCode(t, err, wire.CodeCommandInvalid)
}

// TestF25_NoRequestIsMadeThatWouldBeCut: of steers that wait together, a request is
// made only for the one that nothing behind it cuts.
func TestF25_NoRequestIsMadeThatWouldBeCut(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	first, second := h.offer(s, steer(1)), h.offer(s, urgent(2))
	client.await(t, 2)
	want(t, first, relay.SteerResult{Taken: true, At: uint64(len(answer1)), Cut: true})
	want(t, second, relay.SteerResult{Taken: true, At: uint64(len(answer1)), Cut: true})
	if got, want := transcript(client.requests()[1]), "user: question 1\n"+
		"assistant: answer 1.||[This answer was interrupted here and is incomplete.]\nuser: steer 1\n"+
		"assistant: [This answer was interrupted before it began.]\nuser: steer 2\n"; got != want {
		t.Errorf("the second request is\n%swant\n%s", got, want)
	}
	client.ends <- whole()
	c := h.end(s.ThreadID, s.TurnID)
	if len(c.Outcome.Deliveries) != 2 || len(c.Outcome.Responses) != 2 {
		t.Errorf("end %+v", c.Outcome)
	}
}

func TestSteer_ATurnTakesAHundred(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	for n := range 100 {
		settled := h.offer(s, steer(n))
		client.ends <- whole()
		client.await(t, n+2)
		if res := <-settled; !res.Taken {
			t.Fatalf("steer %d is settled as %+v", n, res)
		}
	}
	want(t, h.offer(s, steer(100)), turnOver)
	client.ends <- whole()
	events := h.await(s.ThreadID, "the end", func(e []relay.NativeEvent) bool { return len(of(e, s.TurnID, wire.EventTurnCompleted)) > 0 })
	if n := len(of(events, s.TurnID, wire.EventTurnCompleted)[0].Payload); n > wire.MaxEnvelopeBytes/2 {
		t.Errorf("its turn.completed has %d bytes", n)
	}
}
