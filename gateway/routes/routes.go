// Package routes resolves models to the host and the provider that serve them.
//
// A Table holds the newest catalog of each registered host, in memory alone: a
// host tells its catalog again whenever it links. Hosts keep the order of their
// registration and routes that of their host's settings; where several routes
// offer one model name, the first that is ready serves it. Between hosts that stand
// equal, placement decides: see Table.Resolve.
//
// A Table has no goroutine. Hosts' packages report to it; readers take the lock
// for the length of one look-up.
package routes

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

var _ gateway.Routes = (*Table)(nil)

// Why a model is not ready whose host cannot take its turn now.
const (
	ReasonHostOffline  = "host_offline"
	ReasonHostDraining = string(gateway.CodeHostDraining)
	ReasonHostOutdated = string(gateway.CodeHostOutdated)
)

// Options are the settings of a Table.
type Options struct {
	// Default is the model of those who name none; "" leaves the choice to the
	// order of the routes.
	Default string
	// Prices gives the prices of a route by the key of its provider and its model.
	// A route with prices is metered, so the org pays for it; any other is its
	// owner's affair. Nil knows none.
	Prices func(provider, model string) (gateway.Prices, bool)
	// Placement are the rules of which hosts may serve what: setting placement.
	Placement []Rule
	// StayFor is how long a thread waits for a host that left without draining before
	// another one that offers its model takes it: 0 = 90 s.
	StayFor time.Duration
	// Now is the clock against which routes cool down; nil is the system's.
	Now func() time.Time
}

// Table is the gateway's view of what its hosts serve.
type Table struct {
	preferred string
	prices    func(provider, model string) (gateway.Prices, bool)
	rules     []Rule
	stayFor   time.Duration
	now       func() time.Time

	mu    sync.RWMutex
	hosts []*host
	// offers are the model names in order, each with its routes in order. They
	// are rebuilt when a catalog changes.
	offers []*offer
	byName map[string]*offer
}

type host struct {
	gateway.HostPlace
	known        time.Time // when it was registered
	online       bool
	left         time.Time // when it went offline; zero: it was never online
	capabilities []string
	generations  []int
	roomy        bool         // it has said what room it has
	free         int          // prompts that it could take, as it said last
	placed       atomic.Int32 // turns that were sent its way since
	heard        bool         // a catalog came
	catalog      wire.CatalogMessage
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
	if o.StayFor == 0 {
		o.StayFor = 90 * time.Second
	}
	return &Table{
		preferred: o.Default, prices: o.Prices, rules: o.Placement, stayFor: o.StayFor, now: o.Now, byName: map[string]*offer{},
	}
}

// HostKnown adds a host behind those that are there. One that is known already
// keeps its place; of it the rest is taken.
func (t *Table) HostKnown(p gateway.HostPlace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.host(p.HostID); h != nil {
		h.HostPlace = p
		return
	}
	t.hosts = append(t.hosts, &host{HostPlace: p, known: t.now()})
}

// HostForgotten removes a host and its routes.
func (t *Table) HostForgotten(hostID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = slices.DeleteFunc(t.hosts, func(h *host) bool { return h.HostID == hostID })
	t.rebuild()
}

// HostOnline tells that a host is linked, with the capabilities agreed on and the
// generations of settings that it understands.
func (t *Table) HostOnline(hostID string, capabilities []string, generations []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.host(hostID); h != nil {
		h.online, h.capabilities, h.generations = true, append([]string{}, capabilities...), slices.Clone(generations)
	}
}

// HostOffline tells that a host's link has ended. Its catalog stays: turns on its
// routes wait for it.
func (t *Table) HostOffline(hostID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.host(hostID); h != nil {
		h.online, h.left, h.free = false, t.now(), 0
	}
}

// HostRoom tells how many prompts more a host could take now; below zero that some
// wait for it.
func (t *Table) HostRoom(hostID string, free int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.host(hostID); h != nil {
		h.roomy, h.free = true, free
		h.placed.Store(0)
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
		if h.HostID == hostID {
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

// Models lists every model name that a host offers which the actor may use, in
// configured order, with the route that would serve it now. At most one is the
// default.
func (t *Table) Models(_ context.Context, actor gateway.Actor) ([]gateway.Model, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	now := t.now()
	preset := t.preset(actor, now)
	models := make([]gateway.Model, 0, len(t.offers))
	for _, o := range t.offers {
		if e, s, ok := t.first(o, actor, now); ok {
			models = append(models, modelOf(e, s, o == preset))
		}
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
	case draining, outdated, away:
		m.Reason = s.reason()
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
func (t *Table) preset(actor gateway.Actor, now time.Time) *offer {
	if o := t.byName[t.preferred]; o != nil && t.allows(o, actor) {
		return o
	}
	for _, worst := range [...]standing{cooling, away} {
		var first *offer
		for _, o := range t.offers {
			e, s, ok := t.first(o, actor, now)
			if !ok || s > worst {
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
// A route whose host is offline still resolves: its turn waits. Between hosts it
// goes: hosts that a rule keeps from the model are left out; a thread stays at its
// host, unless that drains, is of an older generation or has been away for
// Options.StayFor while another one could serve; then the better standing wins, then
// the labels that a rule prefers, then the most room, then the order. Errors: no_host
// if no host is configured; model_unknown; route_unavailable if the model is offered
// but by no ready route, or if a host has not told its catalog yet; host_offline if
// that is the thread's own, for the first half minute.
func (t *Table) Resolve(_ context.Context, actor gateway.Actor, model string, at gateway.Placement) (gateway.Route, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.hosts) == 0 {
		return gateway.Route{}, wire.NewError(wire.CodeNoHost, "No relay host is configured.")
	}
	now := t.now()
	if h := t.host(at.HostID); h != nil && h.comes(now) {
		return gateway.Route{}, wire.NewError(wire.CodeHostOffline, "The relay host of this thread is not back yet.")
	}
	o := t.byName[model]
	if model == "" {
		o = t.preset(actor, now)
	}
	if o == nil || !t.allows(o, actor) {
		return gateway.Route{}, t.notOffered(model)
	}
	e, s := t.place(o, actor, at, now)
	if s == unready {
		return gateway.Route{}, unavailable("The provider of this model is not ready.")
	}
	route := gateway.Route{
		HostID: e.host.HostID, TargetRef: e.host.TargetRef,
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
