// Package link is one session between a relay host and a gateway: hello, attach,
// command, ack, envelope, cursor, steer, receipt, heartbeat. A host serves its end with
// ServeHost, or stays linked with Keep; a gateway opens its end with Open. Both run
// over any Conn: Pipe inside a process, Dial and Accept over a WebSocket.
//
// What holds on both ends:
//   - The link keeps nothing durable. Whatever was not acknowledged is asked for
//     or sent again after the next Attach.
//   - Messages of one run keep their order; commands of one run are applied one
//     after the other, those of different runs in parallel, and no run waits for
//     another one's store or consumer.
//   - A steer is offered in its place among the commands; its receipt comes when
//     the turn has decided, which holds nothing up. Steers pass only where both ends
//     agreed on wire.CapabilitySteer.
//   - Both ends send a heartbeat and end the link after MaxSilence without any
//     message. Heartbeats echo each other, so both know the round trip and how far
//     the clocks are apart.
//   - An end that closes says why (Ending); the other end learns it as EndedError.
//   - An end returns only after all of its goroutines have ended.
//   - A peer that takes nothing ends the link by a timeout of the write, and one that
//     sends faster than it is read waits: nothing is gathered for either.
//
// What RH47 does by quarantine, blocking a host for as long as its lease may live, is
// here in two parts. A run whose attach failed is refused by itself: no command of it
// passes before it is attached anew, and other runs go on. That two links of a host
// never work at once is up to the gateway, which ends the older one (4409); its host
// does not come back by itself.
//
// Goroutines of a host's end: the caller of ServeHost reads; one goroutine beats,
// one publishes room and catalog; each run that is attached or being attached has
// one that applies its messages and one that pumps its envelopes. Of a gateway's
// end: the caller of Serve reads, one goroutine beats.
package link

import (
	"context"

	"github.com/fairlead/fairlead/relay/wire"
)

// Conn is one end of a link. Send and Receive may be called from different
// goroutines, each from one at a time. Messages arrive in order, once, or the
// link ends. After Close of either end both calls fail with an error that is
// ErrClosed; Receive first gives what the other end had sent before it closed, and
// then an *EndedError if that gave a reason. A fault of the other end is a
// *ProtocolError. Of several endings the first counts. Close is safe to call from
// anywhere and takes a few seconds at most.
type Conn interface {
	Send(ctx context.Context, m wire.LinkMessage) error
	Receive(ctx context.Context) (wire.LinkMessage, error)
	Close(e Ending) error
}

// Host is what a link serves: the relay host behind it. Errors are *wire.Error.
type Host interface {
	Hello() wire.Hello
	// Attach opens the scope, binds the account, authorises the run and applies
	// the cursor (RH47). capabilities are those of the Welcome.
	Attach(ctx context.Context, a wire.Attach, capabilities []string) (Attachment, error)
	// Catalog answers a catalog request with what is configured now.
	Catalog(ctx context.Context, challenge string) (wire.CatalogMessage, error)
	Room() wire.Room
	// Draining tells whether the host takes no new prompt, and why (RH62).
	Draining() (reason string, yes bool)
	// Drain is the gateway's wish that the host drains; resume takes it back.
	Drain(reason string, resume bool)
	// Watch calls fn when Room, Draining or the readiness of a route changed; fn must
	// not block.
	Watch(fn func()) (stop func())
}

// Attachment is one authorised run of a scope.
type Attachment interface {
	RuntimeCursor() uint64
	// Command applies a command and answers it; it never returns before the
	// effect is durable (RH53).
	Command(ctx context.Context, m wire.CommandMessage) wire.Ack
	// Steer offers a message to a running turn and returns once the turn knows of
	// it. receipt waits, for as long as it takes, for what became of it; known is
	// false if ctx ended first, or if nothing can be known before the run is attached
	// again. An error ends the attachment.
	Steer(ctx context.Context, m wire.Steer) (receipt func(context.Context) (r wire.Receipt, known bool), err error)
	// Next waits for envelopes that are journaled and not yet handed off in this
	// attachment, and gives them in order of Seq. The first call after Attach
	// gives the pending ones above the cursor again, byte-identical (RH49).
	Next(ctx context.Context) ([]wire.Envelope, error)
	// HandedOff tells that everything up to seq was given to the transport: the turns
	// that ended are settled durably and the claims are dropped (RH42).
	HandedOff(ctx context.Context, seq uint64) error
	// Acknowledge retires the envelopes up to cursor (RH49).
	Acknowledge(ctx context.Context, cursor uint64) error
	// Close releases the claims; the scope keeps its state.
	Close()
}
