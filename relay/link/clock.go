package link

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// recentTrips is how many round trips are compared: the shortest of them was
// disturbed least, so it tells best how far the clocks are apart.
const (
	recentTrips = 8
	maxTrip     = time.Hour
)

// clock measures round trips by heartbeats that echo each other.
type clock struct {
	mu    sync.Mutex
	last  wire.Heartbeat // the other end's newest
	came  time.Time      // when that came; zero if there was none
	trips []trip         // newest last
}

type trip struct{ offset, roundTrip time.Duration }

// take notes a heartbeat of the other end; first is true if that has not had an echo
// yet and is to get one at once.
func (c *clock) take(m wire.Heartbeat, now time.Time) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.came = m, now
	if m.EchoMs == 0 {
		return true
	}
	took := now.UnixMilli() - m.EchoMs - m.HeldMs
	if took < 0 || took > maxTrip.Milliseconds() || m.HeldMs < 0 || m.EchoMs < 0 {
		return false // a clock was set meanwhile, or the echo is not of ours
	}
	roundTrip := time.Duration(took) * time.Millisecond
	between := now.Add(-roundTrip / 2)
	c.trips = append(c.trips, trip{offset: time.UnixMilli(m.ClockMs).Sub(between), roundTrip: roundTrip})
	if len(c.trips) > recentTrips {
		c.trips = c.trips[1:]
	}
	return false
}

// beat is the next heartbeat of this end.
func (c *clock) beat(now time.Time) wire.Heartbeat {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := wire.Heartbeat{ClockMs: now.UnixMilli()}
	if !c.came.IsZero() {
		m.EchoMs, m.HeldMs = c.last.ClockMs, now.Sub(c.came).Milliseconds()
	}
	return m
}

// read gives how far the other end's clock is ahead of this one's, and the round
// trip that told; ok is false before there was one.
func (c *clock) read() (offset, roundTrip time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, t := range c.trips {
		if i == 0 || t.roundTrip <= roundTrip {
			offset, roundTrip, ok = t.offset, t.roundTrip, true
		}
	}
	return offset, roundTrip, ok
}
