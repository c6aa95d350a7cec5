// Package provider speaks to the APIs of model providers; see Client.
package provider

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Client asks one provider for one response. Exactly one HTTP request is made
// per call of Stream; nothing below it repeats one.
//
// emit is called from the calling goroutine, in order, with whole runes only;
// an error of emit ends the stream and is returned as it is. When ctx ends, the
// connection is closed at once and ctx's cause is returned. Every other error is
// a *Failure. A nil error means that the stream reached the terminal marker of
// its API: the Result then says how it finished.
type Client interface {
	Stream(ctx context.Context, req Request, emit func(Delta) error) (Result, error)
}

// Request is one provider request. Model is the provider's own name for it.
type Request struct {
	Model           string
	System          string
	Messages        []Message
	ReasoningEffort string // canonical (RH13) or ""; "" sends none
	MaxOutputTokens uint32 // 0 sends none (an API that demands one gets a default)
}

// Role is the author of a Message.
type Role string

// The roles of a conversation; the system prompt has a field of its own.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one message of the history. Reasoning is what the assistant's
// provider sent as its reasoning; it is handed back only where the route needs
// it (F34), and never merged into Text.
type Message struct {
	Role      Role
	Text      string
	Reasoning string
	Images    []wire.Image
}

// DeltaKind says what a Delta is part of.
type DeltaKind string

// The kinds of a Delta.
const (
	DeltaText      DeltaKind = "text"
	DeltaReasoning DeltaKind = "reasoning"
)

// Delta is a piece of the answer or of the reasoning, never empty, valid UTF-8.
type Delta struct {
	Kind DeltaKind
	Text string
}

// Finish says why a response ended, in this package's words.
type Finish string

// Why a response ended.
const (
	FinishStop      Finish = "stop"
	FinishLength    Finish = "length"
	FinishToolCall  Finish = "tool_call"
	FinishRefused   Finish = "refused"
	FinishFiltered  Finish = "filtered"
	FinishUndefined Finish = "undefined" // a reason that this package does not know
)

// Result is what a finished stream reported.
type Result struct {
	Finish     Finish
	ResponseID string
	Model      string // as the provider names it; "" when it did not
	Usage      *wire.Usage
	// ToolCall is set when the response held a call of a tool that was to be run
	// by the caller; tools that the provider ran itself do not count.
	ToolCall bool
}

// Failure is a stream that did not reach its end. Code is of the model_* family.
// Partial holds what was reported before the failure (usage, response id). Its
// Error text is for the operator and holds no key and no provider text.
type Failure struct {
	Code    wire.Code
	RetryAt time.Time // zero unless Code is model_rate_limited
	Partial Result
	Cause   error
}

// Outcome is how a turn ends after one response: Status is wire.NativeCompleted
// or wire.NativeFailed, Code is set when failed, Finish as in wire.Outcome.
type Outcome struct {
	Status string
	Code   wire.Code
	Finish string
}
