package hosts

import (
	"slices"

	"github.com/fairlead/fairlead/relay/wire"
)

// Catalog takes a host's catalog as far as it can be shown and stored: a host is not
// trusted with that.
func (s *session) Catalog(m wire.CatalogMessage) {
	if m.Challenge != s.challenge {
		s.reg.log.Warn("hosts: a catalog under a challenge that nobody asked with", "host", s.host.ID)
		return
	}
	sent := len(m.Routes)
	m.Routes = offered(m.Routes)
	if left := sent - len(m.Routes); left > 0 {
		s.reg.log.Warn("hosts: routes of a catalog are left out: their names are not safe, or there twice", "host", s.host.ID, "routes", left)
	}
	s.reg.mu.Lock()
	muted := s.muted
	s.routes = m.Routes
	s.reg.mu.Unlock()
	if !muted {
		s.reg.catalogs.HostCatalog(s.host.ID, m)
	}
}

// offered gives the routes with safe names (RH19, RH20), each once, with texts that may
// be shown.
func offered(routes []wire.Route) []wire.Route {
	type name struct{ provider, key, model string }
	known := make(map[name]bool, len(routes))
	out := make([]wire.Route, 0, len(routes))
	for _, r := range routes {
		n := name{r.ModelProvider, r.ModelProviderID, r.Model}
		if known[n] || !wire.ValidRouteID(n.provider) || !wire.ValidRouteID(n.key) || !wire.ValidModelID(n.model) {
			continue
		}
		known[n] = true
		r.DisplayName, r.Family, r.Reason = wire.ShownText(r.DisplayName), wire.ShownText(r.Family), wire.ShownText(r.Reason)
		r.ImageInput, r.OutputLimit, r.Reasoning = support(r.ImageInput), support(r.OutputLimit), support(r.Reasoning)
		r.ReasoningLevels = efforts(r.ReasoningLevels)
		out = append(out, r)
	}
	return out
}

func support(s wire.Support) wire.Support {
	if s == wire.Supported || s == wire.Unsupported {
		return s
	}
	return wire.Unknown
}

// efforts gives the canonical names among levels.
func efforts(levels []string) []string {
	out := make([]string, 0, min(len(levels), 8))
	for _, level := range levels {
		if canonical, ok := wire.NormalizeEffort(level); ok && canonical == level && !slices.Contains(out, level) {
			out = append(out, level)
		}
	}
	return out
}
