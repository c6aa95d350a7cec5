package accounts_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestAPersonManagesTheirOwnTokens(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		_, member := b.person(t, "", "m@example.com", gateway.RoleMember)
		chat := []gateway.Scope{gateway.ScopeChat}
		secret, token, err := b.CreateOwnToken(t.Context(), member, accounts.NewToken{
			AccountID: admin.AccountID, Name: "laptop", Scopes: chat, TTL: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		bearer := b.actor(t, secret)
		if bearer.AccountID != member.AccountID || bearer.May(gateway.ScopeAdmin) {
			t.Errorf("the token acts for %+v", bearer)
		}
		_, _, err = b.CreateOwnToken(t.Context(), member, accounts.NewToken{Name: "x", Scopes: []gateway.Scope{gateway.ScopeAdmin}})
		wantFields(t, err, wire.Field{Path: "scopes", Rule: "enum"})
		list, err := b.OwnCredentials(t.Context(), member)
		if err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, c := range list {
			if c.Current != (c.ID == member.CredentialID) || c.Current != (c.Kind == gateway.CredentialSession) {
				t.Errorf("%+v", c)
			}
		}
		// A token manages no tokens, nobody another's.
		_, _, err = b.CreateOwnToken(t.Context(), bearer, accounts.NewToken{Name: "y", Scopes: chat})
		wantCode(t, err, wire.CodeForbidden)
		wantCode(t, b.RevokeOwn(t.Context(), bearer, member.CredentialID), wire.CodeForbidden)
		wantCode(t, b.RevokeOwn(t.Context(), admin, token.ID), wire.CodeNotFound)
		wantCode(t, b.RevokeOwn(t.Context(), member, token.ID), "")
		wantCode(t, b.RevokeOwn(t.Context(), member, token.ID), wire.CodeNotFound)
		if !b.bus.told(gateway.CredentialTopic(token.ID)) {
			t.Error("the token's sockets were not told")
		}
		_, err = b.Authenticate(t.Context(), secret)
		wantCode(t, err, wire.CodeUnauthorized)
	})
}

func TestAPersonRenamesThemselves(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		_, admin := b.withAdmin(t)
		wantCode(t, b.Rename(t.Context(), admin, " Ada Quay "), "")
		acc, err := b.Account(t.Context(), admin)
		if err != nil || acc.Name != "Ada Quay" {
			t.Errorf("%+v, %v", acc, err)
		}
		wantFields(t, b.Rename(t.Context(), admin, "\n"), wire.Field{Path: "name", Rule: "required"})
	})
}
