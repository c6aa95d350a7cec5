package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// threadSub is a session's subscription of one thread. Its position says what
// the client has been told: everything up to it, nothing beyond.
type threadSub struct {
	s        *session
	threadID string
	cancel   func() // ends the subscription of the bus; set before it is shared

	// mu guards the rest. It is held while a push is judged and queued, so that
	// pushes keep their order.
	mu sync.Mutex
	// holding: pushes wait in held for the reply of an open.
	holding   bool
	held      []gateway.Push
	heldBytes int
	ended     bool
	html      bool
	at        position
}

// position is how far a client has been told of a thread.
type position struct {
	seq    int64               // of the log
	turnID string              // the turn whose text was told last
	next   int64               // of its text
	blocks int64               // to which byte its blocks were told
	over   map[string]struct{} // turns whose end was told before their text came
}

// openThread is thread.open. Its reply precedes every push of the subscription,
// which begins exactly where the reply ends.
func (s *session) openThread(ctx context.Context, f *openFrame) (any, error) {
	if f.Before > 0 {
		reply, err := s.srv.cfg.Chat.Open(ctx, s.actor, f.OpenRequest)
		reply.Events = orEmpty(reply.Events)
		return reply, err
	}
	sub, fresh, err := s.holdThread(f.ThreadID)
	if err != nil {
		return nil, err
	}
	reply, err := s.srv.cfg.Chat.Open(ctx, s.actor, f.OpenRequest)
	if err != nil {
		s.giveUp(sub, fresh)
		return nil, err
	}
	reply.Events = orEmpty(reply.Events)
	if f.SinceSeq != nil && reply.More {
		s.dropThread(sub)
		return reply, nil
	}
	sub.begin(s.reply(f.ID, reply), reply, f.HTML)
	if sub.isEnded() {
		s.dropThread(sub)
	}
	return sent{}, nil
}

// closeThread is thread.close. A thread that is not open is closed already.
func (s *session) closeThread(_ context.Context, f *closeFrame) (any, error) {
	s.mu.Lock()
	sub := s.threads[f.ThreadID]
	s.mu.Unlock()
	if sub != nil {
		s.dropThread(sub)
	}
	return nil, nil
}

// holdThread gives the session's subscription of a thread, holding pushes back
// from now on. A thread has one, however often it is opened.
func (s *session) holdThread(threadID string) (sub *threadSub, fresh bool, err error) {
	s.mu.Lock()
	sub, open := s.threads[threadID], len(s.threads)
	s.mu.Unlock()
	if sub != nil && sub.hold() {
		return sub, false, nil
	}
	if sub != nil {
		s.dropThread(sub)
	}
	if open >= s.srv.limits.OpenThreads {
		return nil, false, wire.NewError(wire.CodeBadRequest, "Too many threads are open. Close one first.")
	}
	s.watchAccount()
	sub = &threadSub{s: s, threadID: threadID, holding: true}
	sub.cancel = s.srv.cfg.Bus.Subscribe(gateway.ThreadTopic(threadID), sub.take)
	s.mu.Lock()
	s.threads[threadID] = sub
	s.mu.Unlock()
	return sub, true, nil
}

// giveUp ends the hold of an open that failed. What was open before stays so.
func (s *session) giveUp(sub *threadSub, fresh bool) {
	if fresh {
		s.dropThread(sub)
		return
	}
	sub.resume()
}

// dropThread ends a subscription. It must not be called from the bus.
func (s *session) dropThread(sub *threadSub) {
	sub.end()
	sub.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.threads[sub.threadID] == sub {
		delete(s.threads, sub.threadID)
	}
}

// hold gives false if the subscription has ended meanwhile.
func (t *threadSub) hold() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holding = !t.ended
	return t.holding
}

func (t *threadSub) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.held, t.heldBytes = true, nil, 0
}

func (t *threadSub) isEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// take is the handler on the bus.
func (t *threadSub) take(p gateway.Push) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
	case t.holding:
		t.keep(p)
	default:
		t.send(p)
	}
}

// deleted ends the subscription with the push that tells of it, after all that
// came before. It gives false if the push must wait for a reply.
func (t *threadSub) deleted(p gateway.Push) (now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holding && !t.ended {
		t.keep(p)
		return false
	}
	t.ended = true
	return true
}

// keep needs mu.
func (t *threadSub) keep(p gateway.Push) {
	t.held = append(t.held, p)
	t.heldBytes += len(p.Raw) + len(p.RawHTML)
	if t.heldBytes > t.s.srv.limits.QueueBytes {
		t.ended, t.held = true, nil
		t.s.srv.tooSlow.Add(1)
		t.s.close(closeTooSlow)
	}
}

// begin sends the reply of an open, what must follow it, and of what was held
// back the part that lies beyond it.
func (t *threadSub) begin(frame []byte, reply gateway.OpenReply, html bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.html = html
	t.at = positionOf(reply, t.held)
	t.s.push(frame)
	for _, p := range reply.Then {
		raw := t.choose(p)
		t.s.out.grant(len(raw))
		t.s.push(raw)
	}
	t.release()
}

// resume lets through what was held back for an open that failed.
func (t *threadSub) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release()
}

// release needs mu.
func (t *threadSub) release() {
	held := t.held
	t.holding, t.held, t.heldBytes = false, nil, 0
	for _, p := range held {
		if p.Type == pushFeed {
			t.ended = true
			if !t.s.follows() {
				t.s.push(p.Raw)
			}
			return
		}
		t.send(p)
	}
}

// send needs mu. It queues what of a push lies beyond the position.
func (t *threadSub) send(p gateway.Push) {
	raw := t.choose(p)
	if raw == nil {
		return
	}
	t.s.push(t.at.advance(p, raw))
}

// choose gives the form of a push for this session, nil if it is not for it.
func (t *threadSub) choose(p gateway.Push) json.RawMessage {
	if !t.html {
		return p.Raw
	}
	if p.RawHTML == nil || len(p.RawHTML) > gateway.MaxFrameBytes && p.Raw != nil {
		return p.Raw
	}
	return p.RawHTML
}

// The types of pushes.
const (
	pushEvents = "thread.events"
	pushDelta  = "turn.delta"
	pushBlock  = "turn.block"
	pushFeed   = "threads.events"
)

// positionOf is where the reply of an open ends. Turns that ended within it are
// over, also those whose end it leaves out: they stand among what was held.
func positionOf(reply gateway.OpenReply, held []gateway.Push) position {
	at := position{seq: reply.LatestSeq}
	if turn := reply.Turn; turn != nil {
		at.turnID, at.next, at.blocks = turn.TurnID, max(turn.Next, reply.ThenNext), reply.BlocksTo
	}
	for _, e := range reply.Events {
		at.ends(e.EventType, e.TurnID)
	}
	for _, p := range held {
		if p.Type == pushEvents {
			for _, e := range endsIn(p) {
				if e.SeqID <= reply.LatestSeq || e.TurnID != at.turnID {
					at.ends(e.EventType, e.TurnID)
				}
			}
		}
	}
	return at
}

func (at *position) ends(kind gateway.EventType, turnID string) {
	if turnID == "" || !terminal(kind) {
		return
	}
	if at.over == nil {
		at.over = make(map[string]struct{})
	}
	at.over[turnID] = struct{}{}
}

func terminal(kind gateway.EventType) bool {
	switch kind {
	case gateway.EventTurnCompleted, gateway.EventTurnFailed, gateway.EventTurnCancelled, gateway.EventTurnTimeout:
		return true
	}
	return false
}

// loggedEvent is what a subscription reads of an event.
type loggedEvent struct {
	SeqID     int64             `json:"seqId"`
	EventType gateway.EventType `json:"eventType"`
	TurnID    string            `json:"turnId"`
}

// endsIn reads the events of a push that was held back, if a turn ends in it.
func endsIn(p gateway.Push) []loggedEvent {
	if !bytes.Contains(p.Raw, []byte(`"turn.`)) {
		return nil
	}
	var body struct {
		Events []loggedEvent `json:"events"`
	}
	if json.Unmarshal(p.Raw, &body) != nil {
		return nil
	}
	return body.Events
}

// advance moves the position by a push and gives the bytes to send: those of the
// push, the part of it that is new, or none.
func (at *position) advance(p gateway.Push, raw json.RawMessage) json.RawMessage {
	if p.Type != pushEvents && p.TurnID != "" {
		if _, over := at.over[p.TurnID]; over {
			return nil
		}
	}
	switch p.Type {
	case pushEvents:
		return at.log(p, raw)
	case pushDelta:
		return at.text(p, raw)
	case pushBlock:
		if p.TurnID == at.turnID && p.Next <= at.blocks {
			return nil
		}
		at.turn(p.TurnID, 0)
		at.blocks = p.Next
	}
	return raw
}

func (at *position) log(p gateway.Push, raw json.RawMessage) json.RawMessage {
	if p.LastSeq <= at.seq {
		return nil
	}
	if p.FirstSeq <= at.seq {
		raw = eventsAfter(raw, at.seq)
	}
	at.seq = p.LastSeq
	return raw
}

func (at *position) text(p gateway.Push, raw json.RawMessage) json.RawMessage {
	at.turn(p.TurnID, p.Offset)
	if p.Next <= at.next {
		return nil
	}
	if p.Offset < at.next {
		raw = textAfter(p, at.next)
	}
	at.next = p.Next
	return raw
}

// turn moves to another turn, if it is one.
func (at *position) turn(turnID string, next int64) {
	if turnID != at.turnID {
		at.turnID, at.next, at.blocks = turnID, next, 0
	}
}

// eventsAfter is a thread.events without the events up to a sequence number.
func eventsAfter(raw json.RawMessage, seq int64) json.RawMessage {
	var body struct {
		Type      string            `json:"type"`
		ThreadID  string            `json:"threadId"`
		Events    []json.RawMessage `json:"events"`
		LatestSeq int64             `json:"latestSeq"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return raw
	}
	body.Events = slices.DeleteFunc(body.Events, func(event json.RawMessage) bool {
		var e loggedEvent
		return json.Unmarshal(event, &e) == nil && e.SeqID <= seq
	})
	return encode(body)
}

// textAfter is a turn.delta without the text before an offset.
func textAfter(p gateway.Push, offset int64) json.RawMessage {
	known := offset - p.Offset
	if known > int64(len(p.Text)) {
		return nil
	}
	return encode(struct {
		Type     string `json:"type"`
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		Offset   int64  `json:"offset"`
		Next     int64  `json:"next"`
		Text     string `json:"text"`
	}{p.Type, p.ThreadID, p.TurnID, offset, p.Next, p.Text[known:]})
}
