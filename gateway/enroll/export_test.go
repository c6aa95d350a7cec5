package enroll

import "context"

// Refresh is what Run does every two seconds.
func (s *Service) Refresh(ctx context.Context) error { return s.refresh(ctx) }

// NoteLinked is what Run does every minute.
func (s *Service) NoteLinked(ctx context.Context) { s.noteLinked(ctx) }

// Admitting counts the admissions that are known.
func (s *Service) Admitting() (n int) {
	s.admitting.mu.Lock()
	defer s.admitting.mu.Unlock()
	for _, of := range s.admitting.live {
		n += len(of)
	}
	return n
}

// UsedPerHost is usedPerHost.
const UsedPerHost = usedPerHost
