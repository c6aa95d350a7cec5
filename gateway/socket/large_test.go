package socket_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
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
