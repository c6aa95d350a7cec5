package enroll_test

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/enroll"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestRH44_AHostJoinsOnceAndLinks(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		token, invite, err := b.Invite(t.Context(), admin, enroll.NewInvite{Name: " GPU box ", Labels: []string{"gpu", "site=berlin", "gpu"}})
		b.must(err)
		if raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "fh_")); err != nil || len(raw) != 32 || !strings.HasPrefix(token, "fh_") {
			t.Errorf("a token of %d bytes: %v", len(raw), err)
		}
		if !invite.ExpiresAt.Equal(b.clock.Now().Add(15*time.Minute)) || strings.Contains(invite.SecretHash, token) {
			t.Errorf("invitation %+v", invite)
		}
		m := newMachine(t, "target_1f.2e")
		first, err := b.Join(t.Context(), address, m.request(token))
		b.must(err)
		if first.HostID != m.id || first.Name != "GPU box" || first.GatewayID == "" {
			t.Errorf("answer %+v", first)
		}
		b.hears("register target_1f.2e GPU box gpu+site=berlin")
		if list, err := b.Invites(t.Context(), admin); err != nil || len(list) != 0 {
			t.Errorf("invitations %+v, %v", list, err)
		}
		a, err := b.admit(m)
		b.must(err)
		defer a.Release()
		if a.Host.ID != m.id || a.Context.Err() != nil {
			t.Errorf("admission %+v", a.Host)
		}
		next := b.service(nil)
		if c := next.Challenge(m.id); c.GatewayID != first.GatewayID {
			t.Errorf("the gateway is called %s, and after a restart %s", first.GatewayID, c.GatewayID)
		}
	})
}

// TestRH44_ALostAnswerIsAskedForAgain: the join was stored, and its answer did not
// arrive; the host asks again, also the next process.
func TestRH44_ALostAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		m, token := newMachine(t, "h1"), b.invite()
		gone, hangUp := context.WithCancel(t.Context())
		first, err := b.Join(gone, address, m.request(token))
		b.must(err)
		hangUp()
		b.clock.add(time.Hour)
		later := &links{told: make(chan string, 10)}
		next := b.service(later)
		b.must(next.Start(t.Context()))
		for _, s := range []*enroll.Service{b.Service, next} {
			again, err := s.Join(t.Context(), address, m.request(token))
			if err != nil || again != first {
				t.Errorf("again %+v, %v; first %+v", again, err, first)
			}
		}
		b.hears("register h1 Box h1")
		if n := len(later.told); n != 1 {
			t.Errorf("the next process told its registry %d times of one host", n)
		}
	})
}

func TestRH44_WhatIsNoInvitationIsOneAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m := newMachine(t, "h1")
	spent := b.invite()
	_, err := b.Join(t.Context(), address, newMachine(t, "h2").request(spent))
	b.must(err)
	revoked, invite, err := b.Invite(t.Context(), admin, enroll.NewInvite{})
	b.must(err)
	b.must(b.RevokeInvite(t.Context(), admin, invite.ID))
	b.code(b.RevokeInvite(t.Context(), admin, invite.ID), wire.CodeNotFound)
	old := b.invite()
	b.clock.add(15*time.Minute - time.Nanosecond)
	if list, err := b.Invites(t.Context(), admin); err != nil || len(list) != 1 {
		t.Errorf("invitations %+v, %v", list, err)
	}
	b.clock.add(time.Nanosecond)
	var answers []string
	for _, token := range []string{spent, revoked, old, "fh_unknown", "x"} {
		_, err := b.Join(t.Context(), address, m.request(token))
		b.code(err, wire.CodeInviteInvalid)
		answers = append(answers, err.Error())
	}
	if slices.Sort(answers); answers[0] != answers[len(answers)-1] {
		t.Errorf("answers differ: %q", answers)
	}
	if got := gateway.HTTPStatus(wire.CodeInviteInvalid); got != 401 {
		t.Errorf("status %d", got)
	}
}

func TestInvitationsAreChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, tt := range map[string]struct {
		req  enroll.NewInvite
		want wire.Field
	}{
		"too long":         {enroll.NewInvite{TTL: 15*time.Minute + 1}, wire.Field{Path: "ttl", Rule: "max"}},
		"already over":     {enroll.NewInvite{TTL: -time.Minute}, wire.Field{Path: "ttl", Rule: "max"}},
		"blank name":       {enroll.NewInvite{Name: "  "}, wire.Field{Path: "name", Rule: "required"}},
		"long name":        {enroll.NewInvite{Name: strings.Repeat("x", 101)}, wire.Field{Path: "name", Rule: "max"}},
		"name with escape": {enroll.NewInvite{Name: "a\x1b[2J"}, wire.Field{Path: "name", Rule: "utf8"}},
		"label with space": {enroll.NewInvite{Labels: []string{"gpu", "big box"}}, wire.Field{Path: "labels", Rule: "type"}},
		"empty label":      {enroll.NewInvite{Labels: []string{""}}, wire.Field{Path: "labels", Rule: "type"}},
		"long label":       {enroll.NewInvite{Labels: []string{strings.Repeat("x", 65)}}, wire.Field{Path: "labels", Rule: "type"}},
		"many labels":      {enroll.NewInvite{Labels: numbered(33)}, wire.Field{Path: "labels", Rule: "max"}},
	} {
		_, _, err := b.Invite(t.Context(), admin, tt.req)
		if e := wire.AsError(err); e == nil || e.Code != wire.CodeBadRequest || !slices.Equal(e.Fields, []wire.Field{tt.want}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := b.Invite(t.Context(), admin, enroll.NewInvite{TTL: time.Minute, Labels: numbered(32)}); err != nil {
		t.Error(err)
	}
}

func numbered(n int) (labels []string) {
	for i := range n {
		labels = append(labels, "l"+strings.Repeat("i", i))
	}
	return labels
}

// TestRH45_ALiveHostKeepsItsTarget: neither another key under its id nor another id
// with its invitation, and its key, gets in.
func TestRH45_ALiveHostKeepsItsTarget(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		m, token := newMachine(t, "h1"), b.invite()
		first, err := b.Join(t.Context(), address, m.request(token))
		b.must(err)
		other := machine{"h2", m.key}
		_, err = b.Join(t.Context(), address, other.request(token))
		b.code(err, wire.CodeInviteInvalid)
		b.mayLink(other, wire.CodeUnauthorized)

		thief, theirs := newMachine(t, "h1"), b.invite()
		_, err = b.Join(t.Context(), address, thief.request(theirs))
		b.code(err, wire.CodeHostExists)
		b.mayLink(thief, wire.CodeUnauthorized)
		b.mayLink(m, "")
		if gateway.HTTPStatus(wire.CodeHostExists) != 409 {
			t.Error("not a conflict")
		}
		_, err = b.Join(t.Context(), address, machine{embedded, thief.key}.request(theirs))
		b.code(err, wire.CodeHostExists)
		if list, err := b.Invites(t.Context(), admin); err != nil || len(list) != 1 {
			t.Errorf("what was refused spent the invitation: %+v, %v", list, err)
		}
		// The host itself may use it: nothing of it changes.
		renamed := m.request(theirs)
		renamed.Name = "Other"
		if again, err := b.Join(t.Context(), address, renamed); err != nil || again != first {
			t.Errorf("again %+v, %v", again, err)
		}
		b.hears("register h1 Box h1")
	})
}

func TestRH45_ARevokedHostJoinsWithANewKey(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		m, token := newMachine(t, "h1"), b.invite()
		_, err := b.Join(t.Context(), address, m.request(token))
		b.must(err)
		b.must(b.Revoke(t.Context(), admin, m.id))
		b.hears("register h1 Box h1", "revoke h1")
		_, err = b.Join(t.Context(), address, m.request(token))
		b.code(err, wire.CodeInviteInvalid)
		fresh := b.invite()
		_, err = b.Join(t.Context(), address, m.request(fresh))
		b.code(err, wire.CodeHostRevoked)
		b.mayLink(m, wire.CodeHostRevoked)
		again := newMachine(t, "h1")
		_, err = b.Join(t.Context(), address, again.request(fresh))
		b.must(err)
		b.hears("register h1 Box h1")
		b.mayLink(again, "")
		b.mayLink(m, wire.CodeUnauthorized)
		// And the new one can be revoked as well.
		b.must(b.Revoke(t.Context(), admin, m.id))
		b.mayLink(again, wire.CodeHostRevoked)
		b.hears("revoke h1")
	})
}

// TestRH46_WhatIsNotListedIsRefused: every field is needed, and its shape checked.
func TestRH46_WhatIsNotListedIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := b.invite()
	for name, tt := range map[string]struct {
		spoil func(*wire.HostJoin)
		path  string
	}{
		"no token":         {func(r *wire.HostJoin) { r.Token = "" }, "token"},
		"no id":            {func(r *wire.HostJoin) { r.HostID = "" }, "hostId"},
		"a path for an id": {func(r *wire.HostJoin) { r.HostID = "../../etc" }, "hostId"},
		"id with a space":  {func(r *wire.HostJoin) { r.HostID = "a b" }, "hostId"},
		"long id":          {func(r *wire.HostJoin) { r.HostID = strings.Repeat("h", 241) }, "hostId"},
		"no key":           {func(r *wire.HostJoin) { r.PublicKey = "" }, "publicKey"},
		"short key":        {func(r *wire.HostJoin) { r.PublicKey = r.PublicKey[:40] }, "publicKey"},
		"padded key":       {func(r *wire.HostJoin) { r.PublicKey += "=" }, "publicKey"},
		"a private key":    {func(r *wire.HostJoin) { r.PublicKey = strings.Repeat("A", 86) }, "publicKey"},
		"no name":          {func(r *wire.HostJoin) { r.Name = "" }, "name"},
		"name with escape": {func(r *wire.HostJoin) { r.Name = "a\x1b]0;b" }, "name"},
		"name turned":      {func(r *wire.HostJoin) { r.Name = "a\u202eb" }, "name"},
		"long name":        {func(r *wire.HostJoin) { r.Name = strings.Repeat("x", 101) }, "name"},
		"no version":       {func(r *wire.HostJoin) { r.Version = "" }, "version"},
		"odd version":      {func(r *wire.HostJoin) { r.Version = "1\n2" }, "version"},
	} {
		req := newMachine(t, "h1").request(token)
		tt.spoil(&req)
		_, err := b.Join(t.Context(), address, req)
		if e := wire.AsError(err); e == nil || e.Code != wire.CodeBadRequest || len(e.Fields) != 1 || e.Fields[0].Path != tt.path {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.Join(t.Context(), address, newMachine(t, "h1").request(token)); err != nil {
		t.Errorf("after that the invitation is not good any more: %v", err)
	}
}

// TestRH46_NoSecretIsKept looks for tokens and private keys in whatever the gateway
// wrote: its database, its log and its audit log.
func TestRH46_NoSecretIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	used, open := b.invite(), b.invite()
	m := newMachine(t, "h1")
	_, err := b.Join(t.Context(), address, m.request(used))
	b.must(err)
	_, err = b.Join(t.Context(), address, newMachine(t, "h1").request(open)) // refused, and logged
	b.code(err, wire.CodeHostExists)
	c := b.Challenge(m.id)
	header := m.header(c.GatewayID, c.Nonce)
	a, err := b.Admit(t.Context(), header)
	b.must(err)
	a.Release()
	secrets := map[string]string{
		"token": used, "open token": open, "private key": string(m.key.Seed()),
		"private key in base64": base64.RawURLEncoding.EncodeToString(m.key.Seed()),
		"signature":             header[strings.LastIndexByte(header, '.')+1:], "nonce": c.Nonce,
	}
	written := b.log.String()
	files, err := filepath.Glob(b.place.Options.Path + "*")
	b.must(err)
	if len(files) == 0 || !strings.Contains(written, "h1") {
		t.Fatalf("files %v, log %q", files, written)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		b.must(err)
		written += string(raw)
	}
	if public := m.request("").PublicKey; !strings.Contains(written, public) {
		t.Error("the database was not read: the public key is not found")
	}
	for what, secret := range secrets {
		if strings.Contains(written, secret) {
			t.Errorf("the %s was written", what)
		}
	}
}

func TestJoinsAtOnceWithOneInvitation(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		token := b.invite()
		machines := []machine{newMachine(t, "h1"), newMachine(t, "h2"), newMachine(t, "h1"), newMachine(t, "h3")}
		errs := make([]error, len(machines))
		var wg sync.WaitGroup
		for i, m := range machines {
			wg.Go(func() { _, errs[i] = b.Join(t.Context(), address, m.request(token)) })
		}
		wg.Wait()
		let := 0
		for i, err := range errs {
			if err == nil {
				let++
				b.mayLink(machines[i], "")
				continue
			}
			b.code(err, wire.CodeInviteInvalid)
			b.mayLink(machines[i], wire.CodeUnauthorized)
		}
		if hosts, err := b.Hosts(t.Context(), admin); err != nil || let != 1 || len(hosts) != 1 {
			t.Errorf("%d were let in, hosts %+v, %v", let, hosts, err)
		}
	})
}

func TestJoinsAreThrottledFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	token := b.invite()
	var from string
	b.throttle = func(_ context.Context, address string) error {
		from = address
		return wire.NewError(wire.CodeRateLimited, "wait")
	}
	for _, req := range []wire.HostJoin{newMachine(t, "h1").request(token), {}} {
		_, err := b.Join(t.Context(), address, req)
		b.code(err, wire.CodeRateLimited)
	}
	if from != address {
		t.Errorf("counted for %q", from)
	}
	b.hears()
}

// TestInvitationsAreForgottenAMonthAfterTheirEnd: making one removes them. A host whose
// answer was lost may still ask again, and no removed token lets anybody in.
func TestInvitationsAreForgottenAMonthAfterTheirEnd(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, b *bench) {
		m, used, unused := newMachine(t, "h1"), b.invite(), b.invite()
		first, err := b.Join(t.Context(), address, m.request(used))
		b.must(err)
		kept := func(want int) {
			t.Helper()
			b.invite()
			var n int
			b.must(b.place.Raw(t).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM host_invites").Scan(&n))
			if n != want {
				t.Errorf("%d invitations are kept, want %d", n, want)
			}
		}
		b.clock.add(enroll.InviteTTL + 30*24*time.Hour)
		kept(3)
		b.clock.add(time.Second)
		kept(3) // the used one and the two newest
		_, err = b.Join(t.Context(), address, newMachine(t, "h2").request(unused))
		b.code(err, wire.CodeInviteInvalid)
		if again, err := b.Join(t.Context(), address, m.request(used)); err != nil || again != first {
			t.Errorf("again %+v, %v", again, err)
		}
		b.must(b.Revoke(t.Context(), admin, m.id))
		kept(3) // the three newest
		_, err = b.Join(t.Context(), address, newMachine(t, "h1").request(used))
		b.code(err, wire.CodeInviteInvalid)
	})
}
