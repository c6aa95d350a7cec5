package chat

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// stageName names a measured part of a send (SQ §7.4). Spans of this prefix are
// free of content: they carry traits alone, so no prompt, no name and no id.
type stageName string

// The stages of a message before its turn is made: the whole, and what it is of.
// Those in brackets occur with an existing thread only (SQ9).
const (
	stagePreCreate         stageName = "api_dispatch_pre_create"
	stageResolveEvent      stageName = "api_dispatch_resolve_client_event"
	stageAuthoriseAgent    stageName = "api_dispatch_load_authorize_agent"
	stageResolveThread     stageName = "api_dispatch_resolve_thread"
	stageValidateModel     stageName = "api_dispatch_validate_model"
	stageCheckAdmission    stageName = "api_dispatch_check_admission"
	stageEnqueue           stageName = "api_dispatch_enqueue"
	stageValidateRevoke    stageName = "api_dispatch_validate_revocation"
	stagePersistEvent      stageName = "api_dispatch_persist_event"
	stageTouchThread       stageName = "api_dispatch_touch_thread_sort"      // (existing)
	stageThreadSnapshot    stageName = "api_dispatch_load_thread_snapshot"   // (existing)
	stageThreadLockWait    stageName = "api_dispatch_thread_lock_wait"       // (existing)
	stageSessionContext    stageName = "api_dispatch_session_prompt_context" // (existing)
	stageBuildInput        stageName = "api_dispatch_build_input"
	stageModelPin          stageName = "api_dispatch_load_model_pin"
	stageSessionState      stageName = "api_dispatch_load_session_state"
	stageClaim             stageName = "api_dispatch_claim"
	stageAdmissionLockWait stageName = "api_dispatch_admission_lock_wait"
	stageResolveAdmission  stageName = "api_dispatch_resolve_admission"
	stageResolveClaim      stageName = "api_dispatch_resolve_claim_snapshot"
	stagePersistReplace    stageName = "api_dispatch_persist_replacement"
	stageCallbacks         stageName = "api_dispatch_prepare_callbacks"
	stageLaunch            stageName = "api_dispatch_persist_launch"
)

// Records of one moment. They are no timing records and may name their thread
// and turn.
const (
	recordBinding  = "chat_thread_session_binding_persisted" // SQ4
	recordEnqueue  = "enqueue_turn"                          // SQ56
	recordEligible = "first_assistant_message_eligible"      // SQ62
)

// spanKind says whether a span stands for itself or within another.
type spanKind string

const (
	topLevel spanKind = "top_level"
	nested   spanKind = "nested"
)

// trait is one attribute of a stage. Only the constructors below make traits: they
// are the list of what a stage may tell.
type trait struct{ kv attribute.KeyValue }

func traitAttachments(n int) trait { return trait{attribute.String("attachments", bucket(n))} }
func traitInternalCallbacks(n int) trait {
	return trait{attribute.String("internal_callbacks", bucket(n))}
}
func traitHTTPCallbacks(n int) trait { return trait{attribute.String("http_callbacks", bucket(n))} }

// traitSource says who wrote the message: nobody but the person themselves yet.
func traitSource() trait { return trait{attribute.String("turn_source", "none")} }

// traitAssociation says what a claim takes (CG70).
func traitAssociation() trait {
	return trait{attribute.String("queue_first_association_kind", "user_message")}
}

// Results of a claim (CG78).
func traitClaimed() trait { return trait{attribute.String("queue_first_claim_result", "claimed")} }
func traitLost() trait    { return trait{attribute.String("queue_first_claim_result", "lost")} }
func traitLaunch(outcome string) trait {
	return trait{attribute.String("queue_first_launch_outcome", outcome)}
}

// Outcomes of a launch.
const (
	launchStarted   = "launched"
	launchOrgQueued = "org_queued"
	launchFailed    = "failed"
	launchRefused   = "refused"
	launchLost      = "claim_lost"
)

// bucket tells of a count without telling the count (SQ9).
func bucket(n int) string {
	switch {
	case n < 2:
		return strconv.Itoa(max(n, 0))
	case n < 5:
		return "2_to_4"
	}
	return "5_plus"
}

// telemetry tells of the chat's work in spans. It is content-free: see stageName.
type telemetry struct {
	tracer trace.Tracer
	now    func() time.Time
	// off spares the work when nobody listens.
	off bool
}

func newTelemetry(tracer trace.Tracer, now func() time.Time) *telemetry {
	if tracer == nil {
		return &telemetry{tracer: noop.NewTracerProvider().Tracer(""), now: now, off: true}
	}
	return &telemetry{tracer: tracer, now: now}
}

// finish ends a stage with its error, if any, and what else is to be told of it.
type finish func(err error, traits ...trait)

// start begins a stage outside of transactions. Stages that are begun with the
// context that it gives stand within it.
func (t *telemetry) start(ctx context.Context, name stageName, kind spanKind) (context.Context, finish) {
	if t.off {
		return ctx, func(error, ...trait) {}
	}
	ctx, span := t.tracer.Start(ctx, string(name), trace.WithTimestamp(t.now()))
	return ctx, func(err error, traits ...trait) {
		span.SetAttributes(attributes(kind, err == nil, traits)...)
		if err != nil {
			span.SetStatus(codes.Error, string(wire.CodeOf(err)))
		}
		span.End(trace.WithTimestamp(t.now()))
	}
}

func attributes(kind spanKind, success bool, traits []trait) []attribute.KeyValue {
	kvs := []attribute.KeyValue{attribute.String("span_kind", string(kind)), attribute.Bool("success", success)}
	for _, m := range traits {
		kvs = append(kvs, m.kv)
	}
	return kvs
}

// measured is a stage or a record of a transaction. It is told once that is
// durable: what was undone, or was run again, tells nothing.
type measured struct {
	name     string
	within   int // the stage around it, or -1
	from, to time.Time
	kvs      []attribute.KeyValue
	done     bool
}

// stage begins a stage within the transaction; stages that are begun before its
// end stand within it. One that is never ended is not told.
func (u *unit) stage(name stageName, kind spanKind) func(traits ...trait) {
	t := u.s.telemetry
	if t.off {
		return func(...trait) {}
	}
	at := len(u.measured)
	u.measured = append(u.measured, measured{name: string(name), within: u.within - 1, from: t.now()})
	around := u.within
	u.within = at + 1
	return func(traits ...trait) {
		m := &u.measured[at]
		m.to, m.kvs, m.done = t.now(), attributes(kind, true, traits), true
		u.within = around
	}
}

// record notes a moment in the transaction.
func (u *unit) record(name string, kvs ...attribute.KeyValue) {
	t := u.s.telemetry
	if t.off {
		return
	}
	now := t.now()
	kvs = append(kvs, attribute.String("source", "api"), attribute.Bool("success", true), attribute.Int("duration_ms", 0))
	u.measured = append(u.measured, measured{name: name, within: u.within - 1, from: now, to: now, kvs: kvs, done: true})
}

// recordBinding tells that a thread's conversation at its host was begun or
// taken further (SQ4).
func (u *unit) recordBinding(t gateway.TurnRow, b gateway.BindingRow) {
	action := "initialized"
	if b.ContinueFrom != "" {
		action = "continued"
	}
	u.record(recordBinding,
		attribute.String("surface", "chat"), attribute.String("turn_id", t.ID), attribute.String("thread_id", t.ThreadID),
		attribute.String("session_id", b.ID), attribute.String("session_turn_id", t.ID),
		attribute.String("binding_action", action), attribute.String("turn_status", string(t.Status)))
}

// recordEnqueue tells that a turn waits for its org, with how many do (SQ56).
func (u *unit) recordEnqueue(ctx context.Context, t gateway.TurnRow) error {
	if u.s.telemetry.off {
		return nil
	}
	load, err := u.Load(ctx, t.OrgID, t.AccountID, never)
	u.record(recordEnqueue,
		attribute.String("surface", "chat"), attribute.String("turn_id", t.ID), attribute.Int("queue_depth", load.OrgQueued))
	return err
}

// traits tells of a claim.
func (c claimed) traits() []trait {
	switch {
	case c.result == claimLost:
		return []trait{traitAssociation(), traitLost(), traitLaunch(launchLost)}
	case c.result == claimRefused:
		return []trait{traitAssociation(), traitClaimed(), traitLaunch(launchRefused)}
	case c.turn.Status == gateway.TurnFailed:
		return []trait{traitAssociation(), traitClaimed(), traitLaunch(launchFailed)}
	case c.turn.Status == gateway.TurnQueued:
		return []trait{traitAssociation(), traitClaimed(), traitLaunch(launchOrgQueued)}
	}
	return []trait{traitAssociation(), traitClaimed(), traitLaunch(launchStarted)}
}

// recordEligible tells, once for each turn, that it may answer from now on
// (SQ62).
func (u *unit) recordEligible(t gateway.TurnRow) {
	u.record(recordEligible, attribute.String("surface", "host"), attribute.String("turn_id", t.ID))
}

// tellMeasured tells what the transaction measured, within the span that it ran
// in. It does not block.
func (u *unit) tellMeasured() {
	if len(u.measured) == 0 {
		return
	}
	root := trace.ContextWithSpanContext(context.Background(), u.parent)
	around := make([]context.Context, len(u.measured))
	for i, m := range u.measured {
		ctx := root
		if m.within >= 0 {
			ctx = around[m.within]
		}
		around[i] = ctx
		if !m.done {
			continue
		}
		var span trace.Span
		around[i], span = u.s.telemetry.tracer.Start(ctx, m.name, trace.WithTimestamp(m.from), trace.WithAttributes(m.kvs...))
		defer span.End(trace.WithTimestamp(m.to)) // after those within it
	}
}
