package accounts_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

const target = "target_0123456789abcdef0123456789abcdef"

// control describes a token for hosts.
func control(accountID string, targets ...string) accounts.NewToken {
	return accounts.NewToken{AccountID: accountID, Name: "plane", Scopes: []gateway.Scope{gateway.ScopeControl}, Targets: targets, TTL: time.Hour}
}

func TestControlTokens(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		member, err := b.CreateUser(t.Context(), admin, accounts.NewUser{Email: "m@example.com", Password: goodPassword})
		if err != nil {
			t.Fatal(err)
		}
		secret, token, err := b.CreateToken(t.Context(), admin, control(member.ID, target, "other"))
		if err != nil {
			t.Fatal(err)
		}
		actor := b.actor(t, secret)
		if !actor.May(gateway.ScopeControl) || actor.May(gateway.ScopeChat) || actor.May(gateway.ScopeAdmin) ||
			!slices.Equal(actor.Targets, []string{target, "other"}) || !slices.Equal(token.Targets, actor.Targets) {
			t.Errorf("actor %+v, token %+v", actor, token)
		}
		chat := accounts.NewToken{AccountID: member.ID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat}}
		if secret, _, err = b.CreateToken(t.Context(), admin, chat); err != nil {
			t.Fatal(err)
		}
		if actor := b.actor(t, secret); actor.Targets != nil || actor.May(gateway.ScopeControl) {
			t.Errorf("actor %+v of a chat token", actor)
		}
		chat.Targets = []string{target}
		many := make([]string, 65)
		for i := range many {
			many[i] = target
		}
		for rule, req := range map[string]accounts.NewToken{
			"required": control(member.ID), "type": control(member.ID, "no target"), "max": control(member.ID, many...), "unknown": chat,
		} {
			_, _, err := b.CreateToken(t.Context(), admin, req)
			if e := wire.AsError(err); e == nil || len(e.Fields) != 1 || e.Fields[0] != (wire.Field{Path: "targets", Rule: rule}) {
				t.Errorf("%s: %v", rule, err)
			}
		}
	})
}

// TestOnlyTheFirstOrgManagesHosts: hosts serve every org, so that no further org may
// decide about them, nor make tokens that drive them.
func TestOnlyTheFirstOrgManagesHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session, admin := b.withAdmin(t)
	member, err := b.CreateUser(t.Context(), admin, accounts.NewUser{Email: "m@example.com", Password: goodPassword})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateOrg(t.Context(), accounts.Operator(), "Quay"); err != nil {
		t.Fatal(err)
	}
	other, err := b.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{
		Email: "o@example.com", Password: goodPassword, Role: gateway.RoleAdmin, Org: "Quay",
	})
	if err != nil {
		t.Fatal(err)
	}
	log := func(email string) gateway.Actor {
		s, err := b.login(t, email, goodPassword, address)
		if err != nil {
			t.Fatal(err)
		}
		return b.actor(t, s.Secret)
	}
	elsewhere, simple := log("o@example.com"), log("m@example.com")
	for _, tt := range []struct {
		name  string
		actor gateway.Actor
		want  bool
	}{
		{"the operator", accounts.Operator(), true},
		{"an admin of the first org", b.actor(t, session.Secret), true},
		{"an admin of another org", elsewhere, false},
		{"a member", simple, false},
		{"nobody", gateway.Actor{}, false},
	} {
		if got, err := b.GovernsHosts(t.Context(), tt.actor); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
	_, _, err = b.CreateToken(t.Context(), elsewhere, control(other.ID, target))
	wantCode(t, err, wire.CodeForbidden)
	_, _, err = b.CreateOwnToken(t.Context(), simple, control(member.ID, target))
	wantCode(t, err, wire.CodeForbidden)
	if _, _, err = b.CreateOwnToken(t.Context(), b.actor(t, session.Secret), control("", target)); err != nil {
		t.Error(err)
	}
}

// TestTokensNameHostsThatAreThere: what is not there is named to who manages hosts;
// nobody else learns which hosts there are.
func TestTokensNameHostsThatAreThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session, admin := b.withAdmin(t)
	if _, err := b.CreateOrg(t.Context(), accounts.Operator(), "Quay"); err != nil {
		t.Fatal(err)
	}
	other, err := b.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{
		Email: "o@example.com", Password: goodPassword, Role: gateway.RoleAdmin, Org: "Quay",
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := b.login(t, "o@example.com", goodPassword, address)
	if err != nil {
		t.Fatal(err)
	}
	b.targets = func(context.Context) ([]string, error) { return []string{target}, nil }
	if _, _, err := b.CreateToken(t.Context(), admin, control(admin.AccountID, target)); err != nil {
		t.Error(err)
	}
	_, _, plain := b.CreateToken(t.Context(), admin, control(admin.AccountID, "nobody", target, "none"))
	_, _, own := b.CreateOwnToken(t.Context(), b.actor(t, session.Secret), control("", "nobody", target, "none"))
	for _, err := range []error{plain, own} {
		e := wire.AsError(err)
		if want := []wire.Field{{Path: "targets[0]", Rule: "known"}, {Path: "targets[2]", Rule: "known"}}; e == nil ||
			e.Code != wire.CodeBadRequest || !slices.Equal(e.Fields, want) || !strings.Contains(e.Message, "nobody, none") {
			t.Errorf("%v", err)
		}
	}
	elsewhere := b.actor(t, foreign.Secret)
	_, _, known := b.CreateToken(t.Context(), elsewhere, control(other.ID, target))
	_, _, unknown := b.CreateToken(t.Context(), elsewhere, control(other.ID, "nobody"))
	wantCode(t, known, wire.CodeForbidden)
	if known.Error() != unknown.Error() {
		t.Errorf("an admin of another org is told %v of a host, and %v of none", known, unknown)
	}
	b.targets = func(context.Context) ([]string, error) { return nil, errors.New("unplugged") }
	if _, _, err := b.CreateToken(t.Context(), admin, control(admin.AccountID, target)); err == nil {
		t.Error("made although nobody knows the hosts")
	}
}

func TestJoinsCountAsLogins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range throttle.AddressBurst {
		if err := b.ThrottleJoin(t.Context(), address); err != nil {
			t.Fatal(err)
		}
	}
	err := b.ThrottleJoin(t.Context(), address)
	wantCode(t, err, wire.CodeRateLimited)
	if wire.AsError(err).RetryAfter <= 0 {
		t.Error("nothing says how long to wait")
	}
	if err := b.ThrottleJoin(t.Context(), "192.0.2.8"); err != nil {
		t.Error(err)
	}
}
