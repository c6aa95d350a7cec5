package chat_test

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/relay/wire"
)

// spans records what a rig tells.
type spans struct {
	*rig
	rec *tracetest.SpanRecorder
}

func traced(t testing.TB, with ...func(*rig)) *spans {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	r := newRig(t, append(with, func(r *rig) {
		r.config = func(c *chat.Config) { c.Tracer = provider.Tracer("test") }
	})...)
	return &spans{r, rec}
}

// since gives the spans that ended since the first n.
func (s *spans) since(n int) []sdktrace.ReadOnlySpan { return s.rec.Ended()[n:] }

func (s *spans) count() int { return len(s.rec.Ended()) }

func named(list []sdktrace.ReadOnlySpan, name string) (out []sdktrace.ReadOnlySpan) {
	for _, span := range list {
		if span.Name() == name {
			out = append(out, span)
		}
	}
	return out
}

// tags are the attributes of a span as text, sorted.
func tags(span sdktrace.ReadOnlySpan) string {
	var list []string
	for _, kv := range span.Attributes() {
		list = append(list, fmt.Sprintf("%s=%s", kv.Key, kv.Value.String()))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// one gives the only span of a name, and checks its attributes.
func (s *spans) one(list []sdktrace.ReadOnlySpan, name, want string) sdktrace.ReadOnlySpan {
	s.Helper()
	found := named(list, name)
	if len(found) != 1 {
		s.Fatalf("%d spans %s", len(found), name)
	}
	if got := tags(found[0]); want != "" && got != want {
		s.Fatalf("%s\n got %s\nwant %s", name, got, want)
	}
	return found[0]
}

// stages are the names of the timing spans, sorted.
func stages(list []sdktrace.ReadOnlySpan) string {
	var names []string
	for _, span := range list {
		if name, ok := strings.CutPrefix(span.Name(), "api_dispatch_"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestSQ9_EachStageOfAFirstSendIsToldOnce, and none of those that only an existing
// thread has.
func TestSQ9_EachStageOfAFirstSendIsToldOnce(t *testing.T) {
	t.Parallel()
	s := traced(t)
	s.say("", "hi")
	list := s.since(0)
	want := "admission_lock_wait build_input check_admission claim enqueue load_authorize_agent persist_event persist_launch " +
		"persist_replacement pre_create prepare_callbacks resolve_admission resolve_claim_snapshot resolve_client_event " +
		"resolve_thread validate_model validate_revocation"
	if got := stages(list); got != want {
		t.Fatalf("stages\n got %s\nwant %s", got, want)
	}
	whole := s.one(list, "api_dispatch_pre_create", "attachments=0 span_kind=top_level success=true turn_source=none")
	for _, name := range []string{"resolve_client_event", "load_authorize_agent", "validate_model", "check_admission", "enqueue"} {
		span := s.one(list, "api_dispatch_"+name, "span_kind=nested success=true")
		if span.Parent().SpanID() != whole.SpanContext().SpanID() {
			t.Errorf("%s does not stand within pre_create", name)
		}
	}
	enqueue := s.one(list, "api_dispatch_enqueue", "")
	for _, name := range []string{"resolve_thread", "validate_revocation", "persist_event"} {
		if span := s.one(list, "api_dispatch_"+name, ""); span.Parent().SpanID() != enqueue.SpanContext().SpanID() {
			t.Errorf("%s does not stand within enqueue", name)
		}
	}
	s.one(list, "api_dispatch_prepare_callbacks", "http_callbacks=0 internal_callbacks=1 span_kind=nested success=true")
}

// TestCG70_CG72_AQueuedMessageIsMeasuredToo: its claim with the two phases of it, its
// input, and what only an existing thread has (SQ9).
func TestCG70_CG72_AQueuedMessageIsMeasuredToo(t *testing.T) {
	t.Parallel()
	s := traced(t)
	first := s.say("", "one")
	before := s.count()
	s.say(first.ThreadID, "two")
	want := "check_admission enqueue load_authorize_agent load_thread_snapshot persist_event pre_create resolve_client_event " +
		"resolve_thread thread_lock_wait touch_thread_sort validate_model validate_revocation"
	if got := stages(s.since(before)); got != want {
		t.Fatalf("stages of a message that waits\n got %s\nwant %s", got, want)
	}
	s.accept()
	before = s.count()
	s.end(*first.TurnID, completed())
	s.until("the claim is told", func() bool { return len(named(s.since(before), "api_dispatch_claim")) > 0 })
	list := s.since(before)
	s.one(list, "api_dispatch_claim", "queue_first_association_kind=user_message queue_first_claim_result=claimed "+
		"queue_first_launch_outcome=launched span_kind=top_level success=true")
	for _, name := range []string{"resolve_claim_snapshot", "persist_replacement"} {
		s.one(list, "api_dispatch_"+name, "queue_first_association_kind=user_message span_kind=nested success=true")
	}
	s.one(list, "api_dispatch_build_input", "span_kind=top_level success=true")
	for _, name := range []string{"load_model_pin", "load_session_state"} {
		s.one(list, "api_dispatch_"+name, "span_kind=nested success=true")
	}
}

// TestSQ4_ANewConversationIsToldOnce: a record of its own, not a timing one.
func TestSQ4_ANewConversationIsToldOnce(t *testing.T) {
	t.Parallel()
	s := traced(t)
	reply := s.say("", "hi")
	binding := ""
	s.must(s.sql.Chat().View(s.ctx, func(tx gateway.ChatTx) error {
		turn, err := tx.Turn(s.ctx, *reply.TurnID)
		binding = turn.BindingID
		return err
	}))
	span := s.one(s.since(0), "chat_thread_session_binding_persisted", fmt.Sprintf(
		"binding_action=initialized duration_ms=0 session_id=%s session_turn_id=%s source=api success=true surface=chat thread_id=%s turn_id=%[2]s turn_status=pending",
		binding, *reply.TurnID, reply.ThreadID))
	if !span.StartTime().Equal(span.EndTime()) {
		t.Error("the record has a duration")
	}
	s.accept()
	s.end(*reply.TurnID, completed())
	before := s.count()
	s.say(reply.ThreadID, "again")
	if again := named(s.since(before), "chat_thread_session_binding_persisted"); len(again) != 0 {
		t.Error("the conversation goes on, and is told as if it were new")
	}
	s.routes.Use(hostID, "beta")
	s.end(s.active(reply.ThreadID), completed())
	before = s.count()
	s.say(reply.ThreadID, "with another model")
	if got := tags(s.one(s.since(before), "chat_thread_session_binding_persisted", "")); !strings.HasPrefix(got, "binding_action=continued ") {
		t.Errorf("record %s", got)
	}
}

// active takes the turn in progress to its host.
func (r *rig) active(threadID string) string {
	r.Helper()
	r.accept()
	return r.thread(threadID).Turn.TurnID
}

// TestSQ10_AD16_SpansHoldNoContent: no prompt, no name, no id of a thread, an event
// or an assistant, and no key that could hold one.
func TestSQ10_AD16_SpansHoldNoContent(t *testing.T) {
	t.Parallel()
	s := traced(t)
	a := s.assistant(ann, gateway.CreateAgentRequest{DisplayName: "canary-name", Instructions: "canary-instructions", Model: "beta"})
	secrets := []string{"canary", a.ID, ann.AccountID, ann.OrgID, hostID, "beta", "alpha"}
	event := func(q *gateway.SendRequest) {
		q.AgentID = a.ID
		secrets = append(secrets, q.ClientEventID)
	}
	first := s.say("", "canary-prompt", event)
	secrets = append(secrets, first.ThreadID, *first.TurnID)
	s.say(first.ThreadID, "canary-queued", event)
	_, err := s.Send(s.ctx, ann, gateway.SendRequest{ThreadID: first.ThreadID, ClientEventID: id(), Model: "canary-model", UserMessage: text("x")})
	wantCode(t, err, gateway.CodeModelUnknown)
	s.accept()
	s.host.Say(s.runOf(*first.TurnID), "canary-answer")
	s.deliver()
	s.end(*first.TurnID, completed())
	secrets = append(secrets, s.wantTurn(first.ThreadID, "canary-queued"))
	s.routes.Use(hostID)
	failed := s.say("", "canary-undeliverable")
	secrets = append(secrets, failed.ThreadID)
	timing := 0
	for _, span := range s.since(0) {
		if !strings.HasPrefix(span.Name(), "api_dispatch_") {
			continue
		}
		timing++
		text := span.Name() + " " + tags(span) + " " + span.Status().Description
		for _, e := range span.Events() {
			text += " " + e.Name + fmt.Sprint(e.Attributes)
		}
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%q holds %q", text, secret)
			}
		}
		for _, kv := range span.Attributes() {
			if !slices.Contains(allowedKeys, kv.Key) {
				t.Errorf("%s has the key %s", span.Name(), kv.Key)
			}
		}
	}
	if timing < 40 {
		t.Errorf("only %d timing spans", timing)
	}
}

// allowedKeys are all that a timing span may have.
var allowedKeys = []attribute.Key{
	"span_kind", "success", "turn_source", "attachments", "internal_callbacks", "http_callbacks",
	"queue_first_association_kind", "queue_first_claim_result", "queue_first_launch_outcome",
}

// TestSQ11_TheEndOfATurnIsNoHTTPCall: the chat has nothing that it could make one
// with.
func TestSQ11_TheEndOfATurnIsNoHTTPCall(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		read++
		for _, i := range parsed.Imports {
			if path := strings.Trim(i.Path.Value, `"`); path == "net" || path == "net/http" || path == "os/exec" {
				t.Errorf("%s imports %s", f.Name(), path)
			}
		}
	}
	if read < 10 {
		t.Fatalf("only %d files were read", read)
	}
}

// TestCG78_ALostClaimIsTold, and nothing else of it. The recall comes between the
// look of a drain at the message and its claim.
func TestCG78_ALostClaimIsTold(t *testing.T) {
	t.Parallel()
	s := traced(t)
	routes := &hookedRoutes{Routes: s.routes}
	plain := s.config
	s.config = func(c *chat.Config) {
		plain(c)
		c.Routes = routes
	}
	s.respawn()
	first := s.say("", "one")
	s.accept()
	queued := s.say(first.ThreadID, "two")
	before := s.count()
	routes.once(func() {
		_, err := s.Recall(s.ctx, ann, gateway.RecallRequest{ThreadID: first.ThreadID, RevokesEventID: queued.EventID})
		s.must(err)
	})
	s.end(*first.TurnID, completed())
	s.until("the claim is told", func() bool { return len(named(s.since(before), "api_dispatch_claim")) == 1 })
	list := s.since(before)
	s.one(list, "api_dispatch_claim", "queue_first_association_kind=user_message queue_first_claim_result=lost "+
		"queue_first_launch_outcome=claim_lost span_kind=top_level success=true")
	if got := named(list, "api_dispatch_persist_replacement"); len(got) != 0 {
		t.Error("a lost claim has replaced something")
	}
	if th := s.thread(first.ThreadID); th.Turn != nil || th.Waiting != 0 {
		t.Errorf("thread %s", asJSON(t, th))
	}
}

// hookedRoutes runs something before it resolves a model.
type hookedRoutes struct {
	gateway.Routes
	mu     sync.Mutex
	before func()
}

func (h *hookedRoutes) once(before func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = before
}

func (h *hookedRoutes) Resolve(ctx context.Context, actor gateway.Actor, model string, at gateway.Placement) (gateway.Route, error) {
	h.mu.Lock()
	before := h.before
	h.before = nil
	h.mu.Unlock()
	if before != nil {
		before()
	}
	return h.Routes.Resolve(ctx, actor, model, at)
}

// TestSQ56_ATurnThatWaitsForItsOrgIsTold with how many do; its admission is resolved
// once, and it is stored in one piece.
func TestSQ56_ATurnThatWaitsForItsOrgIsTold(t *testing.T) {
	t.Parallel()
	s := traced(t, func(r *rig) { r.limits.OrgConcurrentTurns = 1 })
	s.say("", "one")
	before := s.count()
	second := s.say("", "two")
	wantDisposition(t, second, gateway.DispositionOrgQueued)
	list := s.since(before)
	s.one(list, "enqueue_turn", "duration_ms=0 queue_depth=1 source=api success=true surface=chat turn_id="+*second.TurnID)
	s.one(list, "api_dispatch_resolve_admission", "")
	s.one(list, "api_dispatch_persist_launch", "")
	if got := tags(s.one(list, "chat_thread_session_binding_persisted", "")); !strings.Contains(got, "binding_action=initialized") || !strings.HasSuffix(got, "turn_status=queued") {
		t.Errorf("record %s", got)
	}
	if got := tags(s.one(list, "api_dispatch_claim", "")); !strings.Contains(got, "queue_first_launch_outcome=org_queued") {
		t.Errorf("claim %s", got)
	}
	before = s.count()
	third := s.say("", "three")
	if got := tags(s.one(s.since(before), "enqueue_turn", "")); !strings.Contains(got, "queue_depth=2 ") {
		t.Errorf("record of %s: %s", *third.TurnID, got)
	}
}

// TestSQ62_ATurnIsEligibleOnce, also when its send is repeated.
func TestSQ62_ATurnIsEligibleOnce(t *testing.T) {
	t.Parallel()
	s := traced(t, func(r *rig) { r.routes.Use(hostID) })
	req := gateway.SendRequest{ClientEventID: id(), UserMessage: text("hi")}
	first, err := s.Send(s.ctx, ann, req)
	s.must(err)
	req.ThreadID = first.ThreadID
	again, err := s.Send(s.ctx, ann, req)
	s.must(err)
	if first.Disposition != gateway.DispositionFailed || !again.Replayed || *again.TurnID != *first.TurnID {
		t.Fatalf("replies %s, %s", asJSON(t, first), asJSON(t, again))
	}
	s.one(s.since(0), "first_assistant_message_eligible", "duration_ms=0 source=api success=true surface=host turn_id="+*first.TurnID)
	if got := tags(s.one(s.since(0), "api_dispatch_claim", "")); !strings.Contains(got, "queue_first_launch_outcome=failed") {
		t.Errorf("claim %s", got)
	}
}

// TestTelemetry_WhatFailedIsTold: with its code, and of a transaction that was
// undone nothing.
func TestTelemetry_WhatFailedIsTold(t *testing.T) {
	t.Parallel()
	s := traced(t)
	_, err := s.Send(s.ctx, ann, gateway.SendRequest{ThreadID: id(), ClientEventID: id(), UserMessage: text("hi")})
	wantCode(t, err, wire.CodeNotFound)
	span := s.one(s.since(0), "api_dispatch_pre_create", "attachments=0 span_kind=top_level success=false turn_source=none")
	if span.Status().Description != string(wire.CodeNotFound) {
		t.Errorf("status %+v", span.Status())
	}
	made, err := s.CreateThread(s.ctx, ann, gateway.CreateThreadRequest{ClientThreadID: id()})
	s.must(err)
	before := s.count()
	_, err = s.Send(s.ctx, ann, gateway.SendRequest{ClientThreadID: made.ThreadID, ClientEventID: id(), UserMessage: text("hi")})
	wantCode(t, err, gateway.CodeClientThreadIDInUse)
	if got := stages(s.since(before)); strings.Contains(got, "enqueue") || strings.Contains(got, "claim") {
		t.Errorf("stages %s", got)
	}
}

// TestTelemetry_StandsWithinTheCallersSpan.
func TestTelemetry_StandsWithinTheCallersSpan(t *testing.T) {
	t.Parallel()
	s := traced(t)
	caller := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	})
	_, err := s.Send(trace.ContextWithSpanContext(s.ctx, caller), ann, gateway.SendRequest{ClientEventID: id(), UserMessage: text("hi")})
	s.must(err)
	for _, span := range s.since(0) {
		if span.SpanContext().TraceID() != caller.TraceID() {
			t.Errorf("%s stands in a trace of its own", span.Name())
		}
	}
}

// TestTimeline_IsTheLifeOfATurn in order, with codes and ids alone.
func TestTimeline_IsTheLifeOfATurn(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		r.limits.OrgConcurrentTurns = 1
		r.respawn()
		blocker := r.say("", "canary one")
		received := r.now().Add(-time.Second)
		reply := r.say("", "canary two", func(q *gateway.SendRequest) { q.ReceivedAt = received })
		r.tick(time.Second)
		r.interrupt(blocker.ThreadID, *blocker.TurnID)
		r.until("the turn goes on", func() bool { return r.turn(*reply.TurnID).Status == gateway.TurnPending })
		r.accept()
		r.host.Say(r.runOf(*reply.TurnID), "canary text")
		r.deliver()
		r.tick(time.Second)
		r.end(*reply.TurnID, completed())
		turn := r.turn(*reply.TurnID)
		var stages []string
		for i, m := range turn.Timeline {
			stages = append(stages, m.Stage)
			if strings.ContainsAny(m.Detail, " \n") || strings.Contains(m.Detail, "canary") {
				t.Errorf("%s tells %q", m.Stage, m.Detail)
			}
			if i > 0 && m.At.Before(turn.Timeline[i-1].At.Time) {
				t.Errorf("%s is before %s", m.Stage, turn.Timeline[i-1].Stage)
			}
		}
		if got := strings.Join(stages, " "); got != "received queued org_queued dequeued sent running first_text completed" {
			t.Errorf("timeline %s", got)
		}
		if at := turn.Timeline[0].At; !at.Equal(received) {
			t.Errorf("CG70: received at %s, want %s", at, received)
		}
	})
}
