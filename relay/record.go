package relay

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// ScopeRecord is the durable head of a scope. It exists once an account is bound.
type ScopeRecord struct {
	Key              string // wire.ScopeKey of the two below
	TargetRef        string
	SessionID        string
	OwnerFingerprint string // wire.OwnerFingerprint; the account itself is not kept
	CreatedAt        time.Time
}

// Binding pins a virtual thread of a run to one route and one native thread, for
// life (RH29).
type Binding struct {
	Ordinal         int64 // order of creation within the scope; the store sets it
	RunID           string
	BindingID       string
	VirtualThreadID string
	NativeThreadID  string
	Model           string
	ModelProvider   string
	ModelProviderID string
	FirstOperation  string // operation fingerprint of the command that made it
	SystemPrompt    string // fingerprint of its system prompt, or ""
	ContinuedFrom   string // binding whose rounds it started with, or ""
	ProjectedSeq    uint64 // native events up to here are projected or skipped
	CreatedAt       time.Time
}

// Turn is the reservation of one virtual turn.
type Turn struct {
	RunID                string
	BindingID            string
	TurnID               string // virtual
	NativeTurnID         string
	OperationFingerprint string
	RequestFingerprint   string
	TerminalProjected    bool
	// StartRejected is set when the native start was proven never accepted.
	StartRejected bool
	ReservedAt    time.Time
	SettledAt     time.Time // zero while unsettled
}

// Unsettled tells whether the turn may still be running or owes its end.
func (t Turn) Unsettled() bool { return !t.TerminalProjected }

// Reservation is what became of a wish to reserve a turn (RH32).
type Reservation int

// The results of a reservation.
const (
	ReservedNew Reservation = iota + 1
	ReservedExistingUnsettled
	ReservedExistingTerminal
	ReservedReopened
)

func (r Reservation) String() string {
	switch r {
	case ReservedNew:
		return "New"
	case ReservedExistingUnsettled:
		return "ExistingUnsettled"
	case ReservedExistingTerminal:
		return "ExistingTerminal"
	case ReservedReopened:
		return "Reopened"
	}
	return "none"
}

// Reserve is the reservation table of RH32: what becomes of want, given the
// reservation that its virtual turn has (nil: none) and the turn of the same
// binding that holds its operation fingerprint (nil: none). It changes nothing;
// the returned turn is the one to store.
func Reserve(existing, holder *Turn, want Turn) (Turn, Reservation, error) {
	if existing == nil {
		if holder != nil {
			return Turn{}, 0, wire.NewError(wire.CodeOperationReused, "This operation key belongs to another turn.")
		}
		return want, ReservedNew, nil
	}
	if existing.OperationFingerprint != want.OperationFingerprint ||
		existing.RequestFingerprint != want.RequestFingerprint || existing.NativeTurnID != want.NativeTurnID {
		return *existing, 0, wire.NewError(wire.CodeTurnMismatch, "This turn was reserved for a different request.")
	}
	switch {
	case existing.Unsettled():
		return *existing, ReservedExistingUnsettled, nil
	case !existing.StartRejected:
		return *existing, ReservedExistingTerminal, nil
	}
	reopened := *existing
	reopened.TerminalProjected, reopened.StartRejected, reopened.SettledAt = false, false, time.Time{}
	return reopened, ReservedReopened, nil
}

// untrusted is the error of RH3. what names the record and the rule, never a value.
func untrusted(what string) error {
	return wire.NewError(wire.CodeStateUntrusted, "The stored relay state cannot be trusted: "+what+
		" Nothing was changed. Restore the host's folder from a backup, or move its database aside to start empty.")
}

func (r ScopeRecord) validate() error {
	switch {
	case !wire.ValidOwnerComponent(r.TargetRef) || !wire.ValidOwnerComponent(r.SessionID):
		return untrusted("a scope has an invalid target or session.")
	case wire.ScopeKey(r.TargetRef, r.SessionID) != r.Key:
		return untrusted("a scope's key does not belong to its target and session.")
	case !storedFingerprint(r.OwnerFingerprint):
		return untrusted("a scope has an invalid owner fingerprint.")
	}
	return nil
}

func (b Binding) validate() error {
	switch {
	case !wire.ValidRelayID(b.RunID) || !wire.ValidRelayID(b.BindingID) ||
		!wire.ValidVirtualThreadID(b.VirtualThreadID) || !wire.ValidNativeID(b.NativeThreadID):
		return untrusted("a binding has an invalid id.")
	case !wire.ValidModelID(b.Model) || !wire.ValidRouteID(b.ModelProvider) || !wire.ValidRouteID(b.ModelProviderID):
		return untrusted("a binding has an unsafe route.")
	case !storedFingerprint(b.FirstOperation) || b.SystemPrompt != "" && !storedFingerprint(b.SystemPrompt):
		return untrusted("a binding has an invalid fingerprint.")
	case b.ProjectedSeq > math.MaxInt64:
		return untrusted("a binding has a cursor beyond any ledger.")
	case b.ContinuedFrom != "" && !wire.ValidRelayID(b.ContinuedFrom):
		return untrusted("a binding continues an invalid id.")
	}
	return nil
}

func (t Turn) validate() error {
	switch {
	case !wire.ValidRelayID(t.RunID) || !wire.ValidRelayID(t.BindingID) ||
		!wire.ValidVirtualTurnID(t.TurnID) || !wire.ValidNativeID(t.NativeTurnID):
		return untrusted("a turn reservation has an invalid id.")
	case !storedFingerprint(t.OperationFingerprint) || !storedFingerprint(t.RequestFingerprint):
		return untrusted("a turn reservation has an invalid fingerprint.")
	case t.StartRejected && !t.TerminalProjected:
		return untrusted("a turn reservation is rejected and unsettled at once.")
	}
	return nil
}

// validate is RH59 for one event of a run's journal. Its place is the next one after
// those before: a row that was lost would never be sent.
func (e JournalEntry) validate(place uint64) error {
	n := e.Envelope
	catalog, terminal := n.Event == wire.EventRuntimeCatalog, n.Event == wire.EventTurnCompleted
	switch {
	case n.SchemaVersion != wire.EnvelopeSchemaVersion || n.Kind != n.Event:
		return untrusted("a journaled event has another form than this version writes.")
	case n.Seq != place || n.Seq > maxCursor:
		return untrusted("a run's journal is out of order.")
	case !catalog && !terminal && n.Event != wire.EventTurnStarted && n.Event != wire.EventItemDelta:
		return untrusted("a journaled event is of no kind that may be sent.")
	case e.Integrity != (catalog || terminal):
		return untrusted("a journaled event has the wrong weight.")
	case n.SourceEventID == "" || !json.Valid(n.Payload):
		return untrusted("a journaled event is not complete.")
	case catalog != (n.ThreadID == "" && n.TurnID == ""):
		return untrusted("a journaled event belongs to no turn, or should not.")
	case !catalog && (!wire.ValidVirtualThreadID(n.ThreadID) || !wire.ValidVirtualTurnID(n.TurnID)):
		return untrusted("a journaled event has an invalid id.")
	}
	return nil
}

// storedFingerprint accepts what this host writes: lower case alone.
func storedFingerprint(s string) bool { return wire.ValidFingerprint(s) && strings.ToLower(s) == s }
