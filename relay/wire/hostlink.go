package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
)

// Addresses of a gateway that relay hosts use, below its public URL.
const (
	PathHostLink      = "/ws/host"
	PathHostJoin      = "/api/v1/hosts/join"
	PathHostChallenge = "/api/v1/hosts/challenge"
)

// HostScheme is the scheme of a host's Authorization header.
const HostScheme = "Fairlead-Host"

// HostLinkProof is what a host signs to link: it proves the key to this one gateway,
// for this one nonce. A host compares gatewayID with the one that it joined first.
func HostLinkProof(gatewayID, hostID, nonce string) []byte {
	return []byte("fairlead-host-link:v1\n" + gatewayID + "\n" + hostID + "\n" + nonce)
}

// HostAuthorization is the credential of one request for a link.
type HostAuthorization struct {
	HostID    string
	Nonce     string
	Signature []byte
}

// Header is the value of the Authorization header.
func (a HostAuthorization) Header() string {
	return HostScheme + " " + a.HostID + "." + a.Nonce + "." + base64.RawURLEncoding.EncodeToString(a.Signature)
}

// ParseHostAuthorization reads an Authorization header. ok is false for another
// scheme and for whatever Header does not write.
func ParseHostAuthorization(header string) (a HostAuthorization, ok bool) {
	scheme, value, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, HostScheme) {
		return HostAuthorization{}, false
	}
	rest, signature, found := cutLast(value, '.')
	if !found {
		return HostAuthorization{}, false
	}
	// A host's id may hold dots, so it is what is left.
	hostID, nonce, found := cutLast(rest, '.')
	if !found || !ValidRelayID(hostID) || !ValidChallenge(nonce) {
		return HostAuthorization{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil || len(raw) != ed25519.SignatureSize {
		return HostAuthorization{}, false
	}
	return HostAuthorization{HostID: hostID, Nonce: nonce, Signature: raw}, true
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
