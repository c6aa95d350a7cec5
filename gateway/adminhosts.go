package gateway

import "time"

// HostState is the state of a relay host as its gateway sees it.
type HostState string

// The states of a host (decisions §2.10).
const (
	HostOnline   HostState = "online"
	HostOffline  HostState = "offline"
	HostLost     HostState = "lost"
	HostDraining HostState = "draining"
	HostRevoked  HostState = "revoked"
)

// AdminHost is a relay host as admins see it.
type AdminHost struct {
	HostID    string
	Name      string
	TargetRef string
	Embedded  bool
	State     HostState
	// Draining tells that it takes no new turns, also while it is away.
	Draining bool
	Version  string
	// Inflight of Max parallel provider requests are taken.
	Inflight, Max int
	OpenRuns      int
	Capabilities  []string
	// Generations are Hello.ConfigGenerations.
	Generations   []int
	Labels        []string
	Routes        int
	Since, SeenAt time.Time
	JoinedAt      time.Time
	JoinedBy      string // account that invited it; "" for the command line
	// ClockOffset is how far the host's clock is ahead of the gateway's, RoundTrip the
	// time of a heartbeat there and back; Measured tells that both are known.
	ClockOffset, RoundTrip time.Duration
	Measured               bool
	// Links counts the links of this host since the gateway started.
	Links int
	// LastError is why the last link ended, "" for one that ended in good order.
	LastError string
}

// AdminRoute is one catalog entry: a model that a provider of a host serves.
type AdminRoute struct {
	HostID string
	// Model is the public name; ProviderID and Family are modelProviderId and
	// provider of the wire; Provider is the name shown.
	Model, Provider, ProviderID, Family string
	// Credential is the state of the provider's key: configured, local, no_auth.
	Credential   string
	Ready        bool
	Reason       string
	AvailableAt  time.Time
	Default      bool
	Capabilities ModelCapabilities
}
