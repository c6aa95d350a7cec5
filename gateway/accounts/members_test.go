package accounts_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestADisabledMemberIsOutAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		session, member := b.person(t, "", "m@example.com", gateway.RoleMember)
		token, made, err := b.CreateToken(t.Context(), admin, accounts.NewToken{
			AccountID: member.AccountID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat},
		})
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, b.DisableMember(t.Context(), admin, member.AccountID), "")
		for _, secret := range []string{session.Secret, token} {
			_, err := b.Authenticate(t.Context(), secret)
			wantCode(t, err, wire.CodeUnauthorized)
		}
		for _, id := range []string{member.CredentialID, made.ID} {
			if !b.bus.told(gateway.CredentialTopic(id)) {
				t.Errorf("the sockets of %s were not told", id)
			}
		}
		_, _, err = b.CreateToken(t.Context(), admin, accounts.NewToken{AccountID: member.AccountID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat}})
		wantCode(t, err, wire.CodeNotFound)
		wantCode(t, b.DisableMember(t.Context(), admin, member.AccountID), "")

		wantCode(t, b.EnableMember(t.Context(), admin, member.AccountID), "")
		_, err = b.Authenticate(t.Context(), session.Secret)
		wantCode(t, err, wire.CodeUnauthorized)
		if _, err := b.login(t, "m@example.com", goodPassword, "again"); err != nil {
			t.Errorf("log in again: %v", err)
		}
		got := b.actions(t, admin)
		want := []gateway.AuditAction{gateway.AuditMemberDisabled, gateway.AuditMemberEnabled, gateway.AuditLogin}
		if !slices.Equal(got[len(got)-3:], want) {
			t.Errorf("audit %v: what changed nothing stands there, or what did is missing", got)
		}
	})
}

// A disabled account is answered like a wrong password: same words, same cost,
// same line of audit.
func TestADisabledAccountCannotBeToldFromAWrongPassword(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		_, member := b.person(t, "", "m@example.com", gateway.RoleMember)
		_, wrong := b.login(t, "m@example.com", "not the password", "a")
		wantCode(t, b.DisableMember(t.Context(), admin, member.AccountID), "")
		before := b.hashes.verified.Load()
		_, disabled := b.login(t, "m@example.com", goodPassword, "b")
		if b.hashes.verified.Load() != before+1 {
			t.Error("a disabled account costs another number of hashes")
		}
		if wire.CodeOf(disabled) != gateway.CodeCredentialsInvalid || disabled.Error() != wrong.Error() {
			t.Errorf("disabled: %v; wrong password: %v", disabled, wrong)
		}
		if got := b.actions(t, admin); got[len(got)-1] != gateway.AuditLoginFailed {
			t.Errorf("audit %v", got)
		}
	})
}

func TestRolesChange(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		session, second := b.person(t, "", "m@example.com", gateway.RoleMember)
		wantCode(t, b.SetRole(t.Context(), second, second.AccountID, gateway.RoleAdmin), wire.CodeForbidden)
		wantFields(t, b.SetRole(t.Context(), admin, second.AccountID, "king"), wire.Field{Path: "role", Rule: "enum"})
		wantCode(t, b.SetRole(t.Context(), admin, second.AccountID, gateway.RoleAdmin), "")
		if promoted := b.actor(t, session.Secret); !promoted.May(gateway.ScopeAdmin) {
			t.Error("a promotion does not take effect")
		}
		promoted := b.actor(t, session.Secret)
		secret, _, err := b.Invite(t.Context(), promoted, accounts.NewInvitation{Email: "friend@example.com", Role: gateway.RoleAdmin})
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, b.SetRole(t.Context(), admin, second.AccountID, gateway.RoleMember), "")
		_, err = b.Authenticate(t.Context(), session.Secret)
		wantCode(t, err, wire.CodeUnauthorized)
		if !b.bus.told(gateway.CredentialTopic(second.CredentialID)) {
			t.Error("the sockets of a demoted admin were not told")
		}
		_, _, err = b.CheckInvitation(t.Context(), secret)
		wantCode(t, err, gateway.CodeInvitationInvalid)
	})
}

func TestTheLastAdminStays(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		session, admin := b.withAdmin(t)
		wantCode(t, b.SetRole(t.Context(), admin, admin.AccountID, gateway.RoleMember), gateway.CodeLastAdmin)
		wantCode(t, b.DisableMember(t.Context(), accounts.Operator(), admin.AccountID), gateway.CodeLastAdmin)
		// A disabled admin, and one of another org, do not count.
		_, spare := b.person(t, "", "spare@example.com", gateway.RoleAdmin)
		wantCode(t, b.DisableMember(t.Context(), admin, spare.AccountID), "")
		b.org(t, "Quay")
		b.person(t, "Quay", "q@example.com", gateway.RoleAdmin)
		wantCode(t, b.DisableMember(t.Context(), admin, admin.AccountID), gateway.CodeLastAdmin)
		wantCode(t, b.SetRole(t.Context(), admin, spare.AccountID, gateway.RoleMember), "")
		wantCode(t, b.EnableMember(t.Context(), admin, spare.AccountID), "")
		if _, err := b.Authenticate(t.Context(), session.Secret); err != nil {
			t.Errorf("a refused change ended the session: %v", err)
		}
		wantCode(t, b.SetRole(t.Context(), admin, spare.AccountID, gateway.RoleAdmin), "")
		wantCode(t, b.SetRole(t.Context(), admin, admin.AccountID, gateway.RoleMember), "")
	})
}

func TestAdminsThatDemoteEachOtherLeaveOne(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, ada := b.withAdmin(t)
		_, bob := b.person(t, "", "bob@example.com", gateway.RoleAdmin)
		var wg sync.WaitGroup
		errs := make([]error, 2)
		wg.Go(func() { errs[0] = b.SetRole(t.Context(), ada, bob.AccountID, gateway.RoleMember) })
		wg.Go(func() { errs[1] = b.DisableMember(t.Context(), bob, ada.AccountID) })
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			wantCode(t, err, gateway.CodeLastAdmin)
		}
		if won != 1 {
			t.Errorf("%d of two changes won: %v", won, errs)
		}
	})
}

func TestMembersOfAnotherOrgAreNotThere(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		b.org(t, "Quay")
		_, boss := b.person(t, "Quay", "boss@example.com", gateway.RoleAdmin)
		_, theirs := b.person(t, "Quay", "q@example.com", gateway.RoleMember)
		_, inv, err := b.Invite(t.Context(), boss, accounts.NewInvitation{Email: "new@example.com"})
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"role":    b.SetRole(t.Context(), admin, theirs.AccountID, gateway.RoleAdmin),
			"disable": b.DisableMember(t.Context(), admin, theirs.AccountID),
			"enable":  b.EnableMember(t.Context(), admin, theirs.AccountID),
			"limits":  b.SetMemberLimits(t.Context(), admin, theirs.AccountID, nil),
			"revoke":  b.RevokeInvitation(t.Context(), admin, inv.ID),
		} {
			if wire.CodeOf(err) != wire.CodeNotFound {
				t.Errorf("%s of another org's: %v", name, err)
			}
		}
		list, err := b.Members(t.Context(), admin)
		if err != nil || len(list) != 1 || list[0].ID != admin.AccountID {
			t.Errorf("members %+v, %v", list, err)
		}
		invited, err := b.Invitations(t.Context(), admin)
		if err != nil || len(invited) != 0 {
			t.Errorf("invitations %+v, %v", invited, err)
		}
		all, err := b.Members(t.Context(), accounts.Operator())
		if err != nil || len(all) != 3 {
			t.Errorf("the operator sees %+v, %v", all, err)
		}
		for name, err := range map[string]error{
			"role":        b.SetRole(t.Context(), theirs, theirs.AccountID, gateway.RoleAdmin),
			"disable":     b.DisableMember(t.Context(), theirs, boss.AccountID),
			"enable":      b.EnableMember(t.Context(), theirs, boss.AccountID),
			"limits":      b.SetMemberLimits(t.Context(), theirs, theirs.AccountID, nil),
			"revoke":      b.RevokeInvitation(t.Context(), theirs, inv.ID),
			"members":     second(b.Members(t.Context(), theirs)),
			"invitations": second(b.Invitations(t.Context(), theirs)),
		} {
			if wire.CodeOf(err) != wire.CodeForbidden {
				t.Errorf("%s by a member: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
