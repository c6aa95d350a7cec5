package main

import (
	"context"
	"strconv"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
)

// adminCmds are the commands on accounts and orgs.
type adminCmds struct {
	User struct {
		Create userCreateCmd `cmd:"" help:"Make an account."`
	} `cmd:"" help:"Accounts."`
	Token struct {
		Create tokenCreateCmd `cmd:"" help:"Make an access token and print it."`
	} `cmd:"" help:"Access tokens."`
	Org struct {
		Create      orgCreateCmd      `cmd:"" help:"Make an org."`
		List        orgListCmd        `cmd:"" help:"List the orgs with what they may spend."`
		Limits      orgLimitsCmd      `cmd:"" help:"Print or set how many turns an org and its members may run."`
		Entitlement orgEntitlementCmd `cmd:"" help:"Print or set whether an org may start turns, and its credits."`
	} `cmd:"" help:"Orgs: people who share hosts and limits."`
	Invite struct {
		Create inviteCreateCmd `cmd:"" help:"Make a link with which one person joins an org, once, within 7 days."`
	} `cmd:"" help:"Invitations."`
	Member struct {
		List    memberListCmd    `cmd:"" help:"List the members."`
		Disable memberDisableCmd `cmd:"" help:"Keep a member from logging in, and end all sessions and tokens at once."`
		Enable  memberEnableCmd  `cmd:"" help:"Let a disabled member log in again."`
		Role    memberRoleCmd    `cmd:"" help:"Make a member an admin, or an admin a member."`
	} `cmd:"" help:"Members of orgs."`
	Host adminHostCmds `cmd:"" help:"Relay hosts on other machines."`
}

type orgCreateCmd struct {
	Name string `required:"" placeholder:"NAME" help:"What the org is called; no other may have the name."`
}

// Help gives examples.
func (orgCreateCmd) Help() string {
	return `Example:

  fairlead admin org create --name "Quay Ltd"

It starts without limits. Its first admin joins with: fairlead admin invite create`
}

// Run makes the org.
func (o orgCreateCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withAccounts(ctx, std, func(_ *config, s *accounts.Service) error { return runOrgCreate(ctx, s, std, o) })
}

type orgListCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the orgs.
func (o orgListCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withAccounts(ctx, std, func(_ *config, s *accounts.Service) error { return runOrgList(ctx, s, std, o) })
}

type orgLimitsCmd struct {
	Org              string `required:"" placeholder:"NAME" help:"Name of the org."`
	ConcurrentTurns  *int   `placeholder:"N" help:"Turns of the org at the same time; 0 is the default of limits.org_concurrent_turns."`
	DailyTurns       *int   `placeholder:"N" help:"Turns of the org in a day (UTC); 0 is no limit."`
	MemberConcurrent *int   `name:"member-concurrent-turns" placeholder:"N" help:"Turns of each member at the same time; 0 is no limit."`
	MemberDaily      *int   `name:"member-daily-turns" placeholder:"N" help:"Turns of each member in a day (UTC); 0 is no limit."`
	JSON             bool   `name:"json" help:"Print JSON."`
}

// Help gives examples.
func (orgLimitsCmd) Help() string {
	return `Examples:

  fairlead admin org limits --org "Quay Ltd"
  fairlead admin org limits --org "Quay Ltd" --concurrent-turns 4 --member-daily-turns 200

What is not named stays as it is. A running server goes by the new limits at once;
turns that wait for a place start within seconds.`
}

// Run prints or sets the limits.
func (o orgLimitsCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withAccounts(ctx, std, func(_ *config, s *accounts.Service) error { return runOrgLimits(ctx, s, std, o) })
}

type orgEntitlementCmd struct {
	Org     string  `required:"" placeholder:"NAME" help:"Name of the org."`
	Status  string  `enum:",active,suspended" default:"" placeholder:"STATUS" help:"active or suspended; a suspended org starts no turn."`
	Credits *string `placeholder:"N" help:"Credits for turns on operator-paid routes: a number, or unlimited."`
	JSON    bool    `name:"json" help:"Print JSON."`
}

// Help gives examples.
func (orgEntitlementCmd) Help() string {
	return `Examples:

  fairlead admin org entitlement --org "Quay Ltd"
  fairlead admin org entitlement --org "Quay Ltd" --status suspended
  fairlead admin org entitlement --org "Quay Ltd" --status active --credits 50000
  fairlead admin org entitlement --org "Quay Ltd" --credits unlimited`
}

// Run prints or sets the entitlement.
func (o orgEntitlementCmd) Run(ctx context.Context, c *cli, std stdio) error {
	var credits *int64
	if o.Credits != nil && *o.Credits != "unlimited" {
		n, err := strconv.ParseInt(*o.Credits, 10, 64)
		if err != nil {
			return &usageError{"--credits takes a whole number or unlimited"}
		}
		credits = &n
	}
	return c.withAccounts(ctx, std, func(_ *config, s *accounts.Service) error {
		return runOrgEntitlement(ctx, s, std, o, credits)
	})
}

type inviteCreateCmd struct {
	Email string `required:"" placeholder:"EMAIL" help:"Address with which the person will log in."`
	Role  string `required:"" enum:"admin,member" placeholder:"ROLE" help:"admin or member."`
	Org   string `placeholder:"NAME" help:"Org to join. Default: the first."`
}

// Help gives examples.
func (inviteCreateCmd) Help() string {
	return `Examples:

  fairlead admin invite create --email ada@example.com --role member
  LINK=$(fairlead admin invite create --email ada@example.com --role admin --org "Quay Ltd")

The link alone is printed on standard output. It is shown this once, works once and
for 7 days; a newer one for the same address takes its place.`
}

// Run makes the invitation.
func (i inviteCreateCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withAccounts(ctx, std, func(cfg *config, s *accounts.Service) error { return runInviteCreate(ctx, cfg, s, std, i) })
}

type memberListCmd struct {
	Org  string `placeholder:"NAME" help:"Only the members of this org."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Run lists the members.
func (m memberListCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withAccounts(ctx, std, func(_ *config, s *accounts.Service) error { return runMemberList(ctx, s, std, m) })
}

// memberFlag names the member that a command is about.
type memberFlag struct {
	Email string `required:"" placeholder:"EMAIL" help:"Address with which the member logs in."`
}

type memberDisableCmd struct{ memberFlag }

// Help gives examples.
func (memberDisableCmd) Help() string {
	return `Example:

  fairlead admin member disable --email bob@example.com

Threads stay. The last admin of an org cannot be disabled.`
}

// Run disables the member.
func (m memberDisableCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withMember(ctx, std, m.Email, "Disabled", (*accounts.Service).DisableMember)
}

type memberEnableCmd struct{ memberFlag }

// Run enables the member.
func (m memberEnableCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withMember(ctx, std, m.Email, "Enabled", (*accounts.Service).EnableMember)
}

type memberRoleCmd struct {
	memberFlag
	Role string `required:"" enum:"admin,member" placeholder:"ROLE" help:"admin or member."`
}

// Help gives examples.
func (memberRoleCmd) Help() string {
	return `Example:

  fairlead admin member role --email bob@example.com --role admin

Who becomes a member is logged out everywhere and loses all tokens. The last admin of
an org stays one.`
}

// Run changes the role.
func (m memberRoleCmd) Run(ctx context.Context, c *cli, std stdio) error {
	return c.withMember(ctx, std, m.Email, "Now "+m.Role+":",
		func(s *accounts.Service, ctx context.Context, actor gateway.Actor, id string) error {
			return s.SetRole(ctx, actor, id, gateway.Role(m.Role))
		})
}
