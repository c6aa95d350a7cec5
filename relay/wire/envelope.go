package wire

import "encoding/json"

// Projected events (RH40) and the catalog event (RH60).
const (
	EventTurnStarted    = "turn.started"
	EventItemDelta      = "item.delta"
	EventTurnCompleted  = "turn.completed"
	EventRuntimeCatalog = "runtime.catalog"
)

// EnvelopeSchemaVersion is the version of Envelope (relay-host.md §1.6).
const EnvelopeSchemaVersion = 2

// Envelope carries one projected event of a run to the control plane. Seq is
// per run, from 1, without gaps on the host's side. SourceEventID names the
// native event: a receiver drops an envelope whose source it has applied.
type Envelope struct {
	SchemaVersion int             `json:"schema_version"`
	Seq           uint64          `json:"seq" validate:"required,max=9007199254740991"`
	Event         string          `json:"event"`
	Kind          string          `json:"kind"`
	ThreadID      string          `json:"thread_id,omitempty"`
	TurnID        string          `json:"turn_id,omitempty"`
	SourceEventID string          `json:"source_event_id,omitempty"`
	Timestamp     string          `json:"timestamp"`
	Payload       json.RawMessage `json:"payload"`
}

// Kinds of an item.delta payload.
const (
	DeltaMessage   = "agent_message"
	DeltaReasoning = "agent_reasoning"
)

// DeltaPayload is the payload of item.delta. Kind is DeltaMessage, or
// DeltaReasoning on links that negotiated CapabilityReasoning.
type DeltaPayload struct {
	Kind  string `json:"kind"`
	Delta string `json:"delta"`
}

// StartedPayload is the payload of turn.started.
type StartedPayload struct {
	Turn struct {
		Model string `json:"model"`
		Mode  string `json:"mode"`
	} `json:"turn"`
}

// CompletedPayload is the payload of turn.completed (RH40). Outcome is there
// only on links that negotiated CapabilityOutcome.
type CompletedPayload struct {
	Turn    CompletedTurn `json:"turn"`
	Outcome *Outcome      `json:"outcome,omitempty"`
}

// CompletedTurn is what RH40 lets out of a native turn.
type CompletedTurn struct {
	Status                  string          `json:"status"`
	Usage                   json.RawMessage `json:"usage"`
	EffectiveModel          string          `json:"effective_model"`
	EffectiveProvider       string          `json:"effective_provider"`
	EffectiveBillingSurface string          `json:"effective_billing_surface"`
	EffectiveBillingMode    string          `json:"effective_billing_mode"`
}

// Native turn statuses as they stand in CompletedTurn.Status.
const (
	NativeCompleted   = "completed"
	NativeFailed      = "failed"
	NativeInterrupted = "interrupted"
	NativeCanceled    = "canceled"
)

// Outcome says how a native turn ended in words that are safe to show: a code
// of the model_* family or host_restarted, never a provider's text.
type Outcome struct {
	Error  Code   `json:"error,omitempty"`
	Finish string `json:"finish,omitempty"`
	// RetryAt is RFC 3339 UTC with milliseconds; set with model_rate_limited.
	RetryAt string `json:"retryAt,omitempty"`
	// ResponseID is the provider's id of the response that the usage is of.
	ResponseID string `json:"responseId,omitempty"`
	// Responses is set when the turn had several responses: what was reported for
	// each, the last one's too. The turn's own usage is their sum.
	Responses []ResponseUsage `json:"responses,omitempty"`
	// Deliveries are the steers that the turn took, in order.
	Deliveries []Delivered `json:"deliveries,omitempty"`
}

// Values of Outcome.Finish.
const (
	FinishToolCallIgnored = "tool_call_ignored"
	FinishRefusedInPart   = "refused_in_part"
)

// Usage is what a provider reported for one response. InputTokens includes
// what was read from or written to its cache; ReasoningTokens are part of
// OutputTokens unless ReasoningOutside is set. A nil pointer was not reported.
type Usage struct {
	InputTokens           uint64  `json:"input_tokens"`
	OutputTokens          uint64  `json:"output_tokens"`
	PromptCacheHitTokens  *uint64 `json:"prompt_cache_hit_tokens,omitempty"`
	PromptCacheMissTokens *uint64 `json:"prompt_cache_miss_tokens,omitempty"`
	PromptCacheWrite      *uint64 `json:"prompt_cache_write_tokens,omitempty"`
	ReasoningTokens       *uint64 `json:"reasoning_tokens,omitempty"`
	ReasoningOutside      bool    `json:"reasoning_outside,omitempty"`
	ServiceTier           string  `json:"service_tier,omitempty"`
}
