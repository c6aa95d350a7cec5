package accounts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestSetupLinkWorksOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, err := b.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.CheckSetupLink(t.Context(), first), gateway.CodeSetupLinkInvalid)
	wantCode(t, b.CheckSetupLink(t.Context(), second), "")
	wantCode(t, b.CheckSetupLink(t.Context(), ""), gateway.CodeSetupLinkInvalid)

	req := accounts.SetupRequest{Token: first, Name: "Ada", Email: adminEmail, Password: goodPassword}
	_, err = b.Setup(t.Context(), req)
	wantCode(t, err, gateway.CodeSetupLinkInvalid)

	req.Token, req.Password = second, "short"
	_, err = b.Setup(t.Context(), req)
	wantCode(t, err, wire.CodeBadRequest)

	req.Password = goodPassword
	session, err := b.Setup(t.Context(), req)
	if err != nil {
		t.Fatalf("a refused form must leave the link standing: %v", err)
	}
	actor := b.actor(t, session.Secret)
	if actor.Role != gateway.RoleAdmin || !actor.May(gateway.ScopeAdmin) || !actor.May(gateway.ScopeChat) || actor.OrgID == "" {
		t.Errorf("the first admin is %+v", actor)
	}
	_, err = b.Setup(t.Context(), req)
	wantCode(t, err, gateway.CodeSetupLinkInvalid)
	if link, err := b.SetupLink(t.Context()); err != nil || link != "" {
		t.Errorf("with an admin SetupLink gives %q, %v", link, err)
	}
	if got := b.actions(t, actor); !slices.Equal(got, []gateway.AuditAction{gateway.AuditSetup, gateway.AuditLogin}) {
		t.Errorf("audit %v", got)
	}
}

func TestSetupOfTwoAtOnceHasOneWinner(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		token, err := b.SetupLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const racers = 6
		errs := make([]error, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				_, errs[i] = b.Setup(t.Context(), accounts.SetupRequest{
					Token: token, Name: "Ada", Email: string(rune('a'+i)) + "@example.com", Password: goodPassword,
				})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			wantCode(t, err, gateway.CodeSetupLinkInvalid)
		}
		users, err := b.Users(t.Context(), accounts.Operator())
		if err != nil || won != 1 || len(users) != 1 {
			t.Errorf("%d setups won and %d users exist (%v), want 1 and 1", won, len(users), err)
		}
	})
}

func TestSetupLinkEndsWithAnAdminFromTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token, err := b.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	member, err := b.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{Email: "m@example.com", Password: goodPassword})
	if err != nil {
		t.Fatal(err)
	}
	if member.Name != "m" || member.Role != gateway.RoleMember || member.OrgID == "" {
		t.Errorf("member %+v", member)
	}
	wantCode(t, b.CheckSetupLink(t.Context(), token), "")
	_, err = b.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{
		Email: "a@example.com", Password: goodPassword, Role: gateway.RoleAdmin,
	})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.CheckSetupLink(t.Context(), token), gateway.CodeSetupLinkInvalid)
	needs, err := b.NeedsSetup(t.Context())
	if err != nil || needs {
		t.Errorf("NeedsSetup: %v, %v", needs, err)
	}
}

func TestSetupJoinsTheOrgOfEarlierMembers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	member, err := b.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{
		Email: "m@example.com", Password: goodPassword, Org: "Harbour",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, actor := b.withAdmin(t)
	org, err := b.Org(t.Context(), actor)
	if err != nil || org.ID != member.OrgID || org.Name != "Harbour" {
		t.Errorf("org %+v, %v; the member's is %s", org, err, member.OrgID)
	}
	_, err = b.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{
		Email: "x@example.com", Password: goodPassword, Org: "Harbor",
	})
	wantCode(t, err, wire.CodeNotFound)
}

func TestEpochStaysWithTheFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.db")
	var epochs []string
	for range 2 {
		t.Run("open", func(t *testing.T) {
			epoch, err := openBench(t, path).Epoch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			epochs = append(epochs, epoch)
		})
	}
	if epochs[0] == "" || epochs[0] != epochs[1] {
		t.Errorf("epochs %q", epochs)
	}
}

func TestWhatPeopleTypeIsChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, admin := b.withAdmin(t)
	tests := []struct {
		name                    string
		person, email, password string
		want                    []wire.Field
	}{
		{name: "all empty", email: " ", want: []wire.Field{{Path: "name", Rule: "required"}, {Path: "email", Rule: "required"}, {Path: "password", Rule: "required"}}},
		{name: "short", person: "A", email: "a@b.c", password: "123456789", want: []wire.Field{{Path: "password", Rule: "min"}}},
		{name: "long", person: "A", email: "a@b.c", password: strings.Repeat("x", 1025), want: []wire.Field{{Path: "password", Rule: "max"}}},
		{name: "bytes", person: "A", email: "a@b.c", password: "\xff1234567890", want: []wire.Field{{Path: "password", Rule: "utf8"}}},
		{name: "no email", person: "A", email: "Ada <a@b.c>", password: goodPassword, want: []wire.Field{{Path: "email", Rule: "type"}}},
		{name: "two emails", person: "A", email: "a@b.c, d@e.f", password: goodPassword, want: []wire.Field{{Path: "email", Rule: "type"}}},
		{name: "line in name", person: "A\nB", email: "a@b.c", password: goodPassword, want: []wire.Field{{Path: "name", Rule: "utf8"}}},
		{name: "long name", person: strings.Repeat("é", 101), email: "a@b.c", password: goodPassword, want: []wire.Field{{Path: "name", Rule: "max"}}},
		{name: "taken, written otherwise", person: "A", email: " ADA@Example.com ", password: goodPassword, want: []wire.Field{{Path: "email", Rule: "unique"}}},
		{name: "ten characters, and the longest", person: "A", email: "ten@b.c", password: "日本語日本語日本語日"},
		{name: "longest", person: strings.Repeat("é", 100), email: "long@b.c", password: strings.Repeat("x", 1024)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.CreateUser(t.Context(), admin, accounts.NewUser{Name: tt.person, Email: tt.email, Password: tt.password})
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := b.login(t, tt.email, tt.password, tt.name); err != nil {
					t.Errorf("log in: %v", err)
				}
				return
			}
			wantCode(t, err, wire.CodeBadRequest)
			if got := wire.AsError(err).Fields; !slices.Equal(got, tt.want) {
				t.Errorf("fields %v, want %v", got, tt.want)
			}
			for _, f := range tt.want {
				if strings.Contains(accounts.FieldMessage(f), "cannot be used like this") {
					t.Errorf("%v has no words of its own", f)
				}
			}
		})
	}
}
