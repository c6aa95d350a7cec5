package hosts

import (
	"cmp"
	"slices"

	"github.com/fairlead/fairlead/relay/wire"
)

// room decides which prompts are offered to a host that runs a bounded number of
// provider requests: one that cannot run would cost the host two durable writes
// to refuse. Drivers wait in the order in which they first asked, a refusal costs
// none its place. It is guarded by Registry.mu.
type room struct {
	known    bool
	host     wire.Room
	offering map[*driver]struct{} // offered, not answered
	waiting  []*driver            // by ticket
	tickets  uint64
}

func (r *room) free() int {
	if !r.known || r.host.Max <= 0 {
		return 1
	}
	return r.host.Max - r.host.Inflight - len(r.offering)
}

// left is how many prompts more the host could take than wait for it already.
func (r *room) left() int { return r.free() - len(r.waiting) }

// update takes what the host says and lets in as many as there is room for.
func (r *room) update(m wire.Room) {
	r.known, r.host = true, m
	r.release()
}

// admit takes a place for d, or puts it among the waiting.
func (r *room) admit(d *driver) bool {
	if r.free() <= 0 {
		r.enqueue(d)
		return false
	}
	r.take(d)
	return true
}

// take gives d a place whether there is one or not.
func (r *room) take(d *driver) {
	r.forget(d)
	if r.offering == nil {
		r.offering = map[*driver]struct{}{}
	}
	r.offering[d] = struct{}{}
}

// refused takes the place of d away and puts it among the waiting; nobody is let
// in for it, as the host has no room.
func (r *room) refused(d *driver) {
	delete(r.offering, d)
	r.enqueue(d)
}

// leave gives up the place of d, also that in the line, and lets the next one in.
func (r *room) leave(d *driver) {
	delete(r.offering, d)
	r.forget(d)
	d.ticket = 0
	r.release()
}

func (r *room) enqueue(d *driver) {
	if d.ticket == 0 {
		r.tickets++
		d.ticket = r.tickets
	}
	at, there := slices.BinarySearchFunc(r.waiting, d.ticket, func(w *driver, ticket uint64) int {
		return cmp.Compare(w.ticket, ticket)
	})
	if !there {
		r.waiting = slices.Insert(r.waiting, at, d)
	}
}

// release tells the first of the waiting that there is room. They keep no claim:
// each asks again.
func (r *room) release() {
	n := min(r.free(), len(r.waiting))
	if n <= 0 {
		return
	}
	for _, d := range r.waiting[:n] {
		d.post(func(in *inbox) { in.room = true })
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
}

func (r *room) forget(d *driver) {
	r.waiting = slices.DeleteFunc(r.waiting, func(other *driver) bool { return other == d })
}
