package accounts

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
)

const maxAuditPage = 500

// Audit lists the audit log of the actor's org and of strangers, newest first,
// before the entry with the id before; "" starts at the newest. It needs the
// admin scope.
func (s *Service) Audit(ctx context.Context, actor gateway.Actor, before string, limit int) ([]gateway.AuditEntry, error) {
	if err := requireAdmin(actor); err != nil {
		return nil, err
	}
	return s.store.Audit(ctx, actor.OrgID, before, min(max(limit, 1), maxAuditPage))
}

// RecordRefusal notes that a request with a foreign Origin was refused (F18).
// What a stranger can cause is bounded: beyond some entries per address nothing
// is written.
func (s *Service) RecordRefusal(ctx context.Context, address, route string) error {
	now := s.now()
	if s.refusals.take(addressKey(address), now) > 0 {
		return nil
	}
	return s.store.AppendAudit(ctx, gateway.AuditEntry{
		ID: newID(), At: now, Action: gateway.AuditOriginRefused, Address: address, Detail: route,
	})
}
