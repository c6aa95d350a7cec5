package accounts_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestLoginDoesNotTellWhoExists(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, admin := b.withAdmin(t)
	tests := []struct{ name, email, password string }{
		{name: "wrong password", email: adminEmail, password: "wrong horse battery"},
		{name: "unknown email", email: "nobody@example.com", password: goodPassword},
		{name: "malformed email", email: "nobody", password: goodPassword},
		{name: "no password", email: adminEmail},
		{name: "password longer than any", email: adminEmail, password: strings.Repeat("x", 5000)},
		{name: "longer than any, unknown", email: "nobody@example.com", password: strings.Repeat("x", 5000)},
	}
	var first *wire.Error
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, audited := b.hashes.verified.Load(), len(b.actions(t, admin))
			_, err := b.login(t, tt.email, tt.password, "192.0.2."+strconv.Itoa(100+i))
			wantCode(t, err, gateway.CodeCredentialsInvalid)
			e := wire.AsError(err)
			if first == nil {
				first = e
			}
			if e.Message != first.Message || e.RetryAfter != 0 || len(e.Fields) > 0 {
				t.Errorf("answer %+v differs from %+v", e, first)
			}
			if n := b.hashes.verified.Load() - before; n != 1 {
				t.Errorf("%d hashes compared, want exactly 1", n)
			}
			if n := len(b.actions(t, admin)) - audited; n != 1 {
				t.Errorf("%d audit rows written, want exactly 1", n)
			}
		})
	}
}

func TestLoginStartsANewSessionAndEndsTheOld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, actor := b.withAdmin(t)
	second, err := b.Login(t.Context(), accounts.LoginRequest{
		Email: " ADA@Example.COM", Password: goodPassword, Address: address, Replaces: first.Secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	if second.Secret == first.Secret {
		t.Error("the session id is the old one")
	}
	_, err = b.Authenticate(t.Context(), first.Secret)
	wantCode(t, err, wire.CodeUnauthorized)
	if !b.bus.told(gateway.CredentialTopic(actor.CredentialID)) {
		t.Error("the sockets of the old session were not told")
	}
	after := b.actor(t, second.Secret)
	if after.CredentialID == actor.CredentialID || after.AccountID != actor.AccountID {
		t.Errorf("actor %+v after %+v", after, actor)
	}
}

func TestSessionEndsByLogoutIdleAndAge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session, actor := b.withAdmin(t)
	if !actor.ExpiresAt.Equal(b.clock.Now().Add(accounts.DefaultSessionMax)) || !session.ExpiresAt.Equal(actor.ExpiresAt) {
		t.Errorf("expires %v", actor.ExpiresAt)
	}

	b.clock.Add(accounts.DefaultSessionIdle - time.Second)
	b.actor(t, session.Secret) // a use: idleness starts anew
	b.clock.Add(accounts.DefaultSessionIdle - time.Second)
	if err := b.Touch(t.Context(), actor.CredentialID); err != nil { // a use of its socket
		t.Fatal(err)
	}
	b.clock.Add(accounts.DefaultSessionIdle - time.Second)
	b.actor(t, session.Secret)
	b.clock.Add(accounts.DefaultSessionIdle)
	_, err := b.Authenticate(t.Context(), session.Secret)
	wantCode(t, err, wire.CodeUnauthorized)

	session, err = b.login(t, adminEmail, goodPassword, address)
	if err != nil {
		t.Fatal(err)
	}
	for range int(accounts.DefaultSessionMax/(24*time.Hour)) - 1 {
		b.clock.Add(24 * time.Hour)
		b.actor(t, session.Secret)
	}
	b.clock.Add(24 * time.Hour)
	_, err = b.Authenticate(t.Context(), session.Secret)
	wantCode(t, err, wire.CodeUnauthorized)

	session, err = b.login(t, adminEmail, goodPassword, address)
	if err != nil {
		t.Fatal(err)
	}
	actor = b.actor(t, session.Secret)
	for range 2 { // a second logout is no error
		if err := b.Logout(t.Context(), session.Secret, address); err != nil {
			t.Fatal(err)
		}
	}
	_, err = b.Authenticate(t.Context(), session.Secret)
	wantCode(t, err, wire.CodeUnauthorized)
	if !b.bus.told(gateway.CredentialTopic(actor.CredentialID)) {
		t.Error("the sockets of the session were not told")
	}
}

func TestLoginIsThrottled(t *testing.T) {
	t.Parallel()
	fail := func(t *testing.T, b *bench, email, from string) error {
		t.Helper()
		_, err := b.login(t, email, "", from)
		return err
	}
	t.Run("per address, IPv6 by network", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.withAdmin(t)
		for i := range throttle.AddressBurst {
			wantCode(t, fail(t, b, strconv.Itoa(i)+"@example.com", "2001:db8::"+strconv.Itoa(i+1)), gateway.CodeCredentialsInvalid)
		}
		hashes := b.hashes.verified.Load()
		_, err := b.login(t, adminEmail, goodPassword, "2001:db8::ffff")
		wantCode(t, err, wire.CodeRateLimited)
		if wait := wire.AsError(err).RetryAfter; wait <= 0 || wait > throttle.AddressEvery {
			t.Errorf("RetryAfter %v", wait)
		}
		if b.hashes.verified.Load() != hashes {
			t.Error("a throttled attempt was hashed")
		}
		if _, err := b.login(t, adminEmail, goodPassword, "2001:db8:0:1::1"); err != nil {
			t.Errorf("another network is refused: %v", err)
		}
		b.clock.Add(throttle.AddressEvery)
		if _, err := b.login(t, adminEmail, goodPassword, "2001:db8::ffff"); err != nil {
			t.Errorf("after the wait: %v", err)
		}
	})
	t.Run("per account, known or not", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		_, admin := b.withAdmin(t)
		for _, email := range []string{adminEmail, "nobody@example.com"} {
			for i := range throttle.AccountBurst {
				wantCode(t, fail(t, b, email, "198.51.100."+strconv.Itoa(i)), gateway.CodeCredentialsInvalid)
			}
			wantCode(t, fail(t, b, strings.ToUpper(email), "203.0.113.1"), wire.CodeRateLimited)
		}
		if !slices.Contains(b.actions(t, admin), gateway.AuditLoginThrottled) {
			t.Error("the throttle is not audited")
		}
		b.clock.Add(throttle.AccountEvery)
		if _, err := b.login(t, adminEmail, goodPassword, "203.0.113.2"); err != nil {
			t.Fatalf("after the wait: %v", err)
		}
		for i := range throttle.AccountBurst {
			wantCode(t, fail(t, b, adminEmail, "203.0.114."+strconv.Itoa(i)), gateway.CodeCredentialsInvalid)
		}
	})
	t.Run("one address cannot lock an account", func(t *testing.T) {
		t.Parallel()
		throttle := accounts.DefaultThrottle()
		if throttle.AccountEvery >= throttle.AddressEvery || throttle.AccountBurst <= throttle.AddressBurst {
			t.Errorf("%+v: a guesser at one address empties the bucket of an account", throttle)
		}
	})
}

func TestPasswordChangeEndsEverythingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	kept, actor := b.withAdmin(t)
	other, err := b.login(t, adminEmail, goodPassword, address)
	if err != nil {
		t.Fatal(err)
	}
	otherActor := b.actor(t, other.Secret)
	token, _, err := b.CreateToken(t.Context(), actor, accounts.NewToken{
		AccountID: actor.AccountID, Name: "ci", Scopes: []gateway.Scope{gateway.ScopeChat},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.ChangePassword(t.Context(), actor, "not the password", "another password", address), gateway.CodeCredentialsInvalid)
	wantCode(t, b.ChangePassword(t.Context(), actor, goodPassword, "short", address), wire.CodeBadRequest)
	if err := b.ChangePassword(t.Context(), actor, goodPassword, "another password", "192.0.2.98"); err != nil {
		t.Fatal(err)
	}
	b.actor(t, kept.Secret)
	for _, ended := range []string{other.Secret, token} {
		_, err := b.Authenticate(t.Context(), ended)
		wantCode(t, err, wire.CodeUnauthorized)
	}
	if !b.bus.told(gateway.CredentialTopic(otherActor.CredentialID)) {
		t.Error("the sockets of the other session were not told")
	}
	_, err = b.login(t, adminEmail, goodPassword, "192.0.2.99")
	wantCode(t, err, gateway.CodeCredentialsInvalid)
	if _, err := b.login(t, adminEmail, "another password", "192.0.2.99"); err != nil {
		t.Error(err)
	}

	if err := b.ResetPassword(t.Context(), actor, actor.AccountID, "a third password"); err != nil {
		t.Fatal(err)
	}
	_, err = b.Authenticate(t.Context(), kept.Secret)
	wantCode(t, err, wire.CodeUnauthorized)
}

func TestSamePasswordFromAnyKeyboard(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, admin := b.withAdmin(t)
	composed, decomposed := "café crème brûlée", "cafe\u0301 cre\u0300me bru\u0302le\u0301e"
	if _, err := b.CreateUser(t.Context(), admin, accounts.NewUser{Email: "c@example.com", Password: composed}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.login(t, "c@example.com", decomposed, address); err != nil {
		t.Error(err)
	}
}
