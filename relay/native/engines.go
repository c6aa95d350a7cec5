package native

import (
	"container/list"
	"context"
	"sync"
)

const (
	// maxIdle is how many conversations without an active turn stay in memory
	// (RH72).
	maxIdle = 8
	// maxIdleBytes is the size above which a conversation is read again rather
	// than kept.
	maxIdleBytes = 8 << 20
)

// engine is what memory holds of one thread.
type engine struct {
	threadID string
	// starting is held by whoever accepts a turn, or discards the thread: two of
	// them at once would not see each other's turn.
	starting chan struct{}

	// Owned by the holder of starting, and while a turn is active by that turn.
	conv *conversation // nil: not loaded

	// Guarded by engines.mu.
	users  int           // holds, and the active turn
	active *turn         // at most one
	idle   *list.Element // place in engines.idle, while users is 0
}

// forget drops the conversation; it is read again when it is needed.
func (e *engine) forget() { e.conv = nil }

// engines are the threads in memory. A thread with an active turn is never
// evicted; of the others the longest unused goes first.
type engines struct {
	mu   sync.Mutex
	of   map[string]*engine
	idle list.List // of *engine, longest unused in front
	live int       // active turns
}

// others tells how many turns are active besides one.
func (s *engines) others() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.live-1, 0)
}

// hold gives the engine of a thread, made if need be, to one holder at a time.
func (s *engines) hold(ctx context.Context, threadID string) (*engine, error) {
	s.mu.Lock()
	e := s.of[threadID]
	if e == nil {
		if s.of == nil {
			s.of = make(map[string]*engine)
		}
		e = &engine{threadID: threadID, starting: make(chan struct{}, 1)}
		s.of[threadID] = e
	}
	s.use(e)
	s.mu.Unlock()
	select {
	case e.starting <- struct{}{}:
		return e, nil
	case <-ctx.Done():
		s.unuse(e)
		return nil, context.Cause(ctx)
	}
}

// release ends a hold.
func (s *engines) release(e *engine) {
	<-e.starting
	s.unuse(e)
}

// activate makes t the active turn of e; the caller holds e.
func (s *engines) activate(e *engine, t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.active = t
	s.live++
	s.use(e)
}

// deactivate ends the active turn of e: e is open for the next one.
func (s *engines) deactivate(e *engine) {
	s.mu.Lock()
	e.active = nil
	s.live--
	s.mu.Unlock()
	s.unuse(e)
}

// activeTurn gives the active turn of a thread, or nil.
func (s *engines) activeTurn(threadID string) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[threadID]; e != nil {
		return e.active
	}
	return nil
}

// use is called with mu held.
func (s *engines) use(e *engine) {
	e.users++
	if e.idle != nil {
		s.idle.Remove(e.idle)
		e.idle = nil
	}
}

func (s *engines) unuse(e *engine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users > 0 {
		return
	}
	if e.conv == nil || e.conv.bytes > maxIdleBytes {
		delete(s.of, e.threadID)
		return
	}
	e.idle = s.idle.PushBack(e)
	for s.idle.Len() > maxIdle {
		oldest, _ := s.idle.Remove(s.idle.Front()).(*engine)
		delete(s.of, oldest.threadID)
	}
}
