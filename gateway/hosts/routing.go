package hosts

import (
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// Wake tells that Work of the run may have changed. It never blocks. A run whose
// host is away is driven when the host links again.
func (r *Registry) Wake(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	for _, h := range r.hosts {
		if h.live != nil && h.live.wake(runID) {
			return
		}
	}
	if _, busy := r.routing[runID]; busy {
		r.routing[runID] = true
		return
	}
	r.routing[runID] = false
	r.tasks.Go(func() { r.route(runID) })
}

// route finds the host of a run that has no driver, and tells the ledger when it
// is away.
func (r *Registry) route(runID string) {
	var pause backoff
	for {
		away, err := r.routeOnce(runID)
		for err != nil && sleep(r.work, pause.next()) {
			away, err = r.routeOnce(runID)
		}
		if away {
			r.ledger.Waiting(r.work, runID, reasonHostOffline, time.Time{})
		}
		r.mu.Lock()
		again := r.routing[runID] && !r.closed
		r.routing[runID] = false
		if !again {
			delete(r.routing, runID)
			r.mu.Unlock()
			break
		}
		r.mu.Unlock()
	}
	// A host that linked meanwhile has its runs driven; the driver takes back what
	// was just said.
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hosts {
		if h.live != nil {
			h.live.remind(runID)
		}
	}
}

// routeOnce finds the host of a run and leaves the rest to its driver: work that was
// asked for counts as sent, so it is asked for only where it can be told.
func (r *Registry) routeOnce(runID string) (away bool, err error) {
	hostID, idle, err := r.ledger.HostOf(r.work, runID)
	switch {
	case wire.CodeOf(err) == wire.CodeNotFound:
		return false, nil
	case err != nil:
		if r.work.Err() == nil {
			r.log.Error("hosts: the host of a run is not known", "run", runID, "error", err)
		}
		return false, err
	}
	away, lost := r.hand(runID, hostID)
	if lost && !idle {
		return false, r.end(runID)
	}
	return away && !idle, nil
}

// hand gives a run to the driver of its host. lost tells that the host was revoked: a
// turn that was placed there at that moment would wait for it in vain.
func (r *Registry) hand(runID, hostID string) (away, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.find(hostID)
	switch {
	case h == nil:
		return true, r.revoked[hostID]
	case h.live == nil:
		return true, false
	}
	h.live.drive(runID, false)
	return false, false
}
