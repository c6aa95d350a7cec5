package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
	"github.com/fairlead/fairlead/relay/wire"
)

// Last is the thread with the newest change, in place of an id.
const Last = "last"

// Once sends one message and writes its answer.
type Once struct {
	Server client.Options
	// Thread is the thread to send into, Last, or "" for a new one.
	Thread string
	Prompt string
	// Draft holds the model and the options of the message.
	Draft client.Command
	// Assistant is the id or the name of the assistant of a new thread.
	Assistant string

	Out, Err io.Writer
	// Terminal says that Out is one.
	Terminal bool
	// JSON writes one object a line to Out instead of the answer's text.
	JSON bool
}

// sending is a Once at work.
type sending struct {
	Once
	session *client.Session
	out     sink
	eventID string // "" until the message was said
	begun   bool
	stopped bool
	denied  bool // the reply to the message is that it was not taken
	fault   error
	lost    bool // a connection is missing
}

// sink is how what happens is written.
type sink interface {
	thread(id string)
	receipt(r client.Receipt)
	event(e *client.Event, mine bool, text string)
	text(threadID, turnID string, offset, next int64, text string, mine bool)
	state(threadID, turnID, status, reason, retryAt string)
	retract(threadID, turnID string, mine bool)
	note(kind, text string)
	end(o Outcome, code, threadID, turnID string)
}

// Run sends the message and waits for its end. When the context ends, the turn
// is stopped first. Errors: client.ErrLogin, *client.RefusedError, *wire.Error of
// a refused command, that the server was away for too long, or that the answer could not
// be written.
func (o Once) Run(ctx context.Context) (Outcome, error) {
	s := &sending{Once: o}
	out := &written{Writer: o.Out}
	s.out = &plainSink{out: out, err: o.Err, shared: o.Terminal}
	if o.JSON {
		s.out = &jsonSink{out: out}
	}
	s.session = client.NewSession(s.tells())
	s.session.Window = 1 // what was before is not shown
	line := client.NewLine(o.Server)
	l := &loop{session: s.session, line: line, down: s.down, stop: s.stop, settled: s.settled}
	err := l.run(ctx)
	t := s.session.Thread()
	if code, ok := s.refusedWith(err); ok {
		s.out.end(Refused, code, threadID(t), "")
		return Refused, err
	}
	if t == nil || s.eventID == "" {
		return "", err
	}
	outcome := outcomeOf(t, s.eventID)
	if err == nil && outcome == "" {
		err = context.Cause(ctx)
	}
	if s.stopped && outcome == "" {
		outcome, err = Stopped, nil
		s.out.note("stopped", "left before the end of the answer; it may go on at the server")
	}
	s.out.end(outcome, refusalCode(t, s.eventID), t.ID, s.turnID(t))
	if err == nil && outcome == Completed {
		err = out.err
	}
	return outcome, err
}

func (s *sending) tells() client.Tell {
	return client.Tell{
		Welcome: s.welcome,
		Opened: func(_ *client.Thread, first bool) {
			if first {
				s.begin()
			}
		},
		Event: func(t *client.Thread, e *client.Event, text string, old bool) {
			if !old {
				s.out.event(e, s.mine(t, e.TurnID) || s.about(t, e), text)
			}
		},
		Text: func(t *client.Thread, turnID string, offset, next int64, text string) {
			s.out.text(t.ID, turnID, offset, next, text, s.mine(t, turnID))
		},
		State: func(t *client.Thread, turnID, status, reason, retryAt string) {
			s.out.state(t.ID, turnID, status, reason, retryAt)
		},
		Retract: func(t *client.Thread, turnID string) { s.out.retract(t.ID, turnID, s.mine(t, turnID)) },
		Gone: func(*client.Thread) {
			s.fault = wire.NewError(wire.CodeNotFound, "There is no such thread.")
		},
		PutOff: func(_ string, e *wire.Error, pause time.Duration) {
			s.out.note("put_off", fmt.Sprintf("the server asks to wait (%s), again in %s", e.Code, pause.Round(time.Millisecond)))
		},
	}
}

// refusedWith tells whether err is a refusal after which nothing became of the
// message, and its code. Of a message that was said and has no reply nobody can tell.
func (s *sending) refusedWith(err error) (code string, ok bool) {
	if s.eventID != "" && !s.denied {
		return "", false
	}
	var command *wire.Error
	var connection *client.RefusedError
	switch {
	case errors.As(err, &command):
		return string(command.Code), true
	case errors.As(err, &connection):
		return string(connection.Code), true
	}
	return "", false
}

func threadID(t *client.Thread) string {
	if t == nil {
		return ""
	}
	return t.ID
}

func (s *sending) turnID(t *client.Thread) string {
	if m := t.Message(s.eventID); m != nil {
		return m.TurnID
	}
	return ""
}

func (s *sending) mine(t *client.Thread, turnID string) bool {
	return turnID != "" && turnID == s.turnID(t)
}

// about tells whether an event without a turn says what became of the message.
func (s *sending) about(t *client.Thread, e *client.Event) bool {
	m := t.Message(s.eventID)
	return m != nil && e.TurnID == "" && (t.Message(e.ID) == m || e.EventType == "output.error" && m.Fate == client.Refused)
}

func (s *sending) welcome(_ client.Account, lost bool) {
	if s.lost {
		s.lost = false
		s.out.note("connected", "the connection is back")
	}
	if lost && s.eventID != "" {
		s.fault = errors.New("the server was restored from a backup in the meantime: look at the thread before sending again")
		return
	}
	if s.begun {
		return
	}
	s.begun = true
	switch s.Thread {
	case "":
		s.session.New()
		s.begin()
	case Last:
		s.openLast()
	default:
		s.session.Open(s.Thread)
	}
}

func (s *sending) openLast() {
	newest(s.session, func(t *client.ThreadInfo, e *wire.Error) {
		switch {
		case e != nil:
			s.fault = e
		case t == nil:
			s.session.New()
			s.begin()
		default:
			s.session.Open(t.ID)
		}
	})
}

// newest finds the thread with the newest change; it is nil if there is none.
func newest(session *client.Session, then func(*client.ThreadInfo, *wire.Error)) {
	session.Call(client.Command{Type: "threads.list", Limit: 1}, func(r client.Reply, e *wire.Error) {
		var list struct {
			Threads []client.ThreadInfo `json:"threads"`
		}
		if e == nil {
			r.Into(&list)
		}
		if len(list.Threads) == 0 {
			then(nil, e)
			return
		}
		then(&list.Threads[0], e)
	})
}

// begin says the message, once the assistant is known.
func (s *sending) begin() {
	s.out.thread(s.session.Thread().ID)
	if s.Assistant == "" || s.Thread != "" {
		s.send()
		return
	}
	assistant(s.session, s.Assistant, func(id string, err error) {
		if err != nil {
			s.fault = err
			return
		}
		s.Draft.AgentID = id
		s.send()
	})
}

// assistant finds an assistant by its id or its name.
func assistant(session *client.Session, name string, then func(id string, err error)) {
	if uuid.Validate(name) == nil {
		then(name, nil)
		return
	}
	session.Call(client.Command{Type: "agents.list"}, func(r client.Reply, e *wire.Error) {
		if e != nil {
			then("", e)
			return
		}
		var list struct {
			Agents []client.Agent `json:"agents"`
		}
		r.Into(&list)
		for _, a := range list.Agents {
			if strings.EqualFold(a.DisplayName, name) {
				then(a.ID, nil)
				return
			}
		}
		then("", wire.NewError(wire.CodeNotFound, "There is no such assistant."))
	})
}

func (s *sending) send() {
	s.Draft.UserMessage = client.Text(s.Prompt)
	s.eventID = s.session.Send(s.Draft, func(r client.Receipt, e *wire.Error) {
		if e != nil {
			s.denied, s.fault = true, e
			return
		}
		s.out.receipt(r)
	})
}

func (s *sending) down(err error, again time.Duration) {
	s.lost = true
	s.out.note("disconnected", fmt.Sprintf("no connection (%v), again in %s", err, again.Round(100*time.Millisecond)))
}

// stop takes back or stops what was sent.
func (s *sending) stop() error {
	s.stopped = true
	t := s.session.Thread()
	if t == nil || s.eventID == "" || !t.Exists() {
		return errLeave
	}
	s.out.note("stopping", "stopping; once more leaves at once")
	command := client.Command{ThreadID: t.ID, ClientEventID: uuid.NewString()}
	if id := s.turnID(t); id != "" {
		command.Type, command.TurnID = "turn.interrupt", id
	} else {
		command.Type, command.RevokesEventID = "message.recall", s.eventID
	}
	s.session.Call(command, nil)
	return nil
}

// settled ends the work when the message has an end.
func (s *sending) settled() error {
	if s.fault != nil {
		return s.fault
	}
	if t := s.session.Thread(); t != nil && s.eventID != "" && outcomeOf(t, s.eventID) != "" {
		return errLeave
	}
	return nil
}
