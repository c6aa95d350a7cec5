package client

import (
	"encoding/json"
	"strings"

	"github.com/fairlead/fairlead/relay/wire"
)

// Protocol is the subprotocol of the connection.
const Protocol = "fairlead.client.v1"

// Command is any command; what is unset is left out of the frame.
type Command struct {
	ID             string       `json:"id"`
	Type           string       `json:"type"`
	ThreadID       string       `json:"threadId,omitempty"`
	ClientThreadID string       `json:"clientThreadId,omitempty"`
	AgentID        string       `json:"agentId,omitempty"`
	ClientEventID  string       `json:"clientEventId,omitempty"`
	UserMessage    *UserMessage `json:"userMessage,omitempty"`
	Mode           string       `json:"mode,omitempty"`
	Now            bool         `json:"now,omitempty"`
	Model          string       `json:"model,omitempty"`
	Options        *SendOptions `json:"options,omitempty"`
	RevokesEventID string       `json:"revokesEventId,omitempty"`
	EventID        string       `json:"eventId,omitempty"`
	TurnID         string       `json:"turnId,omitempty"`
	SinceSeq       *int64       `json:"sinceSeq,omitempty"`
	Window         int          `json:"window,omitempty"`
	Turn           *Position    `json:"turn,omitempty"`
	Limit          int          `json:"limit,omitempty"`
}

// SendOptions are the options of a message.
type SendOptions struct {
	ReasoningEffort string `json:"reasoningEffort,omitempty"`
}

// Position is how far the text of a turn is known.
type Position struct {
	TurnID string `json:"turnId"`
	Offset int64  `json:"offset"`
}

// UserMessage is the document of a message.
type UserMessage struct {
	Version int    `json:"version"`
	Parts   []Part `json:"parts"`
}

// Part is one part of a message.
type Part struct {
	Type          string `json:"type"`
	Text          string `json:"text,omitempty"`
	SelectedModel string `json:"selectedModel,omitempty"`
}

// Text makes a message of plain text.
func Text(s string) *UserMessage {
	return &UserMessage{Version: 1, Parts: []Part{{Type: "text", Text: s}}}
}

// String is what the person wrote; other parts than text are named.
func (m *UserMessage) String() string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range m.Parts {
		switch p.Type {
		case "text":
			b.WriteString(p.Text)
		case "model":
		default:
			b.WriteString("[" + p.Type + "]")
		}
	}
	return b.String()
}

// Event is an entry of a thread's log.
type Event struct {
	ID             string       `json:"id"`
	SeqID          int64        `json:"seqId"`
	EventType      string       `json:"eventType"`
	Content        *string      `json:"content"`
	TurnID         string       `json:"turnId"`
	RevokesEventID string       `json:"revokesEventId"`
	UserMessage    *UserMessage `json:"userMessage"`
	Mode           string       `json:"mode"`
	Rank           int64        `json:"rank"`
	From           *int64       `json:"from"`
	To             *int64       `json:"to"`
	Error          string       `json:"error"`
	Reason         string       `json:"reason"`
	Finish         string       `json:"finish"`
	RetryAt        string       `json:"retryAt"`

	// Raw is the event as it was sent.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON keeps the source beside the fields.
func (e *Event) UnmarshalJSON(raw []byte) error {
	type fields Event
	if err := json.Unmarshal(raw, (*fields)(e)); err != nil {
		return err
	}
	e.Raw = append(json.RawMessage(nil), raw...)
	return nil
}

// Body is the content, "" where there is none.
func (e *Event) Body() string {
	if e.Content == nil {
		return ""
	}
	return *e.Content
}

// Events that end a turn.
const (
	TurnCompleted = "turn.completed"
	TurnFailed    = "turn.failed"
	TurnCancelled = "turn.cancelled"
	TurnTimeout   = "turn.timeout"
)

// Ends tells whether the event ends its turn.
func (e *Event) Ends() bool {
	switch e.EventType {
	case TurnCompleted, TurnFailed, TurnCancelled, TurnTimeout:
		return true
	}
	return false
}

// ThreadInfo is a thread as lists show it.
type ThreadInfo struct {
	ID        string  `json:"id"`
	Title     *string `json:"title"`
	AgentID   string  `json:"agentId"`
	Model     *string `json:"model"`
	CreatedAt string  `json:"createdAt"`
	UpdatedAt string  `json:"updatedAt"`
	Waiting   int     `json:"waiting"`
	Turn      *struct {
		TurnID string `json:"turnId"`
		Status string `json:"status"`
	} `json:"turn,omitempty"`
}

// Model is a model that the account may use.
type Model struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Ready    bool   `json:"ready"`
	Reason   string `json:"reason"`
	Default  bool   `json:"default"`
}

// Agent is an assistant.
type Agent struct {
	ID          string `json:"id"`
	DisplayName string `json:"displayName"`
	Default     bool   `json:"default"`
}

// Receipt is the server's answer to a message, a recall, a steer or an interrupt.
type Receipt struct {
	ThreadID    string  `json:"threadId"`
	EventID     string  `json:"eventId"`
	TurnID      *string `json:"turnId"`
	Status      string  `json:"status,omitempty"`
	Disposition string  `json:"disposition"`
}

// Reply is the body of a reply that is no error.
type Reply json.RawMessage

// Into decodes the reply. What does not fit is left unset, as unknown keys are.
func (r Reply) Into(v any) { _ = json.Unmarshal(r, v) }

// liveTurn is the running turn in the reply to thread.open.
type liveTurn struct {
	TurnID string `json:"turnId"`
	Status string `json:"status"`
	Reason string `json:"reason"`
	Offset int64  `json:"offset"`
	Next   int64  `json:"next"`
	Text   string `json:"text"`
	Resync bool   `json:"resync"`
}

type openReply struct {
	Thread ThreadInfo `json:"thread"`
	Events []Event    `json:"events"`
	More   bool       `json:"more"`
	Turn   *liveTurn  `json:"turn"`
}

// answer is what is common to replies; a frame without OK is none. Each kind of reply
// has keys of its own, which a push may have with another meaning.
type answer struct {
	Re    string          `json:"re"`
	OK    *bool           `json:"ok"`
	Error *wire.ErrorBody `json:"error"`
}

// inbound is any push.
type inbound struct {
	Type     string `json:"type"`
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`

	Epoch   string  `json:"epoch"`
	Account Account `json:"account"`

	Events json.RawMessage `json:"events"`

	Offset  int64  `json:"offset"`
	Next    int64  `json:"next"`
	Text    string `json:"text"`
	Kind    string `json:"kind"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	RetryAt string `json:"retryAt"`
}

// Account is who the token acts for.
type Account struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}
