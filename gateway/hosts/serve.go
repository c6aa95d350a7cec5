package hosts

import (
	"context"
	"errors"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// Serve drives the runs of a registered host over conn until ctx or the link ends,
// and closes conn. The error says why it ended and is never nil: ErrUnknownHost,
// ErrSuperseded (the host is told 4409), ErrRevoked (4403), ErrClosed (1012), ctx's
// cause, or an error of package link.
func (r *Registry) Serve(ctx context.Context, hostID string, conn link.Conn) (err error) {
	opened, err := link.Open(ctx, conn, link.SessionOptions{
		Capabilities: capabilities(), Heartbeat: r.heartbeat, Silence: r.silence, HostID: hostID,
	})
	if err != nil {
		return err
	}
	defer func() { _ = opened.End(endingFor(err)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.work, func() { cancel(ErrClosed) })()
	s, err := r.takeOver(ctx, cancel, hostID, opened)
	if err != nil {
		return err
	}
	return s.serve(ctx)
}

// endingFor is how a link is ended that Serve gives up with err.
func endingFor(err error) link.Ending {
	var misuse *link.ProtocolError
	switch {
	case errors.As(err, &misuse):
		return link.Ending{Code: link.CloseProtocol, Reason: misuse.What}
	case errors.Is(err, ErrSuperseded):
		return link.Ending{Code: link.CloseSuperseded, Reason: "a newer link took over"}
	case errors.Is(err, ErrRevoked), errors.Is(err, ErrUnknownHost):
		return link.Ending{Code: link.CloseForbidden, Reason: "revoked"}
	case errors.Is(err, ErrClosed):
		return link.Ending{Code: link.CloseRestart, Reason: "shutting down"}
	}
	return link.Ending{}
}

// capabilities are those that this gateway takes up.
func capabilities() []string {
	return []string{
		wire.CapabilityContinueFrom, wire.CapabilityTurnContext, wire.CapabilityReasoning, wire.CapabilityOutcome,
		wire.CapabilitySteer,
	}
}

// takeOver makes opened the link of its host, once an older one has ended and the
// ledger knows about it. Of several that wait the newest gets it: the others are of
// connections that the host gave up.
func (r *Registry) takeOver(ctx context.Context, cancel context.CancelCauseFunc, hostID string, opened *link.Session) (*session, error) {
	h, claim, err := r.claim(hostID)
	if err != nil {
		return nil, err
	}
	for {
		s, older, wait, err := r.tryTakeOver(ctx, cancel, h, claim, opened)
		if s != nil || err != nil {
			return s, err
		}
		if older != nil {
			older.expel(ErrSuperseded)
			wait = older.ended
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// claim notes that a link of a host has come, and tells the number of it.
func (r *Registry) claim(hostID string) (h *host, number int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h = r.find(hostID); h == nil {
		return nil, 0, ErrUnknownHost
	}
	h.claims++
	return h, h.claims, nil
}

// tryTakeOver gives the new session, or what it must wait for: the older one's end,
// else wait.
func (r *Registry) tryTakeOver(ctx context.Context, cancel context.CancelCauseFunc, h *host, claim int, opened *link.Session) (s, older *session, wait <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed, r.leaving && !h.Embedded:
		return nil, nil, nil, ErrClosed
	case h.revoked:
		return nil, nil, nil, ErrRevoked
	case claim != h.claims:
		return nil, nil, nil, ErrSuperseded
	case h.live != nil || !closed(h.settled):
		return nil, h.live, h.settled, nil
	}
	s = newSession(ctx, r, h, cancel, opened)
	h.live = s
	h.links++
	return s, nil, nil, nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
