package enroll_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestHostsAreManaged(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		m := b.joined("h1")
		b.hears("register h1 Box h1")
		b.must(b.Rename(ctx, admin, m.id, " Big box "))
		b.must(b.SetLabels(ctx, admin, m.id, []string{"gpu", "site=berlin"}))
		b.must(b.Drain(ctx, admin, m.id))
		b.must(b.Drain(ctx, admin, m.id))
		b.mayLink(m, "") // one that drains stays linked
		b.must(b.Resume(ctx, admin, m.id))
		b.must(b.SetLabels(ctx, admin, m.id, nil))
		b.hears("update h1 Big box", "update h1 Big box gpu+site=berlin", "update h1 Big box gpu+site=berlin draining",
			"update h1 Big box gpu+site=berlin", "update h1 Big box")
		name, labels := "Both", []string{"x"}
		b.must(b.Change(ctx, admin, m.id, enroll.HostChange{Name: &name, Labels: &labels}))
		b.must(b.Change(ctx, admin, m.id, enroll.HostChange{}))
		b.hears("update h1 Both", "update h1 Both x")
		b.must(b.Revoke(ctx, admin, m.id))
		b.hears("revoke h1")
		for what, err := range map[string]error{
			"Rename": b.Rename(ctx, admin, m.id, "x"), "SetLabels": b.SetLabels(ctx, admin, m.id, nil),
			"Drain": b.Drain(ctx, admin, m.id), "Resume": b.Resume(ctx, admin, "nobody"), "Revoke": b.Revoke(ctx, admin, "nobody"),
		} {
			if wire.CodeOf(err) != wire.CodeNotFound {
				t.Errorf("%s of a host that is not there: %v", what, err)
			}
		}
		b.code(b.Drain(ctx, admin, embedded), wire.CodeForbidden)
		b.code(b.Rename(ctx, admin, m.id, "\x00"), wire.CodeBadRequest)
		b.hears()

		log, err := b.store.Accounts().Audit(ctx, "", "", 100)
		b.must(err)
		var actions []string
		for _, e := range slices.Backward(log) {
			actions = append(actions, string(e.Action))
			if e.Target == "" || e.At.IsZero() || e.OrgID != "first" || (e.AccountID != "ada") != (e.Action == gateway.AuditHostJoined) {
				t.Errorf("entry %+v", e)
			}
			if e.Action == gateway.AuditHostJoined && (e.Address != address || !strings.HasPrefix(e.Detail, "key SHA256:")) {
				t.Errorf("entry %+v", e)
			}
		}
		want := "host_invited host_joined host_renamed host_labelled host_drained host_resumed host_labelled host_renamed host_labelled host_revoked"
		if got := strings.Join(actions, " "); got != want {
			t.Errorf("audit log %s\nwant %s", got, want)
		}
	})
}

// TestOnlyWhoRunsTheInstallationManagesHosts walks every call that an actor makes.
func TestOnlyWhoRunsTheInstallationManagesHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.joined("h1")
	_, invite, err := b.Invite(t.Context(), admin, enroll.NewInvite{})
	b.must(err)
	b.heard()
	elsewhere, chatOnly := admin, admin
	elsewhere.OrgID, chatOnly.Scopes = "second", []gateway.Scope{gateway.ScopeChat, gateway.ScopeControl}
	ctx := t.Context()
	reads := map[string]func(gateway.Actor) error{
		"AdminHosts": func(a gateway.Actor) error { _, err := b.AdminHosts(ctx, a); return err },
		"Hosts":      func(a gateway.Actor) error { _, err := b.Hosts(ctx, a); return err },
	}
	writes := map[string]func(gateway.Actor) error{
		"Invite":       func(a gateway.Actor) error { _, _, err := b.Invite(ctx, a, enroll.NewInvite{}); return err },
		"Invites":      func(a gateway.Actor) error { _, err := b.Invites(ctx, a); return err },
		"RevokeInvite": func(a gateway.Actor) error { return b.RevokeInvite(ctx, a, invite.ID) },
		"Rename":       func(a gateway.Actor) error { return b.Rename(ctx, a, m.id, "x") },
		"SetLabels":    func(a gateway.Actor) error { return b.SetLabels(ctx, a, m.id, []string{"x"}) },
		"Change":       func(a gateway.Actor) error { return b.Change(ctx, a, m.id, enroll.HostChange{}) },
		"Drain":        func(a gateway.Actor) error { return b.Drain(ctx, a, m.id) },
		"Resume":       func(a gateway.Actor) error { return b.Resume(ctx, a, m.id) },
		"Revoke":       func(a gateway.Actor) error { return b.Revoke(ctx, a, m.id) },
	}
	for _, actor := range []gateway.Actor{{}, chatOnly, elsewhere} {
		for name, call := range writes {
			if err := call(actor); wire.CodeOf(err) != wire.CodeForbidden {
				t.Errorf("%s by %+v: %v", name, actor, err)
			}
		}
		for name, call := range reads {
			// Every admin sees whose hosts their org uses.
			if err := call(actor); (err == nil) != (actor.OrgID == "second") {
				t.Errorf("%s by %+v: %v", name, actor, err)
			}
		}
	}
	b.hears()
	for name, call := range writes {
		if name == "Revoke" || name == "RevokeInvite" {
			continue
		}
		if err := call(admin); err != nil {
			t.Errorf("%s by an admin: %v", name, err)
		}
	}
	b.mayLink(m, "")
}

// TestRH62_TheCommandLineBesideAServer: what it changes is noticed by the next look.
func TestRH62_TheCommandLineBesideAServer(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		ctx, line := t.Context(), b.service(nil)
		m := b.joined("h1")
		a, err := b.admit(m)
		b.must(err)
		defer a.Release()
		b.heard()
		look := func(want ...string) {
			t.Helper()
			b.hears()
			b.must(b.Refresh(ctx))
			b.must(b.Refresh(ctx)) // the second look finds nothing new
			b.hears(want...)
		}
		look()
		b.must(line.Rename(ctx, admin, m.id, "New"))
		b.must(line.Drain(ctx, admin, m.id))
		look("update h1 New draining")
		b.must(line.Resume(ctx, admin, m.id))
		look("update h1 New")
		b.must(line.Revoke(ctx, admin, m.id))
		b.mayLink(m, wire.CodeHostRevoked) // even before the look
		look("revoke h1")
		if a.Context.Err() == nil {
			t.Error("the link of a revoked host goes on")
		}

		// Revoked and joined again between two looks: the old link must end.
		next := b.joined("h1")
		old, err := b.admit(next)
		b.must(err)
		defer old.Release()
		b.must(b.Refresh(ctx))
		b.heard()
		b.must(line.Revoke(ctx, admin, m.id))
		last := b.joined("h1")
		b.hears("revoke h1", "register h1 Box h1")
		if old.Context.Err() == nil {
			t.Error("the link with the old key goes on")
		}
		b.mayLink(last, "")
		b.mayLink(next, wire.CodeUnauthorized)
		look()
	})
}

func TestRunNoticesTheCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := b.joined("h1")
	b.heard()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx)
	}()
	defer func() { stop(); <-ended }()
	b.must(b.service(nil).Revoke(ctx, admin, m.id))
	revoked := time.Now()
	select {
	case got := <-b.links.told:
		if took := time.Since(revoked); got != "revoke h1" || took > 5*time.Second {
			t.Errorf("after %s the registry was told %q", took, got)
		}
	case <-time.After(10 * time.Second):
		t.Error("nothing was noticed")
	}
}

// TestHostsAreKnownAfterARestart: also those that were revoked while no server ran,
// so that what they owed ends.
func TestHostsAreKnownAfterARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.joined("h1")
	m := b.joined("h2")
	b.must(b.service(nil).Revoke(t.Context(), admin, m.id))
	b.heard()
	next := b.service(b.links)
	b.must(next.Start(t.Context()))
	b.hears("register h1 Box h1", "register h2 Box h2", "revoke h2")
	b.must(next.Refresh(t.Context()))
	b.hears()
}

func TestAdminHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	for _, id := range []string{"h1", "h2", "gone", "h3"} {
		b.joined(id)
		b.clock.add(time.Second)
	}
	b.must(b.Rename(ctx, admin, "h1", "Named"))
	b.must(b.SetLabels(ctx, admin, "h1", []string{"gpu"}))
	b.must(b.Drain(ctx, admin, "h1"))
	b.must(b.Drain(ctx, admin, "h3"))
	b.must(b.Revoke(ctx, admin, "gone"))
	heard := b.clock.Now().Add(time.Minute)
	b.links.show(
		gateway.AdminHost{HostID: "h2", Name: "h2", State: gateway.HostLost},
		gateway.AdminHost{HostID: embedded, Name: "Embedded", Embedded: true, State: gateway.HostOnline},
		gateway.AdminHost{HostID: "h1", Name: "itself", State: gateway.HostOnline, Version: "2.0", OpenRuns: 3, SeenAt: heard},
	)
	rows, err := b.AdminHosts(ctx, admin)
	b.must(err)
	var got []string
	for _, r := range rows {
		got = append(got, r.HostID+" "+string(r.State))
	}
	if want := []string{embedded + " online", "h1 draining", "h2 lost", "h3 offline", "gone revoked"}; !slices.Equal(got, want) {
		t.Fatalf("rows %q, want %q", got, want)
	}
	h1, h3 := rows[1], rows[3]
	if h1.Name != "Named" || !slices.Equal(h1.Labels, []string{"gpu"}) || !h1.Draining || h1.Version != "2.0" || h1.OpenRuns != 3 ||
		!h1.SeenAt.Equal(heard) || h1.JoinedAt.IsZero() {
		t.Errorf("row %+v", h1)
	}
	if !h3.Draining || h3.Version != "1.0" || h3.TargetRef != "h3" {
		t.Errorf("row %+v", h3)
	}
	// What a linked host says of itself is kept for when it is away.
	b.must(b.Refresh(ctx))
	b.NoteLinked(ctx)
	stored, err := b.store.Hosts().RelayHost(ctx, "h1")
	b.must(err)
	if stored.Version != "2.0" || !stored.SeenAt.Equal(heard) {
		t.Errorf("stored %+v", stored)
	}
	if lost, err := b.store.Hosts().RelayHost(ctx, "h2"); err != nil || !lost.SeenAt.IsZero() {
		t.Errorf("a host that is not linked was seen: %+v, %v", lost, err)
	}
}
