package wire

// What a relay host and its gateway say to each other before they link (RH44–RH46,
// in the WebSocket form). Both ends decode strictly: a key that is missing or
// unknown is refused.
type (
	// HostJoin asks to be enrolled. It holds all that a gateway learns of a host
	// before they link; the private key, paths and settings stay with the host.
	HostJoin struct {
		Token  string `json:"token" validate:"required,maxbytes=128"`
		HostID string `json:"hostId" validate:"required,relayid"`
		// PublicKey is ed25519, 32 bytes, in unpadded base64url.
		PublicKey string `json:"publicKey" validate:"required,maxbytes=64"`
		Name      string `json:"name" validate:"required,utf8,nonul,notblank,maxbytes=256"`
		Version   string `json:"version" validate:"required,utf8,nonul,maxbytes=64"`
	}
	// HostJoined answers it, the same to the same request.
	HostJoined struct {
		HostID    string `json:"hostId" validate:"required,relayid"`
		Name      string `json:"name" validate:"required"`
		GatewayID string `json:"gatewayId" validate:"required,maxbytes=128"`
	}
	// HostChallengeRequest asks for a nonce, before each link.
	HostChallengeRequest struct {
		HostID string `json:"hostId" validate:"required,relayid"`
	}
	// HostChallenge answers it, also to hosts that the gateway does not know.
	HostChallenge struct {
		Nonce     string `json:"nonce" validate:"required,maxbytes=256"`
		GatewayID string `json:"gatewayId" validate:"required,maxbytes=128"`
		// ServerTime is RFC 3339.
		ServerTime string `json:"serverTime" validate:"required,maxbytes=64"`
	}
)
