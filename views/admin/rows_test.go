package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/a-h/templ"

	"github.com/fairlead/fairlead/views"
	"github.com/fairlead/fairlead/views/admin"
)

func parse(t *testing.T, component templ.Component) *goquery.Document {
	t.Helper()
	var html strings.Builder
	if err := component.Render(context.Background(), &html); err != nil {
		t.Fatal(err)
	}
	// A row alone is no document: a browser's parser drops a tr outside a table.
	text := html.String()
	if strings.HasPrefix(strings.TrimSpace(text), "<tr") {
		text = "<table><tbody>" + text + "</tbody></table>"
	}
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestRows_AreTheFragmentsOfThePage: a row by itself is byte for byte the row on
// the page, under the id that patches go to.
func TestRows_AreTheFragmentsOfThePage(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_000_000_000)
	turn := admin.TurnRow{TurnID: "t1", Status: "running", ThreadTitle: "A", Model: "demo", CreatedAt: at}
	binding := admin.BindingRow{BindingID: "b1", Model: "demo", CreatedAt: at, UsedAt: at}
	queued := admin.QueueRow{OriginID: "q1", Steer: true, Position: 2, CreatedAt: at}
	route := admin.RouteRow{HostID: "h", ProviderID: "p", Model: "m/x", Ready: true}
	host := admin.HostRow{HostID: "h1", Name: "study", State: "online"}
	page := parse(t, admin.Page{
		Site: views.Site{}, Turns: []admin.TurnRow{turn}, Queue: []admin.QueueRow{queued}, Bindings: []admin.BindingRow{binding},
		Routes: []admin.RouteRow{route}, Hosts: []admin.HostRow{host},
	}.View())
	for _, row := range []struct {
		view, id string
		alone    templ.Component
	}{
		{admin.ViewTurns, turn.ElementID(), turn.View()},
		{admin.ViewQueue, queued.ElementID(), queued.View()},
		{admin.ViewBindings, binding.ElementID(), binding.View()},
		{admin.ViewRoutes, route.ElementID(), route.View()},
		{admin.ViewHosts, host.ElementID(), host.View()},
	} {
		rows := page.Find(`[id="` + admin.RowsID(row.view) + `"]`)
		onPage, _ := goquery.OuterHtml(rows.Find(`[id="` + row.id + `"]`))
		alone, _ := goquery.OuterHtml(parse(t, row.alone).Find("tr"))
		if onPage == "" || onPage != alone {
			t.Errorf("%s: on the page\n%s\nalone\n%s", row.view, onPage, alone)
		}
	}
}

func TestQueueRow_SaysWhereTheMessageIs(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_000_000_000)
	for want, row := range map[string]admin.QueueRow{
		"waits": {}, "steer": {Steer: true}, "handed over": {Steer: true, Delivery: "reserved", TurnID: "t1"},
		"held": {Steer: true, Delivery: "held", TurnID: "t1"}, "account disabled": {Steer: true, Disabled: true},
	} {
		row.OriginID, row.Position, row.CreatedAt = "q1", 3, at
		text := strings.Join(strings.Fields(parse(t, row.View()).Find("tr").Text()), " ")
		if !strings.HasPrefix(text, want) || !strings.Contains(text, "3") || row.TurnID != "" && !strings.Contains(text, "turn t1") {
			t.Errorf("%s: %q", want, text)
		}
	}
}

func TestTurnRow_SaysWhatBecameOfTheTurn(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_000_000_000)
	for _, tc := range []struct {
		name string
		row  admin.TurnRow
		want []string
	}{
		{"waiting for its host", admin.TurnRow{Status: "pending", Reason: "host_offline", CreatedAt: at}, []string{"pending", "host_offline", "not reserved"}},
		{"running", admin.TurnRow{Status: "running", Reservation: "turn_0123456789abcdef0123456789", Bytes: 12, CreatedAt: at, StartedAt: at}, []string{"running", "turn_0123…456789", "12 bytes"}},
		{"failed: the error says more than the reason", admin.TurnRow{Status: "failed", Reason: "x_reason", Error: "model_stalled", CreatedAt: at, EndedAt: at}, []string{"failed", "model_stalled"}},
		{"stopped", admin.TurnRow{Status: "cancelled", Reason: "interrupted", CreatedAt: at, EndedAt: at}, []string{"stopped", "interrupted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			row := parse(t, tc.row.View()).Find("[data-testid=turn-row]")
			for _, word := range tc.want {
				if !strings.Contains(row.Text(), word) {
					t.Errorf("%q is not in %q", word, strings.Join(strings.Fields(row.Text()), " "))
				}
			}
			if strings.Contains(row.Text(), "x_reason") && tc.row.Error != "" {
				t.Error("the reason is shown beside the error")
			}
			if status, _ := row.Attr("data-status"); status != tc.row.Status {
				t.Errorf("data-status = %q", status)
			}
			if order, _ := row.Attr("data-order"); order != "1795000000000" {
				t.Errorf("data-order = %q", order)
			}
		})
	}
}

func TestBindingRow_TellsOpenFromSettled(t *testing.T) {
	t.Parallel()
	open := parse(t, admin.BindingRow{BindingID: "b", Turns: 3, Unsettled: 1, Cursor: 7}.View()).Text()
	settled := parse(t, admin.BindingRow{BindingID: "b", Turns: 3}.View()).Text()
	if !strings.Contains(open, "1 open") || !strings.Contains(open, "to 7") || strings.Contains(open, "all settled") {
		t.Errorf("open: %q", open)
	}
	if !strings.Contains(settled, "all settled") || strings.Contains(settled, "open") {
		t.Errorf("settled: %q", settled)
	}
	for want, row := range map[string]admin.BindingRow{
		"open": {Unsettled: 1, Applied: true}, "unanswered": {Turns: 1}, "settled": {Turns: 1, Applied: true},
	} {
		if got := parse(t, row.View()).Find(".chip").Text(); got != want {
			t.Errorf("%+v is %q, want %q", row, got, want)
		}
	}
}

func TestRouteRow_TellsWhyItIsNotReady(t *testing.T) {
	t.Parallel()
	for word, row := range map[string]admin.RouteRow{
		"ready":                {Ready: true, Default: true},
		"cooling down":         {AvailableAt: time.UnixMilli(1)},
		"not ready":            {Reason: "the key is not set"},
		"the key is not set":   {Reason: "the key is not set"},
		"default":              {Ready: true, Default: true},
		"reasoning: low, high": {Ready: true, Capabilities: []string{"reasoning: low, high"}},
		"not needed":           {Ready: true, Credential: "no_auth"},
	} {
		if text := parse(t, row.View()).Text(); !strings.Contains(text, word) {
			t.Errorf("%q is not in %q", word, text)
		}
	}
}

func TestPage_EmptyTablesSayWhatToDo(t *testing.T) {
	t.Parallel()
	page := parse(t, admin.Page{}.View())
	for _, view := range []string{admin.ViewTurns, admin.ViewBindings, admin.ViewRoutes, admin.ViewHosts} {
		if text := page.Find(`[data-empty="` + view + `"]`).Text(); len(text) < 30 {
			t.Errorf("%s says %q", view, text)
		}
	}
}

func TestMembers_SayWhoAndWhenInWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 10, 31, 0, 0, time.UTC)
	page := admin.Members{
		Members:     []admin.MemberRow{{ID: "m", Name: "Jan", Email: "jan@quay.example", CreatedAt: at, Own: &admin.Limits{Daily: 5}}},
		Invitations: []admin.InvitationRow{{ID: "i", Email: "new@quay.example", By: "Mara", CreatedAt: at, ExpiresAt: at}},
	}
	doc := parse(t, page.View())
	for row, want := range map[string]string{
		"member":     "jan@quay.example · since 2026-11-30 10:31 UTC · turns any number at once, 5 a day",
		"invitation": "by Mara, 2026-11-30 10:31 UTC · ends 2026-11-30 10:31 UTC",
	} {
		if got := strings.Join(strings.Fields(doc.Find("[data-testid="+row+"-row] small").Text()), " "); got != want {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
}

func TestHostRow_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		row       admin.HostRow
		want, not []string
	}{
		{
			"in order",
			admin.HostRow{State: "online", Inflight: 1, Max: 8, OpenRuns: 2, Routes: 3, Ready: 2, Measured: true, RoundTrip: 12 * time.Millisecond, ClockOffset: 2 * time.Second},
			[]string{"online", "1 of 8", "2 runs open", "2 of 3 ready", "12 ms"},
			[]string{"clock", "drain"},
		},
		{"a clock that is off", admin.HostRow{State: "online", Measured: true, ClockOffset: -3400 * time.Millisecond}, []string{"clock 3.4 s behind"}, nil},
		{"a clock that nobody measured", admin.HostRow{State: "online", ClockOffset: time.Hour}, nil, []string{"clock"}},
		{"what an old link measured is not shown", admin.HostRow{State: "lost", Measured: true, ClockOffset: time.Hour, RoundTrip: time.Second}, []string{"lost"}, []string{"clock", "1.0 s"}},
		{"drains while it is away", admin.HostRow{State: "offline", Draining: true, LastError: "no word"}, []string{"offline", "to drain", "no word"}, nil},
		{"revoked", admin.HostRow{State: "revoked", Draining: true, Links: 1}, []string{"revoked", "1 link since start"}, []string{"to drain"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Join(strings.Fields(parse(t, tc.row.View()).Find("tr").Text()), " ")
			for _, word := range tc.want {
				if !strings.Contains(text, word) {
					t.Errorf("%q is not in %q", word, text)
				}
			}
			for _, word := range tc.not {
				if strings.Contains(text, word) {
					t.Errorf("%q is in %q", word, text)
				}
			}
		})
	}
}

// TestHost_HasTheFormsThatFit: nothing of a host that is built in or revoked can be
// changed, and nothing by an admin who does not manage hosts.
func TestHost_HasTheFormsThatFit(t *testing.T) {
	t.Parallel()
	all := []string{admin.DoHostRename, admin.DoHostLabels, admin.DoHostRevoke}
	for _, tc := range []struct {
		name    string
		manages bool
		row     admin.HostRow
		want    []string
	}{
		{"linked", true, admin.HostRow{State: "online"}, append(all, admin.DoHostDrain)},
		{"lost: all works on a host that is dead", true, admin.HostRow{State: "lost"}, append(all, admin.DoHostDrain)},
		{"draining", true, admin.HostRow{State: "draining", Draining: true}, append(all, admin.DoHostResume)},
		{"built in", true, admin.HostRow{State: "online", Embedded: true}, nil},
		{"revoked", true, admin.HostRow{State: "revoked"}, nil},
		{"not the admin's to manage", false, admin.HostRow{State: "online"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			doc := parse(t, admin.Host{Host: tc.row, Manages: tc.manages}.View())
			forms := map[string]bool{}
			doc.Find("main input[name=do]").Each(func(_ int, s *goquery.Selection) { forms[s.AttrOr("value", "")] = true })
			if len(forms) != len(tc.want) {
				t.Errorf("forms %v, want %v", forms, tc.want)
			}
			for _, do := range tc.want {
				if !forms[do] {
					t.Errorf("%s is missing", do)
				}
			}
		})
	}
}

// TestBinding_OffersWhatIsAllowed: a turn that runs can be ended; a thread is opened by
// hand only when the time of its host is over (decisions §2.9).
func TestBinding_OffersWhatIsAllowed(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_000_000_000)
	for want, r := range map[string]admin.Reservation{
		admin.DoTurnEnd:     {Turn: admin.TurnRow{TurnID: "t", Status: "running"}},
		admin.DoTurnRelease: {Turn: admin.TurnRow{TurnID: "t", Status: "cancelled", EndedAt: at}, Recovering: true, Overdue: true, RecoverBy: at},
		"":                  {Turn: admin.TurnRow{TurnID: "t", Status: "cancelled", EndedAt: at}, Recovering: true, RecoverBy: at},
	} {
		doc := parse(t, admin.Binding{Reservations: []admin.Reservation{r}}.View())
		if got := doc.Find("[data-testid=reservation] input[name=do]").AttrOr("value", ""); got != want {
			t.Errorf("%+v offers %q, want %q", r, got, want)
		}
	}
}
