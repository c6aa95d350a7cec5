package httpd_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
)

// dom is a page as a browser reads it.
func dom(t *testing.T, res answer) *goquery.Document {
	t.Helper()
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(res.body))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// post sends a form of a page and wants a status.
func (br *browser) post(path string, status int, pairs ...string) answer {
	br.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	res := br.do("POST", path, form)
	if res.StatusCode != status {
		br.t.Fatalf("%s %v: %s, want %d: %s", path, pairs, res.Status, status, dom(br.t, res).Find(".alert, .field-error, [data-testid=error-page]").Text())
	}
	return res
}

func (b *bench) member(t *testing.T, email string) gateway.Account {
	t.Helper()
	acc, err := b.accounts.UserByEmail(t.Context(), accounts.Operator(), email)
	if err != nil {
		t.Fatal(err)
	}
	return acc
}

const members = "/admin/members"

func TestAnInvitationGoesFromThePageToTheFirstLogin(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	admin := b.as(t, adminEmail)
	res := admin.post(members, 200, "do", "invite", "email", " New@Example.com", "role", "member")
	link := dom(t, res).Find("#invitation-link").AttrOr("value", "")
	if !strings.HasPrefix(link, b.base+"/join?token=") {
		t.Fatalf("link %q", link)
	}
	page := admin.get(members)
	if row := dom(t, page).Find("[data-testid=invitation-row]").Text(); !strings.Contains(row, "new@example.com") || !strings.Contains(row, "Ada") {
		t.Errorf("row %q", row)
	}
	_, secret, _ := strings.Cut(link, "token=")
	if strings.Contains(page.body, secret) {
		t.Error("the link is shown again")
	}

	guest := b.browser(t)
	for range 2 { // opening uses nothing up, also not by a mail scanner
		form := dom(t, guest.get("/join?token="+secret))
		if form.Find("[data-testid=join-email]").Text() != "new@example.com" || form.Find("form").AttrOr("action", "") != "/join" {
			t.Fatal("the page does not say who is invited, or its form leaks the token into a path")
		}
	}
	res = guest.post("/join", 400, "invitation", secret, "name", "New <b>", "password", "short")
	if doc := dom(t, res); doc.Find("#password-error").Length() != 1 || doc.Find("#name").AttrOr("value", "") != "New <b>" || strings.Contains(res.body, "short\"") {
		t.Error("the form does not come back with what was typed, or with the password")
	}
	res = guest.post("/join", 303, "invitation", secret, "name", "New", "password", password)
	if at := res.Header.Get("Location"); !strings.HasPrefix(at, "/login/check") {
		t.Errorf("goes on to %s", at)
	}
	if res := guest.get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("the guest is not logged in: %s", res.Status)
	}
	if res := guest.get(members); res.StatusCode != http.StatusForbidden {
		t.Errorf("a member sees the admin pages: %s", res.Status)
	}
	again := b.browser(t).get("/join?token=" + secret)
	if again.StatusCode != http.StatusBadRequest || !strings.Contains(again.body, "Ask for a new one") {
		t.Errorf("a used link: %s", again.Status)
	}
	if log := b.log.String(); strings.Contains(log, secret) || strings.Contains(log, password) {
		t.Error("a secret stands in the log")
	}
}

func TestAnAddressWithAnAccountIsToldToLogIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	admin := b.as(t, adminEmail)
	res := admin.post(members, 400, "do", "invite", "email", memberEmail, "role", "member")
	if doc := dom(t, res); !strings.Contains(doc.Find("#email-error").Text(), "Another account") || doc.Find("#invitation-link").Length() != 0 {
		t.Error("the form does not say what is wrong")
	}
	res = admin.post(members, 200, "do", "invite", "email", "new@example.com", "role", "admin")
	_, secret, _ := strings.Cut(dom(t, res).Find("#invitation-link").AttrOr("value", ""), "token=")
	if _, err := b.accounts.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{Email: "new@example.com", Password: password}); err != nil {
		t.Fatal(err)
	}
	guest := b.browser(t)
	res = guest.post("/join", 400, "invitation", secret, "name", "New", "password", password)
	if !strings.Contains(dom(t, res).Find("[data-testid=form-error]").Text(), "account with this address already") {
		t.Error("the guest is not told")
	}
	if res := guest.get("/join?token=" + secret); res.StatusCode != http.StatusOK {
		t.Errorf("the invitation was burned: %s", res.Status)
	}
}

func TestTheLinkLeadsToTheSiteThatTheAdminUses(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{public: "http://chat.example.com/base", origins: []string{"http://other.example.com"}})
	b.people(t)
	token := b.token(t, adminEmail, gateway.ScopeChat, gateway.ScopeAdmin)
	for _, tt := range []struct{ host, origin, want string }{
		{"other.example.com", "", "http://other.example.com/base/join?"},
		{"chat.example.com", "", "http://chat.example.com/base/join?"},
		{"chat.example.com", "http://other.example.com", "http://other.example.com/base/join?"},
		{"evil.example.net", "", "http://chat.example.com/base/join?"},
	} {
		header := []string{"Authorization", "Bearer " + token, "Host", tt.host}
		if tt.origin != "" {
			header = append(header, "Origin", tt.origin)
		}
		res := b.browser(t).do("POST", members, url.Values{"do": {"invite"}, "email": {"new@example.com"}, "role": {"member"}}, header...)
		if link := dom(t, res).Find("#invitation-link").AttrOr("value", ""); !strings.HasPrefix(link, tt.want) {
			t.Errorf("%+v: %s, link %q", tt, res.Status, link)
		}
	}
}

func TestAD6_TheActorKnowsTheSiteItCameThrough(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{public: "https://chat.example.com/base", origins: []string{"https://other.example.com:8443"}})
	b.people(t)
	token := b.token(t, adminEmail, gateway.ScopeChat)
	for _, tt := range []struct{ host, origin, want string }{
		{"chat.example.com", "", "https://chat.example.com"},
		{"CHAT.example.com:443", "", "https://chat.example.com"},
		{"other.example.com:8443", "", "https://other.example.com:8443"},
		{"127.0.0.1:8080", "https://other.example.com:8443", "https://other.example.com:8443"},
		{"127.0.0.1:8080", "https://evil.example.net", ""},
		{"evil.example.net", "", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		r.Header.Set("Authorization", "Bearer "+token)
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		actor, err := b.gate.Authenticate(r)
		if err != nil || actor.Origin != tt.want {
			t.Errorf("%+v: origin %q, %v", tt, actor.Origin, err)
		}
	}
}

func TestAdminsManageMembers(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	admin, bob := b.as(t, adminEmail), b.as(t, memberEmail)
	id := b.member(t, memberEmail).ID
	row := func() string {
		t.Helper()
		return dom(t, admin.get(members)).Find("[data-email='" + memberEmail + "']").Text()
	}
	res := admin.post(members, 303, "do", "member-limits", "id", id, "concurrentTurns", "2", "dailyTurns", "30")
	if notice := dom(t, admin.get(res.Header.Get("Location"))).Find("[data-testid=notice]").Text(); notice == "" {
		t.Error("nothing says that it is done")
	}
	if !strings.Contains(row(), "2 at once, 30 a day") {
		t.Errorf("row %q", row())
	}
	res = admin.post(members, 400, "do", "member-limits", "id", id, "concurrentTurns", "-2", "dailyTurns", "many")
	if doc := dom(t, res); doc.Find("details[open] .field-error").Length() != 2 || doc.Find(".field-error").Length() != 2 ||
		doc.Find("#member-limits"+id+"-dailyTurns").AttrOr("value", "") != "many" {
		t.Error("the faults do not stand in the form of the member")
	}
	admin.post(members, 303, "do", "member-limits", "id", id, "reset", "yes")
	if !strings.Contains(row(), "as the org") {
		t.Errorf("row %q", row())
	}
	admin.post(members, 303, "do", "role", "id", id, "role", "admin")
	if res := bob.get(members); res.StatusCode != http.StatusOK {
		t.Errorf("a new admin gets %s", res.Status)
	}
	admin.post(members, 303, "do", "disable", "id", id)
	if res := bob.get("/"); res.StatusCode != http.StatusSeeOther {
		t.Errorf("a disabled member gets %s", res.Status)
	}
	if res := b.browser(t).login(memberEmail); res.StatusCode != http.StatusUnauthorized || !strings.Contains(res.body, "Email or password is wrong.") {
		t.Errorf("a disabled member logs in: %s", res.Status)
	}
	if !strings.Contains(row(), "disabled") {
		t.Errorf("row %q", row())
	}
	res = admin.post(members, 409, "do", "disable", "id", b.member(t, adminEmail).ID)
	if !strings.Contains(dom(t, res).Find("[data-testid=page-error]").Text(), "last admin") {
		t.Error("the last admin is not told why they stay")
	}
	admin.post(members, 303, "do", "enable", "id", id)
	b.as(t, memberEmail)
	for _, bad := range []string{"", "x", noThread, id + "\x00"} {
		admin.post(members, 404, "do", "disable", "id", bad)
	}
	admin.post(members, 400, "do", "fly")
}

func TestAnAdminSetsLimitsAndCreditsOfTheOnlyOrg(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	admin := b.as(t, adminEmail)
	admin.post(members, 303, "do", "member-defaults", "concurrentTurns", "2", "dailyTurns", "50")
	admin.post(members, 303, "do", "org-limits", "concurrentTurns", "0", "dailyTurns", "500")
	admin.post(members, 303, "do", "entitlement", "status", "suspended", "credits", "120")
	doc := dom(t, admin.get(members))
	for selector, want := range map[string]string{
		"#member-defaults-dailyTurns": "50", "#org-limits-dailyTurns": "500", "#credits": "120",
	} {
		if got := doc.Find(selector).AttrOr("value", ""); got != want {
			t.Errorf("%s is %q", selector, got)
		}
	}
	res := admin.post(members, 400, "do", "entitlement", "status", "active", "credits", "lots")
	if d := dom(t, res); d.Find("#credits-error").Length() != 1 || d.Find("#credits").AttrOr("value", "") != "lots" {
		t.Error("credits that are no number are not refused beside their field")
	}
	member := dom(t, b.as(t, memberEmail).get("/settings?tab=usage"))
	if member.Find("[data-testid=usage-alert]").Length() != 1 || member.Find("[data-testid=credits]").Text() != "120" ||
		!strings.Contains(member.Find("[data-testid=meter-member-daily]").Text(), "0 of 50") {
		t.Errorf("a member does not see it: %s", member.Find(".sheet").Text())
	}
	if _, err := b.accounts.CreateOrg(t.Context(), accounts.Operator(), "Quay"); err != nil {
		t.Fatal(err)
	}
	doc = dom(t, admin.get(members))
	if doc.Find("#credits").Length() != 0 || !strings.Contains(doc.Find("[data-testid=entitlement]").Text(), "120") {
		t.Error("among several orgs an admin is shown the operator's form")
	}
	admin.post(members, 403, "do", "entitlement", "status", "active", "credits", "")
}
