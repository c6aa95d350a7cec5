package routes

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// AdminRoutes lists every route of every host, in order, for admins.
func (t *Table) AdminRoutes(_ context.Context, actor gateway.Actor) ([]gateway.AdminRoute, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	now := t.now()
	preset := t.preset(actor, now)
	rows := []gateway.AdminRoute{}
	for _, h := range t.hosts {
		for _, r := range h.catalog.Routes {
			s := entry{host: h, route: r}.standing(now, 0)
			row := gateway.AdminRoute{
				HostID: h.HostID, Model: r.Model, Provider: r.DisplayName, ProviderID: r.ModelProviderID, Family: r.Family,
				Credential: credentialOf(h.catalog, r), Ready: s <= cooling, Reason: r.Reason,
				Default: preset != nil && preset.model == r.Model, Capabilities: capabilitiesOf(r),
			}
			switch s {
			case cooling:
				row.AvailableAt = coolsUntil(r)
			case draining, away:
				row.Reason = s.reason()
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// credentialOf finds the state of a route's key, "" if its provider is not ready.
func credentialOf(m wire.CatalogMessage, r wire.Route) string {
	for _, p := range m.Catalog.Providers {
		if p.ID == r.ModelProvider && p.ModelProviderID == r.ModelProviderID {
			return p.CredentialState
		}
	}
	return ""
}
