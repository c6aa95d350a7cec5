package accounts_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

// person makes an account and gives its session and actor.
func (b *bench) person(t *testing.T, org, email string, role gateway.Role) (accounts.Session, gateway.Actor) {
	t.Helper()
	if _, err := b.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{
		Email: email, Password: goodPassword, Role: role, Org: org,
	}); err != nil {
		t.Fatal(err)
	}
	session, err := b.login(t, email, goodPassword, email)
	if err != nil {
		t.Fatal(err)
	}
	return session, b.actor(t, session.Secret)
}

func (b *bench) org(t *testing.T, name string) gateway.Org {
	t.Helper()
	org, err := b.CreateOrg(t.Context(), accounts.Operator(), name)
	if err != nil {
		t.Fatal(err)
	}
	return org
}

func TestOrgsAreTheOperators(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		b.org(t, " Quay Ltd ")
		_, err := b.CreateOrg(t.Context(), accounts.Operator(), "Quay Ltd")
		wantFields(t, err, wire.Field{Path: "name", Rule: "unique"})
		_, err = b.CreateOrg(t.Context(), accounts.Operator(), "  ")
		wantFields(t, err, wire.Field{Path: "name", Rule: "required"})
		_, err = b.CreateOrg(t.Context(), admin, "Mine")
		wantCode(t, err, wire.CodeForbidden)
		_, err = b.Orgs(t.Context(), admin)
		wantCode(t, err, wire.CodeForbidden)
		_, err = b.OrgByName(t.Context(), admin, "Quay Ltd")
		wantCode(t, err, wire.CodeForbidden)
		orgs, err := b.Orgs(t.Context(), accounts.Operator())
		if err != nil || len(orgs) != 2 || orgs[1].Name != "Quay Ltd" {
			t.Errorf("orgs %+v, %v", orgs, err)
		}
		found, err := b.OrgByName(t.Context(), accounts.Operator(), "Quay Ltd")
		if err != nil || found.ID != orgs[1].ID {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

// Decisions §2.17: an org starts with an unlimited entitlement, which a row says.
func TestAnOrgStartsWithoutLimits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		made := b.org(t, "Quay")
		for _, id := range []string{admin.OrgID, made.ID} {
			e, err := b.Entitlement(t.Context(), accounts.Operator(), id)
			if err != nil || e != (gateway.Entitlement{Status: gateway.EntitlementActive}) {
				t.Errorf("entitlement %+v, %v", e, err)
			}
			l, err := b.OrgLimits(t.Context(), accounts.Operator(), id)
			if err != nil || l != (gateway.OrgLimits{}) {
				t.Errorf("limits %+v, %v", l, err)
			}
		}
	})
}

func TestWhatAnOrgMaySpendIsSetByWhoGovernsIt(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		var told []string
		b.changed = func(_ context.Context, orgID string) { told = append(told, orgID) }
		_, admin := b.withAdmin(t)
		_, member := b.person(t, "", "m@example.com", gateway.RoleMember)
		five := int64(5)
		spend := gateway.Entitlement{Status: gateway.EntitlementSuspended, Credits: &five}
		limits := gateway.Limits{ConcurrentTurns: 2, DailyTurns: 30}

		wantCode(t, b.SetEntitlement(t.Context(), member, admin.OrgID, spend), wire.CodeForbidden)
		wantCode(t, b.SetOrgLimits(t.Context(), member, admin.OrgID, limits), wire.CodeForbidden)
		wantCode(t, b.SetMemberDefaults(t.Context(), member, admin.OrgID, limits), wire.CodeForbidden)
		// The admin of the only org runs the installation.
		wantCode(t, b.SetEntitlement(t.Context(), admin, admin.OrgID, spend), "")
		wantCode(t, b.SetOrgLimits(t.Context(), admin, admin.OrgID, limits), "")
		wantCode(t, b.SetMemberDefaults(t.Context(), admin, admin.OrgID, gateway.Limits{DailyTurns: 7}), "")
		got, err := b.Entitlement(t.Context(), member, admin.OrgID)
		if err != nil || got.Status != spend.Status || got.Credits == nil || *got.Credits != 5 {
			t.Errorf("entitlement %+v, %v", got, err)
		}
		l, err := b.OrgLimits(t.Context(), admin, admin.OrgID)
		if want := (gateway.OrgLimits{Limits: limits, Member: gateway.Limits{DailyTurns: 7}}); err != nil || l != want {
			t.Errorf("limits %+v, %v", l, err)
		}
		if !slices.Equal(told, []string{admin.OrgID, admin.OrgID, admin.OrgID}) {
			t.Errorf("told of %v", told)
		}

		other := b.org(t, "Quay")
		wantCode(t, b.SetEntitlement(t.Context(), admin, admin.OrgID, gateway.Entitlement{Status: gateway.EntitlementActive}), wire.CodeForbidden)
		wantCode(t, b.SetOrgLimits(t.Context(), admin, admin.OrgID, gateway.Limits{}), wire.CodeForbidden)
		wantCode(t, b.SetMemberDefaults(t.Context(), admin, admin.OrgID, gateway.Limits{}), "")
		wantCode(t, b.SetMemberDefaults(t.Context(), admin, other.ID, gateway.Limits{}), wire.CodeNotFound)
		wantCode(t, b.SetEntitlement(t.Context(), admin, other.ID, spend), wire.CodeNotFound)
		_, err = b.Entitlement(t.Context(), admin, other.ID)
		wantCode(t, err, wire.CodeNotFound)
		_, err = b.OrgLimits(t.Context(), admin, other.ID)
		wantCode(t, err, wire.CodeNotFound)
		wantCode(t, b.SetEntitlement(t.Context(), accounts.Operator(), other.ID, spend), "")
		wantCode(t, b.SetEntitlement(t.Context(), accounts.Operator(), "nobody", spend), wire.CodeNotFound)

		entries, err := b.Audit(t.Context(), admin, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		var details []string
		for _, e := range entries {
			if e.Action == gateway.AuditEntitlementChanged || e.Action == gateway.AuditOrgLimitsChanged {
				details = append(details, e.Detail)
				if e.AccountID != admin.AccountID || e.OrgID != admin.OrgID || e.Target != admin.OrgID {
					t.Errorf("audit %+v", e)
				}
			}
		}
		slices.Reverse(details)
		want := []string{"status=suspended credits=5", "org concurrent=2 daily=30", "members concurrent=0 daily=7", "members concurrent=0 daily=0"}
		if !slices.Equal(details, want) {
			t.Errorf("audit %q", details)
		}
	})
}

func TestLimitsAndCreditsAreChecked(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		low, high := int64(-1), int64(accounts.MaxCredits+1)
		for _, credits := range []*int64{&low, &high} {
			err := b.SetEntitlement(t.Context(), admin, admin.OrgID, gateway.Entitlement{Status: "closed", Credits: credits})
			wantFields(t, err, wire.Field{Path: "status", Rule: "enum"}, wire.Field{Path: "credits", Rule: "range"})
		}
		wrong := gateway.Limits{ConcurrentTurns: -1, DailyTurns: accounts.MaxLimit + 1}
		want := []wire.Field{{Path: "concurrentTurns", Rule: "range"}, {Path: "dailyTurns", Rule: "range"}}
		wantFields(t, b.SetOrgLimits(t.Context(), admin, admin.OrgID, wrong), want...)
		wantFields(t, b.SetMemberDefaults(t.Context(), admin, admin.OrgID, wrong), want...)
		wantFields(t, b.SetMemberLimits(t.Context(), admin, admin.AccountID, &wrong), want...)
	})
}

func TestUsageIsWhatAdmissionSees(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		_, member := b.person(t, "", "m@example.com", gateway.RoleMember)
		credits := int64(12)
		wantCode(t, b.SetEntitlement(t.Context(), admin, admin.OrgID, gateway.Entitlement{Status: gateway.EntitlementActive, Credits: &credits}), "")
		wantCode(t, b.SetOrgLimits(t.Context(), admin, admin.OrgID, gateway.Limits{DailyTurns: 100}), "")
		wantCode(t, b.SetMemberDefaults(t.Context(), admin, admin.OrgID, gateway.Limits{ConcurrentTurns: 3, DailyTurns: 9}), "")
		u, err := b.Usage(t.Context(), member)
		if err != nil {
			t.Fatal(err)
		}
		if u.OrgTurns != installationTurns || u.OrgDaily != 100 || u.MemberTurns != 3 || u.MemberDaily != 9 || u.Entitlement.Credits == nil || *u.Entitlement.Credits != 12 {
			t.Errorf("usage %+v", u)
		}
		if want := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC); !u.ResetAt.Equal(want) {
			t.Errorf("the day ends at %s", u.ResetAt)
		}
		wantCode(t, b.SetMemberLimits(t.Context(), admin, member.AccountID, &gateway.Limits{DailyTurns: 2}), "")
		if u, err = b.Usage(t.Context(), member); err != nil || u.MemberDaily != 2 || u.MemberTurns != 0 {
			t.Errorf("a member's own limits: %+v, %v", u, err)
		}
		wantCode(t, b.SetMemberLimits(t.Context(), admin, member.AccountID, nil), "")
		if u, err = b.Usage(t.Context(), member); err != nil || u.MemberDaily != 9 {
			t.Errorf("the org's again: %+v, %v", u, err)
		}
		wantCode(t, b.SetEntitlement(t.Context(), admin, admin.OrgID, gateway.Entitlement{Status: gateway.EntitlementSuspended}), "")
		if u, err = b.Usage(t.Context(), member); err != nil || u.Entitlement != (gateway.Entitlement{Status: gateway.EntitlementSuspended}) {
			t.Errorf("suspended: %+v, %v", u, err)
		}
	})
}

func wantFields(t *testing.T, err error, want ...wire.Field) {
	t.Helper()
	wantCode(t, err, wire.CodeBadRequest)
	got := wire.AsError(err).Fields
	if !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
	for _, f := range got {
		if strings.Contains(accounts.FieldMessage(f), "cannot be used like this") {
			t.Errorf("%v has no words of its own", f)
		}
	}
}
