package hosts

import (
	"context"
	"slices"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// AdminHosts lists the known hosts in the order of their registration.
func (r *Registry) AdminHosts(context.Context, gateway.Actor) ([]gateway.AdminHost, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]gateway.AdminHost, 0, len(r.hosts))
	for _, h := range r.hosts {
		rows = append(rows, r.rowOf(h))
	}
	return rows, nil
}

// rowOf is called with mu held. Of a host that is away it tells what it last said;
// one that left without a word counts as lost after Options.Silence (decisions §2.10).
func (r *Registry) rowOf(h *host) gateway.AdminHost {
	row := gateway.AdminHost{
		HostID: h.ID, Name: h.ID, TargetRef: h.TargetRef, Embedded: h.Embedded, State: gateway.HostOffline,
		Labels: slices.Clone(h.Labels), Links: h.links, LastError: h.last.fault,
	}
	switch s := h.live; {
	case s != nil:
		row.State = gateway.HostOnline
		describe(&row, s.link.Hello())
		row.Capabilities = s.link.Capabilities()
		row.Inflight, row.Max = s.room.host.Inflight, s.room.host.Max
		row.OpenRuns, row.Routes = len(s.runs)+len(s.controls), len(s.routes)
		row.Since, row.SeenAt = s.since, s.link.Heard()
		row.ClockOffset, row.RoundTrip, row.Measured = s.link.Clock()
	case !h.last.ended.IsZero():
		describe(&row, h.last.hello)
		row.Routes, row.Since, row.SeenAt = h.last.routes, h.last.ended, h.last.heard
		if !h.last.orderly && r.now().Sub(h.last.heard) >= r.silence {
			row.State = gateway.HostLost
		}
	}
	if row.Draining = h.drains(); row.Draining && row.State == gateway.HostOnline {
		row.State = gateway.HostDraining
	}
	if h.Name != "" {
		row.Name = h.Name
	}
	return row
}

// describe takes what a host said of itself, as it may be shown and stored.
func describe(row *gateway.AdminHost, hello wire.Hello) {
	row.Name, row.Version, row.Capabilities = wire.ShownText(hello.Name), wire.ShownText(hello.Version), shownAll(hello.Capabilities)
	row.Generations = slices.Clone(hello.ConfigGenerations)
}

func shownAll(texts []string) []string {
	out := slices.Clone(texts)
	for i, text := range out {
		out[i] = wire.ShownText(text)
	}
	return out
}
