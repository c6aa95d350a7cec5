package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

// adminHostCmds are the commands on relay hosts. A running server notices what they
// change within seconds.
type adminHostCmds struct {
	Invite hostInviteCmd `cmd:"" help:"Make a command with which one machine joins as a relay host, once, within 15 minutes."`
	List   hostListCmd   `cmd:"" help:"List the relay hosts."`
	Rename hostRenameCmd `cmd:"" help:"Change what a host is called."`
	Label  hostLabelCmd  `cmd:"" help:"Replace the labels of a host."`
	Drain  hostDrainCmd  `cmd:"" help:"Have a host take no new turn; it ends what it has."`
	Resume hostResumeCmd `cmd:"" help:"Let a drained host take turns again."`
	Revoke hostRevokeCmd `cmd:"" help:"Void the key of a host for good, and end its link."`
}

// withHosts opens the hosts for one command; a server may use the same database at
// the same time. It gives the command's error in words for a shell.
func (c *cli) withHosts(ctx context.Context, std stdio, fn func(*config, *enroll.Service) error) (err error) {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	if err := makeDataDir(cfg.DataDir); err != nil {
		return err
	}
	store, err := gatewaysql.Open(ctx, gatewayStore(cfg, slog.New(slog.DiscardHandler)))
	if err != nil {
		return readable(err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	service, err := enroll.New(ctx, enroll.Config{
		Store: store.Hosts(), Logger: newLogger(cfg.Log, std),
		// Who can write to the data folder runs the installation.
		Governs: func(context.Context, gateway.Actor) (bool, error) { return true, nil },
	})
	if err != nil {
		return readable(err)
	}
	return readable(fn(cfg, service))
}

// hostFlag names the host that a command is about.
type hostFlag struct {
	Host string `required:"" placeholder:"HOST" help:"Id of the host, or its name where only one has it."`
}

// find gives the id of a host that is not revoked.
func (f hostFlag) find(ctx context.Context, s *enroll.Service) (gateway.RelayHost, error) {
	list, err := s.Hosts(ctx, accounts.Operator())
	if err != nil {
		return gateway.RelayHost{}, err
	}
	var named []gateway.RelayHost
	for _, h := range list {
		switch {
		case !h.RevokedAt.IsZero():
		case h.ID == f.Host:
			return h, nil
		case h.Name == f.Host:
			named = append(named, h)
		}
	}
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return gateway.RelayHost{}, wire.NewError(wire.CodeNotFound, "There is no such host, or it was revoked. See: fairlead admin host list")
	}
	return gateway.RelayHost{}, &usageError{"several hosts are called " + f.Host + "; name one by its id"}
}

// withHost finds a host, changes it and says so.
func (c *cli) withHost(ctx context.Context, std stdio, flag hostFlag, done string,
	change func(*enroll.Service, context.Context, gateway.Actor, string) error,
) error {
	return c.withHosts(ctx, std, func(_ *config, s *enroll.Service) error {
		h, err := flag.find(ctx, s)
		if err != nil {
			return err
		}
		if err := change(s, ctx, accounts.Operator(), h.ID); err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.Err, "%s %s (%s).\n", done, h.Name, h.ID)
		return err
	})
}

type hostInviteCmd struct {
	Name   string        `placeholder:"NAME" help:"What the host is called. Default: what it says itself."`
	Labels []string      `placeholder:"LABEL" help:"Labels of the host, with commas between, such as gpu,site=berlin."`
	TTL    time.Duration `name:"ttl" default:"15m" placeholder:"DURATION" help:"How long the invitation is valid, at most 15m."`
}

// Help gives examples.
func (hostInviteCmd) Help() string {
	return `Examples:

  fairlead admin host invite
  fairlead admin host invite --name "GPU box" --labels gpu,site=berlin --ttl 5m

The command to type on the machine is printed on standard output. It holds a token
that is shown this once and works once.`
}

// Run makes the invitation.
func (i hostInviteCmd) Run(ctx context.Context, c *cli, std stdio) error {
	if i.TTL <= 0 || i.TTL > enroll.InviteTTL {
		return &usageError{"--ttl must be more than nothing and at most 15m"}
	}
	return c.withHosts(ctx, std, func(cfg *config, s *enroll.Service) error {
		site, err := siteURL(cfg)
		if err != nil {
			return err
		}
		token, invite, err := s.Invite(ctx, accounts.Operator(), enroll.NewInvite{Name: i.Name, Labels: i.Labels, TTL: i.TTL})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(std.Err, "For one host, once, until %s. Type this there:\n", stamp(invite.ExpiresAt)); err != nil {
			return err
		}
		_, err = fmt.Fprintln(std.Out, httpd.HostJoinCommand(site, token))
		return err
	})
}

type hostListCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// hostLine is a host as it is printed.
type hostLine struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	State     string   `json:"state"`
	Labels    []string `json:"labels"`
	Version   string   `json:"version"`
	JoinedAt  string   `json:"joinedAt"`
	SeenAt    *string  `json:"seenAt"` // null: never
	RevokedAt *string  `json:"revokedAt"`
	Embedded  bool     `json:"embedded"` // in the server itself; the times mean nothing then
}

// Run lists the hosts.
func (l hostListCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withHosts(ctx, std, func(cfg *config, s *enroll.Service) error {
		list, err := s.Hosts(ctx, accounts.Operator())
		if err != nil {
			return err
		}
		lines := make([]hostLine, len(list), len(list)+1)
		for i, h := range list {
			lines[i] = newHostLine(h)
		}
		own, err := storedTargetRef(hostDir(cfg))
		if err != nil {
			return err
		}
		if own != "" { // "" before the first serve
			lines = append(lines, hostLine{ID: own, Name: "embedded", State: "active", Labels: []string{}, Version: programVersion(), Embedded: true})
		}
		if l.JSON {
			return printJSON(std, lines)
		}
		return table(std, "NAME\tID\tSTATE\tLABELS\tVERSION\tSEEN", len(lines), func(i int) string {
			l := lines[i]
			seen := "never"
			switch {
			case l.Embedded:
				seen = "built in"
			case l.SeenAt != nil:
				seen = *l.SeenAt
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", l.Name, l.ID, l.State, strings.Join(l.Labels, ","), l.Version, seen)
		})
	})
}

func newHostLine(h gateway.RelayHost) hostLine {
	line := hostLine{
		ID: h.ID, Name: h.Name, State: "active", Labels: append([]string{}, h.Labels...), Version: h.Version,
		JoinedAt: stamp(h.JoinedAt), SeenAt: optionalStamp(h.SeenAt), RevokedAt: optionalStamp(h.RevokedAt),
	}
	switch {
	case line.RevokedAt != nil:
		line.State = string(gateway.HostRevoked)
	case !h.DrainedAt.IsZero():
		line.State = string(gateway.HostDraining)
	}
	return line
}

func optionalStamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

type hostRenameCmd struct {
	hostFlag
	Name string `required:"" placeholder:"NAME" help:"The new name."`
}

// Run renames the host.
func (r hostRenameCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withHost(ctx, std, r.hostFlag, "Renamed", func(s *enroll.Service, ctx context.Context, actor gateway.Actor, id string) error {
		return s.Rename(ctx, actor, id, r.Name)
	})
}

type hostLabelCmd struct {
	hostFlag
	Labels []string `xor:"labels" required:"" placeholder:"LABEL" help:"The labels, with commas between, such as gpu,site=berlin."`
	None   bool     `xor:"labels" required:"" help:"Take all labels away."`
}

// Run replaces the labels.
func (l hostLabelCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withHost(ctx, std, l.hostFlag, "Labelled", func(s *enroll.Service, ctx context.Context, actor gateway.Actor, id string) error {
		return s.SetLabels(ctx, actor, id, l.Labels)
	})
}

type hostDrainCmd struct{ hostFlag }

// Run drains the host.
func (d hostDrainCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withHost(ctx, std, d.hostFlag, "Draining", (*enroll.Service).Drain)
}

type hostResumeCmd struct{ hostFlag }

// Run lets the host take turns again.
func (r hostResumeCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withHost(ctx, std, r.hostFlag, "Resumed", (*enroll.Service).Resume)
}

type hostRevokeCmd struct{ hostFlag }

// Help gives examples.
func (hostRevokeCmd) Help() string {
	return `Example:

  fairlead admin host revoke --host target_1f2e

What runs there ends as failed. The host may join again with a new invitation, and a
new key.`
}

// Run revokes the host.
func (r hostRevokeCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withHost(ctx, std, r.hostFlag, "Revoked", (*enroll.Service).Revoke)
}
