package gatewaytest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
)

// HostStore is the conformance suite of the hosts' part of the store on a kind of
// database.
func HostStore(t *testing.T, d Database) {
	for _, c := range []struct {
		name string
		test func(*hostSuite)
	}{
		{"the gateway has one id", (*hostSuite).identity},
		{"invitations", (*hostSuite).invites},
		{"invitations that ended long ago", (*hostSuite).oldInvites},
		{"a host joins, and again", (*hostSuite).join},
		{"an id has one key", (*hostSuite).keys},
		{"a revoked host joins with a new key", (*hostSuite).revoked},
		{"one of many takes an invitation", (*hostSuite).oneInvitation},
		{"one of many takes an id", (*hostSuite).oneID},
		{"changes", (*hostSuite).changes},
		{"no change is lost", (*hostSuite).manyChanges},
		{"when a host was seen", (*hostSuite).seen},
		{"a join that breaks off spends nothing", (*hostSuite).broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			place := d.New(t)
			store := place.Open(t)
			c.test(&hostSuite{T: t, ctx: context.Background(), place: place, Hosts: store.Hosts(), accounts: store.Accounts()})
		})
	}
}

type hostSuite struct {
	*testing.T
	gatewaysql.Hosts
	accounts *gatewaysql.Accounts
	place    *Place
	ctx      context.Context
}

func (s *hostSuite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *hostSuite) is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("error %v, want %v", err, want)
	}
}

// key is a public key of 32 equal bytes.
func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func relayHost(id string, k byte) gateway.RelayHost {
	return gateway.RelayHost{ID: id, Name: "own name", PublicKey: key(k), Version: "1"}
}

// invite stores an invitation and gives its hash.
func (s *hostSuite) invite(alter func(*gateway.HostInvite)) string {
	s.Helper()
	i := gateway.HostInvite{ID: uid(), SecretHash: uid(), OrgID: "org", CreatedBy: "ada", CreatedAt: noon, ExpiresAt: night}
	if alter != nil {
		alter(&i)
	}
	s.must(s.CreateHostInvite(s.ctx, i, entry()))
	return i.SecretHash
}

func (s *hostSuite) joined(id string, k byte) gateway.RelayHost {
	s.Helper()
	h, err := s.JoinHost(s.ctx, s.invite(nil), relayHost(id, k), noon, entry())
	s.must(err)
	return h
}

// audits counts the entries of the log.
func (s *hostSuite) audits() int {
	s.Helper()
	list, err := s.accounts.Audit(s.ctx, "", "", 500)
	s.must(err)
	return len(list)
}

func (s *hostSuite) identity() {
	ids := make([]string, 4)
	if failed := race(4, func(i int) (err error) { ids[i], err = s.GatewayID(s.ctx, uid()); return err }); failed != nil {
		s.Error(failed)
	}
	if slices.Sort(ids); ids[0] == "" || ids[0] != ids[3] {
		s.Errorf("ids %v", ids)
	}
	if again, err := s.place.Open(s.T).Hosts().GatewayID(s.ctx, uid()); err != nil || again != ids[0] {
		s.Errorf("after a restart %q, %v", again, err)
	}
}

func (s *hostSuite) invites() {
	older := s.invite(func(i *gateway.HostInvite) { i.Name, i.Labels = "gpu box", []string{"gpu", "site=berlin"} })
	newer := s.invite(func(i *gateway.HostInvite) { i.CreatedAt = noon.Add(time.Second) })
	list, err := s.HostInvites(s.ctx, noon)
	if err != nil || len(list) != 2 || list[0].SecretHash != newer || list[1].SecretHash != older {
		s.Fatalf("invitations %+v, %v", list, err)
	}
	got := list[1]
	if got.Name != "gpu box" || !slices.Equal(got.Labels, []string{"gpu", "site=berlin"}) || got.OrgID != "org" || got.CreatedBy != "ada" ||
		!got.CreatedAt.Equal(noon) || !got.ExpiresAt.Equal(night) || !got.UsedAt.IsZero() || got.HostID != "" {
		s.Errorf("invitation %+v", got)
	}
	if list, err := s.HostInvites(s.ctx, night); err != nil || len(list) != 0 {
		s.Errorf("expired invitations %+v, %v", list, err)
	}
	s.is(s.RevokeHostInvite(s.ctx, uid(), noon, entry()), gateway.ErrNoRow)
	s.is(s.RevokeHostInvite(s.ctx, got.ID, night, entry()), gateway.ErrNoRow)
	s.must(s.RevokeHostInvite(s.ctx, got.ID, noon, entry()))
	s.is(s.RevokeHostInvite(s.ctx, got.ID, noon, entry()), gateway.ErrNoRow)
	for hash, at := range map[string]time.Time{older: noon, newer: night, uid(): noon} {
		_, err := s.JoinHost(s.ctx, hash, relayHost("h", 1), at, entry())
		s.is(err, gateway.ErrInviteSpent)
	}
	if list, err := s.RelayHosts(s.ctx); err != nil || len(list) != 0 {
		s.Errorf("hosts %+v, %v", list, err)
	}
}

// oldInvites: what is removed was of no use any more, and gets none by it.
func (s *hostSuite) oldInvites() {
	later := night.Add(time.Hour)
	join := func(hash, id string, k byte, at time.Time) error {
		_, err := s.JoinHost(s.ctx, hash, relayHost(id, k), at, entry())
		return err
	}
	expired, open := s.invite(nil), s.invite(func(i *gateway.HostInvite) { i.ExpiresAt = later.Add(time.Hour) })
	var revokedID string
	revoked := s.invite(func(i *gateway.HostInvite) { revokedID = i.ID })
	s.must(s.RevokeHostInvite(s.ctx, revokedID, noon, entry()))
	of := map[string]string{"live": s.invite(nil), "gone": s.invite(nil), "renewed": s.invite(nil)}
	for id, hash := range of {
		s.must(join(hash, id, 1, noon))
	}
	for _, id := range []string{"gone", "renewed"} {
		_, err := s.ChangeHost(s.ctx, id, func(h *gateway.RelayHost) { h.RevokedAt = noon }, entry())
		s.must(err)
	}
	renewed := s.invite(nil)
	s.must(join(renewed, "renewed", 2, noon))

	left := func(want ...string) {
		s.Helper()
		rows, err := s.place.Raw(s.T).QueryContext(s.ctx, "SELECT secret_hash FROM host_invites")
		s.must(err)
		defer func() { s.must(rows.Close()) }()
		var got []string
		for rows.Next() {
			var hash string
			s.must(rows.Scan(&hash))
			got = append(got, hash)
		}
		s.must(rows.Err())
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			s.Errorf("%d invitations are left, want %d", len(got), len(want))
		}
	}
	s.must(s.ForgetHostInvites(s.ctx, noon))
	left(expired, open, revoked, renewed, of["live"], of["gone"], of["renewed"])
	s.must(s.ForgetHostInvites(s.ctx, noon.Add(time.Millisecond)))
	left(expired, open, renewed, of["live"])
	s.must(s.ForgetHostInvites(s.ctx, later))
	left(open, renewed, of["live"])
	for _, hash := range []string{expired, revoked, of["gone"], of["renewed"], of["live"], renewed} {
		s.is(join(hash, "another", 3, noon), gateway.ErrInviteSpent)
	}
	s.must(join(of["live"], "live", 1, later)) // asks again
	s.must(join(renewed, "renewed", 2, later))
	s.must(join(open, "another", 3, later))
}

func (s *hostSuite) join() {
	hash := s.invite(func(i *gateway.HostInvite) { i.Labels = []string{"gpu"} })
	before := s.audits()
	first, err := s.JoinHost(s.ctx, hash, relayHost("h.1", 1), noon, entry())
	s.must(err)
	if first.ID != "h.1" || first.Name != "own name" || !bytes.Equal(first.PublicKey, key(1)) || !slices.Equal(first.Labels, []string{"gpu"}) ||
		first.Version != "1" || first.JoinedBy != "ada" || !first.JoinedAt.Equal(noon) || !first.SeenAt.IsZero() ||
		!first.DrainedAt.IsZero() || !first.RevokedAt.IsZero() {
		s.Errorf("host %+v", first)
	}
	list, err := s.accounts.Audit(s.ctx, "org", "", 10)
	s.must(err)
	ofOrg := func(e gateway.AuditEntry) bool { return e.OrgID == "org" }
	if s.audits() != before+1 || !slices.ContainsFunc(list, ofOrg) {
		s.Errorf("%d entries, before %d; those of the org %+v", s.audits(), before, list)
	}
	renamed := relayHost("h.1", 1)
	renamed.Name = "another name"
	for _, at := range []time.Time{noon, night.Add(time.Hour)} { // also when the invitation is too old
		again, err := s.JoinHost(s.ctx, hash, renamed, at, entry())
		if err != nil || !sameJoin(again, first) {
			s.Errorf("again %+v, %v", again, err)
		}
	}
	if s.audits() != before+1 {
		s.Error("a repeated join is audited again")
	}
	for _, other := range []gateway.RelayHost{relayHost("h.2", 1), relayHost("h.1", 2)} {
		_, err := s.JoinHost(s.ctx, hash, other, noon, entry())
		s.is(err, gateway.ErrInviteSpent)
	}
	if got, err := s.RelayHost(s.ctx, "h.1"); err != nil || !sameJoin(got, first) {
		s.Errorf("stored %+v, %v", got, err)
	}
	_, err = s.RelayHost(s.ctx, "h.2")
	s.is(err, gateway.ErrNoRow)
}

func sameJoin(a, b gateway.RelayHost) bool {
	return a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.PublicKey, b.PublicKey) && slices.Equal(a.Labels, b.Labels) &&
		a.Version == b.Version && a.JoinedAt.Equal(b.JoinedAt) && a.RevokedAt.Equal(b.RevokedAt)
}

func (s *hostSuite) keys() {
	first := s.joined("h", 1)
	other := s.invite(func(i *gateway.HostInvite) { i.Name = "thief" })
	_, err := s.JoinHost(s.ctx, other, relayHost("h", 2), noon, entry())
	s.is(err, gateway.ErrHostKey)
	if list, err := s.HostInvites(s.ctx, noon); err != nil || len(list) != 1 {
		s.Errorf("the invitation does not stand any more: %v, %v", list, err)
	}
	// The same key with another invitation changes nothing of the host.
	again, err := s.JoinHost(s.ctx, other, relayHost("h", 1), noon, entry())
	if err != nil || !sameJoin(again, first) {
		s.Errorf("again %+v, %v", again, err)
	}
	if list, err := s.HostInvites(s.ctx, noon); err != nil || len(list) != 0 {
		s.Errorf("the invitation stands: %v, %v", list, err)
	}
}

func (s *hostSuite) revoked() {
	hash := s.invite(nil)
	_, err := s.JoinHost(s.ctx, hash, relayHost("h", 1), noon, entry())
	s.must(err)
	s.must(s.SawHost(s.ctx, "h", "1", noon))
	_, err = s.ChangeHost(s.ctx, "h", func(h *gateway.RelayHost) { h.RevokedAt, h.DrainedAt = noon, noon }, entry())
	s.must(err)
	_, err = s.ChangeHost(s.ctx, "h", func(h *gateway.RelayHost) { h.RevokedAt = time.Time{} }, entry())
	s.is(err, gateway.ErrNoRow)
	_, err = s.JoinHost(s.ctx, hash, relayHost("h", 1), noon, entry())
	s.is(err, gateway.ErrInviteSpent) // a lost answer is not asked for any more
	fresh := s.invite(nil)
	_, err = s.JoinHost(s.ctx, fresh, relayHost("h", 1), noon, entry())
	s.is(err, gateway.ErrHostRevoked)
	back, err := s.JoinHost(s.ctx, fresh, relayHost("h", 2), noon.Add(time.Hour), entry())
	if err != nil || !bytes.Equal(back.PublicKey, key(2)) || !back.RevokedAt.IsZero() || !back.DrainedAt.IsZero() || !back.SeenAt.IsZero() ||
		!back.JoinedAt.Equal(noon.Add(time.Hour)) {
		s.Errorf("back as %+v, %v", back, err)
	}
	if list, err := s.RelayHosts(s.ctx); err != nil || len(list) != 1 {
		s.Errorf("hosts %+v, %v", list, err)
	}
}

func (s *hostSuite) oneInvitation() {
	for range 3 {
		hash, ids := s.invite(nil), []string{uid(), uid()}
		failed := race(6, func(i int) error {
			_, err := s.JoinHost(s.ctx, hash, relayHost(ids[i%2], 1), noon, entry())
			return err
		})
		if len(failed) != 3 {
			s.Errorf("%d of 6 were refused, want those of one host: %v", len(failed), failed)
		}
		for _, err := range failed {
			s.is(err, gateway.ErrInviteSpent)
		}
		var stored int
		for _, id := range ids {
			if _, err := s.RelayHost(s.ctx, id); err == nil {
				stored++
			}
		}
		if stored != 1 {
			s.Errorf("%d hosts of one invitation", stored)
		}
	}
}

func (s *hostSuite) oneID() {
	for range 3 {
		id, hashes := uid(), []string{s.invite(nil), s.invite(nil), s.invite(nil)}
		failed := race(3, func(i int) error {
			_, err := s.JoinHost(s.ctx, hashes[i], relayHost(id, byte(i+1)), noon, entry())
			return err
		})
		if len(failed) != 2 {
			s.Errorf("%d of 3 were refused: %v", len(failed), failed)
		}
		for _, err := range failed {
			s.is(err, gateway.ErrHostKey)
		}
	}
}

func (s *hostSuite) changes() {
	s.joined("h", 1)
	before := s.audits()
	got, err := s.ChangeHost(s.ctx, "h", func(h *gateway.RelayHost) {
		h.ID, h.PublicKey, h.Version = "other", key(9), "9" // none of which may change
		h.Name, h.Labels, h.DrainedAt = "new", []string{"a", "b=c"}, night
	}, entry())
	s.must(err)
	stored, err := s.RelayHost(s.ctx, "h")
	s.must(err)
	for _, h := range []gateway.RelayHost{got, stored} {
		if h.ID != "h" || !bytes.Equal(h.PublicKey, key(1)) || h.Name != "new" || !slices.Equal(h.Labels, []string{"a", "b=c"}) || !h.DrainedAt.Equal(night) {
			s.Errorf("host %+v", h)
		}
	}
	if stored.Version != "1" {
		s.Errorf("version %q", stored.Version)
	}
	_, err = s.ChangeHost(s.ctx, "h", func(h *gateway.RelayHost) { h.Name = "new" }, entry())
	s.must(err)
	if n := s.audits(); n != before+1 {
		s.Errorf("%d entries for one change", n-before)
	}
	_, err = s.ChangeHost(s.ctx, "nobody", func(*gateway.RelayHost) {}, entry())
	s.is(err, gateway.ErrNoRow)
}

func (s *hostSuite) manyChanges() {
	s.joined("h", 1)
	if failed := race(8, func(i int) error {
		_, err := s.ChangeHost(s.ctx, "h", func(h *gateway.RelayHost) { h.Labels = append(h.Labels, string(rune('a'+i))) }, entry())
		return err
	}); failed != nil {
		s.Fatal(failed)
	}
	if h, err := s.RelayHost(s.ctx, "h"); err != nil || len(h.Labels) != 8 {
		s.Errorf("labels %v, %v", h.Labels, err)
	}
}

func (s *hostSuite) seen() {
	s.joined("h", 1)
	s.must(s.SawHost(s.ctx, "h", "2", night))
	s.must(s.SawHost(s.ctx, "h", "1", noon)) // time never runs back
	s.must(s.SawHost(s.ctx, "h", "", night.Add(time.Second)))
	s.must(s.SawHost(s.ctx, "nobody", "1", noon))
	if h, err := s.RelayHost(s.ctx, "h"); err != nil || h.Version != "2" || !h.SeenAt.Equal(night.Add(time.Second)) {
		s.Errorf("host %+v, %v", h, err)
	}
}

// broken takes away the table that a join writes last, or that of the hosts.
func (s *hostSuite) broken() {
	raw := s.place.Raw(s.T)
	for i, table := range []string{"audit", "relay_hosts"} {
		hash := s.invite(nil)
		h := relayHost("h"+table, byte(i+1))
		rename := func(from, to string) {
			s.Helper()
			_, err := raw.ExecContext(s.ctx, "ALTER TABLE "+from+" RENAME TO "+to)
			s.must(err)
		}
		rename(table, "away")
		if _, err := s.JoinHost(s.ctx, hash, h, noon, entry()); err == nil {
			s.Errorf("a join without the table %s succeeds", table)
		}
		rename("away", table)
		if _, err := s.RelayHost(s.ctx, h.ID); !errors.Is(err, gateway.ErrNoRow) {
			s.Errorf("without %s the host is stored: %v", table, err)
		}
		if _, err := s.JoinHost(s.ctx, hash, h, noon, entry()); err != nil {
			s.Errorf("after %s came back: %v", table, err)
		}
	}
}
