package enroll

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Join enrols a host. The same request again has the same answer, for as long as the
// host is not revoked. Errors: rate_limited with RetryAfter; bad_request with Fields;
// invite_invalid, the same for an invitation that is unknown, spent or too old;
// host_exists for an id that another key holds; host_revoked for a key that was
// revoked. None of them spends the invitation (RH44–RH46).
func (s *Service) Join(ctx context.Context, address string, req wire.HostJoin) (wire.HostJoined, error) {
	if err := s.throttle(ctx, address); err != nil {
		return wire.HostJoined{}, err
	}
	h, err := checkJoin(req)
	if err != nil {
		return wire.HostJoined{}, err
	}
	if slices.Contains(s.embedded, h.ID) {
		return wire.HostJoined{}, hostExists()
	}
	now := s.now()
	audit := gateway.AuditEntry{
		ID: newID(), At: now, Action: gateway.AuditHostJoined, Target: h.ID, Address: address, Detail: "key " + fingerprint(h.PublicKey),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	joined, err := s.store.JoinHost(ctx, hashToken(req.Token), h, now, audit)
	if err != nil {
		return wire.HostJoined{}, s.joinFault(ctx, address, h.ID, err)
	}
	s.apply(ctx, joined)
	return wire.HostJoined{HostID: joined.ID, Name: joined.Name, GatewayID: s.gatewayID}, nil
}

// checkJoin reads the host out of a request whose shape is not trusted.
func checkJoin(req wire.HostJoin) (gateway.RelayHost, error) {
	if err := wire.CheckStruct(req); err != nil {
		return gateway.RelayHost{}, err
	}
	var faults faultList
	name := faults.name(req.Name)
	if slices.ContainsFunc([]rune(req.Version), unseen) {
		faults.add("version", "utf8", "The version holds characters that cannot be shown.")
	}
	key, err := base64.RawURLEncoding.Strict().DecodeString(req.PublicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		faults.add("publicKey", "type", "The public key is not 32 bytes in base64url.")
	}
	return gateway.RelayHost{ID: req.HostID, Name: name, PublicKey: key, Version: req.Version}, faults.err()
}

// joinFault gives a store's answer a code. That somebody with a good token asked for
// a host that is not theirs is worth a line.
func (s *Service) joinFault(ctx context.Context, address, hostID string, err error) error {
	switch {
	case errors.Is(err, gateway.ErrInviteSpent):
		return wire.NewError(wire.CodeInviteInvalid,
			"This invitation is not valid: it was used, taken back, is older than 15 minutes, or was never made. Ask an admin for a new one.")
	case errors.Is(err, gateway.ErrHostKey):
		s.log.WarnContext(ctx, "enroll: a host asked for the id of another one", "host", hostID, "address", address)
		return hostExists()
	case errors.Is(err, gateway.ErrHostRevoked):
		return wire.NewError(wire.CodeHostRevoked, "The key of this host was revoked. Have the host make a new one, and join again.")
	}
	return err
}

func hostExists() error {
	return wire.NewError(wire.CodeHostExists,
		"Another host has this id. If this host lost its key, or was copied from the other, an admin revokes the other first.")
}

// fingerprint names a public key in the audit log, as SSH does.
func fingerprint(key []byte) string {
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}
