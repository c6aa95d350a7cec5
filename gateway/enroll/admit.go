package enroll

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// momentLayout is that of gateway.Time.
const momentLayout = "2006-01-02T15:04:05.000Z"

// seenEvery is how exactly the last use of a host is known.
const seenEvery = time.Minute

// ErrRevoked is why the context of an admission ended.
var ErrRevoked = errors.New("enroll: the host was revoked")

// Challenge gives a nonce for a host's next link. It does not tell whether the host is
// known.
func (s *Service) Challenge(hostID string) wire.HostChallenge {
	now := s.now()
	return wire.HostChallenge{
		Nonce: s.nonces.make(hostID, now), GatewayID: s.gatewayID, ServerTime: now.UTC().Format(momentLayout),
	}
}

// Admission is a host that proved who it is.
type Admission struct {
	Host gateway.RelayHost
	// Context ends, with ErrRevoked, when the host is revoked, also in the moment after
	// it was let in: whatever serves its link stops then.
	Context context.Context //nolint:containedctx // it is the result
	// Release must be called when the link has ended.
	Release func()
}

// Admit lets a host in by its Authorization header. Errors: unauthorized, the same for
// a header that is malformed, a host that is unknown and a signature that is wrong;
// challenge_stale for a nonce that cannot be used; host_revoked; rate_limited for a
// host that links without end.
func (s *Service) Admit(ctx context.Context, header string) (Admission, error) {
	auth, ok := wire.ParseHostAuthorization(header)
	if !ok {
		return Admission{}, unauthorized()
	}
	// The admission is known before the host is read: a revocation comes before the
	// reading, or finds the admission.
	admitted, release := s.admitting.enter(ctx, auth.HostID)
	h, err := s.authenticate(ctx, auth)
	if err == nil && errors.Is(context.Cause(admitted), ErrRevoked) {
		err = revoked()
	}
	if err != nil {
		release()
		return Admission{}, err
	}
	return Admission{Host: h, Context: admitted, Release: release}, nil
}

func (s *Service) authenticate(ctx context.Context, auth wire.HostAuthorization) (gateway.RelayHost, error) {
	now := s.now()
	if !s.nonces.fresh(auth.HostID, auth.Nonce, now) {
		return gateway.RelayHost{}, stale()
	}
	h, err := s.store.RelayHost(ctx, auth.HostID)
	unknown := errors.Is(err, gateway.ErrNoRow)
	if err != nil && !unknown {
		return gateway.RelayHost{}, err
	}
	key := s.decoy
	if !unknown && len(h.PublicKey) == ed25519.PublicKeySize {
		key = h.PublicKey
	}
	// The work is the same for a host that is not there.
	right := ed25519.Verify(key, wire.HostLinkProof(s.gatewayID, auth.HostID, auth.Nonce), auth.Signature)
	if !right || unknown {
		return gateway.RelayHost{}, unauthorized()
	}
	switch s.nonces.spend(auth.HostID, auth.Nonce, now) {
	case nonceTaken:
		return gateway.RelayHost{}, stale()
	case nonceTooMany:
		e := wire.NewError(wire.CodeRateLimited, "This host links too often. Wait a little.")
		e.RetryAfter = nonceTTL
		return gateway.RelayHost{}, e
	case nonceSpent:
	}
	if !h.RevokedAt.IsZero() {
		return gateway.RelayHost{}, revoked()
	}
	s.saw(ctx, h, "", now)
	return h, nil
}

// saw notes that a host is there, to about a minute.
func (s *Service) saw(ctx context.Context, h gateway.RelayHost, version string, at time.Time) {
	if at.Sub(h.SeenAt) < seenEvery && (version == "" || version == h.Version) {
		return
	}
	if err := s.store.SawHost(ctx, h.ID, version, at); err != nil && ctx.Err() == nil {
		// Whether a host may link does not depend on this write.
		s.log.WarnContext(ctx, "enroll: that a host is linked was not stored", "host", h.ID, "error", err)
	}
}

func unauthorized() error {
	return wire.NewError(wire.CodeUnauthorized, "This host is not known here, or its signature is wrong. Join the host again.")
}

func revoked() error {
	return wire.NewError(wire.CodeHostRevoked,
		"An admin revoked this host. It may join again with a new invitation and a new key.")
}

func stale() error {
	return wire.NewError(wire.CodeChallengeStale, "The nonce is too old, or was used. Ask for a new one.")
}

// admissions are the hosts that are being let in or were.
type admissions struct {
	mu   sync.Mutex
	next int
	live map[string]map[int]context.CancelCauseFunc // guarded by mu
}

func (a *admissions) enter(ctx context.Context, hostID string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	id := a.next
	if a.live == nil {
		a.live = map[string]map[int]context.CancelCauseFunc{}
	}
	if a.live[hostID] == nil {
		a.live[hostID] = map[int]context.CancelCauseFunc{}
	}
	a.live[hostID][id] = cancel
	return ctx, func() {
		cancel(nil)
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.live[hostID], id)
		if len(a.live[hostID]) == 0 {
			delete(a.live, hostID)
		}
	}
}

// end ends the admissions of a host.
func (a *admissions) end(hostID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cancel := range a.live[hostID] {
		cancel(ErrRevoked)
	}
}
