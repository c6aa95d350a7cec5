package gateway

import (
	"encoding/json"

	"github.com/fairlead/fairlead/relay/wire"
)

// The rows of a ChatStore. Moments are integer milliseconds since 1970; 0 in an
// optional one means unset.

// AgentRow is an assistant profile. OwnerID is "" for those of the whole org.
type AgentRow struct {
	ID, OrgID, OwnerID, Name string
	Private                  bool
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
	// Waiting, Active and Recovering are read beside the row, never written.
	Waiting    int
	Active     *TurnRef
	Recovering bool
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
	Reply         json.RawMessage
	CreatedAt     int64
}

// ClientEventKind is the operation that a client event id was spent on.
type ClientEventKind string

// The kinds of client events.
const (
	ClientSend      ClientEventKind = "send"
	ClientRecall    ClientEventKind = "recall"
	ClientInterrupt ClientEventKind = "interrupt"
)

// QueueRow is a waiting message. EventID is the newest event of its chain,
// OriginID the client's; items of a thread are taken in order of Rank, then
// OriginSeq.
type QueueRow struct {
	EventID, OriginID string
	OriginSeq         int64
	ThreadID          string
	Rank              int
	Mode              Mode
	Model             string
	Options           *Options
	Prompt            string
	CreatedAt         int64
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
	Partial                        *string
	CreatedAt, StartedAt, EndedAt  int64
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

// The states of a command. Pending: never given to a host, or known to have had
// no effect there. Sent: the host may know it. The others need no answer.
const (
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
