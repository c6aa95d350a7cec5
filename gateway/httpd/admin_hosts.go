package httpd

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views"
	"github.com/fairlead/fairlead/views/admin"
)

func (s *Server) frame(r *http.Request, actor gateway.Actor) (admin.Frame, error) {
	who, err := s.person(r, actor)
	return admin.Frame{
		Site: s.site, Name: who.account.Name, Org: who.org.Name, SocketPath: socketPath, LogoutPath: logoutPath,
	}, err
}

func (s *Server) getHosts(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	p, err := s.newHostsPage(r, actor)
	if err != nil {
		return err
	}
	p.Notice = s.hostListForms(nil)[r.URL.Query().Get("done")].notice
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

func (s *Server) postHosts(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	var made gateway.HostInvite
	_, token, refused, err := s.posted(r, actor, s.hostListForms(&made))
	if err != nil && refused == nil {
		return err
	}
	if err == nil && token == "" {
		s.redirect(w, r, admin.HostsPath+"?done="+r.PostForm.Get("do"))
		return nil
	}
	p, pageErr := s.newHostsPage(r, actor)
	if pageErr != nil {
		return errors.Join(err, pageErr)
	}
	status := http.StatusOK
	if refused != nil {
		p.Form, status = *refused, formStatus(err)
	} else {
		p.Command, p.CommandEnds = HostJoinCommand(s.siteFor(actor), token), made.ExpiresAt
	}
	s.render(w, r, status, p.View())
	return nil
}

// hostListForms are the forms of the list of hosts; an invitation that one makes is put
// into made.
func (s *Server) hostListForms(made *gateway.HostInvite) map[string]form {
	return map[string]form{
		admin.DoHostInvite: {"", "", func(r *http.Request, actor gateway.Actor) (token string, err error) {
			token, *made, err = s.cfg.Hosts.Invite(r.Context(), actor, enroll.NewInvite{
				Name: r.PostForm.Get("name"), Labels: strings.Fields(r.PostForm.Get("labels")),
			})
			return token, err
		}},
		admin.DoHostInviteRevoke: {"", "The invitation is taken back.", plain(func(r *http.Request, actor gateway.Actor) error {
			id, err := idOf(r)
			if err != nil {
				return err
			}
			return s.cfg.Hosts.RevokeInvite(r.Context(), actor, id)
		})},
	}
}

func (s *Server) newHostsPage(r *http.Request, actor gateway.Actor) (admin.Hosts, error) {
	frame, err := s.frame(r, actor)
	if err != nil {
		return admin.Hosts{}, err
	}
	p := admin.Hosts{Frame: frame}
	d := s.cfg.Dashboard
	n, err := d.names(r.Context(), actor)
	if err != nil {
		return p, err
	}
	if p.Hosts, err = d.hostRows(r.Context(), actor, n); err != nil {
		return p, err
	}
	invites, manages, err := s.hostInvites(r.Context(), actor)
	p.Manages = manages
	for _, i := range invites {
		p.Invites = append(p.Invites, admin.HostInviteRow{
			ID: i.ID, Name: i.Name, Labels: i.Labels, By: n.account(i.CreatedBy), CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
		})
	}
	return p, err
}

// hostInvites lists the open invitations, and tells whether the actor may manage hosts:
// who may not sees them, and nothing else.
func (s *Server) hostInvites(ctx context.Context, actor gateway.Actor) (list []gateway.HostInvite, manages bool, err error) {
	list, err = s.cfg.Hosts.Invites(ctx, actor)
	if wire.CodeOf(err) == wire.CodeForbidden {
		return nil, false, nil
	}
	return list, err == nil, err
}

func (s *Server) getHost(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	p, err := s.newHostPage(r, actor)
	if err != nil {
		return err
	}
	p.Notice = s.hostForms()[r.URL.Query().Get("done")].notice
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

func (s *Server) postHost(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	_, _, refused, err := s.posted(r, actor, s.hostForms())
	if err != nil && refused == nil {
		return err
	}
	if err == nil {
		s.redirect(w, r, admin.HostPath(r.PathValue("id"))+"?done="+r.PostForm.Get("do"))
		return nil
	}
	p, pageErr := s.newHostPage(r, actor)
	if pageErr != nil {
		return errors.Join(err, pageErr)
	}
	p.Form = *refused
	s.render(w, r, formStatus(err), p.View())
	return nil
}

// hostForms are the forms of the page of one host.
func (s *Server) hostForms() map[string]form {
	about := func(do func(ctx context.Context, actor gateway.Actor, hostID string) error) func(*http.Request, gateway.Actor) (string, error) {
		return plain(func(r *http.Request, actor gateway.Actor) error { return do(r.Context(), actor, r.PathValue("id")) })
	}
	hosts := s.cfg.Hosts
	return map[string]form{
		admin.DoHostRename: {"", "The host is renamed.", plain(func(r *http.Request, actor gateway.Actor) error {
			name := r.PostForm.Get("name")
			return hosts.Change(r.Context(), actor, r.PathValue("id"), enroll.HostChange{Name: &name})
		})},
		admin.DoHostLabels: {"", "The labels are saved.", plain(func(r *http.Request, actor gateway.Actor) error {
			labels := strings.Fields(r.PostForm.Get("labels"))
			return hosts.Change(r.Context(), actor, r.PathValue("id"), enroll.HostChange{Labels: &labels})
		})},
		admin.DoHostDrain:  {"", "The host drains: it ends what it has and gets nothing new.", about(hosts.Drain)},
		admin.DoHostResume: {"", "The host takes turns again.", about(hosts.Resume)},
		admin.DoHostRevoke: {"", "The host is revoked.", about(hosts.Revoke)},
	}
}

func (s *Server) newHostPage(r *http.Request, actor gateway.Actor) (admin.Host, error) {
	frame, err := s.frame(r, actor)
	if err != nil {
		return admin.Host{}, err
	}
	p := admin.Host{Frame: frame}
	d := s.cfg.Dashboard
	n, err := d.names(r.Context(), actor)
	if err != nil {
		return p, err
	}
	rows, err := d.hostRows(r.Context(), actor, n)
	if err != nil {
		return p, err
	}
	i := slices.IndexFunc(rows, func(row admin.HostRow) bool { return row.HostID == r.PathValue("id") })
	if i < 0 {
		return p, wire.NewError(wire.CodeNotFound, "There is no such host.")
	}
	p.Host = rows[i]
	routes, err := d.routeRows(r.Context(), actor, n)
	if err != nil {
		return p, err
	}
	for _, rt := range routes {
		if rt.HostID == p.Host.HostID {
			p.Routes = append(p.Routes, rt)
		}
	}
	_, p.Manages, err = s.hostInvites(r.Context(), actor)
	return p, err
}

// hostOptions are the hosts as choices of a filter.
func hostOptions(hosts []gateway.AdminHost) []views.Option {
	options := make([]views.Option, len(hosts))
	for i, h := range hosts {
		options[i] = views.Option{Value: h.HostID, Label: h.Name}
	}
	return options
}
