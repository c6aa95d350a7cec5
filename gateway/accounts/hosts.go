package accounts

import (
	"context"

	"github.com/fairlead/fairlead/gateway"
)

// GovernsHosts tells whether the actor may manage relay hosts, which serve the whole
// installation: an operator may, and the admins of its first org. Those of further
// orgs do not.
func (s *Service) GovernsHosts(ctx context.Context, actor gateway.Actor) (bool, error) {
	if !actor.May(gateway.ScopeAdmin) {
		return false, nil
	}
	if actor.OrgID == "" {
		return true, nil
	}
	orgs, err := s.store.Orgs(ctx)
	return err == nil && len(orgs) > 0 && orgs[0].ID == actor.OrgID, err
}

// ThrottleJoin counts an attempt of an address to join a relay host, among its
// attempts to log in. Errors: rate_limited with RetryAfter.
func (s *Service) ThrottleJoin(ctx context.Context, address string) error {
	return s.throttleLogin(ctx, address, "")
}
