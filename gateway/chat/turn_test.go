package chat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestTurn_RunsAndEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "hello")
	run := r.runOf(*reply.TurnID)
	r.accept()
	if turn := r.turn(*reply.TurnID); turn.Status != gateway.TurnRunning || turn.StartedAt == nil {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
	r.host.Say(run, "Hel")
	r.host.Say(run, "lo")
	p := gatewaytest.Completed()
	p.Outcome.Finish = wire.FinishRefusedInPart
	r.end(*reply.TurnID, p)
	r.wantLog(reply.ThreadID, "input:hello start:hello output.message:Hello turn.completed")
	events := r.events(reply.ThreadID)
	out, last := events[2], events[3]
	if *out.From != 0 || *out.To != 5 || out.TurnID != *reply.TurnID || last.Finish != wire.FinishRefusedInPart {
		t.Fatalf("events %s", asJSON(t, events))
	}
	turn := r.turn(*reply.TurnID)
	if turn.Status != gateway.TurnCompleted || turn.EndedAt == nil || len(turn.Timeline) < 5 {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
	if got := asJSON(t, turn.Usage); got != `[{"responseId":"resp_1","category":"tokens.input","quantity":5},{"responseId":"resp_1","category":"tokens.output","quantity":3}]` {
		t.Fatalf("usage %s", got)
	}
	t.Run("a host that says it again changes nothing", func(t *testing.T) {
		r.host.End(run, p)
		r.must(r.Intake(r.ctx, run, []wire.Envelope{{
			Seq: 99, Event: wire.EventTurnCompleted, TurnID: hostName(r, run), Payload: json.RawMessage(asJSON(t, gatewaytest.Failed(wire.CodeModelFailed))),
		}}, nil))
		r.restart()
		r.wantLog(reply.ThreadID, "input:hello start:hello output.message:Hello turn.completed")
	})
}

func hostName(r *rig, run string) string {
	name, _ := r.host.Turn(run)
	return name
}

func TestTurn_FailureKeepsWhatWasShown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		end   wire.CompletedPayload
		after string
	}{
		{"a code of the provider", gatewaytest.Failed(wire.CodeModelStreamCut), "output.partial:half turn.failed!model_stream_cut"},
		{"a code of the relay contract is not shown", gatewaytest.Failed(wire.CodePersistFailed), "output.partial:half turn.failed!internal"},
		{"without an outcome", wire.CompletedPayload{Turn: wire.CompletedTurn{Status: wire.NativeFailed}}, "output.partial:half turn.failed!model_failed"},
		{"F22 the host's process ended", wire.CompletedPayload{Turn: wire.CompletedTurn{Status: wire.NativeInterrupted}}, "output.partial:half turn.failed!host_restarted"},
		{"incomplete output stays in the turn alone", gatewaytest.Failed(wire.CodeModelOutputIncomplete), "turn.failed!model_output_incomplete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			th, turnID := r.streaming("hello", "half")
			r.end(turnID, c.end)
			r.wantLog(th, "input:hello start:hello "+c.after)
			turn, retracts := r.turn(turnID), len(r.published(gateway.ThreadTopic(th), "turn.retract"))
			if incomplete := turn.Error == wire.CodeModelOutputIncomplete; incomplete != (turn.Partial != nil && *turn.Partial == "half") || incomplete != (retracts == 1) {
				t.Fatalf("turn %s, %d retracts", asJSON(t, turn), retracts)
			}
		})
	}
}

func TestUsage_Categories(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, usage, want string }{
		{"DT60 no report, no row", `{}`, ""},
		{
			"SQ74 cached input stands apart, zeros are left out",
			`{"input_tokens":100,"output_tokens":7,"prompt_cache_hit_tokens":60,"prompt_cache_write_tokens":30}`,
			"tokens.cache_creation=30 tokens.cache_read=60 tokens.input=10 tokens.output=7",
		},
		{"reasoning inside of the output is no row", `{"input_tokens":1,"output_tokens":7,"reasoning_tokens":5}`, "tokens.input=1 tokens.output=7"},
		{
			"reasoning outside is", `{"input_tokens":1,"output_tokens":7,"reasoning_tokens":5,"reasoning_outside":true}`,
			"tokens.input=1 tokens.output=7 tokens.reasoning=5",
		},
		{"all input was cached", `{"input_tokens":5,"output_tokens":0,"prompt_cache_hit_tokens":5}`, "tokens.cache_read=5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			_, turnID := r.streaming("hello", "x")
			p := gatewaytest.Completed()
			p.Turn.Usage = json.RawMessage(c.usage)
			r.end(turnID, p)
			var got []string
			for _, u := range r.turn(turnID).Usage {
				got = append(got, u.Category+"="+asJSON(t, u.Quantity))
			}
			if strings.Join(got, " ") != c.want {
				t.Fatalf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestLargeAnswers_AreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello")
	run, want := r.runOf(turnID), ""
	for range 20 {
		piece := strings.Repeat("日本語🌍", 2000)
		want += piece
		r.host.Say(run, piece)
	}
	r.deliver()
	t.Run("thread.open gives 256 KiB and pushes for the rest", func(t *testing.T) {
		reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, Turn: &gateway.TurnOffset{TurnID: turnID, Offset: 3}})
		r.must(err)
		got, next := reply.Turn.Text, reply.Turn.Next
		if len(got) > gateway.MaxReplyBytes || len(reply.Then) == 0 || reply.Turn.Offset != 3 || reply.Turn.Resync {
			t.Fatalf("%d bytes from %d and %d pushes", len(got), reply.Turn.Offset, len(reply.Then))
		}
		for _, p := range reply.Then {
			if p.Offset != next {
				t.Fatalf("a push begins at %d, not at %d", p.Offset, next)
			}
			got, next = got+p.Text, p.Next
		}
		if got != want[3:] || reply.ThenNext != int64(len(want)) {
			t.Fatal("text and pushes are not the answer")
		}
	})
	t.Run("an offset beyond the end, or inside of a character, begins again", func(t *testing.T) {
		for _, offset := range []int64{int64(len(want)) + 1, 1} {
			reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, Turn: &gateway.TurnOffset{TurnID: turnID, Offset: offset}})
			r.must(err)
			if !reply.Turn.Resync || reply.Turn.Offset != 0 || !strings.HasPrefix(want, reply.Turn.Text) {
				t.Fatalf("offset %d: %d %v", offset, reply.Turn.Offset, reply.Turn.Resync)
			}
		}
	})
	r.end(turnID, gatewaytest.Completed())
	got := ""
	for _, e := range r.events(th) { // ranges are checked there
		if e.EventType == gateway.EventOutputMessage {
			if len(*e.Content) > gateway.MaxOutputEventBytes || strings.ContainsRune(*e.Content, '\uFFFD') {
				t.Fatalf("an event of %d bytes", len(*e.Content))
			}
			got += *e.Content
		}
	}
	if got != want {
		t.Fatal("the events are not the answer")
	}
	t.Run("a reply with events holds 256 KiB at most, or one event", func(t *testing.T) {
		since, got := int64(0), ""
		for {
			reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, SinceSeq: &since})
			r.must(err)
			size := 0
			for _, e := range reply.Events {
				if e.Content != nil {
					size += len(*e.Content)
					got += *e.Content
				}
			}
			if size > gateway.MaxReplyBytes || len(reply.Events) == 0 {
				t.Fatalf("%d bytes in %d events", size, len(reply.Events))
			}
			if !reply.More {
				break
			}
			since = reply.Events[len(reply.Events)-1].SeqID
		}
		if got != want {
			t.Fatal("the pages are not the answer")
		}
	})
}

func TestF02_ANativeEventCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello")
	run := r.runOf(turnID)
	r.host.Say(run, "one ")
	r.host.Say(run, "two ")
	r.must(r.host.Deliver(r.ctx, r.Service, 1))
	r.host.Renumber()
	r.must(r.host.Deliver(r.ctx, r.Service, -1))
	r.host.Renumber()
	r.restart() // RH42: a duplicate after a restart is known by its source
	r.host.Renumber()
	r.host.Say(run, "three")
	r.deliver()
	r.end(turnID, gatewaytest.Completed())
	r.wantLog(th, "input:hello start:hello output.message:one two three turn.completed")
}

func TestF01_OffsetsStandForTheSameByteAcrossARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "first half, ")
	r.restart()
	reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, Turn: &gateway.TurnOffset{TurnID: turnID, Offset: 6}})
	r.must(err)
	if reply.Turn == nil || reply.Turn.Text != "half, " || reply.Turn.Next != 12 || reply.Turn.Status != gateway.TurnRunning {
		t.Fatalf("turn %s", asJSON(t, reply.Turn))
	}
	r.host.Say(r.runOf(turnID), "second half")
	r.deliver()
	pushes := r.published(gateway.ThreadTopic(th), "turn.delta")
	if len(pushes) != 1 || pushes[0].Offset != 12 || pushes[0].Text != "second half" {
		t.Fatalf("pushes %+v", pushes)
	}
}

func TestRH42_TheCursorMovesOnlyAfterTheText(t *testing.T) {
	t.Parallel()
	var gate gateStore
	r := newRig(t, func(r *rig) {
		r.wrap = func(s gateway.ChatStore) gateway.ChatStore { gate.ChatStore = s; return &gate }
	})
	th, turnID := r.streaming("hello")
	run := r.runOf(turnID)
	gate.shut()
	r.host.Say(run, "shown at once")
	r.must(r.host.Deliver(r.ctx, r.Service, -1))
	if n := len(r.published(gateway.ThreadTopic(th), "turn.delta")); n != 1 {
		t.Fatalf("%d deltas were published before the store answered", n)
	}
	if r.host.Settled() {
		t.Fatal("the cursor moved before the store answered")
	}
	gate.open()
	r.until("the cursor moves", r.host.Settled)
	r.must(r.store.View(r.ctx, func(tx gateway.ChatTx) error {
		stored, err := tx.Run(r.ctx, run)
		if err == nil && stored.Cursor != 2 {
			t.Errorf("durable cursor %d", stored.Cursor)
		}
		return err
	}))
}

func TestPendingTimeout_HostOffline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "hello")
	r.Waiting(r.ctx, r.runOf(*reply.TurnID), "host_offline", time.Time{})
	open, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: reply.ThreadID})
	r.must(err)
	if open.Turn == nil || open.Turn.Status != gateway.TurnPending || open.Turn.Reason != "host_offline" {
		t.Fatalf("turn %s", asJSON(t, open.Turn))
	}
	states := r.published(gateway.ThreadTopic(reply.ThreadID), "turn.state")
	if last := string(states[len(states)-1].Raw); !strings.Contains(last, `"reason":"host_offline"`) {
		t.Fatalf("state %s", last)
	}
	r.tick(10*time.Minute - time.Second)
	r.must(r.Sweep(r.ctx))
	if r.turn(*reply.TurnID).Status != gateway.TurnPending {
		t.Fatal("too early")
	}
	r.restart()
	r.tick(time.Second)
	r.must(r.Sweep(r.ctx))
	r.wantLog(reply.ThreadID, "input:hello start:hello turn.failed!host_offline")
	t.Run("a host that comes back later is not told", func(t *testing.T) {
		r.accept()
		if n := len(r.host.Started()); n != 0 {
			t.Fatalf("%d turns started", n)
		}
	})
}

func TestPendingTimeout_OfAPromptThatMayHaveArrived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "hello")
	run := r.runOf(*reply.TurnID)
	_, err := r.Work(r.ctx, run) // counts as sent, and is lost on the way
	r.must(err)
	r.Waiting(r.ctx, run, "host_offline", time.Time{})
	r.tick(10 * time.Minute)
	r.must(r.Sweep(r.ctx))
	r.wantLog(reply.ThreadID, "input:hello start:hello turn.failed!host_offline")
	r.accept()
	if n := len(r.host.Started()); n != 0 {
		t.Fatalf("a turn that is over was started, %d", n)
	}
	runs, err := r.OpenRuns(r.ctx, hostID)
	r.must(err)
	if len(runs) != 0 {
		t.Fatal("the interrupt that the host has no use for stays open")
	}
}

func TestSQ37_ASilentHostTimesTheTurnOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "half")
	run := r.runOf(turnID)
	r.say(th, "next")
	r.Waiting(r.ctx, run, "host_offline", r.now().Add(-90*time.Second)) // last heard then
	r.tick(89 * time.Second)
	r.must(r.Sweep(r.ctx))
	if r.turn(turnID).Status != gateway.TurnRunning {
		t.Fatal("too early")
	}
	r.Waiting(r.ctx, run, "", time.Time{}) // it is back
	r.tick(time.Hour)
	r.must(r.Sweep(r.ctx))
	if r.turn(turnID).Status != gateway.TurnRunning {
		t.Fatal("F25: a turn whose host lives was timed out")
	}
	r.Waiting(r.ctx, run, "host_offline", time.Time{})
	r.tick(180 * time.Second)
	r.must(r.Sweep(r.ctx))
	r.wantTurn(th, "next") // without waiting for the host
	r.wantLog(th, "input:hello start:hello input:next output.partial:half turn.timeout!host_lost start:next")
	t.Run("F25: its late output is not taken", func(t *testing.T) {
		r.host.Say(run, "late")
		r.end(turnID, gatewaytest.Completed())
		r.wantLog(th, "input:hello start:hello input:next output.partial:half turn.timeout!host_lost start:next")
		if turn := r.turn(turnID); turn.Status != gateway.TurnTimeout || len(turn.Usage) != 2 {
			t.Fatalf("turn %s", asJSON(t, turn))
		}
	})
	t.Run("F22: after a restart a host that never shows itself is away", func(t *testing.T) {
		_, turnID := r.streaming("again", "x")
		r.restart()
		r.tick(180 * time.Second)
		r.must(r.Sweep(r.ctx))
		if turn := r.turn(turnID); turn.Status != gateway.TurnTimeout {
			t.Fatalf("turn %s", asJSON(t, turn))
		}
	})
}

func TestRefused_EndsThePendingTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "hello")
	r.must(r.Refused(r.ctx, r.runOf(*reply.TurnID), wire.NewError(wire.CodeOwnerMismatch, "").Body()))
	r.wantLog(reply.ThreadID, "input:hello start:hello turn.failed!internal")
	runs, err := r.OpenRuns(r.ctx, hostID)
	r.must(err)
	if len(runs) != 0 {
		t.Fatalf("open runs %v", runs)
	}
}

func TestAck_LostAnswersAreAskedForAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "hello")
	r.must(r.host.Fetch(r.ctx, r.Service))
	r.host.LoseAnswers()
	r.restart()
	r.accept()
	if n := r.host.Started()[0].Starts; n != 1 {
		t.Fatalf("started %d times", n)
	}
	if turn := r.turn(*reply.TurnID); turn.Status != gateway.TurnRunning {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
	t.Run("an answer that comes twice, or for nothing, changes nothing", func(t *testing.T) {
		run := r.runOf(*reply.TurnID)
		for _, seq := range []uint64{1, 7} {
			r.must(r.Ack(r.ctx, wire.Ack{RunID: run, CommandSeq: seq, Status: wire.AckFailed, Error: wire.NewError(wire.CodeRoutePinned, "").Body()}))
		}
		if turn := r.turn(*reply.TurnID); turn.Status != gateway.TurnRunning {
			t.Fatalf("turn %s", asJSON(t, turn))
		}
	})
}

func TestDeleteThread_WithATurnInProgress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "half")
	r.say(th, "next")
	run := r.runOf(turnID)
	r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: th}))
	_, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th})
	wantCode(t, err, wire.CodeNotFound)
	_, err = r.Turn(r.ctx, ann, gateway.TurnRequest{TurnID: turnID})
	wantCode(t, err, wire.CodeNotFound)
	r.accept()
	if _, turn := r.host.Turn(run); !turn.Interrupted {
		t.Fatal("the host was not told to stop")
	}
	t.Run("SQ39: the host's end is taken, and no run stays open", func(t *testing.T) {
		r.end(turnID, gatewaytest.Completed())
		r.must(r.Sweep(r.ctx))
		runs, err := r.OpenRuns(r.ctx, hostID)
		r.must(err)
		if len(runs) != 0 {
			t.Fatalf("open runs %v", runs)
		}
	})
	t.Run("nothing that was written is left in what hosts were told", func(t *testing.T) {
		r.must(r.store.View(r.ctx, func(tx gateway.ChatTx) error {
			cmds, err := tx.TurnCommands(r.ctx, turnID)
			for _, c := range cmds {
				if strings.Contains(string(c.Body), "hello") {
					t.Errorf("command %s", c.Body)
				}
			}
			if len(cmds) != 2 {
				t.Errorf("%d commands", len(cmds))
			}
			return err
		}))
	})
}
