package httpd

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/relay/wire"
)

// Hosts knows the relay hosts on other machines; *enroll.Service is one.
type Hosts interface {
	// AdminHosts lists all hosts, the embedded ones first and the revoked ones last.
	AdminHosts(ctx context.Context, actor gateway.Actor) ([]gateway.AdminHost, error)
	Invite(ctx context.Context, actor gateway.Actor, req enroll.NewInvite) (token string, invite gateway.HostInvite, err error)
	Invites(ctx context.Context, actor gateway.Actor) ([]gateway.HostInvite, error)
	RevokeInvite(ctx context.Context, actor gateway.Actor, id string) error
	Change(ctx context.Context, actor gateway.Actor, hostID string, c enroll.HostChange) error
	Drain(ctx context.Context, actor gateway.Actor, hostID string) error
	Resume(ctx context.Context, actor gateway.Actor, hostID string) error
	Revoke(ctx context.Context, actor gateway.Actor, hostID string) error

	Join(ctx context.Context, address string, req wire.HostJoin) (wire.HostJoined, error)
	Challenge(hostID string) wire.HostChallenge
	Admit(ctx context.Context, header string) (enroll.Admission, error)
}

// HostJoinCommand is what is typed on a machine to join it as a relay host.
func HostJoinCommand(site *url.URL, token string) string {
	return "fairlead host join " + originOf(site) + site.Path + " " + token
}

// Requests and replies about hosts.
type (
	hostQuery struct {
		HostID string `json:"hostId" validate:"required,relayid"`
	}
	hostPatch struct {
		HostID string    `json:"hostId" validate:"required,relayid"`
		Name   *string   `json:"name,omitempty"`
		Labels *[]string `json:"labels,omitempty" validate:"omitempty,max=32"`
	}
	hostsReply struct {
		Hosts []hostView `json:"hosts"`
	}
	hostView struct {
		HostID       string            `json:"hostId"`
		Name         string            `json:"name"`
		Embedded     bool              `json:"embedded"`
		State        gateway.HostState `json:"state"`
		Draining     bool              `json:"draining"`
		Version      string            `json:"version"`
		Labels       []string          `json:"labels"`
		Capabilities []string          `json:"capabilities"`
		Generations  []int             `json:"configGenerations"`
		Inflight     int               `json:"inflight"`
		MaxInflight  int               `json:"maxInflight"`
		OpenRuns     int               `json:"openRuns"`
		Routes       int               `json:"routes"`
		Links        int               `json:"links"`
		JoinedAt     *gateway.Time     `json:"joinedAt,omitempty"`
		Since        *gateway.Time     `json:"since,omitempty"`
		SeenAt       *gateway.Time     `json:"seenAt,omitempty"`
		ClockOffset  *int64            `json:"clockOffsetMs,omitempty"`
		RoundTrip    *int64            `json:"roundTripMs,omitempty"`
		LastError    string            `json:"lastError,omitempty"`
	}

	hostInviteRequest struct {
		Name       string   `json:"name,omitempty" validate:"omitempty,max=100"`
		Labels     []string `json:"labels,omitempty" validate:"omitempty,max=32"`
		TTLSeconds int      `json:"ttlSeconds,omitempty" validate:"omitempty,min=1,max=900"`
	}
	hostInviteQuery struct {
		InviteID string `json:"inviteId" validate:"required,uuid"`
	}
	hostInviteView struct {
		ID        string       `json:"id"`
		Name      string       `json:"name"`
		Labels    []string     `json:"labels"`
		CreatedAt gateway.Time `json:"createdAt"`
		ExpiresAt gateway.Time `json:"expiresAt"`
	}
	hostInviteReply struct {
		Invite  hostInviteView `json:"invite"`
		Token   string         `json:"token"`
		Command string         `json:"command"`
	}
	hostInvitesReply struct {
		Invites []hostInviteView `json:"invites"`
	}
)

func newHostView(h gateway.AdminHost) hostView {
	v := hostView{
		HostID: h.HostID, Name: h.Name, Embedded: h.Embedded, State: h.State, Draining: h.Draining, Version: h.Version,
		Labels: orEmpty(h.Labels), Capabilities: orEmpty(h.Capabilities), Generations: orEmpty(h.Generations),
		Inflight: h.Inflight, MaxInflight: h.Max, OpenRuns: h.OpenRuns, Routes: h.Routes, Links: h.Links,
		JoinedAt: optionalTime(h.JoinedAt), Since: optionalTime(h.Since), SeenAt: optionalTime(h.SeenAt), LastError: h.LastError,
	}
	if h.Measured {
		offset, trip := h.ClockOffset.Milliseconds(), h.RoundTrip.Milliseconds()
		v.ClockOffset, v.RoundTrip = &offset, &trip
	}
	return v
}

func optionalTime(t time.Time) *gateway.Time {
	if t.IsZero() {
		return nil
	}
	return &gateway.Time{Time: t}
}

func newHostInviteView(i gateway.HostInvite) hostInviteView {
	return hostInviteView{
		ID: i.ID, Name: i.Name, Labels: orEmpty(i.Labels),
		CreatedAt: gateway.Time{Time: i.CreatedAt}, ExpiresAt: gateway.Time{Time: i.ExpiresAt},
	}
}

// aboutHosts says who may manage hosts.
const aboutHosts = "Needs the scope admin, of the first org."

func hostOperations() []operation {
	missing := []wire.Code{wire.CodeNotFound}
	one := func(path, id, summary, about string, do func(Hosts, context.Context, gateway.Actor, string) error) operation {
		return changes(operation{
			method: "POST", path: "/hosts/{hostId}/" + path, id: id, admin: true, errors: missing, summary: summary, about: about + " " + aboutHosts,
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q hostQuery) error {
			return do(s.cfg.Hosts, ctx, actor, q.HostID)
		})
	}
	return []operation{
		does(operation{
			method: "GET", path: "/hosts", id: "listHosts", admin: true,
			summary: "List the relay hosts, revoked ones last", about: "Needs the scope admin.",
		}, func(ctx context.Context, s *Server, actor gateway.Actor, _ nothing) (hostsReply, error) {
			rows, err := s.cfg.Hosts.AdminHosts(ctx, actor)
			views := make([]hostView, len(rows))
			for i, h := range rows {
				views[i] = newHostView(h)
			}
			return hostsReply{views}, err
		}),
		changes(operation{
			method: "PATCH", path: "/hosts/{hostId}", id: "updateHost", admin: true, errors: missing,
			summary: "Set the name or the labels of a host", about: "What is left out stays as it is. " + aboutHosts,
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q hostPatch) error {
			return s.cfg.Hosts.Change(ctx, actor, q.HostID, enroll.HostChange{Name: q.Name, Labels: q.Labels})
		}),
		one("drain", "drainHost", "Have a host take no new turn", "It stays linked and ends what it has.", Hosts.Drain),
		one("resume", "resumeHost", "Let a drained host take turns again", "", Hosts.Resume),
		one("revoke", "revokeHost", "Void the credential of a host for good",
			"Its link ends at once, and what runs there ends as failed. It may join again with a new invitation and a new key.", Hosts.Revoke),
	}
}

func hostInviteOperations() []operation {
	return []operation{
		does(operation{
			method: "GET", path: "/hosts/invites", id: "listHostInvites", admin: true,
			summary: "List the invitations of hosts that can be used, newest first", about: aboutHosts,
		}, func(ctx context.Context, s *Server, actor gateway.Actor, _ nothing) (hostInvitesReply, error) {
			list, err := s.cfg.Hosts.Invites(ctx, actor)
			views := make([]hostInviteView, len(list))
			for i, invite := range list {
				views[i] = newHostInviteView(invite)
			}
			return hostInvitesReply{views}, err
		}),
		does(operation{
			method: "POST", path: "/hosts/invites", id: "inviteHost", admin: true, status: http.StatusCreated,
			summary: "Make an invitation with which one host joins, once",
			about:   "The token is in this answer alone. " + aboutHosts,
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q hostInviteRequest) (hostInviteReply, error) {
			token, invite, err := s.cfg.Hosts.Invite(ctx, actor, enroll.NewInvite{
				Name: q.Name, Labels: q.Labels, TTL: time.Duration(q.TTLSeconds) * time.Second,
			})
			if err != nil {
				return hostInviteReply{}, err
			}
			return hostInviteReply{Invite: newHostInviteView(invite), Token: token, Command: HostJoinCommand(s.siteFor(actor), token)}, nil
		}),
		changes(operation{
			method: "DELETE", path: "/hosts/invites/{inviteId}", id: "revokeHostInvite", admin: true,
			errors: []wire.Code{wire.CodeNotFound}, summary: "Take an invitation of a host back", about: aboutHosts,
		}, func(ctx context.Context, s *Server, actor gateway.Actor, q hostInviteQuery) error {
			return s.cfg.Hosts.RevokeInvite(ctx, actor, q.InviteID)
		}),
	}
}

// hostJoinOperations are those of hosts themselves, before they have a credential.
func hostJoinOperations() []operation {
	return []operation{
		answers(operation{
			method: "POST", path: "/hosts/join", id: "joinHost", open: true,
			errors:  []wire.Code{wire.CodeInviteInvalid, wire.CodeHostExists, wire.CodeHostRevoked},
			summary: "Join as a relay host, with an invitation",
			about:   "What fairlead host join does. The same request again has the same answer.",
		}, func(ctx context.Context, s *Server, address string, _ gateway.Actor, q wire.HostJoin) (wire.HostJoined, error) {
			return s.cfg.Hosts.Join(ctx, address, q)
		}),
		does(operation{
			method: "POST", path: "/hosts/challenge", id: "challengeHost", open: true,
			summary: "Get the nonce that a relay host signs to link",
			about:   "It is used once, within 60 seconds. Unknown hosts get one as well.",
		}, func(_ context.Context, s *Server, _ gateway.Actor, q wire.HostChallengeRequest) (wire.HostChallenge, error) {
			return s.cfg.Hosts.Challenge(q.HostID), nil
		}),
	}
}
