package native_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestF24_FaultsWhileASteerIsTaken goes through what the store may answer, in both
// ways to come to it.
func TestF24_FaultsWhileASteerIsTaken(t *testing.T) {
	t.Parallel()
	const open, over, failed, unknown = "goes on", "completes without it", "fails", "is left to recovery"
	for _, tt := range []struct {
		name      string
		err       error
		persisted bool
		whole     string // what the turn does after a whole response
		cut       string // and after one that the steer cut
	}{
		{"not stored", errDisk, false, open, open},
		{"stored, and told otherwise", errDisk, true, open, open},
		{"not stored, for good", native.ErrStoreClosed, false, over, failed},
		{"unknown, not stored", errUnknown, false, unknown, unknown},
		{"unknown, stored", errUnknown, true, unknown, unknown},
	} {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprintf("F24 %s, cut %v", tt.name, cut), func(t *testing.T) {
				t.Parallel()
				h, client, s := begin(t)
				if tt.persisted {
					h.store.set(nil, once("TakeSteer", tt.err))
				} else {
					h.store.set(once("TakeSteer", tt.err), nil)
				}
				st, does := steer(1), tt.whole
				st.Now = cut
				settled := h.offer(s, st)
				if cut {
					does = tt.cut
				} else {
					client.ends <- whole()
				}
				requests := 1
				switch does {
				case open:
					requests = 2
					client.await(t, 2)
					want(t, settled, relay.SteerResult{Taken: true, At: uint64(len(answer1)), Cut: cut})
					client.ends <- whole()
				case unknown:
					receive(t, h.Broken(), "the runtime to be broken")
					if res, known := <-settled; known {
						t.Errorf("settled as %+v although nobody can know", res)
					}
					_, err := h.OfferSteer(t.Context(), s.ThreadID, s.TurnID, st)
					wantCode(t, err, wire.CodeNativeUnavailable)
					h.known = true
					h.reopen()
				default:
					want(t, settled, turnOver)
				}
				c := h.end(s.ThreadID, s.TurnID)
				status := map[string]string{
					open: wire.NativeCompleted, over: wire.NativeCompleted, failed: wire.NativeFailed, unknown: wire.NativeInterrupted,
				}[does]
				stored := does == open || does == unknown && tt.persisted
				if c.Turn.Status != status || (len(c.Outcome.Deliveries) == 1) != stored || len(client.requests()) != requests {
					t.Errorf("it %s: end %+v %+v after %d requests", does, c.Turn, c.Outcome, len(client.requests()))
				}
				again := turnOver
				if stored {
					again = relay.SteerResult{Taken: true, At: uint64(len(answer1)), Cut: cut}
				}
				want(t, h.offer(s, st), again)
			})
		}
	}
}

func TestRH70_ACrashKeepsWhatWasTaken(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	settled := h.offer(s, steer(1))
	client.ends <- whole()
	client.await(t, 2)
	taken := relay.SteerResult{Taken: true, At: uint64(len(answer1))}
	want(t, settled, taken)
	waiting := h.offer(s, steer(2)) // is lost with the process
	h.await(s.ThreadID, "the second answer", func(e []relay.NativeEvent) bool {
		return len(of(e, s.TurnID, wire.EventItemDelta)) == 2
	})
	c := h.crash(client)
	end := c.end(s.ThreadID, s.TurnID)
	wantOutcome := wire.Outcome{
		Error:      wire.CodeHostRestarted,
		Responses:  []wire.ResponseUsage{{ResponseID: "resp_1", Usage: *reported(1)}},
		Deliveries: []wire.Delivered{{DeliveryID: delivery(1), At: uint64(len(answer1))}},
	}
	if !end.Recovered || end.Turn.Status != wire.NativeInterrupted || !reflect.DeepEqual(*end.Outcome, wantOutcome) {
		t.Errorf("end %+v %+v", end.Turn, end.Outcome)
	}
	if reported := `{"input_tokens":100,"output_tokens":1,"reasoning_tokens":1}`; string(end.Turn.Usage) != reported {
		t.Errorf("F26: usage %s, want %s", end.Turn.Usage, reported)
	}
	want(t, c.offer(s, steer(1)), taken)
	want(t, c.offer(s, steer(2)), turnOver)
	c.start(turnOf(s.ThreadID, 2))
	client.await(t, 3)
	const history = "user: question 1\nassistant: answer 1. \nuser: steer 1\n" +
		"assistant: answer 2.||[This answer was interrupted here and is incomplete.]\nuser: question 2\n"
	if got := transcript(client.requests()[2]); got != history {
		t.Errorf("the next turn asks\n%swant\n%s", got, history)
	}
	h.close()
	want(t, waiting, turnOver)
}

func TestRH70_ClosingRejectsWhatWaits(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	settled := h.offer(s, steer(1))
	h.known = true
	h.reopen()
	want(t, settled, turnOver)
	if c := h.end(s.ThreadID, s.TurnID); c.Outcome.Error != wire.CodeHostRestarted || c.Outcome.Deliveries != nil || len(client.requests()) != 1 {
		t.Errorf("end %+v %+v", c.Turn, c.Outcome)
	}
}

// TestSQ27_ADeliveryIsStoredOnce: the store itself holds the rule.
func TestSQ27_ADeliveryIsStoredOnce(t *testing.T) {
	t.Parallel()
	h, client, s := begin(t)
	taken := h.offer(s, steer(1))
	client.ends <- whole()
	client.await(t, 2)
	<-taken
	before := len(h.events(s.ThreadID))
	st := native.Steering{
		Step:   native.Step{Delivered: wire.Delivered{DeliveryID: delivery(1)}, ThreadID: s.ThreadID, TurnID: s.TurnID},
		ItemID: "item_again", Text: "again", Event: native.Event{Name: "turn.steered", Payload: []byte(`{}`)},
	}
	if err := h.store.TakeSteer(t.Context(), st); err != nil {
		t.Errorf("taken again by its turn: %v, want nothing to happen", err)
	}
	st.TurnID = "turn_other"
	if err := h.store.TakeSteer(t.Context(), st); !errors.Is(err, native.ErrTaken) {
		t.Errorf("taken by another turn: %v, want ErrTaken", err)
	}
	client.ends <- whole()
	h.end(s.ThreadID, s.TurnID)
	st.TurnID, st.DeliveryID = s.TurnID, delivery(2)
	if err := h.store.TakeSteer(t.Context(), st); !errors.Is(err, native.ErrOver) {
		t.Errorf("taken after the end: %v, want ErrOver", err)
	}
	if got := len(of(h.events(s.ThreadID), s.TurnID, "turn.steered")); got != 1 || len(h.events(s.ThreadID)) > before+2 {
		t.Errorf("%d turn.steered, %d events", got, len(h.events(s.ThreadID)))
	}
}
