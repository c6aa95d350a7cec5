package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/bus"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/gateway/markdown"
	"github.com/fairlead/fairlead/gateway/routes"
	"github.com/fairlead/fairlead/gateway/socket"
)

// gatewayParts is the gateway and what it stands on.
type gatewayParts struct {
	store    *gatewaysql.Store
	accounts *accounts.Service
	chat     *chat.Service
	routes   *routes.Table
	hosts    *hosts.Registry
	enroll   *enroll.Service
	socket   *socket.Server
	server   *httpd.Server
	metrics  *httpd.Registry
	tracing  *tracing
}

// openGateway opens the store and joins the gateway's packages. The chat takes
// up what an earlier process left before the first request is served.
func openGateway(ctx context.Context, cfg *config, host *hostParts, public *url.URL, log *slog.Logger, staticDir string) (_ *gatewayParts, err error) {
	g := &gatewayParts{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	store := gatewayStore(cfg, log)
	store.Owner = true
	if g.store, err = gatewaysql.Open(ctx, store); err != nil {
		return nil, err
	}
	fan := bus.NewMemory()
	if g.accounts, err = accounts.New(accounts.Config{
		Store: g.store.Accounts(), Bus: fan, Logger: log,
		OrgTurns: cfg.Limits.OrgConcurrentTurns, MemberTurns: cfg.Limits.MemberConcurrentTurns,
		Targets:       targetsOf(g.store.Hosts(), func() (string, error) { return host.target, nil }),
		LimitsChanged: g.promote(log),
	}); err != nil {
		return nil, err
	}
	if err := g.openInstruments(ctx, cfg, log); err != nil {
		return nil, err
	}
	if err := g.openChat(ctx, cfg, host, public, fan, log); err != nil {
		return nil, err
	}
	if err := g.openEnrolment(ctx, host, log); err != nil {
		return nil, err
	}
	return g, g.openServers(ctx, cfg, public, fan, log, staticDir)
}

// openInstruments makes what the other parts tell of themselves to.
func (g *gatewayParts) openInstruments(ctx context.Context, cfg *config, log *slog.Logger) (err error) {
	if g.tracing, err = openTracing(ctx, cfg, log); err != nil {
		return err
	}
	g.metrics, err = httpd.NewRegistry(programVersion(), httpd.Gauges{
		SocketsOpen:  func() int { return g.socket.Stats().Sessions },
		TurnsByState: g.store.LiveTurns,
		HostsOnline:  g.hostsOnline,
	}, log)
	return err
}

func (g *gatewayParts) openChat(ctx context.Context, cfg *config, host *hostParts, public *url.URL, fan gateway.Bus, log *slog.Logger) error {
	g.routes = routes.New(routes.Options{
		Default: cfg.DefaultModel, Prices: cfg.Billing.of, Placement: cfg.placement(), StayFor: cfg.HostLink.Silence,
	})
	g.chat = chat.New(chat.Config{
		Store: g.store.Chat(), Routes: g.routes, Bus: fan, Logger: log, Render: markdown.Render,
		NewSplitter: func() chat.Splitter { return markdown.NewSplitter(markdown.Render) },
		Limits: chat.Limits{
			PendingTimeout: cfg.Turn.PendingTimeout, HostSilence: cfg.Turn.HostSilence, TurnDeadline: cfg.Turn.Deadline, DeadlineWarning: cfg.Turn.DeadlineWarning,
			OrgConcurrentTurns: cfg.Limits.OrgConcurrentTurns, MemberConcurrentTurns: cfg.Limits.MemberConcurrentTurns,
		},
		PublicURL: strings.TrimSuffix(public.String(), "/"), Prices: cfg.Billing.of,
		Metrics: g.metrics.Registerer(), Tracer: g.tracing.tracer(),
	})
	g.hosts = hosts.New(hosts.Options{
		Ledger: g.chat, Catalogs: g.routes, Logger: log, RouteMaxWait: cfg.Route.MaxWait,
		Heartbeat: cfg.HostLink.Heartbeat, Silence: cfg.HostLink.Silence,
	})
	g.hosts.Register(hosts.Host{ID: host.target, TargetRef: host.target, Embedded: true})
	g.chat.SetDispatcher(g.hosts)
	return g.chat.Start(ctx)
}

// placement is the setting as the table of routes takes it.
func (c *config) placement() (rules []routes.Rule) {
	for _, p := range c.Placement {
		rules = append(rules, routes.Rule{Model: p.Model, Org: p.Org, Require: p.Require, Prefer: p.Prefer})
	}
	return rules
}

func (g *gatewayParts) openServers(ctx context.Context, cfg *config, public *url.URL, fan gateway.Bus, log *slog.Logger, staticDir string) error {
	keys, err := httpd.LoadCookieKeys(filepath.Join(cfg.DataDir, "cookie.keys"))
	if err != nil {
		return err
	}
	gate, err := httpd.NewGate(httpd.GateConfig{Accounts: g.accounts, PublicURL: public, Keys: keys})
	if err != nil {
		return err
	}
	epoch, err := g.accounts.Epoch(ctx)
	if err != nil {
		return err
	}
	dashboard := &httpd.Dashboard{Base: public.Path, Turns: g.chat, Hosts: g.enroll, Routes: g.routes, Users: g.accounts}
	g.socket = socket.New(socket.Config{
		Chat: g.chat, Routes: g.routes, Bus: fan, Authenticate: gate.Authenticate, CheckOrigin: gate.CheckOrigin,
		Account: g.accounts.Account, Touch: g.accounts.Touch, Admin: dashboard, Epoch: epoch, Logger: log,
		OpenControl: func(accountID string, e gateway.ControlEvents) socket.Control {
			return g.hosts.OpenControl(accountID, e)
		},
	})
	g.server, err = httpd.New(httpd.Config{
		Gate: gate, Accounts: g.accounts, Chats: g.chat, Dashboard: dashboard, Socket: g.socket,
		Control: http.HandlerFunc(g.socket.ServeControl),
		Hosts:   g.enroll, HostLink: g.serveHostLink(log),
		API:     httpd.APIConfig{Chat: g.chat, Models: g.routes, Bus: fan},
		Metrics: g.metrics, Checks: g.checks(), Logger: log,
		Version: programVersion(), StaticDir: staticDir,
	})
	return err
}

// promote starts turns that had to wait, once an org may run more of them. Should it
// fail, the chat's own sweep does it within seconds.
func (g *gatewayParts) promote(log *slog.Logger) func(context.Context, string) {
	return func(ctx context.Context, orgID string) {
		if err := g.chat.Promote(context.WithoutCancel(ctx), orgID); err != nil {
			log.WarnContext(ctx, "turns that wait for an org were not started", "error", err)
		}
	}
}

// close ends what is open; the chat first, since it writes until it is stopped.
func (g *gatewayParts) close() error {
	if g.socket != nil {
		// serve has done it, unless the program ends before it served.
		goodbye, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = g.socket.Shutdown(goodbye)
	}
	if g.hosts != nil {
		g.hosts.Close()
	}
	if g.chat != nil {
		g.chat.Stop()
	}
	g.tracing.close()
	if g.store == nil {
		return nil
	}
	return g.store.Close()
}

// checks are the conditions of /readyz.
func (g *gatewayParts) checks() []httpd.Check {
	return []httpd.Check{
		{Name: "store", Run: g.store.Check},
		{Name: "host", Run: func(context.Context) error {
			if g.hostsOnline() == 0 {
				return errors.New("no host is online")
			}
			return nil
		}},
	}
}

func (g *gatewayParts) hostsOnline() (online int) {
	// The registry answers from memory and for any actor: it cannot fail.
	known, _ := g.hosts.AdminHosts(context.Background(), gateway.Actor{})
	for _, h := range known {
		if h.State == gateway.HostOnline {
			online++
		}
	}
	return online
}
