package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// unit is one transaction together with what it has to tell when it is durable.
// It concerns at most one thread.
type unit struct {
	gateway.ChatTx
	s   *Service
	now int64

	orgID, accountID, threadID, turnID string

	memory  []func() // changes of memory that follow the commit
	retract string   // turn whose streamed text does not stand
	events  []gateway.Event
	states  []turnState
	feed    []gateway.FeedEvent
	touched *gateway.Thread
	touch   bool
	wakes   []string

	bound    *gateway.BindingRow // made for the turn that is being made
	measured []measured          // stages and records of telemetry
	within   int                 // the stage at hand, from 1
	parent   trace.SpanContext   // what all of them stand within
}

// turnState is the push turn.state.
type turnState struct {
	Type     string             `json:"type"`
	ThreadID string             `json:"threadId"`
	TurnID   string             `json:"turnId"`
	Status   gateway.TurnStatus `json:"status"`
	Reason   string             `json:"reason,omitempty"`
	RetryAt  string             `json:"retryAt,omitempty"`
}

// update runs fn in one transaction and publishes what it did after the commit.
func (s *Service) update(ctx context.Context, fn func(u *unit) error) error {
	whole := false
	err := s.store.Update(ctx, func(tx gateway.ChatTx) error {
		whole = false
		u := &unit{ChatTx: tx, s: s, now: s.millis(), parent: trace.SpanContextFromContext(ctx)}
		if err := fn(u); err != nil {
			return err
		}
		if u.touch {
			th, err := tx.Thread(ctx, u.threadID)
			if err != nil {
				return err
			}
			if th.DeletedAt == 0 {
				t := th.Thread()
				u.touched = &t
			}
		}
		tx.OnCommit(u.publish)
		whole = true
		return nil
	})
	if err != nil && whole {
		s.doubted() // it may have been kept
	}
	return err
}

// of says which thread the unit is about.
func (u *unit) of(th gateway.ThreadRow) {
	u.orgID, u.accountID, u.threadID = th.OrgID, th.AccountID, th.ID
}

// append stores events at the end of the unit's thread.
func (u *unit) append(ctx context.Context, events ...*gateway.Event) error {
	for _, e := range events {
		e.CreatedAt = gateway.Millis(u.now)
	}
	if err := u.AppendEvents(ctx, u.threadID, events); err != nil {
		return err
	}
	for _, e := range events {
		u.events = append(u.events, *e)
	}
	u.touch = true
	return nil
}

// feedEvent stores an entry of the account's feed.
func (u *unit) feedEvent(ctx context.Context, e gateway.FeedEvent) error {
	e.ThreadID, e.CreatedAt = u.threadID, gateway.Millis(u.now)
	if err := u.AppendFeed(ctx, u.accountID, &e); err != nil {
		return err
	}
	u.feed = append(u.feed, e)
	return nil
}

// state notes what is to be told of a turn after its events.
func (u *unit) state(t gateway.TurnRow) {
	u.turnID = t.ID
	u.states = append(u.states, turnState{
		Type: "turn.state", ThreadID: t.ThreadID, TurnID: t.ID, Status: t.Status, Reason: t.Reason,
	})
}

// afterCommit notes a change of memory.
func (u *unit) afterCommit(fn func()) { u.memory = append(u.memory, fn) }

// publish runs after the commit, in its order. Memory comes first, so that nobody
// acts on what was told before it is known here; what is told leaves through posts,
// so that no commit waits for a subscriber.
func (u *unit) publish() {
	s := u.s
	for _, fn := range u.memory {
		fn()
	}
	if u.retract != "" || len(u.events)+len(u.states) > 0 {
		s.bus.post(gateway.ThreadTopic(u.threadID), u.tellThread)
	}
	if len(u.feed) > 0 || u.touched != nil {
		s.bus.post(gateway.AccountTopic(u.accountID), u.tellAccount)
	}
	if len(u.events)+len(u.states) > 0 || u.turnID != "" {
		s.admin.changed(u.orgID, u.threadID, u.turnID)
	}
	for _, runID := range u.wakes {
		s.wake(runID)
	}
	u.tellMeasured()
}

func (u *unit) tellThread(bus gateway.Bus) {
	if u.retract != "" {
		u.s.pushRetract(bus, u.threadID, u.retract)
	}
	u.s.pushEvents(bus, u.threadID, u.events)
	for _, st := range u.states {
		u.s.pushState(bus, st)
	}
}

func (u *unit) tellAccount(bus gateway.Bus) {
	u.s.pushFeed(bus, u.accountID, u.feed)
	if u.touched != nil {
		u.s.pushFeed(bus, u.accountID, []gateway.FeedEvent{{
			Kind: gateway.FeedTouched, ThreadID: u.threadID, CreatedAt: gateway.Millis(u.now), Thread: u.touched,
		}})
	}
}

func (s *Service) wake(runID string) {
	if s.dispatcher != nil && runID != "" {
		s.dispatcher.Wake(runID)
	}
}

// encode makes the bytes of a push; what it is given always encodes. HTML is left
// as it is, so that a frame is not six times its text.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// pushEvents publishes events in pushes of a bounded size, in order.
func (s *Service) pushEvents(bus gateway.Bus, threadID string, events []gateway.Event) {
	for len(events) > 0 {
		n, size := 0, 0
		for n < len(events) && n < gateway.MaxReplyEvents {
			if size += eventLen(events[n]); n > 0 && size > maxEventsJSON {
				break
			}
			n++
		}
		s.pushChunk(bus, threadID, events[:n])
		events = events[n:]
	}
}

func (s *Service) pushChunk(bus gateway.Bus, threadID string, events []gateway.Event) {
	body := struct {
		Type      string          `json:"type"`
		ThreadID  string          `json:"threadId"`
		Events    []gateway.Event `json:"events"`
		LatestSeq int64           `json:"latestSeq"`
	}{"thread.events", threadID, events, events[len(events)-1].SeqID}
	p := gateway.Push{
		Type: body.Type, ThreadID: threadID, FirstSeq: events[0].SeqID, LastSeq: body.LatestSeq, Raw: encode(body),
	}
	if with, changed := s.html.known(events); changed {
		body.Events = with
		p.RawHTML = encode(body)
	}
	bus.Publish(gateway.ThreadTopic(threadID), p)
}

func (s *Service) pushState(bus gateway.Bus, st turnState) {
	bus.Publish(gateway.ThreadTopic(st.ThreadID), gateway.Push{
		Type: st.Type, ThreadID: st.ThreadID, TurnID: st.TurnID, Raw: encode(st),
	})
}

func (s *Service) pushRetract(bus gateway.Bus, threadID, turnID string) {
	const kind = "turn.retract"
	bus.Publish(gateway.ThreadTopic(threadID), gateway.Push{
		Type: kind, ThreadID: threadID, TurnID: turnID,
		Raw: encode(map[string]string{"type": kind, "threadId": threadID, "turnId": turnID}),
	})
}

// pushFeed publishes entries of an account's feed; entries that are not stored
// carry no sequence number.
func (s *Service) pushFeed(bus gateway.Bus, accountID string, events []gateway.FeedEvent) {
	if len(events) == 0 {
		return
	}
	body := struct {
		Type      string              `json:"type"`
		Events    []gateway.FeedEvent `json:"events"`
		LatestSeq int64               `json:"latestSeq,omitempty"`
	}{"threads.events", events, events[len(events)-1].SeqID}
	bus.Publish(gateway.AccountTopic(accountID), gateway.Push{
		Type: body.Type, ThreadID: events[0].ThreadID,
		FirstSeq: events[0].SeqID, LastSeq: body.LatestSeq, Raw: encode(body),
	})
}

// deltaPush is one turn.delta.
func deltaPush(threadID, turnID string, from int64, text string) gateway.Push {
	body := struct {
		Type     string `json:"type"`
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		Offset   int64  `json:"offset"`
		Next     int64  `json:"next"`
		Text     string `json:"text"`
	}{"turn.delta", threadID, turnID, from, from + int64(len(text)), text}
	return gateway.Push{
		Type: body.Type, ThreadID: threadID, TurnID: turnID,
		Offset: body.Offset, Next: body.Next, Text: text, Raw: encode(body),
	}
}

// blockPush is one turn.block; it goes only to sessions that asked for HTML.
func blockPush(threadID, turnID string, b gateway.Block) gateway.Push {
	body := struct {
		Type     string `json:"type"`
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		gateway.Block
	}{"turn.block", threadID, turnID, b}
	return gateway.Push{
		Type: body.Type, ThreadID: threadID, TurnID: turnID, Offset: b.From, Next: b.To, RawHTML: encode(body),
	}
}

// stamp is a moment as hints carry it; "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// fieldError is a bad_request that names one field.
func fieldError(path, rule, message string) error {
	e := wire.NewError(wire.CodeBadRequest, message)
	e.Fields = []wire.Field{{Path: path, Rule: rule}}
	return e
}
