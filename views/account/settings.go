package account

import (
	"strconv"
	"time"

	"github.com/fairlead/fairlead/views"
)

// Tabs of the settings, as ?tab= names them.
const (
	TabAccount    = "account"
	TabUsage      = "usage"
	TabAssistants = "assistants"
)

// Forms of the settings: the field "do" of what they post.
const (
	DoRename          = "rename"
	DoPassword        = "password"
	DoToken           = "token"
	DoRevoke          = "revoke"
	DoAssistant       = "assistant"
	DoDeleteAssistant = "assistant-delete"
)

const (
	maxName         = 100
	maxAssistant    = 80
	maxDescription  = 400
	maxInstructions = 16_000
	instructionRows = 8
)

// SettingsPage is /settings. One of the three tabs is set.
//
// Each form posts the fields tab and do, and its own, to Action.
type SettingsPage struct {
	Site      views.Site
	Name, Org string
	Admin     bool
	// LogoutPath and Action are local paths, Base excluded.
	LogoutPath, Action string
	Tab                string
	// Notice says what the last form did.
	Notice string
	// Form is the form that was refused, if one was.
	Form views.FormState

	Account    AccountTab
	Usage      UsageTab
	Assistants AssistantsTab
}

func (p SettingsPage) title() string {
	switch p.Tab {
	case TabUsage:
		return "Usage"
	case TabAssistants:
		return "Assistants"
	}
	return "Account"
}

// AccountTab is who one is, and what is logged in.
type AccountTab struct {
	Name, Email string
	Role        string
	MinPassword int
	Sessions    []CredentialRow
	Tokens      []CredentialRow
	// NewToken is the secret of the token just made, shown this once.
	NewToken string
	// AdminScope offers tokens with the admin scope.
	AdminScope bool
}

// CredentialRow is a session or a token.
type CredentialRow struct {
	ID, Name, Scopes string
	// UsedAt and ExpiresAt are zero for never.
	CreatedAt, UsedAt, ExpiresAt time.Time
	// Current is the session behind the page.
	Current bool
}

func (p SettingsPage) nameField() views.FieldModel {
	f := p.Form.Of(DoRename)
	return views.FieldModel{
		Name: "name", ID: "account-name", Label: "Your name", Type: "text", Value: f.Or("name", p.Account.Name),
		Autocomplete: "name", Error: f.Errors["name"], MaxLength: maxName,
	}
}

func (p SettingsPage) passwordFields() []views.FieldModel {
	f := p.Form.Of(DoPassword)
	return []views.FieldModel{
		{Name: "current", Label: "Current password", Type: "password", Autocomplete: "current-password", Error: f.Errors["current"]},
		{
			Name: "password", Label: "New password", Type: "password", Autocomplete: "new-password", MinLength: p.Account.MinPassword,
			Error: f.Errors["password"], Hint: passwordHint(p.Account.MinPassword, f.Errors["password"]),
		},
	}
}

func (p SettingsPage) tokenFields() []views.FieldModel {
	f := p.Form.Of(DoToken)
	scopes := []views.Option{{Value: "chat", Label: "Chat"}}
	if p.Account.AdminScope {
		scopes = append(scopes, views.Option{Value: "admin", Label: "Admin"}, views.Option{Value: "chat admin", Label: "Chat and admin"})
	}
	return []views.FieldModel{
		{
			Name: "name", ID: "token-name", Label: "Name", Type: "text", Value: f.Or("name", ""), Autocomplete: "off",
			Error: f.Errors["name"], MaxLength: maxName, Hint: "What uses it: a program, a machine.",
		},
		{
			Name: "scopes", ID: "token-scopes", Label: "May", Value: f.Or("scopes", "chat"), Options: scopes, Error: f.Errors["scopes"],
		},
		{
			Name: "days", ID: "token-days", Label: "Valid for", Value: f.Or("days", "30"), Error: f.Errors["ttl"],
			Options: []views.Option{{Value: "1", Label: "1 day"}, {Value: "7", Label: "7 days"}, {Value: "30", Label: "30 days"}, {Value: "365", Label: "1 year"}, {Value: "0", Label: "Until it is revoked"}},
		},
	}
}

// UsageTab is what the org and the person may do, and have done.
type UsageTab struct {
	Suspended bool
	// Metered tells that credits are counted; Credits are those left.
	Metered bool
	Credits int64
	Meters  []Meter
	// Waiting turns of the org have no free place yet.
	Waiting int
	// ResetAt is when the count of the day starts again.
	ResetAt time.Time
}

// Meter is a use against its limit; a limit of 0 is none.
type Meter struct {
	ID, Label   string
	Used, Limit int
}

func (m Meter) used() string  { return strconv.Itoa(min(m.Used, m.Limit)) }
func (m Meter) limit() string { return strconv.Itoa(m.Limit) }

func (m Meter) words() string {
	if m.Limit == 0 {
		return strconv.Itoa(m.Used) + ", no limit"
	}
	return strconv.Itoa(m.Used) + " of " + strconv.Itoa(m.Limit)
}

func (m Meter) full() bool { return m.Limit > 0 && m.Used >= m.Limit }

func (u UsageTab) state() views.State {
	switch {
	case u.Suspended:
		return views.State{Tone: views.ToneRefused, Word: "suspended"}
	case u.Metered && u.Credits <= 0:
		return views.State{Tone: views.ToneFailed, Word: "no credits left"}
	}
	return views.State{Tone: views.ToneDone, Word: "active"}
}

func (u UsageTab) credits() string {
	if !u.Metered {
		return "unlimited"
	}
	return strconv.FormatInt(u.Credits, 10)
}

// AssistantsTab lists the assistants that one may use, and edits one's own.
type AssistantsTab struct {
	List []AssistantRow
	// Edit is the assistant whose form is open; its ID is "" for a new one. Nil shows
	// no form.
	Edit   *AssistantRow
	Models []views.Option
}

// AssistantRow is an assistant. Instructions are set only where the form needs
// them.
type AssistantRow struct {
	ID, Name, Description string
	Instructions, Model   string
	Private               bool
	Default               bool
	// Mine tells that it may be changed and deleted.
	Mine bool
}

func (a AssistantRow) state() string {
	switch {
	case a.Default:
		return "everybody’s default"
	case a.Private:
		return "only you"
	}
	return "everybody in the org"
}

func (p SettingsPage) assistantFields() []views.FieldModel {
	f, a := p.Form.Of(DoAssistant), *p.Assistants.Edit
	visibility := "org"
	if a.Private || a.ID == "" {
		visibility = "private"
	}
	models := append([]views.Option{{Value: "", Label: "The default of this installation"}}, p.Assistants.Models...)
	fields := []views.FieldModel{
		{
			Name: "displayName", ID: "assistant-name", Label: "Name", Type: "text", Value: f.Or("displayName", a.Name), Autocomplete: "off",
			Error: f.Errors["displayName"], MaxLength: maxAssistant, Autofocus: true,
		},
		{
			Name: "description", ID: "assistant-description", Label: "Description", Type: "text", Value: f.Or("description", a.Description),
			Autocomplete: "off", Optional: true, Error: f.Errors["description"], MaxLength: maxDescription, Hint: "What it is good for, in a line.",
		},
		{
			Name: "instructions", ID: "assistant-instructions", Label: "Instructions", Value: f.Or("instructions", a.Instructions), Rows: instructionRows,
			Optional: true, Error: f.Errors["instructions"], MaxLength: maxInstructions,
			Hint: "What the model is told before each of its turns. Admins can read it if everybody may use the assistant.",
		},
		{
			Name: "model", ID: "assistant-model", Label: "Model", Value: f.Or("model", a.Model), Options: models, Error: f.Errors["model"], Optional: true,
			Hint: "New threads with this assistant start with it.",
		},
	}
	if a.Default {
		return fields
	}
	return append(fields, views.FieldModel{
		Name: "visibility", ID: "assistant-visibility", Label: "Who may use it", Value: f.Or("visibility", visibility), Error: f.Errors["visibility"],
		Options: []views.Option{{Value: "private", Label: "Only you"}, {Value: "org", Label: "Everybody in the org"}},
	})
}

func (p SettingsPage) side() views.SideModel {
	tab := func(name, label string) views.SideItem {
		return views.SideItem{Path: p.Action + "?tab=" + name, Label: label, Current: p.Tab == name}
	}
	links := []views.SideItem{{Path: "/", Label: "Chat"}}
	if p.Admin {
		links = append(links, views.SideItem{Path: "/admin", Label: "Admin"})
	}
	return views.SideModel{
		Site: p.Site, Label: "Settings", Name: p.Name, Org: p.Org, LogoutPath: p.LogoutPath, Links: links,
		Items: []views.SideItem{tab(TabAccount, "Account"), tab(TabUsage, "Usage"), tab(TabAssistants, "Assistants")},
	}
}
