package enroll

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Rename changes what a host is called. Errors: forbidden; not_found, also for a host
// that is revoked; bad_request with Fields.
func (s *Service) Rename(ctx context.Context, actor gateway.Actor, hostID, name string) error {
	return s.Change(ctx, actor, hostID, HostChange{Name: &name})
}

// SetLabels replaces the labels of a host. Errors as of Rename.
func (s *Service) SetLabels(ctx context.Context, actor gateway.Actor, hostID string, labels []string) error {
	return s.Change(ctx, actor, hostID, HostChange{Labels: &labels})
}

// HostChange names what is to be changed of a host; nil stays as it is.
type HostChange struct {
	Name   *string
	Labels *[]string
}

// Change is Rename and SetLabels at once. Errors as of Rename.
func (s *Service) Change(ctx context.Context, actor gateway.Actor, hostID string, c HostChange) error {
	var faults faultList
	var name string
	var labels []string
	if c.Name != nil {
		name = faults.name(*c.Name)
	}
	if c.Labels != nil {
		labels = faults.labels(*c.Labels)
	}
	if err := s.requireGovernor(ctx, actor); err != nil {
		return err
	}
	if err := faults.err(); err != nil {
		return err
	}
	if c.Name != nil {
		if err := s.change(ctx, actor, hostID, gateway.AuditHostRenamed, name, func(h *gateway.RelayHost) { h.Name = name }); err != nil {
			return err
		}
	}
	if c.Labels != nil {
		return s.change(ctx, actor, hostID, gateway.AuditHostLabelled, strings.Join(labels, " "), func(h *gateway.RelayHost) { h.Labels = labels })
	}
	return nil
}

// Drain has a host take no new turn; it stays linked, and ends what it has. Errors:
// forbidden; not_found, also for a host that is revoked.
func (s *Service) Drain(ctx context.Context, actor gateway.Actor, hostID string) error {
	return s.change(ctx, actor, hostID, gateway.AuditHostDrained, "", func(h *gateway.RelayHost) {
		if h.DrainedAt.IsZero() {
			h.DrainedAt = s.now()
		}
	})
}

// Resume takes Drain back. Errors as of Drain.
func (s *Service) Resume(ctx context.Context, actor gateway.Actor, hostID string) error {
	return s.change(ctx, actor, hostID, gateway.AuditHostResumed, "", func(h *gateway.RelayHost) { h.DrainedAt = time.Time{} })
}

// Revoke voids the credential of a host for good and ends its link at once; its turns
// end as lost. Errors as of Drain.
func (s *Service) Revoke(ctx context.Context, actor gateway.Actor, hostID string) error {
	return s.change(ctx, actor, hostID, gateway.AuditHostRevoked, "", func(h *gateway.RelayHost) { h.RevokedAt = s.now() })
}

func (s *Service) change(ctx context.Context, actor gateway.Actor, hostID string, action gateway.AuditAction, detail string,
	alter func(*gateway.RelayHost),
) error {
	if err := s.requireGovernor(ctx, actor); err != nil {
		return err
	}
	if slices.Contains(s.embedded, hostID) {
		return wire.NewError(wire.CodeForbidden, "This host is part of the gateway: its settings are the gateway's own.")
	}
	audit := s.entry(action, actor, hostID)
	audit.Detail = detail
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.store.ChangeHost(ctx, hostID, alter, audit)
	if errors.Is(err, gateway.ErrNoRow) {
		return wire.NewError(wire.CodeNotFound, "There is no such host, or it was revoked.")
	}
	if err != nil {
		return err
	}
	s.apply(ctx, h)
	return nil
}
