package relay_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH6_BindingTheAccount(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.scope()
	for _, bad := range []string{"", " a", "a\x00", strings.Repeat("a", 513)} {
		wantCode(t, s.BindAccount(ctx, bad, "wrong target"), wire.CodeOwnerInvalid)
	}
	wantCode(t, s.BindAccount(ctx, relaytest.Account, "wrong target"), wire.CodeTargetMismatch)
	must(t, s.BindAccount(ctx, relaytest.Account, relaytest.Target))
	must(t, s.BindAccount(ctx, relaytest.Account, relaytest.Target))
	equal(t, "writes", r.store.Writes(relaytest.BindOwner), 1)
	wantCode(t, s.BindAccount(ctx, "another account", relaytest.Target), wire.CodeOwnerMismatch)
	state, err := r.store.LoadScope(ctx, scopeKey())
	must(t, err)
	equal(t, "owner", state.Scope.OwnerFingerprint, wire.OwnerFingerprint(relaytest.Account, relaytest.Target, relaytest.Session))
	if strings.Contains(dump(t, r), relaytest.Account) {
		t.Fatal("the account itself is stored")
	}
	r.reopen()
	wantCode(t, r.scope().BindAccount(ctx, "another account", relaytest.Target), wire.CodeOwnerMismatch)
	must(t, r.scope().BindAccount(ctx, relaytest.Account, relaytest.Target))

	t.Run("RH6 the store refuses another owner by itself", func(t *testing.T) {
		other := state.Scope
		other.OwnerFingerprint = relaytest.Fingerprint("a")
		wantCode(t, r.store.BindOwner(ctx, other), wire.CodeOwnerMismatch)
	})
}

func TestRH7_NothingWorksBeforeAnAccountIsBound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.scope()
	_, err := s.Catalog(ctx, relaytest.Challenge)
	wantCode(t, err, wire.CodeOwnerUnbound)
	wantCode(t, s.AuthorizeRun(ctx, relaytest.Run), wire.CodeOwnerUnbound)
	wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeOwnerUnbound)
	wantCode(t, s.Interrupt(ctx, &wire.RunControl{}), wire.CodeOwnerUnbound)
	wantCode(t, r.store.InsertBinding(ctx, scopeKey(), relay.Binding{}), wire.CodeOwnerUnbound)
	ps, err := s.Poll(ctx, 1)
	must(t, err)
	equal(t, "projections", len(ps), 0)

	must(t, s.BindAccount(ctx, relaytest.Account, relaytest.Target))
	r.reopen()
	_, err = r.scope().Catalog(ctx, relaytest.Challenge)
	must(t, err)
}

func TestRH23_AuthorisingARun(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("RH23 the id, then the account", func(t *testing.T) {
		t.Parallel()
		s := newRig(t).scope()
		wantCode(t, s.AuthorizeRun(ctx, "run..x"), wire.CodeCommandInvalid)
		wantCode(t, s.AuthorizeRun(ctx, relaytest.Run), wire.CodeOwnerUnbound)
	})
	t.Run("RH23 another run waits for the terminal, across restarts", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		wantCode(t, s.AuthorizeRun(ctx, "run_other"), wire.CodeOtherRunUnsettled)
		if again := relaytest.Prompt(1, 1); s.Apply(ctx, again) != nil {
			t.Fatal("a failed call has changed the authorised run")
		}
		r.reopen()
		s = r.scope()
		wantCode(t, s.AuthorizeRun(ctx, "run_other"), wire.CodeOtherRunUnsettled)
		must(t, s.AuthorizeRun(ctx, relaytest.Run))
		r.finish(s, 0)
		must(t, s.AuthorizeRun(ctx, "run_other"))
	})
	t.Run("RH23 the lease is taken for an unsettled turn, or the call fails", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *relay.Config) { c.MaxInflight = 1 })
		s := r.authorized()
		// The reservation gets stored although its write fails, so no lease is taken.
		r.store.Fail(relaytest.SaveTurn, 0, true)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodePersistFailed)
		other := r.authorizedIn("other")
		must(t, other.Apply(ctx, relaytest.Prompt(1, 1)))
		wantCode(t, s.AuthorizeRun(ctx, relaytest.Run), wire.CodeInferenceBusy)
		r.finish(other, 0)
		must(t, s.AuthorizeRun(ctx, relaytest.Run))
		equal(t, "places", r.host.Room(), wire.Room{Inflight: 1, Max: 1})
	})
}

func TestRH24_TheLeaseIsTriedNeverWaitedFor(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, func(c *relay.Config) { c.MaxInflight = 2 })
	a, b, c := r.authorizedIn("a"), r.authorizedIn("b"), r.authorizedIn("c")
	must(t, a.Apply(ctx, relaytest.Prompt(1, 1)))
	must(t, b.Apply(ctx, relaytest.Prompt(1, 1)))
	wantCode(t, c.Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeInferenceBusy)
	equal(t, "room", r.host.Room(), wire.Room{Inflight: 2, Max: 2})
	// Within a scope the lease is exclusive whatever room there is.
	second := relaytest.Prompt(2, 2)
	wantCode(t, a.Apply(ctx, second), wire.CodeTurnActive)
	r.finish(b, 1)
	must(t, c.Apply(ctx, relaytest.Prompt(1, 1)))
	equal(t, "native starts", len(r.runtime.Started()), 3)
}

func TestRH25_TheLeaseIsReleasedWhenNothingIsOwed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	s := r.authorized()
	leased := func() bool {
		t.Helper()
		list, err := r.host.Scopes(ctx, relay.ScopeRecord{}, 0)
		must(t, err)
		equal(t, "scopes", len(list), 1)
		return list[0].Leased
	}
	equal(t, "leased at first", leased(), false)
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	equal(t, "leased while the turn runs", leased(), true)
	thread, turn := r.started(0)
	r.runtime.End(thread, turn, relay.NativeCompleted)

	var last wire.Envelope
	for range 2 {
		ps, err := s.Poll(ctx, 1)
		must(t, err)
		envelopes, err := s.Journal(ctx, ps)
		must(t, err)
		equal(t, "leased while the end is on its way", leased(), true)
		must(t, s.HandedOff(ctx, ps))
		last = envelopes[0]
	}
	equal(t, "event", last.Event, wire.EventTurnCompleted)
	equal(t, "place", r.host.Room().Inflight, 0)
	equal(t, "leased until the end is acknowledged", leased(), true)
	must(t, s.Acknowledge(ctx, relaytest.Run, last.Seq-1))
	equal(t, "leased while only part is acknowledged", leased(), true)
	must(t, s.Acknowledge(ctx, relaytest.Run, last.Seq))
	equal(t, "leased afterwards", leased(), false)

	t.Run("RH25 after a refused start", func(t *testing.T) {
		r.runtime.Fail(relaytest.StartTurn, context.DeadlineExceeded, false, 1)
		wantCode(t, s.Apply(ctx, relaytest.Prompt(1, 2)), wire.CodeStartFailed)
		equal(t, "leased", leased(), false)
		equal(t, "places", r.host.Room().Inflight, 0)
	})
}

func TestRH26_LeasesAreRetakenBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	leases := func(r *rig) (leased, working int) {
		list, err := r.host.Scopes(ctx, relay.ScopeRecord{}, 0)
		must(t, err)
		for _, s := range list {
			if s.Leased {
				leased++
			}
			if s.Working {
				working++
			}
		}
		return leased, working
	}
	t.Run("RH26 for an unsettled turn", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		must(t, r.authorized().Apply(ctx, relaytest.Prompt(1, 1)))
		r.authorizedIn("idle")
		r.close()
		r.cfg.MaxInflight = 1
		r.open()
		leased, working := leases(r)
		equal(t, "leases", leased, 1)
		equal(t, "places", working, 1)
		wantCode(t, r.authorizedIn("another").Apply(ctx, relaytest.Prompt(1, 1)), wire.CodeInferenceBusy)
	})
	t.Run("RH26 for an integrity envelope that is not acknowledged", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.authorized()
		must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
		thread, turn := r.started(0)
		r.runtime.End(thread, turn, relay.NativeCompleted)
		for range 2 {
			ps, err := s.Poll(ctx, 1)
			must(t, err)
			_, err = s.Journal(ctx, ps)
			must(t, err)
			must(t, s.HandedOff(ctx, ps))
		}
		r.reopen()
		leased, working := leases(r)
		equal(t, "leases", leased, 1)
		equal(t, "places", working, 0)
		a, err := r.host.Attach(ctx, relaytest.Attach(2), nil)
		must(t, err)
		defer a.Close()
		leased, _ = leases(r)
		equal(t, "leases after the cursor", leased, 0)
	})
	t.Run("RH26 a turn whose native turn has ended keeps the lease and frees its place", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		must(t, r.authorized().Apply(ctx, relaytest.Prompt(1, 1)))
		r.close()
		r.runtime.Restart()
		r.open()
		leased, working := leases(r)
		equal(t, "leases", leased, 1)
		equal(t, "places", working, 0)
	})
	t.Run("RH26 an untrusted scope does not keep the others from their work", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		must(t, r.authorized().Apply(ctx, relaytest.Prompt(1, 1)))
		must(t, r.authorizedIn("well").Apply(ctx, relaytest.Prompt(1, 1)))
		r.close()
		tamper(t, r, `UPDATE relay_bindings SET model = 'sk-abc' WHERE scope_key = '`+scopeKey()+`'`)
		r.open()
		leased, _ := leases(r)
		equal(t, "leases", leased, 1)
		_, err := r.host.Scope(ctx, relaytest.Target, relaytest.Session)
		wantCode(t, err, wire.CodeStateUntrusted)
	})
}

func TestThePlaceOfAnUnattendedTurnIsFreedWhenItEnds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	rooms := make(chan struct{}, 16)
	stop := r.host.Watch(func() { rooms <- struct{}{} })
	defer stop()
	s := r.authorized()
	must(t, s.Apply(ctx, relaytest.Prompt(1, 1)))
	<-rooms
	equal(t, "places", r.host.Room().Inflight, 1)
	thread, turn := r.started(0)
	r.runtime.Say(thread, turn, "nobody listens")
	r.runtime.End(thread, turn, relay.NativeCompleted)
	<-rooms
	equal(t, "places", r.host.Room().Inflight, 0)
	equal(t, "envelopes", len(r.drain(s)), 3)
}

func TestIdleScopesAreUnloaded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, func(c *relay.Config) { c.IdleScopes = 2 })
	busy, err := r.host.Scope(ctx, relaytest.Target, "busy")
	must(t, err)
	must(t, busy.BindAccount(ctx, relaytest.Account, relaytest.Target))
	must(t, busy.AuthorizeRun(ctx, relaytest.Run))
	must(t, busy.Apply(ctx, relaytest.Prompt(1, 1)))
	busy.Close()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s, err := r.host.Scope(ctx, relaytest.Target, name)
		must(t, err)
		must(t, s.BindAccount(ctx, relaytest.Account, relaytest.Target))
		s.Close()
	}
	eventually(t, "unloading", func() bool { return r.host.Loaded() == 3 })
	equal(t, "watched threads", r.runtime.Watchers(), 1)
	s := r.scopeOf("a")
	wantCode(t, s.BindAccount(ctx, "another account", relaytest.Target), wire.CodeOwnerMismatch)

	again := r.authorizedIn("busy")
	r.finish(again, 0)
	equal(t, "watched threads", r.runtime.Watchers(), 0)
}
