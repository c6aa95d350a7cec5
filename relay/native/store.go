package native

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/wire"
)

// Errors of a Store that the runtime acts on.
var (
	// ErrIndeterminate marks a write of which nobody can know whether it was
	// stored. It is never repeated; see Runtime.Broken.
	ErrIndeterminate = errors.New("native: outcome of a write is unknown")
	// ErrNotFound is for a thread or a turn that is not there.
	ErrNotFound = errors.New("native: not found")
	// ErrActive refuses a second active turn of a thread.
	ErrActive = errors.New("native: the thread has an active turn")
	// ErrTurnExists refuses a reserved id that another turn has.
	ErrTurnExists = errors.New("native: the turn id is in use")
	// ErrOwnsTurns refuses to discard a thread that owns turns.
	ErrOwnsTurns = errors.New("native: the thread owns turns")
	// ErrOver refuses to add to a turn that has ended.
	ErrOver = errors.New("native: the turn has ended")
	// ErrTaken refuses a delivery that another turn took.
	ErrTaken = errors.New("native: the delivery belongs to another turn")
	// ErrStoreClosed is for every write after the store's database was closed.
	ErrStoreClosed = errors.New("native: the store is closed")
	// ErrInUse refuses a second runtime on one store.
	ErrInUse = errors.New("native: the store has an owner")
)

// Store keeps the records of the runtime. Each writing method is one durable
// step: all of it is stored when the method returns nil, and nothing of it when it
// returns an error that is not ErrIndeterminate. Sequence numbers are given out in
// the order of the steps and rise store-wide; the numbers of one step follow each
// other. All methods are safe for concurrent use, and what a method returns is
// durable.
//
// An error that concerns stored data names the file and what to do.
type Store interface {
	// Claim takes the store for one runtime, or fails with ErrInUse.
	Claim() (release func(), err error)
	// Owner is the random id of the store; the first call makes it.
	Owner(ctx context.Context, proposed string) (string, error)

	// CreateThread stores a thread, its thread.started event and, with copyFrom,
	// copies of the completed and the stopped rounds of that thread, which have no
	// turn. ErrNotFound: copyFrom is not there.
	CreateThread(ctx context.Context, t Thread, copyFrom string, e Event) error
	// DiscardThread removes a thread without turns; ErrOwnsTurns.
	DiscardThread(ctx context.Context, id string) error
	// Thread reads a thread; ErrNotFound.
	Thread(ctx context.Context, id string) (Thread, error)
	// Rounds reads the rounds of a thread that have ended, oldest first.
	Rounds(ctx context.Context, threadID string) ([]Round, error)

	// Operation looks an operation up by its fingerprint.
	Operation(ctx context.Context, fingerprint string) (op Operation, ok bool, err error)
	// AcceptTurn stores, in one step, the operation, the user's item, the turn, the
	// thread's pointer to it, and its turn.started event. If the operation is there
	// already it is returned with ok = false and nothing is stored. ErrNotFound,
	// ErrActive, ErrTurnExists.
	AcceptTurn(ctx context.Context, a Acceptance) (op Operation, ok bool, err error)
	// AppendDeltas stores pieces of what a turn streams as item.delta events, with
	// the items that they belong to; ErrOver.
	AppendDeltas(ctx context.Context, threadID, turnID string, deltas []Delta) error
	// TakeSteer ends the round in progress of a live turn, with the texts of its
	// items, and begins the next one, with the person's message, as one step with the
	// delivery and its turn.steered event. For a delivery that the turn has taken
	// already it does nothing. ErrOver, also for a turn whose interrupt was requested;
	// ErrTaken.
	TakeSteer(ctx context.Context, s Steering) error
	// Delivery looks a delivery up; ErrNotFound.
	Delivery(ctx context.Context, deliveryID string) (Step, error)
	// Steps reads what a turn took, in order.
	Steps(ctx context.Context, turnID string) ([]Step, error)
	// RequestInterrupt marks a live turn and stores e; for a turn that is marked
	// or has ended it does nothing.
	RequestInterrupt(ctx context.Context, threadID, turnID string, e Event) error
	// CompleteTurn stores the end of a turn, the texts of the items of its last round
	// and its one turn.completed event. For a turn that has ended it does nothing.
	CompleteTurn(ctx context.Context, c Completion) error

	// Turn reads a turn; ErrNotFound.
	Turn(ctx context.Context, threadID, turnID string) (Turn, error)
	// LiveTurns reads the turns that have not ended, in order of their start.
	LiveTurns(ctx context.Context) ([]Turn, error)
	// Streamed gathers the texts of a turn's last round from its events.
	Streamed(ctx context.Context, threadID, turnID string) (answer, reasoning string, err error)
	// Events reads at most limit events of a thread after a sequence number.
	Events(ctx context.Context, threadID string, after uint64, limit int) ([]relay.NativeEvent, error)
}

// Thread is a native thread.
type Thread struct {
	ID              string
	CreatedAt       time.Time
	Model           string
	ModelProvider   string
	ModelProviderID string
	ReasoningEffort string
	SystemPrompt    string
}

// Turn is a native turn.
type Turn struct {
	ID                 string
	ThreadID           string
	Status             relay.NativeStatus
	Summary            string // of the prompt, at most 280 characters
	Model              string
	ModelProvider      string
	ModelProviderID    string
	BillingSurface     string
	BillingMode        string
	ReasoningEffort    string
	MaxOutputTokens    uint32
	CreatedAt          time.Time
	InterruptRequested bool
}

// Operation binds the fingerprint of an operation key to one request.
type Operation struct {
	Fingerprint        string
	ThreadID           string
	TurnID             string
	RequestFingerprint string
}

// Acceptance is everything that is stored when a turn is accepted.
type Acceptance struct {
	Operation Operation
	Turn      Turn
	ItemID    string // of the user's message
	Prompt    string
	Images    []wire.Image
	Started   Event
}

// Event is an event of the ledger before it has its sequence number.
type Event struct {
	Name    string
	At      time.Time
	Payload json.RawMessage
}

// ItemKind says what an item holds.
type ItemKind string

// The kinds of an item of a tool-less conversation.
const (
	ItemUser      ItemKind = "user_message"
	ItemAnswer    ItemKind = wire.DeltaMessage
	ItemReasoning ItemKind = wire.DeltaReasoning
)

// Delta is one piece of a running turn. New is set on the first of its item.
type Delta struct {
	ItemID string
	Kind   ItemKind
	Route  string // as in Round
	New    bool
	Event  Event
}

// Step is a steer that a turn took, with what was reported of the response before.
type Step struct {
	wire.Delivered
	ThreadID      string
	TurnID        string
	Usage         *wire.Usage // nil if none was reported
	ResponseID    string
	ResponseModel string
}

// Steering is everything that is stored when a turn takes a steer. Answer and
// Reasoning are of the round that ends.
type Steering struct {
	Step
	Answer    string
	Reasoning string
	ItemID    string // of the person's message
	Text      string
	Event     Event
}

// Completion is the end of a turn. Answer and Reasoning are of its last round.
type Completion struct {
	ThreadID      string
	TurnID        string
	Status        relay.NativeStatus // final
	EndedAt       time.Time
	Usage         json.RawMessage // of wire.Usage, or nil if none was reported
	Error         string          // code, or ""
	ResponseID    string
	ResponseModel string
	Answer        string
	Reasoning     string
	Completed     Event
}

// Round is a round of a conversation that has ended: a message and its answer. A
// turn is one round, and one more for each steer that it took.
type Round struct {
	Status    relay.NativeStatus
	Cut       bool // with interrupted: by the steer that is the next round
	Prompt    string
	Images    []wire.Image
	Answer    string
	Reasoning string
	Route     string // that made it; see routeKey
}
