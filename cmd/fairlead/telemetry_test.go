package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
)

// collector takes spans as OpenTelemetry's own does, and keeps their bytes.
type collector struct {
	mu    sync.Mutex
	paths []string
	sent  bytes.Buffer
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = append(c.paths, r.Method+" "+r.URL.Path)
	_, _ = io.Copy(&c.sent, r.Body)
}

func (c *collector) got() (paths, sent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.paths, ","), c.sent.String()
}

func tracingTo(t *testing.T, endpoint string, log io.Writer) *tracing {
	t.Helper()
	cfg := defaultConfig()
	cfg.Telemetry.OTLPEndpoint = endpoint
	tr, err := openTracing(t.Context(), &cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestTracing_SendsSpansOverOTLP(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": "POST /v1/traces", "/": "POST /v1/traces", "/v1/traces": "POST /v1/traces", "/otel": "POST /otel/v1/traces",
	} {
		c := &collector{}
		server := httptest.NewServer(c)
		defer server.Close()
		tr := tracingTo(t, server.URL+given, io.Discard)
		_, span := tr.tracer().Start(t.Context(), "api_dispatch_pre_create")
		span.End()
		tr.close()
		paths, sent := c.got()
		if paths != want || !strings.Contains(sent, "api_dispatch_pre_create") || !strings.Contains(sent, "service.name") {
			t.Errorf("%q: collector got %q", given, paths)
		}
	}
}

func TestTracing_IsOffWithoutACollector(t *testing.T) {
	t.Parallel()
	tr := tracingTo(t, "", io.Discard)
	if tr.tracer() != nil {
		t.Error("there is a tracer")
	}
	tr.close()
	(*tracing)(nil).close()
}

// TestTracing_ACollectorThatIsAwayHoldsNothingUp: the log tells of it, without an
// end of the program that waits for it.
func TestTracing_ACollectorThatIsAwayHoldsNothingUp(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var log bytes.Buffer
	tr := tracingTo(t, gone.URL, &log)
	begin := time.Now()
	for range 10_000 {
		_, span := tr.tracer().Start(context.Background(), "api_dispatch_pre_create")
		span.End()
	}
	if took := time.Since(begin); took > lastExport {
		t.Errorf("spans took %v", took)
	}
	tr.close()
	if took := time.Since(begin); took > 3*lastExport {
		t.Errorf("the end took %v", took)
	}
	if !strings.Contains(log.String(), "sent") {
		t.Errorf("log %q", log.String())
	}
}

// TestPrices_SQ74_AreThoseOfTheSettings: by the provider's key and the model.
func TestPrices_SQ74_AreThoseOfTheSettings(t *testing.T) {
	t.Parallel()
	cfg := mustRead(t, "billing:\n  prices:\n    - {provider: demo, model: demo, input: 3, output: 15, cache_read: 1, cache_creation: 4}\n", nil)
	got, metered := cfg.Billing.of("demo", "demo")
	if want := (gateway.Prices{Input: 3, Output: 15, CacheRead: 1, CacheCreation: 4}); !metered || got != want {
		t.Errorf("prices %+v, %v", got, metered)
	}
	if _, metered := cfg.Billing.of("demo", "other"); metered {
		t.Error("a model without a price is metered")
	}
}

func TestDeadlineWarning_FollowsTheDeadline(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 115 * time.Minute, "turn: {deadline: 24m}\n": 23 * time.Minute,
		"turn: {deadline: 24m, deadline_warning: 1m}\n": time.Minute,
	} {
		if got := mustRead(t, text, nil).Turn.DeadlineWarning; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestInstruments_AreJoinedInTheProgram: a message of a running gateway shows in the
// metrics, at the collector, and on the bill.
func TestInstruments_AreJoinedInTheProgram(t *testing.T) {
	t.Parallel()
	c := &collector{}
	server := httptest.NewServer(c)
	defer server.Close()
	cfg := mustRead(t, "data_dir: "+t.TempDir()+"\ndefault_model: demo\ntelemetry: {otlp_endpoint: \""+server.URL+"\"}\n"+
		"billing:\n  prices:\n    - {provider: demo, model: demo, input: 1, output: 1}\n", nil)
	log := slog.New(slog.DiscardHandler)
	public := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	if err := makeDataDir(cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	host, err := openHost(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	gw, err := openGateway(t.Context(), cfg, host, public, log, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	joined := make(chan error, 1)
	go func() { joined <- joinLink(ctx, host, gw, log) }()

	actor := gateway.Actor{AccountID: "acc", OrgID: "org", Role: gateway.RoleMember}
	turn := answeredTurn(t, gw, actor)
	if turn.Status != gateway.TurnCompleted || len(turn.Usage) == 0 || turn.UsageEstimate != nil {
		t.Errorf("turn %+v", turn)
	}
	for _, u := range turn.Usage {
		if u.Cost == nil || *u.Cost < 1 {
			t.Errorf("usage %+v costs nothing", u)
		}
	}
	w := httptest.NewRecorder()
	gw.metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`fairlead_chat_sends_total{disposition="started"} 1`, `fairlead_chat_turns_total{state="completed"} 1`,
		"fairlead_chat_queue_depth 0", "fairlead_chat_first_text_seconds_count 1", "fairlead_hosts_online 1",
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	cancel()
	if err := errors.Join(<-joined, gw.socket.Shutdown(t.Context()), gw.close(), host.close()); err != nil {
		t.Error(err)
	}
	if _, sent := c.got(); !strings.Contains(sent, "api_dispatch_pre_create") || !strings.Contains(sent, "api_dispatch_claim") {
		t.Error("the collector got no spans of the message")
	}
}

// answeredTurn sends a message once there is a model for it, and waits for its end.
func answeredTurn(t *testing.T, gw *gatewayParts, actor gateway.Actor) gateway.Turn {
	t.Helper()
	now := time.Now()
	err := gw.store.Accounts().CreateOrg(t.Context(), gateway.Org{ID: actor.OrgID, Name: "Org", CreatedAt: now},
		gateway.AuditEntry{ID: uuid.NewString(), At: now})
	if err != nil {
		t.Fatal(err)
	}
	req := gateway.SendRequest{
		ClientEventID: uuid.NewString(),
		UserMessage:   gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "text", Text: "echo hi"}}},
	}
	deadline := time.Now().Add(30 * time.Second)
	var reply gateway.SendReply
	for reply.TurnID == nil {
		if reply, err = gw.chat.Send(t.Context(), actor, req); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	for {
		turn, err := gw.chat.Turn(t.Context(), actor, gateway.TurnRequest{TurnID: *reply.TurnID})
		if err != nil {
			t.Fatal(err)
		}
		if turn.Status.Final() {
			return turn
		}
		if time.Now().After(deadline) {
			t.Fatalf("the turn is %s", turn.Status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
