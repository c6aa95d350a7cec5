package hosts

import (
	"slices"
	"time"
)

// coolsUntil is when the route of a prompt can be asked again, zero if it can now.
func (s *session) coolsUntil(p prompt) time.Time {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	i := slices.IndexFunc(s.routes, p.servedBy)
	if i < 0 {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, s.routes[i].AvailableAt)
	if err != nil {
		return time.Time{}
	}
	return at
}

func (s *session) admit(d *driver) bool {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	defer s.tellRoom()
	return s.room.admit(d)
}

// insist takes a place for d even if the host says that there is none.
func (s *session) insist(d *driver) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.room.take(d)
	s.tellRoom()
}

// waitForRoom puts a driver whose prompt was refused back into the line.
func (s *session) waitForRoom(d *driver) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.room.refused(d)
	s.tellRoom()
}

// answered gives back the place of a command and lets the next one in.
func (s *session) answered(d *driver) {
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	s.room.leave(d)
	s.tellRoom()
}
