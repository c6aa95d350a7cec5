package hosts

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// steering is what a driver knows of the steers of its run. The ledger reserves
// them, the host decides; in between nothing is kept but what spares a message.
type steering struct {
	due bool // the ledger is to be asked
	// at holds the next question, or the next try to record a receipt, back after a
	// fault of the ledger.
	at    time.Time
	pause backoff
	// offered is what the host was told in this attachment.
	offered  wire.Steer
	receipts []wire.Receipt // to be recorded, in order
}

// reattached is the start of an attachment: what the host was told before may be
// lost, with its receipt.
func (g *steering) reattached() {
	g.due, g.at, g.offered = true, time.Time{}, wire.Steer{}
}

// take takes in what happened, once what came before it is in the ledger.
func (g *steering) take(in inbox) {
	if len(g.receipts)+len(in.receipts) <= maxInboxReceipts {
		g.receipts = append(g.receipts, in.receipts...)
	}
	g.due = g.due || in.woken
}

// steer records what the host said of steers, and offers it the one that is next.
// It tells for how long nothing else is due.
func (d *driver) steer(ctx context.Context) time.Duration {
	g := &d.steering
	if !d.s.steers || !g.due && len(g.receipts) == 0 {
		return asleep
	}
	return d.unless(g.at, func() time.Duration {
		for len(g.receipts) > 0 {
			if err := d.record(ctx, g.receipts[0]); err != nil {
				return d.failSteer(ctx, "a receipt was not recorded", err)
			}
			g.receipts = g.receipts[1:]
		}
		if d.work.Idle || d.stage != attached {
			return asleep
		}
		offer, err := d.s.reg.ledger.Poll(ctx, d.s.host.ID, d.runID)
		if err != nil {
			return d.failSteer(ctx, "the steers of a run are not known", err)
		}
		g.due = false
		g.pause.reset()
		d.present(ctx, offer)
		return asleep
	})
}

// record brings a receipt to the ledger. One that it refuses for good is dropped.
func (d *driver) record(ctx context.Context, r wire.Receipt) error {
	_, err := d.s.reg.ledger.Receipt(ctx, d.s.host.ID, r)
	d.steering.due = true
	if final(err) {
		d.s.reg.log.Warn("hosts: a receipt was refused", "run", d.runID, "delivery", r.DeliveryID, "code", wire.CodeOf(err))
		return nil
	}
	return err
}

// present offers a steer to the host, unless the host was told already. A ledger
// that still offers what the host took waits for the text before it, and wakes the
// run when it has that.
func (d *driver) present(ctx context.Context, offer gateway.SteerOffer) {
	if offer.Outcome != gateway.OfferReserved || offer.Steer == nil || *offer.Steer == d.steering.offered {
		return
	}
	if d.s.link.Steer(ctx, *offer.Steer) == nil {
		d.steering.offered = *offer.Steer
	}
}

// failSteer logs a fault of the ledger and tells when to try again. A run that is
// gone is not asked about before it is woken.
func (d *driver) failSteer(ctx context.Context, what string, err error) time.Duration {
	g := &d.steering
	if ctx.Err() != nil {
		return asleep
	}
	if final(err) {
		d.s.reg.log.Warn("hosts: "+what, "run", d.runID, "code", wire.CodeOf(err))
		g.due = false
		return asleep
	}
	d.s.reg.log.Error("hosts: "+what, "run", d.runID, "error", err)
	g.at = d.later(&g.pause, nil)
	return g.at.Sub(d.s.reg.now())
}

// final tells an answer of the ledger, which will not change, from a fault.
func final(err error) bool {
	switch wire.CodeOf(err) {
	case wire.CodeForbidden, wire.CodeNotFound, wire.CodeBadRequest:
		return true
	}
	return false
}
