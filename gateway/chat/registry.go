package chat

import (
	"sync"
	"time"
)

// registry finds live turns, and knows since when the hosts of runs are away. It
// holds no lock of a live turn.
type registry struct {
	mu       sync.RWMutex
	byTurn   map[string]*live
	byThread map[string]*live
	byRun    map[string]*live
	away     map[string]time.Time // run of a live or holding turn → since when
	holding  map[string]struct{}  // runs whose cancelled turn holds a delivery
}

func newRegistry() *registry {
	return &registry{
		byTurn: make(map[string]*live), byThread: make(map[string]*live),
		byRun: make(map[string]*live), away: make(map[string]time.Time), holding: make(map[string]struct{}),
	}
}

func (r *registry) add(lt *live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byTurn[lt.turnID], r.byThread[lt.threadID] = lt, lt
	if lt.runID != "" {
		r.byRun[lt.runID] = lt
	}
}

// remove forgets a turn that is final.
func (r *registry) remove(lt *live) {
	lt.finish()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byTurn, lt.turnID)
	if r.byThread[lt.threadID] == lt {
		delete(r.byThread, lt.threadID)
	}
	if r.byRun[lt.runID] == lt {
		delete(r.byRun, lt.runID)
		r.forget(lt.runID)
	}
}

// forget needs mu. It drops what is known of the host of a run that needs it no
// more.
func (r *registry) forget(runID string) {
	if _, holds := r.holding[runID]; !holds && r.byRun[runID] == nil {
		delete(r.away, runID)
	}
}

// hold notes that a cancelled turn of the run holds a delivery, unhold that it
// holds none any more. Until then it is known whether the host is away.
func (r *registry) hold(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holding[runID] = struct{}{}
}

func (r *registry) unhold(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.holding, runID)
	r.forget(runID)
}

func (r *registry) turn(turnID string) *live {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byTurn[turnID]
}

func (r *registry) thread(threadID string) *live {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byThread[threadID]
}

func (r *registry) run(runID string) *live {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byRun[runID]
}

// ofHost finds a turn by the name that its host knows it by.
func (r *registry) ofHost(runID, virtualID string) *live {
	if lt := r.run(runID); lt != nil && lt.virtualID == virtualID {
		return lt
	}
	return nil
}

// all gives the live turns.
func (r *registry) all() []*live {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]*live, 0, len(r.byTurn))
	for _, lt := range r.byTurn {
		list = append(list, lt)
	}
	return list
}

// hostAway notes that the host of a live or holding run does not answer; the first note
// counts.
func (r *registry) hostAway(runID string, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, holds := r.holding[runID]
	if _, known := r.away[runID]; !known && (holds || r.byRun[runID] != nil) {
		r.away[runID] = since
	}
}

// hostBack notes a sign of life for a run.
func (r *registry) hostBack(runID string) {
	r.mu.RLock()
	_, away := r.away[runID]
	r.mu.RUnlock()
	if !away {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.away, runID)
}

// awaySince tells since when the host of a run does not answer.
func (r *registry) awaySince(runID string) (time.Time, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.away[runID]
	return t, ok
}
