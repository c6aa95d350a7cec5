package socket_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/wire"
)

// golden is one entry of testdata/frames.json, which the tests of the browser
// read too: what a client sends (an object, or text that is no command) and what
// it is answered.
type golden struct {
	Name  string          `json:"name"`
	Send  json.RawMessage `json:"send"`
	Reply json.RawMessage `json:"reply"`
}

const goldenThread, goldenTurn = "0198c0de-0000-7000-8000-000000000001", "0198c0de-0000-7000-8000-000000000002"

func readGolden(t testing.TB) []golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []golden
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// text is what stands on the wire.
func (g golden) text() string {
	var s string
	if json.Unmarshal(g.Send, &s) == nil {
		return s
	}
	return string(g.Send)
}

func TestGoldenFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) { c.Admin = viewsDouble{} })
	r.chat.threads[goldenThread] = &threadDouble{owner: "acc-ann"}
	content := "Hello"
	r.chat.append(goldenThread,
		gateway.Event{EventType: gateway.EventInputPrompt, TurnID: goldenTurn, UserMessage: &gateway.UserMessage{
			Version: 1, Parts: []gateway.Part{{Type: "text", Text: "Say <hello>"}},
		}},
		gateway.Event{EventType: gateway.EventOutputMessage, TurnID: goldenTurn, Content: &content})
	for i := range r.chat.threads[goldenThread].events {
		r.chat.threads[goldenThread].events[i].ID = goldenTurn
	}
	c := r.dial("ann")
	for _, g := range readGolden(t) {
		c.write(g.text())
		got := c.read()
		for strings.HasPrefix(got.raw, `{"type":"admin.`) {
			got = c.read()
		}
		if !sameJSON(t, []byte(got.raw), g.Reply) {
			t.Errorf("%s: %s\nis answered %s\nwant        %s", g.Name, g.text(), got.raw, g.Reply)
		}
	}
	if c.must("ping", nil); t.Failed() {
		t.Log("the connection stays open")
	}
}

func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	// Messages are prose; a golden frame holds "" for any.
	blankMessage(x)
	blankMessage(y)
	return reflect.DeepEqual(x, y)
}

func blankMessage(v any) {
	if m, ok := v.(map[string]any); ok {
		if e, ok := m["error"].(map[string]any); ok {
			e["message"] = ""
		}
	}
}

func TestBinaryFramesAreRefusedAndTheSocketStaysOpen(t *testing.T) {
	t.Parallel()
	c := newRig(t).dial("bob")
	if err := c.ws.Write(context.Background(), websocket.MessageBinary, []byte(`{"id":"1","type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	if f := c.read(); f.Error == nil || f.Error.Code != wire.CodeBadRequest || f.Re != "" {
		t.Errorf("answered %s", f.raw)
	}
	c.must("ping", nil)
}

func TestFramesAboveTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	frame := func(size int) string {
		const head, tail = `{"id":"big","type":"ping","pad":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	t.Run("at the limit it is read", func(t *testing.T) {
		c := r.dial("bob")
		c.write(frame(gateway.MaxFrameBytes))
		if f := c.read(); f.Re != "big" || f.Error == nil || f.Error.Code != wire.CodeBadRequest || f.Error.Fields[0] != (wire.Field{Path: "pad", Rule: "unknown"}) {
			t.Errorf("answered %.300s", f.raw)
		}
	})
	for name, size := range map[string]int{"one byte above": gateway.MaxFrameBytes + 1, "four times": 4 * gateway.MaxFrameBytes} {
		t.Run(name+" it is answered with the limit", func(t *testing.T) {
			c := r.dial("bob")
			c.write(frame(size))
			f := c.read()
			if f.Re != "" || f.Error == nil || f.Error.Code != wire.CodeFrameTooLarge || f.Error.Limit != gateway.MaxFrameBytes {
				t.Errorf("answered %.300s", f.raw)
			}
			c.must("ping", nil)
		})
	}
	t.Run("beyond four times it closes with 4413", func(t *testing.T) {
		c := r.dial("bob")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.ws.Write(context.Background(), websocket.MessageText, []byte(frame(4*gateway.MaxFrameBytes+1)))
		}()
		if code := c.closed(); code != 4413 {
			t.Errorf("close code %d", code)
		}
		<-done
	})
}

func TestRefusalsOfCommands(t *testing.T) {
	t.Parallel()
	id := newID()
	message := fields{"version": 1, "parts": []any{fields{"type": "text", "text": "hi"}}}
	for _, c := range []struct {
		name, kind string
		with       fields
		field      wire.Field
	}{
		{"unknown type", "message.shout", nil, wire.Field{Path: "type", Rule: "enum"}},
		{"no message to steer", "message.steer", fields{"threadId": id}, wire.Field{Path: "eventId", Rule: "required"}},
		{"dashboard without views", "admin.follow", fields{"view": "turns"}, wire.Field{Path: "type", Rule: "enum"}},
		{"unknown field", "ping", fields{"extra": 1}, wire.Field{Path: "extra", Rule: "unknown"}},
		{"wrong case", "thread.close", fields{"threadID": id}, wire.Field{Path: "threadID", Rule: "unknown"}},
		{"missing", "thread.open", nil, wire.Field{Path: "threadId", Rule: "required"}},
		{"no uuid", "thread.open", fields{"threadId": "x"}, wire.Field{Path: "threadId", Rule: "uuid"}},
		{"wrong type", "thread.open", fields{"threadId": 5}, wire.Field{Path: "threadId", Rule: "type"}},
		{"null", "thread.open", fields{"threadId": nil}, wire.Field{Path: "threadId", Rule: "type"}},
		{"window too large", "thread.open", fields{"threadId": id, "window": 501}, wire.Field{Path: "window", Rule: "max"}},
		{"negative", "thread.open", fields{"threadId": id, "sinceSeq": -1}, wire.Field{Path: "sinceSeq", Rule: "min"}},
		{"within a field", "thread.open", fields{"threadId": id, "turn": fields{"turnId": "x", "offset": 0}}, wire.Field{Path: "turn.turnId", Rule: "uuid"}},
		{"limit too large", "threads.list", fields{"limit": 101}, wire.Field{Path: "limit", Rule: "max"}},
		{"unknown mode", "message.send", fields{"clientEventId": id, "userMessage": message, "mode": "shout"}, wire.Field{Path: "mode", Rule: "enum"}},
		{"now is no word", "message.send", fields{"clientEventId": id, "userMessage": message, "mode": "steer", "now": "yes"}, wire.Field{Path: "now", Rule: "type"}},
		{"an assistant that is no uuid", "agent.get", fields{"agentId": "x"}, wire.Field{Path: "agentId", Rule: "uuid"}},
		{"an assistant without a name", "agent.create", fields{"description": "x"}, wire.Field{Path: "displayName", Rule: "required"}},
		{"no client event id", "message.send", fields{"userMessage": message}, wire.Field{Path: "clientEventId", Rule: "required"}},
		{"title missing", "thread.rename", fields{"threadId": id}, wire.Field{Path: "title", Rule: "required"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.dial("bob")
			f := s.call(c.kind, c.with)
			if f.OK == nil || *f.OK || f.Error == nil || f.Error.Code != wire.CodeBadRequest || len(f.Error.Fields) == 0 || f.Error.Fields[0] != c.field {
				t.Errorf("answered %s, want field %v", f.raw, c.field)
			}
			s.must("ping", nil)
		})
	}
}

func TestErrorsOfTheServiceAreAnsweredWithTheirCode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.dial("bob")
	r.chat.fail = wire.WrapError(wire.CodeStorageUnavailable, "The disk is full.", errors.New("secret cause"))
	f := c.call("threads.list", nil)
	if f.Error == nil || f.Error.Code != wire.CodeStorageUnavailable || !f.Error.Retryable || strings.Contains(f.raw, "secret") {
		t.Errorf("answered %s", f.raw)
	}
	r.chat.fail = errors.New("secret cause")
	if f = c.call("threads.list", nil); f.Error == nil || f.Error.Code != wire.CodeInternal || strings.Contains(f.raw, "secret") {
		t.Errorf("answered %s", f.raw)
	}
	r.chat.fail, r.chat.panic = nil, true
	if f = c.call("threads.list", nil); f.Error == nil || f.Error.Code != wire.CodeInternal || strings.Contains(f.raw, "as told") {
		t.Errorf("answered %s", f.raw)
	}
	r.chat.panic = false
	c.must("threads.list", nil)
}

func TestAStrangersThreadIsAnsweredAsOneThatDoesNotExist(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.dial("bob")
	annThread := r.chat.newThread("acc-ann")
	mask := func(f frame) string { return strings.ReplaceAll(f.raw, f.Re, "") }
	hers, none := c.call("thread.open", fields{"threadId": annThread}), c.call("thread.open", fields{"threadId": newID()})
	if mask(hers) != mask(none) || hers.Error == nil || hers.Error.Code != wire.CodeNotFound {
		t.Errorf("%s\n%s", hers.raw, none.raw)
	}
	r.chat.append(annThread, gateway.Event{EventType: gateway.EventInputPrompt})
	if got := c.settle(); len(got) != 2 {
		t.Errorf("a stranger is told %v", got)
	}
}

// FuzzFrames sends arbitrary text: each is answered once, with the id it named or
// with none, and the connection stays open.
func FuzzFrames(f *testing.F) {
	for _, g := range readGolden(f) {
		f.Add([]byte(g.text()))
	}
	for _, s := range []string{`{}`, `[]`, `null`, `{"id":"a","type":"ping"}{}`, `{"id":"\ud800","type":"ping"}`, "{\"id\":\"\xff\"}", strings.Repeat("[", 5000)} {
		f.Add([]byte(s))
	}
	r := newRig(f, func(c *socket.Config) { c.Limits.CommandsPerSecond = 1 << 30 })
	c := r.dial("bob")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > gateway.MaxFrameBytes {
			t.Skip()
		}
		c.TB = t
		c.write(string(raw))
		c.say("ping", nil)
		answers := 0
		for {
			got := c.read()
			if got.Re == "c"+itoa(c.nextID) && bytes.Contains([]byte(got.raw), []byte("serverTime")) {
				break
			}
			if got.OK != nil {
				answers++
			}
		}
		if answers != 1 {
			t.Errorf("%q: %d answers", raw, answers)
		}
	})
}
