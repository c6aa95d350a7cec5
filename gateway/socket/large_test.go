package socket_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// dense is Markdown source of about size bytes whose HTML is much longer.
func dense(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "### %d `<` *&* `\"` **>** [x](/x)\n\n", i)
	}
	return b.String()
}

// TestF01_ALongThreadOpensInMidAnswer: whatever was said before and however long
// the answer is by now, the reply of an open fits into a frame, and what did not
// fit into it follows.
func TestF01_ALongThreadOpensInMidAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"much HTML":          dense(500 << 10),
		"much text":          strings.Repeat("You asked for it, \"so here it is\".\n", 140_000),
		"control characters": strings.Repeat(strings.Repeat("\x01\x02\x1b", 300)+"\n\n", 350),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRealRig(t)
			writer := r.dial("ann")
			threadID, _, runID := r.streaming(writer, "", "first")
			r.say(runID, answer[:300<<10])
			r.end(runID)
			threadID, turnID, runID := r.streaming(writer, threadID, "second")
			r.say(runID, answer)
			for _, html := range []bool{false, true} {
				c, v := r.dial("ann"), newViewer(threadID, html)
				v.window = true
				f := c.call("thread.open", fields{"threadId": threadID, "html": html})
				if f.Error != nil {
					t.Fatalf("html %v: the thread cannot be opened: %s", html, f.raw)
				}
				v.take(c, append([]frame{f}, c.settle()...))
				if v.fault != nil || v.turnID != turnID || v.text.String() != answer {
					t.Errorf("html %v: %d bytes of the running turn are known of %d (%v)", html, v.text.Len(), len(answer), v.fault)
				}
			}
		})
	}
}

// turnPage is a reply of turn.get.
type turnPage struct {
	Turn        gateway.Turn `json:"turn"`
	PartialNext *int64       `json:"partialNext"`
}

// getTurn reads the page of a turn that begins at from, or the first one.
func (c *client) getTurn(turnID string, from *int64) (page turnPage) {
	c.Helper()
	with := fields{"turnId": turnID}
	if from != nil {
		with["partialFrom"] = *from
	}
	if err := json.Unmarshal([]byte(c.must("turn.get", with).raw), &page); err != nil {
		c.Fatal(err)
	}
	return page
}

// TestTurnGet_ALongUnfinishedAnswerIsReadInPages: however long it is and whatever it is
// made of, no reply exceeds a frame, and nothing of it is lost.
func TestTurnGet_ALongUnfinishedAnswerIsReadInPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prompt, answer string }{
		"one page":           {"hello", "short 🌍"},
		"much text":          {"hello", strings.Repeat("It goes \"on\" 🌍 and on.\n", 45_000)},
		"control characters": {strings.Repeat("\x01", 131_072), strings.Repeat("\x01\x02\x1b", 80_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRealRig(t)
			ann := r.dial("ann")
			_, turnID, runID := r.streaming(ann, "", c.prompt)
			r.say(runID, c.answer)
			r.host.End(runID, gatewaytest.Failed(wire.CodeModelOutputIncomplete))
			if err := r.host.Deliver(t.Context(), r.service, -1); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the end is durable", r.host.Settled)
			first := ann.getTurn(turnID, nil)
			if first.Turn.Prompt != c.prompt || first.Turn.Context == "" || first.Turn.Status != gateway.TurnFailed {
				t.Errorf("the first page has %d bytes of prompt, %d of context, status %s", len(first.Turn.Prompt), len(first.Turn.Context), first.Turn.Status)
			}
			var whole strings.Builder
			for page := first; ; page = ann.getTurn(turnID, page.PartialNext) {
				if page.Turn.Partial != nil {
					whole.WriteString(*page.Turn.Partial)
				}
				if page.PartialNext == nil {
					break
				}
				if *page.PartialNext != int64(whole.Len()) {
					t.Fatalf("page to %d after %d bytes", *page.PartialNext, whole.Len())
				}
			}
			if whole.String() != c.answer {
				t.Errorf("%d bytes were read of %d", whole.Len(), len(c.answer))
			}
		})
	}
}

func TestTurnGet_RefusesWhereNoPageBegins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	partial := "short 🌍"
	turn := gateway.Turn{TurnID: newID(), Partial: &partial}
	r.chat.tell(turn)
	c := r.dial("ann")
	for from, rule := range map[int]string{-1: "min", len(partial) - 1: "utf8", len(partial) + 1: "max"} {
		f := c.call("turn.get", fields{"turnId": turn.TurnID, "partialFrom": from})
		if f.Error == nil || f.Error.Code != wire.CodeBadRequest || len(f.Error.Fields) != 1 || f.Error.Fields[0] != (wire.Field{Path: "partialFrom", Rule: rule}) {
			t.Errorf("from %d: %.300s", from, f.raw)
		}
	}
	end := int64(len(partial))
	if page := c.getTurn(turn.TurnID, &end); page.Turn.Partial != nil || page.PartialNext != nil {
		t.Errorf("from its end: %+v", page)
	}
}

// TestTurnGet_WhatFitsIntoNoFrameIsToldSo: the limit is named, and the socket stays.
func TestTurnGet_WhatFitsIntoNoFrameIsToldSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	turn := gateway.Turn{TurnID: newID(), Prompt: strings.Repeat("\x01", 131_072), Context: strings.Repeat("\x01", 64_000)}
	r.chat.tell(turn)
	c := r.dial("ann")
	f := c.call("turn.get", fields{"turnId": turn.TurnID})
	if f.Error == nil || f.Error.Code != wire.CodeFrameTooLarge || f.Error.Limit != gateway.MaxFrameBytes {
		t.Errorf("answered %.300s", f.raw)
	}
	c.must("ping", nil)
}

// TestAgentsList_FitsIntoAFrame: instructions, and if need be descriptions, are left out
// of assistants that are too many for one.
func TestAgentsList_FitsIntoAFrame(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := func(n int, of gateway.Agent) []gateway.Agent {
		all := make([]gateway.Agent, n)
		for i := range all {
			all[i] = of
			all[i].ID = newID()
		}
		return all
	}
	long := agent("").Agent
	long.Instructions, long.Description = strings.Repeat("i", gateway.MaxAgentInstructions), strings.Repeat("\x01", 400)
	c := r.dial("ann")
	for _, tc := range []struct {
		n                         int
		instructions, description bool
	}{{50, true, true}, {200, false, true}, {600, false, false}} {
		r.chat.offer(list(tc.n, long))
		f := c.must("agents.list", nil)
		var reply gateway.AgentsReply
		if err := json.Unmarshal([]byte(f.raw), &reply); err != nil {
			t.Fatal(err)
		}
		if len(reply.Agents) != tc.n {
			t.Fatalf("%d assistants, want %d", len(reply.Agents), tc.n)
		}
		for _, a := range reply.Agents {
			if a.DisplayName != long.DisplayName || (a.Instructions != "") != tc.instructions || (a.Description != "") != tc.description {
				t.Fatalf("of %d one has %d bytes of instructions, %d of description", tc.n, len(a.Instructions), len(a.Description))
			}
		}
	}
}
