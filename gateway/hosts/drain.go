package hosts

import (
	"context"
	"slices"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// drainReason is what a host is told that an admin wants to drain. It says it back
// as its own reason: only another one is a wish of the host itself.
const drainReason = "asked_by_gateway"

// Draining notes that the host takes no new prompt any more.
func (s *session) Draining(m wire.Draining) {
	if m.Reason == drainReason {
		return
	}
	s.reg.log.Info("hosts: a host drains", "host", s.host.ID, "reason", wire.ShownText(m.Reason))
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	if s.muted || s.draining {
		return
	}
	s.draining = true
	s.reg.catalogs.HostKnown(s.host.place())
	s.rouse()
}

// drainTurned is called with Registry.mu held, after an admin changed whether the
// host is to drain.
func (s *session) drainTurned() {
	select {
	case s.turned <- struct{}{}:
	default:
	}
	s.rouse()
}

// rouse has every driver look again at what may be offered. It is called with
// Registry.mu held.
func (s *session) rouse() {
	for runID := range s.runs {
		s.wake(runID)
	}
}

// tellDrain keeps the host told whether it is to drain, until the link ends. A prompt
// goes out only behind the word that it need not any more.
func (s *session) tellDrain(ctx context.Context) {
	told := false
	for {
		s.reg.mu.Lock()
		wanted := s.host.Draining
		s.asked = s.asked || wanted
		s.reg.mu.Unlock()
		if wanted != told {
			if s.link.Drain(ctx, drainReason, !wanted) != nil {
				return // the link has ended, and its reader says why
			}
			told = wanted
			s.reg.mu.Lock()
			s.asked = told
			s.rouse()
			s.reg.mu.Unlock()
		}
		select {
		case <-s.turned:
		case <-ctx.Done():
			return
		}
	}
}

// generations are those of a turn's settings that a host understands; one that names
// none knows only the first (AD78, FR38).
func generations(hello wire.Hello) []int {
	if len(hello.ConfigGenerations) == 0 {
		return []int{1}
	}
	return slices.Clone(hello.ConfigGenerations)
}

// unfit says why a prompt of a generation must not be offered to the host now, ""
// if it may. A prompt that may be at the host already passes one that drains: it is
// a replay.
func (s *session) unfit(generation int, replay bool) wire.Code {
	if generation > 0 && !slices.Contains(generations(s.link.Hello()), generation) {
		return gateway.CodeHostOutdated
	}
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	if (s.host.drains() || s.asked) && !replay {
		return gateway.CodeHostDraining
	}
	return ""
}
