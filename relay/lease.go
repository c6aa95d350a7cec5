package relay

import (
	"sync"

	"github.com/fairlead/fairlead/relay/wire"
)

// leases is who may ask providers for work. A scope holds its lease alone; a
// provider request in progress also takes one of its places.
type leases struct {
	places int
	// changed is called, without a lock, whenever the number of taken places has
	// changed.
	changed func()

	mu   sync.Mutex      // held for the body of each method only
	held map[string]bool // scope key → takes a place
	used int
}

func newLeases(places int, changed func()) *leases {
	return &leases{places: places, changed: changed, held: map[string]bool{}}
}

// take takes the lease of a scope, with a place or without. It never waits: false
// means that every place is taken; nothing has changed then.
func (l *leases) take(key string, place bool) bool {
	l.mu.Lock()
	if !place || l.held[key] {
		if !l.held[key] {
			l.held[key] = false
		}
		l.mu.Unlock()
		return true
	}
	if l.used >= l.places {
		l.mu.Unlock()
		return false
	}
	l.held[key] = true
	l.used++
	l.mu.Unlock()
	l.changed()
	return true
}

// restore takes a lease at start-up. A native turn that runs already keeps its
// place, whatever the limit says now.
func (l *leases) restore(key string, place bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if place && !l.held[key] {
		l.used++
	}
	l.held[key] = l.held[key] || place
}

// vacate frees the place of a scope whose native turn has ended.
func (l *leases) vacate(key string) {
	l.mu.Lock()
	freed := l.held[key]
	if freed {
		l.held[key] = false
		l.used--
	}
	l.mu.Unlock()
	if freed {
		l.changed()
	}
}

// release gives back a scope's lease and its place.
func (l *leases) release(key string) {
	l.vacate(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, key)
}

// state tells whether a scope holds its lease, and whether with a place.
func (l *leases) state(key string) (held, place bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place, held = l.held[key]
	return held, place
}

func (l *leases) room() wire.Room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return wire.Room{Inflight: l.used, Max: l.places}
}
