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
	// (turn.state.reason: host_offline, no_room, route_cooling); "" clears it. It
	// is also called with host_offline for every open run when its host's link
	// ends, and with "" when the run is attached again: a turn whose host stays
	// away for too long is timed out (SQ37). With host_offline, retryAt is when
	// the host was last heard, if that is known.
	Waiting(ctx context.Context, runID, reason string, retryAt time.Time)
	// Refused ends the pending turns of a run whose host refused to attach it.
	Refused(ctx context.Context, runID string, cause *wire.ErrorBody) error
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
	wire.Route
}

// Routes resolves models.
type Routes interface {
	// Models lists what the actor may use, in configured order.
	Models(ctx context.Context, actor Actor) ([]Model, error)
	// Resolve gives the first ready route that offers the name, or the default
	// for "". Errors: model_unknown; route_unavailable if none of them is ready;
	// no_host if no host is configured. A route whose host is offline for the
	// moment still resolves: its turn waits.
	Resolve(ctx context.Context, actor Actor, model string) (Route, error)
}
