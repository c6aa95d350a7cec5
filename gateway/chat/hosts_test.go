package chat_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// envelopes are what a host sends of a turn that says texts and ends well.
func envelopes(turn string, texts ...string) []wire.Envelope {
	var all []wire.Envelope
	add := func(event string, payload any) {
		raw, _ := json.Marshal(payload)
		n := uint64(len(all) + 1)
		all = append(all, wire.Envelope{
			SchemaVersion: wire.EnvelopeSchemaVersion, Seq: n, Event: event, Kind: event, TurnID: turn,
			SourceEventID: fmt.Sprintf("%s/%d", turn, n), Payload: raw,
		})
	}
	add(wire.EventTurnStarted, wire.StartedPayload{})
	for _, s := range texts {
		add(wire.EventItemDelta, wire.DeltaPayload{Kind: wire.DeltaMessage, Delta: s})
	}
	add(wire.EventTurnCompleted, gatewaytest.Completed())
	return all
}

// atOnce runs several calls side by side and waits for them.
func atOnce(calls ...func()) {
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
	}
	all.Wait()
}

// intake gives envelopes of a run, and waits until they are durable.
func (r *rig) intake(run string, batch []wire.Envelope) {
	r.Helper()
	durable := make(chan uint64, 1)
	r.must(r.Intake(r.ctx, run, batch, func(cursor uint64) { durable <- cursor }))
	if got := <-durable; got != batch[len(batch)-1].Seq {
		r.Error("durable up to", got)
	}
}

// TestFR20_EnvelopesThatComeAgainAreStoredOnce: one after the other, two at once, in
// parts, and after a restart.
func TestFR20_EnvelopesThatComeAgainAreStoredOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		reply := r.say("", "hello")
		r.accept()
		run := r.runOf(*reply.TurnID)
		all := envelopes(hostName(r, run), "one ", "two ", "three ", "four ")
		r.intake(run, all[:2])
		again := func() { r.intake(run, all[:5]) }
		atOnce(again, again, func() { r.intake(run, all[1:3]) })
		if got := r.turn(*reply.TurnID); got.Status != gateway.TurnRunning {
			t.Fatalf("turn %s", asJSON(t, got))
		}
		r.restart()
		atOnce(again, func() { r.intake(run, all) }, func() { r.intake(run, all) })
		r.wantLog(reply.ThreadID, "input:hello start:hello output.message:one two three four  turn.completed")
	})
}

// TestFR21_TheSameUsageTwiceAtOnceIsStoredOnce, by the service and by the store alone.
func TestFR21_TheSameUsageTwiceAtOnceIsStoredOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		metered(r)
		r.respawn()
		r.entitle(gateway.EntitlementActive, ptr[int64](1000))
		reply := r.say("", "hello")
		r.accept()
		run := r.runOf(*reply.TurnID)
		all := envelopes(hostName(r, run), "x")
		again := func() { r.intake(run, all) }
		atOnce(again, again, again, again)
		const want = "resp_1:input=5(15) resp_1:output=3(45)"
		r.wantUsage(*reply.TurnID, want)
		rows := r.charges(*reply.TurnID)
		book := func() {
			r.must(r.sql.Chat().Update(r.ctx, func(tx gateway.ChatTx) error {
				if err := tx.AddUsage(r.ctx, *reply.TurnID, []gateway.UsageRow{{ResponseID: "resp_2", Category: "tokens.input", Quantity: 7}}); err != nil {
					return err
				}
				return tx.Charge(r.ctx, rows)
			}))
		}
		atOnce(book, book, book, book)
		r.wantUsage(*reply.TurnID, want+" resp_2:input=7")
		if left := r.credits(); *left != 1000-15-45 {
			t.Errorf("%d credits are left", *left)
		}
	})
}

// TestF25_AHostThatCameTooLate: the turn of a silent host was timed out and its
// thread went on at another host; what the first one still has changes nothing but
// its usage.
func TestF25_AHostThatCameTooLate(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		second := gatewaytest.NewHost("host-2")
		threadID, turnID := r.streaming("hello", "half")
		lost := r.runOf(turnID)
		r.say(threadID, "next")
		r.Waiting(r.ctx, lost, "host_offline", time.Time{})
		r.routes.Use("host-2", "alpha")
		r.tick(180 * time.Second)
		r.must(r.Sweep(r.ctx))
		next := r.wantTurn(threadID, "next")
		r.must(second.Fetch(r.ctx, r.Service))
		r.must(second.Answer(r.ctx, r.Service))
		second.Say(r.runOf(next), "mine")
		r.must(second.Deliver(r.ctx, r.Service, -1))

		r.Waiting(r.ctx, lost, "", time.Time{}) // it links again
		late := func() { r.must(r.host.Deliver(r.ctx, r.Service, -1)) }
		r.host.Say(lost, "late")
		atOnce(late, late)
		r.accept() // it is told to stop
		r.host.End(lost, completed())
		atOnce(late, late)
		r.until("all is durable", func() bool { return r.host.Settled() && second.Settled() })

		second.End(r.runOf(next), completed())
		r.must(second.Deliver(r.ctx, r.Service, -1))
		r.until("all is durable", second.Settled)
		r.wantLog(threadID, "input:hello start:hello input:next output.partial:half turn.timeout!host_lost start:next "+
			"output.message:mine turn.completed")
		if open, err := r.OpenRuns(r.ctx, r.host.ID); err != nil || len(open) != 0 {
			t.Errorf("the first host still owes %v, %v", open, err)
		}
		if n := len(second.Started()) + len(r.host.Started()); n != 2 {
			t.Errorf("%d turns ran for two messages", n)
		}
	})
}

// TestRevoked_EndsWhatItsHostHad: pending and running turns, at once and visibly.
func TestRevoked_EndsWhatItsHostHad(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		running, turnID := r.streaming("runs", "half")
		pending := r.say("", "waits")
		gone := wire.NewError(wire.CodeHostLost, "The relay host was revoked.").Body()
		r.must(r.Refused(r.ctx, r.runOf(turnID), gone))
		r.must(r.Refused(r.ctx, r.runOf(*pending.TurnID), gone))
		r.wantLog(running, "input:runs start:runs output.partial:half turn.timeout!host_lost")
		r.wantLog(pending.ThreadID, "input:waits start:waits turn.failed!host_lost")
		if open, err := r.OpenRuns(r.ctx, r.host.ID); err != nil || len(open) != 0 {
			t.Errorf("open runs %v, %v", open, err)
		}
		r.host.Say(r.runOf(turnID), "late")
		r.end(turnID, completed())
		r.wantLog(running, "input:runs start:runs output.partial:half turn.timeout!host_lost")
	})
}

// TestFR38_APromptThatIsNotOfferedStaysPending: it counts as never sent, its owner
// sees why, a cancel is done at once, and in the end it waits no longer than for a
// host that is away.
func TestFR38_APromptThatIsNotOfferedStaysPending(t *testing.T) {
	t.Parallel()
	for _, why := range []wire.Code{gateway.CodeHostOutdated, gateway.CodeHostDraining} {
		t.Run(string(why), func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, r *rig) {
				shelve := func() (gateway.SendReply, string) {
					reply := r.say("", "hello")
					run := r.runOf(*reply.TurnID)
					work, err := r.Work(r.ctx, run)
					r.must(err)
					if work.Generation != 2 {
						t.Errorf("generation %d", work.Generation)
					}
					cause := wire.NewError(why, "").Body()
					cause.Retryable = true
					r.must(r.Ack(r.ctx, wire.Ack{RunID: run, CommandSeq: 1, CommandType: wire.TypePromptRequest, Status: wire.AckFailed, Error: cause}))
					r.Waiting(r.ctx, run, string(why), time.Time{})
					return reply, run
				}
				reply, run := shelve()
				if got := r.turn(*reply.TurnID); got.Status != gateway.TurnPending || got.Reason != string(why) {
					t.Errorf("turn %s", asJSON(t, got))
				}
				r.interrupt(reply.ThreadID, *reply.TurnID)
				if r.thread(reply.ThreadID).CancellationRecoveryPending {
					t.Error("the thread waits for a host that has nothing of the turn")
				}
				if _, idle, err := r.HostOf(r.ctx, run); err != nil || !idle {
					t.Errorf("the run is not idle: %v", err)
				}
				late, _ := shelve()
				r.tick(10 * time.Minute)
				r.must(r.Sweep(r.ctx))
				r.wantLog(late.ThreadID, "input:hello start:hello turn.failed!host_offline")
			})
		})
	}
}

// TestMC56_AThreadThatMovedBetweenHosts: each host is told the rounds that it did not
// see, and none of its conversations goes on without them.
func TestMC56_AThreadThatMovedBetweenHosts(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		second := gatewaytest.NewHost("host-2")
		threadID, turnID := r.streaming("one", "first")
		r.end(turnID, completed())
		binding := r.request(turnID).RuntimeBindingID

		r.routes.Use("host-2", "alpha")
		two := r.say(threadID, "two")
		run := r.runOf(*two.TurnID)
		r.must(second.Fetch(r.ctx, r.Service))
		r.must(second.Answer(r.ctx, r.Service))
		second.Say(run, "second")
		second.End(run, completed())
		r.must(second.Deliver(r.ctx, r.Service, -1))
		r.until("all is durable", second.Settled)

		r.routes.Use(r.host.ID, "alpha")
		three := r.say(threadID, "three")
		r.accept()
		req := r.request(*three.TurnID)
		if req.RuntimeBindingID == binding || req.ContinueFrom != nil {
			t.Errorf("binding %s again, from %v: it has no record of the second round", req.RuntimeBindingID, req.ContinueFrom)
		}
		if req.Context == nil || !strings.Contains(*req.Context, "User: one\nAssistant: first\n\nRUN_STATUS: completed\nUser: two\nAssistant: second\n") {
			t.Errorf("context %v", req.Context)
		}
		r.end(*three.TurnID, completed())
		four := r.say(threadID, "four")
		r.accept()
		if again := r.request(*four.TurnID); again.RuntimeBindingID != req.RuntimeBindingID {
			t.Errorf("binding %s after %s at the same host", again.RuntimeBindingID, req.RuntimeBindingID)
		}
	})
}

// TestPlacement_IsAskedForWithTheThreadsHost, by a send, by what waits behind a turn,
// and by a thread that was elsewhere before.
func TestPlacement_IsAskedForWithTheThreadsHost(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		want := func(what, hostID string) {
			t.Helper()
			// Who drains the thread may ask once more for what was started already.
			if asked := r.routes.Asked(); !slices.Contains(asked, gateway.Placement{HostID: hostID, Generation: 2}) {
				t.Errorf("%s: asked with %+v", what, asked)
			}
		}
		threadID, turnID := r.streaming("one")
		want("a new thread", "")
		r.say(threadID, "two")
		want("behind a turn", r.host.ID)
		r.routes.Use("host-2", "alpha")
		r.end(turnID, completed())
		two := r.wantTurn(threadID, "two")
		want("what waited", r.host.ID)
		r.interrupt(threadID, two) // no host ever had it
		r.say(threadID, "three")
		want("after a turn that no host took", r.host.ID)
		second := gatewaytest.NewHost("host-2")
		r.must(second.Fetch(r.ctx, r.Service))
		r.must(second.Answer(r.ctx, r.Service))
		r.say(threadID, "four")
		want("at another host", "host-2")
	})
}

// TestSend_WaitsForAHostThatComesBack in the first moments of a gateway, rather than
// fail or move its thread.
func TestSend_WaitsForAHostThatComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID, turnID := r.streaming("one")
	r.end(turnID, completed())
	r.routes.Fail(wire.NewError(wire.CodeHostOffline, "Not yet."))
	reply := r.say(threadID, "two")
	if reply.Disposition != gateway.DispositionQueued || reply.TurnID != nil {
		t.Errorf("reply %s", asJSON(t, reply))
	}
	r.must(r.Sweep(r.ctx))
	if th := r.thread(threadID); th.Waiting != 1 {
		t.Errorf("thread %s", asJSON(t, th))
	}
	r.routes.Fail(nil)
	r.must(r.Sweep(r.ctx))
	r.wantTurn(threadID, "two")
}
