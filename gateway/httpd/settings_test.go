package httpd_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway/accounts"
)

func TestSettingsHaveThreeTabs(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	bob := b.as(t, memberEmail)
	for tab, heading := range map[string]string{"": "Account", "account": "Account", "nothing": "Account", "usage": "Usage", "assistants": "Assistants"} {
		doc := dom(t, bob.get("/settings?tab="+tab))
		if got := doc.Find("h1").Text(); got != heading {
			t.Errorf("tab %q is headed %q", tab, got)
		}
		if got := strings.TrimSpace(doc.Find(".side [aria-current]").Text()); got != heading {
			t.Errorf("tab %q marks %q", tab, got)
		}
	}
	if doc := dom(t, bob.get("/settings")); doc.Find("a[href='/admin']").Length() != 0 {
		t.Error("a member is led to the admin pages")
	}
}

func TestAPersonChangesNameAndPassword(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	bob, elsewhere := b.as(t, memberEmail), b.as(t, memberEmail)
	bob.post("/settings", 303, "tab", "account", "do", "rename", "name", "Robert")
	if doc := dom(t, bob.get("/settings")); doc.Find("#account-name").AttrOr("value", "") != "Robert" || !strings.Contains(doc.Find(".who-name").Text(), "Robert") {
		t.Error("the name is not changed")
	}
	res := bob.post("/settings", 400, "do", "rename", "name", " ")
	if dom(t, res).Find("#account-name-error").Length() != 1 {
		t.Error("an empty name is not refused beside its field")
	}
	const fresh = "another horse battery"
	res = bob.post("/settings", 400, "do", "password", "current", "wrong password", "password", fresh)
	if dom(t, res).Find("#current-error").Length() != 1 || strings.Contains(res.body, fresh) || strings.Contains(res.body, "wrong password") {
		t.Error("a wrong password is not refused beside its field, or is sent back")
	}
	bob.post("/settings", 303, "do", "password", "current", password, "password", fresh)
	if res := bob.get("/settings"); res.StatusCode != http.StatusOK {
		t.Errorf("who changed it is logged out: %s", res.Status)
	}
	if res := elsewhere.get("/settings"); res.StatusCode != http.StatusSeeOther {
		t.Errorf("the other browser stays logged in: %s", res.Status)
	}
	if log := b.log.String(); strings.Contains(log, fresh) {
		t.Error("a password stands in the log")
	}
}

func TestAPersonMakesAndRevokesTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	bob, ada := b.as(t, memberEmail), b.as(t, adminEmail)
	res := bob.post("/settings", 200, "do", "token", "name", "laptop", "scopes", "chat", "days", "7")
	token := dom(t, res).Find("#new-token").AttrOr("value", "")
	if use := b.browser(t).get("/settings", "Authorization", "Bearer "+token); token == "" || use.StatusCode != http.StatusOK {
		t.Fatalf("token %q: %s", token, use.Status)
	}
	page := bob.get("/settings")
	doc := dom(t, page)
	if strings.Contains(page.body, token) || !strings.Contains(doc.Find("[data-testid=token-row]").Text(), "laptop") {
		t.Error("the token is shown again, or its row is missing")
	}
	res = bob.post("/settings", 400, "do", "token", "name", "x", "scopes", "chat admin", "days", "7")
	if dom(t, res).Find("details[open] #token-scopes-error").Length() != 1 {
		t.Error("a member's admin token is not refused beside its field")
	}
	bob.post("/settings", 400, "do", "token", "name", "x", "scopes", "chat", "days", "-1")
	refused := b.browser(t).do("POST", "/settings", url.Values{"do": {"token"}, "name": {"x"}, "scopes": {"chat"}, "days": {"0"}}, "Authorization", "Bearer "+token)
	if refused.StatusCode != http.StatusForbidden {
		t.Errorf("a token makes tokens: %s", refused.Status)
	}
	id := doc.Find("[data-testid=token-row] input[name=id]").AttrOr("value", "")
	ada.post("/settings", 404, "do", "revoke", "id", id)
	bob.post("/settings", 303, "do", "revoke", "id", id)
	if use := b.browser(t).get("/settings", "Authorization", "Bearer "+token, "Accept", "application/json"); use.StatusCode != http.StatusUnauthorized {
		t.Errorf("a revoked token gets %s", use.Status)
	}
	if res := dom(t, ada.post("/settings", 200, "do", "token", "name", "ops", "scopes", "chat admin", "days", "0")); res.Find("#new-token").Length() != 1 {
		t.Error("an admin gets no token for both scopes")
	}
}

func TestASessionIsEndedFromAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	bob, phone := b.as(t, memberEmail), b.as(t, memberEmail)
	doc := dom(t, bob.get("/settings"))
	if doc.Find("[data-testid=session-row]").Length() != 2 || doc.Find("[data-testid=session-row] form").Length() != 1 {
		t.Fatalf("sessions: %s", doc.Find("[data-testid=sessions]").Text())
	}
	bob.post("/settings", 303, "do", "revoke", "id", doc.Find("[data-testid=session-row] input[name=id]").AttrOr("value", ""))
	if phone.get("/").StatusCode != http.StatusSeeOther || bob.get("/").StatusCode != http.StatusOK {
		t.Error("the wrong session is ended")
	}
}

func TestAssistantsAreMadeChangedAndDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	bob, ada := b.as(t, memberEmail), b.as(t, adminEmail)
	const tab = "/settings?tab=assistants"
	rows := func(br *browser) string {
		t.Helper()
		return dom(t, br.get(tab)).Find("[data-testid=assistants]").Text()
	}
	if doc := dom(t, bob.get(tab+"&edit=new")); doc.Find("#assistant-model option").Length() != 3 {
		t.Error("the form does not offer the models")
	}
	res := bob.post("/settings", 400, "do", "assistant", "id", "", "displayName", "", "instructions", "Be <brief>.", "model", "nothing", "visibility", "private")
	if doc := dom(t, res); doc.Find("#assistant-name-error").Length() != 1 || doc.Find("#assistant-instructions").Text() != "Be <brief>." {
		t.Error("the form does not come back with what was typed")
	}
	res = bob.post("/settings", 400, "do", "assistant", "id", "", "displayName", "Cook", "model", "nothing", "visibility", "private")
	if dom(t, res).Find("#assistant-model-error").Length() != 1 {
		t.Error("an unknown model is not refused beside its field")
	}
	bob.post("/settings", 303, "do", "assistant", "id", "", "displayName", "Cook", "description", "Knows fish",
		"instructions", "Line one\r\nline two", "model", "alpha", "visibility", "private")
	if !strings.Contains(rows(bob), "Cook") || strings.Contains(rows(ada), "Cook") {
		t.Errorf("bob sees %q, ada %q", rows(bob), rows(ada))
	}
	edit := dom(t, bob.get(tab)).Find("[data-testid=assistant-row] a").AttrOr("href", "")
	form := dom(t, bob.get(edit))
	id := form.Find("[data-testid=assistant-editor] input[name=id]").AttrOr("value", "")
	if form.Find("#assistant-instructions").Text() != "Line one\nline two" || form.Find("#assistant-model option[selected]").AttrOr("value", "") != "alpha" {
		t.Errorf("the form of %s holds %q", id, form.Find("#assistant-instructions").Text())
	}
	bob.post("/settings", 303, "do", "assistant", "id", id, "displayName", "Chef", "description", "", "instructions", "Brief.", "model", "", "visibility", "org")
	if doc := dom(t, ada.get(tab)); !strings.Contains(doc.Find("[data-testid=assistants]").Text(), "Chef") {
		t.Error("an assistant for all is not shown to others")
	}
	carol := b.another(t, "carol@example.com")
	if doc := dom(t, carol.get(tab+"&edit="+id)); doc.Find("[data-testid=assistant-editor]").Length() != 0 || strings.Contains(doc.Text(), "Brief.") {
		t.Error("another member sees its instructions")
	}
	carol.post("/settings", 403, "do", "assistant", "id", id, "displayName", "Mine")
	carol.post("/settings", 403, "do", "assistant-delete", "id", id)
	bob.post("/settings", 303, "do", "assistant-delete", "id", id)
	if strings.Contains(rows(bob), "Chef") {
		t.Error("a deleted assistant is still there")
	}
	bob.post("/settings", 404, "do", "assistant-delete", "id", id)
}

// another makes a further member and logs it in.
func (b *bench) another(t *testing.T, email string) *browser {
	t.Helper()
	secret, _, err := b.accounts.Invite(t.Context(), accounts.Operator(), accounts.NewInvitation{Email: email})
	if err != nil {
		t.Fatal(err)
	}
	br := b.browser(t)
	br.post("/join", 303, "invitation", secret, "name", email, "password", password)
	return br
}
