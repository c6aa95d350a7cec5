package httpd

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views/admin"
)

// TurnBoard gives bindings, turns and waiting messages; *chat.Service is one.
type TurnBoard interface {
	AdminBindings(ctx context.Context, actor gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminBinding], error)
	AdminTurns(ctx context.Context, actor gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminTurn], error)
	AdminQueue(ctx context.Context, actor gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminQueueItem], error)
	AdminBinding(ctx context.Context, actor gateway.Actor, bindingID string) (gateway.AdminBindingView, error)
	AdminEnd(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) error
	AdminRelease(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) error
}

// HostBoard gives hosts; *enroll.Service is one.
type HostBoard interface {
	AdminHosts(ctx context.Context, actor gateway.Actor) ([]gateway.AdminHost, error)
}

// RouteBoard gives catalog routes; *routes.Table is one.
type RouteBoard interface {
	AdminRoutes(ctx context.Context, actor gateway.Actor) ([]gateway.AdminRoute, error)
}

// UserBoard gives the people of an org; *accounts.Service is one.
type UserBoard interface {
	Users(ctx context.Context, actor gateway.Actor) ([]accounts.User, error)
}

// Dashboard makes the rows of the admin page and, of the same components, the
// patches with which its socket keeps them up to date. All but Base are required.
type Dashboard struct {
	// Base is the public path prefix, for the links in rows.
	Base   string
	Turns  TurnBoard
	Hosts  HostBoard
	Routes RouteBoard
	Users  UserBoard
}

var _ socket.AdminViews = (*Dashboard)(nil)

// boardRows is how many bindings, turns and messages the page shows.
const boardRows = 100

func (d *Dashboard) complete() bool {
	return d != nil && d.Turns != nil && d.Hosts != nil && d.Routes != nil && d.Users != nil
}

// Render gives every row of a view as a patch (socket.AdminViews). Errors:
// forbidden; not_found for a view that does not exist.
func (d *Dashboard) Render(ctx context.Context, actor gateway.Actor, view string, filter gateway.Page) ([]socket.Patch, error) {
	if !actor.May(gateway.ScopeAdmin) {
		return nil, forbidden()
	}
	if filter.Limit == 0 {
		filter.Limit = boardRows
	}
	rows, err := d.rows(ctx, actor, view, filter)
	if err != nil {
		return nil, err
	}
	patches := make([]socket.Patch, len(rows))
	for i, row := range rows {
		var html bytes.Buffer
		if err := row.View().Render(ctx, &html); err != nil {
			return nil, err
		}
		patches[i] = socket.Patch{Target: row.ElementID(), Op: "replace", HTML: html.String()}
	}
	return patches, nil
}

// boardRow is a row of any view.
type boardRow interface {
	ElementID() string
	View() templ.Component
}

func (d *Dashboard) rows(ctx context.Context, actor gateway.Actor, view string, filter gateway.Page) ([]boardRow, error) {
	n, err := d.names(ctx, actor)
	if err != nil {
		return nil, err
	}
	switch view {
	case admin.ViewHosts:
		return asRows(d.hostRows(ctx, actor, n))
	case admin.ViewRoutes:
		return asRows(d.routeRows(ctx, actor, n))
	case admin.ViewBindings:
		return asRows(d.bindingRows(ctx, actor, n, filter))
	case admin.ViewTurns:
		return asRows(d.turnRows(ctx, actor, n, filter))
	case admin.ViewQueue:
		return asRows(d.queueRows(ctx, actor, n, filter))
	}
	return nil, wire.NewError(wire.CodeNotFound, "There is no such view.")
}

func asRows[T boardRow](list []T, err error) ([]boardRow, error) {
	rows := make([]boardRow, len(list))
	for i, row := range list {
		rows[i] = row
	}
	return rows, err
}

// fill gives a page its rows.
func (d *Dashboard) fill(ctx context.Context, actor gateway.Actor, p *admin.Page) error {
	n, err := d.names(ctx, actor)
	if err != nil {
		return err
	}
	if p.Hosts, err = d.hostRows(ctx, actor, n); err != nil {
		return err
	}
	if p.Routes, err = d.routeRows(ctx, actor, n); err != nil {
		return err
	}
	newest := gateway.Page{Limit: boardRows}
	if p.Bindings, err = d.bindingRows(ctx, actor, n, newest); err != nil {
		return err
	}
	if p.Queue, err = d.queueRows(ctx, actor, n, newest); err != nil {
		return err
	}
	p.Turns, err = d.turnRows(ctx, actor, n, newest)
	return err
}

// names turns ids into what people call things.
type names struct {
	hosts    map[string]string
	accounts map[string]string
	disabled map[string]bool // accounts
	hostList []gateway.AdminHost
}

func (d *Dashboard) names(ctx context.Context, actor gateway.Actor) (names, error) {
	users, err := d.Users.Users(ctx, actor)
	if err != nil {
		return names{}, err
	}
	hosts, err := d.Hosts.AdminHosts(ctx, actor)
	if err != nil {
		return names{}, err
	}
	n := names{
		hosts: make(map[string]string, len(hosts)), accounts: make(map[string]string, len(users)),
		disabled: make(map[string]bool), hostList: hosts,
	}
	for _, u := range users {
		n.accounts[u.ID] = u.Name
		if u.Disabled {
			n.disabled[u.ID] = true
		}
	}
	for _, h := range hosts {
		n.hosts[h.HostID] = h.Name
	}
	return n, nil
}

// account is who an account is, as shown: those of other orgs have no name here.
func (n names) account(id string) string {
	if id == "" {
		return "the command line"
	}
	if name, ok := n.accounts[id]; ok {
		return name
	}
	return "somebody else"
}

func (d *Dashboard) hostRows(ctx context.Context, actor gateway.Actor, n names) ([]admin.HostRow, error) {
	list, err := d.Routes.AdminRoutes(ctx, actor)
	if err != nil {
		return nil, err
	}
	ready := map[string]int{}
	for _, rt := range list {
		if rt.Ready {
			ready[rt.HostID]++
		}
	}
	rows := make([]admin.HostRow, len(n.hostList))
	for i, h := range n.hostList {
		rows[i] = d.newHostRow(h, n)
		rows[i].Ready = min(ready[h.HostID], h.Routes)
	}
	return rows, nil
}

func (d *Dashboard) routeRows(ctx context.Context, actor gateway.Actor, n names) ([]admin.RouteRow, error) {
	list, err := d.Routes.AdminRoutes(ctx, actor)
	if err != nil {
		return nil, err
	}
	rows := make([]admin.RouteRow, len(list))
	for i, rt := range list {
		rows[i] = newRouteRow(rt, n)
	}
	return rows, nil
}

func (d *Dashboard) bindingRows(ctx context.Context, actor gateway.Actor, n names, page gateway.Page) ([]admin.BindingRow, error) {
	list, err := d.Turns.AdminBindings(ctx, actor, page)
	if err != nil {
		return nil, err
	}
	rows := make([]admin.BindingRow, len(list.Rows))
	for i, b := range list.Rows {
		rows[i] = d.newBindingRow(b, n)
	}
	return rows, nil
}

// fillBindings gives a page of bindings its rows.
func (d *Dashboard) fillBindings(ctx context.Context, actor gateway.Actor, n names, p *admin.Bindings) error {
	list, err := d.Turns.AdminBindings(ctx, actor, gateway.Page{
		Offset: p.Offset, Limit: p.Limit, ThreadID: p.Filter.Thread, HostID: p.Filter.Host, Binding: gateway.BindingState(p.Filter.State),
	})
	for _, b := range list.Rows {
		p.Bindings = append(p.Bindings, d.newBindingRow(b, n))
	}
	p.More = list.More
	return err
}

func (d *Dashboard) turnRows(ctx context.Context, actor gateway.Actor, n names, page gateway.Page) ([]admin.TurnRow, error) {
	list, err := d.Turns.AdminTurns(ctx, actor, page)
	if err != nil {
		return nil, err
	}
	rows := make([]admin.TurnRow, len(list.Rows))
	for i, t := range list.Rows {
		rows[i] = newTurnRow(t, n)
	}
	return rows, nil
}

func (d *Dashboard) queueRows(ctx context.Context, actor gateway.Actor, n names, page gateway.Page) ([]admin.QueueRow, error) {
	list, err := d.Turns.AdminQueue(ctx, actor, page)
	if err != nil {
		return nil, err
	}
	rows := make([]admin.QueueRow, len(list.Rows))
	for i, q := range list.Rows {
		rows[i] = admin.QueueRow{
			OriginID: q.OriginID, ThreadID: q.ThreadID, Account: n.accounts[q.AccountID], Position: q.Position,
			Disabled: n.disabled[q.AccountID],
			Steer:    q.Mode == gateway.ModeSteer, Delivery: string(q.Delivery), TurnID: q.TurnID, CreatedAt: q.CreatedAt.Time,
		}
	}
	return rows, nil
}

func (d *Dashboard) newHostRow(h gateway.AdminHost, n names) admin.HostRow {
	row := admin.HostRow{
		HostID: h.HostID, Name: h.Name, TargetRef: h.TargetRef, Embedded: h.Embedded, State: string(h.State), Draining: h.Draining,
		Version: h.Version, Inflight: h.Inflight, Max: h.Max, OpenRuns: h.OpenRuns,
		Capabilities: h.Capabilities, Generations: h.Generations, Labels: h.Labels, Routes: h.Routes,
		Since: h.Since, SeenAt: h.SeenAt, JoinedAt: h.JoinedAt,
		ClockOffset: h.ClockOffset, RoundTrip: h.RoundTrip, Measured: h.Measured, Links: h.Links, LastError: h.LastError,
		DetailPath: d.Base + admin.HostPath(h.HostID),
	}
	if !h.JoinedAt.IsZero() {
		row.JoinedBy = n.account(h.JoinedBy)
	}
	return row
}

func newRouteRow(rt gateway.AdminRoute, n names) admin.RouteRow {
	return admin.RouteRow{
		HostID: rt.HostID, HostName: n.hosts[rt.HostID],
		Model: rt.Model, Provider: rt.Provider, ProviderID: rt.ProviderID, Family: rt.Family,
		Credential: rt.Credential, Ready: rt.Ready, Reason: rt.Reason, AvailableAt: rt.AvailableAt,
		Default: rt.Default, Capabilities: capabilityWords(rt.Capabilities),
	}
}

func capabilityWords(c gateway.ModelCapabilities) []string {
	var words []string
	if c.ImageInput == wire.Supported {
		words = append(words, "images")
	}
	if c.ReasoningEffort == wire.Supported {
		words = append(words, strings.TrimSuffix("reasoning: "+strings.Join(c.ReasoningEffortLevels, ", "), ": "))
	}
	if c.MaxOutputTokens == wire.Supported {
		words = append(words, "output limit")
	}
	return words
}

func (d *Dashboard) newBindingRow(b gateway.AdminBinding, n names) admin.BindingRow {
	return admin.BindingRow{
		BindingID: b.BindingID, RunID: b.RunID, HostName: n.hosts[b.HostID], ThreadID: b.ThreadID,
		Account: n.accounts[b.AccountID], VirtualThreadID: b.VirtualThreadID,
		Provider: b.ModelProvider, ProviderID: b.ModelProviderID, Model: b.Model,
		Turns: b.Turns, Unsettled: b.Unsettled, Applied: b.Applied, Cursor: b.Cursor,
		CreatedAt: b.CreatedAt.Time, UsedAt: b.UsedAt.Time, DetailPath: d.Base + admin.BindingPath(b.BindingID),
	}
}

func newTurnRow(t gateway.AdminTurn, n names) admin.TurnRow {
	reason := t.Reason
	if t.Status == gateway.TurnQueued && n.disabled[t.AccountID] {
		reason = "account_disabled"
	}
	return admin.TurnRow{
		TurnID: t.TurnID, Status: string(t.Status), Reason: reason, Error: string(t.Error),
		ThreadID: t.ThreadID, Account: n.accounts[t.AccountID], Model: t.Model, HostName: n.hosts[t.HostID],
		BindingID: t.BindingID, Reservation: t.VirtualTurnID,
		CreatedAt: t.CreatedAt.Time, StartedAt: moment(t.StartedAt), EndedAt: moment(t.EndedAt),
	}
}

func moment(t *gateway.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
