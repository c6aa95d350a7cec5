package httpd

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views"
	"github.com/fairlead/fairlead/views/account"
)

const settingsPath = "/settings"

func (s *Server) getSettings(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	query := r.URL.Query()
	p, err := s.newSettingsPage(r, actor, query.Get("tab"), query.Get("edit"))
	if err != nil {
		return err
	}
	p.Notice = s.settingsForms()[query.Get("done")].notice
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

func (s *Server) postSettings(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	f, secret, refused, err := s.posted(r, actor, s.settingsForms())
	if err != nil && refused == nil {
		return err
	}
	if err == nil && secret == "" {
		s.redirect(w, r, settingsPath+"?tab="+f.tab+"&done="+r.PostForm.Get("do"))
		return nil
	}
	edit := ""
	if refused != nil && refused.Name == account.DoAssistant {
		edit = r.PostForm.Get("id")
		if edit == "" {
			edit = "new"
		}
	}
	p, pageErr := s.newSettingsPage(r, actor, f.tab, edit)
	if pageErr != nil {
		return errors.Join(err, pageErr)
	}
	p.Account.NewToken = secret
	status := http.StatusOK
	if refused != nil {
		p.Form, status = *refused, formStatus(err)
		setRetryAfter(w, wire.AsError(err))
	}
	s.render(w, r, status, p.View())
	return nil
}

// settingsForms are the forms of the settings.
func (s *Server) settingsForms() map[string]form {
	return map[string]form{
		account.DoRename: {account.TabAccount, "Your name is saved.", plain(func(r *http.Request, actor gateway.Actor) error {
			return s.cfg.Accounts.Rename(r.Context(), actor, r.PostForm.Get("name"))
		})},
		account.DoPassword: {account.TabAccount, "Your password is changed. All other browsers and programs are logged out.", plain(s.changePassword)},
		account.DoToken:    {account.TabAccount, "", s.makeToken},
		account.DoRevoke: {account.TabAccount, "It is ended.", plain(func(r *http.Request, actor gateway.Actor) error {
			id, err := idOf(r)
			if err != nil {
				return err
			}
			return s.cfg.Accounts.RevokeOwn(r.Context(), actor, id)
		})},
		account.DoAssistant: {account.TabAssistants, "The assistant is saved.", plain(s.saveAssistant)},
		account.DoDeleteAssistant: {account.TabAssistants, "The assistant is deleted.", plain(func(r *http.Request, actor gateway.Actor) error {
			id, err := idOf(r)
			if err != nil {
				return err
			}
			return s.cfg.API.Chat.DeleteAgent(r.Context(), actor, gateway.AgentRequest{AgentID: id})
		})},
	}
}

func (s *Server) changePassword(r *http.Request, actor gateway.Actor) error {
	err := s.cfg.Accounts.ChangePassword(r.Context(), actor, r.PostForm.Get("current"), r.PostForm.Get("password"), s.gate.ClientAddress(r))
	if wire.CodeOf(err) != gateway.CodeCredentialsInvalid {
		return err
	}
	return badFields([]wire.Field{{Path: "current", Rule: "equal"}})
}

func (s *Server) makeToken(r *http.Request, actor gateway.Actor) (string, error) {
	days, err := strconv.Atoi(r.PostForm.Get("days"))
	if err != nil || days < 0 || days > 3650 {
		return "", badFields([]wire.Field{{Path: "ttl", Rule: "min"}})
	}
	var scopes []gateway.Scope
	for _, scope := range strings.Fields(r.PostForm.Get("scopes")) {
		scopes = append(scopes, gateway.Scope(scope))
	}
	secret, _, err := s.cfg.Accounts.CreateOwnToken(r.Context(), actor, accounts.NewToken{
		Name: r.PostForm.Get("name"), Scopes: scopes, TTL: time.Duration(days) * 24 * time.Hour,
	})
	return secret, err
}

// saveAssistant makes an assistant, or changes the one that the form names. Line
// ends are as the form's text area shows them.
func (s *Server) saveAssistant(r *http.Request, actor gateway.Actor) error {
	text := func(name string) string { return strings.ReplaceAll(r.PostForm.Get(name), "\r\n", "\n") }
	req := gateway.CreateAgentRequest{
		DisplayName: text("displayName"), Description: text("description"), Instructions: text("instructions"),
		Model: text("model"), Visibility: gateway.Visibility(text("visibility")),
	}
	if err := wire.CheckStruct(&req); err != nil {
		return err
	}
	var err error
	if r.PostForm.Get("id") == "" {
		_, err = s.cfg.API.Chat.CreateAgent(r.Context(), actor, req)
	} else {
		err = s.updateAssistant(r, actor, req)
	}
	switch wire.CodeOf(err) {
	case gateway.CodeModelUnknown, gateway.CodeModelNotAllowed:
		return badFields([]wire.Field{{Path: "model", Rule: "known"}})
	}
	return err
}

func (s *Server) updateAssistant(r *http.Request, actor gateway.Actor, req gateway.CreateAgentRequest) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	change := gateway.UpdateAgentRequest{
		AgentID: id, DisplayName: &req.DisplayName, Description: &req.Description,
		Instructions: &req.Instructions, Model: &req.Model,
	}
	if req.Visibility != "" {
		change.Visibility = &req.Visibility
	}
	_, err = s.cfg.API.Chat.UpdateAgent(r.Context(), actor, change)
	return err
}

// newSettingsPage fills one tab of the settings; what is no tab is the first. edit
// is the id of an assistant, "new" or "".
func (s *Server) newSettingsPage(r *http.Request, actor gateway.Actor, tab, edit string) (account.SettingsPage, error) {
	who, err := s.person(r, actor)
	if err != nil {
		return account.SettingsPage{}, err
	}
	p := account.SettingsPage{
		Site: s.site, Name: who.account.Name, Org: who.org.Name, Admin: who.admin,
		LogoutPath: logoutPath, Action: settingsPath, Tab: tab,
	}
	switch tab {
	case account.TabUsage:
		p.Usage, err = s.usageTab(r, actor)
	case account.TabAssistants:
		p.Assistants, err = s.assistantsTab(r, actor, edit)
	default:
		p.Tab = account.TabAccount
		p.Account, err = s.accountTab(r, actor, who)
	}
	return p, err
}

func (s *Server) accountTab(r *http.Request, actor gateway.Actor, who person) (account.AccountTab, error) {
	t := account.AccountTab{
		Name: who.account.Name, Email: who.account.Email, Role: string(who.account.Role),
		MinPassword: accounts.MinPasswordRunes, AdminScope: who.admin,
	}
	list, err := s.cfg.Accounts.OwnCredentials(r.Context(), actor)
	for _, c := range list {
		row := newCredentialRow(c)
		if c.Kind == gateway.CredentialSession {
			t.Sessions = append(t.Sessions, row)
		} else {
			t.Tokens = append(t.Tokens, row)
		}
	}
	return t, err
}

func newCredentialRow(c accounts.OwnCredential) account.CredentialRow {
	scopes := make([]string, len(c.Scopes))
	for i, scope := range c.Scopes {
		scopes[i] = string(scope)
	}
	return account.CredentialRow{
		ID: c.ID, Name: c.Name, Scopes: strings.Join(scopes, ", "),
		CreatedAt: c.CreatedAt, UsedAt: c.UsedAt, ExpiresAt: c.ExpiresAt, Current: c.Current,
	}
}

func (s *Server) usageTab(r *http.Request, actor gateway.Actor) (account.UsageTab, error) {
	u, err := s.cfg.Accounts.Usage(r.Context(), actor)
	if err != nil {
		return account.UsageTab{}, err
	}
	t := account.UsageTab{
		Suspended: u.Entitlement.Status == gateway.EntitlementSuspended, Waiting: u.Load.OrgQueued, ResetAt: u.ResetAt,
		Meters: []account.Meter{
			{ID: "member-daily", Label: "Yours today", Used: u.Load.MemberStarted, Limit: u.MemberDaily},
			{ID: "org-daily", Label: "Your organisation’s today", Used: u.Load.OrgStarted, Limit: u.OrgDaily},
			{ID: "member-turns", Label: "Yours running now", Used: u.Load.MemberActive, Limit: u.MemberTurns},
			{ID: "org-turns", Label: "Your organisation’s running now", Used: u.Load.OrgActive, Limit: u.OrgTurns},
		},
	}
	if u.Entitlement.Credits != nil {
		t.Metered, t.Credits = true, *u.Entitlement.Credits
	}
	return t, nil
}

func (s *Server) assistantsTab(r *http.Request, actor gateway.Actor, edit string) (account.AssistantsTab, error) {
	reply, err := s.cfg.API.Chat.Agents(r.Context(), actor)
	if err != nil {
		return account.AssistantsTab{}, err
	}
	var t account.AssistantsTab
	if edit == "new" {
		t.Edit = &account.AssistantRow{}
	}
	for _, a := range reply.Agents {
		row := account.AssistantRow{
			ID: a.ID, Name: a.DisplayName, Description: a.Description, Model: a.Model,
			Private: a.Visibility == gateway.VisibilityPrivate, Default: a.Default, Mine: a.Mine,
		}
		t.List = append(t.List, row)
		if a.Mine && a.ID == edit {
			row.Instructions = a.Instructions
			t.Edit = &row
		}
	}
	if t.Edit == nil {
		return t, nil
	}
	t.Models, err = s.modelOptions(r, actor, t.Edit.Model)
	return t, err
}

// modelOptions are the models on offer, and the one chosen before.
func (s *Server) modelOptions(r *http.Request, actor gateway.Actor, chosen string) ([]views.Option, error) {
	models, err := s.cfg.API.Models.Models(r.Context(), actor)
	if err != nil {
		return nil, err
	}
	options := make([]views.Option, 0, len(models)+1)
	for _, m := range models {
		label := m.Name
		if label == "" {
			label = m.ID
		}
		options = append(options, views.Option{Value: m.ID, Label: label})
		if m.ID == chosen {
			chosen = ""
		}
	}
	if chosen != "" {
		options = append(options, views.Option{Value: chosen, Label: chosen + " (not offered now)"})
	}
	return options, nil
}
