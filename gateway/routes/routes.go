// Package routes resolves models to the host and the provider that serve them.
//
// A Table holds the newest catalog of each registered host, in memory alone: a
// host tells its catalog again whenever it links. Hosts keep the order of their
// registration and routes that of their host's settings; where several routes
// offer one model name, the first that is ready serves it.
//
// A Table has no goroutine. Hosts' packages report to it; readers take the lock
// for the length of one look-up.
package routes

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

var _ gateway.Routes = (*Table)(nil)

// ReasonHostOffline is why a model is not ready whose host is away.
const ReasonHostOffline = "host_offline"

// Options are the settings of a Table.
type Options struct {
	// Default is the model of those who name none; "" leaves the choice to the
	// order of the routes.
	Default string
	// Prices gives the prices of a route by the key of its provider and its model.
	// A route with prices is metered, so the org pays for it; any other is its
	// owner's affair. Nil knows none.
	Prices func(provider, model string) (gateway.Prices, bool)
	// Now is the clock against which routes cool down; nil is the system's.
	Now func() time.Time
}

// Table is the gateway's view of what its hosts serve.
type Table struct {
	preferred string
	prices    func(provider, model string) (gateway.Prices, bool)
	now       func() time.Time

	mu    sync.RWMutex
	hosts []*host
	// offers are the model names in order, each with its routes in order. They
	// are rebuilt when a catalog changes.
	offers []*offer
	byName map[string]*offer
}

type host struct {
	id, targetRef string
	online        bool
	capabilities  []string
	heard         bool // a catalog came
	catalog       wire.CatalogMessage
}

type offer struct {
	model   string
	entries []entry
}

type entry struct {
	host  *host
	route wire.Route
}

// New makes a table without hosts.
func New(o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Prices == nil {
		o.Prices = func(string, string) (gateway.Prices, bool) { return gateway.Prices{}, false }
	}
	return &Table{preferred: o.Default, prices: o.Prices, now: o.Now, byName: map[string]*offer{}}
}

// Register adds a host behind those that are there. One that is known already
// keeps its place.
func (t *Table) Register(hostID, targetRef string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.host(hostID); h != nil {
		h.targetRef = targetRef
		return
	}
	t.hosts = append(t.hosts, &host{id: hostID, targetRef: targetRef})
}

// HostOnline tells that a host is linked, with the capabilities agreed on.
func (t *Table) HostOnline(hostID string, capabilities []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.host(hostID); h != nil {
		h.online, h.capabilities = true, append([]string{}, capabilities...)
	}
}

// HostOffline tells that a host's link has ended. Its catalog stays: turns on its
// routes wait for it.
func (t *Table) HostOffline(hostID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.host(hostID); h != nil {
		h.online = false
	}
}

// HostCatalog takes a host's newest catalog.
func (t *Table) HostCatalog(hostID string, m wire.CatalogMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.host(hostID)
	if h == nil {
		return
	}
	h.catalog, h.heard = m, true
	t.rebuild()
}

// host is called with mu held.
func (t *Table) host(hostID string) *host {
	for _, h := range t.hosts {
		if h.id == hostID {
			return h
		}
	}
	return nil
}

func (t *Table) rebuild() {
	t.offers, t.byName = nil, map[string]*offer{}
	for _, h := range t.hosts {
		for _, r := range h.catalog.Routes {
			o := t.byName[r.Model]
			if o == nil {
				o = &offer{model: r.Model}
				t.byName[r.Model] = o
				t.offers = append(t.offers, o)
			}
			o.entries = append(o.entries, entry{host: h, route: r})
		}
	}
}

// standing says how well an entry can serve a turn now; less is better.
type standing int

const (
	usable  standing = iota // ready on a linked host
	cooling                 // ready, but its provider asked to wait
	away                    // ready on a host that is offline: the turn waits for it
	unready
)

func (e entry) standing(now time.Time) standing {
	switch {
	case !e.route.Ready:
		return unready
	case !e.host.online:
		return away
	case coolsUntil(e.route).After(now):
		return cooling
	}
	return usable
}

func coolsUntil(r wire.Route) time.Time {
	at, err := time.Parse(time.RFC3339, r.AvailableAt)
	if err != nil {
		return time.Time{}
	}
	return at
}

// best is the first entry of the best standing.
func (o *offer) best(now time.Time) (entry, standing) {
	chosen, rank := o.entries[0], o.entries[0].standing(now)
	for _, e := range o.entries[1:] {
		if s := e.standing(now); s < rank {
			chosen, rank = e, s
		}
	}
	return chosen, rank
}

// Models lists every model name that a host offers, in configured order, with the
// route that would serve it now. At most one is the default.
func (t *Table) Models(context.Context, gateway.Actor) ([]gateway.Model, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	now := t.now()
	preset := t.preset(now)
	models := make([]gateway.Model, 0, len(t.offers))
	for _, o := range t.offers {
		e, s := o.best(now)
		models = append(models, modelOf(e, s, o == preset))
	}
	return models, nil
}

func modelOf(e entry, s standing, preset bool) gateway.Model {
	r := e.route
	m := gateway.Model{
		ID: r.Model, Name: r.Model, Provider: r.DisplayName, Family: r.Family,
		Capabilities: capabilitiesOf(r), Ready: s <= cooling, Reason: r.Reason, Default: preset,
	}
	switch s {
	case cooling:
		m.AvailableAt = r.AvailableAt
	case away:
		m.Reason = ReasonHostOffline
	}
	return m
}

func capabilitiesOf(r wire.Route) gateway.ModelCapabilities {
	levels := r.ReasoningLevels
	if levels == nil {
		levels = []string{}
	}
	return gateway.ModelCapabilities{
		ImageInput: r.ImageInput, MaxOutputTokens: r.OutputLimit,
		ReasoningEffort: r.Reasoning, ReasoningEffortLevels: levels,
	}
}

// preset is the default offer: that of the settings, else the first default of a provider
// that can serve, else the first that can, else none. A cooling route stays the
// default, so that a moment's limit does not change what people talk to.
func (t *Table) preset(now time.Time) *offer {
	if o := t.byName[t.preferred]; o != nil {
		return o
	}
	for _, worst := range [...]standing{cooling, away} {
		var first *offer
		for _, o := range t.offers {
			e, s := o.best(now)
			if s > worst {
				continue
			}
			if e.route.Default {
				return o
			}
			if first == nil {
				first = o
			}
		}
		if first != nil {
			return first
		}
	}
	return nil
}

// Resolve gives the route that serves a model now, or the default model's for "".
// A route whose host is offline still resolves: its turn waits. Errors:
// no_host if no host is configured; model_unknown; route_unavailable if the model
// is offered but by no ready route, or if a host has not told its catalog yet.
func (t *Table) Resolve(_ context.Context, _ gateway.Actor, model string) (gateway.Route, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.hosts) == 0 {
		return gateway.Route{}, wire.NewError(wire.CodeNoHost, "No relay host is configured.")
	}
	now := t.now()
	o := t.byName[model]
	if model == "" {
		o = t.preset(now)
	}
	if o == nil {
		return gateway.Route{}, t.notOffered(model)
	}
	e, s := o.best(now)
	if s == unready {
		return gateway.Route{}, unavailable("The provider of this model is not ready.")
	}
	route := gateway.Route{
		HostID: e.host.id, TargetRef: e.host.targetRef,
		Capabilities: slices.Clone(e.host.capabilities), Billing: gateway.BillingOwn, Route: e.route,
	}
	if prices, metered := t.prices(e.route.ModelProviderID, e.route.Model); metered {
		route.Billing, route.Prices = gateway.BillingMetered, prices
	}
	return route, nil
}

func (t *Table) notOffered(model string) error {
	for _, h := range t.hosts {
		if !h.heard {
			return unavailable("A relay host has not told yet which models it serves.")
		}
	}
	if model == "" {
		return unavailable("No model is ready.")
	}
	return wire.NewError(gateway.CodeModelUnknown, "No relay host offers this model.")
}

func unavailable(message string) *wire.Error {
	e := wire.NewError(gateway.CodeRouteUnavailable, message)
	e.Retryable = true
	return e
}

// AdminRoutes lists every route of every host, in order, for admins.
func (t *Table) AdminRoutes(context.Context, gateway.Actor) ([]gateway.AdminRoute, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	now := t.now()
	preset := t.preset(now)
	rows := []gateway.AdminRoute{}
	for _, h := range t.hosts {
		for _, r := range h.catalog.Routes {
			e := entry{host: h, route: r}
			row := gateway.AdminRoute{
				HostID: h.id, Model: r.Model, Provider: r.DisplayName, ProviderID: r.ModelProviderID, Family: r.Family,
				Credential: credentialOf(h.catalog, r), Ready: e.standing(now) <= cooling, Reason: r.Reason,
				Default: preset != nil && preset.model == r.Model, Capabilities: capabilitiesOf(r),
			}
			switch e.standing(now) {
			case cooling:
				row.AvailableAt = coolsUntil(r)
			case away:
				row.Reason = ReasonHostOffline
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
