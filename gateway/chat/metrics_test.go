package chat_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/relay/wire"
)

// exposition reads what a scrape would.
func exposition(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestMetrics_CountWhatHappened: read from the exposition, as Prometheus would.
func TestMetrics_CountWhatHappened(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	r := newRig(t, func(r *rig) { r.config = func(c *chat.Config) { c.Metrics = reg } })
	want := func(lines ...string) {
		t.Helper()
		got := exposition(t, reg)
		for _, line := range lines {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%q is missing in\n%s", line, got)
			}
		}
	}
	want(`fairlead_chat_sends_total{disposition="refused"} 0`, `fairlead_chat_steers_total{outcome="delivered"} 0`,
		`fairlead_chat_refusals_total{code="insufficient_credits"} 0`, `fairlead_chat_turns_total{state="timeout"} 0`,
		"fairlead_chat_queue_depth 0", "fairlead_chat_queue_oldest_seconds 0")

	req := gateway.SendRequest{ClientEventID: id(), UserMessage: text("canary")}
	first, err := r.Send(r.ctx, ann, req)
	r.must(err)
	_, err = r.Send(r.ctx, ann, req) // repeated: not counted again
	r.must(err)
	_, err = r.Send(r.ctx, ann, gateway.SendRequest{ClientEventID: id(), Model: "canary", UserMessage: text("hi")})
	wantCode(t, err, gateway.CodeModelUnknown)
	r.accept()
	r.say(first.ThreadID, "two")
	r.tick(90 * time.Second)
	r.say(first.ThreadID, "three")
	want(`fairlead_chat_sends_total{disposition="started"} 1`, `fairlead_chat_sends_total{disposition="queued"} 2`,
		`fairlead_chat_refusals_total{code="model_unknown"} 1`, `fairlead_chat_turns_total{state="pending"} 1`,
		`fairlead_chat_turns_total{state="running"} 1`, "fairlead_chat_queue_depth 2", "fairlead_chat_queue_oldest_seconds 90")

	r.host.Say(r.runOf(*first.TurnID), "text")
	r.deliver()
	steer := r.asSteer(first.ThreadID, "left")
	offer := r.reserve(r.runOf(*first.TurnID), "left")
	r.took(offer.Steer, 4, wire.ReceiptDelivered)
	r.end(*first.TurnID, completed())
	r.wantTurn(first.ThreadID, "two")
	want(`fairlead_chat_sends_total{disposition="steering"} 1`, `fairlead_chat_steers_total{outcome="delivered"} 1`,
		`fairlead_chat_turns_total{state="completed"} 1`, "fairlead_chat_first_text_seconds_count 1",
		`fairlead_chat_first_text_seconds_bucket{le="60"} 0`, `fairlead_chat_first_text_seconds_bucket{le="120"} 1`,
		"fairlead_chat_queue_depth 1", `fairlead_chat_turns_total{state="failed"} 0`)
	if got := exposition(t, reg); strings.Contains(got, "canary") || strings.Contains(got, steer.EventID) || strings.Contains(got, first.ThreadID) {
		t.Error("a metric holds what somebody wrote, or an id")
	}
}

// TestMetrics_CountOnlyWhatIsDurable: what a fault undoes is not counted.
func TestMetrics_CountOnlyWhatIsDurable(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	r := newRig(t, func(r *rig) { r.config = func(c *chat.Config) { c.Metrics = reg } })
	made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{ClientThreadID: id()})
	r.must(err)
	_, err = r.Send(r.ctx, ann, gateway.SendRequest{ClientThreadID: made.ThreadID, ClientEventID: id(), UserMessage: text("hi")})
	wantCode(t, err, gateway.CodeClientThreadIDInUse)
	got := exposition(t, reg)
	for _, line := range []string{
		`fairlead_chat_sends_total{disposition="started"} 0`, `fairlead_chat_turns_total{state="pending"} 0`,
		`fairlead_chat_refusals_total{code="client_thread_id_in_use"} 1`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing", line)
		}
	}
}

// TestMetrics_RefusalsInTheThreadAreCounted: once for each message, by code.
func TestMetrics_RefusalsInTheThreadAreCounted(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	r := newRig(t, func(r *rig) { r.config = func(c *chat.Config) { c.Metrics = reg } })
	r.entitle(gateway.EntitlementSuspended, nil)
	r.say("", "hi")
	got := exposition(t, reg)
	for _, line := range []string{
		`fairlead_chat_sends_total{disposition="refused"} 1`, `fairlead_chat_refusals_total{code="insufficient_credits"} 1`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing", line)
		}
	}
}
