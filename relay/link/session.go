package link

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Handler is told what a host sends. Its methods are called one at a time, in
// the order of the messages, and must not block: they hold up every run of the
// link.
type Handler interface {
	// Attached answers Attach. Events of the run that follow it are of the new
	// attachment.
	Attached(wire.Attached)
	// Refused answers Attach, or ends an attachment that the host cannot serve
	// any longer.
	Refused(wire.Refused)
	Ack(wire.Ack)
	Event(wire.EventMessage)
	// Receipt settles a Steer. It may come twice, and before events that the host
	// journaled earlier.
	Receipt(wire.Receipt)
	Room(wire.Room)
	Catalog(wire.CatalogMessage)
	// Draining tells that the host takes no new prompt any more (RH62); it comes for
	// each time that it begins, and when the reason is another one.
	Draining(wire.Draining)
	// Offline is the last word of a host that leaves in good order.
	Offline(wire.Offline)
}

// SessionOptions are the settings of a gateway's end.
type SessionOptions struct {
	// Capabilities are those that the gateway takes up where a host offers them.
	Capabilities []string
	// Heartbeat is what both ends keep to; 0 is HeartbeatEvery.
	Heartbeat time.Duration
	// Silence is how long the host may be silent; 0 is MaxSilence.
	Silence time.Duration
	// HostID is the host that the credential is of: one that says that it is another
	// is refused (RH45). Empty lets every host pass.
	HostID string
}

// Session is a gateway's end of an open link. Its sending methods are safe for
// concurrent use; they wait while the host takes nothing, and answers come
// through the Handler of Serve.
type Session struct {
	peer         *peer
	hello        wire.Hello
	capabilities []string
	heartbeat    time.Duration
}

// Open waits for the host's hello and welcomes it. On an error, a *ProtocolError
// if the host is at fault, conn is closed.
func Open(ctx context.Context, conn Conn, o SessionOptions) (*Session, error) {
	if o.Heartbeat == 0 {
		o.Heartbeat = HeartbeatEvery
	}
	s := &Session{peer: newPeer(conn, o.Silence), heartbeat: o.Heartbeat}
	if err := s.handshake(ctx, o); err != nil {
		_ = conn.Close(endingFor(err))
		return nil, err
	}
	return s, nil
}

func (s *Session) handshake(ctx context.Context, o SessionOptions) error {
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, misuse("no hello within %s", handshakeTimeout))
	defer cancel()
	m, err := s.peer.receive(ctx)
	if err != nil {
		return err
	}
	hello, ok := m.(wire.Hello)
	if !ok {
		return misuse("%T in place of the hello", m)
	}
	if faults := wire.ValidateStruct(hello); len(faults) > 0 {
		return misuse("the hello is malformed in %s (%s)", faults[0].Path, faults[0].Rule)
	}
	if o.HostID != "" && hello.HostID != o.HostID {
		return &ProtocolError{What: "the host says that it is another one: " + hello.HostID, code: CloseForbidden}
	}
	s.hello, s.capabilities = hello, common(hello.Capabilities, o.Capabilities)
	// A host of another version gets the welcome too, so that it can name the gap.
	err = s.peer.send(ctx, wire.Welcome{
		Protocol: wire.HostProtocol, Capabilities: s.capabilities, HeartbeatMs: s.heartbeat.Milliseconds(),
	})
	if !slices.Contains(hello.Protocols, wire.HostProtocol) {
		return skew(hello.Protocols, wire.HostProtocol)
	}
	return err
}

// Hello is what the host said of itself.
func (s *Session) Hello() wire.Hello { return s.hello }

// Capabilities are those that both ends agreed on.
func (s *Session) Capabilities() []string { return slices.Clone(s.capabilities) }

// Heard is when the host's last message came.
func (s *Session) Heard() time.Time { return s.peer.heard.get() }

// Serve hands the host's messages to h until the link or ctx ends, and closes the
// link. It is called once. The error says why the link ended and is never nil.
func (s *Session) Serve(ctx context.Context, h Handler) error {
	ctx, stop := context.WithCancelCause(ctx)
	var beats sync.WaitGroup
	signal(s.peer.asked) // so that the first round trip is known soon
	beats.Go(func() { exceptClosed(stop)(s.peer.beat(ctx, s.heartbeat)) })
	stop(s.read(ctx, h))
	beats.Wait()
	cause := context.Cause(ctx)
	_ = s.End(endingFor(cause)) // the transport may have ended before
	return cause
}

func (s *Session) read(ctx context.Context, h Handler) error {
	for {
		m, err := s.peer.receive(ctx)
		if err != nil {
			return err
		}
		if err := s.deliver(m, h); err != nil {
			return err
		}
	}
}

func (s *Session) deliver(m wire.LinkMessage, h Handler) error {
	switch m := m.(type) {
	case wire.Attached:
		h.Attached(m)
	case wire.Refused:
		h.Refused(m)
	case wire.Ack:
		h.Ack(m)
	case wire.EventMessage:
		h.Event(m)
	case wire.Receipt:
		if !slices.Contains(s.capabilities, wire.CapabilitySteer) {
			return misuse("a receipt on a link without steers")
		}
		h.Receipt(m)
	case wire.Room:
		h.Room(m)
	case wire.CatalogMessage:
		h.Catalog(m)
	case wire.Draining:
		h.Draining(m)
	case wire.Offline:
		h.Offline(m)
	case wire.Heartbeat:
	default:
		return misuse("a gateway cannot take a %T", m)
	}
	return nil
}

// Attach asks the host to open the run's scope and to authorise the run (RH47);
// Attached or Refused answers. On a run that is attached it starts over.
func (s *Session) Attach(ctx context.Context, m wire.Attach) error { return s.peer.send(ctx, m) }

// Command sends one command; Ack answers.
func (s *Session) Command(ctx context.Context, m wire.CommandMessage) error {
	return s.peer.send(ctx, m)
}

// Steer offers a message to a running turn; Receipt answers, unless the attachment
// ends first: then it is offered again after the next one. It is for links that
// agreed on wire.CapabilitySteer.
func (s *Session) Steer(ctx context.Context, m wire.Steer) error { return s.peer.send(ctx, m) }

// Cursor retires the envelopes of a run up to cursor (RH49).
func (s *Session) Cursor(ctx context.Context, runID string, cursor uint64) error {
	return s.peer.send(ctx, wire.CursorMessage{RunID: runID, Cursor: cursor})
}

// Detach ends the attachment of a run. Events that are on their way still come.
func (s *Session) Detach(ctx context.Context, runID string) error {
	return s.peer.send(ctx, wire.Detach{RunID: runID})
}

// RequestCatalog asks for the catalog under a challenge (RH15); Catalog answers.
func (s *Session) RequestCatalog(ctx context.Context, challenge string) error {
	return s.peer.send(ctx, wire.CatalogRequest{Challenge: challenge})
}

// Drain asks the host to take no new prompt; resume takes that back.
func (s *Session) Drain(ctx context.Context, reason string, resume bool) error {
	return s.peer.send(ctx, wire.Drain{Reason: reason, Resume: resume})
}

// Revoke tells the host that it is not to come back. End follows.
func (s *Session) Revoke(ctx context.Context, reason string) error {
	return s.peer.send(ctx, wire.Revoked{Reason: reason})
}

// Goaway tells the host that the link will end, and after how long to return. End
// follows.
func (s *Session) Goaway(ctx context.Context, reason string, retryAfter time.Duration) error {
	return s.peer.send(ctx, wire.Goaway{Reason: reason, RetryAfterMs: retryAfter.Milliseconds()})
}

// Clock gives how far the host's clock is ahead of this one's, and the round trip
// that told, the shortest of the last few; ok is false while none is known.
func (s *Session) Clock() (offset, roundTrip time.Duration, ok bool) { return s.peer.clock.read() }

// End ends the link as e says, unless it has ended before; Serve returns soon after.
func (s *Session) End(e Ending) error { return s.peer.conn.Close(e) }
