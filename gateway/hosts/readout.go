package hosts

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/link"
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
// one that left without a word counts as lost after link.MaxSilence.
func (r *Registry) rowOf(h *host) gateway.AdminHost {
	row := gateway.AdminHost{HostID: h.ID, Name: h.ID, TargetRef: h.TargetRef, Embedded: h.Embedded, State: gateway.HostOffline}
	if s := h.live; s != nil {
		hello := s.link.Hello()
		row.State, row.Name, row.Version, row.Capabilities = gateway.HostOnline, hello.Name, hello.Version, s.link.Capabilities()
		row.Inflight, row.Max = s.room.host.Inflight, s.room.host.Max
		row.OpenRuns, row.Routes = len(s.runs), len(s.routes)
		row.Since, row.SeenAt = s.since, s.link.Heard()
		return row
	}
	if h.last.ended.IsZero() {
		return row
	}
	row.Name, row.Version, row.Capabilities = h.last.hello.Name, h.last.hello.Version, h.last.hello.Capabilities
	row.Routes, row.Since, row.SeenAt = h.last.routes, h.last.ended, h.last.heard
	if !h.last.orderly && r.now().Sub(h.last.heard) >= link.MaxSilence {
		row.State = gateway.HostLost
	}
	return row
}
