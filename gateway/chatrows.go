package gateway

import (
	"encoding/json"

	"github.com/fairlead/fairlead/relay/wire"
)

// The rows of a ChatStore. Moments are integer milliseconds since 1970; 0 in an
// optional one means unset.

// AgentRow is an assistant profile. OwnerID is "" for the org's default one. A
// deleted agent stays as a row, since threads name it.
type AgentRow struct {
	ID, OrgID, OwnerID, Name string
	Description              string
	Instructions             string
	Model                    string // default model of its threads, or ""
	Private                  bool
	Default                  bool
	CreatedAt, UpdatedAt     int64
	DeletedAt                int64
}

// ThreadMaker says which operation made a thread.
type ThreadMaker string

// The makers of threads.
const (
	MadeByCreate ThreadMaker = "create"
	MadeBySend   ThreadMaker = "send"
)

// ThreadRow is a thread as it is stored. LatestSeq is written by AppendEvents
// alone. A deleted thread has DeletedAt and no content.
type ThreadRow struct {
	ID, OrgID, AccountID, AgentID string
	MadeBy                        ThreadMaker
	Title, Model                  *string
	LatestSeq, LastReadSeq        int64
	CreatedAt, UpdatedAt          int64
	DeletedAt                     int64
	// Waiting, Active, Recovering and Disabled are read beside the row, never written.
	Waiting    int
	Active     *TurnRef
	Recovering bool
	Disabled   bool // its owner's account is
}

// Thread is the row as it stands on the wire.
func (t ThreadRow) Thread() Thread {
	return Thread{
		ID: t.ID, Title: t.Title, AgentID: t.AgentID, Model: t.Model,
		CreatedAt: Millis(t.CreatedAt), UpdatedAt: Millis(t.UpdatedAt),
		LatestSeq: t.LatestSeq, LastReadSeq: t.LastReadSeq,
		Waiting: t.Waiting, Turn: t.Active, CancellationRecoveryPending: t.Recovering,
	}
}

// ClientEvent is one spent client event id with the first reply to it.
type ClientEvent struct {
	ID, AccountID string
	Kind          ClientEventKind
	ContentHash   string
	// Reply is the first reply. While Settled is false it is what would be
	// answered if nothing more happened: the message is stored and nobody has yet
	// looked whether its turn can start.
	Reply     json.RawMessage
	Settled   bool
	CreatedAt int64
}

// ClientEventKind is the operation that a client event id was spent on.
type ClientEventKind string

// The kinds of client events.
const (
	ClientSend      ClientEventKind = "send"
	ClientRecall    ClientEventKind = "recall"
	ClientInterrupt ClientEventKind = "interrupt"
	ClientSteer     ClientEventKind = "steer"
)

// QueueRow is a waiting message. EventID is the newest event of its chain,
// OriginID the client's; items of a thread are taken in order of Rank, then
// OriginSeq. Mode is queue or steer; Now belongs to a steer.
type QueueRow struct {
	EventID, OriginID string
	OriginSeq         int64
	ThreadID          string
	Rank              int
	Mode              Mode
	Now               bool
	Model             string
	Options           *Options
	Prompt            string
	CreatedAt         int64
	// ReceivedAt is when the request arrived (CG70).
	ReceivedAt int64
	// Origin is that of the actor who sent it, for links in what answers it (AD6).
	Origin string
}

// Backlog is how many messages wait, and since when the oldest does; 0 for none.
type Backlog struct {
	Waiting int
	Oldest  int64
}

// DeliveryKind says what a delivery brings to a running turn.
type DeliveryKind string

// The kinds of deliveries: a person's message, or the warning that the turn's
// time runs out (SQ43–SQ46).
const (
	DeliveryMessage  DeliveryKind = "message"
	DeliveryDeadline DeliveryKind = "deadline"
)

// DeliveryState is the state of a delivery (SQ §4).
type DeliveryState string

// The states of a delivery. Reserved and held are open: of a turn at most one is.
// Waiting exists for a deadline warning alone: a message waits in the queue.
const (
	DeliveryWaiting   DeliveryState = "waiting"
	DeliveryReserved  DeliveryState = "reserved"
	DeliveryHeld      DeliveryState = "held"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryReleased  DeliveryState = "released"
	DeliveryExpired   DeliveryState = "expired"
)

// Open tells whether a delivery in this state binds its input to its turn.
func (s DeliveryState) Open() bool { return s == DeliveryReserved || s == DeliveryHeld }

// DeliveryRow is one offer of an input to a running turn. EventID is the waiting
// message's newest event; of a deadline warning an id that no event has. Prompt is
// what the host is given; it is "" once the delivery is settled.
type DeliveryRow struct {
	ID, TurnID, ThreadID, EventID string
	Kind                          DeliveryKind
	State                         DeliveryState
	Prompt                        string
	Now                           bool
	// At is how many bytes of the turn's answer text stood before a delivered
	// input: the log has output events for all of them.
	At                   int64
	CreatedAt, SettledAt int64
}

// Admission is what decides whether an account may start a turn now. Limits of 0
// mean that there is none.
type Admission struct {
	// Suspended blocks all routes; a metered route needs credits, of which nil
	// means without limit (decisions §2.17).
	Suspended bool
	Credits   *int64
	// Disabled tells that the account is; nothing of it is started meanwhile.
	Disabled bool
	// OrgTurns and MemberTurns bound the turns that run at once, OrgDaily and
	// MemberDaily those started in a day (UTC).
	OrgTurns, MemberTurns int
	OrgDaily, MemberDaily int
}

// Load is how much of its limits an org and one of its members use: turns that
// are pending or running, turns of the org that wait, turns started since a moment.
type Load struct {
	OrgActive, MemberActive   int
	OrgQueued                 int
	OrgStarted, MemberStarted int
}

// ChargeRow is one booked quantity of a metered turn (SQ74). ID is a UUIDv5 of
// turn, response and category, so that booking again books nothing.
type ChargeRow struct {
	ID, OrgID, AccountID, TurnID string
	Provider, Model              string
	ResponseID, Category         string
	Quantity, Credits            int64
	CreatedAt                    int64
}

// TurnRow is a turn as it is stored. InputEventID is the waiting message that it
// took. RecoverBy is set while a cancelled turn waits for its host's end.
type TurnRow struct {
	ID, OrgID, AccountID, ThreadID string
	InputEventID                   string
	RunID, BindingID, HostID       string
	VirtualTurnID                  string
	Status                         TurnStatus
	Reason                         string
	Error                          wire.Code
	Interrupted                    bool
	RecoverBy                      int64
	Model, Route                   string
	// Billing is own or metered; Family is that of the model.
	Billing, Family string
	// MarkerEventID is the turn.queued event of a turn that waits for the org.
	MarkerEventID string
	// Context is what the model was told beside the prompt (SQ6, SQ22).
	Context string
	// EstimateInput and EstimateOutput are counted here, in tokens, at the end of a
	// turn that a host knew; they count only while nothing was reported (F26).
	EstimateInput, EstimateOutput int64
	Partial                       *string
	CreatedAt, StartedAt, EndedAt int64
}

// DeltaRow is a piece of a running turn's text with the native events it is of.
type DeltaRow struct {
	TurnID   string
	From, To int64
	Text     string
	Sources  []string
}

// RunRow is one attachment of a thread to a host.
type RunRow struct {
	ID, OrgID, AccountID, ThreadID string
	HostID, TargetRef              string
	Cursor                         uint64
	CreatedAt                      int64
}

// BindingRow is a native conversation at a host, pinned to a route for life.
type BindingRow struct {
	ID, RunID                             string
	ModelProvider, ModelProviderID, Model string
	VirtualThreadID                       string
	ContinueFrom                          string
	Applied                               bool
	CreatedAt                             int64
}

// CommandState says what a host may know of a command.
type CommandState string

// The states of a command. Parked: its turn waits for the org, no host is told.
// Pending: never given to a host, or known to have had no effect there. Sent: the
// host may know it. The others need no answer.
const (
	CommandParked  CommandState = "parked"
	CommandPending CommandState = "pending"
	CommandSent    CommandState = "sent"
	CommandAcked   CommandState = "acked"
	CommandFailed  CommandState = "failed"
	CommandDropped CommandState = "dropped"
)

// Open tells whether a command in this state still needs an answer.
func (s CommandState) Open() bool { return s == CommandPending || s == CommandSent }

// CommandRow is one command of a run. Kind is its wire type. Body is "" once it
// needs no answer any more: nobody reads it then, and it holds what people wrote.
type CommandRow struct {
	RunID     string
	Seq       uint64
	TurnID    string
	Kind      string
	Body      json.RawMessage
	State     CommandState
	Error     wire.Code
	CreatedAt int64
}
