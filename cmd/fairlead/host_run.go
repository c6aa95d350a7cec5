package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

type hostRunCmd struct{}

// Help gives examples.
func (hostRunCmd) Help() string {
	return `Examples:

  fairlead host run
  fairlead host run -c /etc/fairlead.yaml --set host.max_inflight=2

SIGTERM (and Ctrl-C) takes no new prompt, lets running turns end for at most
host.drain, then leaves; a second signal ends at once. SIGHUP reads the settings
again: running turns end with the old ones first. Keys in files are read again too,
those in variables are not.

Exit codes 4 (refused or revoked by the gateway) and 5 (another process is linked as
this host) mean that starting again does not help.`
}

// Run serves until the context ends or the gateway wants this host no more.
func (hostRunCmd) Run(ctx context.Context, c *cli, std stdio) error {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	r := &hostRunner{std: std, load: func() (*config, error) { return c.load(std) }, hangup: hangup}
	return readable(r.run(ctx, cfg))
}

// stoppedError ends a host that is not to come back by itself.
type stoppedError struct {
	code  int
	cure  string
	cause error
}

func (e *stoppedError) Error() string { return e.cure + " (" + e.cause.Error() + ")" }

func (e *stoppedError) Unwrap() error { return e.cause }

// errOtherGateway is RH45: what answers under the gateway's address is not the gateway
// that this host joined, and gets no signature.
var errOtherGateway = errors.New("the gateway's id is another one")

// stopped says what to do about a link that is not to be tried again.
func stopped(err error) error {
	var ended *link.EndedError
	var refused *link.RefusedError
	superseded := errors.As(err, &ended) && ended.Code == link.CloseSuperseded
	unknown := errors.As(err, &refused) && refused.Status == http.StatusUnauthorized || errors.As(err, &ended) && ended.Code == link.CloseUnauthorized
	switch {
	case superseded:
		return &stoppedError{exitSuperseded, "another process has linked as this host: its folder is in use twice, or was copied. " +
			"Stop one of them; a copy joins as a host of its own, with a data_dir of its own", err}
	case errors.Is(err, errOtherGateway):
		return &stoppedError{exitRefused, "the address of the gateway leads to another gateway than the one that this host joined. " +
			"Correct the address (name server, proxy), or join that gateway with `fairlead host join --replace URL TOKEN`", err}
	case unknown:
		return &stoppedError{exitRefused, "the gateway does not know this host or its key. " +
			"Restore the folder of this host or the gateway's database, or join again with `fairlead host join --replace URL TOKEN`", err}
	}
	return &stoppedError{exitRefused, "the gateway has revoked this host or refuses it. " +
		"To serve again, get a new invitation from an admin and run `fairlead host join --replace URL TOKEN`", err}
}

// hostRunner is the process of one host.
type hostRunner struct {
	std    stdio
	load   func() (*config, error)
	hangup <-chan os.Signal

	parts  *hostParts
	id     *identity
	client *gatewayClient
	sd     notifier
}

// run opens the folder once, and what the settings are for as often as they change.
func (r *hostRunner) run(ctx context.Context, cfg *config) (err error) {
	log := newLogger(cfg.Log, r.std)
	if err := makeDataDir(cfg.DataDir); err != nil {
		return err
	}
	serving := false
	defer func() { err = unlessStopped(ctx, serving, err) }()
	cfg.Host.Name = hostName(cfg, "")
	if r.parts, err = openHost(ctx, cfg, log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.parts.close()) }()
	if r.id, err = loadIdentity(hostDir(cfg), r.parts.target); err != nil {
		return err
	}
	if _, err := parseGatewayURL(r.id.URL, r.id.Insecure); err != nil {
		return fmt.Errorf("gateway of this host: %w", err)
	}
	serving = true
	r.client = newGatewayClient(r.id.URL)
	defer r.client.close()
	stopWatchdog := r.sd.watchdog(ctx, r.parts)
	defer stopWatchdog()
	for {
		next, err := r.serve(ctx, cfg, log)
		if err != nil || next == nil {
			r.sd.stopping("ended")
			return err
		}
		cfg, log = next, newLogger(next.Log, r.std)
		if err := r.reopen(ctx, cfg, log); err != nil {
			return err
		}
	}
}

// reopen is the second half of RH61. A host that is told to end meanwhile opens all the
// same, and leaves in good order.
func (r *hostRunner) reopen(ctx context.Context, cfg *config, log *slog.Logger) error {
	ctx = context.WithoutCancel(ctx)
	if err := r.parts.closeRuntime(); err != nil {
		return err
	}
	if err := r.parts.openRuntime(ctx, cfg, log); err != nil {
		return err
	}
	log.InfoContext(ctx, "host: settings were read again")
	return nil
}

// serve keeps the host linked until it has drained, for good (next is nil) or for the
// next settings. The link outlives the draining, since it carries the ends of turns.
func (r *hostRunner) serve(ctx context.Context, cfg *config, log *slog.Logger) (next *config, err error) {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	defer stop(nil)
	kept := make(chan error, 1)
	goroutines.Go(func() { kept <- r.keep(work, stop, cfg.HostLink.Silence, log) })
	r.sd.ready()
	log.InfoContext(ctx, "host: serving", "gateway", r.id.URL, "host", r.id.HostID)

	done, hangup := ctx.Done(), r.hangup
	left, drained := make(chan error, 1), make(chan error, 1)
	for {
		select {
		case err := <-kept:
			return nil, stopped(err)
		case <-r.parts.db.Broken():
			return nil, errBroken("host")
		case <-done:
			done, hangup, next = nil, nil, nil
			r.sd.stopping("draining")
			r.parts.host.Quiesce(string(wire.CodeShuttingDown))
			goroutines.Go(func() { left <- r.leave(work, cfg.Host.Drain, log) })
		case <-hangup:
			fresh := r.reread(ctx, cfg, log)
			if fresh == nil {
				continue
			}
			if next == nil {
				r.parts.host.Quiesce("settings_changed")
				goroutines.Go(func() { r.drained(work, cfg.Host.Drain, drained, log) })
			}
			next = fresh
		case err := <-left:
			return nil, err
		case err := <-drained:
			if err != nil || next != nil {
				return next, err
			}
		}
	}
}

// drained tells when the host owes nothing any more: turns are not cut for new
// settings, however long they take. What is merely not acknowledged is waited for no
// longer than patience, since it is kept, and whose it is may never come back.
func (r *hostRunner) drained(work context.Context, patience time.Duration, settled chan<- error, log *slog.Logger) {
	err := r.settled(work, patience)
	for errors.Is(err, context.DeadlineExceeded) && r.parts.host.Room().Inflight > 0 {
		err = r.settled(work, patience)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		log.WarnContext(work, "host: not everything was acknowledged; it is kept and sent again", "error", err)
		err = nil
	}
	if work.Err() == nil {
		settled <- err
	}
}

// reread reads the settings, and gives nil where they cannot replace those in force.
func (r *hostRunner) reread(ctx context.Context, cfg *config, log *slog.Logger) *config {
	next, err := r.load()
	if err == nil && next.DataDir != cfg.DataDir {
		err = errors.New("data_dir cannot change while the host runs")
	}
	if err == nil {
		next.Host.Name = hostName(next, "")
		_, _, err = openProviders(next)
	}
	if err != nil {
		log.ErrorContext(ctx, "host: the old settings stay in force", "error", err)
		return nil
	}
	log.InfoContext(ctx, "host: new settings come into force when running turns have ended; until then no new turn is taken")
	return next
}

// leave is RH62: turns have limit to end and to be acknowledged. What still runs then
// is stopped while the link carries its end.
func (r *hostRunner) leave(work context.Context, limit time.Duration, log *slog.Logger) error {
	log.InfoContext(work, "host: draining", "at_most", limit.String())
	if err := r.settled(work, limit); err == nil {
		return nil
	} else if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	log.WarnContext(work, "host: running turns are stopped", "drained_for", limit.String())
	bounded, cancel := context.WithTimeout(work, settleTimeout)
	defer cancel()
	if err := r.parts.runtime.Close(bounded); err != nil {
		log.WarnContext(work, "host: running turns are left for the next start", "error", err)
	}
	if err := r.settled(work, closeTimeout); err != nil && work.Err() == nil {
		return fmt.Errorf("the gateway was not told how every turn ended; the next start tells it: %w", err)
	}
	return nil
}

func (r *hostRunner) settled(work context.Context, limit time.Duration) error {
	bounded, cancel := context.WithTimeout(work, limit)
	defer cancel()
	return r.parts.host.Settled(bounded)
}

// keep is nil once work has ended.
func (r *hostRunner) keep(work context.Context, stop context.CancelCauseFunc, silence time.Duration, log *slog.Logger) error {
	header := func(ctx context.Context) (http.Header, error) {
		h, err := r.credential(ctx)
		if errors.Is(err, errOtherGateway) {
			stop(err)
		}
		return h, err
	}
	err := link.Keep(work, link.KeepOptions{
		Dial: func(ctx context.Context) (link.Conn, error) {
			r.sd.status("not linked with " + r.id.URL)
			// What the gateway asked for on an earlier link it asks for again.
			r.parts.host.Drain("", true)
			return link.Dial(ctx, link.DialOptions{URL: r.id.URL + wire.PathHostLink, Header: header, Client: r.client.http})
		},
		Host: linkHost{r.parts.host},
		Serve: link.HostOptions{
			Logger: log, Silence: silence, Linked: func(wire.Welcome) { r.sd.status("linked with " + r.id.URL) },
		},
	})
	if cause := context.Cause(work); errors.Is(cause, errOtherGateway) {
		return cause
	}
	return err
}

// credential proves who this host is, to the gateway that it joined and to no other
// (RH45).
func (r *hostRunner) credential(ctx context.Context) (http.Header, error) {
	got, err := r.client.challenge(ctx, r.id.HostID)
	if err != nil {
		return nil, err
	}
	if got.GatewayID != r.id.GatewayID {
		return nil, errOtherGateway
	}
	return http.Header{"Authorization": {r.id.authorization(got.Nonce)}, "User-Agent": {"fairlead-host/" + programVersion()}}, nil
}
