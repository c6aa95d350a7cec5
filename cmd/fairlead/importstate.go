package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaysql"
)

// runImportState takes a reference host's file into this host's store. It takes
// the host's lock, so it is refused beside a running server.
func runImportState(ctx context.Context, cfg *config, std stdio, cmd importStateCmd) (err error) {
	if err := makeDataDir(cfg.DataDir); err != nil {
		return err
	}
	p := &hostParts{}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.openStore(ctx, cfg, slog.New(slog.DiscardHandler)); err != nil {
		return readable(err)
	}
	target := cmd.Target
	if target == "" {
		target = p.target
	}
	got, err := relay.ImportState(ctx, relaysql.NewHost(p.db), relay.ImportRequest{
		Path: cmd.File, Target: target, Session: cmd.Session, Account: cmd.Account,
	})
	if err != nil {
		return readable(err)
	}
	_, err = fmt.Fprintf(std.Out, "Imported %d bindings with %d turns (%d unsettled) into %s.\n", got.Bindings, got.Turns, got.Unsettled, got.ScopeKey)
	return err
}
