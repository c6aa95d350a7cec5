package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/relay/wire"
)

// AccountStore is the conformance suite of the accounts' part of the store on a
// kind of database: what two callers at once must not both get, and that each
// query runs. What it is for is tested in package accounts.
func AccountStore(t *testing.T, d Database) {
	for _, c := range []struct {
		name string
		test func(*accountSuite)
	}{
		{"orgs, limits and entitlements", (*accountSuite).orgs},
		{"members", (*accountSuite).members},
		{"credentials", (*accountSuite).credentials},
		{"invitations", (*accountSuite).invitations},
		{"the audit log", (*accountSuite).audit},
		{"one of many sets up", (*accountSuite).setup},
		{"one of many makes the first org", (*accountSuite).firstOrg},
		{"one of two admins that demote each other stays", (*accountSuite).lastAdmin},
		{"an invitation is used once, and one stands", (*accountSuite).oneInvitation},
		{"an email is taken once", (*accountSuite).oneEmail},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(&accountSuite{T: t, ctx: context.Background(), Accounts: d.Open(t).Accounts()})
		})
	}
}

type accountSuite struct {
	*testing.T
	*gatewaysql.Accounts
	ctx context.Context
}

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	night = noon.Add(12 * time.Hour)
)

func entry() gateway.AuditEntry { return gateway.AuditEntry{ID: uid(), At: noon, Action: "test"} }

func (s *accountSuite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *accountSuite) code(err error, code wire.Code) {
	s.Helper()
	if wire.CodeOf(err) != code {
		s.Errorf("error %v, want code %s", err, code)
	}
}

func (s *accountSuite) org(name string) gateway.Org {
	s.Helper()
	o := gateway.Org{ID: uid(), Name: name, CreatedAt: noon}
	s.must(s.CreateOrg(s.ctx, o, entry()))
	return o
}

func stored(org string, role gateway.Role) (a gateway.StoredAccount) {
	a.ID, a.OrgID, a.Role, a.CreatedAt, a.PasswordHash = uid(), org, role, noon, "hash"
	a.Email, a.Name = a.ID+"@example.com", "N"
	return a
}

func (s *accountSuite) account(org string, role gateway.Role) gateway.StoredAccount {
	s.Helper()
	a := stored(org, role)
	_, err := s.CreateAccount(s.ctx, a, "", gateway.Org{}, entry())
	s.must(err)
	return a
}

// race runs fn n times at once and gives the errors that are not nil.
func race(n int, fn func(i int) error) (failed []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := fn(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
	}
	wg.Wait()
	return failed
}

func (s *accountSuite) orgs() {
	a, b := s.org("A"), s.org("B")
	if err := s.CreateOrg(s.ctx, gateway.Org{ID: uid(), Name: "A"}, entry()); !errors.Is(err, gateway.ErrOrgTaken) {
		s.Errorf("a name in use: %v", err)
	}
	if got, err := s.Org(s.ctx, a.ID); err != nil || got != a {
		s.Errorf("org %+v %v", got, err)
	}
	if got, err := s.OrgByName(s.ctx, "B"); err != nil || got != b {
		s.Errorf("org %+v %v", got, err)
	}
	_, err := s.Org(s.ctx, uid())
	s.code(err, wire.CodeNotFound)
	if list, err := s.Orgs(s.ctx); err != nil || len(list) != 2 {
		s.Errorf("orgs %v %v", list, err)
	}
	credits := int64(5)
	s.must(s.SetEntitlement(s.ctx, a.ID, gateway.Entitlement{Status: "suspended", Credits: &credits}, entry()))
	if e, err := s.Entitlement(s.ctx, a.ID); err != nil || e.Status != "suspended" || *e.Credits != 5 {
		s.Errorf("entitlement %+v %v", e, err)
	}
	if e, err := s.Entitlement(s.ctx, b.ID); err != nil || e.Status != "active" || e.Credits != nil {
		s.Errorf("entitlement %+v %v", e, err)
	}
	s.code(s.SetEntitlement(s.ctx, uid(), gateway.Entitlement{Status: "active"}, entry()), wire.CodeNotFound)
	s.must(s.SetOrgLimits(s.ctx, a.ID, gateway.Limits{ConcurrentTurns: 1, DailyTurns: 2}, entry()))
	s.must(s.SetMemberDefaults(s.ctx, a.ID, gateway.Limits{ConcurrentTurns: 3, DailyTurns: 4}, entry()))
	l, err := s.OrgLimits(s.ctx, a.ID)
	s.must(err)
	if fmt.Sprint(l.ConcurrentTurns, l.DailyTurns, l.Member.ConcurrentTurns, l.Member.DailyTurns) != "1 2 3 4" {
		s.Errorf("limits %+v", l)
	}
	admission, load, err := s.Standing(s.ctx, a.ID, uid(), noon)
	if err != nil || !admission.Suspended || admission.OrgTurns != 1 || load != (gateway.Load{}) {
		s.Errorf("standing %+v %+v %v", admission, load, err)
	}
}

func (s *accountSuite) members() {
	org := s.org("A")
	admin, member := s.account(org.ID, gateway.RoleAdmin), s.account(org.ID, gateway.RoleMember)
	s.account(s.org("B").ID, gateway.RoleAdmin)
	if got, err := s.AccountByEmail(s.ctx, member.Email); err != nil || got.ID != member.ID || got.PasswordHash != "hash" {
		s.Errorf("account %+v %v", got, err)
	}
	_, err := s.AccountByID(s.ctx, uid(), member.ID)
	s.code(err, wire.CodeNotFound)
	if got, err := s.AccountByID(s.ctx, "", member.ID); err != nil || got.OrgID != org.ID {
		s.Errorf("account %+v %v", got, err)
	}
	for orgID, want := range map[string]int{org.ID: 2, "": 3} {
		accounts, err := s.Accounts.Accounts(s.ctx, orgID)
		members, merr := s.Members(s.ctx, orgID)
		if err != nil || merr != nil || len(accounts) != want || len(members) != want {
			s.Errorf("%d accounts, %d members, want %d: %v %v", len(accounts), len(members), want, err, merr)
		}
	}
	s.must(s.SetName(s.ctx, member.ID, "Other", entry()))
	_, err = s.SetMemberLimits(s.ctx, org.ID, member.ID, &gateway.Limits{ConcurrentTurns: 1}, entry())
	s.must(err)
	_, err = s.SetMemberLimits(s.ctx, "", member.ID, &gateway.Limits{ConcurrentTurns: 2, DailyTurns: 3}, entry())
	s.must(err)
	_, err = s.DisableMember(s.ctx, org.ID, member.ID, entry())
	s.must(err)
	members, err := s.Members(s.ctx, org.ID)
	s.must(err)
	for _, m := range members {
		if m.ID == member.ID && (m.Name != "Other" || m.Limits == nil || m.Limits.DailyTurns != 3 || m.DisabledAt.IsZero()) {
			s.Errorf("member %+v", m)
		}
	}
	s.must(s.EnableMember(s.ctx, org.ID, member.ID, entry()))
	_, err = s.DisableMember(s.ctx, org.ID, admin.ID, entry())
	s.code(err, gateway.CodeLastAdmin)
	_, err = s.SetRole(s.ctx, org.ID, member.ID, gateway.RoleAdmin, entry())
	s.must(err)
	_, err = s.SetMemberLimits(s.ctx, org.ID, member.ID, nil, entry())
	s.must(err)
	_, err = s.SetRole(s.ctx, org.ID, uid(), gateway.RoleAdmin, entry())
	s.code(err, wire.CodeNotFound)
}

func (s *accountSuite) credentials() {
	org := s.org("A")
	a := s.account(org.ID, gateway.RoleAdmin)
	session := gateway.Credential{ID: uid(), Kind: "session", AccountID: a.ID, SecretHash: uid(), CreatedAt: noon, SeenAt: noon}
	token := gateway.Credential{
		ID: uid(), Kind: "token", AccountID: a.ID, SecretHash: uid(), Name: "ci",
		Scopes: []gateway.Scope{"chat", "admin"}, CreatedAt: noon, SeenAt: noon, ExpiresAt: night,
	}
	s.must(s.StartCredential(s.ctx, session, "", entry()))
	s.must(s.StartCredential(s.ctx, token, "", entry()))
	got, owner, err := s.CredentialBySecret(s.ctx, "token", token.SecretHash)
	if err != nil || got.ID != token.ID || len(got.Scopes) != 2 || owner.ID != a.ID || !got.ExpiresAt.Equal(night) {
		s.Errorf("credential %+v of %+v: %v", got, owner, err)
	}
	s.must(s.TouchCredential(s.ctx, session.ID, night))
	s.must(s.TouchCredential(s.ctx, session.ID, noon)) // time never runs back
	list, err := s.Credentials(s.ctx, org.ID, "session")
	if err != nil || len(list) != 1 || !list[0].SeenAt.Equal(night) {
		s.Errorf("credentials %+v %v", list, err)
	}
	if list, err = s.AccountCredentials(s.ctx, a.ID); err != nil || len(list) != 2 {
		s.Errorf("credentials %+v %v", list, err)
	}
	s.code(s.EndCredential(s.ctx, uid(), token.ID, entry()), wire.CodeNotFound)
	s.must(s.EndCredential(s.ctx, org.ID, token.ID, entry()))
	s.code(s.EndCredential(s.ctx, "", token.ID, entry()), wire.CodeNotFound)
	ended, err := s.SetPassword(s.ctx, a.ID, "new", "", entry())
	if err != nil || len(ended) != 1 || ended[0] != session.ID {
		s.Errorf("ended %v %v", ended, err)
	}
	if ended, err = s.EndedSince(s.ctx, noon); err != nil || len(ended) != 2 {
		s.Errorf("ended %v %v", ended, err)
	}
	s.must(s.SweepCredentials(s.ctx, night, noon, night))
	if ended, err = s.EndedSince(s.ctx, time.Time{}); err != nil || len(ended) != 0 {
		s.Errorf("ended %v %v", ended, err)
	}
}

func invitation(org string) gateway.Invitation {
	return gateway.Invitation{
		ID: uid(), OrgID: org, Email: "new@example.com", Role: gateway.RoleMember, SecretHash: uid(),
		CreatedBy: uid(), CreatedAt: noon, ExpiresAt: night,
	}
}

func (s *accountSuite) invitations() {
	org := s.org("A")
	first, err := s.PutInvitation(s.ctx, invitation(org.ID), "", gateway.Org{}, entry())
	s.must(err)
	second, err := s.PutInvitation(s.ctx, invitation(""), "A", gateway.Org{}, entry())
	s.must(err)
	list, err := s.Invitations(s.ctx, org.ID)
	if err != nil || len(list) != 1 || list[0].ID != second.ID || second.OrgID != org.ID {
		s.Errorf("invitations %+v %v", list, err)
	}
	_, err = s.InvitationBySecret(s.ctx, first.SecretHash, noon)
	s.code(err, wire.CodeNotFound)
	if _, err = s.InvitationBySecret(s.ctx, second.SecretHash, noon); err != nil {
		s.Error(err)
	}
	_, err = s.InvitationBySecret(s.ctx, second.SecretHash, night)
	s.code(err, wire.CodeNotFound)
	s.code(s.RevokeInvitation(s.ctx, uid(), second.ID, entry()), wire.CodeNotFound)
	s.must(s.RevokeInvitation(s.ctx, "", second.ID, entry()))
	_, err = s.AcceptInvitation(s.ctx, second.SecretHash, stored("", ""), entry())
	s.code(err, gateway.CodeInvitationInvalid)
}

func (s *accountSuite) audit() {
	org := s.org("A")
	for _, orgID := range []string{org.ID, "", uid()} {
		e := entry()
		e.OrgID, e.Detail = orgID, "a\x00b"
		s.must(s.AppendAudit(s.ctx, e))
	}
	own, err := s.Audit(s.ctx, org.ID, "", 10)
	s.must(err)
	all, err := s.Audit(s.ctx, "", "", 10)
	s.must(err)
	if len(own) >= len(all) || len(all) != 4 || all[0].At != noon {
		s.Errorf("%d and %d entries", len(own), len(all))
	}
	rest, err := s.Audit(s.ctx, "", all[1].ID, 10)
	if err != nil || len(rest) != 2 || rest[0] != all[2] {
		s.Errorf("older entries %+v %v", rest, err)
	}
}

func (s *accountSuite) setup() {
	epochs := make([]string, 4)
	if failed := race(4, func(i int) (err error) { epochs[i], err = s.Epoch(s.ctx, uid()); return err }); failed != nil {
		s.Error(failed)
	}
	if epochs[0] != epochs[3] || epochs[1] != epochs[2] || epochs[0] != epochs[1] {
		s.Errorf("epochs %v", epochs)
	}
	if ok, err := s.PutSetupLink(s.ctx, "secret", noon); err != nil || !ok {
		s.Fatalf("link stored: %v %v", ok, err)
	}
	if ok, err := s.SetupLinkStands(s.ctx, "secret"); err != nil || !ok {
		s.Errorf("link stands: %v %v", ok, err)
	}
	failed := race(4, func(int) error {
		_, err := s.Setup(s.ctx, "secret", gateway.Org{ID: uid(), Name: "First", CreatedAt: noon}, stored("", gateway.RoleAdmin), entry())
		return err
	})
	if len(failed) != 3 {
		s.Errorf("%d of 4 were refused: %v", len(failed), failed)
	}
	for _, err := range failed {
		s.code(err, gateway.CodeSetupLinkInvalid)
	}
	if ok, err := s.PutSetupLink(s.ctx, "other", noon); err != nil || ok {
		s.Errorf("a link beside an admin: %v %v", ok, err)
	}
	if has, err := s.HasAdmin(s.ctx); err != nil || !has {
		s.Errorf("has an admin: %v %v", has, err)
	}
}

func (s *accountSuite) firstOrg() {
	failed := race(6, func(int) error {
		_, err := s.CreateAccount(s.ctx, stored("", gateway.RoleMember), "", gateway.Org{ID: uid(), Name: "First", CreatedAt: noon}, entry())
		return err
	})
	orgs, err := s.Orgs(s.ctx)
	s.must(err)
	accounts, err := s.Accounts.Accounts(s.ctx, orgs[0].ID)
	s.must(err)
	if failed != nil || len(orgs) != 1 || len(accounts) != 6 {
		s.Errorf("%d orgs, %d accounts in the first: %v", len(orgs), len(accounts), failed)
	}
	_, err = s.CreateAccount(s.ctx, stored("", gateway.RoleMember), "Missing", gateway.Org{}, entry())
	s.code(err, wire.CodeNotFound)
}

func (s *accountSuite) lastAdmin() {
	for range 5 {
		org := s.org(uid())
		admins := []gateway.StoredAccount{s.account(org.ID, gateway.RoleAdmin), s.account(org.ID, gateway.RoleAdmin)}
		failed := race(2, func(i int) (err error) {
			if i == 0 {
				_, err = s.SetRole(s.ctx, org.ID, admins[0].ID, gateway.RoleMember, entry())
			} else {
				_, err = s.DisableMember(s.ctx, org.ID, admins[1].ID, entry())
			}
			return err
		})
		if len(failed) != 1 {
			s.Fatalf("refused: %v, want one of two", failed)
		}
		s.code(failed[0], gateway.CodeLastAdmin)
	}
}

func (s *accountSuite) oneInvitation() {
	org := s.org("A")
	if failed := race(4, func(int) error {
		_, err := s.PutInvitation(s.ctx, invitation(org.ID), "", gateway.Org{}, entry())
		return err
	}); failed != nil {
		s.Error(failed)
	}
	list, err := s.Invitations(s.ctx, org.ID)
	if err != nil || len(list) != 1 {
		s.Fatalf("%d invitations stand: %v", len(list), err)
	}
	failed := race(4, func(int) error {
		_, err := s.AcceptInvitation(s.ctx, list[0].SecretHash, stored("", ""), entry())
		return err
	})
	if len(failed) != 3 {
		s.Errorf("refused: %v, want three of four", failed)
	}
	for _, err := range failed {
		s.code(err, gateway.CodeInvitationInvalid)
	}
	_, err = s.PutInvitation(s.ctx, invitation(org.ID), "", gateway.Org{}, entry())
	if !errors.Is(err, gateway.ErrEmailTaken) {
		s.Errorf("an email with an account: %v", err)
	}
}

func (s *accountSuite) oneEmail() {
	org := s.org("A")
	failed := race(4, func(int) error {
		a := stored(org.ID, gateway.RoleMember)
		a.Email = "one@example.com"
		_, err := s.CreateAccount(s.ctx, a, "", gateway.Org{}, entry())
		return err
	})
	if len(failed) != 3 {
		s.Errorf("refused: %v, want three of four", failed)
	}
	for _, err := range failed {
		if !errors.Is(err, gateway.ErrEmailTaken) {
			s.Error(err)
		}
	}
}
