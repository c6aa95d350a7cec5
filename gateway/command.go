package gateway

import (
	"encoding/json"
	"time"
)

// SendRequest is message.send without its frame (protocol.md §2). ClientEventID
// is the id of the stored event and the idempotency key.
type SendRequest struct {
	AgentID        string `json:"agentId,omitempty" validate:"omitempty,uuid"`
	ThreadID       string `json:"threadId,omitempty" validate:"omitempty,uuid"`
	ClientThreadID string `json:"clientThreadId,omitempty" validate:"omitempty,uuid"`
	ClientEventID  string `json:"clientEventId" validate:"required,uuid"`
	// UserMessage is checked by the service, after the look-up of ClientEventID:
	// a retry may leave it out (CG69).
	UserMessage    UserMessage `json:"userMessage" validate:"-"`
	Mode           Mode        `json:"mode,omitempty" validate:"omitempty,oneof=auto queue steer interrupt"`
	Model          string      `json:"model,omitempty" validate:"omitempty,max=256"`
	Options        *Options    `json:"options,omitempty" validate:"omitempty"`
	RevokesEventID string      `json:"revokesEventId,omitempty" validate:"omitempty,uuid"`
	// Now cuts the response in progress short; only with mode steer.
	Now bool `json:"now,omitempty"`
	// ReceivedAt is when the request arrived, for the turn's timeline (CG70); zero
	// means now. It is never read from a request.
	ReceivedAt time.Time `json:"-"`
}

// SteerRequest is message.steer: it offers a waiting message to the running turn.
// EventID is any event of the message's chain.
type SteerRequest struct {
	ThreadID string `json:"threadId" validate:"required,uuid"`
	EventID  string `json:"eventId" validate:"required,uuid"`
	Now      bool   `json:"now,omitempty"`
}

// Options are wishes for one turn; a route that does not support one refuses it.
type Options struct {
	ReasoningEffort string `json:"reasoningEffort,omitempty" validate:"omitempty,max=32"`
	MaxOutputTokens uint32 `json:"maxOutputTokens,omitempty" validate:"omitempty,min=1"`
}

// SendReply answers send, recall and interrupt. A repeated one carries Replayed,
// and Differs if its content was not that of the first; all else is equal.
type SendReply struct {
	ThreadID    string      `json:"threadId"`
	EventID     string      `json:"eventId,omitempty"`
	TurnID      *string     `json:"turnId"`
	Status      TurnStatus  `json:"status,omitempty"`
	Disposition Disposition `json:"disposition"`
	Replayed    bool        `json:"replayed,omitempty"`
	Differs     bool        `json:"differs,omitempty"`
}

// RecallRequest is message.recall.
type RecallRequest struct {
	ThreadID       string `json:"threadId" validate:"required,uuid"`
	RevokesEventID string `json:"revokesEventId" validate:"required,uuid"`
	ClientEventID  string `json:"clientEventId,omitempty" validate:"omitempty,uuid"`
}

// InterruptRequest is turn.interrupt.
type InterruptRequest struct {
	ThreadID      string `json:"threadId" validate:"required,uuid"`
	TurnID        string `json:"turnId" validate:"required,uuid"`
	ClientEventID string `json:"clientEventId" validate:"required,uuid"`
}

// CreateThreadRequest is thread.create.
type CreateThreadRequest struct {
	ClientThreadID string `json:"clientThreadId,omitempty" validate:"omitempty,uuid"`
	AgentID        string `json:"agentId,omitempty" validate:"omitempty,uuid"`
	Title          string `json:"title,omitempty" validate:"omitempty,max=200"`
	Model          string `json:"model,omitempty" validate:"omitempty,max=256"`
}

// RenameThreadRequest is thread.rename.
type RenameThreadRequest struct {
	ThreadID string `json:"threadId" validate:"required,uuid"`
	Title    string `json:"title" validate:"required,max=200"`
}

// DeleteThreadRequest is thread.delete.
type DeleteThreadRequest struct {
	ThreadID string `json:"threadId" validate:"required,uuid"`
}

// MarkReadRequest is thread.read.
type MarkReadRequest struct {
	ThreadID string `json:"threadId" validate:"required,uuid"`
	Seq      int64  `json:"seq" validate:"min=0"`
}

// SetModelRequest is thread.model; a null model goes back to the default.
type SetModelRequest struct {
	ThreadID string  `json:"threadId" validate:"required,uuid"`
	Model    *string `json:"model" validate:"omitempty,min=1,max=256"`
}

// FollowRequest is threads.follow; without SinceSeq it begins at the end.
type FollowRequest struct {
	SinceSeq *int64 `json:"sinceSeq,omitempty" validate:"omitempty,min=0"`
}

// TurnRequest is turn.get.
type TurnRequest struct {
	TurnID string `json:"turnId" validate:"required,uuid"`
}

// CreateThreadReply answers thread.create.
type CreateThreadReply struct {
	ThreadID string `json:"threadId"`
}

// OpenRequest is thread.open (protocol.md §2.2, "Opening and paging").
type OpenRequest struct {
	ThreadID string      `json:"threadId" validate:"required,uuid"`
	SinceSeq *int64      `json:"sinceSeq,omitempty" validate:"omitempty,min=0"`
	Window   int         `json:"window,omitempty" validate:"omitempty,min=1,max=500"`
	Before   int64       `json:"before,omitempty" validate:"omitempty,min=1"`
	Turn     *TurnOffset `json:"turn,omitempty" validate:"omitempty"`
	HTML     bool        `json:"html,omitempty"`
}

// TurnOffset is how much of a running turn a client has applied.
type TurnOffset struct {
	TurnID string `json:"turnId" validate:"required,uuid"`
	Offset int64  `json:"offset" validate:"min=0"`
}

// OpenReply answers thread.open. A subscription that starts with it continues
// exactly at LatestSeq and Turn.Next.
type OpenReply struct {
	Thread    Thread    `json:"thread"`
	Events    []Event   `json:"events"`
	LatestSeq int64     `json:"latestSeq"`
	More      bool      `json:"more"`
	Turn      *LiveTurn `json:"turn,omitempty"`
	// Then are pushes that must follow the reply at once, before any other of the
	// subscription: text and blocks of the running turn that did not fit into it.
	// Turn.Next is where the reply ends, ThenNext where these do.
	Then []Push `json:"-"`
	// ThenNext is the offset at which the subscription's own turn.delta begin;
	// BlocksTo that of its turn.block.
	ThenNext int64 `json:"-"`
	BlocksTo int64 `json:"-"`
}

// ListRequest is threads.list, newest updatedAt first. Cursor is opaque.
type ListRequest struct {
	Cursor string `json:"cursor,omitempty" validate:"omitempty,max=200"`
	Limit  int    `json:"limit,omitempty" validate:"omitempty,min=1,max=100"`
	Query  string `json:"query,omitempty" validate:"omitempty,max=200"`
}

// ListReply answers threads.list.
type ListReply struct {
	Threads []Thread `json:"threads"`
	Next    string   `json:"next,omitempty"`
}

// FollowReply answers threads.follow: feed entries after sinceSeq.
type FollowReply struct {
	Events    []FeedEvent `json:"events"`
	LatestSeq int64       `json:"latestSeq"`
	More      bool        `json:"more,omitempty"`
}

// Limits of the account side; those of protocol.md's welcome.limits.
const (
	MaxFrameBytes       = 1 << 20
	MaxReplyEvents      = 500
	MaxReplyBytes       = 256 << 10
	MaxQueuedPerThread  = 50
	MaxOutputEventBytes = 256 << 10
)

// Push is one message for the subscribers of a topic, encoded once. The fields
// beside Raw let a session order it against the reply that opened its
// subscription, without decoding.
type Push struct {
	// Type is the push's type on the wire: thread.events, turn.delta, turn.block,
	// turn.state, turn.retract, threads.events.
	Type     string
	ThreadID string
	TurnID   string
	// FirstSeq and LastSeq are those of thread.events and threads.events.
	FirstSeq, LastSeq int64
	// Offset and Next are those of turn.delta; From and To (in the same fields)
	// those of turn.block.
	Offset, Next int64
	Text         string // of turn.delta, to trim a straddling frame
	Raw          json.RawMessage
	// RawHTML replaces Raw for sessions that asked for HTML; nil means that Raw
	// serves both. A push with RawHTML alone goes only to those sessions.
	RawHTML json.RawMessage
}

// Topics of the bus.
func ThreadTopic(threadID string) string   { return "thread:" + threadID }
func AccountTopic(accountID string) string { return "account:" + accountID }

// CredentialTopic is told when a session or token ended.
func CredentialTopic(credentialID string) string { return "credential:" + credentialID }

// AdminTopic is told, at most a few times a second, that an admin view changed;
// TurnID and ThreadID name what.
func AdminTopic(orgID string) string { return "admin:" + orgID }

// Bus fans pushes out to sessions. Publish never blocks and never fails: it is a
// wake-up beside the log, which is the truth (CG74, CG75). Handlers run in the
// publisher's goroutine, in publishing order per topic, and must not block.
type Bus interface {
	Publish(topic string, p Push)
	Subscribe(topic string, handle func(Push)) (cancel func())
}

// OrgQueueReply lists the turns that wait for the org, oldest first (SQ58).
// ThreadID is set on the asker's own.
type OrgQueueReply struct {
	Queue []OrgQueueItem `json:"queue"`
}

// OrgQueueItem is one turn that waits for its org.
type OrgQueueItem struct {
	TurnID    string `json:"turnId"`
	ThreadID  string `json:"threadId,omitempty"`
	CreatedAt Time   `json:"createdAt"`
}
