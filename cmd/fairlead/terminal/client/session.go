package client

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/relay/wire"
)

// Pauses before a command that was put off is said again, where the server named
// none: doubled with each try.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// faultTries is how often a command is said that the server fails at.
const faultTries = 6

// Tell is told what happens, on the goroutine that owns the Session. Any of the
// functions may be nil.
type Tell struct {
	// Welcome: the connection speaks. lost says that the server's log is another
	// one (restored from a backup): what was shown may not be in it.
	Welcome func(a Account, lost bool)
	// Opened: the thread is open and up to date; old is set for the first time.
	Opened func(t *Thread, first bool)
	// Event: an event of the log; text is what is new of the answer. old is an
	// event from before the thread was opened.
	Event func(t *Thread, e *Event, text string, old bool)
	// Text: more of a running answer.
	Text func(t *Thread, turnID string, offset, next int64, text string)
	// State: a hint about a turn that runs or is about to.
	State func(t *Thread, turnID, status, reason, retryAt string)
	// Retract: the text of the turn that was told does not stand.
	Retract func(t *Thread, turnID string)
	// Gone: the open thread was deleted or never was.
	Gone func(t *Thread)
	// PutOff: the server asks to wait; the command is said again by itself.
	PutOff func(commandType string, e *wire.Error, pause time.Duration)
}

// Session is what is known of one account. Owned by one goroutine.
type Session struct {
	tell Tell

	// Window is how many events of a thread that exists are read when it is opened.
	Window int

	live    bool // the welcome of this connection was there
	epoch   string
	lastID  int
	pending []*call // in the order in which they were said
	out     [][]byte
	thread  *Thread
	opening *call // the thread.open under way
}

// call is a command that has no reply yet.
type call struct {
	id    string
	build func() Command // asked once, when it is said first
	built *Command
	kind  string
	// inOrder: is said only when those before it that are in order have replies.
	inOrder bool
	// once: is dropped with the connection.
	once  bool
	done  func(Reply, *wire.Error)
	said  bool // on this connection
	tries int
	due   time.Time // not before
}

// NewSession makes a session that tells what happens.
func NewSession(tell Tell) *Session { return &Session{tell: tell, Window: 100} }

// Take gives the frames to write since the last Take.
func (s *Session) Take() [][]byte {
	out := s.out
	s.out = nil
	return out
}

// Thread is the thread of this session, nil before Open and New.
func (s *Session) Thread() *Thread { return s.thread }

// Unanswered is how many messages have no receipt.
func (s *Session) Unanswered() int {
	n := 0
	for _, c := range s.pending {
		if c.inOrder {
			n++
		}
	}
	return n
}

// Live tells whether the connection speaks.
func (s *Session) Live() bool { return s.live }

// New goes on with a thread that the first message makes.
func (s *Session) New() {
	s.leave()
	s.thread = newThread(uuid.NewString(), false)
	s.thread.loaded = true
}

// Open goes on with a thread that exists.
func (s *Session) Open(id string) {
	s.leave()
	s.thread = newThread(id, true)
	s.open()
	s.pump(time.Time{})
}

func (s *Session) leave() {
	if old := s.thread; old != nil && old.exists && s.live {
		c := Command{Type: "thread.close", ThreadID: old.ID}
		s.add(&call{build: func() Command { return c }, kind: c.Type, once: true})
	}
	s.dropOpening()
}

// Call says a command whose repetition is harmless. done may be nil.
func (s *Session) Call(c Command, done func(Reply, *wire.Error)) {
	s.add(&call{build: func() Command { return c }, kind: c.Type, done: done})
}

// Send sends a message to the open thread, or makes the thread with it. It gives
// the client's id, which stays the same for every attempt. The first attempt asks
// draft, when all messages before it are answered.
func (s *Session) Send(draft Command, done func(Receipt, *wire.Error)) (eventID string) {
	t := s.thread
	draft.Type, draft.ClientEventID = "message.send", uuid.NewString()
	build := func() Command {
		if t.exists {
			draft.ThreadID, draft.AgentID = t.ID, ""
		} else {
			draft.ClientThreadID = t.ID
		}
		return draft
	}
	s.add(&call{build: build, kind: draft.Type, inOrder: true, done: func(r Reply, e *wire.Error) {
		var receipt Receipt
		if e == nil {
			r.Into(&receipt)
			s.sent(t)
		}
		if done != nil {
			done(receipt, e)
		}
	}})
	return draft.ClientEventID
}

// sent opens the thread that a first message has made.
func (s *Session) sent(t *Thread) {
	made := !t.exists
	t.exists = true
	if made && t == s.thread {
		s.open()
	}
}

func (s *Session) add(c *call) {
	s.pending = append(s.pending, c)
	s.pump(time.Time{})
}

// Connected begins a connection; its first frame will be the welcome.
func (s *Session) Connected() { s.Disconnected() }

// Disconnected ends a connection. What has no reply is said again on the next.
func (s *Session) Disconnected() {
	s.live, s.out = false, nil
	s.dropOpening()
	s.pending = slices.DeleteFunc(s.pending, func(c *call) bool { return c.once })
	for _, c := range s.pending {
		c.said, c.due = false, time.Time{}
	}
}

// Wake says the commands whose pause is over. WakeAt tells when to call it.
func (s *Session) Wake(now time.Time) { s.pump(now) }

// WakeAt is when the next pause is over, zero for none.
func (s *Session) WakeAt() time.Time {
	var at time.Time
	for _, c := range s.pending {
		if !c.due.IsZero() && (at.IsZero() || c.due.Before(at)) {
			at = c.due
		}
	}
	return at
}

// pump says what may be said now: nothing before the welcome, and messages one
// after the other, so that none overtakes one that was put off.
func (s *Session) pump(now time.Time) {
	if !s.live {
		return
	}
	blocked := false
	for _, c := range slices.Clone(s.pending) {
		if c.inOrder && blocked {
			continue
		}
		blocked = blocked || c.inOrder
		if c.said || !c.due.IsZero() && now.Before(c.due) {
			continue
		}
		s.say(c)
	}
}

func (s *Session) say(c *call) {
	if c.built == nil {
		command := c.build()
		c.built = &command
	}
	s.lastID++
	c.id = strconv.Itoa(s.lastID)
	c.built.ID = c.id
	frame, err := json.Marshal(c.built)
	if err != nil { // no field of a Command can fail
		return
	}
	c.said, c.due = true, time.Time{}
	c.tries++
	s.out = append(s.out, frame)
}

// Receive takes a frame of the server. What is not understood is ignored.
func (s *Session) Receive(raw []byte, now time.Time) {
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return
	}
	if a.OK != nil {
		s.reply(&a, raw, now)
		return
	}
	var f inbound
	if err := json.Unmarshal(raw, &f); err != nil {
		return
	}
	s.push(&f)
	s.pump(now)
}

func (s *Session) reply(a *answer, raw []byte, now time.Time) {
	i := slices.IndexFunc(s.pending, func(c *call) bool { return a.Re != "" && c.id == a.Re })
	if i < 0 {
		i = s.tooLarge(a)
	}
	if i < 0 {
		return
	}
	c := s.pending[i]
	e := asError(a)
	if pause, again := c.again(e); again {
		c.said, c.due = false, now.Add(pause)
		if s.tell.PutOff != nil {
			s.tell.PutOff(c.kind, e, pause)
		}
		s.pump(now)
		return
	}
	s.pending = slices.Delete(s.pending, i, i+1)
	if c.done != nil {
		c.done(Reply(raw), e)
	}
	s.pump(now)
}

// tooLarge finds the message that a refusal without an id is about: replies come
// in order, and only a message can be as large.
func (s *Session) tooLarge(a *answer) int {
	if a.Re != "" || a.Error == nil || a.Error.Code != wire.CodeFrameTooLarge {
		return -1
	}
	return slices.IndexFunc(s.pending, func(c *call) bool { return c.said && c.inOrder })
}

func asError(a *answer) *wire.Error {
	if *a.OK {
		return nil
	}
	if a.Error == nil {
		return wire.NewError(wire.CodeInternal, "The server gave no reason.")
	}
	b := a.Error
	return &wire.Error{
		Code: b.Code, Message: b.Message, Retryable: b.Retryable, Fields: b.Fields,
		RetryAfter: time.Duration(b.RetryAfterMs) * time.Millisecond, Limit: b.Limit,
	}
}

// again tells whether a command is to be said again under the same ids, and when.
func (c *call) again(e *wire.Error) (time.Duration, bool) {
	if e == nil {
		return 0, false
	}
	switch e.Code {
	case wire.CodeRateLimited, wire.CodeShuttingDown:
	case wire.CodeInternal, wire.CodeStorageUnavailable:
		if c.tries >= faultTries {
			return 0, false
		}
	default:
		return 0, false
	}
	if e.RetryAfter > 0 {
		return e.RetryAfter, true
	}
	return min(firstPause<<min(c.tries-1, 10), longestPause), true
}
