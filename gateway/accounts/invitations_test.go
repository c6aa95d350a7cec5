package accounts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

const invited = "new@example.com"

func (b *bench) invite(t *testing.T, actor gateway.Actor, email string, role gateway.Role) string {
	t.Helper()
	secret, _, err := b.Invite(t.Context(), actor, accounts.NewInvitation{Email: email, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func accept(secret string) accounts.AcceptRequest {
	return accounts.AcceptRequest{Secret: secret, Name: "New", Password: goodPassword, Address: address}
}

func TestAnInvitationIsUsedOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.db")
	b := openBench(t, path)
	_, admin := b.withAdmin(t)
	secret := b.invite(t, admin, " New@Example.com ", gateway.RoleAdmin)
	for range 2 { // looking does not use it up
		inv, org, err := b.CheckInvitation(t.Context(), secret)
		if err != nil || inv.Email != invited || inv.Role != gateway.RoleAdmin || org.Name != accounts.DefaultOrg {
			t.Fatalf("invitation %+v to %+v, %v", inv, org, err)
		}
	}
	short := accept(secret)
	short.Password, short.Name = "short", " "
	_, err := b.AcceptInvitation(t.Context(), short)
	wantFields(t, err, wire.Field{Path: "name", Rule: "required"}, wire.Field{Path: "password", Rule: "min"})
	session, err := b.AcceptInvitation(t.Context(), accept(secret))
	if err != nil {
		t.Fatalf("a refused form must leave the invitation standing: %v", err)
	}
	actor := b.actor(t, session.Secret)
	if actor.OrgID != admin.OrgID || actor.Role != gateway.RoleAdmin || session.Account.Email != invited || session.Account.Name != "New" {
		t.Errorf("who joined is %+v, %+v", actor, session.Account)
	}
	_, err = b.AcceptInvitation(t.Context(), accept(secret))
	wantCode(t, err, gateway.CodeInvitationInvalid)
	_, _, err = b.CheckInvitation(t.Context(), secret)
	wantCode(t, err, gateway.CodeInvitationInvalid)
	if left, err := b.Invitations(t.Context(), admin); err != nil || len(left) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
	got := b.actions(t, admin)
	if want := []gateway.AuditAction{gateway.AuditInvited, gateway.AuditJoined, gateway.AuditLogin}; !slices.Equal(got[len(got)-3:], want) {
		t.Errorf("audit %v", got)
	}
	if stored := readFolder(t, filepath.Dir(path)); strings.Contains(stored, secret) {
		t.Error("the secret of an invitation is stored")
	}
}

func TestInvitationsThatDoNotStand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, b *bench, admin gateway.Actor)
	}{
		{"expired", func(_ *testing.T, b *bench, _ gateway.Actor) { b.clock.Add(accounts.InvitationTTL) }},
		{"revoked", func(t *testing.T, b *bench, admin gateway.Actor) {
			list, err := b.Invitations(t.Context(), admin)
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			wantCode(t, b.RevokeInvitation(t.Context(), admin, list[0].ID), "")
			wantCode(t, b.RevokeInvitation(t.Context(), admin, list[0].ID), wire.CodeNotFound)
		}},
		{"replaced by a newer one", func(t *testing.T, b *bench, admin gateway.Actor) { b.invite(t, admin, invited, "") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			_, admin := b.withAdmin(t)
			secret := b.invite(t, admin, invited, gateway.RoleMember)
			tt.end(t, b, admin)
			_, _, err := b.CheckInvitation(t.Context(), secret)
			wantCode(t, err, gateway.CodeInvitationInvalid)
			_, err = b.AcceptInvitation(t.Context(), accept(secret))
			wantCode(t, err, gateway.CodeInvitationInvalid)
			if b.hashes.hashed.Load() != 2 { // the decoy's and the admin's
				t.Error("a password was hashed for it")
			}
		})
	}
	b := newBench(t)
	_, admin := b.withAdmin(t)
	secret := b.invite(t, admin, invited, gateway.RoleMember)
	b.clock.Add(accounts.InvitationTTL - time.Millisecond)
	if _, err := b.AcceptInvitation(t.Context(), accept(secret)); err != nil {
		t.Errorf("in its last moment: %v", err)
	}
}

func TestAnEmailWithAnAccountIsNotInvited(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		taken := wire.Field{Path: "email", Rule: "unique"}
		_, _, err := b.Invite(t.Context(), admin, accounts.NewInvitation{Email: " ADA@example.com"})
		wantFields(t, err, taken)
		_, _, err = b.Invite(t.Context(), admin, accounts.NewInvitation{Email: "x", Role: "king"})
		wantFields(t, err, wire.Field{Path: "email", Rule: "type"}, wire.Field{Path: "role", Rule: "enum"})

		// It may get one while the invitation waits: then nothing is burned.
		secret := b.invite(t, admin, invited, gateway.RoleMember)
		b.org(t, "Quay")
		b.person(t, "Quay", invited, gateway.RoleMember)
		_, err = b.AcceptInvitation(t.Context(), accept(secret))
		wantFields(t, err, taken)
		if _, _, err := b.CheckInvitation(t.Context(), secret); err != nil {
			t.Errorf("the invitation was burned: %v", err)
		}
		if got := b.actions(t, admin); slices.Contains(got, gateway.AuditJoined) {
			t.Errorf("audit %v", got)
		}
	})
}

func TestAnInvitationAcceptedTwiceAtOnceMakesOneAccount(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		secret := b.invite(t, admin, invited, gateway.RoleMember)
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				req := accept(secret)
				req.Address = string(rune('a' + i))
				_, errs[i] = b.AcceptInvitation(t.Context(), req)
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			wantCode(t, err, gateway.CodeInvitationInvalid)
		}
		members, err := b.Members(t.Context(), admin)
		if err != nil || won != 1 || len(members) != 2 {
			t.Errorf("%d won, members %+v, %v", won, members, err)
		}
	})
}

func TestGuessedInvitationsAreThrottled(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		secret := b.invite(t, admin, invited, gateway.RoleMember)
		for range throttle.AddressBurst {
			_, err := b.AcceptInvitation(t.Context(), accept("guess"))
			wantCode(t, err, gateway.CodeInvitationInvalid)
		}
		_, err := b.AcceptInvitation(t.Context(), accept(secret))
		wantCode(t, err, wire.CodeRateLimited)
		if wire.AsError(err).RetryAfter <= 0 {
			t.Error("it does not say when to come back")
		}
		b.clock.Add(throttle.AddressEvery)
		if _, err := b.AcceptInvitation(t.Context(), accept(secret)); err != nil {
			t.Errorf("a while later: %v", err)
		}
	})
}

func TestTheOperatorInvitesBeforeAnyoneIsThere(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		setup, err := b.SetupLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		secret, inv, err := b.Invite(t.Context(), accounts.Operator(), accounts.NewInvitation{Email: invited, Role: gateway.RoleAdmin, Org: "Quay"})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = b.Invite(t.Context(), accounts.Operator(), accounts.NewInvitation{Email: invited, Org: "Key"})
		wantCode(t, err, wire.CodeNotFound)
		wantCode(t, b.CheckSetupLink(t.Context(), setup), "")
		session, err := b.AcceptInvitation(t.Context(), accept(secret))
		if err != nil || session.Account.OrgID != inv.OrgID {
			t.Fatalf("%+v, %v", session.Account, err)
		}
		wantCode(t, b.CheckSetupLink(t.Context(), setup), gateway.CodeSetupLinkInvalid)
	})
}
