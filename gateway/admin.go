package gateway

import "github.com/fairlead/fairlead/relay/wire"

// Page selects a part of a read-out: Limit rows (0 = 50, at most 200) after
// Offset. Status keeps only turns in that state; ThreadID and TurnID only what
// belongs to it. HostID, BindingID and Binding narrow bindings, BindingID turns too.
type Page struct {
	Offset   int        `json:"offset,omitempty" validate:"min=0"`
	Limit    int        `json:"limit,omitempty" validate:"min=0,max=200"`
	Status   TurnStatus `json:"status,omitempty"`
	ThreadID string     `json:"threadId,omitempty" validate:"omitempty,uuid"`
	TurnID   string     `json:"turnId,omitempty" validate:"omitempty,uuid"`

	HostID    string       `json:"hostId,omitempty" validate:"omitempty,max=256"`
	BindingID string       `json:"bindingId,omitempty" validate:"omitempty,max=256"`
	Binding   BindingState `json:"binding,omitempty" validate:"omitempty,oneof=open settled unanswered"`
}

// BindingState says how a binding stands.
type BindingState string

// The states of a binding: a turn of it is not settled; all are; its host never said
// that it has it.
const (
	BindingOpen       BindingState = "open"
	BindingSettled    BindingState = "settled"
	BindingUnanswered BindingState = "unanswered"
)

// Rows is one page of a read-out; More tells that another follows.
type Rows[T any] struct {
	Rows []T  `json:"rows"`
	More bool `json:"more"`
}

// AdminBinding is a native conversation with the turn reservations made in it.
// It holds no text that a person wrote.
type AdminBinding struct {
	BindingID       string `json:"bindingId"`
	RunID           string `json:"runId"`
	ThreadID        string `json:"threadId"`
	AccountID       string `json:"accountId"`
	HostID          string `json:"hostId"`
	ModelProvider   string `json:"modelProvider"`
	ModelProviderID string `json:"modelProviderId"`
	Model           string `json:"model"`
	VirtualThreadID string `json:"virtualThreadId"`
	ContinueFrom    string `json:"continueFrom,omitempty"`
	Applied         bool   `json:"applied"`
	Turns           int    `json:"turns"`
	// Unsettled counts its turns whose end the host still owes.
	Unsettled int `json:"unsettled"`
	// Cursor is how far the run's events are durable here.
	Cursor    uint64 `json:"cursor"`
	CreatedAt Time   `json:"createdAt"`
	// UsedAt is when its newest turn was made, or it was.
	UsedAt Time `json:"usedAt"`
}

// AdminBindingView is a binding with what was reserved in it, what its host was told
// and what the log of its thread got last; each newest first and bounded. It holds
// no text that a person or a model wrote.
type AdminBindingView struct {
	AdminBinding
	// TargetRef and SessionID are the scope that the run is of at its host.
	TargetRef string         `json:"targetRef"`
	SessionID string         `json:"sessionId"`
	Turns     []AdminTurn    `json:"reservations"`
	Commands  []AdminCommand `json:"commands"`
	Events    []AdminEvent   `json:"events"`
}

// AdminCommand is a command of a run without its body.
type AdminCommand struct {
	Seq       uint64       `json:"seq"`
	Kind      string       `json:"kind"`
	TurnID    string       `json:"turnId"`
	State     CommandState `json:"state"`
	Error     wire.Code    `json:"error,omitempty"`
	CreatedAt Time         `json:"createdAt"`
}

// AdminEvent is an event of a thread's log without its content; Size is what is
// stored of it, in bytes.
type AdminEvent struct {
	SeqID     int64     `json:"seqId"`
	EventType EventType `json:"eventType"`
	TurnID    string    `json:"turnId,omitempty"`
	Size      int64     `json:"size"`
	CreatedAt Time      `json:"createdAt"`
}

// AdminTurn is a turn without its text.
type AdminTurn struct {
	TurnID        string     `json:"turnId"`
	ThreadID      string     `json:"threadId"`
	AccountID     string     `json:"accountId"`
	HostID        string     `json:"hostId,omitempty"`
	RunID         string     `json:"runId,omitempty"`
	BindingID     string     `json:"bindingId,omitempty"`
	VirtualTurnID string     `json:"virtualTurnId,omitempty"`
	Status        TurnStatus `json:"status"`
	Reason        string     `json:"reason,omitempty"`
	Error         wire.Code  `json:"error,omitempty"`
	Recovering    bool       `json:"recovering"`
	// RecoverBy is until when a cancelled turn waits for its host's end.
	RecoverBy *Time `json:"recoverBy,omitempty"`
	// Delivery is reserved or held while a steer is at its host without an answer.
	Delivery DeliveryState `json:"delivery,omitempty"`
	Model    string        `json:"model"`
	Route    string        `json:"route"`
	// Command is the state of the prompt's command: pending, sent, acked, …
	Command   CommandState `json:"command,omitempty"`
	InputID   string       `json:"inputEventId"`
	CreatedAt Time         `json:"createdAt"`
	StartedAt *Time        `json:"startedAt,omitempty"`
	EndedAt   *Time        `json:"endedAt,omitempty"`
}

// AdminQueueItem is a waiting message without its text. Position counts from 1
// within the thread.
type AdminQueueItem struct {
	EventID   string `json:"eventId"`
	OriginID  string `json:"originId"`
	ThreadID  string `json:"threadId"`
	AccountID string `json:"accountId"`
	Mode      Mode   `json:"mode"`
	Position  int    `json:"position"`
	// Delivery is reserved or held on a steer that was handed to the host of the
	// turn TurnID and has no answer yet.
	Delivery  DeliveryState `json:"delivery,omitempty"`
	TurnID    string        `json:"turnId,omitempty"`
	CreatedAt Time          `json:"createdAt"`
}
