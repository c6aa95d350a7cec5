package hosts

import (
	"context"

	"github.com/fairlead/fairlead/relay/wire"
)

// catchUp is for a ledger that was restored from a backup: the host was told before that
// all up to known is durable, and brings nothing of it back (RH49). A turn that was open
// when the host linked may have ended there, and its text has a gap at least, so it ends
// visibly rather than wait for what came already.
func (d *driver) catchUp(ctx context.Context, known uint64) {
	if known <= max(d.confirm, d.durable) || ctx.Err() != nil {
		return
	}
	d.s.reg.log.Warn("hosts: the gateway is behind its host, as after a restore from a backup",
		"run", d.runID, "host", d.s.host.ID, "cursor", d.confirm, "known", known)
	if d.resumed {
		lost := wire.NewError(wire.CodeHostLost, "The gateway was restored to a time before the turn ended.")
		if err := d.s.reg.ledger.Refused(ctx, d.runID, lost.Body()); err != nil {
			d.reattach()
			d.attachAt = d.later(&d.attachPause, nil)
			d.fail(ctx, "a turn that the gateway missed was not ended", err)
			return
		}
		d.stale = true
	}
	// The cursor goes past what never comes, so that this is done once.
	d.intake(ctx, []wire.Envelope{{Seq: known}})
}
