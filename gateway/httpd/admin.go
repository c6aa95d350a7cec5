package httpd

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views/admin"
)

// Board gives the rows of the dashboard, those of the actor's org. It holds no
// text that a person wrote.
type Board interface {
	AdminBindings(ctx context.Context, actor gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminBinding], error)
	AdminTurns(ctx context.Context, actor gateway.Actor, p gateway.Page) (gateway.Rows[gateway.AdminTurn], error)
	AdminHosts(ctx context.Context, actor gateway.Actor) ([]gateway.AdminHost, error)
	AdminRoutes(ctx context.Context, actor gateway.Actor) ([]gateway.AdminRoute, error)
}

// boardLimit is how many bindings and turns the page shows.
const boardLimit = 100

func (s *Server) getAdmin(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	who, err := s.person(r, actor)
	if err != nil {
		return err
	}
	p := admin.Page{
		Site: s.site, Name: who.account.Name, Org: who.org.Name,
		SocketPath: socketPath, LogoutPath: logoutPath, Limit: boardLimit,
	}
	users, err := s.cfg.Accounts.Users(r.Context(), actor)
	if err != nil {
		return err
	}
	n := names{hosts: make(map[string]string), accounts: make(map[string]string, len(users))}
	for _, u := range users {
		n.accounts[u.ID] = u.Name
	}
	if err := fillBoard(r.Context(), s.cfg.Board, actor, n, &p); err != nil {
		return err
	}
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

// names turns ids into what people call things.
type names struct {
	hosts    map[string]string
	accounts map[string]string
}

func fillBoard(ctx context.Context, board Board, actor gateway.Actor, n names, p *admin.Page) error {
	hosts, err := board.AdminHosts(ctx, actor)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		n.hosts[h.HostID] = h.Name
		p.Hosts = append(p.Hosts, newHostRow(h))
	}
	routes, err := board.AdminRoutes(ctx, actor)
	if err != nil {
		return err
	}
	for _, rt := range routes {
		p.Routes = append(p.Routes, newRouteRow(rt, n))
	}
	newest := gateway.Page{Limit: boardLimit}
	bindings, err := board.AdminBindings(ctx, actor, newest)
	if err != nil {
		return err
	}
	for _, b := range bindings.Rows {
		p.Bindings = append(p.Bindings, newBindingRow(b, n))
	}
	turns, err := board.AdminTurns(ctx, actor, newest)
	if err != nil {
		return err
	}
	for _, t := range turns.Rows {
		p.Turns = append(p.Turns, newTurnRow(t, n))
	}
	return nil
}

func newHostRow(h gateway.AdminHost) admin.HostRow {
	return admin.HostRow{
		HostID: h.HostID, Name: h.Name, TargetRef: h.TargetRef, Embedded: h.Embedded, State: string(h.State),
		Version: h.Version, Inflight: h.Inflight, Max: h.Max, OpenRuns: h.OpenRuns,
		Capabilities: h.Capabilities, Routes: h.Routes, Since: h.Since, SeenAt: h.SeenAt,
	}
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

func newBindingRow(b gateway.AdminBinding, n names) admin.BindingRow {
	return admin.BindingRow{
		BindingID: b.BindingID, RunID: b.RunID, HostName: n.hosts[b.HostID], ThreadID: b.ThreadID,
		Account: n.accounts[b.AccountID], VirtualThreadID: b.VirtualThreadID,
		Provider: b.ModelProvider, ProviderID: b.ModelProviderID, Model: b.Model,
		Turns: b.Turns, Unsettled: b.Unsettled, CreatedAt: b.CreatedAt.Time, UpdatedAt: b.CreatedAt.Time,
	}
}

func newTurnRow(t gateway.AdminTurn, n names) admin.TurnRow {
	return admin.TurnRow{
		TurnID: t.TurnID, Status: string(t.Status), Reason: t.Reason, Error: string(t.Error),
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
