package httpd_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views/admin"
)

// TestDashboardPatchesAreTheRowsOfThePage keeps the socket's rows and those of
// the page one.
func TestDashboardPatchesAreTheRowsOfThePage(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	page := b.as(t, adminEmail).get("/admin").body
	actor := accounts.Operator()
	for _, view := range []string{admin.ViewBindings, admin.ViewTurns, admin.ViewQueue, admin.ViewRoutes, admin.ViewHosts} {
		patches, err := b.dashboard().Render(t.Context(), actor, view, gateway.Page{})
		if err != nil || len(patches) != 1 {
			t.Fatalf("%s: %v, %v", view, patches, err)
		}
		p := patches[0]
		if p.Op != "replace" || !strings.Contains(p.HTML, `id="`+p.Target+`"`) || !strings.Contains(page, p.HTML) {
			t.Errorf("%s: %s %s is not a row of the page:\n%s", view, p.Op, p.Target, p.HTML)
		}
	}
	if !strings.Contains(page, "Embedded host") {
		t.Error("the page does not call the host by its name")
	}
	_, err := b.dashboard().Render(t.Context(), actor, "nothing", gateway.Page{})
	if wire.CodeOf(err) != wire.CodeNotFound {
		t.Errorf("an unknown view: %v", err)
	}
	actor.Scopes = []gateway.Scope{gateway.ScopeChat}
	_, err = b.dashboard().Render(t.Context(), actor, admin.ViewTurns, gateway.Page{})
	if wire.CodeOf(err) != wire.CodeForbidden {
		t.Errorf("without the scope: %v", err)
	}
}

func TestDashboardPassesTheFilterOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	seen := &filterBoard{}
	d := &httpd.Dashboard{Turns: seen, Hosts: board{}, Routes: board{}, Users: b.accounts}
	filter := gateway.Page{Status: gateway.TurnFailed, Offset: 50, Limit: 7}
	if _, err := d.Render(t.Context(), accounts.Operator(), admin.ViewTurns, filter); err != nil || seen.page != filter {
		t.Errorf("%+v, %v", seen.page, err)
	}
}

type filterBoard struct {
	board
	page gateway.Page
}

func (f *filterBoard) AdminTurns(_ context.Context, _ gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminTurn], error) {
	f.page = p
	return gateway.Rows[gateway.AdminTurn]{}, nil
}

// TestDashboard_SaysWhatWaitsForADisabledAccount: else it would seem to wait for a place
// that is free.
func TestDashboard_SaysWhatWaitsForADisabledAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{real: true, limits: chat.Limits{MemberConcurrentTurns: 1}})
	b.people(t)
	turn, member := b.running(t, memberEmail, "hello")
	for _, threadID := range []string{turn.ThreadID, ""} { // behind the turn, and for a place in the org
		_, err := b.chat.Send(t.Context(), member, gateway.SendRequest{
			ThreadID: threadID, ClientEventID: uuid.NewString(),
			UserMessage: gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "text", Text: "next"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ada := b.as(t, adminEmail)
	look := func() (message, turns string) {
		t.Helper()
		page := ada.get("/admin")
		return shown(t, page, "[data-testid=queue-row]"), shown(t, page, "[data-testid=turn-row]")
	}
	if message, turns := look(); !strings.HasPrefix(message, "waits") || strings.Contains(message+turns, "disabled") {
		t.Errorf("before: %q, %q", message, turns)
	}
	if err := b.accounts.DisableMember(t.Context(), accounts.Operator(), member.AccountID); err != nil {
		t.Fatal(err)
	}
	if message, turns := look(); !strings.HasPrefix(message, "account disabled") || strings.Count(turns, "account_disabled") != 1 {
		t.Errorf("after: %q, %q", message, turns)
	}
}
