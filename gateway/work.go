package gateway

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// RunWork is what a host must be told about one run now.
type RunWork struct {
	RunID  string
	HostID string // host that owns the run
	Attach wire.Attach
	// Commands are those not yet answered, in order of Seq; the next is sent only
	// when the one before was acknowledged (decisions §2.21).
	Commands []wire.CommandMessage
	// Generation is the generation of settings that the host must understand for
	// Commands[0]; 0 for none (AD78, FR38).
	Generation int
	// Idle is set when the run has no command and no turn that its host still
	// owes an end: the attachment may be closed.
	Idle bool
}

// Ledger is the account-side truth as the dispatcher of hosts sees it. The
// dispatcher keeps nothing durable of its own: after a restart, a reconnect or a
// lost acknowledgement it asks again.
type Ledger interface {
	// OpenRuns lists the runs of a host that are not idle.
	OpenRuns(ctx context.Context, hostID string) ([]string, error)
	// HostOf names the host that owns a run, and tells whether the run is idle. It
	// changes nothing. Errors: not_found.
	HostOf(ctx context.Context, runID string) (hostID string, idle bool, err error)
	// Work gives what a run needs. Commands that it gives are marked as sent,
	// durably, before it returns: from then on a cancel must go through the host.
	Work(ctx context.Context, runID string) (RunWork, error)
	// Ack records a host's answer. A retryable failure leaves the command to be
	// offered again: ask Work before it is sent again, since it may have been
	// dropped meanwhile. Another failure ends its turn with the code.
	Ack(ctx context.Context, ack wire.Ack) error
	// Intake takes envelopes of a run in order. Deltas are published before it
	// returns, all of it is durable when durable is called with the cursor that
	// the host may retire; what is known already is dropped.
	Intake(ctx context.Context, runID string, batch []wire.Envelope, durable func(cursor uint64)) error
	// Waiting tells why a pending turn of the run is not running yet
	// (turn.state.reason: host_offline, host_draining, host_outdated, no_room,
	// route_cooling); "" clears it. It is also called with host_offline for every
	// open run when its host's link ends, and with "" when the run is attached
	// again: a turn whose host stays away for too long is timed out (SQ37). With
	// host_offline, retryAt is when the host was last heard, if that is known.
	Waiting(ctx context.Context, runID, reason string, retryAt time.Time)
	// Poll gives the steer that is to be offered to the running turn of a run now,
	// and reserves it: asking again, also at the same moment, gives the same one
	// (SQ24–SQ26, SQ40). hostID is the host of the link that asks; a run of another
	// host is forbidden (SQ41). Without a waiting steer it takes no lock.
	Poll(ctx context.Context, hostID, runID string) (SteerOffer, error)
	// Receipt records what a host says of a steer and answers delivered or
	// rejected, however often it is told (SQ27, SQ30–SQ39). A delivery that is
	// unknown, of a deleted thread, of another turn or another host's is forbidden.
	Receipt(ctx context.Context, hostID string, r wire.Receipt) (wire.ReceiptOutcome, error)
	// Refused ends the pending turns of a run whose host refused to attach it. With
	// host_lost the host is gone for good: a running turn ends too.
	Refused(ctx context.Context, runID string, cause *wire.ErrorBody) error
}

// OfferOutcome says what a poll for steers found.
type OfferOutcome string

// The outcomes of a poll (SQ40).
const (
	OfferReserved OfferOutcome = "reserved"
	OfferEmpty    OfferOutcome = "empty"
	OfferHeld     OfferOutcome = "held"     // the turn was cancelled with a delivery open
	OfferTerminal OfferOutcome = "terminal" // the turn is over
	OfferRejected OfferOutcome = "rejected" // Reason says why
)

// SteerOffer is the answer to a poll. Steer is set with OfferReserved; DeliveryID
// and EventIDs also with OfferHeld. Reason is run_not_running or payload_too_large.
type SteerOffer struct {
	Outcome    OfferOutcome
	Reason     string
	DeliveryID string
	EventIDs   []string
	Steer      *wire.Steer
}

// Dispatcher is the hosts as the chat sees them.
type Dispatcher interface {
	// Wake tells that Work of the run may have changed. It never blocks.
	Wake(runID string)
}

// Route is a model resolved to the host and provider that serve it.
type Route struct {
	HostID    string
	TargetRef string
	// Capabilities are those that the host's link negotiated. Nil means all that
	// this gateway takes up, as the embedded host has them.
	Capabilities []string
	// Billing says who pays the provider; Prices are those of a metered route.
	Billing Billing
	Prices  Prices
	wire.Route
}

// Billing says who pays the provider of a route.
type Billing string

// The kinds of billing (decisions §1): the owner of the key, or the org in credits.
const (
	BillingOwn     Billing = "own"
	BillingMetered Billing = "metered"
)

// Prices are credits for 1,000,000 tokens of each category.
type Prices struct {
	Input, Output, CacheRead, CacheCreation int64
}

// HostPlace is what placement knows of a host, linked or not.
type HostPlace struct {
	HostID, TargetRef string
	Labels            []string
	// Draining tells that it takes no new turns for now, by its own wish or an admin's.
	Draining bool
}

// Placement is what may decide between hosts that offer the same model.
type Placement struct {
	// HostID is the host of the thread's newest conversation, "" if there is none. The
	// thread stays there while that host can serve it.
	HostID string
	// Running tells that a turn of the thread runs there: nothing moves it.
	Running bool
	// Generation is the generation of settings that the host must understand (AD78).
	Generation int
}

// Routes resolves models.
type Routes interface {
	// Models lists what the actor may use, in configured order.
	Models(ctx context.Context, actor Actor) ([]Model, error)
	// Resolve gives the first ready route that offers the name, or the default
	// for "". Errors: model_unknown; route_unavailable if none of them is ready;
	// no_host if no host is configured. A route whose host is offline for the
	// moment still resolves: its turn waits; one whose own host may be back in a moment,
	// with nobody knowing what it offers, is host_offline. at decides between hosts.
	Resolve(ctx context.Context, actor Actor, model string, at Placement) (Route, error)
}
