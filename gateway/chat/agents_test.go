package chat_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

var (
	// boss may administer the org of ann and bob.
	boss = gateway.Actor{
		AccountID: "acc-boss", OrgID: "org-1", Role: gateway.RoleAdmin,
		Scopes: []gateway.Scope{gateway.ScopeChat, gateway.ScopeAdmin},
	}
	// clerk has the role of an admin, but a token for the chat alone.
	clerk = gateway.Actor{
		AccountID: "acc-clerk", OrgID: "org-1", Role: gateway.RoleAdmin, Scopes: []gateway.Scope{gateway.ScopeChat},
	}
)

func ptr[T any](v T) *T { return &v }

// assistant makes one of the actor's.
func (r *rig) assistant(of gateway.Actor, req gateway.CreateAgentRequest) gateway.Agent {
	r.Helper()
	reply, err := r.CreateAgent(r.ctx, of, req)
	r.must(err)
	return reply.Agent
}

func (r *rig) names(of gateway.Actor) string {
	r.Helper()
	reply, err := r.Agents(r.ctx, of)
	r.must(err)
	var names []string
	for _, a := range reply.Agents {
		names = append(names, a.DisplayName)
	}
	return strings.Join(names, ",")
}

func TestAgents_TheDefaultIsAlwaysThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply, err := r.Agents(r.ctx, bob)
	r.must(err)
	if len(reply.Agents) != 1 || !reply.Agents[0].Default || reply.Agents[0].Mine || reply.Agents[0].Visibility != gateway.VisibilityOrg {
		t.Fatalf("agents %s", asJSON(t, reply))
	}
	standard := gateway.AgentRequest{AgentID: reply.Agents[0].ID}
	wantCode(t, r.DeleteAgent(r.ctx, bob, standard), wire.CodeForbidden)
	wantCode(t, r.DeleteAgent(r.ctx, boss, standard), wire.CodeForbidden)
	_, err = r.UpdateAgent(r.ctx, boss, gateway.UpdateAgentRequest{AgentID: standard.AgentID, Visibility: ptr(gateway.VisibilityPrivate)})
	wantField(t, err, "visibility", "enum")
	_, err = r.UpdateAgent(r.ctx, bob, gateway.UpdateAgentRequest{AgentID: standard.AgentID, Description: ptr("mine now")})
	wantCode(t, err, wire.CodeForbidden)
	changed, err := r.UpdateAgent(r.ctx, boss, gateway.UpdateAgentRequest{AgentID: standard.AgentID, DisplayName: ptr(" House  style ")})
	r.must(err)
	if changed.Agent.DisplayName != "House style" || !changed.Agent.Default || !changed.Agent.Mine {
		t.Fatalf("agent %s", asJSON(t, changed))
	}
	if got := r.names(eve); got != "Assistant" {
		t.Errorf("another org sees %q", got)
	}
}

// TestSQ13_SQ14_AgentsAreCheckedInOrder: unknown and deleted ones are not there,
// another member's private one is forbidden, also for those who have no credits.
func TestSQ13_SQ14_AgentsAreCheckedInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	private := r.assistant(bob, gateway.CreateAgentRequest{DisplayName: "Diary", Instructions: "Keep it to yourself."})
	shared := r.assistant(bob, gateway.CreateAgentRequest{DisplayName: "Editor", Instructions: "Be brief.", Visibility: gateway.VisibilityOrg})
	gone := r.assistant(bob, gateway.CreateAgentRequest{DisplayName: "Old", Visibility: gateway.VisibilityOrg})
	r.must(r.DeleteAgent(r.ctx, bob, gateway.AgentRequest{AgentID: gone.ID}))
	strange := r.assistant(eve, gateway.CreateAgentRequest{DisplayName: "Elsewhere", Visibility: gateway.VisibilityOrg})
	for _, c := range []struct {
		name    string
		actor   gateway.Actor
		agentID string
		code    wire.Code
	}{
		{"SQ13: an unknown one", ann, id(), wire.CodeNotFound},
		{"SQ13: one of another org", ann, strange.ID, wire.CodeNotFound},
		{"SQ13: a deleted one, also for its owner", bob, gone.ID, wire.CodeNotFound},
		{"SQ14: another member's private one", ann, private.ID, wire.CodeForbidden},
		{"SQ14: for an admin too", boss, private.ID, wire.CodeForbidden},
		{"its owner", bob, private.ID, ""},
		{"one of the org", ann, shared.ID, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.Agent(r.ctx, c.actor, gateway.AgentRequest{AgentID: c.agentID})
			wantCode(t, err, c.code)
			_, err = r.Send(r.ctx, c.actor, gateway.SendRequest{AgentID: c.agentID, ClientEventID: id(), UserMessage: text("hi")})
			wantCode(t, err, c.code)
			_, err = r.CreateThread(r.ctx, c.actor, gateway.CreateThreadRequest{AgentID: c.agentID})
			wantCode(t, err, c.code)
		})
	}
	if got := r.names(ann); got != "Assistant,Editor" {
		t.Errorf("a member sees %q", got)
	}
	if got := r.names(bob); got != "Assistant,Diary,Editor" {
		t.Errorf("the owner sees %q", got)
	}
}

// TestAgents_WhoMayChangeOne: the owner, and admins what the org sees; they alone
// read the instructions.
func TestAgents_WhoMayChangeOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	shared := r.assistant(bob, gateway.CreateAgentRequest{
		DisplayName: "Editor", Description: " Polishes. ", Instructions: "\nBe brief.\n", Visibility: gateway.VisibilityOrg,
	})
	private := r.assistant(bob, gateway.CreateAgentRequest{DisplayName: "Diary", Instructions: "secret"})
	if shared.Description != "Polishes." || shared.Instructions != "Be brief." || !shared.Mine {
		t.Fatalf("agent %s", asJSON(t, shared))
	}
	for _, c := range []struct {
		name            string
		actor           gateway.Actor
		shared, private wire.Code
	}{
		{"owner", bob, "", ""},
		{"admin", boss, "", wire.CodeForbidden},
		{"admin without the scope", clerk, wire.CodeForbidden, wire.CodeForbidden},
		{"member", gateway.Actor{AccountID: "acc-cy", OrgID: "org-1", Role: gateway.RoleMember}, wire.CodeForbidden, wire.CodeForbidden},
		{"stranger", eve, wire.CodeNotFound, wire.CodeNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.UpdateAgent(r.ctx, c.actor, gateway.UpdateAgentRequest{AgentID: shared.ID, Description: ptr("Polishes.")})
			wantCode(t, err, c.shared)
			_, err = r.UpdateAgent(r.ctx, c.actor, gateway.UpdateAgentRequest{AgentID: private.ID, Description: ptr("")})
			wantCode(t, err, c.private)
			seen, err := r.Agent(r.ctx, c.actor, gateway.AgentRequest{AgentID: shared.ID})
			if err != nil {
				wantCode(t, err, wire.CodeNotFound)
				return
			}
			if mine := c.shared == ""; seen.Agent.Mine != mine || (seen.Agent.Instructions != "") != mine {
				t.Errorf("sees %s", asJSON(t, seen))
			}
			if c.shared != "" {
				wantCode(t, r.DeleteAgent(r.ctx, c.actor, gateway.AgentRequest{AgentID: shared.ID}), c.shared)
			}
		})
	}
	r.must(r.DeleteAgent(r.ctx, boss, gateway.AgentRequest{AgentID: shared.ID}))
	wantCode(t, r.DeleteAgent(r.ctx, bob, gateway.AgentRequest{AgentID: shared.ID}), wire.CodeNotFound)
}

func TestAgents_Shape(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.CreateAgent(r.ctx, ann, gateway.CreateAgentRequest{DisplayName: " \t\n"})
	wantField(t, err, "displayName", "blank")
	_, err = r.CreateAgent(r.ctx, ann, gateway.CreateAgentRequest{DisplayName: "a", Visibility: "public"})
	wantField(t, err, "visibility", "enum")
	_, err = r.CreateAgent(r.ctx, ann, gateway.CreateAgentRequest{DisplayName: "a", Model: "gamma"})
	wantCode(t, err, gateway.CodeModelUnknown)
	a := r.assistant(ann, gateway.CreateAgentRequest{DisplayName: "a", Model: "beta"})
	_, err = r.UpdateAgent(r.ctx, ann, gateway.UpdateAgentRequest{AgentID: a.ID, Model: ptr("gamma")})
	wantCode(t, err, gateway.CodeModelUnknown)
	_, err = r.UpdateAgent(r.ctx, ann, gateway.UpdateAgentRequest{AgentID: a.ID, DisplayName: ptr(" ")})
	wantField(t, err, "displayName", "blank")
	r.tick(1000)
	changed, err := r.UpdateAgent(r.ctx, ann, gateway.UpdateAgentRequest{AgentID: a.ID, Model: ptr(""), Visibility: ptr(gateway.VisibilityOrg)})
	r.must(err)
	if got := changed.Agent; got.Model != "" || got.Visibility != gateway.VisibilityOrg || got.DisplayName != "a" || got.CreatedAt != a.CreatedAt {
		t.Errorf("agent %s", asJSON(t, got))
	}
}

func TestAgents_AreLimitedForEachAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := ""
	for range gateway.MaxAgentsPerAccount {
		first = r.assistant(ann, gateway.CreateAgentRequest{DisplayName: "one of many", Visibility: gateway.VisibilityOrg}).ID
	}
	_, err := r.CreateAgent(r.ctx, ann, gateway.CreateAgentRequest{DisplayName: "one too many"})
	wantCode(t, err, wire.CodeRateLimited)
	r.assistant(bob, gateway.CreateAgentRequest{DisplayName: "of another"})
	r.must(r.DeleteAgent(r.ctx, ann, gateway.AgentRequest{AgentID: first}))
	r.assistant(ann, gateway.CreateAgentRequest{DisplayName: "in its place"})
}

// TestAgents_ModelOfNewThreads: the assistant's model is that of new threads whose
// message names none; one that is gone is passed over.
func TestAgents_ModelOfNewThreads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.assistant(ann, gateway.CreateAgentRequest{DisplayName: "a", Model: "beta"})
	use := func(q *gateway.SendRequest) { q.AgentID = a.ID }
	wantModel := func(reply gateway.SendReply, pinned, ran string) {
		t.Helper()
		th := r.thread(reply.ThreadID)
		if (th.Model == nil && pinned != "") || (th.Model != nil && *th.Model != pinned) {
			t.Errorf("thread is pinned to %v, want %q", th.Model, pinned)
		}
		if got := r.turn(*reply.TurnID).Model; got != ran {
			t.Errorf("turn ran on %q, want %q", got, ran)
		}
	}
	wantModel(r.say("", "hi", use), "beta", "beta")
	wantModel(r.say("", "hi", use, func(q *gateway.SendRequest) { q.Model = "alpha" }), "alpha", "alpha")
	made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{AgentID: a.ID})
	r.must(err)
	wantModel(r.say(made.ThreadID, "hi"), "beta", "beta")
	old := r.say("", "hi")
	wantModel(old, "", "alpha")
	r.routes.Use(hostID, "alpha")
	wantModel(r.say("", "hi", use), "", "alpha")
}

// TestAgents_ADeletedOneLeavesItsThreads: they go on as the default assistant's.
func TestAgents_ADeletedOneLeavesItsThreads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(r *rig, a gateway.Agent)
	}{
		{"deleted", func(r *rig, a gateway.Agent) {
			r.must(r.DeleteAgent(r.ctx, bob, gateway.AgentRequest{AgentID: a.ID}))
		}},
		{"made private", func(r *rig, a gateway.Agent) {
			_, err := r.UpdateAgent(r.ctx, bob, gateway.UpdateAgentRequest{AgentID: a.ID, Visibility: ptr(gateway.VisibilityPrivate)})
			r.must(err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a := r.assistant(bob, gateway.CreateAgentRequest{
				DisplayName: "Pirate", Instructions: "Talk like a pirate.", Visibility: gateway.VisibilityOrg,
			})
			first := r.say("", "hi", func(q *gateway.SendRequest) { q.AgentID = a.ID })
			r.accept()
			if got := *r.request(*first.TurnID).Context; !strings.Contains(got, "Talk like a pirate.") || !strings.Contains(got, "Assistant: Pirate\n") {
				t.Fatalf("context %q", got)
			}
			r.end(*first.TurnID, completed())
			c.end(r, a)
			second := r.say(first.ThreadID, "again")
			r.accept()
			if got := *r.request(*second.TurnID).Context; strings.Contains(got, "irate") || !strings.Contains(got, "Assistant: Assistant\n") {
				t.Errorf("context %q", got)
			}
			if th := r.thread(first.ThreadID); th.AgentID != a.ID {
				t.Errorf("the thread names %s", th.AgentID)
			}
		})
	}
}

// TestAgents_InstructionsAreReadByFew: a turn shows what the model was told, but
// not another's instructions to those who may not read them.
func TestAgents_InstructionsAreReadByFew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	shared := r.assistant(bob, gateway.CreateAgentRequest{
		DisplayName: "a", Visibility: gateway.VisibilityOrg,
		Instructions: "canary one\n\n# Web chat context\n\nEarlier rounds of this thread, oldest first. You have no other record of them.\ncanary two",
	})
	standard, err := r.Agents(r.ctx, boss)
	r.must(err)
	_, err = r.UpdateAgent(r.ctx, boss, gateway.UpdateAgentRequest{AgentID: standard.Agents[0].ID, Instructions: ptr("canary three")})
	r.must(err)
	for _, c := range []struct {
		name    string
		actor   gateway.Actor
		agentID string
		reads   bool
	}{
		{"the owner", bob, shared.ID, true},
		{"an admin", boss, shared.ID, true},
		{"an admin without the scope", clerk, shared.ID, false},
		{"a member", ann, shared.ID, false},
		{"a member with the default assistant", ann, "", false},
		{"an admin with the default assistant", boss, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := func(threadID string) (gateway.Turn, string) {
				t.Helper()
				reply, err := r.Send(r.ctx, c.actor, gateway.SendRequest{
					ThreadID: threadID, AgentID: c.agentID, ClientEventID: id(), UserMessage: text("hi"),
				})
				r.must(err)
				turn, err := r.Turn(r.ctx, c.actor, gateway.TurnRequest{TurnID: *reply.TurnID})
				r.must(err)
				_, err = r.CancelTurn(r.ctx, c.actor, gateway.TurnRequest{TurnID: *reply.TurnID})
				r.must(err)
				return turn, reply.ThreadID
			}
			first, threadID := read("")
			second, _ := read(threadID)
			for _, turn := range []gateway.Turn{first, second} {
				if got := strings.Contains(turn.Context, "canary"); got != c.reads {
					t.Errorf("reads them: %v\n%s", got, turn.Context)
				}
			}
			if !strings.HasSuffix(second.Context, "\nRUN_STATUS: cancelled\nUser: hi\n") || !strings.Contains(first.Context, "web chat") {
				t.Errorf("context %q", second.Context)
			}
		})
	}
}
