package httpd_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	hostsPage    = "/admin/hosts"
	bindingsPage = "/admin/bindings"
)

// outsider is the admin of another org than the first.
func (b *bench) outsider(t *testing.T) *browser {
	t.Helper()
	if _, err := b.accounts.CreateOrg(t.Context(), accounts.Operator(), "Elsewhere"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.accounts.CreateUser(t.Context(), accounts.Operator(), accounts.NewUser{
		Name: "Eve", Email: "eve@example.com", Password: password, Role: gateway.RoleAdmin, Org: "Elsewhere",
	}); err != nil {
		t.Fatal(err)
	}
	return b.as(t, "eve@example.com")
}

// invite makes an invitation on the page and gives the command that it shows.
func (br *browser) invite(name, labels string) string {
	br.t.Helper()
	res := br.post(hostsPage, http.StatusOK, "do", "host-invite", "name", name, "labels", labels)
	return dom(br.t, res).Find("#join-command").AttrOr("value", "")
}

// joined joins a host by the command of an invitation.
func (b *bench) joined(t *testing.T, command, hostID string) {
	t.Helper()
	words := strings.Fields(command)
	_, err := b.hosts.Join(t.Context(), "192.0.2.1", wire.HostJoin{
		Token: words[len(words)-1], HostID: hostID, PublicKey: base64.RawURLEncoding.EncodeToString(make([]byte, 32)), Name: "its own name", Version: "1.0.0",
	})
	if err != nil {
		t.Fatal(err)
	}
}

// shown is the text of an element, with single spaces.
func shown(t *testing.T, res answer, selector string) string {
	t.Helper()
	return strings.Join(strings.Fields(dom(t, res).Find(selector).Text()), " ")
}

// TestHosts_FromTheInvitationToTheRevocation: all of it by forms, without script.
func TestHosts_FromTheInvitationToTheRevocation(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true})
	b.people(t)
	ada := b.as(t, adminEmail)
	command := ada.invite("study", "gpu site=berlin")
	if !strings.HasPrefix(command, "fairlead host join "+b.base+" fh_") {
		t.Fatalf("command %q", command)
	}
	page := ada.get(hostsPage)
	if strings.Contains(page.body, strings.Fields(command)[4]) {
		t.Error("the token is shown again")
	}
	if row := shown(t, page, "[data-testid=host-invite-row]"); !strings.Contains(row, "study") || !strings.Contains(row, "site=berlin") || !strings.Contains(row, "by Ada") {
		t.Errorf("invitation %q", row)
	}
	b.joined(t, command, "target_study")
	if got := shown(t, ada.get(hostsPage), "[data-testid=host-invite-row]"); got != "" {
		t.Errorf("a used invitation is listed: %q", got)
	}
	path := dom(t, ada.get(hostsPage)).Find("[data-testid=host-row] th a").AttrOr("href", "")
	if path != hostsPage+"/target_study" {
		t.Fatalf("the row leads to %q", path)
	}
	if facts := shown(t, ada.get(path), "[data-testid=host-facts]"); !strings.Contains(facts, "invited by Ada") {
		t.Errorf("facts %q", facts)
	}
	step := func(want string, pairs ...string) {
		t.Helper()
		res := ada.post(path, http.StatusSeeOther, pairs...)
		after := ada.get(strings.TrimPrefix(res.Header.Get("Location"), b.public.Path))
		if text := shown(t, after, "main"); !strings.Contains(text, want) {
			t.Errorf("after %v the page does not say %q: %s", pairs, want, text)
		}
	}
	step("Study room", "do", "host-rename", "name", " Study room ")
	step("cpu only", "do", "host-labels", "labels", "cpu  only cpu")
	step("to drain", "do", "host-drain")
	step("takes turns again", "do", "host-resume")
	step("revoked", "do", "host-revoke")
	ada.post(path, http.StatusNotFound, "do", "host-rename", "name", "again")
	if log := b.log.String(); strings.Contains(log, "fh_") {
		t.Error("a token stands in the log")
	}
}

func TestHosts_SayWhatIsWrongWithAForm(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true})
	b.people(t)
	ada := b.as(t, adminEmail)
	res := ada.post(hostsPage, http.StatusBadRequest, "do", "host-invite", "name", "study", "labels", "a<b")
	if doc := dom(t, res); !strings.Contains(doc.Find("#labels-error").Text(), "1 to 64 letters") || doc.Find("#labels").AttrOr("value", "") != "a<b" || doc.Find("#join-command").Length() != 0 {
		t.Error("the form does not come back with what was typed and what is wrong")
	}
	b.joined(t, ada.invite("", ""), "target_1")
	res = ada.post(hostsPage+"/target_1", http.StatusBadRequest, "do", "host-rename", "name", " ")
	if text := dom(t, res).Find("#name-error").Text(); text == "" {
		t.Error("an empty name is not refused at its field")
	}
	ada.post(hostsPage, http.StatusBadRequest, "do", "nothing")
	ada.post(hostsPage+"/target_unknown", http.StatusNotFound, "do", "host-drain")
	if res := ada.get(hostsPage + "/target_unknown"); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown host: %s", res.Status)
	}
}

func TestHosts_AnInvitationIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true})
	b.people(t)
	ada := b.as(t, adminEmail)
	ada.invite("", "")
	id := dom(t, ada.get(hostsPage)).Find("[data-testid=host-invite-row] input[name=id]").AttrOr("value", "")
	ada.post(hostsPage, http.StatusSeeOther, "do", "host-invite-revoke", "id", id)
	if got := shown(t, ada.get(hostsPage), "[data-testid=host-invite-row]"); got != "" {
		t.Errorf("it is still listed: %q", got)
	}
	ada.post(hostsPage, http.StatusNotFound, "do", "host-invite-revoke", "id", id)
}

// TestHosts_AreManagedByTheFirstOrg: the admins of another see them, and no more.
func TestHosts_AreManagedByTheFirstOrg(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true})
	b.people(t)
	ada := b.as(t, adminEmail)
	b.joined(t, ada.invite("study", ""), "target_1")
	eve := b.outsider(t)
	for _, path := range []string{hostsPage, hostsPage + "/target_1"} {
		res := eve.get(path)
		if forms := dom(t, res).Find("main form").Length(); res.StatusCode != http.StatusOK || forms != 0 {
			t.Errorf("%s: %s with %d forms", path, res.Status, forms)
		}
	}
	for _, do := range []string{"host-rename", "host-labels", "host-drain", "host-resume", "host-revoke"} {
		res := eve.post(hostsPage+"/target_1", http.StatusForbidden, "do", do, "name", "hers")
		if strings.Contains(shown(t, res, "main"), "hers") {
			t.Errorf("%s was done", do)
		}
	}
	eve.post(hostsPage, http.StatusForbidden, "do", "host-invite")
}

// TestHosts_AFormOfAnotherSiteIsRefused (F18).
func TestHosts_AFormOfAnotherSiteIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true})
	b.people(t)
	ada := b.as(t, adminEmail)
	b.joined(t, ada.invite("study", ""), "target_1")
	for _, path := range []string{hostsPage, hostsPage + "/target_1", bindingsPage + "/b1"} {
		res := ada.do("POST", path, url.Values{"do": {"host-revoke"}}, "Origin", "https://evil.example")
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	if got := shown(t, ada.get(hostsPage), "[data-testid=host-row]"); strings.Contains(got, "revoked") {
		t.Error("the host was revoked")
	}
}

// running has a host run a turn of an account, and gives the turn with its binding.
func (b *bench) running(t *testing.T, email, prompt string) (turn gateway.AdminTurn, as gateway.Actor) {
	t.Helper()
	acc := b.member(t, email)
	as = gateway.Actor{AccountID: acc.ID, OrgID: acc.OrgID, Role: gateway.RoleAdmin, Scopes: []gateway.Scope{gateway.ScopeChat, gateway.ScopeAdmin}}
	reply, err := b.chat.Send(t.Context(), as, gateway.SendRequest{
		ClientEventID: uuid.NewString(),
		UserMessage:   gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "text", Text: prompt}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(context.Context, gateway.Ledger) error{b.host.Fetch, b.host.Answer} {
		if err := step(t.Context(), b.chat); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := b.chat.AdminTurns(t.Context(), as, gateway.Page{TurnID: *reply.TurnID})
	if err != nil || len(rows.Rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	return rows.Rows[0], as
}

// TestBindings_AnAdminEndsATurnOfADeadHost: the host of it is known to nobody. The
// page holds nothing that a person wrote.
func TestBindings_AnAdminEndsATurnOfADeadHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true})
	b.people(t)
	turn, _ := b.running(t, memberEmail, "a secret prompt")
	ada := b.as(t, adminEmail)
	list := ada.get(bindingsPage + "?state=open&thread=" + turn.ThreadID + "&host=host-1")
	path := dom(t, list).Find("[data-testid=binding-row] th a").AttrOr("href", "")
	if path != bindingsPage+"/"+turn.BindingID {
		t.Fatalf("the list leads to %q: %s", path, shown(t, list, "main"))
	}
	page := ada.get(path)
	for _, want := range []string{"chat:" + turn.ThreadID, turn.RunID, turn.VirtualTurnID, "not known any more", "prompt.request", "answered", "input.prompt"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	if strings.Contains(list.body+page.body, "secret") {
		t.Error("a page shows what a person wrote")
	}
	ada.post(path, http.StatusNotFound, "do", "turn-release", "id", noThread+"x") // no id
	if got := shown(t, page, "[data-testid=reservation] form"); !strings.Contains(got, "End turn") || strings.Contains(got, "Open thread") {
		t.Errorf("offered for a running turn: %q", got)
	}
	early := ada.post(path, http.StatusConflict, "do", "turn-release", "id", turn.TurnID)
	if got := shown(t, early, "[data-testid=form-error]"); !strings.Contains(got, "End the turn first") {
		t.Errorf("the page says %q", got)
	}
	res := ada.post(path, http.StatusSeeOther, "do", "turn-end", "id", turn.TurnID)
	after := ada.get(res.Header.Get("Location"))
	if got := shown(t, after, "[data-testid=reservation]"); !strings.Contains(got, "stopped") || !strings.Contains(got, "ended_by_admin") || !strings.Contains(got, "waits for the host") {
		t.Errorf("reservation %q", got)
	}
	if got := shown(t, after, "[data-testid=notice]"); got != "The turn is ended." {
		t.Errorf("notice %q", got)
	}
	ada.post(path, http.StatusSeeOther, "do", "turn-end", "id", turn.TurnID)
}

// TestBindings_ThoseOfAnotherOrgAreNotFound, and neither are their turns.
func TestBindings_ThoseOfAnotherOrgAreNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true})
	b.people(t)
	turn, ada := b.running(t, memberEmail, "hello")
	eve := b.outsider(t)
	path := bindingsPage + "/" + turn.BindingID
	if res := eve.get(path); res.StatusCode != http.StatusNotFound {
		t.Errorf("another org's admin gets %s", res.Status)
	}
	if rows := shown(t, eve.get(bindingsPage+"?thread="+turn.ThreadID), "[data-testid=binding-row]"); rows != "" {
		t.Errorf("another org's admin is shown %q", rows)
	}
	for _, do := range []string{"turn-end", "turn-release"} {
		eve.post(path, http.StatusNotFound, "do", do, "id", turn.TurnID)
	}
	b.as(t, memberEmail).post(path, http.StatusForbidden, "do", "turn-end", "id", turn.TurnID)
	if res := b.browser(t).get(path, "Accept", "application/json"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger gets %s", res.Status)
	}
	rows, err := b.chat.AdminTurns(t.Context(), ada, gateway.Page{TurnID: turn.TurnID})
	if err != nil || rows.Rows[0].Status.Final() {
		t.Errorf("the turn was ended: %+v, %v", rows, err)
	}
}

// TestBindings_AThreadIsOpenedWhenItsTimeIsOver: before that the page says why not.
func TestBindings_AThreadIsOpenedWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true, limits: chat.Limits{CancelRecovery: time.Hour}})
	b.people(t)
	turn, _ := b.running(t, memberEmail, "hello")
	ada := b.as(t, adminEmail)
	path := bindingsPage + "/" + turn.BindingID
	ada.post(path, http.StatusSeeOther, "do", "turn-end", "id", turn.TurnID)
	res := ada.post(path, http.StatusBadRequest, "do", "turn-release", "id", turn.TurnID)
	if got := shown(t, res, "[data-testid=form-error]"); !strings.Contains(got, "to tell its end") {
		t.Errorf("the page says %q", got)
	}
}

func TestBindings_AreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true})
	b.people(t)
	for range 51 {
		b.running(t, memberEmail, "hello")
	}
	ada := b.as(t, adminEmail)
	count := func(query string) int {
		t.Helper()
		return dom(t, ada.get(bindingsPage+query)).Find("[data-testid=binding-row]").Length()
	}
	for query, want := range map[string]int{
		"": 50, "?offset=50": 1, "?offset=-3": 50, "?state=open": 50, "?state=settled": 0, "?state=nonsense": 50, "?host=another": 0,
	} {
		if got := count(query); got != want {
			t.Errorf("%q shows %d, want %d", query, got, want)
		}
	}
	first := dom(t, ada.get(bindingsPage+"?state=open"))
	if next := first.Find("a[rel=next]").AttrOr("href", ""); next != bindingsPage+"?offset=50&state=open" || first.Find("a[rel=prev]").Length() != 0 {
		t.Errorf("next %q", next)
	}
	res := ada.get(bindingsPage + "?thread=%3Cb%3E")
	if doc := dom(t, res); doc.Find("#thread-error").Length() != 1 || doc.Find("[data-testid=binding-row]").Length() != 0 {
		t.Error("what is no id of a thread is not refused at its field")
	}
}
