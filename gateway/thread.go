package gateway

import (
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Time is a moment as it stands on the wire: RFC 3339 UTC with milliseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the moment in UTC with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// Millis is a moment from milliseconds since 1970, the form in which moments
// are stored.
func Millis(ms int64) Time { return Time{time.UnixMilli(ms).UTC()} }

// Thread is one conversation of one account.
type Thread struct {
	ID          string   `json:"id"`
	Title       *string  `json:"title"`
	AgentID     string   `json:"agentId"`
	Model       *string  `json:"model"`
	CreatedAt   Time     `json:"createdAt"`
	UpdatedAt   Time     `json:"updatedAt"`
	LatestSeq   int64    `json:"latestSeq"`
	LastReadSeq int64    `json:"lastReadSeq"`
	Waiting     int      `json:"waiting"`
	Turn        *TurnRef `json:"turn,omitempty"`
	// CancellationRecoveryPending is set while a cancelled turn is not yet closed
	// by its host: the thread takes no new turn meanwhile.
	CancellationRecoveryPending bool `json:"cancellationRecoveryPending"`
}

// TurnRef names a turn and its state.
type TurnRef struct {
	TurnID string     `json:"turnId"`
	Status TurnStatus `json:"status"`
}

// LiveTurn is the turn in progress as thread.open gives it. Text is the answer
// from Offset, in bytes, to Next.
type LiveTurn struct {
	TurnID string     `json:"turnId"`
	Status TurnStatus `json:"status"`
	Reason string     `json:"reason,omitempty"`
	Offset int64      `json:"offset"`
	Next   int64      `json:"next"`
	Text   string     `json:"text"`
	Resync bool       `json:"resync,omitempty"`
	// Blocks are the finished Markdown blocks so far, for sessions that asked for
	// HTML.
	Blocks []Block `json:"blocks,omitempty"`
}

// Block is a finished Markdown block, rendered and sanitised.
type Block struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	HTML string `json:"html"`
}

// Turn is one turn with all that its owner may know.
type Turn struct {
	TurnID    string     `json:"turnId"`
	ThreadID  string     `json:"threadId"`
	Status    TurnStatus `json:"status"`
	Reason    string     `json:"reason,omitempty"`
	Error     wire.Code  `json:"error,omitempty"`
	Model     string     `json:"model"`
	Route     string     `json:"route"`
	CreatedAt Time       `json:"createdAt"`
	StartedAt *Time      `json:"startedAt,omitempty"`
	EndedAt   *Time      `json:"endedAt,omitempty"`
	Usage     []UsageRow `json:"usage"`
	// UsageEstimate is set where nothing was reported for a turn that a provider
	// may have worked on; no bill counts it (F26).
	UsageEstimate *UsageEstimate `json:"usageEstimate,omitempty"`
	Prompt        string         `json:"prompt,omitempty"`
	Context       string         `json:"context,omitempty"`
	Partial       *string        `json:"partial,omitempty"`
	Timeline      []TurnMoment   `json:"timeline"`
}

// UsageRow is one reported quantity of one provider response.
type UsageRow struct {
	ResponseID string `json:"responseId"`
	Category   string `json:"category"`
	Quantity   int64  `json:"quantity"`
	// Cost is in credits, on turns that the org pays for.
	Cost *int64 `json:"cost,omitempty"`
}

// UsageEstimate is a local count of tokens.
type UsageEstimate struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// TurnMoment is one entry of a turn's timeline.
type TurnMoment struct {
	At     Time   `json:"at"`
	Stage  string `json:"stage"`
	Detail string `json:"detail,omitempty"`
}

// Model is a model that an account may use.
type Model struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Provider     string            `json:"provider"`
	Family       string            `json:"family"`
	Capabilities ModelCapabilities `json:"capabilities"`
	Ready        bool              `json:"ready"`
	Reason       string            `json:"reason,omitempty"`
	AvailableAt  string            `json:"availableAt,omitempty"`
	Default      bool              `json:"default"`
}

// ModelCapabilities says what a model's route supports.
type ModelCapabilities struct {
	ImageInput            wire.Support `json:"imageInput"`
	MaxOutputTokens       wire.Support `json:"maxOutputTokens"`
	ReasoningEffort       wire.Support `json:"reasoningEffort"`
	ReasoningEffortLevels []string     `json:"reasoningEffortLevels"`
}
