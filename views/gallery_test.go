package views_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/a-h/templ"

	"github.com/fairlead/fairlead/views"
	"github.com/fairlead/fairlead/views/account"
	"github.com/fairlead/fairlead/views/admin"
	"github.com/fairlead/fairlead/views/chat"
)

// hostile is what a person, a provider or a host may put into any text.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>' onload='x' </script> ${x} ` + "\u202e"

var site = views.Site{Base: "/base", Assets: "/base/static/abc", Version: "v1"}

// gallery is each page, once calm and once with hostile text in every field.
func gallery() map[string]templ.Component {
	at := time.Date(2026, 11, 30, 10, 31, 4, 118e6, time.UTC)
	pages := hostGallery(at)
	maps.Copy(pages, map[string]templ.Component{
		"setup":         account.SetupPage{Site: site, Action: "/setup", Token: "t", MinPassword: 10}.View(),
		"setup-errors":  setupErrors().View(),
		"setup-hostile": account.SetupPage{Site: site, Action: "/setup", Token: hostile, Name: hostile, Email: hostile, Error: hostile, Errors: map[string]string{"name": hostile}}.View(),
		"login":         account.LoginPage{Site: site, Action: "/login", Next: "/"}.View(),
		"login-notice":  account.LoginPage{Site: site, Action: "/login", Next: "/chats/1", Email: "mara@quay.example", Notice: "Your session ended. Log in to go on."}.View(),
		"login-hostile": account.LoginPage{Site: site, Action: "/login", Next: hostile, Email: hostile, Error: hostile, Notice: hostile}.View(),
		"error":         views.ErrorPage{Site: site, Status: 404, Title: "There is nothing here", Cure: "The address may be mistyped, or the thread was deleted.", RequestID: "019ad3c2-7b11-7c3e-9b1e-2f6a1d6c0a11"}.View(),
		"error-hostile": views.ErrorPage{Site: site, Status: 500, Title: hostile, Cure: hostile, RequestID: hostile, BackLabel: hostile}.View(),
		"chat":          chatPage("Mara", "Quay Ltd", "").View(),
		"chat-hostile":  chatPage(hostile, hostile, hostile).View(),
		"admin":         adminPage(at).View(),
		"admin-empty":   admin.Page{Site: site, Name: "Mara", Org: "Quay Ltd", SocketPath: "/ws"}.View(),
		"admin-hostile": adminHostile(at).View(),

		"join":                account.JoinPage{Site: site, Action: "/join", Token: "t", Org: "Quay Ltd", Email: "jan@quay.example", Admin: true, MinPassword: 10}.View(),
		"join-hostile":        account.JoinPage{Site: site, Action: "/join", Token: hostile, Org: hostile, Email: hostile, Form: formOf("")}.View(),
		"settings":            settingsPage(account.TabAccount, at).View(),
		"settings-usage":      settingsPage(account.TabUsage, at).View(),
		"settings-assistants": settingsPage(account.TabAssistants, at).View(),
		"settings-hostile":    settingsHostile(account.TabAccount, account.DoToken, at).View(),
		"usage-hostile":       settingsHostile(account.TabUsage, "", at).View(),
		"assistants-hostile":  settingsHostile(account.TabAssistants, account.DoAssistant, at).View(),
		"members":             membersPage(at).View(),
		"members-empty":       admin.Members{Site: site, Name: "Mara", Org: "Quay Ltd", Suspended: true}.View(),
		"members-hostile":     membersHostile(at).View(),
	})
	return pages
}

// formOf is a form that was refused, with hostile text in all of it.
func formOf(name string) views.FormState {
	x := map[string]string{}
	for _, field := range []string{"id", "name", "email", "role", "current", "password", "scopes", "days", "displayName", "description", "instructions", "model", "visibility", "status", "credits", "concurrentTurns", "dailyTurns"} {
		x[field] = hostile
	}
	return views.FormState{Name: name, Values: x, Errors: x, Error: hostile}
}

func settingsPage(tab string, at time.Time) account.SettingsPage {
	return account.SettingsPage{
		Site: site, Name: "Mara", Org: "Quay Ltd", Admin: true, LogoutPath: "/logout", Action: "/settings", Tab: tab, Notice: "Your name is saved.",
		Account: account.AccountTab{
			Name: "Mara", Email: "mara@quay.example", Role: "admin", MinPassword: 10, AdminScope: true, NewToken: "fl_0123",
			Sessions: []account.CredentialRow{{ID: "s1", CreatedAt: at, UsedAt: at, Current: true}, {ID: "s2", CreatedAt: at, UsedAt: at}},
			Tokens:   []account.CredentialRow{{ID: "t1", Name: "laptop", Scopes: "chat", CreatedAt: at, ExpiresAt: at}, {ID: "t2", Name: "cron", CreatedAt: at, UsedAt: at}},
		},
		Usage: account.UsageTab{Metered: true, Waiting: 2, ResetAt: at, Meters: []account.Meter{{ID: "member-daily", Label: "Yours today", Used: 9, Limit: 9}, {ID: "org-daily", Label: "All", Used: 12}}},
		Assistants: account.AssistantsTab{
			List:   []account.AssistantRow{{ID: "a1", Name: "Pilot", Default: true, Mine: true}, {ID: "a2", Name: "Cook", Description: "Knows fish", Model: "demo", Private: true, Mine: true}, {ID: "a3", Name: "Clerk"}},
			Edit:   &account.AssistantRow{ID: "a2", Name: "Cook", Instructions: "Be brief.", Model: "demo", Private: true, Mine: true},
			Models: []views.Option{{Value: "demo", Label: "Demo"}},
		},
	}
}

func settingsHostile(tab, failed string, at time.Time) account.SettingsPage {
	x := hostile
	return account.SettingsPage{
		Site: site, Name: x, Org: x, LogoutPath: "/logout", Action: "/settings", Tab: tab, Notice: x, Form: formOf(failed),
		Account: account.AccountTab{
			Name: x, Email: x, Role: x, NewToken: x,
			Sessions: []account.CredentialRow{{ID: x, Name: x}}, Tokens: []account.CredentialRow{{ID: x, Name: x, Scopes: x, CreatedAt: at}},
		},
		Usage: account.UsageTab{Suspended: true, Meters: []account.Meter{{ID: x, Label: x, Used: 1, Limit: 2}}},
		Assistants: account.AssistantsTab{
			List: []account.AssistantRow{{ID: x, Name: x, Description: x, Model: x, Mine: true}},
			Edit: &account.AssistantRow{ID: x, Name: x, Description: x, Instructions: "</textarea>" + x, Model: x}, Models: []views.Option{{Value: x, Label: x}},
		},
	}
}

func membersPage(at time.Time) admin.Members {
	return admin.Members{
		Site: site, Name: "Mara", Org: "Quay Ltd", LogoutPath: "/logout", Governs: true, OrgTurns: 4, Credits: "500",
		Link: "https://chat.example.com/join?token=t", LinkEmail: "jan@quay.example",
		Members: []admin.MemberRow{
			{ID: "m1", Name: "Mara", Email: "mara@quay.example", Admin: true, You: true, CreatedAt: at},
			{ID: "m2", Name: "Jan", Email: "jan@quay.example", Disabled: true, CreatedAt: at, Own: &admin.Limits{Daily: 5}},
		},
		Invitations: []admin.InvitationRow{
			{ID: "i1", Email: "new@quay.example", Role: "member", By: "Mara", CreatedAt: at, ExpiresAt: at},
			{ID: "i2", Email: "old@quay.example", Role: "admin", By: "the command line", CreatedAt: at, ExpiresAt: at, Expired: true},
		},
	}
}

func membersHostile(at time.Time) admin.Members {
	x := hostile
	return admin.Members{
		Site: site, Name: x, Org: x, Notice: x, Form: formOf(admin.DoMemberLimits), Governs: true, Credits: x, Link: x, LinkEmail: x,
		Members:     []admin.MemberRow{{ID: x, Name: x, Email: x, CreatedAt: at}},
		Invitations: []admin.InvitationRow{{ID: x, Email: x, Role: x, By: x}},
	}
}

func setupErrors() account.SetupPage {
	return account.SetupPage{
		Site: site, Action: "/setup", Token: "t", Name: "Mara", Email: "mara", MinPassword: 10,
		Errors: map[string]string{"email": "This is not an email address.", "password": "Use at least 10 characters."},
	}
}

func chatPage(name, org, title string) chat.Page {
	threads, _ := json.Marshal(map[string]any{"threads": []map[string]any{{"id": "1", "title": title}}})
	return chat.Page{
		Site: site, Account: chat.Account{ID: "a1", Name: name, Org: org, Admin: true},
		SocketPath: "/ws", ThreadID: "1", Title: title, Threads: threads, LogoutPath: "/logout",
	}
}

func adminPage(at time.Time) admin.Page {
	return admin.Page{
		Site: site, Name: "Mara", Org: "Quay Ltd", SocketPath: "/ws", LogoutPath: "/logout", Limit: 200,
		Turns: []admin.TurnRow{
			{TurnID: "019ad3c2-7b11-7c3e-9b1e-2f6a1d6c0a11", Status: "running", ThreadID: "019ad3c2-0001-7c3e-9b1e-2f6a1d6c0a11", ThreadTitle: "Tide tables for the crossing", Account: "Mara", Model: "claude-sonnet", HostName: "study", Reservation: "turn_2e0c2b502054945ff11d4e1e13d27acc2e73bbb4a28c6513b92d7babf535c58c", Bytes: 2310, CreatedAt: at, StartedAt: at.Add(8 * time.Millisecond)},
			{TurnID: "019ad3c1-7b11-7c3e-9b1e-2f6a1d6c0a12", Status: "failed", Error: "model_credential_invalid", ThreadID: "019ad3c2-0002-7c3e-9b1e-2f6a1d6c0a11", ThreadTitle: "Letter to the harbour office", Account: "Mara", Model: "claude-sonnet", HostName: "study", CreatedAt: at.Add(-time.Hour), EndedAt: at.Add(-time.Hour + time.Second)},
			{TurnID: "019ad3c0-7b11-7c3e-9b1e-2f6a1d6c0a13", Status: "pending", Reason: "no_room", ThreadID: "019ad3c2-0003-7c3e-9b1e-2f6a1d6c0a11", ThreadTitle: "Refit checklist", Account: "Jan", Model: "demo", HostName: "embedded", CreatedAt: at.Add(-2 * time.Hour)},
		},
		Bindings: []admin.BindingRow{
			{BindingID: "binding_019a61d27b117c3e9b1e2f6a1d6c0a11", RunID: "019ad3c2-1111-7c3e-9b1e-2f6a1d6c0a11", HostName: "study", ThreadID: "1", Account: "Mara", VirtualThreadID: "local_thread_4be1a7b2c3d4e5f60718293a4b5c90d2", Provider: "anthropic", ProviderID: "study-key", Model: "claude-sonnet", Turns: 3, Unsettled: 1, Cursor: 500, CreatedAt: at.Add(-time.Hour), UsedAt: at},
		},
		Routes: []admin.RouteRow{
			{HostID: "h1", HostName: "embedded", Model: "demo", Provider: "Demo", ProviderID: "demo", Family: "demo", Credential: "no_auth", Ready: true, Default: true},
			{HostID: "h2", HostName: "study", Model: "claude-sonnet", Provider: "Anthropic", ProviderID: "study-key", Family: "anthropic", Credential: "configured", Ready: true, Capabilities: []string{"images", "reasoning: low, high", "output limit"}},
			{HostID: "h2", HostName: "study", Model: "gpt-x", Provider: "OpenAI", ProviderID: "work", Family: "openai", Reason: "OPENAI_KEY is not set"},
		},
		Hosts: []admin.HostRow{
			{HostID: "019ad3c2-aaaa-7c3e-9b1e-2f6a1d6c0a11", Name: "embedded", Embedded: true, State: "online", Version: "v1", Inflight: 1, Max: 8, OpenRuns: 1, Routes: 1, Since: at.Add(-time.Hour), SeenAt: at},
			{HostID: "019ad3c2-bbbb-7c3e-9b1e-2f6a1d6c0a11", Name: "study", State: "lost", Version: "v1", Max: 8, Routes: 2, Since: at, SeenAt: at.Add(-time.Minute)},
		},
	}
}

func adminHostile(at time.Time) admin.Page {
	x := hostile
	return admin.Page{
		Site: site, Name: x, Org: x, SocketPath: "/ws",
		Turns:    []admin.TurnRow{{TurnID: x, Status: x, Reason: x, Error: x, ThreadID: x, ThreadTitle: x, Account: x, Model: x, HostName: x, BindingID: x, Reservation: x, DetailPath: "javascript:alert(1)", CreatedAt: at}},
		Bindings: []admin.BindingRow{{BindingID: x, RunID: x, HostName: x, ThreadID: x, Account: x, VirtualThreadID: x, Provider: x, ProviderID: x, Model: x}},
		Routes:   []admin.RouteRow{{HostID: x, HostName: x, Model: x, Provider: x, ProviderID: x, Family: x, Credential: x, Reason: x, Capabilities: []string{x}}},
		Hosts:    []admin.HostRow{{HostID: x, Name: x, TargetRef: x, State: x, Version: x, Capabilities: []string{x}}},
	}
}

func render(t *testing.T, page templ.Component) string {
	t.Helper()
	var html strings.Builder
	if err := page.Render(context.Background(), &html); err != nil {
		t.Fatalf("render: %v", err)
	}
	return html.String()
}

func parse(t *testing.T, html string) *goquery.Document {
	t.Helper()
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(html))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return doc
}

// TestPages_ObeyTheContentSecurityPolicy renders every page and looks for what
// script-src 'self' and style-src 'self' would refuse, and for hostile text that
// became markup. With GALLERY_DIR set the pages are kept there, to be looked at.
func TestPages_ObeyTheContentSecurityPolicy(t *testing.T) {
	t.Parallel()
	for name, page := range gallery() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			html := render(t, page)
			if dir := os.Getenv("GALLERY_DIR"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, name+".html"), []byte(html), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			doc := parse(t, html)
			doc.Find("script").Each(func(_ int, s *goquery.Selection) {
				_, external := s.Attr("src")
				if kind, _ := s.Attr("type"); !external && kind != "application/json" {
					t.Errorf("inline script: %.80s", s.Text())
				}
			})
			if doc.Find("style, [style], img, iframe, object, base").Length() > 0 {
				t.Error("the page holds a style, an image or a frame")
			}
			doc.Find("*").Each(func(_ int, s *goquery.Selection) {
				for _, attr := range s.Nodes[0].Attr {
					if strings.HasPrefix(strings.ToLower(attr.Key), "on") {
						t.Errorf("handler %s on %s", attr.Key, s.Nodes[0].Data)
					}
					if strings.HasPrefix(strings.TrimSpace(attr.Val), "javascript:") && attr.Key == "href" {
						t.Errorf("script address on %s", s.Nodes[0].Data)
					}
				}
			})
		})
	}
}

// TestPages_StayUnderTheBasePath: every address on a page starts with the public
// base path.
func TestPages_StayUnderTheBasePath(t *testing.T) {
	t.Parallel()
	for name, page := range gallery() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := parse(t, render(t, page))
			doc.Find("[href], [src], [action]").Each(func(_ int, s *goquery.Selection) {
				for _, key := range []string{"href", "src", "action"} {
					address, ok := s.Attr(key)
					if ok && !strings.HasPrefix(address, "/base/") && !strings.HasPrefix(address, "#") && address != "about:invalid#TemplFailedSanitizationURL" {
						t.Errorf("%s=%q leaves the base path", key, address)
					}
				}
			})
		})
	}
}
