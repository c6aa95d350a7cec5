package chat_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestSQ2_FirstSendStartsATurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := gateway.SendRequest{ClientThreadID: id(), ClientEventID: id(), UserMessage: text("Hello  there"), Model: "beta"}
	reply, err := r.Send(r.ctx, ann, req)
	r.must(err)
	if reply.ThreadID != req.ClientThreadID || reply.TurnID == nil || reply.Status != gateway.TurnPending ||
		reply.Disposition != gateway.DispositionStarted || reply.EventID != req.ClientEventID {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	t.Run("SQ5: an original and a replacement, the original unchanged", func(t *testing.T) {
		events := r.events(reply.ThreadID)
		if len(events) != 2 {
			t.Fatalf("%d events", len(events))
		}
		original, replacement := asJSON(t, events[0]), asJSON(t, events[1])
		for _, want := range []string{`"id":"` + req.ClientEventID + `"`, `"content":null`, `"eventType":"input.prompt"`} {
			if !strings.Contains(original, want) {
				t.Errorf("original %s lacks %s", original, want)
			}
		}
		for _, key := range []string{`"turnId"`, `"revokesEventId"`} {
			if strings.Contains(original, key) {
				t.Errorf("original %s has %s", original, key)
			}
		}
		for _, want := range []string{`"content":null`, `"turnId":"` + *reply.TurnID + `"`, `"revokesEventId":"` + req.ClientEventID + `"`, `"text":"Hello  there"`} {
			if !strings.Contains(replacement, want) {
				t.Errorf("replacement %s lacks %s", replacement, want)
			}
		}
	})
	t.Run("SQ6: the host gets the prompt verbatim and the route that was asked for", func(t *testing.T) {
		r.accept()
		_, turn := r.host.Turn(r.runOf(*reply.TurnID))
		if turn.Request.Prompt != "Hello  there" || turn.Request.Model != "beta" || turn.Request.ModelProviderID != "test-beta" {
			t.Fatalf("request %+v", turn.Request)
		}
	})
	t.Run("SQ7: nothing is read or recovering", func(t *testing.T) {
		th := r.thread(reply.ThreadID)
		if th.LastReadSeq != 0 || th.CancellationRecoveryPending {
			t.Fatalf("thread %+v", th)
		}
	})
	t.Run("MC3: the model of the send that creates the thread is the thread's", func(t *testing.T) {
		if th := r.thread(reply.ThreadID); th.Model == nil || *th.Model != "beta" || th.Title == nil || *th.Title != "Hello there" {
			t.Fatalf("thread %s", asJSON(t, th))
		}
	})
}

func TestSQ8_ClientThreadIDMeansCreate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{ClientThreadID: id()})
	r.must(err)
	for _, actor := range []gateway.Actor{ann, bob, eve} {
		_, err = r.Send(r.ctx, actor, gateway.SendRequest{ClientThreadID: made.ThreadID, ClientEventID: id(), UserMessage: text("x")})
		wantCode(t, err, gateway.CodeClientThreadIDInUse)
	}
	again, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{ClientThreadID: made.ThreadID})
	r.must(err)
	if again != made {
		t.Fatalf("repeated thread.create gave %v", again)
	}
	_, err = r.CreateThread(r.ctx, bob, gateway.CreateThreadRequest{ClientThreadID: made.ThreadID})
	wantCode(t, err, gateway.CodeClientThreadIDInUse)
	sent := r.say("", "x")
	_, err = r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{ClientThreadID: sent.ThreadID})
	wantCode(t, err, gateway.CodeClientThreadIDInUse)
	r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest(made)))
	_, err = r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{ClientThreadID: made.ThreadID})
	wantCode(t, err, gateway.CodeClientThreadIDInUse)
}

func TestSQ13_SQ14_AgentsAreCheckedFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	private := gateway.AgentRow{ID: id(), OrgID: ann.OrgID, OwnerID: ann.AccountID, Name: "Mine", Private: true}
	r.must(r.sql.Chat().Update(r.ctx, func(tx gateway.ChatTx) error { return tx.InsertAgent(r.ctx, private) }))
	bad := gateway.SendRequest{ClientEventID: id(), ThreadID: id(), ClientThreadID: id(), Mode: "never"}
	bad.AgentID = id()
	_, err := r.Send(r.ctx, ann, bad)
	wantCode(t, err, wire.CodeNotFound)
	bad.AgentID = private.ID
	_, err = r.Send(r.ctx, bob, bad)
	wantCode(t, err, wire.CodeForbidden)
	_, err = r.Send(r.ctx, eve, bad)
	wantCode(t, err, wire.CodeNotFound)
	reply := r.say("", "hi", func(q *gateway.SendRequest) { q.AgentID = private.ID })
	if th := r.thread(reply.ThreadID); th.AgentID != private.ID {
		t.Fatalf("agent %s", th.AgentID)
	}
}

func TestSend_RefusesWhatHasNoMeaning(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	part := func(p gateway.Part) func(*gateway.SendRequest) {
		return func(q *gateway.SendRequest) { q.UserMessage.Parts = []gateway.Part{p} }
	}
	for _, c := range []struct {
		name       string
		change     func(*gateway.SendRequest)
		path, rule string
	}{
		{"another mode", mode("never"), "mode", "enum"},
		{"both thread ids", func(q *gateway.SendRequest) { q.ThreadID, q.ClientThreadID = id(), id() }, "clientThreadId", "unknown"},
		{"no document", func(q *gateway.SendRequest) { q.UserMessage = gateway.UserMessage{} }, "userMessage.parts", "required"},
		{"another version", func(q *gateway.SendRequest) { q.UserMessage.Version = 2 }, "userMessage.version", "enum"},
		{"another part", part(gateway.Part{Type: "file", Text: "x"}), "userMessage.parts[0].type", "enum"},
		{"blank", part(gateway.Part{Type: "text", Text: " \n\t"}), "userMessage.parts[0].text", "blank"},
		{"NUL", part(gateway.Part{Type: "text", Text: "a\x00b"}), "userMessage.parts[0].text", "nul"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := gateway.SendRequest{ClientEventID: id(), UserMessage: text("x")}
			c.change(&req)
			_, err := r.Send(r.ctx, ann, req)
			wantField(t, err, c.path, c.rule)
		})
	}
	t.Run("prompt_too_large names the limit, which is inclusive", func(t *testing.T) {
		r.say("", strings.Repeat("x", wire.MaxPromptBytes))
		_, err := r.Send(r.ctx, ann, gateway.SendRequest{ClientEventID: id(), UserMessage: text(strings.Repeat("x", wire.MaxPromptBytes+1))})
		wantCode(t, err, wire.CodePromptTooLarge)
		if wire.AsError(err).Limit != wire.MaxPromptBytes {
			t.Fatalf("limit %d", wire.AsError(err).Limit)
		}
	})
	t.Run("an unknown model stores nothing", func(t *testing.T) {
		req := gateway.SendRequest{ClientThreadID: id(), ClientEventID: id(), UserMessage: text("x"), Model: "gamma"}
		_, err := r.Send(r.ctx, ann, req)
		wantCode(t, err, gateway.CodeModelUnknown)
		_, err = r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: req.ClientThreadID})
		wantCode(t, err, wire.CodeNotFound)
		req.Model = "alpha"
		_, err = r.Send(r.ctx, ann, req)
		r.must(err)
	})
}

func TestSQ47_SecondSendWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.say("", "one")
	for _, m := range []gateway.Mode{"", gateway.ModeAuto, gateway.ModeQueue} {
		reply := r.say(first.ThreadID, "two", mode(m))
		if reply.TurnID != nil || reply.Status != "" || reply.Disposition != gateway.DispositionQueued {
			t.Fatalf("mode %q: %s", m, asJSON(t, reply))
		}
		if !strings.Contains(asJSON(t, reply), `"turnId":null`) {
			t.Fatalf("turnId is not null: %s", asJSON(t, reply))
		}
	}
	if th := r.thread(first.ThreadID); th.Waiting != 3 || th.Turn == nil || th.Turn.TurnID != *first.TurnID {
		t.Fatalf("thread %s", asJSON(t, th))
	}
}

func TestQueuedPerThread_IsLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.limits.QueuedPerThread = 2 })
	th := r.say("", "one").ThreadID
	r.say(th, "two")
	waiting := r.say(th, "three")
	_, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: th, ClientEventID: id(), UserMessage: text("four")})
	wantCode(t, err, wire.CodeRateLimited)
	if wire.AsError(err).RetryAfter <= 0 {
		t.Fatal("does not say when to try again")
	}
	r.say(th, "instead", func(q *gateway.SendRequest) { q.RevokesEventID = waiting.EventID })
}

func TestSQ48_F05_RetryGetsTheFirstReply(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := gateway.SendRequest{ClientThreadID: id(), ClientEventID: id(), UserMessage: text("hello")}
	first, err := r.Send(r.ctx, ann, req)
	r.must(err)
	want := first
	want.Replayed = true
	for _, c := range []struct {
		name   string
		change func(*gateway.SendRequest)
		differ bool
	}{
		{"the same bytes", func(*gateway.SendRequest) {}, false},
		{"SQ62 CG69: by the returned thread, without a document", func(q *gateway.SendRequest) {
			q.ThreadID, q.ClientThreadID, q.UserMessage = first.ThreadID, "", gateway.UserMessage{}
		}, false},
		{"other text is marked", func(q *gateway.SendRequest) { q.UserMessage = text("bye") }, true},
		{"another thread, agent and mode do not matter", func(q *gateway.SendRequest) {
			q.ThreadID, q.AgentID, q.Mode = id(), id(), "never"
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			again := req
			c.change(&again)
			reply, err := r.Send(r.ctx, ann, again)
			r.must(err)
			want := want
			want.Differs = c.differ
			if asJSON(t, reply) != asJSON(t, want) {
				t.Fatalf("got %s, want %s", asJSON(t, reply), asJSON(t, want))
			}
		})
	}
	r.restart()
	reply, err := r.Send(r.ctx, ann, req)
	r.must(err)
	if asJSON(t, reply) != asJSON(t, want) {
		t.Fatalf("after a restart: %s", asJSON(t, reply))
	}
	r.wantLog(first.ThreadID, "input:hello start:hello")
	r.accept()
	if n := len(r.host.Started()); n != 1 {
		t.Fatalf("%d turns started", n)
	}
}

func TestSQ49_IDsAreUniqueInstallationWide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.say("", "mine")
	for _, other := range []gateway.Actor{bob, eve} {
		req := gateway.SendRequest{ClientThreadID: id(), ClientEventID: first.EventID, UserMessage: text("mine")}
		_, err := r.Send(r.ctx, other, req)
		wantCode(t, err, gateway.CodeClientEventIDInUse)
		_, err = r.Open(r.ctx, other, gateway.OpenRequest{ThreadID: req.ClientThreadID})
		wantCode(t, err, wire.CodeNotFound)
		req.ClientEventID = id()
		_, err = r.Send(r.ctx, other, req)
		r.must(err)
	}
	t.Run("the id of an event that the server made is taken too", func(t *testing.T) {
		made := r.events(first.ThreadID)[1].ID
		_, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: first.ThreadID, ClientEventID: made, UserMessage: text("x")})
		wantCode(t, err, gateway.CodeClientEventIDInUse)
		r.wantLog(first.ThreadID, "input:mine start:mine")
	})
}

func TestSQ52_DuplicatesAtOnceMakeOneTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := gateway.SendRequest{ClientThreadID: id(), ClientEventID: id(), UserMessage: text("hello")}
	const n = 8
	replies := make([]gateway.SendReply, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			reply, err := r.Send(r.ctx, ann, req)
			if err != nil {
				t.Error(err)
			}
			replies[i] = reply
		})
	}
	wg.Wait()
	first := 0
	for _, reply := range replies {
		if !reply.Replayed {
			first++
		}
		if reply.TurnID == nil || *reply.TurnID != *replies[0].TurnID {
			t.Errorf("reply %s", asJSON(t, reply))
		}
	}
	if first != 1 {
		t.Errorf("%d replies say that they are the first", first)
	}
	r.wantLog(req.ClientThreadID, "input:hello start:hello")
}

func TestSQ55_SendsAtOnceMakeOneTurnAndAQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{})
	r.must(err)
	const n = 8
	var mu sync.Mutex
	var wg sync.WaitGroup
	started := 0
	for range n {
		wg.Go(func() {
			reply, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: made.ThreadID, ClientEventID: id(), UserMessage: text("x")})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if reply.TurnID != nil {
				started++
			}
		})
	}
	wg.Wait()
	if th := r.thread(made.ThreadID); started != 1 || th.Waiting != n-1 {
		t.Fatalf("%d started, %d wait", started, th.Waiting)
	}
	r.events(made.ThreadID)
}

func TestSQ60_NoHostIsAFailedTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.routes.Fail(wire.NewError(wire.CodeNoHost, "No host is configured.")) })
	req := gateway.SendRequest{ClientEventID: id(), UserMessage: text("hello")}
	reply, err := r.Send(r.ctx, ann, req)
	r.must(err)
	if reply.TurnID == nil || reply.Status != gateway.TurnFailed || reply.Disposition != gateway.DispositionFailed {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
	if turn := r.turn(*reply.TurnID); turn.Status != gateway.TurnFailed || turn.Error != wire.CodeNoHost {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
	t.Run("SQ61: replacement and turn.failed", func(t *testing.T) {
		r.wantLog(reply.ThreadID, "input:hello start:hello turn.failed!no_host")
	})
	t.Run("SQ62: a retry that names the thread gets the same", func(t *testing.T) {
		req.ThreadID = reply.ThreadID
		again, err := r.Send(r.ctx, ann, req)
		r.must(err)
		if *again.TurnID != *reply.TurnID || again.Status != gateway.TurnFailed || !again.Replayed {
			t.Fatalf("reply %s", asJSON(t, again))
		}
	})
	t.Run("the thread is free for the next", func(t *testing.T) {
		r.routes.Fail(nil)
		if next := r.say(reply.ThreadID, "again"); next.Disposition != gateway.DispositionStarted {
			t.Fatalf("reply %s", asJSON(t, next))
		}
	})
}

func TestRouteUnavailable_RefusesAnIdleSendAndStoresNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	busy := r.say("", "one")
	r.routes.Fail(wire.NewError(gateway.CodeRouteUnavailable, "Not ready."))
	req := gateway.SendRequest{ClientThreadID: id(), ClientEventID: id(), UserMessage: text("x")}
	_, err := r.Send(r.ctx, ann, req)
	wantCode(t, err, gateway.CodeRouteUnavailable)
	if queued := r.say(busy.ThreadID, "two"); queued.Disposition != gateway.DispositionQueued {
		t.Fatalf("reply %s", asJSON(t, queued))
	}
	r.routes.Fail(nil)
	_, err = r.Send(r.ctx, ann, req)
	r.must(err)
}

func TestSend_StrangersSeeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("secret", "text")
	unknown := id()
	for _, actor := range []gateway.Actor{bob, eve, {AccountID: ann.AccountID, OrgID: "org-2"}} {
		for name, call := range map[string]func(thread, turn, event string) error{
			"send": func(thread, _, _ string) error {
				_, err := r.Send(r.ctx, actor, gateway.SendRequest{ThreadID: thread, ClientEventID: id(), UserMessage: text("x")})
				return err
			},
			"open": func(thread, _, _ string) error {
				_, err := r.Open(r.ctx, actor, gateway.OpenRequest{ThreadID: thread})
				return err
			},
			"interrupt": func(thread, turn, _ string) error {
				_, err := r.Interrupt(r.ctx, actor, gateway.InterruptRequest{ThreadID: thread, TurnID: turn, ClientEventID: id()})
				return err
			},
			"recall": func(thread, _, event string) error {
				_, err := r.Recall(r.ctx, actor, gateway.RecallRequest{ThreadID: thread, RevokesEventID: event})
				return err
			},
			"turn": func(_, turn, _ string) error {
				_, err := r.Turn(r.ctx, actor, gateway.TurnRequest{TurnID: turn})
				return err
			},
			"rename": func(thread, _, _ string) error {
				return r.RenameThread(r.ctx, actor, gateway.RenameThreadRequest{ThreadID: thread, Title: "x"})
			},
			"delete": func(thread, _, _ string) error {
				return r.DeleteThread(r.ctx, actor, gateway.DeleteThreadRequest{ThreadID: thread})
			},
			"read": func(thread, _, _ string) error {
				return r.MarkRead(r.ctx, actor, gateway.MarkReadRequest{ThreadID: thread, Seq: 1})
			},
			"model": func(thread, _, _ string) error {
				return r.SetModel(r.ctx, actor, gateway.SetModelRequest{ThreadID: thread})
			},
		} {
			event := r.events(th)[0].ID
			foreign, missing := call(th, turnID, event), call(unknown, unknown, unknown)
			wantCode(t, foreign, wire.CodeNotFound)
			a, _ := json.Marshal(wire.AsError(foreign).Body())
			b, _ := json.Marshal(wire.AsError(missing).Body())
			if string(a) != string(b) {
				t.Errorf("%s: foreign %s, missing %s", name, a, b)
			}
		}
	}
	list, err := r.List(r.ctx, bob, gateway.ListRequest{})
	r.must(err)
	if len(list.Threads) != 0 {
		t.Errorf("bob lists %d threads", len(list.Threads))
	}
	t.Run("an interrupt through another thread of one's own finds nothing", func(t *testing.T) {
		other := r.say("", "other")
		_, err := r.Interrupt(r.ctx, ann, gateway.InterruptRequest{ThreadID: other.ThreadID, TurnID: turnID, ClientEventID: id()})
		wantCode(t, err, wire.CodeNotFound)
	})
}

func TestCG67_EveryMessageIsQueuedFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "hello")
	t.Run("SQ3: by the reply the turn is bound to a run and a native conversation", func(t *testing.T) {
		turns, err := r.AdminTurns(r.ctx, ann, gateway.Page{TurnID: *reply.TurnID})
		r.must(err)
		bindings, err := r.AdminBindings(r.ctx, ann, gateway.Page{})
		r.must(err)
		row := turns.Rows[0]
		if row.InputID != reply.EventID || row.RunID == "" || row.BindingID != bindings.Rows[0].BindingID || row.VirtualTurnID == "" {
			t.Fatalf("turn %s", asJSON(t, row))
		}
	})
	t.Run("CG80: paging from the queued event shows that it was taken", func(t *testing.T) {
		queued := r.say(reply.ThreadID, "next")
		since := r.events(reply.ThreadID)[2].SeqID
		r.stop(reply.ThreadID, *reply.TurnID)
		turnID := r.wantTurn(reply.ThreadID, "next")
		page, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: reply.ThreadID, SinceSeq: &since})
		r.must(err)
		last := page.Events[len(page.Events)-1]
		if last.RevokesEventID != queued.EventID || last.TurnID != turnID || last.SeqID != page.LatestSeq {
			t.Fatalf("page %s", asJSON(t, page.Events))
		}
	})
}

func TestCG69_ARetryNeedsNoDocument(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.say("", "hello")
	again, err := r.Send(r.ctx, ann, gateway.SendRequest{ThreadID: first.ThreadID, ClientEventID: first.EventID})
	r.must(err)
	first.Replayed = true
	if asJSON(t, again) != asJSON(t, first) {
		t.Fatalf("got %s, first was %s", asJSON(t, again), asJSON(t, first))
	}
	r.wantLog(first.ThreadID, "input:hello start:hello")
}
