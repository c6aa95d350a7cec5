package enroll

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// keepInvites is how long an invitation is known after its end.
const keepInvites = 30 * 24 * time.Hour

// InviteTTL is how long an invitation can be used, at most.
const InviteTTL = 15 * time.Minute

const (
	// tokenPrefix tells tokens apart on sight, for people and for secret scanners.
	tokenPrefix = "fh_"
	tokenBytes  = 32
)

// NewInvite describes an invitation to make.
type NewInvite struct {
	// Name is what the host is called; "" leaves it to the host.
	Name   string
	Labels []string
	TTL    time.Duration // 0 is InviteTTL, which is the most as well
}

// Invite makes an invitation and gives its token, with which one host joins, once; it
// is not to be had again. Errors: forbidden; bad_request with Fields.
func (s *Service) Invite(ctx context.Context, actor gateway.Actor, req NewInvite) (token string, invite gateway.HostInvite, err error) {
	if err := s.requireGovernor(ctx, actor); err != nil {
		return "", gateway.HostInvite{}, err
	}
	if req.TTL == 0 {
		req.TTL = InviteTTL
	}
	var faults faultList
	name := ""
	if req.Name != "" {
		name = faults.name(req.Name)
	}
	labels := faults.labels(req.Labels)
	if req.TTL < time.Second || req.TTL > InviteTTL {
		faults.add("ttl", "max", "An invitation is valid for at most 15 minutes.")
	}
	if err := faults.err(); err != nil {
		return "", gateway.HostInvite{}, err
	}
	now := s.now()
	token = newToken()
	invite = gateway.HostInvite{
		ID: newID(), SecretHash: hashToken(token), Name: name, Labels: labels,
		OrgID: actor.OrgID, CreatedBy: actor.AccountID, CreatedAt: now, ExpiresAt: now.Add(req.TTL),
	}
	if err := s.store.CreateHostInvite(ctx, invite, s.entry(gateway.AuditHostInvited, actor, invite.ID)); err != nil {
		return "", gateway.HostInvite{}, err
	}
	if err := s.store.ForgetHostInvites(ctx, now.Add(-keepInvites)); err != nil {
		// The invitation was made all the same, and the next one tries it again.
		s.log.WarnContext(ctx, "enroll: invitations that ended long ago were not removed", "error", err)
	}
	return token, invite, nil
}

// Invites lists the invitations that can be used now, newest first. Errors: forbidden.
func (s *Service) Invites(ctx context.Context, actor gateway.Actor) ([]gateway.HostInvite, error) {
	if err := s.requireGovernor(ctx, actor); err != nil {
		return nil, err
	}
	return s.store.HostInvites(ctx, s.now())
}

// RevokeInvite makes the token of an invitation useless. Errors: forbidden; not_found,
// also for one that was used or has expired.
func (s *Service) RevokeInvite(ctx context.Context, actor gateway.Actor, id string) error {
	if err := s.requireGovernor(ctx, actor); err != nil {
		return err
	}
	err := s.store.RevokeHostInvite(ctx, id, s.now(), s.entry(gateway.AuditInvitationRevoked, actor, id))
	if errors.Is(err, gateway.ErrNoRow) {
		return wire.NewError(wire.CodeNotFound, "There is no such invitation, or it was used or has expired.")
	}
	return err
}

// newToken is 256 random bits behind a prefix.
func newToken() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // it never fails: crypto/rand ends the process instead
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// hashToken is the stored form of a token. A plain hash is enough for 256 random bits,
// and lets the row be found by an index.
func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
