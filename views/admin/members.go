package admin

import (
	"strconv"
	"time"

	"github.com/fairlead/fairlead/views"
)

// The pages of admins; local paths, Base excluded.
const (
	OverviewPath = "/admin"
	HostsPath    = "/admin/hosts"
	BindingsPath = "/admin/bindings"
	MembersPath  = "/admin/members"
)

func side(site views.Site, name, org, logout, current string) views.SideModel {
	return views.SideModel{
		Site: site, Label: "Admin", Name: name, Org: org, LogoutPath: logout,
		Items: []views.SideItem{
			{Path: OverviewPath, Label: "Overview", Current: current == OverviewPath},
			{Path: HostsPath, Label: "Hosts", Current: current == HostsPath},
			{Path: BindingsPath, Label: "Bindings", Current: current == BindingsPath},
			{Path: MembersPath, Label: "Members", Current: current == MembersPath},
		},
		Links: []views.SideItem{{Path: "/settings", Label: "Settings"}, {Path: "/", Label: "Chat"}},
	}
}

// Forms of the members page: the field "do" of what they post.
const (
	DoInvite       = "invite"
	DoRevokeInvite = "invite-revoke"
	DoRole         = "role"
	DoDisable      = "disable"
	DoEnable       = "enable"
	DoMemberLimits = "member-limits"
	DoDefaults     = "member-defaults"
	DoOrgLimits    = "org-limits"
	DoEntitlement  = "entitlement"
)

// Members is /admin/members. Each form posts the field do, and its own, to
// MembersPath.
type Members struct {
	Site       views.Site
	Name, Org  string
	LogoutPath string
	// Notice says what the last form did, Form is the one that was refused.
	Notice string
	Form   views.FormState

	Members     []MemberRow
	Invitations []InvitationRow
	// Link is that of the invitation just made, for LinkEmail; shown this once.
	Link, LinkEmail string

	Defaults Limits
	OrgWide  Limits
	// OrgTurns and MemberTurns are the installation's own, which hold while no turns
	// at once are named; 0 is no limit.
	OrgTurns, MemberTurns int

	Suspended bool
	Credits   string // "" is unlimited
	// Governs lets the admin change OrgWide, Suspended and Credits.
	Governs bool
}

// Limits are shown as they are typed; 0 is none.
type Limits struct{ Concurrent, Daily int }

// MemberRow is a member.
type MemberRow struct {
	ID, Name, Email string
	Admin, Disabled bool
	// You is the admin who looks.
	You       bool
	CreatedAt time.Time
	// Own are limits of the member's own; nil for those of the org.
	Own *Limits
}

func (m MemberRow) state() views.State {
	if m.Disabled {
		return views.State{Tone: views.ToneStopped, Word: "disabled"}
	}
	return views.State{Tone: views.ToneDone, Word: "active"}
}

func (m MemberRow) role() string {
	if m.Admin {
		return "admin"
	}
	return "member"
}

// otherRole is the role that the member could have instead.
func (m MemberRow) otherRole() string {
	if m.Admin {
		return "member"
	}
	return "admin"
}

func (m MemberRow) roleLabel() string {
	if m.Admin {
		return "Make a member"
	}
	return "Make an admin"
}

func (m MemberRow) roleConfirm() string {
	if m.Admin {
		return "Make " + m.Name + " a member? They are logged out everywhere, and lose their tokens and the invitations they made."
	}
	return "Make " + m.Name + " an admin? They can then see all turns, and manage the members."
}

func (m MemberRow) limits() string {
	if m.Own == nil {
		return "as the org"
	}
	return word(m.Own.Concurrent) + " at once, " + word(m.Own.Daily) + " a day"
}

func word(n int) string {
	if n == 0 {
		return "any number"
	}
	return strconv.Itoa(n)
}

// InvitationRow is an invitation that was neither used nor revoked.
type InvitationRow struct {
	ID, Email, Role string
	// By is who made it, as shown.
	By                   string
	CreatedAt, ExpiresAt time.Time
	Expired              bool
}

func (p Members) inviteFields() []views.FieldModel {
	f := p.Form.Of(DoInvite)
	return []views.FieldModel{
		{Name: "email", Label: "Email", Type: "email", Value: f.Or("email", ""), Autocomplete: "off", Error: f.Errors["email"]},
		{
			Name: "role", Label: "Role", Value: f.Or("role", "member"), Error: f.Errors["role"],
			Options: []views.Option{{Value: "member", Label: "Member"}, {Value: "admin", Label: "Admin"}},
		},
	}
}

// limitFields are the two fields of limits; id keeps those of several forms apart.
func (p Members) limitFields(form, id string, l Limits, unlimited string) []views.FieldModel {
	f := p.Form.Of(form)
	if id != "" && f.Values["id"] != id {
		f = views.FormState{}
	}
	field := func(name, label string, value int, hint string) views.FieldModel {
		return views.FieldModel{
			Name: name, ID: form + id + "-" + name, Label: label, Type: "number", Value: f.Or(name, strconv.Itoa(value)),
			Min: "0", Max: "1000000", Error: f.Errors[name], Hint: hint, Autocomplete: "off",
		}
	}
	return []views.FieldModel{
		field("concurrentTurns", "Turns at once", l.Concurrent, unlimited),
		field("dailyTurns", "Turns a day", l.Daily, "0 is no limit."),
	}
}

// orElse says what 0 turns at once are.
func orElse(turns int) string {
	if turns == 0 {
		return "0 is no limit."
	}
	return "0 is this installation’s default, " + strconv.Itoa(turns) + "."
}

func (p Members) entitlementFields() []views.FieldModel {
	f := p.Form.Of(DoEntitlement)
	return []views.FieldModel{
		{
			Name: "status", Label: "Status", Value: f.Or("status", p.status()), Error: f.Errors["status"],
			Options: []views.Option{{Value: "active", Label: "Active"}, {Value: "suspended", Label: "Suspended: no new turn starts"}},
		},
		{
			Name: "credits", Label: "Credits", Type: "text", Value: f.Or("credits", p.Credits), Optional: true, Autocomplete: "off",
			Error: f.Errors["credits"], Hint: "For models that the installation pays for. Empty is unlimited.",
		},
	}
}

func (p Members) status() string {
	if p.Suspended {
		return "suspended"
	}
	return "active"
}

func (p Members) entitlementState() views.State {
	if p.Suspended {
		return views.State{Tone: views.ToneRefused, Word: "suspended"}
	}
	return views.State{Tone: views.ToneDone, Word: "active"}
}

func (p Members) creditWord() string {
	if p.Credits == "" {
		return "unlimited"
	}
	return p.Credits
}

// open tells whether the form of a member is shown open: the one that was refused.
func (p Members) open(id string) bool {
	return p.Form.Values["id"] == id && id != ""
}

// loose is the fault of a form that has no place of its own for it.
func (p Members) loose() string {
	switch p.Form.Name {
	case DoRevokeInvite, DoRole, DoDisable, DoEnable, DoMemberLimits:
		return p.Form.Error
	}
	return ""
}

func (p Members) orgTurns() string {
	if p.OrgWide.Concurrent == 0 {
		return word(p.OrgTurns)
	}
	return word(p.OrgWide.Concurrent)
}

func (m MemberRow) own() Limits {
	if m.Own == nil {
		return Limits{}
	}
	return *m.Own
}
