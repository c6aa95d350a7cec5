package client_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	thread = "0198c0de-0000-7000-8000-000000000001"
	turn   = "0198c0de-0000-7000-8000-0000000000aa"
)

// said is a command as it was written.
type said struct {
	client.Command
	raw string
}

// rig is a session whose frames are read by hand.
type rig struct {
	t       *testing.T
	session *client.Session
	shown   strings.Builder
	events  []int64
	putOff  []string
	gone    int
	lost    bool
	now     time.Time
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Unix(1000, 0)}
	r.session = client.NewSession(client.Tell{
		Welcome: func(_ client.Account, lost bool) { r.lost = lost },
		Event: func(_ *client.Thread, e *client.Event, text string, _ bool) {
			r.events = append(r.events, e.SeqID)
			r.shown.WriteString(text)
		},
		Text:   func(_ *client.Thread, _ string, _, _ int64, text string) { r.shown.WriteString(text) },
		Gone:   func(*client.Thread) { r.gone++ },
		PutOff: func(_ string, e *wire.Error, _ time.Duration) { r.putOff = append(r.putOff, string(e.Code)) },
	})
	return r
}

func (r *rig) receive(format string, args ...any) {
	r.session.Receive(fmt.Appendf(nil, format, args...), r.now)
}

func (r *rig) connect(epoch string) {
	r.session.Connected()
	r.receive(`{"type":"welcome","epoch":%q,"account":{"id":"a","name":"Ada"}}`, epoch)
}

// take gives what was written since the last time.
func (r *rig) take() []said {
	r.t.Helper()
	var list []said
	for _, raw := range r.session.Take() {
		s := said{raw: string(raw)}
		if err := json.Unmarshal(raw, &s.Command); err != nil {
			r.t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// one gives the only command that was written.
func (r *rig) one(kind string) said {
	r.t.Helper()
	list := r.take()
	if len(list) != 1 || list[0].Type != kind {
		r.t.Fatalf("written: %v, want one %s", list, kind)
	}
	return list[0]
}

func (r *rig) event(seq int, kind, rest string) string {
	return fmt.Sprintf(`{"id":"0198c0de-0000-7000-8000-%012d","seqId":%d,"eventType":%q,"content":null%s}`, seq, seq, kind, rest)
}

func (r *rig) delta(offset int, text string) {
	r.receive(`{"type":"turn.delta","threadId":%q,"turnId":%q,"offset":%d,"next":%d,"text":%q}`, thread, turn, offset, offset+len(text), text)
}

// opened brings the session to an open thread in which a turn runs.
func (r *rig) opened() {
	r.t.Helper()
	r.connect("e")
	r.session.Open(thread)
	r.answerOpen(r.one("thread.open"), `"offset":0,"next":2,"text":"ab"`, r.event(1, "input.prompt", `,"turnId":"`+turn+`","userMessage":{"parts":[{"type":"text","text":"hi"}]}`))
}

func (r *rig) answerOpen(s said, live string, events ...string) {
	r.t.Helper()
	running := ""
	if live != "" {
		running = fmt.Sprintf(`,"turn":{"turnId":%q,"status":"running",%s}`, turn, live)
	}
	r.receive(`{"re":%q,"ok":true,"thread":{"id":%q},"events":[%s],"latestSeq":1,"more":false%s}`, s.ID, thread, strings.Join(events, ","), running)
}

func TestF02_WhatComesTwiceIsToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	r.delta(0, "ab")
	r.delta(2, "c")
	r.delta(2, "c")
	r.delta(0, "ab")
	r.delta(3, "d")
	r.delta(1, "bcdé") // straddles what is known
	if list := r.take(); len(list) != 0 {
		t.Errorf("asked again for %v", list)
	}
	push := fmt.Sprintf(`{"type":"thread.events","threadId":%q,"events":[%s,%s]}`, thread,
		r.event(2, "output.message", `,"turnId":"`+turn+`","from":0,"to":7,"content":"abcdé!"`),
		r.event(3, "turn.completed", `,"turnId":"`+turn+`"`))
	r.receive("%s", push)
	r.receive("%s", push)
	r.delta(7, "late")
	if got := r.shown.String(); got != "abcdé!" {
		t.Errorf("shown %q", got)
	}
	if !slices.Equal(r.events, []int64{1, 2, 3}) {
		t.Errorf("events %v", r.events)
	}
	if th := r.session.Thread(); th.Active() != nil || th.Turn(turn).End.EventType != client.TurnCompleted {
		t.Error("the turn has no end")
	}
}

func TestF03_ResumesFromTheLastEventAndByte(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	r.delta(2, "cd")
	r.session.Disconnected()
	r.connect("e")
	s := r.one("thread.open")
	if s.SinceSeq == nil || *s.SinceSeq != 1 || s.Turn == nil || *s.Turn != (client.Position{TurnID: turn, Offset: 4}) {
		t.Fatalf("opened from %s", s.raw)
	}
	r.answerOpen(s, `"offset":4,"next":6,"text":"ef"`)
	r.delta(6, "g")
	if got := r.shown.String(); got != "abcdefg" {
		t.Errorf("shown %q", got)
	}
}

func TestResyncShowsNothingTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	r.delta(2, "cdef")
	r.session.Disconnected()
	r.connect("e")
	r.answerOpen(r.one("thread.open"), `"offset":0,"next":3,"text":"abc","resync":true`)
	r.session.Disconnected()
	r.connect("e")
	s := r.one("thread.open")
	if s.Turn.Offset != 3 {
		t.Errorf("opened with %s", s.raw)
	}
	r.answerOpen(s, `"offset":3,"next":3,"text":""`)
	r.delta(3, "de")
	r.delta(5, "fgh")
	if got := r.shown.String(); got != "abcdefgh" {
		t.Errorf("shown %q", got)
	}
}

func TestAGapOpensTheThreadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	r.delta(4, "ef")
	s := r.one("thread.open")
	r.delta(6, "gh") // nothing further is asked while that is under way
	r.answerOpen(s, `"offset":2,"next":8,"text":"cdefgh"`)
	if got := r.shown.String(); got != "abcdefgh" || len(r.take()) != 0 {
		t.Errorf("shown %q", got)
	}
}

func TestPagesAreAskedForUntilTheLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	r.session.Disconnected()
	r.connect("e")
	s := r.one("thread.open")
	r.receive(`{"re":%q,"ok":true,"events":[%s],"more":true}`, s.ID, r.event(2, "turn.queued", ""))
	next := r.one("thread.open")
	if *next.SinceSeq != 2 {
		t.Fatalf("the next page: %s", next.raw)
	}
	r.answerOpen(next, "", r.event(3, "turn.dequeued", ""))
	if !slices.Equal(r.events, []int64{1, 2, 3}) {
		t.Errorf("events %v", r.events)
	}
}

func TestSQ01_AnUnansweredMessageIsSaidAgainUnderItsID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.session.New()
	var receipts []client.Receipt
	id := r.session.Send(client.Command{UserMessage: client.Text("one")}, func(rc client.Receipt, e *wire.Error) {
		if e != nil {
			t.Error(e)
		}
		receipts = append(receipts, rc)
	})
	r.session.Send(client.Command{UserMessage: client.Text("two")}, nil)
	if list := r.take(); len(list) != 0 {
		t.Fatalf("said before the welcome: %v", list)
	}
	r.connect("e")
	first := r.one("message.send")
	r.session.Disconnected()
	r.connect("e")
	again := r.one("message.send")
	if again.ClientEventID != id || first.ClientEventID != id || again.ClientThreadID != first.ClientThreadID || first.ClientThreadID == "" {
		t.Fatalf("first %s\nagain %s", first.raw, again.raw)
	}
	if again.ID == first.ID {
		t.Error("one command id for two attempts")
	}
	r.receive(`{"re":%q,"ok":true,"threadId":%q,"disposition":"started","replayed":true}`, again.ID, again.ClientThreadID)
	list := r.take()
	if len(receipts) != 1 || len(list) != 2 || list[0].Type != "thread.open" && list[1].Type != "thread.open" {
		t.Fatalf("receipts %v, then %v", receipts, list)
	}
	for _, s := range list {
		if s.Type == "message.send" && (s.ThreadID != first.ClientThreadID || s.ClientThreadID != "") {
			t.Errorf("the second message goes to %s", s.raw)
		}
	}
}

func TestWhatIsPutOffIsSaidAgainAndNotOvertaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	r.session.Send(client.Command{UserMessage: client.Text("one")}, nil)
	r.session.Send(client.Command{UserMessage: client.Text("two")}, nil)
	first := r.one("message.send")
	r.receive(`{"re":%q,"ok":false,"error":{"code":"rate_limited","message":"m","retryable":true,"retryAfterMs":400}}`, first.ID)
	if list := r.take(); len(list) != 0 || len(r.putOff) != 1 {
		t.Fatalf("said at once: %v, told %v", list, r.putOff)
	}
	if at := r.session.WakeAt(); !at.Equal(r.now.Add(400 * time.Millisecond)) {
		t.Fatalf("wakes at %v", at)
	}
	r.session.Wake(r.now.Add(399 * time.Millisecond))
	if list := r.take(); len(list) != 0 {
		t.Fatalf("said too early: %v", list)
	}
	r.session.Wake(r.now.Add(400 * time.Millisecond))
	again := r.one("message.send")
	if again.ClientEventID != first.ClientEventID {
		t.Fatalf("said %s, then %s", first.raw, again.raw)
	}
	r.receive(`{"re":%q,"ok":true,"threadId":%q,"turnId":null,"disposition":"queued"}`, again.ID, thread)
	if second := r.one("message.send"); second.UserMessage.String() != "two" {
		t.Errorf("then %s", second.raw)
	}
}

func TestARefusalIsToldOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code  string
		tries int
	}{{"prompt_too_large", 1}, {"not_found", 1}, {"storage_unavailable", 6}, {"internal", 6}} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.opened()
			var fault *wire.Error
			r.session.Send(client.Command{UserMessage: client.Text("one")}, func(_ client.Receipt, e *wire.Error) { fault = e })
			tries := 0
			for fault == nil {
				s := r.one("message.send")
				tries++
				r.receive(`{"re":%q,"ok":false,"error":{"code":%q}}`, s.ID, c.code)
				r.now = r.now.Add(time.Minute)
				r.session.Wake(r.now)
			}
			if string(fault.Code) != c.code || tries != c.tries || r.session.Unanswered() != 0 {
				t.Errorf("%v after %d tries", fault, tries)
			}
		})
	}
}

func TestAReplyMayHaveKeysOfAPush(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.connect("e1")
	var next string
	r.session.Call(client.Command{Type: "threads.list", Limit: 1}, func(reply client.Reply, _ *wire.Error) {
		var list struct {
			Next string `json:"next"`
		}
		reply.Into(&list)
		next = list.Next
	})
	r.receive(`{"re":%q,"ok":true,"threads":[],"next":"MTc5","text":7}`, r.one("threads.list").ID)
	if next != "MTc5" {
		t.Errorf("the next page is %q", next)
	}
}

func TestAFrameThatIsTooLargeIsTheMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	var fault *wire.Error
	r.session.Send(client.Command{UserMessage: client.Text("long")}, func(_ client.Receipt, e *wire.Error) { fault = e })
	r.one("message.send")
	r.receive(`{"ok":false,"error":{"code":"frame_too_large","limit":7}}`)
	if fault == nil || fault.Code != wire.CodeFrameTooLarge {
		t.Errorf("told %v", fault)
	}
}

func TestAnotherEpochForgetsWhatIsKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	r.session.Disconnected()
	r.connect("another")
	if s := r.one("thread.open"); !r.lost || s.SinceSeq != nil || s.Window == 0 {
		t.Errorf("lost %v, opened with %s", r.lost, s.raw)
	}
}

func TestTheEndOfAThreadIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	r.receive(`{"type":"threads.events","events":[{"kind":"deleted","threadId":%q}]}`, thread)
	r.session.Disconnected()
	r.connect("e")
	r.receive(`{"re":%q,"ok":false,"error":{"code":"not_found"}}`, r.one("thread.open").ID)
	if r.gone != 2 {
		t.Errorf("told %d times", r.gone)
	}
}

func TestWhatIsNotKnownIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	for _, raw := range []string{
		"", "null", "[]", "{", `{"type":"news"}`, `{"ok":true,"re":"nobody"}`, `{"ok":false}`, `{"type":"thread.events","threadId":"` + thread + `","events":7}`,
		`{"type":"turn.delta","threadId":"other","turnId":"x","offset":0,"next":1,"text":"z"}`,
		`{"type":"turn.delta","threadId":"` + thread + `","turnId":"` + turn + `","kind":"thinking","offset":0,"next":9,"text":"hmm"}`,
		`{"type":"turn.state","threadId":"` + thread + `","turnId":"` + turn + `","status":"completed"}`,
	} {
		r.receive("%s", raw)
	}
	if r.shown.String() != "ab" || r.session.Thread().Active() == nil {
		t.Errorf("shown %q", r.shown.String())
	}
}

func TestWaitingMessagesInTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.opened()
	text := func(s string) string {
		return `,"userMessage":{"parts":[{"type":"text","text":"` + s + `"},{"type":"model","selectedModel":"m"}]}`
	}
	id := func(seq int) string { return fmt.Sprintf("0198c0de-0000-7000-8000-%012d", seq) }
	push := func(events ...string) {
		r.receive(`{"type":"thread.events","threadId":%q,"events":[%s]}`, thread, strings.Join(events, ","))
	}
	waiting := func() string {
		var list []string
		for _, m := range r.session.Thread().Waiting() {
			list = append(list, m.Text)
		}
		return strings.Join(list, " ")
	}
	push(r.event(2, "input.prompt", text("a")), r.event(3, "input.prompt", text("b")), r.event(4, "input.prompt", text("c")))
	push(r.event(5, "input.prompt", `,"rank":-1,"originId":"`+id(4)+`","revokesEventId":"`+id(4)+`"`+text("c")))
	if got := waiting(); got != "c a b" {
		t.Errorf("waiting %q", got)
	}
	push(r.event(6, "input.prompt", `,"turnId":"t2","revokesEventId":"`+id(5)+`"`+text("c")),
		r.event(7, "control.revoke", `,"revokesEventId":"`+id(2)+`"`),
		r.event(8, "input.rejected", `,"error":"quota_exhausted","revokesEventId":"`+id(3)+`"`+text("b")))
	th := r.session.Thread()
	if got := waiting(); got != "" {
		t.Errorf("waiting %q", got)
	}
	for seq, fate := range map[int]client.Fate{4: client.Started, 2: client.Recalled, 3: client.Refused} {
		if m := th.Message(id(seq)); m == nil || m.Fate != fate {
			t.Errorf("message %d: %+v, want fate %d", seq, m, fate)
		}
	}
	if th.Message(id(4)).TurnID != "t2" || th.Message(id(3)).Error != "quota_exhausted" {
		t.Error("the turn or the error is missing")
	}
}
