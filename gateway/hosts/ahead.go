package hosts

import (
	"slices"

	"github.com/fairlead/fairlead/relay/wire"
)

// Bounds of what the ledger was given of a run and has not made durable. A host that
// keeps to RH56 sends 192 envelopes or 3 MiB at most above its cursor; the rest is for
// what comes twice.
const (
	maxAheadEvents = 1024
	maxAheadBytes  = 16 << 20
	// maxLeap is how far the Seq of an envelope may be from what came before, far beyond
	// what a host skips (RH48). A run whose cursor is at the greatest Seq takes no event
	// any more, also not of the host that joins in the place of a revoked one.
	maxLeap = 1 << 30
)

// ahead is the envelopes that the ledger was given and that are not durable.
type ahead struct {
	given []givenEnvelope
	bytes int
}

type givenEnvelope struct {
	seq  uint64
	size int
}

// full tells whether the host has to wait for its cursor.
func (a *ahead) full() bool { return len(a.given) >= maxAheadEvents || a.bytes >= maxAheadBytes }

func (a *ahead) add(events []wire.Envelope) {
	for _, e := range events {
		a.given = append(a.given, givenEnvelope{e.Seq, len(e.Payload)})
		a.bytes += len(e.Payload)
	}
}

// durable forgets what is durable by now.
func (a *ahead) durable(cursor uint64) {
	a.given = slices.DeleteFunc(a.given, func(g givenEnvelope) bool {
		if g.seq <= cursor {
			a.bytes -= g.size
		}
		return g.seq <= cursor
	})
}
