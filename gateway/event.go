package gateway

import (
	"encoding/json"

	"github.com/fairlead/fairlead/relay/wire"
)

// EventType names what a thread event is. Unknown ones are kept in order and
// not shown.
type EventType string

// The event types of the thread log (protocol.md §2.2).
const (
	EventInputPrompt      EventType = "input.prompt"
	EventInputRejected    EventType = "input.rejected"
	EventInputDeadline    EventType = "input.deadline"
	EventControlInterrupt EventType = "control.interrupt"
	EventControlRevoke    EventType = "control.revoke"
	EventOutputMessage    EventType = "output.message"
	EventOutputPartial    EventType = "output.partial"
	EventOutputError      EventType = "output.error"
	EventTurnQueued       EventType = "turn.queued"
	EventTurnDequeued     EventType = "turn.dequeued"
	EventTurnCompleted    EventType = "turn.completed"
	EventTurnFailed       EventType = "turn.failed"
	EventTurnCancelled    EventType = "turn.cancelled"
	EventTurnTimeout      EventType = "turn.timeout"
)

// Event is one entry of a thread's append-only log. SeqID rises within the
// thread and may skip. Content is a string on output.* events and null on all
// others; every other key is absent when unset.
type Event struct {
	ID               string       `json:"id"`
	ThreadID         string       `json:"threadId"`
	SeqID            int64        `json:"seqId"`
	EventType        EventType    `json:"eventType"`
	CreatedAt        Time         `json:"createdAt"`
	Content          *string      `json:"content"`
	TurnID           string       `json:"turnId,omitempty"`
	RevokesEventID   string       `json:"revokesEventId,omitempty"`
	InterruptsTurnID string       `json:"interruptsTurnId,omitempty"`
	OriginID         string       `json:"originId,omitempty"`
	UserMessage      *UserMessage `json:"userMessage,omitempty"`
	Mode             Mode         `json:"mode,omitempty"`
	Rank             int          `json:"rank,omitempty"`
	// From and To are the bytes of the turn's answer text that an output event
	// stands for.
	From    *int64    `json:"from,omitempty"`
	To      *int64    `json:"to,omitempty"`
	Error   wire.Code `json:"error,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Finish  string    `json:"finish,omitempty"`
	RetryAt string    `json:"retryAt,omitempty"`
	// Marker is queue:queued or queue:dequeued on the markers of the org queue.
	Marker string `json:"marker,omitempty"`
	// HTML is Content rendered and sanitised; only for sessions that asked with
	// thread.open {html:true}. It is never stored.
	HTML string `json:"html,omitempty"`
}

// UserMessage is the document that a person sends. Version is 1.
type UserMessage struct {
	Version int    `json:"version" validate:"eq=1"`
	Parts   []Part `json:"parts" validate:"required,min=1,max=64,dive"`
}

// Part is one part of a UserMessage: a text, or the model that the message runs
// on. A model part of a client is replaced at the claim by the server's own, which
// always stands last (CG68).
type Part struct {
	Type          string `json:"type" validate:"required,oneof=text model"`
	Text          string `json:"text,omitempty" validate:"required_if=Type text"`
	SelectedModel string `json:"selectedModel,omitempty" validate:"required_if=Type model,max=256"`
}

// Mode says what a message does when a turn already runs.
type Mode string

// The modes of message.send (decisions §2.3).
const (
	ModeAuto      Mode = "auto"
	ModeQueue     Mode = "queue"
	ModeSteer     Mode = "steer"
	ModeInterrupt Mode = "interrupt"
)

// Disposition says what became of a message.
type Disposition string

// The dispositions (decisions §2.1).
const (
	DispositionStarted     Disposition = "started"
	DispositionQueued      Disposition = "queued"
	DispositionOrgQueued   Disposition = "org_queued"
	DispositionSteering    Disposition = "steering"
	DispositionRefused     Disposition = "refused"
	DispositionFailed      Disposition = "failed"
	DispositionRecalled    Disposition = "recalled"
	DispositionInterrupted Disposition = "interrupted"
)

// TurnStatus is the state of a turn. The last four are final; the first final
// write wins.
type TurnStatus string

// The states of a turn.
const (
	TurnQueued    TurnStatus = "queued"
	TurnPending   TurnStatus = "pending"
	TurnRunning   TurnStatus = "running"
	TurnCompleted TurnStatus = "completed"
	TurnFailed    TurnStatus = "failed"
	TurnCancelled TurnStatus = "cancelled"
	TurnTimeout   TurnStatus = "timeout"
)

// Final tells whether a turn in this state is over.
func (s TurnStatus) Final() bool {
	switch s {
	case TurnCompleted, TurnFailed, TurnCancelled, TurnTimeout:
		return true
	}
	return false
}

// FeedKind names an entry of the account-wide thread feed.
type FeedKind string

// The kinds of feed entries.
const (
	FeedCreated      FeedKind = "created"
	FeedRenamed      FeedKind = "renamed"
	FeedModelUpdated FeedKind = "model_selection_updated"
	FeedDeleted      FeedKind = "deleted"
	// FeedTouched is pushed, not stored: the thread's place, waiting count or
	// turn status changed. Clients that do not know it ignore it.
	FeedTouched FeedKind = "touched"
)

// FeedEvent is one entry of the account-wide thread feed.
type FeedEvent struct {
	SeqID     int64    `json:"seqId,omitempty"`
	Kind      FeedKind `json:"kind"`
	ThreadID  string   `json:"threadId"`
	CreatedAt Time     `json:"createdAt"`
	Title     *string  `json:"title,omitempty"`
	Model     *string  `json:"model,omitempty"`
	Thread    *Thread  `json:"thread,omitempty"`
}

// Raw is a message rendered once and shared by all who get it.
type Raw = json.RawMessage
