package relay

import (
	"context"

	"github.com/fairlead/fairlead/relay/wire"
)

const (
	// catalogTimestamp stands in every catalog event, so that a replay differs in its
	// seq alone (RH60).
	catalogTimestamp = "1970-01-01T00:00:00Z"

	// Limits of what a run may have journaled and not acknowledged, integrity events
	// included (RH56).
	maxJournalEvents = 256
	maxJournalBytes  = 4 << 20

	// maxAnnounced is how many catalog events are remembered. What was forgotten is
	// sent again, under its old name.
	maxAnnounced = 4096
)

// announced remembers which catalog events this process has journaled. A name tells
// run, challenge and content.
type announced struct {
	known map[string]struct{}
	order []string // oldest first
}

func (a *announced) has(key string) bool {
	_, ok := a.known[key]
	return ok
}

func (a *announced) add(key string) {
	if a.known == nil {
		a.known = map[string]struct{}{}
	}
	if a.has(key) {
		return
	}
	if len(a.order) >= maxAnnounced {
		delete(a.known, a.order[0])
		a.order = a.order[1:]
	}
	a.known[key] = struct{}{}
	a.order = append(a.order, key)
}

// catalogPayload is the payload of a catalog event, nil without a challenge.
func (h *Host) catalogPayload(challenge string) ([]byte, error) {
	if challenge == "" {
		return nil, nil
	}
	if !wire.ValidChallenge(challenge) {
		return nil, errChallenge()
	}
	catalog, err := h.catalog(challenge)
	if err != nil {
		return nil, err
	}
	payload, err := wire.Canonical(catalog)
	if err != nil {
		return nil, wire.WrapError(wire.CodeInternal, "The catalog of this host cannot be sent.", err)
	}
	return payload, nil
}

// announceCatalog journals the host's catalog into the authorised run, unless this
// process did so before or it still stands in the run's journal (RH47, RH60). It is
// an integrity event: where the run has no place for it, nothing is shed, it fails
// (RH56). Errors: relay_catalog_empty, relay_persist_failed. mu is held.
func (s *Scope) announceCatalog(ctx context.Context, payload []byte) error {
	e := wire.Envelope{
		SchemaVersion: wire.EnvelopeSchemaVersion, Seq: s.run.last + 1,
		Event: wire.EventRuntimeCatalog, Kind: wire.EventRuntimeCatalog,
		SourceEventID: wire.CatalogEventID(s.run.id, wire.Fingerprint(string(payload))),
		Timestamp:     catalogTimestamp, Payload: payload,
	}
	if s.isAnnounced(e.SourceEventID) {
		return nil
	}
	if err := s.run.place(e); err != nil {
		return err
	}
	err := s.written(s.host.cfg.Store.AppendJournal(ctx, s.key, s.run.id, []JournalEntry{{Envelope: e, Integrity: true}}, nil))
	if err != nil {
		return err
	}
	s.run.add(e)
	s.integrity[s.run.id] = e.Seq
	s.host.leases.take(s.key, false)
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.host.announced.add(s.key + e.SourceEventID)
	return nil
}

// isAnnounced tells whether a catalog event is on its way, or was.
func (s *Scope) isAnnounced(sourceEventID string) bool {
	for _, e := range s.run.pending {
		if e.SourceEventID == sourceEventID {
			return true
		}
	}
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	return s.host.announced.has(s.key + sourceEventID)
}

// place is the budget of an integrity event.
func (r *run) place(e wire.Envelope) error {
	switch {
	case len(e.Payload) > maxJournalBytes:
		return wire.NewError(wire.CodeCatalogEmpty, "The catalog of this host is too large to be sent: name fewer models in its settings.")
	case e.Seq > maxCursor:
		return wire.NewError(wire.CodeInternal, "The run has used up its sequence numbers.")
	case len(r.pending) >= maxJournalEvents || r.bytes+len(e.Payload) > maxJournalBytes:
		return wire.NewError(wire.CodePersistFailed, "The run has too many events that were not acknowledged. Acknowledge them and attach again.")
	}
	return nil
}
