package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/native"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/relaysql"
	"github.com/fairlead/fairlead/relay/sqldb"
	"github.com/fairlead/fairlead/relay/wire"
)

// hostParts is the embedded relay host and what it stands on.
type hostParts struct {
	target  string
	owner   *relay.Owner
	db      *sqldb.DB
	runtime *native.Runtime
	host    *relay.Host
}

// openHost opens the host's folder: the lock first, then the store, then what
// reads it. What was opened is closed again when a later step fails.
func openHost(ctx context.Context, cfg *config, log *slog.Logger) (_ *hostParts, err error) {
	p := &hostParts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := p.openStore(ctx, cfg, log); err != nil {
		return nil, err
	}
	if err := p.openRuntime(ctx, cfg, log); err != nil {
		return nil, err
	}
	return p, nil
}

// openRuntime opens what the settings of providers are for, on an open store.
func (p *hostParts) openRuntime(ctx context.Context, cfg *config, log *slog.Logger) error {
	entries, routes, err := openProviders(cfg)
	if err != nil {
		return err
	}
	p.runtime, err = native.Open(ctx, native.Config{
		Store: relaysql.NewNative(p.db), Routes: routes.find, Logger: log,
		StoppedAnswers: native.StoppedAnswers(cfg.Context.StoppedAnswers),
	})
	if err != nil {
		return err
	}
	p.host, err = relay.Open(ctx, relay.Config{
		Dir: hostDir(cfg), Owner: p.owner, Store: relaysql.NewHost(p.db), Runtime: p.runtime,
		HostID: p.target, Name: cfg.Host.Name, Version: programVersion(), Providers: entries,
		MaxInflight: cfg.Host.MaxInflight, Cooling: p.runtime.Cooling, Logger: log,
	})
	return err
}

// closeRuntime is the opposite: the store stays open and the folder locked.
func (p *hostParts) closeRuntime() error {
	var errs []error
	if p.host != nil {
		errs = append(errs, p.host.Close())
	}
	if p.runtime != nil {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		defer cancel()
		errs = append(errs, p.runtime.Close(ctx))
	}
	p.host, p.runtime = nil, nil
	return errors.Join(errs...)
}

func (p *hostParts) openStore(ctx context.Context, cfg *config, log *slog.Logger) (err error) {
	dir := hostDir(cfg)
	if p.owner, err = relay.Own(ctx, dir); err != nil {
		return err
	}
	if p.target, err = targetRef(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, "host.db")
	if p.db, err = sqldb.Open(ctx, sqldb.Options{Path: path, Logger: log}); err != nil {
		if errors.Is(err, sqldb.ErrFull) {
			return diskFull(path, err)
		}
		return wire.WrapError(wire.CodeStateUntrusted, path+" cannot be read as this host's store. "+
			"It was left as it is: put a backup in its place, or start with another data_dir.", err)
	}
	if err := p.db.Migrate(ctx, relaysql.Migrations()); err != nil {
		if errors.Is(err, sqldb.ErrFull) {
			return diskFull(path, err)
		}
		return wire.WrapError(wire.CodeStateUntrusted, path+" is not of this version of the program. "+
			"It was left as it is: use the version that wrote it, or start with another data_dir.", err)
	}
	return nil
}

func diskFull(path string, cause error) error {
	return wire.WrapError(wire.CodeStoreUnavailable, "The disk is full, so "+path+" cannot be used. Nothing in it is damaged: make room and start again.", cause)
}

// close ends what is open, in the order in which it depends on each other.
func (p *hostParts) close() error {
	errs := []error{p.closeRuntime()}
	if p.db != nil {
		errs = append(errs, p.db.Close())
	}
	if p.owner != nil {
		errs = append(errs, p.owner.Release())
	}
	return errors.Join(errs...)
}

// targetRef names the host. It is made from its path once and then kept with
// the folder, so that a folder that was moved keeps its conversations.
func targetRef(dir string) (string, error) {
	if ref, err := storedTargetRef(dir); ref != "" || err != nil {
		return ref, err
	}
	file := filepath.Join(dir, "target")
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("name of the host: %w", err)
	}
	ref := wire.TargetRef(absolute)
	if err := writePrivate(file, []byte(ref+"\n")); err != nil {
		return "", fmt.Errorf("name of the host: %w", err)
	}
	return ref, nil
}

// storedTargetRef is the name of the host that the folder holds, "" for none.
func storedTargetRef(dir string) (string, error) {
	file := filepath.Join(dir, "target")
	raw, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("name of the host: %w", err)
	}
	ref := strings.TrimSpace(string(raw))
	if !wire.ValidRelayID(ref) {
		return "", wire.NewError(wire.CodeStateUntrusted, file+" does not hold this host's name. It was left as it is: put a backup in its place.")
	}
	return ref, nil
}

// routeKey names a route as commands do.
type routeKey struct{ provider, key, model string }

type routeTable map[routeKey]native.Route

func (t routeTable) find(modelProvider, modelProviderID, model string) (native.Route, bool) {
	r, ok := t[routeKey{modelProvider, modelProviderID, model}]
	return r, ok
}

// openProviders makes a client of each provider that has what it needs.
func openProviders(cfg *config) ([]relay.ProviderEntry, routeTable, error) {
	var entries []relay.ProviderEntry
	routes := routeTable{}
	for i := range cfg.Host.Providers {
		p := &cfg.Host.Providers[i]
		cred := p.credential(cfg.environ)
		entries = append(entries, p.entry(cred))
		if !cred.Ready() {
			continue
		}
		client, err := provider.New(p.clientConfig(cred.Key))
		if err != nil {
			return nil, nil, fmt.Errorf("provider %s: %w", p.Key, err)
		}
		for _, m := range p.Models {
			routes[routeKey{p.ID, p.Key, m.ID}] = native.Route{
				Client: client, Upstream: m.Upstream, BillingSurface: "provider_byok", BillingMode: billingMode(cred),
			}
		}
	}
	return entries, routes, nil
}

func billingMode(c credential) string {
	if c.State == wire.CredentialLocal {
		return "local"
	}
	return "unknown"
}

// linkHost lets a link serve a relay host; the two packages do not know each
// other.
type linkHost struct{ *relay.Host }

func (h linkHost) Attach(ctx context.Context, a wire.Attach, capabilities []string) (link.Attachment, error) {
	attachment, err := h.Host.Attach(ctx, a, capabilities)
	if err != nil {
		return nil, err
	}
	return attachment, nil
}

const relinkAfter = time.Second

// joinLink keeps the embedded host and the gateway linked until ctx ends.
func joinLink(ctx context.Context, host *hostParts, gw *gatewayParts, log *slog.Logger) error {
	for ctx.Err() == nil {
		if err := joinOnce(ctx, host, gw); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "link to the embedded host ended", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(relinkAfter):
		}
	}
	return nil
}

func joinOnce(ctx context.Context, host *hostParts, gw *gatewayParts) error {
	hostEnd, gatewayEnd := link.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- link.ServeHost(ctx, hostEnd, linkHost{host.host}, link.HostOptions{})
	}()
	err := gw.hosts.Serve(ctx, host.target, gatewayEnd)
	cancel()
	return errors.Join(err, <-served, hostEnd.Close(link.Ending{}), gatewayEnd.Close(link.Ending{}))
}
