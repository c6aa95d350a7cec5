package enroll

import (
	"context"
	"slices"

	"github.com/fairlead/fairlead/gateway"
)

// Hosts lists the stored hosts in the order in which they joined, revoked ones too.
// Errors: forbidden.
func (s *Service) Hosts(ctx context.Context, actor gateway.Actor) ([]gateway.RelayHost, error) {
	if err := requireAdmin(actor); err != nil {
		return nil, err
	}
	return s.store.RelayHosts(ctx)
}

// AdminHosts lists all hosts with what is stored of them and what their links tell:
// the embedded ones first, then the others in the order in which they joined, and the
// revoked ones last. Every admin may see them. Errors: forbidden.
func (s *Service) AdminHosts(ctx context.Context, actor gateway.Actor) ([]gateway.AdminHost, error) {
	if err := requireAdmin(actor); err != nil {
		return nil, err
	}
	stored, err := s.store.RelayHosts(ctx)
	if err != nil {
		return nil, err
	}
	live, err := s.links.AdminHosts(ctx, actor)
	if err != nil {
		return nil, err
	}
	var rows, revoked []gateway.AdminHost
	for _, row := range live {
		if row.Embedded {
			rows = append(rows, row)
		}
	}
	for _, h := range stored {
		i := slices.IndexFunc(live, func(row gateway.AdminHost) bool { return row.HostID == h.ID })
		row := gateway.AdminHost{HostID: h.ID, TargetRef: h.ID, State: gateway.HostOffline}
		switch {
		case !h.RevokedAt.IsZero():
			revoked = append(revoked, merge(row, h))
			continue
		case i >= 0 && live[i].Embedded:
			continue // an older host of this id; the embedded one has it now
		case i >= 0:
			row = live[i]
		}
		rows = append(rows, merge(row, h))
	}
	return append(rows, revoked...), nil
}

// merge adds what is stored of a host to what its link tells. What admins set goes
// before what the host says of itself.
func merge(row gateway.AdminHost, h gateway.RelayHost) gateway.AdminHost {
	row.Name, row.Labels, row.JoinedAt, row.JoinedBy = h.Name, h.Labels, h.JoinedAt, h.JoinedBy
	row.Draining = row.Draining || !h.DrainedAt.IsZero()
	if row.Version == "" {
		row.Version = h.Version
	}
	if row.SeenAt.Before(h.SeenAt) {
		row.SeenAt = h.SeenAt
	}
	switch {
	case !h.RevokedAt.IsZero():
		row.State, row.Since = gateway.HostRevoked, h.RevokedAt
	case row.Draining && row.State == gateway.HostOnline:
		row.State = gateway.HostDraining
	}
	return row
}
