package gateway

import (
	"context"
	"errors"

	"github.com/fairlead/fairlead/relay/wire"
)

// ErrNoRow is given by look-ups of a ChatTx that find nothing.
var ErrNoRow = errors.New("gateway: no such row")

// ErrRowExists is given by inserts of a ChatTx whose key is taken; the
// transaction can go on.
var ErrRowExists = errors.New("gateway: row exists")

// ChatStore is the durable truth of threads, logs, queue, turns and runs. Its
// conformance suite is gatewaytest.ChatStore.
//
// Update runs fn in one transaction and returns after it is durable; an error of
// fn undoes it and is returned as it is. Updates are serialised as far as their
// locks ask; fn is run again, from its beginning, when the database breaks up a
// deadlock, so it must not build on what an earlier run of it left behind. View gives fn one snapshot. Failures of the store itself are
// *wire.Error with code storage_unavailable. fn must be quick, must use nothing
// but the transaction, and must not start another one.
type ChatStore interface {
	Update(ctx context.Context, fn func(ChatTx) error) error
	View(ctx context.Context, fn func(ChatTx) error) error
}

// ChatTx is one transaction of a ChatStore.
type ChatTx interface {
	ChatLocks
	ThreadRows
	EventRows
	QueueRows
	DeliveryRows
	AdmissionRows
	TurnRows
	RunRows
	FeedRows
	AdminRows
	// OnCommit runs fn after the commit, before Update returns: in commit order
	// among the updates of a thread, an account's feed or an org that were locked.
	// fn must not block.
	OnCommit(fn func())
}

// ChatLocks are the explicit locks of a transaction, taken in this order. Where
// a store has one writer they do nothing. LockOrg is the org admission lock: it
// orders all that counts or changes how many turns of an org run.
type ChatLocks interface {
	LockOrg(ctx context.Context, orgID string) error
	LockThread(ctx context.Context, threadID string) error
	LockTurn(ctx context.Context, turnID string) error
	LockQueueRow(ctx context.Context, eventID string) error
}

// ThreadRows are agents, threads and spent client event ids.
type ThreadRows interface {
	// Agent gives an agent of the org, or ErrNoRow.
	Agent(ctx context.Context, orgID, agentID string) (AgentRow, error)
	// InsertAgent stores an agent.
	InsertAgent(ctx context.Context, a AgentRow) error
	// UpdateAgent writes name, description, instructions, model, private, updatedAt
	// and deletedAt.
	UpdateAgent(ctx context.Context, a AgentRow) error
	// Agents lists what an account may see: the org's public agents and its own
	// private ones, without deleted ones, the default first, then by name.
	Agents(ctx context.Context, orgID, accountID string) ([]AgentRow, error)
	// DefaultAgent gives the default agent of the org; it is made with newID if
	// there is none.
	DefaultAgent(ctx context.Context, orgID, newID string, now int64) (AgentRow, error)

	// InsertThread gives ErrRowExists if the id was ever used.
	InsertThread(ctx context.Context, t ThreadRow) error
	// Thread gives a thread, also a deleted one, with what is read beside it.
	Thread(ctx context.Context, threadID string) (ThreadRow, error)
	// UpdateThread writes title, model, lastReadSeq, updatedAt and deletedAt.
	UpdateThread(ctx context.Context, t ThreadRow) error
	// EraseThread removes the content of a thread: events, queue, streamed text, and
	// the prompts that its hosts have not answered; those are not told again.
	EraseThread(ctx context.Context, threadID string) error
	// Threads lists the threads of an account, newest first.
	Threads(ctx context.Context, q ThreadQuery) ([]ThreadRow, error)
	// IdleThreads lists threads that could start a turn: something waits, no
	// turn is active or recovering, the owner is not disabled.
	IdleThreads(ctx context.Context, limit int) ([]string, error)

	// ClaimClientEvent stores e unless its id is spent: then it gives the first
	// one and fresh is false. Of two at once the second waits for the first.
	ClaimClientEvent(ctx context.Context, e ClientEvent) (first ClientEvent, fresh bool, err error)
	// ClientEvent gives a spent id, or ErrNoRow.
	ClientEvent(ctx context.Context, id string) (ClientEvent, error)
	// SetClientReply stores the first reply; see ClientEvent.Settled.
	SetClientReply(ctx context.Context, id string, reply []byte, settled bool) error
}

// ThreadQuery selects threads of one account. BeforeAt and BeforeID are the last
// row of the page before; Match is part of a title, any case.
type ThreadQuery struct {
	AccountID string
	BeforeAt  int64
	BeforeID  string
	Match     string
	Limit     int
}

// EventRows are the append-only logs of threads.
type EventRows interface {
	// AppendEvents stores events at the end of their thread's log and sets their
	// SeqID. It gives ErrRowExists if an id is taken.
	AppendEvents(ctx context.Context, threadID string, events []*Event) error
	// Event gives an event of any thread, or ErrNoRow.
	Event(ctx context.Context, eventID string) (Event, error)
	// Revoker gives the event that revokes eventID, or ErrNoRow.
	Revoker(ctx context.Context, eventID string) (Event, error)
	// Events reads a part of a log, ascending. more tells that events in the
	// direction of reading were left out.
	Events(ctx context.Context, q EventQuery) (events []Event, more bool, err error)
}

// EventQuery selects events of a thread: those after After, oldest first, or
// with Newest the newest ones before Before (0 = the end). At most Limit events
// and about MaxBytes of them, but at least one.
type EventQuery struct {
	ThreadID string
	After    int64
	Newest   bool
	Before   int64
	Limit    int
	MaxBytes int
}

// QueueRows are the waiting messages.
type QueueRows interface {
	Enqueue(ctx context.Context, q QueueRow) error
	// QueueHead gives the item that is next in the thread, or ErrNoRow.
	QueueHead(ctx context.Context, threadID string) (QueueRow, error)
	// QueueItem gives a waiting item, or ErrNoRow.
	QueueItem(ctx context.Context, eventID string) (QueueRow, error)
	// Dequeue removes an item; ok is false if it was gone.
	Dequeue(ctx context.Context, eventID string) (ok bool, err error)
	// Steers lists the items of a thread with mode steer, in order.
	Steers(ctx context.Context, threadID string) ([]QueueRow, error)
	// Backlog counts what waits in all threads.
	Backlog(ctx context.Context) (Backlog, error)
}

// DeliveryRows are the offers of inputs to running turns. A turn has at most one
// open delivery and at most one deadline warning; an item at most one open one.
type DeliveryRows interface {
	// InsertDelivery gives ErrRowExists where that would be broken.
	InsertDelivery(ctx context.Context, d DeliveryRow) error
	Delivery(ctx context.Context, deliveryID string) (DeliveryRow, error)
	// OpenDelivery gives the reserved or held delivery of a turn, or ErrNoRow.
	OpenDelivery(ctx context.Context, turnID string) (DeliveryRow, error)
	// DeliveryOfEvent gives the open delivery of a waiting message, or ErrNoRow.
	DeliveryOfEvent(ctx context.Context, eventID string) (DeliveryRow, error)
	// Deliveries lists all deliveries of a turn, oldest first.
	Deliveries(ctx context.Context, turnID string) ([]DeliveryRow, error)
	// UpdateDelivery writes state, prompt, now, at and settledAt.
	UpdateDelivery(ctx context.Context, d DeliveryRow) error
	// AgedTurns lists running turns that started at or before a moment and have no
	// deadline warning yet.
	AgedTurns(ctx context.Context, startedBy int64) ([]TurnRow, error)
}

// AdmissionRows are what admission asks and books.
type AdmissionRows interface {
	// Admission gives the entitlement and the limits of an account. An org without
	// an entitlement row is ErrNoRow.
	Admission(ctx context.Context, orgID, accountID string) (Admission, error)
	// Load counts turns; started since the moment.
	Load(ctx context.Context, orgID, accountID string, since int64) (Load, error)
	// QueuedTurns lists the turns of an org that wait for it, oldest first, without
	// their contexts.
	QueuedTurns(ctx context.Context, orgID string, limit int) ([]TurnRow, error)
	// WaitingOrgs lists the orgs in which turns wait.
	WaitingOrgs(ctx context.Context) ([]string, error)
	// Charge books rows and takes their credits from the org; those known already
	// change nothing.
	Charge(ctx context.Context, rows []ChargeRow) error
	// Charges lists what was booked for a turn, by category.
	Charges(ctx context.Context, turnID string) ([]ChargeRow, error)
}

// TurnRows are turns with their text in progress, usage and timeline.
type TurnRows interface {
	// InsertTurn gives queue_association_required for an empty InputEventID
	// (SQ1), and ErrRowExists if the thread has an active turn or the input was
	// taken before.
	InsertTurn(ctx context.Context, t TurnRow) error
	Turn(ctx context.Context, turnID string) (TurnRow, error)
	// TurnStatus is Turn for those who need no more, with each piece of text.
	TurnStatus(ctx context.Context, turnID string) (TurnStatus, error)
	// TurnOfHost finds a turn by the name that its host knows it by.
	TurnOfHost(ctx context.Context, runID, virtualTurnID string) (TurnRow, error)
	// UpdateTurn writes status, reason, error, interrupted, recoverBy, partial,
	// markerEventId, the estimates, startedAt and endedAt.
	UpdateTurn(ctx context.Context, t TurnRow) error
	// ActiveTurn gives the turn of the thread that is not final, or ErrNoRow.
	ActiveTurn(ctx context.Context, threadID string) (TurnRow, error)
	// RecoveringTurns lists the cancelled turns of a thread ("" = of all) whose
	// end their host still owes.
	RecoveringTurns(ctx context.Context, threadID string) ([]TurnRow, error)
	// UnknownTurns lists the final turns of a thread that no host ever took, newest
	// first, with their Partial empty: rounds that no native history has (SQ22).
	UnknownTurns(ctx context.Context, threadID string, limit int) ([]TurnRow, error)
	// LiveTurns lists all turns that are not final.
	LiveTurns(ctx context.Context) ([]TurnRow, error)

	// AppendDelta stores text of a turn. ErrRowExists: text from this offset on is
	// stored already.
	AppendDelta(ctx context.Context, d DeltaRow) error
	Deltas(ctx context.Context, turnID string) ([]DeltaRow, error)
	DropDeltas(ctx context.Context, turnID string) error
	// AddUsage stores rows; those known already stay as they are.
	AddUsage(ctx context.Context, turnID string, rows []UsageRow) error
	Usage(ctx context.Context, turnID string) ([]UsageRow, error)
	AddMoment(ctx context.Context, turnID string, at int64, stage, detail string) error
	Moments(ctx context.Context, turnID string) ([]TurnMoment, error)
}

// RunRows are runs, bindings and commands: what hosts must know.
type RunRows interface {
	// RunFor gives the run of a thread at a host, or ErrNoRow.
	RunFor(ctx context.Context, threadID, hostID, targetRef string) (RunRow, error)
	InsertRun(ctx context.Context, r RunRow) error
	Run(ctx context.Context, runID string) (RunRow, error)
	// OpenRuns lists the runs of a host with an open command, a turn that is not
	// final or one that recovers.
	OpenRuns(ctx context.Context, hostID string) ([]string, error)
	// RunBusy tells whether OpenRuns would list the run.
	RunBusy(ctx context.Context, runID string) (bool, error)
	// RaiseCursor moves the durable cursor of a run forward.
	RaiseCursor(ctx context.Context, runID string, cursor uint64) error

	InsertBinding(ctx context.Context, b BindingRow) error
	Binding(ctx context.Context, bindingID string) (BindingRow, error)
	// LatestBinding gives the newest binding of the thread, at whatever host, that its
	// host has applied, and that host; or ErrNoRow.
	LatestBinding(ctx context.Context, threadID string) (b BindingRow, hostID string, err error)
	MarkApplied(ctx context.Context, bindingID string) error

	// AppendCommand stores a command with the run's next sequence number, as pending
	// unless it says parked.
	AppendCommand(ctx context.Context, c CommandRow) (seq uint64, err error)
	Command(ctx context.Context, runID string, seq uint64) (CommandRow, error)
	// OpenCommands lists the unanswered commands of a run in order.
	OpenCommands(ctx context.Context, runID string) ([]CommandRow, error)
	// TurnCommands lists all commands of a turn in order.
	TurnCommands(ctx context.Context, turnID string) ([]CommandRow, error)
	// SetCommand changes the state of a command; one that needs no answer any more
	// loses its body.
	SetCommand(ctx context.Context, runID string, seq uint64, state CommandState, code wire.Code) error
}

// FeedRows are the account-wide feeds.
type FeedRows interface {
	// AppendFeed stores e at the end of the account's feed and sets its SeqID.
	AppendFeed(ctx context.Context, accountID string, e *FeedEvent) error
	Feed(ctx context.Context, accountID string, after int64, limit int) ([]FeedEvent, error)
	FeedHead(ctx context.Context, accountID string) (int64, error)
}

// AdminRows are the read-outs for admins, newest first, of one org, and the record
// of what admins do.
type AdminRows interface {
	AdminBindings(ctx context.Context, orgID string, p Page) ([]AdminBinding, error)
	AdminTurns(ctx context.Context, orgID string, p Page) ([]AdminTurn, error)
	AdminQueue(ctx context.Context, orgID string, p Page) ([]AdminQueueItem, error)
	// AdminCommands lists the newest commands of a run, AdminEvents the newest events
	// of a thread.
	AdminCommands(ctx context.Context, runID string, limit int) ([]AdminCommand, error)
	AdminEvents(ctx context.Context, threadID string, limit int) ([]AdminEvent, error)
	// Audit stores an entry of the audit log.
	Audit(ctx context.Context, e AuditEntry) error
}
