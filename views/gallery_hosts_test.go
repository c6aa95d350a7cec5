package views_test

import (
	"time"

	"github.com/a-h/templ"

	"github.com/fairlead/fairlead/views"
	"github.com/fairlead/fairlead/views/admin"
)

// hostGallery is each page of hosts and bindings, once calm and once with hostile text.
func hostGallery(at time.Time) map[string]templ.Component {
	x := hostile
	frame := admin.Frame{Site: site, Name: "Mara", Org: "Quay Ltd", SocketPath: "/ws", LogoutPath: "/logout", Notice: "The host is renamed."}
	foul := func(form string) admin.Frame {
		return admin.Frame{Site: site, Name: x, Org: x, SocketPath: "/ws", Notice: x, Form: formOf(form)}
	}
	calm := adminPage(at)
	study := calm.Hosts[1]
	study.State, study.DetailPath, study.JoinedAt, study.JoinedBy = "online", "/base/admin/hosts/h2", at, "Mara"
	study.Measured, study.ClockOffset, study.RoundTrip, study.Links = true, 3400*time.Millisecond, 12*time.Millisecond, 4
	study.Labels, study.LastError = []string{"gpu", "site=berlin"}, "no word for 90 s"
	revoked := calm.Hosts[1]
	revoked.State, revoked.HostID = "revoked", "h3"
	bad := admin.HostRow{
		HostID: x, Name: x, TargetRef: x, State: x, Version: x, Capabilities: []string{x}, Labels: []string{x}, LastError: x,
		JoinedAt: at, JoinedBy: x, DetailPath: "javascript:alert(1)",
	}
	return map[string]templ.Component{
		"hosts": admin.Hosts{
			Frame: frame, Hosts: []admin.HostRow{calm.Hosts[0], study, revoked}, Manages: true,
			Command: "fairlead host join https://chat.example.com fh_0123", CommandEnds: at,
			Invites: []admin.HostInviteRow{{ID: "i1", Name: "study", Labels: []string{"gpu"}, By: "Mara", CreatedAt: at, ExpiresAt: at}},
		}.View(),
		"hosts-empty": admin.Hosts{Frame: frame}.View(),
		"hosts-hostile": admin.Hosts{
			Frame: foul(admin.DoHostInvite), Hosts: []admin.HostRow{bad}, Manages: true, Command: x,
			Invites: []admin.HostInviteRow{{ID: x, Name: x, Labels: []string{x}, By: x}},
		}.View(),
		"host":         admin.Host{Frame: frame, Host: study, Routes: calm.Routes[1:], Manages: true}.View(),
		"host-builtin": admin.Host{Frame: frame, Host: calm.Hosts[0], Routes: calm.Routes[:1], Manages: true}.View(),
		"host-revoked": admin.Host{Frame: frame, Host: revoked, Manages: true}.View(),
		"host-hostile": admin.Host{Frame: foul(admin.DoHostRename), Host: bad, Routes: adminHostile(at).Routes, Manages: true}.View(),
		"bindings": admin.Bindings{
			Frame: frame, Bindings: calm.Bindings, Offset: 50, Limit: 50, More: true, Filter: admin.BindingFilter{State: "open"},
			Hosts: []views.Option{{Value: "h2", Label: "study"}},
		}.View(),
		"bindings-hostile": admin.Bindings{
			Frame: foul(""), Bindings: adminHostile(at).Bindings, Limit: 50, More: true,
			Filter: admin.BindingFilter{Thread: x, Host: x, State: x, ThreadError: x}, Hosts: []views.Option{{Value: x, Label: x}},
		}.View(),
		"binding": admin.Binding{
			Frame: frame, Binding: calm.Bindings[0], TargetRef: "local-runtime:study", SessionID: "chat:1", Host: study,
			Reservations: []admin.Reservation{
				{Turn: calm.Turns[0], Command: "acked"},
				{Turn: calm.Turns[1], Command: "acked", Delivery: "held", Recovering: true, Overdue: true, RecoverBy: at},
				{Turn: admin.TurnRow{TurnID: "t3", Status: "cancelled", EndedAt: at}, Command: "sent", Recovering: true, RecoverBy: at},
			},
			Commands: []admin.CommandRow{{Seq: 2, Kind: "run.control", TurnID: "t", State: "pending", CreatedAt: at}, {Seq: 1, Kind: "prompt.request", TurnID: "t", State: "failed", Error: "relay_turn_active", CreatedAt: at}},
			Events:   []admin.EventRow{{SeqID: 7, Type: "turn.completed", TurnID: "t", Size: 120, CreatedAt: at}},
		}.View(),
		"binding-hostile": admin.Binding{
			Frame: foul(admin.DoTurnEnd), Binding: adminHostile(at).Bindings[0], TargetRef: x, SessionID: x, Host: bad,
			Reservations: []admin.Reservation{{Turn: adminHostile(at).Turns[0], Command: x, Delivery: x, Recovering: true}},
			Commands:     []admin.CommandRow{{Kind: x, TurnID: x, State: x, Error: x}}, Events: []admin.EventRow{{Type: x, TurnID: x}},
		}.View(),
	}
}
