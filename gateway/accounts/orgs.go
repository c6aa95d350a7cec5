package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Bounds of limits and credits.
const (
	MaxLimit   = 1_000_000
	MaxCredits = 1_000_000_000_000_000
)

// CreateOrg makes an org, for an operator alone. Errors: forbidden; bad_request
// with Fields, also for a name in use.
func (s *Service) CreateOrg(ctx context.Context, actor gateway.Actor, name string) (gateway.Org, error) {
	if err := requireOperator(actor); err != nil {
		return gateway.Org{}, err
	}
	var faults faultList
	name = faults.name(name)
	if err := faults.err(); err != nil {
		return gateway.Org{}, err
	}
	org := s.freshOrg(name)
	audit := s.actorEntry(gateway.AuditOrgCreated, actor, org.ID)
	audit.OrgID = org.ID
	err := s.store.CreateOrg(ctx, org, audit)
	if errors.Is(err, gateway.ErrOrgTaken) {
		return gateway.Org{}, fieldError("name", "unique")
	}
	return org, err
}

// Orgs lists all orgs, oldest first, for an operator alone.
func (s *Service) Orgs(ctx context.Context, actor gateway.Actor) ([]gateway.Org, error) {
	if err := requireOperator(actor); err != nil {
		return nil, err
	}
	return s.store.Orgs(ctx)
}

// OrgByName finds an org by its whole name, for an operator alone. Errors:
// forbidden, not_found.
func (s *Service) OrgByName(ctx context.Context, actor gateway.Actor, name string) (gateway.Org, error) {
	if err := requireOperator(actor); err != nil {
		return gateway.Org{}, err
	}
	return s.store.OrgByName(ctx, strings.TrimSpace(name))
}

// Entitlement gives what an org may spend; every member of it may know.
func (s *Service) Entitlement(ctx context.Context, actor gateway.Actor, orgID string) (gateway.Entitlement, error) {
	if err := ofOrg(actor, orgID); err != nil {
		return gateway.Entitlement{}, err
	}
	return s.store.Entitlement(ctx, orgID)
}

// SetEntitlement says whether an org may start turns, and what it may spend. It
// needs the admin scope, and to govern the org (Governs). Errors: forbidden,
// not_found; bad_request with Fields.
func (s *Service) SetEntitlement(ctx context.Context, actor gateway.Actor, orgID string, e gateway.Entitlement) error {
	if err := s.requireGovernor(ctx, actor, orgID); err != nil {
		return err
	}
	var faults faultList
	if e.Status != gateway.EntitlementActive && e.Status != gateway.EntitlementSuspended {
		faults.add("status", "enum")
	}
	credits := "unlimited"
	if e.Credits != nil {
		if *e.Credits < 0 || *e.Credits > MaxCredits {
			faults.add("credits", "range")
		}
		credits = fmt.Sprint(*e.Credits)
	}
	if err := faults.err(); err != nil {
		return err
	}
	audit := s.actorEntry(gateway.AuditEntitlementChanged, actor, orgID)
	audit.OrgID, audit.Detail = orgID, fmt.Sprintf("status=%s credits=%s", e.Status, credits)
	if err := s.store.SetEntitlement(ctx, orgID, e, audit); err != nil {
		return err
	}
	s.limitsChanged(ctx, orgID)
	return nil
}

// OrgLimits gives the limits of an org. It needs the admin scope.
func (s *Service) OrgLimits(ctx context.Context, actor gateway.Actor, orgID string) (gateway.OrgLimits, error) {
	if err := requireAdmin(actor); err != nil {
		return gateway.OrgLimits{}, err
	}
	if err := ofOrg(actor, orgID); err != nil {
		return gateway.OrgLimits{}, err
	}
	return s.store.OrgLimits(ctx, orgID)
}

// SetOrgLimits replaces the limits of an org as a whole. It needs the admin scope,
// and to govern the org (Governs). Errors: forbidden, not_found; bad_request with
// Fields.
func (s *Service) SetOrgLimits(ctx context.Context, actor gateway.Actor, orgID string, l gateway.Limits) error {
	if err := s.requireGovernor(ctx, actor, orgID); err != nil {
		return err
	}
	return s.setLimits(ctx, actor, orgID, l, "org ", s.store.SetOrgLimits)
}

// SetMemberDefaults replaces the limits of the members who have none of their own.
// It needs the admin scope. Errors: forbidden, not_found; bad_request with Fields.
func (s *Service) SetMemberDefaults(ctx context.Context, actor gateway.Actor, orgID string, l gateway.Limits) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	if err := ofOrg(actor, orgID); err != nil {
		return err
	}
	return s.setLimits(ctx, actor, orgID, l, "members ", s.store.SetMemberDefaults)
}

func (s *Service) setLimits(ctx context.Context, actor gateway.Actor, orgID string, l gateway.Limits, whose string,
	set func(context.Context, string, gateway.Limits, gateway.AuditEntry) error,
) error {
	if err := checkLimits(l); err != nil {
		return err
	}
	audit := s.actorEntry(gateway.AuditOrgLimitsChanged, actor, orgID)
	audit.OrgID, audit.Detail = orgID, whose+limitDetail(l)
	if err := set(ctx, orgID, l, audit); err != nil {
		return err
	}
	s.limitsChanged(ctx, orgID)
	return nil
}

func limitDetail(l gateway.Limits) string {
	return fmt.Sprintf("concurrent=%d daily=%d", l.ConcurrentTurns, l.DailyTurns)
}

// Governs tells whether the actor may set what an org as a whole may spend: an
// operator may; an admin only where the org is the only one, since whoever runs
// the only org runs the installation. Among several, an org's admins do not lift
// the limits that the operator gave it.
func (s *Service) Governs(ctx context.Context, actor gateway.Actor, orgID string) (bool, error) {
	if !actor.May(gateway.ScopeAdmin) || !reaches(actor, orgID) {
		return false, nil
	}
	if actor.OrgID == "" {
		return true, nil
	}
	orgs, err := s.store.Orgs(ctx)
	return len(orgs) == 1, err
}

func (s *Service) requireGovernor(ctx context.Context, actor gateway.Actor, orgID string) error {
	if err := requireAdmin(actor); err != nil {
		return err
	}
	if err := ofOrg(actor, orgID); err != nil {
		return err
	}
	governs, err := s.Governs(ctx, actor, orgID)
	if err != nil || governs {
		return err
	}
	return wire.NewError(wire.CodeForbidden, "This installation has several orgs: what each may spend is set by its operator, on the command line.")
}

// Usage is how much an account, and its org, use of what they may. Limits of 0 are
// none.
type Usage struct {
	Entitlement           gateway.Entitlement
	OrgTurns, MemberTurns int // that may run at once
	OrgDaily, MemberDaily int // that may be started in a day
	Load                  gateway.Load
	// ResetAt is when the day ends for which turns are counted.
	ResetAt time.Time
}

// Usage gives the actor's own.
func (s *Service) Usage(ctx context.Context, actor gateway.Actor) (Usage, error) {
	now := s.now().UTC()
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	a, load, err := s.store.Standing(ctx, actor.OrgID, actor.AccountID, day)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{
		Entitlement: gateway.Entitlement{Status: gateway.EntitlementActive, Credits: a.Credits},
		OrgTurns:    a.OrgTurns, MemberTurns: a.MemberTurns, OrgDaily: a.OrgDaily, MemberDaily: a.MemberDaily,
		Load: load, ResetAt: day.AddDate(0, 0, 1),
	}
	if a.Suspended {
		u.Entitlement.Status = gateway.EntitlementSuspended
	}
	if u.OrgTurns == 0 {
		u.OrgTurns = s.orgTurns
	}
	if u.MemberTurns == 0 {
		u.MemberTurns = s.memberTurns
	}
	return u, nil
}

// InstallationTurns is how many turns an org, and a member, may run at once without
// such a limit of their own; 0 is without limit.
func (s *Service) InstallationTurns() (org, member int) { return s.orgTurns, s.memberTurns }

func requireOperator(actor gateway.Actor) error {
	if actor.OrgID == "" && actor.May(gateway.ScopeAdmin) {
		return nil
	}
	return wire.NewError(wire.CodeForbidden, "Only the operator may do this, on the command line.")
}

// reaches tells whether an actor is of an org, or the operator.
func reaches(actor gateway.Actor, orgID string) bool {
	return actor.OrgID == orgID || actor.OrgID == "" && actor.May(gateway.ScopeAdmin)
}

// ofOrg refuses actors that an org is out of reach for: to them it is not there.
func ofOrg(actor gateway.Actor, orgID string) error {
	if reaches(actor, orgID) {
		return nil
	}
	return notFound("org")
}
