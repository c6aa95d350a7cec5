package relay

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Runtime owns native threads, turns and the event ledger. Its implementation
// is relay/native; the conformance suite is in relaytest. All methods are safe
// for concurrent use. Errors are *wire.Error.
type Runtime interface {
	// CreateThread makes a native thread, durable when it returns. With
	// ContinueFrom it starts as a copy of that thread's completed rounds.
	CreateThread(ctx context.Context, t NewThread) (threadID string, err error)
	// DiscardThread removes a thread that owns no turns (RH30).
	DiscardThread(ctx context.Context, threadID string) error
	// ReadThread fails with relay_native_unavailable unless the thread is there
	// and readable (RH29).
	ReadThread(ctx context.Context, threadID string) error
	// StartTurn accepts a turn durably under the reserved id and starts it. An
	// exact replay gets the original turn and starts nothing (RH66). It returns
	// once the turn is accepted, not when it ends.
	StartTurn(ctx context.Context, t StartTurn) error
	// ReadTurn tells whether the turn was accepted: ok is false only if it is
	// positively absent; an error means that nobody knows (RH35).
	ReadTurn(ctx context.Context, threadID, turnID string) (t NativeTurn, ok bool, err error)
	// InterruptTurn stops the active turn (RH68); repeating it is allowed.
	InterruptTurn(ctx context.Context, threadID, turnID string) error
	// OfferSteer offers a message to a turn that may be running. It returns once the
	// turn knows of it, in the order of the calls; settled then gives what became of
	// it, once. The turn takes it when the response in progress has ended, which
	// Now brings about at once, and makes one more provider request with it; it is
	// durable before the provider hears of it and before settled tells. The same
	// DeliveryID again is the same steer: a Now that it brings is taken up, and what
	// was taken stays taken. A turn that is over, or was told to stop, takes nothing
	// any more. settled is closed without a result if only the next process can know.
	OfferSteer(ctx context.Context, threadID, turnID string, s Steer) (settled <-chan SteerResult, err error)
	// Events reads the ledger of a thread after a sequence number, ascending, at
	// most limit records. Everything that it returns is durable (RH42).
	Events(ctx context.Context, threadID string, after uint64, limit int) ([]NativeEvent, error)
	// Watch calls fn after each durable append to the thread's ledger, without
	// holding a lock; fn must not block. stop ends the calls.
	Watch(threadID string, fn func()) (stop func())
}

// NewThread says what a native thread is made with (RH10).
type NewThread struct {
	Model           string
	ModelProvider   string
	ModelProviderID string
	ReasoningEffort string // canonical, or ""
	SystemPrompt    string // composed, RH9
	ContinueFrom    string // native thread id, or ""
}

// StartTurn says what a turn is started with (RH10, RH65). Prompt is raw: the
// runtime trims it.
type StartTurn struct {
	ThreadID        string
	TurnID          string // reserved id
	OperationKey    string // raw; never stored
	Prompt          string
	Images          []wire.Image
	Model           string
	ModelProvider   string
	ModelProviderID string
	ReasoningEffort string // canonical, or ""
	MaxOutputTokens uint32 // 0 = not limited
	Context         string // for this turn alone, or ""
}

// Steer is a message for a turn in progress.
type Steer struct {
	DeliveryID string
	Text       string // raw: the runtime trims it
	Now        bool   // the response in progress is cut
}

// SteerResult is what became of a steer: taken as Receipt tells it, or Reason says
// why not (wire.ReasonTurnOver, wire.ReasonTurnUnknown).
type SteerResult struct {
	Taken  bool
	At     uint64
	Cut    bool
	Reason string
}

// NativeTurn is what a host may know of a native turn.
type NativeTurn struct {
	ID     string
	Status NativeStatus
}

// NativeStatus is the state of a native turn: queued and in_progress are live,
// the others final.
type NativeStatus string

// The states of a native turn.
const (
	NativeQueued      NativeStatus = "queued"
	NativeInProgress  NativeStatus = "in_progress"
	NativeCompleted   NativeStatus = wire.NativeCompleted
	NativeFailed      NativeStatus = wire.NativeFailed
	NativeInterrupted NativeStatus = wire.NativeInterrupted
	NativeCanceled    NativeStatus = wire.NativeCanceled
)

// Live tells whether a turn in this state still runs.
func (s NativeStatus) Live() bool { return s == NativeQueued || s == NativeInProgress }

// NativeEvent is one record of the native ledger. Seq rises store-wide, so it
// skips within a thread. Payloads of the projected kinds:
//
//	turn.started    {"turn":{…native turn…}}
//	item.delta      {"kind":"agent_message"|"agent_reasoning","delta":"…"}, delta ≤ 32 KiB
//	turn.steered    not projected
//	turn.completed  {"turn":{"status","usage","effective_model",…},"outcome":{wire.Outcome}}
type NativeEvent struct {
	Seq       uint64
	ThreadID  string
	TurnID    string // "" for events of the thread itself
	ItemID    string
	Event     string
	Timestamp time.Time
	Payload   json.RawMessage
}
