package client

import (
	"cmp"
	"slices"
)

// Fate is what became of a message.
type Fate int

// The fates of a message. One that was taken back and one that was refused never
// become a turn.
const (
	Waiting Fate = iota
	Started
	Recalled
	Refused
)

// Message is a message of a person, over all events that name it.
type Message struct {
	// ID is its newest event, which recall and steer name.
	ID     string
	Text   string
	Mode   string // of one that waits: queue or steer
	Reason string // why one that was to be a steer waits
	Fate   Fate
	TurnID string // of one that started
	Error  string // of one that was refused

	rank, order int64
}

// Turn is a turn of the thread.
type Turn struct {
	ID string
	// End is the event that ended it, nil while it runs.
	End    *Event
	Status string
	Reason string

	stream stream
}

// Thread is a thread as the fold of its log. Owned by the goroutine of its
// Session.
type Thread struct {
	ID   string
	Info ThreadInfo

	exists bool // the server has it
	loaded bool // seq and the rest stand for something
	seq    int64
	byID   map[string]*Message // by any event of the message
	turns  map[string]*Turn
	active *Turn
}

func newThread(id string, exists bool) *Thread {
	return &Thread{ID: id, exists: exists, byID: map[string]*Message{}, turns: map[string]*Turn{}}
}

// Exists tells whether the server has the thread.
func (t *Thread) Exists() bool { return t.exists }

// Message gives the message that an event belongs to, nil for none.
func (t *Thread) Message(eventID string) *Message { return t.byID[eventID] }

// Active is the turn that has no end yet, nil in an idle thread.
func (t *Thread) Active() *Turn { return t.active }

// Turn gives a turn, nil if nothing is known of it.
func (t *Thread) Turn(id string) *Turn { return t.turns[id] }

// Waiting lists the messages that wait, in the order in which they will run.
func (t *Thread) Waiting() []*Message {
	var list []*Message
	for id, m := range t.byID {
		if m.Fate == Waiting && m.ID == id {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *Message) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order))
	})
	return list
}

// apply takes an event. It gives what is new of the answer's text; fresh is false
// for an event that is known.
func (t *Thread) apply(e *Event) (text string, fresh bool) {
	if e.SeqID <= t.seq {
		return "", false
	}
	t.seq = e.SeqID
	switch {
	case e.EventType == "input.prompt":
		t.prompt(e)
	case e.EventType == "input.rejected":
		t.settle(e, Refused)
	case e.EventType == "control.revoke" && e.TurnID == "":
		t.settle(e, Recalled)
	case e.EventType == "output.message" || e.EventType == "output.partial":
		text = t.output(e)
	case e.Ends():
		t.end(e)
	}
	return text, true
}

func (t *Thread) prompt(e *Event) {
	m := t.byID[e.RevokesEventID]
	if m == nil {
		m = &Message{order: e.SeqID}
	}
	m.ID, m.Text, m.Mode, m.Reason, m.rank = e.ID, e.UserMessage.String(), e.Mode, e.Reason, e.Rank
	t.byID[e.ID] = m
	if e.TurnID != "" {
		m.Fate, m.TurnID = Started, e.TurnID
		t.turn(e.TurnID)
	}
}

func (t *Thread) settle(e *Event, fate Fate) {
	m := t.byID[e.RevokesEventID]
	if m == nil {
		return
	}
	m.Fate, m.Error = fate, e.Error
	t.byID[e.ID] = m
	m.ID = e.ID
}

func (t *Thread) output(e *Event) string {
	text := e.Body()
	if e.TurnID == "" || e.From == nil || e.To == nil {
		return text
	}
	return t.turn(e.TurnID).stream.settle(*e.From, *e.To, text)
}

func (t *Thread) end(e *Event) {
	turn := t.turn(e.TurnID)
	turn.End = e
	if t.active == turn {
		t.active = nil
	}
}

// turn gives a turn, which is the active one if it is new.
func (t *Thread) turn(id string) *Turn {
	turn := t.turns[id]
	if turn == nil {
		turn = &Turn{ID: id}
		t.turns[id] = turn
		t.active = turn
	}
	return turn
}

// position is where the text of the running turn goes on, nil for none.
func (t *Thread) position() *Position {
	if t.active == nil {
		return nil
	}
	return &Position{TurnID: t.active.ID, Offset: t.active.stream.known}
}
