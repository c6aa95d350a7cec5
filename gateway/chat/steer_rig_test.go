package chat_test

import (
	"context"
	"sync"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// poll asks for the steer of a run, as its host does.
func (r *rig) poll(run string) gateway.SteerOffer {
	r.Helper()
	offer, err := r.Poll(r.ctx, r.host.ID, run)
	r.must(err)
	return offer
}

// reserve polls for a steer that must be there.
func (r *rig) reserve(run, prompt string) gateway.SteerOffer {
	r.Helper()
	offer := r.poll(run)
	if offer.Outcome != gateway.OfferReserved || offer.Steer == nil || offer.Steer.Text != prompt {
		r.Fatalf("poll gave %s, want %q reserved", asJSON(r, offer), prompt)
	}
	return offer
}

func (r *rig) wantPoll(run string, outcome gateway.OfferOutcome, reason string) gateway.SteerOffer {
	r.Helper()
	offer := r.poll(run)
	if offer.Outcome != outcome || offer.Reason != reason {
		r.Fatalf("poll gave %s, want %s %s", asJSON(r, offer), outcome, reason)
	}
	return offer
}

// receiptOf is the receipt of a steer that the turn took after at bytes of text.
func receiptOf(s *wire.Steer, at int) wire.Receipt {
	return wire.Receipt{
		RunID: s.RunID, TurnID: s.TurnID, DeliveryID: s.DeliveryID, Outcome: wire.ReceiptDelivered, At: uint64(at),
	}
}

// took tells that the turn took a steer after at bytes of text.
func (r *rig) took(s *wire.Steer, at int, want wire.ReceiptOutcome) {
	r.Helper()
	got, err := r.Receipt(r.ctx, r.host.ID, receiptOf(s, at))
	r.must(err)
	if got != want {
		r.Fatalf("the receipt was answered %q, want %q", got, want)
	}
}

// listing is the end of a turn that lists a steer as taken.
func listing(p wire.CompletedPayload, deliveryID string, at int, cut bool) wire.CompletedPayload {
	if p.Outcome == nil {
		p.Outcome = &wire.Outcome{}
	}
	p.Outcome.Deliveries = append(p.Outcome.Deliveries, wire.Delivered{DeliveryID: deliveryID, At: uint64(at), Cut: cut})
	return p
}

// endFor sends the end of a turn past the double, which knows of no lists.
func (r *rig) endFor(run, virtual string, p wire.CompletedPayload) {
	r.Helper()
	done := make(chan struct{})
	r.must(r.Intake(r.ctx, run, []wire.Envelope{{
		Seq: 1000, Event: wire.EventTurnCompleted, TurnID: virtual, Payload: []byte(asJSON(r, p)),
	}}, func(uint64) { close(done) }))
	<-done
}

// asSteer sends a message as a steer.
func (r *rig) asSteer(threadID, prompt string, with ...func(*gateway.SendRequest)) gateway.SendReply {
	r.Helper()
	return r.say(threadID, prompt, append(with, mode(gateway.ModeSteer))...)
}

func wantDisposition(t tb, reply gateway.SendReply, d gateway.Disposition) gateway.SendReply {
	t.Helper()
	if reply.Disposition != d {
		t.Fatalf("reply %s, want %s", asJSON(t, reply), d)
	}
	return reply
}

// delivery reads a delivery.
func (r *rig) delivery(id string) (d gateway.DeliveryRow) {
	r.Helper()
	r.must(r.sql.Chat().View(r.ctx, func(tx gateway.ChatTx) (err error) {
		d, err = tx.Delivery(r.ctx, id)
		return err
	}))
	return d
}

// hold takes the lock of a thread's row, until the returned function runs.
func (r *rig) hold(threadID string) (free func()) {
	r.Helper()
	locked, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.sql.Chat().Update(r.ctx, func(tx gateway.ChatTx) error {
			err := tx.LockThread(r.ctx, threadID)
			close(locked)
			<-release
			return err
		})
	}()
	<-locked
	var once sync.Once
	free = func() {
		once.Do(func() {
			close(release)
			r.must(<-done)
		})
	}
	r.t.Cleanup(free)
	return free
}

// waiters counts those who wait for a lock.
func (r *rig) waiters() int {
	r.Helper()
	n, err := r.place.Waiters(context.Background())
	r.must(err)
	return n
}

func (r *rig) eventsOf(threadID string, kind gateway.EventType) (list []gateway.Event) {
	r.Helper()
	for _, e := range r.events(threadID) {
		if e.EventType == kind {
			list = append(list, e)
		}
	}
	return list
}

// pushesOf counts the pushes that hold an event, of which there must be one.
func (r *rig) pushesOf(threadID string, e gateway.Event) (n int) {
	r.Helper()
	r.until("the event is pushed", func() bool {
		n = 0
		for _, p := range r.bus.Pushes(gateway.ThreadTopic(threadID), "thread.events") {
			if p.FirstSeq <= e.SeqID && e.SeqID <= p.LastSeq {
				n++
			}
		}
		return n > 0
	})
	return n
}

func (r *rig) recall(threadID, eventID string) error {
	_, err := r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: threadID, RevokesEventID: eventID})
	return err
}

func (w *wakes) of(runID string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[runID]
}

// over ends a turn well.
func (r *rig) over(turnID string) { r.Helper(); r.end(turnID, gatewaytest.Completed()) }
