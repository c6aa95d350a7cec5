package enroll

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead/fairlead/gateway"
)

const (
	// watchEvery is how soon a running server goes by what the command line changed
	// beside it.
	watchEvery = 2 * time.Second
	// revokeTimeout is how long a revocation is waited for; it goes on by itself.
	revokeTimeout = 10 * time.Second
	// revokedReason is what a host is told.
	revokedReason = "an admin revoked this host"
)

// Start makes the stored hosts known, before the first of them may link.
func (s *Service) Start(ctx context.Context) error { return s.refresh(ctx) }

// Run goes by changes that were made elsewhere, and notes which hosts are there, until
// ctx ends. The caller waits for it.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var noted time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "enroll: the hosts were not read", "error", err)
			continue
		}
		if now := s.now(); now.Sub(noted) >= seenEvery || now.Before(noted) {
			noted = now
			s.noteLinked(ctx)
		}
	}
}

// refresh reads all hosts and tells Links of what differs.
func (s *Service) refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, err := s.store.RelayHosts(ctx)
	if err != nil {
		return fmt.Errorf("read the hosts: %w", err)
	}
	for _, h := range rows {
		s.apply(ctx, h)
	}
	return nil
}

// apply tells Links what became of a host. It is called with mu held, with what was
// read or written under mu.
func (s *Service) apply(ctx context.Context, h gateway.RelayHost) {
	if slices.Contains(s.embedded, h.ID) {
		return
	}
	before, was := s.known[h.ID]
	if !h.RevokedAt.IsZero() {
		s.revoke(ctx, h)
		return
	}
	delete(s.gone, h.ID)
	if was && !bytes.Equal(before.PublicKey, h.PublicKey) {
		// Revoked and joined again since the last look.
		s.revoke(ctx, before)
		delete(s.gone, h.ID)
		was = false
	}
	switch {
	case !was:
		s.links.Register(h)
	case before.Name != h.Name, !slices.Equal(before.Labels, h.Labels), before.DrainedAt.IsZero() != h.DrainedAt.IsZero():
		s.links.Update(h)
	}
	s.known[h.ID] = h
}

// revoke takes a host away, once. One that was revoked while no server ran is made
// known first, so that what it owed ends as well.
func (s *Service) revoke(ctx context.Context, h gateway.RelayHost) {
	if s.gone[h.ID] {
		return
	}
	if _, was := s.known[h.ID]; !was {
		s.links.Register(h)
	}
	s.gone[h.ID] = true
	delete(s.known, h.ID)
	// Who asked may hang up; what is stored is carried out.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if err := s.links.Revoke(bounded, h.ID, revokedReason); err != nil {
		s.log.ErrorContext(ctx, "enroll: the turns of a revoked host did not all end yet", "host", h.ID, "error", err)
	}
	s.admitting.end(h.ID)
}

// noteLinked stores when the linked hosts were last heard, and their versions.
func (s *Service) noteLinked(ctx context.Context) {
	live, err := s.links.AdminHosts(ctx, gateway.Actor{Scopes: []gateway.Scope{gateway.ScopeAdmin}})
	if err != nil {
		s.log.ErrorContext(ctx, "enroll: the linked hosts are not known", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range live {
		h, enrolled := s.known[row.HostID]
		if enrolled && (row.State == gateway.HostOnline || row.State == gateway.HostDraining) {
			s.saw(ctx, h, row.Version, row.SeenAt)
		}
	}
}
