package accounts_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session, admin := b.withAdmin(t)
	member, err := b.CreateUser(t.Context(), admin, accounts.NewUser{Email: "m@example.com", Password: goodPassword})
	if err != nil {
		t.Fatal(err)
	}
	secret, token, err := b.CreateToken(t.Context(), admin, accounts.NewToken{
		AccountID: member.ID, Name: " ci ", Scopes: []gateway.Scope{gateway.ScopeChat}, TTL: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(secret, "fl_") || len(secret) != 46 || token.Name != "ci" {
		t.Errorf("secret of %d characters, token %+v", len(secret), token)
	}
	actor := b.actor(t, secret)
	if actor.AccountID != member.ID || actor.CredentialID != token.ID || !slices.Equal(actor.Scopes, []gateway.Scope{gateway.ScopeChat}) ||
		!actor.ExpiresAt.Equal(b.clock.Now().Add(time.Hour)) {
		t.Errorf("actor %+v", actor)
	}
	_, err = b.AuthenticateSession(t.Context(), secret)
	wantCode(t, err, wire.CodeUnauthorized)
	_, err = b.AuthenticateToken(t.Context(), session.Secret)
	wantCode(t, err, wire.CodeUnauthorized)

	list, err := b.Tokens(t.Context(), admin)
	if err != nil || len(list) != 1 || !list[0].UsedAt.Equal(b.clock.Now()) {
		t.Errorf("tokens %+v, %v; want one that was used", list, err)
	}
	b.clock.Add(time.Hour)
	_, err = b.Authenticate(t.Context(), secret)
	wantCode(t, err, wire.CodeUnauthorized)
	if list, err := b.Tokens(t.Context(), admin); err != nil || len(list) != 0 {
		t.Errorf("an expired token is listed: %+v, %v", list, err)
	}

	secret, token, err = b.CreateToken(t.Context(), admin, accounts.NewToken{
		AccountID: admin.AccountID, Name: "for ever", Scopes: []gateway.Scope{gateway.ScopeAdmin},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.clock.Add(5 * 365 * 24 * time.Hour)
	if actor := b.actor(t, secret); actor.May(gateway.ScopeChat) || !actor.May(gateway.ScopeAdmin) || !actor.ExpiresAt.IsZero() {
		t.Errorf("actor %+v", actor)
	}
	if err := b.Revoke(t.Context(), admin, token.ID); err != nil {
		t.Fatal(err)
	}
	_, err = b.Authenticate(t.Context(), secret)
	wantCode(t, err, wire.CodeUnauthorized)
	if !b.bus.told(gateway.CredentialTopic(token.ID)) {
		t.Error("the sockets of the token were not told")
	}
	wantCode(t, b.Revoke(t.Context(), admin, token.ID), wire.CodeNotFound)
}

func TestAccountsAreBoundToTheirOrgAndScope(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, admin := b.withAdmin(t)
	acc, err := b.CreateUser(t.Context(), admin, accounts.NewUser{Email: "m@example.com", Password: goodPassword})
	if err != nil {
		t.Fatal(err)
	}
	_, token, err := b.CreateToken(t.Context(), admin, accounts.NewToken{
		AccountID: acc.ID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat},
	})
	if err != nil {
		t.Fatal(err)
	}
	session, err := b.login(t, "m@example.com", goodPassword, address)
	if err != nil {
		t.Fatal(err)
	}
	member := b.actor(t, session.Secret)
	stranger := gateway.Actor{
		AccountID: admin.AccountID, OrgID: "another-org", Role: gateway.RoleAdmin, Scopes: []gateway.Scope{gateway.ScopeAdmin},
	}
	chatOnly := admin
	chatOnly.Scopes = []gateway.Scope{gateway.ScopeChat}

	calls := map[string]func(gateway.Actor) error{
		"CreateUser": func(a gateway.Actor) error {
			_, err := b.CreateUser(t.Context(), a, accounts.NewUser{Email: "x@example.com", Password: "bad"})
			return err
		},
		"Users": func(a gateway.Actor) error { l, err := b.Users(t.Context(), a); return orEmpty(len(l), err) },
		"UserByEmail": func(a gateway.Actor) error {
			_, err := b.UserByEmail(t.Context(), a, "m@example.com")
			return err
		},
		"ResetPassword": func(a gateway.Actor) error { return b.ResetPassword(t.Context(), a, acc.ID, goodPassword) },
		"CreateToken": func(a gateway.Actor) error {
			_, _, err := b.CreateToken(t.Context(), a, accounts.NewToken{AccountID: acc.ID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat}})
			return err
		},
		"Tokens": func(a gateway.Actor) error { l, err := b.Tokens(t.Context(), a); return orEmpty(len(l), err) },
		"Revoke": func(a gateway.Actor) error { return b.Revoke(t.Context(), a, token.ID) },
		"Audit": func(a gateway.Actor) error {
			l, err := b.Audit(t.Context(), a, "", 10)
			return orEmpty(len(l), err)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			wantCode(t, call(member), wire.CodeForbidden)
			wantCode(t, call(chatOnly), wire.CodeForbidden)
			if name != "CreateUser" { // creates in its own org
				wantCode(t, call(stranger), wire.CodeNotFound)
			}
		})
	}
	_, _, err = b.CreateToken(t.Context(), admin, accounts.NewToken{AccountID: acc.ID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeAdmin}})
	wantCode(t, err, wire.CodeBadRequest)
}

// orEmpty counts an empty list as not found: there was nothing for a stranger.
func orEmpty(n int, err error) error {
	if err == nil && n == 0 {
		return wire.NewError(wire.CodeNotFound, "empty")
	}
	return err
}

func TestRunTellsOfCredentialsThatEndedElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.db")
	b := openBench(t, path)
	session, admin := b.withAdmin(t)
	_, token, err := b.CreateToken(t.Context(), admin, accounts.NewToken{
		AccountID: admin.AccountID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat}, TTL: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	// Another process on the same folder, as the command line is.
	other := openBench(t, path)
	other.clock = b.clock
	if err := other.Logout(t.Context(), session.Secret, ""); err != nil {
		t.Fatal(err)
	}
	if b.bus.told(gateway.CredentialTopic(admin.CredentialID)) {
		t.Fatal("told without Run")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	start := time.Now()
	for !b.bus.told(gateway.CredentialTopic(admin.CredentialID)) {
		if time.Since(start) > 5*time.Second {
			t.Fatal("a revoked session was not told of within 5 s")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if b.bus.told(gateway.CredentialTopic(token.ID)) {
		t.Error("a token that stands was told of")
	}
	cancel()
	<-done
}

func TestSweepEndsWhatExpiredAndForgetsOldEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &sweptStore{swept: make(chan [3]time.Time, 10)}
		svc, err := accounts.New(accounts.Config{Store: store, Bus: &bus{}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		svc.Run(ctx)
		close(store.swept)
		n := 0
		for times := range store.swept {
			n++
			if times[0].Sub(times[1]) != accounts.DefaultSessionIdle {
				t.Errorf("idle since %v at %v", times[1], times[0])
			}
		}
		if n != 3 {
			t.Errorf("%d sweeps in 3 minutes", n)
		}
	})
}

// sweptStore records sweeps; nothing else of it is called.
type sweptStore struct {
	accounts.Store
	swept chan [3]time.Time
}

func (s *sweptStore) SweepCredentials(_ context.Context, now, idle, forget time.Time) error {
	s.swept <- [3]time.Time{now, idle, forget}
	return nil
}

func (s *sweptStore) EndedSince(context.Context, time.Time) ([]string, error) { return nil, nil }

func TestSweepInTheStore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, admin := b.withAdmin(t)
	secret, token, err := b.CreateToken(t.Context(), admin, accounts.NewToken{
		AccountID: admin.AccountID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat}, TTL: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	store := b.store.Accounts()
	sweep := func(idle time.Duration) []string {
		t.Helper()
		now := b.clock.Now()
		if err := store.SweepCredentials(t.Context(), now, now.Add(-idle), now.Add(-24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		ended, err := store.EndedSince(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	if ended := sweep(time.Hour); len(ended) != 0 {
		t.Errorf("ended too early: %v", ended)
	}
	b.clock.Add(time.Hour)
	if ended := sweep(2 * time.Hour); !slices.Equal(ended, []string{token.ID}) {
		t.Errorf("ended %v, want the expired token", ended)
	}
	b.clock.Add(time.Hour)
	if ended := sweep(2 * time.Hour); !slices.Equal(ended, []string{admin.CredentialID}) {
		t.Errorf("ended %v, want the idle session", ended)
	}
	b.clock.Add(25 * time.Hour)
	sweep(time.Hour)
	if _, err := b.Authenticate(t.Context(), secret); wire.CodeOf(err) != wire.CodeUnauthorized {
		t.Errorf("a forgotten credential: %v", err)
	}
	if ended, err := store.EndedSince(t.Context(), time.Time{}); err != nil || len(ended) != 0 {
		t.Errorf("not forgotten: %v, %v", ended, err)
	}
}

func TestSecretsAreStoredAsHashesAndNeverLogged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gateway.db")
	b := openBench(t, path)
	link, err := b.SetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	session, admin := b.withAdmin(t)
	token, _, err := b.CreateToken(t.Context(), admin, accounts.NewToken{
		AccountID: admin.AccountID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.login(t, "canary-typed-password", "canary-other-password", address); err == nil {
		t.Fatal("logged in")
	}
	everything := readFolder(t, filepath.Dir(path)) + b.log.String()
	for _, secret := range []string{link, session.Secret, token, goodPassword, "canary-typed-password", "canary-other-password"} {
		if strings.Contains(everything, secret) {
			t.Errorf("the secret %q is in the folder or the log", secret)
		}
	}
	if !strings.Contains(everything, adminEmail) {
		t.Error("the folder was not read at all")
	}
}

// TestStoreOnEveryDatabase tells one story on each, with all that the store does.
func TestStoreOnEveryDatabase(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		session, _ := b.withAdmin(t)
		again, err := b.Login(t.Context(), accounts.LoginRequest{Email: adminEmail, Password: goodPassword, Replaces: session.Secret})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Authenticate(t.Context(), session.Secret)
		wantCode(t, err, wire.CodeUnauthorized)
		admin := b.actor(t, again.Secret)
		_, err = b.CreateUser(t.Context(), admin, accounts.NewUser{Email: adminEmail, Password: goodPassword})
		wantCode(t, err, wire.CodeBadRequest)
		secret, token, err := b.CreateToken(t.Context(), admin, accounts.NewToken{
			AccountID: admin.AccountID, Name: "t", Scopes: []gateway.Scope{gateway.ScopeChat, gateway.ScopeAdmin},
		})
		if err != nil {
			t.Fatal(err)
		}
		if actor := b.actor(t, secret); len(actor.Scopes) != 2 {
			t.Errorf("scopes %v", actor.Scopes)
		}
		b.clock.Add(time.Hour)
		if err := b.ResetPassword(t.Context(), admin, admin.AccountID, "another password"); err != nil {
			t.Fatal(err)
		}
		ended, err := b.store.Accounts().EndedSince(t.Context(), b.clock.Now())
		if err != nil || !slices.Contains(ended, token.ID) || !slices.Contains(ended, admin.CredentialID) || len(ended) != 2 {
			t.Errorf("ended %v, %v", ended, err)
		}
		entries, err := b.Audit(t.Context(), admin, "", 2)
		if err != nil || len(entries) != 2 || entries[0].Action != gateway.AuditPasswordChanged {
			t.Fatalf("audit %+v, %v", entries, err)
		}
		older, err := b.Audit(t.Context(), admin, entries[1].ID, 100)
		if err != nil || len(older) != 3 || older[len(older)-1].Action != gateway.AuditSetup {
			t.Errorf("older audit %+v, %v", older, err)
		}
	})
}
