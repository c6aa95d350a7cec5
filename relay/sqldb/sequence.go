package sqldb

import "sync"

// sequencer lets updates that took the same lock run their functions after commit
// in the order in which they had it. A place in a line is taken while the row lock
// is held, and the next holder of the lock takes the place behind it; so of two
// updates that share several lines, one stands before the other in all of them,
// and nobody waits in a circle.
type sequencer struct {
	mu    sync.Mutex
	lines map[string][]*ticket
}

// ticket is a place in the line of a key.
type ticket struct {
	key  string
	turn chan struct{} // closed when nobody is before it
	done bool          // guarded by the sequencer
}

// take gives the last place in the line of key.
func (s *sequencer) take(key string) *ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = make(map[string][]*ticket)
	}
	t := &ticket{key: key, turn: make(chan struct{})}
	line := append(s.lines[key], t)
	if len(line) == 1 {
		close(t.turn)
	}
	s.lines[key] = line
	return t
}

// wait returns when nobody is before any of the places.
func (s *sequencer) wait(tickets []*ticket) {
	for _, t := range tickets {
		<-t.turn
	}
}

// leave gives places up, also those whose turn has not come: their line closes
// over them.
func (s *sequencer) leave(tickets []*ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tickets {
		t.done = true
		line := s.lines[t.key]
		was := line[0]
		for len(line) > 0 && line[0].done {
			line = line[1:]
		}
		switch {
		case len(line) == 0:
			delete(s.lines, t.key)
			continue
		case line[0] != was:
			close(line[0].turn)
		}
		s.lines[t.key] = line
	}
}
