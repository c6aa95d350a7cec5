package httpd_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/accounts"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

// sendTo is the address of a send into a thread, "" for a new one.
func sendTo(threadID string) string {
	if threadID == "" {
		return "/messages"
	}
	return "/threads/" + threadID + "/messages"
}

func sending(clientEventID, text string) fields {
	return fields{"clientEventId": clientEventID, "userMessage": message(text)}
}

func TestSQ12_WithoutACredentialNothingElseIsLookedAt(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	p := b.program(t, "")
	for name, header := range map[string][]string{
		"no token": nil, "forged": {"Authorization", "Bearer fl_forged"}, "another scheme": {"Authorization", "Basic eA=="},
	} {
		t.Run(name, func(t *testing.T) {
			p := &program{t: t, b: b, doc: p.doc, http: p.http}
			body := sending(newID(), "hi")
			body["agentId"] = newID()
			refused(t, p.call("POST", "/messages", body, header...), 401, wire.CodeUnauthorized)
			refused(t, p.call("POST", "/messages", "{", header...), 401, wire.CodeUnauthorized)
			for pattern, item := range p.doc.Paths {
				for method := range item {
					switch pattern {
					case "/openapi.json", "/hosts/join", "/hosts/challenge": // for anybody
						continue
					}
					path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(pattern, newID())
					refused(t, p.call(strings.ToUpper(method), path, nil, header...), 401, wire.CodeUnauthorized)
				}
			}
		})
	}
}

func TestSQ13_SQ14_AssistantsAreCheckedBeforeTheEntitlement(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	ada := p.other(t, adminEmail)
	private := want[struct{ Agent gateway.Agent }](t, ada.call("POST", "/agents", fields{"displayName": "Secret"}), 201).Agent
	p.b.entitle(t, gateway.Entitlement{Status: gateway.EntitlementSuspended})
	with := func(agentID string) fields {
		body := sending(newID(), "hi")
		body["agentId"] = agentID
		return body
	}
	t.Run("SQ13: an unknown assistant", func(t *testing.T) {
		refused(t, p.call("POST", "/messages", with(newID())), 404, wire.CodeNotFound)
		refused(t, p.get("/agents/"+newID()), 404, wire.CodeNotFound)
	})
	t.Run("SQ14: another member's private one", func(t *testing.T) {
		refused(t, p.call("POST", "/messages", with(private.ID)), 403, wire.CodeForbidden)
		refused(t, p.get("/agents/"+private.ID), 403, wire.CodeForbidden)
	})
	if list := want[gateway.ListReply](t, p.get("/threads"), 200); len(list.Threads) > 0 {
		t.Errorf("refused sends left %v", list.Threads)
	}
}

// entitle changes what the bench's org may spend.
func (b *bench) entitle(t *testing.T, e gateway.Entitlement) {
	t.Helper()
	acc, err := b.accounts.UserByEmail(t.Context(), accounts.Operator(), memberEmail)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.accounts.SetEntitlement(t.Context(), accounts.Operator(), acc.OrgID, e); err != nil {
		t.Fatal(err)
	}
}

func TestAD1_AD8_ARefusalIsACreatedMessageWithItsReasonInTheLog(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	none := int64(0)
	p.b.entitle(t, gateway.Entitlement{Status: gateway.EntitlementSuspended, Credits: &none})
	first := sending(newID(), "hello")
	reply := want[gateway.SendReply](t, p.call("POST", "/messages", first), 201)
	if reply.TurnID != nil || reply.Disposition != gateway.DispositionRefused || reply.ThreadID == "" {
		t.Fatalf("answered %+v", reply)
	}
	log := p.events(reply.ThreadID)
	if len(log) != 3 || log[0].ID != first["clientEventId"] || log[1].EventType != "input.rejected" ||
		log[1].RevokesEventID != log[0].ID || log[2].EventType != "output.error" || log[2].Error != "insufficient_credits" {
		t.Fatalf("log %+v", log)
	}
	t.Run("AD4: the events after the message", func(t *testing.T) {
		page := want[struct{ Events []loggedEvent }](t, p.get("/threads/"+reply.ThreadID+"/events?sinceSeq="+itoa(log[0].SeqID)), 200)
		if len(page.Events) != 2 || page.Events[0].ID != log[1].ID || page.Events[1].ID != log[2].ID {
			t.Errorf("got %+v", page.Events)
		}
	})
	t.Run("AD7: the same again, naming the thread", func(t *testing.T) {
		again := want[gateway.SendReply](t, p.call("POST", sendTo(reply.ThreadID), first), 201)
		if !again.Replayed {
			t.Errorf("answered %+v", again)
		}
		if again.Replayed = false; again != reply || len(p.events(reply.ThreadID)) != 3 {
			t.Errorf("answered %+v, first %+v", again, reply)
		}
	})
	t.Run("AD8: another message", func(t *testing.T) {
		other := p.say("", "again")
		if other.ThreadID == reply.ThreadID || other.Disposition != gateway.DispositionRefused || len(p.events(other.ThreadID)) != 3 {
			t.Errorf("answered %+v", other)
		}
	})
}

// spent is a chat whose org spent its last credits between look and commit.
type spent struct{ httpd.APIChat }

func TestAD29_CreditsThatEndWhileTheMessageIsTakenAre402(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{api: func(c *httpd.APIConfig) { c.Chat = spent{c.Chat} }})
	refused(t, p.call("POST", "/messages", sending(newID(), "hi")), 402, gateway.CodeInsufficientCredits)
}

func TestSQ21_AnInterruptsIDIsNoMessagesID(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	started := p.say("", "hello")
	p.b.move(t)
	id := newID()
	path := "/turns/" + *started.TurnID + "/interrupt"
	stopped := want[gateway.SendReply](t, p.call("POST", path, fields{"clientEventId": id}), 201)
	if stopped.TurnID != nil || stopped.Disposition != gateway.DispositionInterrupted || stopped.ThreadID != started.ThreadID {
		t.Errorf("interrupt answered %+v", stopped)
	}
	refused(t, p.call("POST", sendTo(started.ThreadID), sending(id, "hi")), 409, gateway.CodeClientEventIDInUse)
	t.Run("SQ19: the same interrupt again, and another of the same turn", func(t *testing.T) {
		again := want[gateway.SendReply](t, p.call("POST", path, fields{"clientEventId": id}), 201)
		want[gateway.SendReply](t, p.call("POST", path, fields{"clientEventId": newID()}), 201)
		interrupts := 0
		for _, e := range p.events(started.ThreadID) {
			if e.EventType == "control.interrupt" {
				interrupts++
			}
		}
		if !again.Replayed || interrupts != 1 {
			t.Errorf("%d interrupts in the log, replay %+v", interrupts, again)
		}
	})
}

func TestSQ20_ACancelledTurnCannotBeInterrupted(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	started := p.say("", "hello")
	p.b.move(t)
	want[gateway.SendReply](t, p.call("POST", "/turns/"+*started.TurnID+"/cancel", nil), 200)
	turn := want[struct{ Turn gateway.Turn }](t, p.get("/turns/"+*started.TurnID), 200).Turn
	if turn.Status != gateway.TurnCancelled {
		t.Fatalf("status %s", turn.Status)
	}
	refused(t, p.call("POST", "/turns/"+*started.TurnID+"/interrupt", fields{"clientEventId": newID()}), 400, gateway.CodeTurnNotActive)
	for _, e := range p.events(started.ThreadID) {
		if e.EventType == "control.interrupt" {
			t.Error("the log has an interrupt")
		}
	}
}

func TestSQ49_AnotherAccountsIDIs409AndLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	id := newID()
	want[gateway.SendReply](t, p.call("POST", "/messages", sending(id, "mine")), 201)
	for name, other := range map[string]*program{"a peer": p.other(t, adminEmail), "another org": p.stranger(t)} {
		t.Run(name, func(t *testing.T) {
			other := &program{t: t, b: p.b, token: other.token, doc: other.doc, http: other.http}
			thread := want[gateway.CreateThreadReply](t, other.call("POST", "/threads", fields{}), 201).ThreadID
			refused(t, other.call("POST", sendTo(thread), sending(id, "theirs")), 409, gateway.CodeClientEventIDInUse)
			if log := other.events(thread); len(log) != 0 {
				t.Errorf("left %+v", log)
			}
			if next := other.say(thread, "mine"); next.Disposition != gateway.DispositionStarted {
				t.Errorf("the next send is answered %+v", next)
			}
		})
	}
}

func TestSQ50_SQ51_Recall(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	started := p.say("", "hello")
	queued := p.say(started.ThreadID, "later")
	recall := func(id string) reply {
		return p.call("POST", "/threads/"+started.ThreadID+"/recall", fields{"revokesEventId": id})
	}
	for range 2 {
		if got := want[gateway.SendReply](t, recall(queued.EventID), 201); got.TurnID != nil || got.Disposition != gateway.DispositionRecalled {
			t.Errorf("SQ50: answered %+v", got)
		}
	}
	t.Run("SQ51: what a turn took", func(t *testing.T) {
		for _, e := range p.events(started.ThreadID)[:2] {
			refused(t, recall(e.ID), 400, gateway.CodeNotRecallable)
		}
	})
}

func TestSQ54_ARecallThroughAnotherThreadChangesNothing(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	x := p.say("", "hello")
	queued := p.say(x.ThreadID, "later")
	y := p.say("", "elsewhere")
	refused(t, p.call("POST", "/threads/"+y.ThreadID+"/recall", fields{"revokesEventId": queued.EventID}), 400, gateway.CodeNotRecallable)
	want[gateway.SendReply](t, p.call("POST", "/turns/"+*x.TurnID+"/interrupt", fields{"clientEventId": newID()}), 201)
	for _, e := range p.wait(x.ThreadID, func(e loggedEvent) bool { return e.RevokesEventID == queued.EventID }) {
		if e.RevokesEventID == queued.EventID && (e.TurnID == "" || e.Content != nil || e.UserMessage.Parts[0].Text != "later") {
			t.Errorf("it became %+v", e)
		}
	}
}

// wait reads a thread's log until an event is in it.
func (p *program) wait(threadID string, is func(loggedEvent) bool) []loggedEvent {
	p.t.Helper()
	for range 10 {
		log := p.events(threadID)
		last := int64(0)
		for _, e := range log {
			if last = e.SeqID; is(e) {
				return log
			}
		}
		want[any](p.t, p.get("/threads/"+threadID+"/events?wait=5&sinceSeq="+itoa(last)), 200)
	}
	p.t.Fatal("the event did not come")
	return nil
}

func TestSQ62_AReplayMayNameTheThreadThatTheFirstMade(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	p.b.models.Use("host-1") // no host serves any model
	body := sending(newID(), "hello")
	first := want[gateway.SendReply](t, p.call("POST", "/messages", body), 201)
	if first.Status != gateway.TurnFailed || first.TurnID == nil {
		t.Fatalf("SQ60: answered %+v", first)
	}
	again := want[gateway.SendReply](t, p.call("POST", sendTo(first.ThreadID), body), 201)
	if again.ThreadID != first.ThreadID || *again.TurnID != *first.TurnID || again.Status != first.Status || !again.Replayed {
		t.Errorf("answered %+v, first %+v", again, first)
	}
	turn := want[struct{ Turn gateway.Turn }](t, p.get("/turns/"+*first.TurnID), 200).Turn
	if turn.Error != wire.CodeNoHost || turn.Status != gateway.TurnFailed {
		t.Errorf("SQ60: the turn is %+v", turn)
	}
}

func TestSQ70_WhatIsNotYoursIsAnsweredAsIfItDidNotExist(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	peer, stranger := p.other(t, adminEmail), p.stranger(t)
	hers, theirs := peer.say("", "hello"), stranger.say("", "hello")
	type try struct{ method, path string }
	about := func(threadID, turnID string) map[try]any {
		thread, turn := "/threads/"+threadID, "/turns/"+turnID
		return map[try]any{
			{"POST", thread + "/messages"}: sending(newID(), "hi"),
			{"POST", thread + "/recall"}:   fields{"revokesEventId": hers.EventID},
			{"POST", thread + "/steer"}:    fields{"eventId": hers.EventID},
			{"GET", thread}:                nil,
			{"GET", thread + "/events"}:    nil,
			{"PATCH", thread}:              fields{"title": "mine"},
			{"PUT", thread + "/model"}:     fields{"model": "alpha"},
			{"PUT", thread + "/read"}:      fields{"seq": 1},
			{"DELETE", thread}:             nil,
			{"GET", turn}:                  nil,
			{"GET", turn + "?wait=1"}:      nil,
			{"POST", turn + "/interrupt"}:  fields{"clientEventId": newID()},
			{"POST", turn + "/cancel"}:     nil,
		}
	}
	nobodys := about(noThread, noThread)
	plain := p.get("/threads/" + noThread).body
	for what, tries := range map[string]map[try]any{
		"nobody's": nobodys, "a peer's": about(hers.ThreadID, *hers.TurnID), "another org's": about(theirs.ThreadID, *theirs.TurnID),
	} {
		for try, body := range tries {
			r := p.call(try.method, try.path, body)
			if refused(t, r, 404, wire.CodeNotFound); r.body != plain {
				t.Errorf("%s: %s %s: %q, want %q", what, try.method, try.path, r.body, plain)
			}
		}
	}
	if log := peer.events(hers.ThreadID); len(log) != 2 {
		t.Errorf("her log is now %+v", log)
	}
}

func TestSQ58_TheOrgQueueNamesThreadsOfTheAskerAlone(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{limits: chat.Limits{OrgConcurrentTurns: 1}})
	peer := p.other(t, adminEmail)
	running, waiting := p.say("", "hello"), p.say("", "world")
	if running.Disposition != gateway.DispositionStarted || waiting.Disposition != gateway.DispositionOrgQueued || waiting.TurnID == nil || waiting.Status != gateway.TurnQueued {
		t.Fatalf("SQ56: answered %+v and %+v", running, waiting)
	}
	behind := p.say(waiting.ThreadID, "behind")
	if behind.TurnID != nil || behind.Disposition != gateway.DispositionQueued {
		t.Errorf("behind the queued turn: %+v", behind)
	}
	mine := want[gateway.OrgQueueReply](t, p.get("/queue"), 200).Queue
	theirs := want[gateway.OrgQueueReply](t, peer.get("/queue"), 200).Queue
	if len(mine) != 1 || mine[0].TurnID != *waiting.TurnID || mine[0].ThreadID != waiting.ThreadID {
		t.Errorf("the asker sees %+v", mine)
	}
	if len(theirs) != 1 || theirs[0].TurnID != *waiting.TurnID || theirs[0].ThreadID != "" {
		t.Errorf("a peer sees %+v", theirs)
	}
	if other := want[gateway.OrgQueueReply](t, p.stranger(t).get("/queue"), 200).Queue; len(other) != 0 {
		t.Errorf("another org sees %+v", other)
	}
	want[gateway.SendReply](t, p.call("POST", "/threads/"+waiting.ThreadID+"/recall", fields{"revokesEventId": behind.EventID}), 201)
}

func TestAPI_SteerAndInterruptModes(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	started := p.say("", "hello")
	p.b.move(t)
	if got := p.say(started.ThreadID, "shorter", fields{"mode": "steer", "now": true}); got.Disposition != gateway.DispositionSteering || got.TurnID != nil {
		t.Errorf("a steer is answered %+v", got)
	}
	queued := p.say(started.ThreadID, "later", fields{"mode": "queue"})
	steered := want[gateway.SendReply](t, p.call("POST", "/threads/"+started.ThreadID+"/steer", fields{"eventId": queued.EventID}), http.StatusOK)
	if steered.Disposition != gateway.DispositionSteering {
		t.Errorf("a waiting message becomes %+v", steered)
	}
	if got := p.say(started.ThreadID, "stop", fields{"mode": "interrupt"}); got.Disposition != gateway.DispositionQueued {
		t.Errorf("an interrupt is answered %+v", got)
	}
	turn := want[struct{ Turn gateway.Turn }](t, p.get("/turns/"+*started.TurnID), 200).Turn
	if turn.Status != gateway.TurnCancelled {
		t.Errorf("the turn is %s", turn.Status)
	}
}
