package accounts

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/gateway"
)

const (
	// watchEvery keeps the promise of 4401 within 5 s for credentials that the
	// command line ended beside a running server.
	watchEvery = 2 * time.Second
	// watchOverlap covers clocks that differ and commits that took long; telling
	// twice that a credential ended does no harm.
	watchOverlap = 10 * time.Second
	sweepEvery   = time.Minute
	// endedKept is how long ended credentials stay for questions.
	endedKept = 90 * 24 * time.Hour

	// PushCredentialEnded is the type of the push on a gateway.CredentialTopic.
	PushCredentialEnded = "credential.ended"
)

// Run watches for credentials that ended elsewhere or by themselves, and
// publishes their end, until ctx ends. The caller waits for it.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var swept time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.now()
		if now.Sub(swept) >= sweepEvery || now.Before(swept) {
			swept = now
			if err := s.store.SweepCredentials(ctx, now, now.Add(-s.sessionIdle), now.Add(-endedKept)); err != nil && ctx.Err() == nil {
				s.log.ErrorContext(ctx, "old sessions were not swept", "error", err)
			}
		}
		ended, err := s.store.EndedSince(ctx, now.Add(-watchOverlap))
		if err != nil {
			if ctx.Err() == nil {
				s.log.ErrorContext(ctx, "ended sessions were not read", "error", err)
			}
			continue
		}
		s.publishEnd(ended...)
	}
}

func (s *Service) publishEnd(ids ...string) {
	for _, id := range ids {
		if id != "" {
			s.bus.Publish(gateway.CredentialTopic(id), gateway.Push{Type: PushCredentialEnded})
		}
	}
}
