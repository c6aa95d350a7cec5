package relay

import (
	"log/slog"
	"slices"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Defaults of Config.
const (
	DefaultMaxInflight = 8
	DefaultIdleScopes  = 64
)

// Config is what a Host is opened with. It is copied: what a caller changes later
// has no effect (RH8).
type Config struct {
	// Dir is the host's folder. It is made with mode 0700, and narrowed to it.
	Dir string
	// Owner is a lock on Dir that the caller took with Own, keeps, and releases
	// after Store and Runtime are closed. With nil, Open takes the lock itself and
	// Close releases it.
	Owner *Owner
	// Store and Runtime outlive the host; Close closes neither.
	Store   Store
	Runtime Runtime

	// HostID, Name and Version stand in Hello; Version also in the catalog.
	HostID  string
	Name    string
	Version string

	// Providers are the configured providers, in the order in which people see
	// them.
	Providers []ProviderEntry
	// MaxInflight is how many provider requests may run at once; 0 means 8.
	MaxInflight int
	// Cooling tells until when a route is better left alone, or the zero time. It
	// must not block. nil means never.
	Cooling func(modelProviderID, model string) time.Time
	// IdleScopes is how many scopes without work or users stay loaded; 0 means 64.
	IdleScopes int

	// Logger gets what no caller can be told; nil discards it.
	Logger *slog.Logger
	// Now stamps what is stored; nil means time.Now.
	Now func() time.Time
}

// ProviderEntry is one configured provider.
type ProviderEntry struct {
	// ID is the kind of provider, modelProvider on the wire.
	ID string
	// Key names this configuration of it, modelProviderId on the wire.
	Key         string
	DisplayName string
	// CredentialState is one of wire.CredentialConfigured, CredentialLocal and
	// CredentialNoAuth if Ready is set.
	CredentialState string
	Ready           bool
	// Reason tells an operator why the provider is not ready. It is shown to
	// people, so it names no secret, address or path.
	Reason string
	// Custom marks a provider or an endpoint that nobody vouches for: what its
	// models can do is published as unknown (RH17).
	Custom bool
	Models []ModelEntry
	// Default is the model to preselect; if it is not among Models, the first is.
	Default string
}

// ModelEntry is one model of a provider, by its public name.
type ModelEntry struct {
	ID string
	// Family groups models that may share a session; empty means the provider's ID.
	Family          string
	ImageInput      wire.Support // empty means unknown, as below
	OutputLimit     wire.Support
	Reasoning       wire.Support
	ReasoningLevels []string // canonical effort names; off is left out
	ReasoningSource string   // "catalog", the name of a roster, or empty
}

func (c Config) withDefaults() Config {
	if c.MaxInflight <= 0 {
		c.MaxInflight = DefaultMaxInflight
	}
	if c.IdleScopes <= 0 {
		c.IdleScopes = DefaultIdleScopes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Cooling == nil {
		c.Cooling = func(string, string) time.Time { return time.Time{} }
	}
	c.Providers = slices.Clone(c.Providers)
	for i := range c.Providers {
		p := &c.Providers[i]
		p.Models = slices.Clone(p.Models)
		for j := range p.Models {
			p.Models[j].ReasoningLevels = slices.Clone(p.Models[j].ReasoningLevels)
		}
	}
	return c
}
