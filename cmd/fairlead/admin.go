package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/bus"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
)

// withAccounts opens the accounts for one command; a server may use the same
// database at the same time.
func withAccounts(ctx context.Context, cfg *config, std stdio, fn func(*accounts.Service) error) (err error) {
	log := newLogger(cfg.Log, std)
	if err := makeDataDir(cfg.DataDir); err != nil {
		return err
	}
	store, err := gatewaysql.Open(ctx, gatewayStore(cfg, slog.New(slog.DiscardHandler)))
	if err != nil {
		return readable(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	service, err := accounts.New(accounts.Config{
		Store: store.Accounts(), Bus: bus.NewMemory(), Logger: log,
		Targets: targetsOf(store.Hosts(), func() (string, error) { return storedTargetRef(hostDir(cfg)) }),
	})
	if err != nil {
		return err
	}
	return fn(service)
}

func runUserCreate(ctx context.Context, cfg *config, std stdio, cmd userCreateCmd) error {
	return withAccounts(ctx, cfg, std, func(s *accounts.Service) error {
		made, err := s.CreateUser(ctx, accounts.Operator(), accounts.NewUser{
			Email: cmd.Email, Password: cmd.Password, Role: gateway.Role(cmd.Role), Org: cmd.Org,
		})
		if err != nil {
			return readable(err)
		}
		_, err = fmt.Fprintf(std.Err, "Made %s (%s).\n", made.Email, made.Role)
		return err
	})
}

func runTokenCreate(ctx context.Context, cfg *config, std stdio, cmd tokenCreateCmd) error {
	return withAccounts(ctx, cfg, std, func(s *accounts.Service) error {
		account, err := s.UserByEmail(ctx, accounts.Operator(), cmd.Email)
		if err != nil {
			return readable(err)
		}
		scopes := make([]gateway.Scope, len(cmd.Scopes))
		for i, scope := range cmd.Scopes {
			scopes[i] = gateway.Scope(scope)
		}
		secret, _, err := s.CreateToken(ctx, accounts.Operator(), accounts.NewToken{
			AccountID: account.ID, Name: "command line", Scopes: scopes, Targets: cmd.Target, TTL: cmd.TTL,
		})
		if err != nil {
			return readable(err)
		}
		if cmd.JSON {
			return printJSON(std, newTokenLine(secret, account.ID, cmd.Target))
		}
		_, err = fmt.Fprintln(std.Out, secret)
		return err
	})
}

// tokenLine is a token as it is printed: a control plane names AccountRef and one of
// Targets where it attaches a run.
type tokenLine struct {
	Token      string   `json:"token"`
	AccountRef string   `json:"accountRef"`
	Targets    []string `json:"targets"`
}

func newTokenLine(secret, accountID string, targets []string) tokenLine {
	return tokenLine{Token: secret, AccountRef: accountID, Targets: append([]string{}, targets...)}
}
