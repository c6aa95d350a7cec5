package chat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

const publicURL = "https://chat.example/app"

// atHome gives the chat its own address.
func atHome(r *rig) { r.config = func(c *chat.Config) { c.PublicURL = publicURL } }

func TestAD1_ASuspendedOrgIsAnsweredInTheThread(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		atHome(r)
		r.respawn()
		r.entitle(gateway.EntitlementSuspended, new(int64))
		req := gateway.SendRequest{ClientEventID: id(), UserMessage: text("hello"), Model: "alpha"}
		reply, err := r.Send(r.ctx, ann, req)
		r.must(err)
		if reply.TurnID != nil || reply.ThreadID == "" || reply.Disposition != gateway.DispositionRefused || reply.Status != "" {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
		events := r.events(reply.ThreadID)
		t.Run("AD2: exactly the message, its rejection and the guidance", func(t *testing.T) {
			if len(events) != 3 || events[0].EventType != gateway.EventInputPrompt || events[0].ID != req.ClientEventID ||
				events[1].EventType != gateway.EventInputRejected || events[1].RevokesEventID != req.ClientEventID ||
				events[2].EventType != gateway.EventOutputError {
				t.Fatalf("events %s", asJSON(t, events))
			}
			for _, e := range events[1:] {
				if e.Error != gateway.CodeInsufficientCredits {
					t.Errorf("event %s", asJSON(t, e))
				}
			}
			for _, e := range events[:2] {
				if e.Content != nil || e.TurnID != "" {
					t.Errorf("event %s", asJSON(t, e))
				}
			}
		})
		t.Run("AD3: both inputs keep the text", func(t *testing.T) {
			for _, e := range events[:2] {
				if e.UserMessage == nil || e.UserMessage.Parts[0].Text != "hello" {
					t.Errorf("event %s", asJSON(t, e))
				}
			}
			if events[0].Error != "" {
				t.Error("the message was changed")
			}
		})
		t.Run("AD4: after the message come the rejection and the guidance", func(t *testing.T) {
			since := events[0].SeqID
			page, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: reply.ThreadID, SinceSeq: &since})
			r.must(err)
			if len(page.Events) != 2 || page.Events[0].ID != events[1].ID || page.Events[1].ID != events[2].ID {
				t.Fatalf("page %s", asJSON(t, page.Events))
			}
		})
		t.Run("AD5: nothing waits and nothing runs", func(t *testing.T) {
			th := r.thread(reply.ThreadID)
			queue, err := r.OrgQueue(r.ctx, ann)
			r.must(err)
			if th.Waiting != 0 || th.Turn != nil || len(queue.Queue) != 0 || len(r.openRuns()) != 0 {
				t.Fatalf("thread %s, queue %s", asJSON(t, th), asJSON(t, queue))
			}
			r.must(r.Sweep(r.ctx))
			if n := len(r.events(reply.ThreadID)); n != 3 {
				t.Fatalf("%d events", n)
			}
		})
		t.Run("AD6: the guidance links to the usage page of the site", func(t *testing.T) {
			if text := *events[2].Content; !strings.Contains(text, "("+publicURL+"/settings?tab=usage)") {
				t.Fatalf("guidance %q", text)
			}
		})
		t.Run("AD7: a retry that names the thread gets the same", func(t *testing.T) {
			again := req
			again.ThreadID = reply.ThreadID
			got, err := r.Send(r.ctx, ann, again)
			r.must(err)
			want := reply
			want.Replayed = true
			if asJSON(t, got) != asJSON(t, want) || len(r.events(reply.ThreadID)) != 3 {
				t.Fatalf("reply %s", asJSON(t, got))
			}
		})
		t.Run("AD8: another send is refused for itself, on the site it came through", func(t *testing.T) {
			actor := ann
			actor.Origin = "https://other.example"
			next, err := r.Send(r.ctx, actor, gateway.SendRequest{ClientEventID: id(), UserMessage: text("again")})
			r.must(err)
			log := r.events(next.ThreadID)
			if next.ThreadID == reply.ThreadID || next.TurnID != nil || len(log) != 3 {
				t.Fatalf("reply %s", asJSON(t, next))
			}
			if text := *log[2].Content; !strings.Contains(text, "https://other.example/app/settings?tab=usage") || strings.Contains(text, "chat.example") {
				t.Fatalf("guidance %q", text)
			}
		})
		t.Run("SQ14: another member's private assistant is told of first", func(t *testing.T) {
			private := gateway.AgentRow{ID: id(), OrgID: ann.OrgID, OwnerID: bob.AccountID, Name: "Mine", Private: true}
			r.must(r.sql.Chat().Update(r.ctx, func(tx gateway.ChatTx) error { return tx.InsertAgent(r.ctx, private) }))
			for agent, code := range map[string]wire.Code{private.ID: wire.CodeForbidden, id(): wire.CodeNotFound} {
				_, err := r.Send(r.ctx, ann, gateway.SendRequest{AgentID: agent, ClientEventID: id(), UserMessage: text("x")})
				wantCode(t, err, code)
			}
		})
	})
}

func TestAdmission_CreditsCountOnMeteredRoutesAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.entitle(gateway.EntitlementActive, new(int64))
	if reply := r.say("", "own key"); reply.Disposition != gateway.DispositionStarted {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	r.routes.Change(func(q *gateway.Route) { q.Billing = gateway.BillingMetered })
	if reply := r.say("", "the org's key"); reply.Disposition != gateway.DispositionRefused {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	credits := int64(1)
	for _, left := range []*int64{&credits, nil} {
		r.entitle(gateway.EntitlementActive, left)
		if reply := r.say("", "again"); reply.Disposition != gateway.DispositionStarted {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
	}
}

func TestAdmission_TheTurnsOfADayAreCounted(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][2]gateway.Limits{
		"of the org": {{DailyTurns: 2}, {}}, "of a member": {{}, {DailyTurns: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.limit(limits[0], limits[1])
			r.say("", "one")
			r.say("", "two")
			three := r.say("", "three")
			if three.Disposition != gateway.DispositionRefused {
				t.Fatalf("reply %s", asJSON(t, three))
			}
			for _, e := range r.events(three.ThreadID)[1:] {
				if e.Error != gateway.CodeQuotaExhausted {
					t.Errorf("event %s", asJSON(t, e))
				}
			}
			r.tick(21 * time.Hour) // past midnight
			if next := r.say("", "four"); next.Disposition != gateway.DispositionStarted {
				t.Fatalf("reply %s", asJSON(t, next))
			}
		})
	}
}

// TestAdmission_IsAskedAgainAtTheDrain: what waits is refused in its thread when
// its turn comes, and what waits behind it is looked at too.
func TestAdmission_IsAskedAgainAtTheDrain(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID := r.streaming("one", "text")
		queued := r.say(th, "two")
		r.say(th, "three")
		r.entitle(gateway.EntitlementSuspended, nil)
		r.end(turnID, gatewaytest.Completed())
		r.until("both are refused", func() bool { return r.thread(th).Waiting == 0 })
		rejected := r.eventsOf(th, gateway.EventInputRejected)
		if len(rejected) != 2 || rejected[0].RevokesEventID != queued.EventID || rejected[0].UserMessage.Parts[0].Text != "two" {
			t.Fatalf("events %s", asJSON(t, rejected))
		}
		if n := len(r.eventsOf(th, gateway.EventOutputError)); n != 2 {
			t.Fatalf("%d answers", n)
		}
		if err := r.recall(th, queued.EventID); wire.CodeOf(err) != gateway.CodeNotRecallable {
			t.Fatalf("recall %v", err)
		}
		again, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: th, ClientEventID: queued.EventID})
		r.must(err)
		if again.Disposition != gateway.DispositionQueued || !again.Replayed {
			t.Fatalf("reply %s", asJSON(t, again))
		}
	})
}

// TestAD6_AMessageRefusedLaterLinksToTheSiteItCameThrough: also after a steer that
// no turn took has gone back into the queue, and after a restart.
func TestAD6_AMessageRefusedLaterLinksToTheSiteItCameThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t, atHome)
	th, turnID := r.streaming("one", "text")
	actor := ann
	actor.Origin = "https://other.example"
	for _, req := range []gateway.SendRequest{message(th, "two"), message(th, "three")} {
		if req.UserMessage.Parts[0].Text == "three" {
			req.Mode = gateway.ModeSteer
		}
		_, err := r.Send(r.ctx, actor, req)
		r.must(err)
	}
	r.restart()
	r.entitle(gateway.EntitlementSuspended, nil)
	r.end(turnID, gatewaytest.Completed())
	r.until("both are refused", func() bool { return r.thread(th).Waiting == 0 })
	answers := r.eventsOf(th, gateway.EventOutputError)
	for _, e := range answers {
		if !strings.Contains(*e.Content, "https://other.example/app/settings?tab=usage") {
			t.Errorf("guidance %q", *e.Content)
		}
	}
	if len(answers) != 2 {
		t.Errorf("%d answers", len(answers))
	}
}

// TestAdmission_ARefusedReplacementLeavesTheWaitingMessage: what was to be changed
// goes on waiting, and a refused interrupt stops nothing.
func TestAdmission_ARefusedReplacementLeavesTheWaitingMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("one", "text")
	waiting := r.say(th, "two")
	r.entitle(gateway.EntitlementSuspended, nil)
	for _, change := range []func(*gateway.SendRequest){
		mode(gateway.ModeInterrupt),
		func(q *gateway.SendRequest) { q.RevokesEventID = waiting.EventID },
	} {
		if reply := r.say(th, "refused", change); reply.Disposition != gateway.DispositionRefused {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
	}
	if got := r.thread(th); got.Waiting != 1 || got.Turn == nil || got.Turn.TurnID != turnID {
		t.Fatalf("thread %s", asJSON(t, got))
	}
	_, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: th, ClientEventID: id(), UserMessage: text("x"), RevokesEventID: id()})
	wantCode(t, err, gateway.CodeNotRecallable)
}

func TestAdmission_AnOrgWithoutEntitlementIsAFault(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stranger := gateway.Actor{AccountID: "acc-x", OrgID: "org-unknown"}
	_, err := r.Send(r.ctx, stranger, gateway.SendRequest{ClientEventID: id(), UserMessage: text("x")})
	wantCode(t, err, wire.CodeInternal)
}
