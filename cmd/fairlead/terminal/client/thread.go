package client

import (
	"encoding/json"

	"github.com/fairlead/fairlead/relay/wire"
)

// push takes a frame that is no reply.
func (s *Session) push(f *inbound) {
	switch f.Type {
	case "welcome":
		s.welcome(f)
		return
	case "threads.events":
		s.feed(f)
		return
	}
	t := s.thread
	if t == nil || f.ThreadID != t.ID || !t.loaded {
		return
	}
	switch f.Type {
	case "thread.events":
		var events []Event
		if err := json.Unmarshal(f.Events, &events); err == nil {
			s.log(t, events, false)
		}
	case "turn.delta":
		if f.Kind == "" || f.Kind == "text" {
			s.text(t, f.TurnID, f.Offset, f.Next, f.Text)
		}
	case "turn.state":
		s.state(t, f.TurnID, f.Status, f.Reason, f.RetryAt)
	case "turn.retract":
		if s.tell.Retract != nil {
			s.tell.Retract(t, f.TurnID)
		}
	}
}

// welcome says all that has no reply, then opens the thread from where it is
// known. After a restore from a backup nothing that is known counts.
func (s *Session) welcome(f *inbound) {
	lost := s.epoch != "" && s.epoch != f.Epoch
	s.live, s.epoch = true, f.Epoch
	if lost && s.thread != nil && s.thread.exists {
		s.thread = newThread(s.thread.ID, true)
	}
	if s.tell.Welcome != nil {
		s.tell.Welcome(f.Account, lost)
	}
	if s.thread != nil && s.thread.exists && s.opening == nil {
		s.open()
	}
}

// open asks for the thread from the last known event and byte on. Before the
// first time nothing is known, and the newest events are asked for.
func (s *Session) open() {
	if !s.live {
		return
	}
	s.dropOpening()
	t := s.thread
	command := Command{Type: "thread.open", ThreadID: t.ID}
	if t.loaded {
		seq := t.seq
		command.SinceSeq, command.Turn = &seq, t.position()
	} else {
		command.Window = s.Window
	}
	c := &call{build: func() Command { return command }, kind: command.Type, once: true}
	c.done = func(r Reply, e *wire.Error) {
		if s.opening != c || s.thread != t {
			return
		}
		s.opening = nil
		s.opened(t, r, e)
	}
	s.opening = c
	s.pending = append(s.pending, c)
}

func (s *Session) dropOpening() {
	if s.opening == nil {
		return
	}
	for i, c := range s.pending {
		if c == s.opening {
			s.pending = append(s.pending[:i:i], s.pending[i+1:]...)
			break
		}
	}
	s.opening = nil
}

func (s *Session) opened(t *Thread, r Reply, e *wire.Error) {
	if e != nil {
		if s.tell.Gone != nil {
			s.tell.Gone(t)
		}
		return
	}
	var page openReply
	r.Into(&page)
	t.Info = page.Thread
	first := !t.loaded
	t.loaded = true
	s.log(t, page.Events, first)
	if page.More && !first {
		s.open()
		return
	}
	if page.Turn != nil {
		s.resume(t, page.Turn)
	}
	if s.tell.Opened != nil {
		s.tell.Opened(t, first)
	}
}

// resume takes the running turn as the server has it.
func (s *Session) resume(t *Thread, live *liveTurn) {
	turn := t.turn(live.TurnID)
	if turn.End != nil {
		return
	}
	if live.Resync {
		turn.stream.known = 0
	}
	s.text(t, live.TurnID, live.Offset, live.Next, live.Text)
	s.state(t, live.TurnID, live.Status, live.Reason, "")
}

func (s *Session) log(t *Thread, events []Event, old bool) {
	for i := range events {
		text, fresh := t.apply(&events[i])
		if fresh && s.tell.Event != nil {
			s.tell.Event(t, &events[i], text, old)
		}
	}
}

func (s *Session) text(t *Thread, turnID string, offset, next int64, text string) {
	turn := t.turn(turnID)
	if turn.End != nil {
		return
	}
	before := turn.stream.shown
	fresh, gap := turn.stream.take(offset, next, text)
	if gap {
		if s.opening == nil {
			s.open()
		}
		return
	}
	if fresh != "" && s.tell.Text != nil {
		s.tell.Text(t, turnID, max(before, offset), next, fresh)
	}
}

func (s *Session) state(t *Thread, turnID, status, reason, retryAt string) {
	ended := Event{EventType: "turn." + status}
	if ended.Ends() { // a hint never ends a turn
		return
	}
	turn := t.turn(turnID)
	if turn.End != nil {
		return
	}
	turn.Status, turn.Reason = status, reason
	if s.tell.State != nil {
		s.tell.State(t, turnID, status, reason, retryAt)
	}
}

// feed takes the account's feed: the end of the open thread stands in it.
func (s *Session) feed(f *inbound) {
	var entries []struct {
		Kind     string `json:"kind"`
		ThreadID string `json:"threadId"`
	}
	if err := json.Unmarshal(f.Events, &entries); err != nil || s.thread == nil {
		return
	}
	for _, e := range entries {
		if e.Kind == "deleted" && e.ThreadID == s.thread.ID && s.tell.Gone != nil {
			s.tell.Gone(s.thread)
		}
	}
}
