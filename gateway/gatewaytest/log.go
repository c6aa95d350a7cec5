package gatewaytest

import (
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/gateway"
)

// CheckLog reads the whole log of a thread, from its first event, and tells
// everything in it that must never be:
//
//   - sequence numbers that do not rise, an event id twice;
//   - a message claimed twice, claimed and recalled, or revoked by nothing known;
//   - a message that started although one before it waited (FIFO within a rank);
//   - two turns at once, a turn with two ends, output or an interrupt after the
//     end, an interrupt twice;
//   - ranges of output with a gap, an overlap, or another length than their text;
//   - a steer or a warning of a turn that has not begun.
func CheckLog(events []gateway.Event) error {
	c := logCheck{
		seen: make(map[string]bool), waiting: make(map[string]place), turns: make(map[string]*turnCheck),
	}
	for _, e := range events {
		c.event(e)
	}
	return errors.Join(c.faults...)
}

// Waiting gives the ids of the messages that wait at the end of a log, by the id
// of their newest event.
func Waiting(events []gateway.Event) map[string]bool {
	c := logCheck{seen: make(map[string]bool), waiting: make(map[string]place), turns: make(map[string]*turnCheck)}
	for _, e := range events {
		c.event(e)
	}
	ids := make(map[string]bool)
	for id := range c.waiting {
		ids[id] = true
	}
	return ids
}

type logCheck struct {
	last    int64
	seen    map[string]bool
	waiting map[string]place
	turns   map[string]*turnCheck
	active  string
	faults  []error
}

// place is where a waiting message stands in the queue.
type place struct {
	rank int
	seq  int64
}

func (p place) before(o place) bool {
	return p.rank < o.rank || (p.rank == o.rank && p.seq < o.seq)
}

type turnCheck struct {
	to          int64
	ended       bool
	interrupted bool
}

func (c *logCheck) fault(e gateway.Event, format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("seq %d (%s): %s", e.SeqID, e.EventType, fmt.Sprintf(format, args...)))
}

func (c *logCheck) event(e gateway.Event) {
	if e.SeqID <= c.last {
		c.fault(e, "follows seq %d", c.last)
	}
	c.last = e.SeqID
	if c.seen[e.ID] {
		c.fault(e, "id %s is there twice", e.ID)
	}
	c.seen[e.ID] = true
	switch e.EventType {
	case gateway.EventInputPrompt:
		c.input(e)
	case gateway.EventInputDeadline:
		c.steers(e)
	case gateway.EventControlRevoke, gateway.EventInputRejected:
		if e.TurnID != "" && e.EventType == gateway.EventControlRevoke {
			c.steers(e) // the warning of a deadline, which no event stands for
			return
		}
		if _, ok := c.waiting[e.RevokesEventID]; !ok {
			c.fault(e, "revokes %s, which does not wait", e.RevokesEventID)
		}
		delete(c.waiting, e.RevokesEventID)
	case gateway.EventControlInterrupt:
		t := c.open(e, e.InterruptsTurnID)
		if t.interrupted {
			c.fault(e, "interrupts the turn again")
		}
		t.interrupted = true
	case gateway.EventOutputMessage, gateway.EventOutputPartial:
		c.output(e)
	case gateway.EventTurnCompleted, gateway.EventTurnFailed, gateway.EventTurnCancelled, gateway.EventTurnTimeout:
		t := c.open(e, e.TurnID)
		t.ended, c.active = true, ""
	}
}

func (c *logCheck) input(e gateway.Event) {
	at := place{rank: e.Rank, seq: e.SeqID}
	if e.RevokesEventID != "" {
		old, ok := c.waiting[e.RevokesEventID]
		if !ok {
			c.fault(e, "revokes %s, which does not wait", e.RevokesEventID)
		}
		if at.seq = old.seq; e.TurnID != "" {
			at = old // a replacement is taken from where the message stood
		}
		delete(c.waiting, e.RevokesEventID)
	}
	if e.TurnID != "" && e.Mode == gateway.ModeSteer {
		c.steers(e)
		return
	}
	if e.TurnID == "" {
		c.waiting[e.ID] = at
		return
	}
	if e.RevokesEventID == "" {
		c.fault(e, "a turn without a message (SQ1)")
	}
	for id, o := range c.waiting {
		if o.before(at) {
			c.fault(e, "starts before %s, which waits ahead of it", id)
		}
	}
	if c.active != "" {
		c.fault(e, "starts while turn %s is not over", c.active)
	}
	if c.turns[e.TurnID] != nil {
		c.fault(e, "turn %s has two messages", e.TurnID)
	}
	c.turns[e.TurnID], c.active = &turnCheck{}, e.TurnID
}

// steers checks what is said to a turn that has begun. It may be over: its host
// has the last word on what it took (SQ36).
func (c *logCheck) steers(e gateway.Event) {
	if c.turns[e.TurnID] == nil {
		c.fault(e, "of turn %s, which has not begun", e.TurnID)
	}
	if e.RevokesEventID == "" {
		c.fault(e, "stands for nothing that was offered")
	}
}

// open gives a turn that should not be over.
func (c *logCheck) open(e gateway.Event, turnID string) *turnCheck {
	t := c.turns[turnID]
	if t == nil {
		c.fault(e, "of turn %s, which has not begun", turnID)
		t = &turnCheck{}
		c.turns[turnID] = t
	}
	if t.ended {
		c.fault(e, "after the end of turn %s", turnID)
	}
	return t
}

func (c *logCheck) output(e gateway.Event) {
	t := c.open(e, e.TurnID)
	if e.From == nil || e.To == nil || e.Content == nil {
		c.fault(e, "without range or content")
		return
	}
	if *e.From != t.to {
		c.fault(e, "begins at %d, the one before ended at %d", *e.From, t.to)
	}
	if *e.To-*e.From != int64(len(*e.Content)) {
		c.fault(e, "stands for %d bytes and has %d", *e.To-*e.From, len(*e.Content))
	}
	t.to = *e.To
}
