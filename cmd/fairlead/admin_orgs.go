package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/httpd"
)

// withAccounts loads the settings, opens the accounts for one command and gives
// its error in words for a shell.
func (c *cli) withAccounts(ctx context.Context, std stdio, fn func(*config, *accounts.Service) error) error {
	cfg, err := c.load(std)
	if err != nil {
		return err
	}
	return withAccounts(ctx, cfg, std, func(s *accounts.Service) error { return readable(fn(cfg, s)) })
}

// withMember finds a member of any org by email, changes it and says so.
func (c *cli) withMember(ctx context.Context, std stdio, email, done string,
	change func(*accounts.Service, context.Context, gateway.Actor, string) error,
) error {
	return c.withAccounts(ctx, std, func(_ *config, s *accounts.Service) error {
		member, err := s.UserByEmail(ctx, accounts.Operator(), email)
		if err != nil {
			return err
		}
		if err := change(s, ctx, accounts.Operator(), member.ID); err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.Err, "%s %s.\n", done, member.Email)
		return err
	})
}

func runOrgCreate(ctx context.Context, s *accounts.Service, std stdio, cmd orgCreateCmd) error {
	org, err := s.CreateOrg(ctx, accounts.Operator(), cmd.Name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Err, "Made the org %s.\n", org.Name)
	return err
}

// orgLine is an org as it is printed.
type orgLine struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Members     int    `json:"members"`
	Status      string `json:"status"`
	Credits     *int64 `json:"credits"` // null: unlimited
	Concurrent  int    `json:"concurrentTurns"`
	Daily       int    `json:"dailyTurns"`
	MConcurrent int    `json:"memberConcurrentTurns"`
	MDaily      int    `json:"memberDailyTurns"`
	CreatedAt   string `json:"createdAt"`
}

func runOrgList(ctx context.Context, s *accounts.Service, std stdio, cmd orgListCmd) error {
	orgs, err := s.Orgs(ctx, accounts.Operator())
	if err != nil {
		return err
	}
	members, err := s.Members(ctx, accounts.Operator())
	if err != nil {
		return err
	}
	count := make(map[string]int, len(orgs))
	for _, m := range members {
		count[m.OrgID]++
	}
	lines := make([]orgLine, len(orgs))
	for i, org := range orgs {
		if lines[i], err = newOrgLine(ctx, s, org); err != nil {
			return err
		}
		lines[i].Members = count[org.ID]
	}
	if cmd.JSON {
		return printJSON(std, lines)
	}
	return table(std, "NAME\tMEMBERS\tSTATUS\tCREDITS\tTURNS AT ONCE\tA DAY", len(lines), func(i int) string {
		l := lines[i]
		return fmt.Sprintf("%s\t%d\t%s\t%s\t%s\t%s", l.Name, l.Members, l.Status, creditWord(l.Credits), limitWord(l.Concurrent, "default"), limitWord(l.Daily, "unlimited"))
	})
}

func newOrgLine(ctx context.Context, s *accounts.Service, org gateway.Org) (orgLine, error) {
	e, err := s.Entitlement(ctx, accounts.Operator(), org.ID)
	if err != nil {
		return orgLine{}, err
	}
	l, err := s.OrgLimits(ctx, accounts.Operator(), org.ID)
	return orgLine{
		ID: org.ID, Name: org.Name, Status: string(e.Status), Credits: e.Credits,
		Concurrent: l.ConcurrentTurns, Daily: l.DailyTurns, MConcurrent: l.Member.ConcurrentTurns, MDaily: l.Member.DailyTurns,
		CreatedAt: stamp(org.CreatedAt),
	}, err
}

func runOrgLimits(ctx context.Context, s *accounts.Service, std stdio, cmd orgLimitsCmd) error {
	org, err := s.OrgByName(ctx, accounts.Operator(), cmd.Org)
	if err != nil {
		return err
	}
	l, err := s.OrgLimits(ctx, accounts.Operator(), org.ID)
	if err != nil {
		return err
	}
	if merge(&l.Limits, cmd.ConcurrentTurns, cmd.DailyTurns) {
		if err := s.SetOrgLimits(ctx, accounts.Operator(), org.ID, l.Limits); err != nil {
			return err
		}
	}
	if merge(&l.Member, cmd.MemberConcurrent, cmd.MemberDaily) {
		if err := s.SetMemberDefaults(ctx, accounts.Operator(), org.ID, l.Member); err != nil {
			return err
		}
	}
	line, err := newOrgLine(ctx, s, org)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return printJSON(std, line)
	}
	rows := [][2]string{
		{"org, at once", limitWord(line.Concurrent, "default")},
		{"org, a day", limitWord(line.Daily, "unlimited")},
		{"member, at once", limitWord(line.MConcurrent, "unlimited")},
		{"member, a day", limitWord(line.MDaily, "unlimited")},
	}
	return table(std, "TURNS\tLIMIT", len(rows), func(i int) string { return rows[i][0] + "\t" + rows[i][1] })
}

// merge puts what flags gave in place of what holds, and tells whether any did.
func merge(l *gateway.Limits, concurrent, daily *int) bool {
	if concurrent != nil {
		l.ConcurrentTurns = *concurrent
	}
	if daily != nil {
		l.DailyTurns = *daily
	}
	return concurrent != nil || daily != nil
}

func runOrgEntitlement(ctx context.Context, s *accounts.Service, std stdio, cmd orgEntitlementCmd, credits *int64) error {
	org, err := s.OrgByName(ctx, accounts.Operator(), cmd.Org)
	if err != nil {
		return err
	}
	e, err := s.Entitlement(ctx, accounts.Operator(), org.ID)
	if err != nil {
		return err
	}
	if cmd.Status != "" || cmd.Credits != nil {
		if cmd.Status != "" {
			e.Status = gateway.EntitlementStatus(cmd.Status)
		}
		if cmd.Credits != nil {
			e.Credits = credits
		}
		if err := s.SetEntitlement(ctx, accounts.Operator(), org.ID, e); err != nil {
			return err
		}
	}
	if cmd.JSON {
		line, err := newOrgLine(ctx, s, org)
		if err != nil {
			return err
		}
		return printJSON(std, line)
	}
	return table(std, "STATUS\tCREDITS", 1, func(int) string { return string(e.Status) + "\t" + creditWord(e.Credits) })
}

func runInviteCreate(ctx context.Context, cfg *config, s *accounts.Service, std stdio, cmd inviteCreateCmd) error {
	public, err := siteURL(cfg)
	if err != nil {
		return err
	}
	secret, inv, err := s.Invite(ctx, accounts.Operator(), accounts.NewInvitation{
		Email: cmd.Email, Role: gateway.Role(cmd.Role), Org: cmd.Org,
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(std.Err, "For %s (%s), once, until %s.\n", inv.Email, inv.Role, stamp(inv.ExpiresAt)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.Out, httpd.InvitationURL(public, secret))
	return err
}

// siteURL is the address that people use, as far as the settings tell it.
func siteURL(cfg *config) (*url.URL, error) {
	if cfg.PublicURL != "" {
		return httpd.ParsePublicURL(cfg.PublicURL)
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil || port == "0" {
		return nil, &usageError{"the link needs an address: set public_url to the one that people use"}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return httpd.ParsePublicURL("http://" + net.JoinHostPort(host, port))
}

// memberLine is a member as it is printed.
type memberLine struct {
	ID         string  `json:"id"`
	Email      string  `json:"email"`
	Name       string  `json:"name"`
	Org        string  `json:"org"`
	Role       string  `json:"role"`
	CreatedAt  string  `json:"createdAt"`
	DisabledAt *string `json:"disabledAt"`
}

func runMemberList(ctx context.Context, s *accounts.Service, std stdio, cmd memberListCmd) error {
	orgs, err := s.Orgs(ctx, accounts.Operator())
	if err != nil {
		return err
	}
	names := make(map[string]string, len(orgs))
	for _, org := range orgs {
		names[org.ID] = org.Name
	}
	only := ""
	if cmd.Org != "" {
		org, err := s.OrgByName(ctx, accounts.Operator(), cmd.Org)
		if err != nil {
			return err
		}
		only = org.ID
	}
	members, err := s.Members(ctx, accounts.Operator())
	if err != nil {
		return err
	}
	lines := make([]memberLine, 0, len(members))
	for _, m := range members {
		if only == "" || m.OrgID == only {
			lines = append(lines, newMemberLine(m, names[m.OrgID]))
		}
	}
	if cmd.JSON {
		return printJSON(std, lines)
	}
	return table(std, "EMAIL\tNAME\tORG\tROLE\tSTATE", len(lines), func(i int) string {
		l := lines[i]
		state := "active"
		if l.DisabledAt != nil {
			state = "disabled"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", l.Email, l.Name, l.Org, l.Role, state)
	})
}

func newMemberLine(m gateway.Member, org string) memberLine {
	line := memberLine{ID: m.ID, Email: m.Email, Name: m.Name, Org: org, Role: string(m.Role), CreatedAt: stamp(m.CreatedAt)}
	if !m.DisabledAt.IsZero() {
		at := stamp(m.DisabledAt)
		line.DisabledAt = &at
	}
	return line
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func creditWord(credits *int64) string {
	if credits == nil {
		return "unlimited"
	}
	return strconv.FormatInt(*credits, 10)
}

func limitWord(n int, none string) string {
	if n == 0 {
		return none
	}
	return strconv.Itoa(n)
}

func printJSON(std stdio, v any) error {
	out := json.NewEncoder(std.Out)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(v)
}

// table prints rows in columns; cells are parted by tabs.
func table(std stdio, head string, rows int, row func(i int) string) error {
	w := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	for i := range rows {
		if _, err := fmt.Fprintln(w, row(i)); err != nil {
			return err
		}
	}
	return w.Flush()
}
