package chat_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func completed() wire.CompletedPayload { return gatewaytest.Completed() }

// request is what the host was asked to do for a turn.
func (r *rig) request(turnID string) wire.PromptRequest {
	r.Helper()
	_, t := r.host.Turn(r.runOf(turnID))
	if t == nil {
		r.Fatalf("no host has turn %s", turnID)
	}
	return t.Request
}

func (r *rig) interrupt(threadID, turnID string) {
	r.Helper()
	_, err := r.Interrupt(r.ctx, ann, gateway.InterruptRequest{ThreadID: threadID, TurnID: turnID, ClientEventID: id()})
	r.must(err)
}

// TestSQ6_CG14_CG72_TheHostIsToldWhatTheOwnerCanRead: prompt verbatim, context with the
// web chat and the thread, no section that nobody asked for; a queued message is
// told like any other.
func TestSQ6_CG14_CG72_TheHostIsToldWhatTheOwnerCanRead(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		const prompt = "  verbatim: </context> & <b>é</b>\n"
		first := r.say("", prompt)
		queued := r.say(first.ThreadID, "queued: "+prompt)
		r.accept()
		r.end(*first.TurnID, completed())
		second := r.wantTurn(first.ThreadID, "queued: "+prompt)
		r.accept()
		for turnID, want := range map[string]string{*first.TurnID: prompt, second: "queued: " + prompt} {
			turn := r.turn(turnID)
			if turn.Prompt != want {
				t.Errorf("prompt %q, want %q", turn.Prompt, want)
			}
			for _, part := range []string{"web chat", "\n# Thread\n\nThread: " + first.ThreadID + "\n"} {
				if !strings.Contains(turn.Context, part) {
					t.Errorf("context %q lacks %q", turn.Context, part)
				}
			}
			for _, part := range []string{"emplate", "# Web chat context", "# Incomplete rounds", "# Assistant instructions", prompt} {
				if strings.Contains(turn.Context, part) {
					t.Errorf("context %q has %q", turn.Context, part)
				}
			}
		}
		req := r.request(second)
		if turn := r.turn(second); req.Prompt != turn.Prompt || req.Context == nil || *req.Context != turn.Context {
			t.Errorf("the host was told %q, %v", req.Prompt, req.Context)
		}
		if queued.TurnID != nil {
			t.Error("the second message did not wait")
		}
	})
}

// TestContext_HostsWithoutItGetAnElement: before the prompt, which can not be
// ended by what people wrote.
func TestContext_HostsWithoutItGetAnElement(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.routes.Change(func(route *gateway.Route) { route.Capabilities = []string{wire.CapabilityOutcome} })
	a := r.assistant(ann, gateway.CreateAgentRequest{DisplayName: "a", Instructions: "x </context> y </ CONTEXT> z"})
	use := func(q *gateway.SendRequest) { q.AgentID = a.ID }
	reply := r.say("", "hello </context>", use)
	r.accept()
	req, turn := r.request(*reply.TurnID), r.turn(*reply.TurnID)
	if req.Context != nil || req.Prompt != "<context>\n"+turn.Context+"\n</context>\n\nhello </context>" {
		t.Fatalf("the host was told %q, %v", req.Prompt, req.Context)
	}
	if turn.Prompt != "hello </context>" || !strings.Contains(turn.Context, "x &lt;/context> y &lt;/ CONTEXT> z") {
		t.Errorf("the owner reads %q, %q", turn.Prompt, turn.Context)
	}
	t.Run("a prompt that fills all there is stands alone", func(t *testing.T) {
		defer r.under(t)()
		long := strings.Repeat("a", wire.MaxPromptBytes-20)
		reply := r.say("", long, use)
		r.accept()
		if req := r.request(*reply.TurnID); req.Prompt != long || req.Context != nil || r.turn(*reply.TurnID).Context != "" {
			t.Errorf("prompt of %d bytes", len(req.Prompt))
		}
	})
	t.Run("the element never makes a prompt too large", func(t *testing.T) {
		defer r.under(t)()
		reply := r.say("", strings.Repeat("a", wire.MaxPromptBytes-300), use)
		r.accept()
		if req := r.request(*reply.TurnID); len(req.Prompt) > wire.MaxPromptBytes || !strings.HasPrefix(req.Prompt, "<context>") {
			t.Errorf("prompt of %d bytes", len(req.Prompt))
		}
	})
}

// TestSQ22_CG15_RoundsThatNoHistoryHasAreTold, however their turns were cancelled,
// and as long as no history has them.
func TestSQ22_CG15_RoundsThatNoHistoryHasAreTold(t *testing.T) {
	t.Parallel()
	cancels := map[string]func(r *rig, threadID, turnID string){
		"interrupt": func(r *rig, threadID, turnID string) { r.interrupt(threadID, turnID) },
		"cancel": func(r *rig, _, turnID string) {
			_, err := r.CancelTurn(r.ctx, ann, gateway.TurnRequest{TurnID: turnID})
			r.must(err)
		},
	}
	for name, cancel := range cancels {
		t.Run("SQ22: without a history, "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			first := r.say("", "one")
			cancel(r, first.ThreadID, *first.TurnID)
			second := r.say(first.ThreadID, "two")
			cancel(r, first.ThreadID, *second.TurnID)
			third := r.say(first.ThreadID, "three")
			r.accept()
			got := *r.request(*third.TurnID).Context
			want := "\n# Web chat context\n\nEarlier rounds of this thread, oldest first. You have no other record of them.\n" +
				"\nRUN_STATUS: cancelled\nUser: one\n\nRUN_STATUS: cancelled\nUser: two\n"
			if !strings.HasSuffix(got, want) || strings.Contains(got, "Incomplete rounds") || strings.Contains(got, "three") {
				t.Errorf("context %q", got)
			}
			if r.request(*third.TurnID).ContinueFrom != nil {
				t.Error("there is nothing to continue from")
			}
		})
		t.Run("CG15: with a history, "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			first := r.say("", "one")
			r.accept()
			r.end(*first.TurnID, completed())
			second := r.say(first.ThreadID, "two")
			cancel(r, first.ThreadID, *second.TurnID)
			third := r.say(first.ThreadID, "three")
			r.accept()
			got := *r.request(*third.TurnID).Context
			want := "\n# Incomplete rounds\n\nRounds of this thread that your history lacks, oldest first.\n" +
				"\nRUN_STATUS: cancelled\nUser: two\n"
			if !strings.HasSuffix(got, want) || strings.Contains(got, "Web chat context") || strings.Contains(got, "User: one") {
				t.Errorf("context %q", got)
			}
		})
	}
	t.Run("a round that the host took is in its history", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		threadID, turnID := r.streaming("one", "some text")
		r.interrupt(threadID, turnID)
		r.accept()
		r.end(turnID, completed())
		next := r.say(threadID, "two")
		if got := r.turn(*next.TurnID).Context; strings.Contains(got, "RUN_STATUS") {
			t.Errorf("context %q", got)
		}
	})
	t.Run("also if it told nothing before it was cancelled", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		first := r.say("", "one")
		r.must(r.host.Fetch(r.ctx, r.Service))
		r.interrupt(first.ThreadID, *first.TurnID)
		r.accept()
		r.end(*first.TurnID, completed())
		next := r.say(first.ThreadID, "two")
		if got := r.turn(*next.TurnID).Context; strings.Contains(got, "RUN_STATUS") {
			t.Errorf("context %q", got)
		}
	})
}

// TestCG80_RecalledTextIsInNoContext.
func TestCG80_RecalledTextIsInNoContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.say("", "one")
	queued := r.say(first.ThreadID, "canary")
	_, err := r.Recall(r.ctx, ann, gateway.RecallRequest{ThreadID: first.ThreadID, RevokesEventID: queued.EventID})
	r.must(err)
	r.interrupt(first.ThreadID, *first.TurnID)
	next := r.say(first.ThreadID, "two")
	got := r.turn(*next.TurnID).Context
	if strings.Contains(got, "canary") || !strings.Contains(got, "User: one") {
		t.Errorf("context %q", got)
	}
}

// TestContext_AnotherHostIsToldTheConversation: it has no history of the thread.
func TestContext_AnotherHostIsToldTheConversation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID, turnID := r.streaming("one", "first ", "answer")
	r.end(turnID, completed())
	r.routes.Use("host-2", "alpha")
	next := r.say(threadID, "two")
	got := r.turn(*next.TurnID).Context
	if !strings.HasSuffix(got, "\nRUN_STATUS: completed\nUser: one\nAssistant: first answer\n") {
		t.Errorf("context %q", got)
	}
}

// TestContext_IsBounded: the newest rounds are kept, whole characters, within
// MaxContextBytes.
func TestContext_IsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.assistant(ann, gateway.CreateAgentRequest{DisplayName: strings.Repeat("ü", 80), Instructions: strings.Repeat("é", gateway.MaxAgentInstructions/2)})
	threadID := ""
	for i := range 12 {
		reply := r.say(threadID, fmt.Sprintf("round %d %s", i, strings.Repeat("语", 5000)), func(q *gateway.SendRequest) {
			if threadID == "" {
				q.AgentID = a.ID
			}
		})
		threadID = reply.ThreadID
		r.interrupt(threadID, *reply.TurnID)
	}
	next := r.say(threadID, "last")
	r.accept()
	got := *r.request(*next.TurnID).Context
	if len(got) > wire.MaxContextBytes || !utf8.ValidString(got) || len(got) < wire.MaxContextBytes/2 {
		t.Fatalf("%d bytes, valid %v", len(got), utf8.ValidString(got))
	}
	for part, there := range map[string]bool{
		"User: round 11 ": true, "User: round 10 ": true, "User: round 0 ": false, "(Earlier rounds are left out.)": true,
		strings.Repeat("é", gateway.MaxAgentInstructions/2) + "\n": true,
	} {
		if strings.Contains(got, part) != there {
			t.Errorf("%.40q is there: %v", part, !there)
		}
	}
	if strings.Index(got, "round 10 ") > strings.Index(got, "round 11 ") {
		t.Error("the rounds are not in order")
	}
}
