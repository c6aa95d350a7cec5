package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// hostLinks lets enrolment tell the registry which hosts there are; the two packages
// do not know each other.
type hostLinks struct{ *hosts.Registry }

func (l hostLinks) Register(h gateway.RelayHost) { l.Registry.Register(enrolledHost(h)) }
func (l hostLinks) Update(h gateway.RelayHost)   { l.Registry.Update(enrolledHost(h)) }

func enrolledHost(h gateway.RelayHost) hosts.Host {
	return hosts.Host{ID: h.ID, TargetRef: h.ID, Name: h.Name, Draining: !h.DrainedAt.IsZero(), Labels: h.Labels}
}

// targetsOf lists the hosts that a token may name: those that joined and are not
// revoked, and the one inside the gateway, "" where there is none.
func targetsOf(store gateway.HostStore, inside func() (string, error)) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		embedded, err := inside()
		if err != nil {
			return nil, err
		}
		stored, err := store.RelayHosts(ctx)
		if err != nil {
			return nil, err
		}
		var targets []string
		if embedded != "" {
			targets = append(targets, embedded)
		}
		for _, h := range stored {
			if h.RevokedAt.IsZero() {
				targets = append(targets, h.ID)
			}
		}
		return targets, nil
	}
}

// openEnrolment makes the stored hosts known. The hosts inside the gateway are in the
// registry already.
func (g *gatewayParts) openEnrolment(ctx context.Context, host *hostParts, log *slog.Logger) (err error) {
	g.enroll, err = enroll.New(ctx, enroll.Config{
		Store: g.store.Hosts(), Links: hostLinks{g.hosts}, Embedded: []string{host.target},
		Governs: g.accounts.GovernsHosts, Throttle: g.accounts.ThrottleJoin, Logger: log,
	})
	if err != nil {
		return err
	}
	return g.enroll.Start(ctx)
}

// serveHostLink serves a link of a host that was let in. Until it is upgraded,
// link.Accept has answered what is wrong with it.
func (g *gatewayParts) serveHostLink(log *slog.Logger) func(context.Context, http.ResponseWriter, *http.Request, string) {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, hostID string) {
		conn, err := link.Accept(w, r, link.SocketOptions{})
		if err != nil {
			log.WarnContext(ctx, "a host was let in, but does not link", "host", hostID, "error", err)
			return
		}
		err = g.hosts.Serve(ctx, hostID, conn)
		level := slog.LevelInfo
		var misuse *link.ProtocolError
		if errors.As(err, &misuse) {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "link of a host ended", "host", hostID, "reason", wire.ShownText(err.Error()))
	}
}
