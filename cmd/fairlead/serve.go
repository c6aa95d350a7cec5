package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// settleTimeout is how long running turns have to be settled at the end; what
	// is not settled then is settled by recovery at the next start.
	settleTimeout = 5 * time.Second
	// closeTimeout is how long sockets have to take their goodbye.
	closeTimeout = 3 * time.Second
)

// runServe serves the gateway and its embedded host until ctx ends and what runs
// then is done, or had its time.
func runServe(ctx context.Context, cfg *config, std stdio, cmd serveCmd) (err error) {
	log := newLogger(cfg.Log, std)
	if err := makeDataDir(cfg.DataDir); err != nil {
		return err
	}
	serving := false
	defer func() { err = unlessStopped(ctx, serving, err) }()
	if paths := cfg.elsewhere(); len(paths) > 0 {
		log.WarnContext(ctx, "settings name models that only hosts on other machines can have", "settings", paths)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	defer func() { err = errors.Join(err, ignoreClosed(listener.Close())) }()
	public, err := publicURL(cfg.PublicURL, listener.Addr())
	if err != nil {
		return err
	}
	host, err := openHost(ctx, cfg, log.With("part", "host"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.close()) }()
	gw, err := openGateway(ctx, cfg, host, public, log.With("part", "gateway"), cmd.StaticDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gw.close()) }()
	if err := announce(ctx, std, gw, public); err != nil {
		return err
	}
	serving = true
	return serve(ctx, cfg, host, gw, listener, log)
}

// unlessStopped is err, but for a program that was told to end while it started: what
// it had not opened yet says nothing of its stores.
func unlessStopped(ctx context.Context, serving bool, err error) error {
	if serving || ctx.Err() == nil {
		return err
	}
	return nil
}

// serve runs everything. The order of the end (F12): no turn is started any more,
// running turns of the embedded host go on for a limited time while everybody is
// still served, then no new requests, sockets and hosts elsewhere are told when to
// come back, what still runs is settled while the link carries its end, then the
// link, then the rest. A fault leaves out the waiting.
func serve(ctx context.Context, cfg *config, host *hostParts, gw *gatewayParts, listener net.Listener, log *slog.Logger) error {
	linkCtx, endLink := context.WithCancel(context.WithoutCancel(ctx))
	defer endLink()
	serving, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var group errgroup.Group
	group.Go(func() error { return joinLink(linkCtx, host, gw, log) })
	group.Go(func() error {
		gw.accounts.Run(serving)
		return nil
	})
	group.Go(func() error {
		gw.enroll.Run(serving)
		return nil
	})
	group.Go(func() error {
		err := gw.server.Serve(serving, listener)
		stop(err)
		return err
	})
	group.Go(func() error {
		watchStores(serving, stop, host, gw)
		return nil
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
			drain(serving, cfg.Shutdown.Drain, host, gw, log)
			stop(nil)
		case <-serving.Done():
		}
		shutDown(serving, host, gw, log)
		endLink()
		return nil
	})
	err := group.Wait()
	if cause := context.Cause(serving); err == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// watchStores stops everything when a store cannot be used any more.
func watchStores(serving context.Context, stop context.CancelCauseFunc, host *hostParts, gw *gatewayParts) {
	select {
	case <-host.db.Broken():
		stop(errBroken("host"))
	case <-gw.store.Broken():
		stop(errBroken("gateway"))
	case <-gw.store.Lost():
		stop(errLost)
	case <-serving.Done():
	}
}

// errBroken ends the program when a store may hold other than its readers know:
// only a new start tells, and goes on from what is there.
func errBroken(store string) error {
	return fmt.Errorf("the %s's store does not tell whether a write was kept; start again to read what it holds", store)
}

// errLost ends the program when another one has its database: what this one keeps
// in memory is not right any more.
var errLost = errors.New("another gateway has taken the database while the connection to it was lost; only one may use it at a time")

// drain lets running turns of the embedded host come to their end, for at most
// limit. Where none runs it returns at once.
func drain(serving context.Context, limit time.Duration, host *hostParts, gw *gatewayParts, log *slog.Logger) {
	gw.server.Unready()
	gw.chat.Rest()
	host.host.Quiesce(string(wire.CodeShuttingDown))
	ctx, cancel := context.WithTimeout(serving, limit)
	defer cancel()
	log.InfoContext(ctx, "shutting down: running turns may go on for a while", "drain", limit.String())
	if err := host.host.Settled(ctx); err != nil && serving.Err() == nil {
		log.WarnContext(ctx, "turns that still run fail now; nothing of them is repeated", "error", err)
	}
}

// hostsReturn is when hosts elsewhere shall come back; they spread themselves.
const hostsReturn = time.Second

func shutDown(ctx context.Context, host *hostParts, gw *gatewayParts, log *slog.Logger) {
	ctx = context.WithoutCancel(ctx)
	gw.server.Drain()
	goodbye, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := gw.socket.Shutdown(goodbye); err != nil {
		log.WarnContext(ctx, "sockets did not all close in time", "error", err)
	}
	gw.hosts.Leave(ctx, hostsReturn)
	settle, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := host.runtime.Close(settle); err != nil {
		log.WarnContext(ctx, "running turns are left for the next start", "error", err)
	}
}

// announce says where to go, and how the first admin is made.
func announce(ctx context.Context, std stdio, gw *gatewayParts, public *url.URL) error {
	if _, err := fmt.Fprintf(std.Out, "Fairlead %s listening on %s\n", programVersion(), public); err != nil {
		return err
	}
	needed, err := gw.accounts.NeedsSetup(ctx)
	if err != nil || !needed {
		return err
	}
	token, err := gw.accounts.SetupLink(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "\nThere is no admin yet. Open this link, once, to make the first:\n\n  %s\n\n", httpd.SetupURL(public, token))
	return err
}

// publicURL is the address that people use: the one of the settings, else the
// one listened on.
func publicURL(configured string, addr net.Addr) (*url.URL, error) {
	if configured != "" {
		return httpd.ParsePublicURL(configured)
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil, fmt.Errorf("address listened on: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return httpd.ParsePublicURL("http://" + net.JoinHostPort(host, port))
}

// makeDataDir makes the folder of everything that is kept, for its owner alone.
func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder needs its x bit
		return fmt.Errorf("data_dir: %w", err)
	}
	return nil
}

func newLogger(c logConfig, std stdio) *slog.Logger {
	var level slog.Level
	// The settings were checked: a wrong level does not get here.
	_ = level.UnmarshalText([]byte(c.Level))
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(std.Err, o))
	}
	return slog.New(slog.NewTextHandler(std.Err, o))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// gatewayStore says where the gateway's store is.
func gatewayStore(cfg *config, log *slog.Logger) gatewaysql.Options {
	if cfg.DatabaseURL != "" {
		return gatewaysql.Options{URL: string(cfg.DatabaseURL), Logger: log}
	}
	return gatewaysql.Options{Path: filepath.Join(cfg.DataDir, "gateway.db"), Logger: log}
}

func hostDir(cfg *config) string { return filepath.Join(cfg.DataDir, "host") }
