package httpd

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/relay/wire"
	"github.com/fairlead/fairlead/views/admin"
)

func (s *Server) getMembers(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	p, err := s.newMembersPage(r, actor)
	if err != nil {
		return err
	}
	p.Notice = s.memberForms()[r.URL.Query().Get("done")].notice
	s.render(w, r, http.StatusOK, p.View())
	return nil
}

func (s *Server) postMembers(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
	_, secret, refused, err := s.posted(r, actor, s.memberForms())
	if err != nil && refused == nil {
		return err
	}
	if err == nil && secret == "" {
		s.redirect(w, r, admin.MembersPath+"?done="+r.PostForm.Get("do"))
		return nil
	}
	p, pageErr := s.newMembersPage(r, actor)
	if pageErr != nil {
		return errors.Join(err, pageErr)
	}
	status := http.StatusOK
	if refused != nil {
		p.Form, status = *refused, formStatus(err)
	} else {
		p.Link, p.LinkEmail = InvitationURL(s.siteFor(actor), secret), strings.TrimSpace(r.PostForm.Get("email"))
	}
	s.render(w, r, status, p.View())
	return nil
}

// siteFor is the address of the site as the actor reached it.
func (s *Server) siteFor(actor gateway.Actor) *url.URL {
	site, err := url.Parse(actor.Origin)
	if err != nil || actor.Origin == "" {
		return s.gate.public
	}
	site.Path = s.gate.public.Path
	return site
}

// memberForms are the forms of the members page.
func (s *Server) memberForms() map[string]form {
	about := func(do func(r *http.Request, actor gateway.Actor, id string) error) func(*http.Request, gateway.Actor) (string, error) {
		return plain(func(r *http.Request, actor gateway.Actor) error {
			id, err := idOf(r)
			if err != nil {
				return err
			}
			return do(r, actor, id)
		})
	}
	people := s.cfg.Accounts
	return map[string]form{
		admin.DoInvite: {"", "", func(r *http.Request, actor gateway.Actor) (string, error) {
			secret, _, err := people.Invite(r.Context(), actor, accounts.NewInvitation{
				Email: r.PostForm.Get("email"), Role: gateway.Role(r.PostForm.Get("role")),
			})
			return secret, err
		}},
		admin.DoRevokeInvite: {"", "The invitation is taken back.", about(func(r *http.Request, actor gateway.Actor, id string) error {
			return people.RevokeInvitation(r.Context(), actor, id)
		})},
		admin.DoRole: {"", "The role is changed.", about(func(r *http.Request, actor gateway.Actor, id string) error {
			return people.SetRole(r.Context(), actor, id, gateway.Role(r.PostForm.Get("role")))
		})},
		admin.DoDisable: {"", "The member is disabled and logged out everywhere.", about(func(r *http.Request, actor gateway.Actor, id string) error {
			return people.DisableMember(r.Context(), actor, id)
		})},
		admin.DoEnable: {"", "The member can log in again.", about(func(r *http.Request, actor gateway.Actor, id string) error {
			return people.EnableMember(r.Context(), actor, id)
		})},
		admin.DoMemberLimits: {"", "The member's limits are saved.", about(s.setMemberLimits)},
		admin.DoDefaults: {"", "The limits are saved.", plain(func(r *http.Request, actor gateway.Actor) error {
			return people.SetMemberDefaults(r.Context(), actor, actor.OrgID, limitsOf(r))
		})},
		admin.DoOrgLimits: {"", "The organisation's limits are saved.", plain(func(r *http.Request, actor gateway.Actor) error {
			return people.SetOrgLimits(r.Context(), actor, actor.OrgID, limitsOf(r))
		})},
		admin.DoEntitlement: {"", "The entitlement is saved.", plain(s.setEntitlement)},
	}
}

func (s *Server) setMemberLimits(r *http.Request, actor gateway.Actor, id string) error {
	if r.PostForm.Get("reset") != "" {
		return s.cfg.Accounts.SetMemberLimits(r.Context(), actor, id, nil)
	}
	l := limitsOf(r)
	return s.cfg.Accounts.SetMemberLimits(r.Context(), actor, id, &l)
}

func (s *Server) setEntitlement(r *http.Request, actor gateway.Actor) error {
	e := gateway.Entitlement{Status: gateway.EntitlementStatus(r.PostForm.Get("status"))}
	if typed := strings.TrimSpace(r.PostForm.Get("credits")); typed != "" {
		n, err := strconv.ParseInt(typed, 10, 64)
		if err != nil {
			return badFields([]wire.Field{{Path: "credits", Rule: "range"}})
		}
		e.Credits = &n
	}
	return s.cfg.Accounts.SetEntitlement(r.Context(), actor, actor.OrgID, e)
}

func (s *Server) newMembersPage(r *http.Request, actor gateway.Actor) (admin.Members, error) {
	who, err := s.person(r, actor)
	if err != nil {
		return admin.Members{}, err
	}
	p := admin.Members{
		Site: s.site, Name: who.account.Name, Org: who.org.Name, LogoutPath: logoutPath,
	}
	p.OrgTurns, p.MemberTurns = s.cfg.Accounts.InstallationTurns()
	members, err := s.cfg.Accounts.Members(r.Context(), actor)
	if err != nil {
		return p, err
	}
	names := make(map[string]string, len(members))
	for _, m := range members {
		names[m.ID] = m.Name
		p.Members = append(p.Members, newMemberRow(m, actor))
	}
	invitations, err := s.cfg.Accounts.Invitations(r.Context(), actor)
	if err != nil {
		return p, err
	}
	for _, inv := range invitations {
		p.Invitations = append(p.Invitations, newInvitationRow(inv, names, time.Now()))
	}
	return p, s.fillSpending(r, actor, &p)
}

// fillSpending adds what the org may spend.
func (s *Server) fillSpending(r *http.Request, actor gateway.Actor, p *admin.Members) error {
	l, err := s.cfg.Accounts.OrgLimits(r.Context(), actor, actor.OrgID)
	if err != nil {
		return err
	}
	p.OrgWide = admin.Limits{Concurrent: l.ConcurrentTurns, Daily: l.DailyTurns}
	p.Defaults = admin.Limits{Concurrent: l.Member.ConcurrentTurns, Daily: l.Member.DailyTurns}
	e, err := s.cfg.Accounts.Entitlement(r.Context(), actor, actor.OrgID)
	if err != nil {
		return err
	}
	p.Suspended = e.Status == gateway.EntitlementSuspended
	if e.Credits != nil {
		p.Credits = strconv.FormatInt(*e.Credits, 10)
	}
	p.Governs, err = s.cfg.Accounts.Governs(r.Context(), actor, actor.OrgID)
	return err
}

func newMemberRow(m gateway.Member, actor gateway.Actor) admin.MemberRow {
	row := admin.MemberRow{
		ID: m.ID, Name: m.Name, Email: m.Email, Admin: m.Role == gateway.RoleAdmin,
		Disabled: !m.DisabledAt.IsZero(), You: m.ID == actor.AccountID, CreatedAt: m.CreatedAt,
	}
	if m.Limits != nil {
		row.Own = &admin.Limits{Concurrent: m.Limits.ConcurrentTurns, Daily: m.Limits.DailyTurns}
	}
	return row
}

func newInvitationRow(inv gateway.Invitation, names map[string]string, now time.Time) admin.InvitationRow {
	row := admin.InvitationRow{
		ID: inv.ID, Email: inv.Email, Role: string(inv.Role), By: names[inv.CreatedBy],
		CreatedAt: inv.CreatedAt, ExpiresAt: inv.ExpiresAt, Expired: !now.Before(inv.ExpiresAt),
	}
	if row.By == "" {
		row.By = "the command line"
	}
	return row
}
