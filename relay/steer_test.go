package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

var steers = []string{wire.CapabilityOutcome, wire.CapabilitySteer}

func delivery(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func steer(n int) wire.Steer {
	return wire.Steer{RunID: relaytest.Run, TurnID: relaytest.TurnID(1), DeliveryID: delivery(n), Text: "shorter"}
}

// attached is a host with one turn that runs, and its attachment.
func attached(t *testing.T) (r *rig, a *relay.Attachment, thread, turn string) {
	t.Helper()
	r = newRig(t)
	a = steerable(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	thread, turn = r.started(0)
	next(t, a, 1)
	return r, a, thread, turn
}

func steerable(t *testing.T, r *rig, cursor uint64) *relay.Attachment {
	t.Helper()
	a, err := r.host.Attach(context.Background(), relaytest.Attach(cursor), steers)
	must(t, err)
	t.Cleanup(a.Close)
	return a
}

// receiptOf offers a steer and waits for what becomes of it.
func receiptOf(t *testing.T, a *relay.Attachment, m wire.Steer) wire.Receipt {
	t.Helper()
	receipt, err := a.Steer(context.Background(), m)
	must(t, err)
	got, known := receipt(context.Background())
	if !known {
		t.Fatalf("what became of %s is not known", m.DeliveryID)
	}
	equal(t, "names", got.RunID+got.TurnID+got.DeliveryID, m.RunID+m.TurnID+m.DeliveryID)
	return got
}

func TestSteer_GoesToTheNativeTurn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r, a, thread, turn := attached(t)
	m := steer(1)
	receipt, err := a.Steer(ctx, m)
	must(t, err)
	m.Now = true
	_, err = a.Steer(ctx, m)
	must(t, err)
	equal(t, "offered", r.runtime.Offered(thread, turn)[0], relay.Steer{DeliveryID: delivery(1), Text: "shorter", Now: true})
	r.runtime.Say(thread, turn, "hel")
	r.runtime.Take(thread, turn, delivery(1), 3, true)
	got, known := receipt(ctx)
	want := wire.Receipt{
		RunID: relaytest.Run, TurnID: relaytest.TurnID(1), DeliveryID: delivery(1),
		Outcome: wire.ReceiptDelivered, At: 3, Cut: true,
	}
	if !known || got != want {
		t.Fatalf("receipt is %+v (%v), want %+v", got, known, want)
	}
	next(t, a, 1) // the delta, and nothing of the steer
	equal(t, "the same delivery again", receiptOf(t, a, m), want)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	equal(t, "end", next(t, a, 1)[0].Event, wire.EventTurnCompleted)
	equal(t, "SQ30: the same delivery after the end", receiptOf(t, a, m), want)
	equal(t, "a late one", receiptOf(t, a, steer(2)).Reason, wire.ReasonTurnOver)
}

func TestSteer_Rejected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*wire.Steer)
		want   string
	}{
		{"SQ41 a turn that nobody knows", func(m *wire.Steer) { m.TurnID = relaytest.TurnID(9) }, wire.ReasonTurnUnknown},
		{"SQ42 a text that is too large", func(m *wire.Steer) { m.Text = strings.Repeat("x", wire.MaxSteerBytes) }, wire.ReasonSteerTooLarge},
		{"SQ42 a text that its escapes make too large", func(m *wire.Steer) { m.Text = strings.Repeat("\n", wire.MaxSteerBytes/2) }, wire.ReasonSteerTooLarge},
		{"no delivery id", func(m *wire.Steer) { m.DeliveryID = "x" }, wire.ReasonSteerUnsupported},
		{"no text", func(m *wire.Steer) { m.Text = " " }, wire.ReasonSteerUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, a, thread, turn := attached(t)
			m := steer(1)
			tt.change(&m)
			got := receiptOf(t, a, m)
			equal(t, "outcome", got.Outcome, wire.ReceiptRejected)
			equal(t, "reason", got.Reason, tt.want)
			equal(t, "offered", len(r.runtime.Offered(thread, turn)), 0)
		})
	}
	t.Run("SQ42 exactly the limit passes", func(t *testing.T) {
		t.Parallel()
		r, a, thread, turn := attached(t)
		m := steer(1)
		m.Text = strings.Repeat("x", wire.MaxSteerBytes-wire.SteerSize(m.DeliveryID, ""))
		_, err := a.Steer(context.Background(), m)
		must(t, err)
		equal(t, "offered", len(r.runtime.Offered(thread, turn)), 1)
	})
	t.Run("a gateway that did not take steers up", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		a, err := r.host.Attach(context.Background(), relaytest.Attach(0), nil)
		must(t, err)
		defer a.Close()
		applied(t, a, 1, relaytest.Prompt(1, 1))
		equal(t, "reason", receiptOf(t, a, steer(1)).Reason, wire.ReasonSteerUnsupported)
	})
	t.Run("a turn that was never accepted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		a := steerable(t, r, 0)
		r.runtime.Fail(relaytest.StartTurn, errors.New("no"), false, 1)
		refused(t, a, relaytest.Message(1, relaytest.Prompt(1, 1)), wire.CodeStartFailed)
		equal(t, "reason", receiptOf(t, a, steer(1)).Reason, wire.ReasonTurnUnknown)
	})
}

func TestSteer_Errors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("another run", func(t *testing.T) {
		t.Parallel()
		_, a, _, _ := attached(t)
		m := steer(1)
		m.RunID = "run_other"
		_, err := a.Steer(ctx, m)
		wantCode(t, err, wire.CodeRunNotAuthorized)
	})
	t.Run("a runtime that cannot be asked", func(t *testing.T) {
		t.Parallel()
		r, a, _, _ := attached(t)
		r.runtime.Fail(relaytest.OfferSteer, errors.New("disk"), false, 1)
		_, err := a.Steer(ctx, steer(1))
		wantCode(t, err, wire.CodeNativeUnavailable)
	})
	t.Run("an attachment that ends while a steer waits", func(t *testing.T) {
		t.Parallel()
		r, a, thread, turn := attached(t)
		receipt, err := a.Steer(ctx, steer(1))
		must(t, err)
		newer := steerable(t, r, 1)
		if got, known := receipt(ctx); known {
			t.Fatalf("receipt is %+v", got)
		}
		_, err = a.Steer(ctx, steer(1))
		wantCode(t, err, wire.CodeRunNotAuthorized)
		r.runtime.Take(thread, turn, delivery(1), 0, false)
		equal(t, "SQ26: offered again", receiptOf(t, newer, steer(1)).Outcome, wire.ReceiptDelivered)
	})
	t.Run("a caller that gives up", func(t *testing.T) {
		t.Parallel()
		_, a, _, _ := attached(t)
		receipt, err := a.Steer(ctx, steer(1))
		must(t, err)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if got, known := receipt(ended); known {
			t.Fatalf("receipt is %+v", got)
		}
	})
}

// TestF24_AfterARestartTheHostKnowsWhatWasTaken: also of a turn that is settled.
func TestF24_AfterARestartTheHostKnowsWhatWasTaken(t *testing.T) {
	t.Parallel()
	r, a, thread, turn := attached(t)
	_, err := a.Steer(context.Background(), steer(1))
	must(t, err)
	r.runtime.Take(thread, turn, delivery(1), 7, false)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	next(t, a, 1)
	r.reopen()
	got := receiptOf(t, steerable(t, r, 2), steer(1))
	equal(t, "outcome", got.Outcome, wire.ReceiptDelivered)
	equal(t, "at", got.At, uint64(7))
}

func TestRH40_OfAnOutcomeOnlyWhatIsSafeGoesOut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	outcome := wire.Outcome{
		Responses: []wire.ResponseUsage{
			{ResponseID: "resp_1", Usage: wire.Usage{InputTokens: 3, ServiceTier: "a provider's prose"}},
			{ResponseID: "not an id", Usage: wire.Usage{OutputTokens: 4, ServiceTier: "flex"}},
			{ResponseID: long},
		},
		Deliveries: []wire.Delivered{
			{DeliveryID: delivery(1), At: 3, Cut: true},
			{DeliveryID: "/etc/passwd", At: 3},
			{DeliveryID: delivery(2), At: 1 << 60},
		},
	}
	const responses = `"responses":[{"responseId":"resp_1","usage":{"input_tokens":3,"output_tokens":0}},` +
		`{"responseId":"","usage":{"input_tokens":0,"output_tokens":4,"service_tier":"flex"}},` +
		`{"responseId":"","usage":{"input_tokens":0,"output_tokens":0}}]`
	for _, tt := range []struct {
		name         string
		capabilities []string
		want         string
	}{
		{"RH40 nothing without outcome", []string{wire.CapabilitySteer}, ""},
		{"RH40 no deliveries without steer", []string{wire.CapabilityOutcome}, "{" + responses + "}"},
		{
			"RH40 both", steers,
			"{" + responses + `,"deliveries":[{"deliveryId":"` + delivery(1) + `","at":3,"cut":true}]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a, err := r.host.Attach(context.Background(), relaytest.Attach(0), tt.capabilities)
			must(t, err)
			defer a.Close()
			applied(t, a, 1, relaytest.Prompt(1, 1))
			thread, turn := r.started(0)
			next(t, a, 1)
			r.runtime.Emit(thread, turn, wire.EventTurnCompleted, map[string]any{
				"turn": map[string]any{"status": "completed"}, "outcome": outcome,
			})
			var got struct {
				Outcome json.RawMessage `json:"outcome"`
			}
			must(t, json.Unmarshal(next(t, a, 1)[0].Payload, &got))
			equal(t, "outcome", string(got.Outcome), tt.want)
		})
	}
}

// TestASteerOnTheNativeRuntime goes the whole way of a steered turn, with a restart
// after the steer was taken.
func TestASteerOnTheNativeRuntime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := newNativeHost(t)
	a := g.attach(0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	next(t, a, 1)
	receipt, err := a.Steer(ctx, steer(1))
	must(t, err)
	g.native.answers <- "first"
	got, known := receipt(ctx)
	if !known || got.Outcome != wire.ReceiptDelivered || got.At != 5 || got.Cut {
		t.Fatalf("receipt is %+v (%v)", got, known)
	}
	equal(t, "delta", string(next(t, a, 1)[0].Payload), `{"kind":"agent_message","delta":"first"}`)
	a.Close()
	g.restart()
	a = g.attach(2)
	ended := untilEnd(t, a)
	last := string(ended[len(ended)-1].Payload)
	for _, want := range []string{
		`"error":"host_restarted"`, `"deliveries":[{"deliveryId":"` + delivery(1) + `","at":5}]`,
		`"responses":[{"responseId":"","usage":{"input_tokens":3,"output_tokens":5}}]`,
	} {
		if !contains(last, want) {
			t.Errorf("the end is %s, without %s", last, want)
		}
	}
	equal(t, "the same delivery after the restart", receiptOf(t, a, steer(1)), got)
}
