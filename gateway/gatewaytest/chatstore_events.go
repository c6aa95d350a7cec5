package gatewaytest

import (
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

func (s *suite) events() {
	th := s.thread()
	from, to := int64(0), int64(7)
	content := "日本\n\"<&>\u2028"
	first := &gateway.Event{
		ID: uid(), EventType: gateway.EventInputPrompt, CreatedAt: gateway.Millis(1234), Mode: gateway.ModeQueue, Rank: -1,
		OriginID: uid(), UserMessage: &gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "text", Text: content}}},
	}
	second := &gateway.Event{
		ID: uid(), EventType: gateway.EventOutputPartial, CreatedAt: gateway.Millis(1235), TurnID: uid(), RevokesEventID: first.ID,
		Content: &content, From: &from, To: &to,
	}
	third := &gateway.Event{
		ID: uid(), EventType: gateway.EventTurnFailed, CreatedAt: gateway.Millis(1236), TurnID: second.TurnID,
		Error: wire.CodeModelFailed, Reason: "r", Finish: "f", RetryAt: "2026",
	}
	s.update(func(tx gateway.ChatTx) {
		s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{first, second}))
		s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{third}))
		if first.SeqID != 1 || second.SeqID != 2 || third.SeqID != 3 || first.ThreadID != th.ID {
			s.Errorf("numbers %d %d %d", first.SeqID, second.SeqID, third.SeqID)
		}
		s.want(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{{ID: first.ID, EventType: gateway.EventTurnFailed}}), gateway.ErrRowExists)
	})
	s.view(func(tx gateway.ChatTx) {
		for _, e := range []*gateway.Event{first, second, third} {
			got, err := tx.Event(s.ctx, e.ID)
			s.must(err)
			if fmt.Sprintf("%+v", flat(got)) != fmt.Sprintf("%+v", flat(*e)) {
				s.Errorf("got %+v\nwant %+v", flat(got), flat(*e))
			}
		}
		by, err := tx.Revoker(s.ctx, first.ID)
		s.must(err)
		if by.ID != second.ID {
			s.Error("another event revokes it")
		}
		_, err = tx.Revoker(s.ctx, second.ID)
		s.want(err, gateway.ErrNoRow)
		_, err = tx.Event(s.ctx, uid())
		s.want(err, gateway.ErrNoRow)
	})
}

// flat makes an event comparable by its printed form.
func flat(e gateway.Event) any {
	type plain struct {
		gateway.Event
		Text, Doc string
		From, To  int64
	}
	p := plain{Event: e}
	if e.Content != nil {
		p.Text = *e.Content
	}
	if e.UserMessage != nil {
		p.Doc = fmt.Sprint(*e.UserMessage)
	}
	if e.From != nil {
		p.From, p.To = *e.From, *e.To
	}
	p.Event.Content, p.Event.UserMessage, p.Event.From, p.Event.To = nil, nil, nil, nil
	return p
}

func (s *suite) interrupts() {
	th := s.thread()
	e := &gateway.Event{ID: uid(), EventType: gateway.EventControlInterrupt, CreatedAt: gateway.Millis(1), InterruptsTurnID: uid()}
	s.update(func(tx gateway.ChatTx) { s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{e})) })
	s.view(func(tx gateway.ChatTx) {
		got, err := tx.Event(s.ctx, e.ID)
		s.must(err)
		if got.InterruptsTurnID != e.InterruptsTurnID || got.TurnID != "" {
			s.Errorf("event %+v", got)
		}
	})
}

func (s *suite) paging() {
	th := s.thread()
	big := strings.Repeat("x", 1000)
	s.update(func(tx gateway.ChatTx) {
		for range 10 {
			s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{{ID: uid(), EventType: gateway.EventOutputMessage, CreatedAt: gateway.Millis(1), Content: &big}}))
		}
	})
	for _, c := range []struct {
		q    gateway.EventQuery
		want string
		more bool
	}{
		{gateway.EventQuery{Limit: 100, MaxBytes: 1 << 20}, "[1 2 3 4 5 6 7 8 9 10]", false},
		{gateway.EventQuery{After: 8, Limit: 100, MaxBytes: 1 << 20}, "[9 10]", false},
		{gateway.EventQuery{After: 10, Limit: 100, MaxBytes: 1 << 20}, "[]", false},
		{gateway.EventQuery{Limit: 3, MaxBytes: 1 << 20}, "[1 2 3]", true},
		{gateway.EventQuery{After: 7, Limit: 3, MaxBytes: 1 << 20}, "[8 9 10]", false},
		{gateway.EventQuery{Limit: 100, MaxBytes: 3000}, "[1 2]", true},
		{gateway.EventQuery{Limit: 100, MaxBytes: 1}, "[1]", true},
		{gateway.EventQuery{Newest: true, Limit: 3, MaxBytes: 1 << 20}, "[8 9 10]", true},
		{gateway.EventQuery{Newest: true, Before: 3, Limit: 3, MaxBytes: 1 << 20}, "[1 2]", false},
		{gateway.EventQuery{Newest: true, Limit: 100, MaxBytes: 3000}, "[9 10]", true},
		{gateway.EventQuery{Newest: true, Limit: 100, MaxBytes: 1}, "[10]", true},
	} {
		s.view(func(tx gateway.ChatTx) {
			c.q.ThreadID = th.ID
			events, more, err := tx.Events(s.ctx, c.q)
			s.must(err)
			got := []int64{}
			for _, e := range events {
				got = append(got, e.SeqID)
			}
			if fmt.Sprint(got) != c.want || more != c.more {
				s.Errorf("%+v: %v %v, want %s %v", c.q, got, more, c.want, c.more)
			}
		})
	}
}
