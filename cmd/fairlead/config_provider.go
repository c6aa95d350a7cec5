package main

import (
	"io"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// credential is the key of a provider, or why there is none.
type credential struct {
	Key   provider.Key
	State string // one of wire.Credential…; "" when not ready
	// Reason is shown to people: it names neither a path nor an address.
	Reason string
}

// Ready tells whether the provider can be used.
func (c credential) Ready() bool { return c.State != "" }

const maxKeyFileBytes = 16 << 10

// credential finds the key. A key that is not there is no error of the
// settings: the provider is not ready, and the program starts.
func (p *providerConfig) credential(environ []string) credential {
	var secret, missing string
	switch {
	case p.API == string(provider.APIDemo):
		return credential{State: wire.CredentialLocal}
	case p.APIKeyEnv != "":
		secret, _ = variable(environ, p.APIKeyEnv)
		missing = "The environment variable " + p.APIKeyEnv + " is not set."
	case p.APIKeyFile != "":
		secret = readKeyFile(p.APIKeyFile)
		missing = "The key file is missing, empty or not readable."
	case p.BaseURL == "":
		return credential{Reason: "No key is set for this provider."}
	case local(p.BaseURL):
		return credential{State: wire.CredentialLocal}
	default:
		return credential{State: wire.CredentialNoAuth}
	}
	secret = strings.TrimSpace(secret)
	if secret == "" {
		return credential{Reason: missing}
	}
	key := provider.NewKey(secret)
	if p.clientConfig(key).Validate() != nil {
		return credential{Reason: "The key holds characters that cannot be sent."}
	}
	return credential{Key: key, State: wire.CredentialConfigured}
}

func readKeyFile(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxKeyFileBytes))
	if err != nil {
		return ""
	}
	return string(raw)
}

// local tells whether an address is on this machine.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return ip.IsLoopback()
	}
	return u.Hostname() == "localhost" || strings.HasSuffix(u.Hostname(), ".localhost")
}

// clientConfig is what a client of the provider is made with.
func (p *providerConfig) clientConfig(key provider.Key) provider.Config {
	return provider.Config{
		API:               provider.API(p.API),
		BaseURL:           p.BaseURL,
		APIKey:            key,
		FirstTokenTimeout: p.FirstTokenTimeout,
		IdleTimeout:       p.IdleTimeout,
		LimitField:        provider.LimitField(p.OutputLimitField),
		OmitStreamOptions: p.StreamUsage != nil && !*p.StreamUsage,
		ReplayReasoning:   p.ReplayReasoning,
		Thinking:          provider.Thinking(p.Thinking),
		MaxOutputTokens:   p.DefaultMaxOutputTokens,
	}
}

// entry is what the relay host publishes of the provider.
func (p *providerConfig) entry(c credential) relay.ProviderEntry {
	e := relay.ProviderEntry{
		ID: p.ID, Key: p.Key, DisplayName: p.Name,
		CredentialState: c.State, Ready: c.Ready(), Reason: c.Reason,
	}
	for _, m := range p.Models {
		e.Models = append(e.Models, relay.ModelEntry{
			ID: m.ID, Family: m.Family,
			ImageInput:      wire.Support(m.ImageInput),
			OutputLimit:     wire.Support(m.MaxOutputTokens),
			Reasoning:       wire.Support(m.ReasoningEffort),
			ReasoningLevels: m.ReasoningLevels,
		})
	}
	return e
}

// serves tells whether the provider has a model.
func (p *providerConfig) serves(model string) bool {
	for _, m := range p.Models {
		if m.ID == model {
			return true
		}
	}
	return false
}
