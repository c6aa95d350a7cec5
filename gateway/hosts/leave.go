package hosts

import (
	"context"
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// lastWordTimeout is how long a host that takes nothing may hold up what it is told
// before its link is ended.
const lastWordTimeout = 2 * time.Second

// Revoke forgets a host for good, until it is registered again: its link is told so
// and ended with 4403, nothing of it is taken in any more, and the turns of its runs
// end with host_lost. It returns when that is done; should the ledger fail, it is
// tried again in the background and the error tells. A host that is not known is
// no error.
func (r *Registry) Revoke(ctx context.Context, hostID, reason string) error {
	r.mu.Lock()
	h := r.find(hostID)
	if h == nil || r.closed {
		r.mu.Unlock()
		return nil
	}
	h.revoked, r.revoked[hostID] = true, true
	r.forget(h)
	r.catalogs.HostForgotten(hostID)
	live := h.live
	done, buried := make(chan error, 1), make(chan struct{})
	r.burials[hostID] = buried
	r.tasks.Go(func() {
		r.bury(h, live, reason, done)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.burials[hostID] == buried {
			delete(r.burials, hostID)
		}
		close(buried)
	})
	r.mu.Unlock()
	r.log.Info("hosts: revoked", "host", hostID, "reason", reason)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// forget is called with mu held.
func (r *Registry) forget(h *host) {
	for i, known := range r.hosts {
		if known == h {
			r.hosts = append(r.hosts[:i:i], r.hosts[i+1:]...)
			return
		}
	}
}

// bury ends the link of a revoked host, and then its runs. done is told how the
// first try went.
func (r *Registry) bury(h *host, live *session, reason string, done chan<- error) {
	if live != nil {
		live.mute()
		bounded, cancel := context.WithTimeout(r.work, lastWordTimeout)
		_ = live.link.Revoke(bounded, reason) // a host that takes nothing learns it by the close code
		cancel()
		live.expel(ErrRevoked)
		<-live.ended
	}
	<-h.settled
	var pause backoff
	for {
		err := r.endRuns(h.ID)
		select {
		case done <- err:
		default:
		}
		if err == nil || !sleep(r.work, pause.next()) {
			return
		}
		r.log.Error("hosts: the runs of a revoked host were not ended; trying again", "host", h.ID, "error", err)
	}
}

// endRuns tells the ledger that the runs of a host have no host any more.
func (r *Registry) endRuns(hostID string) error {
	runs, err := r.ledger.OpenRuns(r.work, hostID)
	if err != nil {
		return err
	}
	for _, runID := range runs {
		if err := r.end(runID); err != nil {
			return err
		}
	}
	return nil
}

// end tells the ledger that a run has no host any more.
func (r *Registry) end(runID string) error {
	gone := wire.NewError(wire.CodeHostLost, "The relay host was revoked.")
	gone.Retryable = false
	err := r.ledger.Refused(r.work, runID, gone.Body())
	if wire.CodeOf(err) == wire.CodeNotFound {
		return nil
	}
	return err
}

// Leave tells every host on another machine that this gateway goes away and when to
// come back, ends their links with 1012, and waits for their drivers. No such host
// is served any more. The embedded host stays.
func (r *Registry) Leave(ctx context.Context, retryAfter time.Duration) {
	r.mu.Lock()
	r.leaving = true
	var remote []*session
	for _, h := range r.hosts {
		if h.live != nil && !h.Embedded {
			remote = append(remote, h.live)
		}
	}
	r.mu.Unlock()
	var told sync.WaitGroup
	for _, s := range remote {
		told.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, lastWordTimeout)
			defer cancel()
			_ = s.link.Goaway(bounded, string(wire.CodeShuttingDown), retryAfter) // the close code says the same
			s.expel(ErrClosed)
			<-s.ended
		})
	}
	told.Wait()
}

// Close ends every link and waits for every goroutine that the registry started.
// Callers of Serve are waited for as well, up to their return to the caller.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	var live []*session
	for _, h := range r.hosts {
		if h.live != nil {
			live = append(live, h.live)
		}
	}
	r.mu.Unlock()
	var ended sync.WaitGroup
	for _, s := range live {
		ended.Go(func() {
			s.expel(ErrClosed)
			<-s.ended
		})
	}
	ended.Wait()
	r.stop()
	r.tasks.Wait()
}
