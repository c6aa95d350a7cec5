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

// openRuns are the runs that a host still owes something.
func (r *rig) openRuns() []string {
	r.Helper()
	runs, err := r.OpenRuns(r.ctx, hostID)
	r.must(err)
	return runs
}

// TestDecision21_AnInterruptThatNobodyNeedsIsTakenBack: a host answers the
// interrupt of a turn whose start it rejected with relay_native_unavailable for
// ever (RH38), and commands go one at a time, so it would hold up its thread.
func TestDecision21_AnInterruptThatNobodyNeedsIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "hello")
	run := r.runOf(*reply.TurnID)
	work, err := r.Work(r.ctx, run)
	r.must(err)
	r.stop(reply.ThreadID, *reply.TurnID)
	_, err = r.Work(r.ctx, run) // the interrupt waits for the answer to the prompt, and counts as sent
	r.must(err)
	r.must(r.Ack(r.ctx, wire.Ack{
		RunID: run, CommandSeq: work.Commands[0].Seq, CommandType: wire.TypePromptRequest, Status: wire.AckFailed,
		Error: &wire.ErrorBody{Code: wire.CodeInferenceBusy, Retryable: true},
	}))
	if runs := r.openRuns(); len(runs) != 0 {
		after, err := r.Work(r.ctx, run)
		r.must(err)
		t.Fatalf("the host is still told %d commands", len(after.Commands))
	}
	next := r.say(reply.ThreadID, "next")
	work, err = r.Work(r.ctx, run)
	r.must(err)
	if next.Disposition != gateway.DispositionStarted || len(work.Commands) != 1 {
		t.Fatalf("%s with %d commands", next.Disposition, len(work.Commands))
	}
}

// TestBinding_IsKnownByWhatItsTurnSays: an acknowledgement may be lost, or come
// after the end of its turn. The next turn goes on in the same conversation.
func TestBinding_IsKnownByWhatItsTurnSays(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]bool{"text and end": true, "the end alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			reply := r.say("", "one")
			r.must(r.host.Fetch(r.ctx, r.Service))
			r.host.LoseAnswers()
			run := r.runOf(*reply.TurnID)
			_, first := r.host.Turn(run)
			if says {
				r.host.Say(run, "ok")
			}
			r.end(*reply.TurnID, gatewaytest.Completed())
			r.say(reply.ThreadID, "two")
			r.accept()
			_, second := r.host.Turn(run)
			if second.Request.Prompt != "two" || second.Request.RuntimeBindingID != first.Request.RuntimeBindingID {
				t.Fatalf("the second turn knows nothing of the first: %+v", second.Request)
			}
		})
	}
}

// TestDeleteThread_LeavesNothingForAHostThatIsAway: also of a turn that was stopped
// before, while nobody knew whether its host had the prompt, and of one whose
// thread had given it up.
func TestDeleteThread_LeavesNothingForAHostThatIsAway(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"its end is waited for": 0, "it was given up": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			reply := r.say("", "secret")
			run := r.runOf(*reply.TurnID)
			_, err := r.Work(r.ctx, run)
			r.must(err)
			r.stop(reply.ThreadID, *reply.TurnID)
			r.tick(wait)
			r.must(r.Sweep(r.ctx))
			r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: reply.ThreadID}))
			var bodies int
			r.must(r.place.Raw(t).QueryRow(`SELECT COUNT(*) FROM commands WHERE body LIKE '%secret%'`).Scan(&bodies))
			work, err := r.Work(r.ctx, run)
			r.must(err)
			if bodies != 0 || len(work.Commands) != 1 || peekType(t, work.Commands[0]) != wire.TypeRunControl {
				t.Errorf("%d prompts are kept, %d commands are left", bodies, len(work.Commands))
			}
		})
	}
}

// TestDeleteThread_WaitsForTheHost: until its host told the end, or for a limited
// time, the run of a deleted thread stays open. A host that is left earlier keeps
// an unsettled turn, with its scope in memory, for good.
func TestDeleteThread_WaitsForTheHost(t *testing.T) {
	t.Parallel()
	t.Run("which tells the end", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		th, turnID := r.streaming("hello", "half")
		r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: th}))
		r.accept()
		if len(r.openRuns()) != 1 {
			t.Fatal("the run is closed before its host has told the end")
		}
		r.end(turnID, gatewaytest.Completed())
		if runs := r.openRuns(); len(runs) != 0 {
			t.Fatalf("open runs %v", runs)
		}
	})
	t.Run("which never does", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		th, _ := r.streaming("hello", "half")
		r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: th}))
		r.accept()
		r.tick(120 * time.Second)
		r.must(r.Sweep(r.ctx))
		if runs := r.openRuns(); len(runs) != 0 {
			t.Fatalf("open runs %v", runs)
		}
	})
	t.Run("which never had the turn", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		reply := r.say("", "hello")
		r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: reply.ThreadID}))
		if runs := r.openRuns(); len(runs) != 0 {
			t.Fatalf("open runs %v", runs)
		}
	})
}

// TestF22_ARefusedRunDoesNotRunForEver: a host that refuses the run of a turn in
// progress will never tell its end.
func TestF22_ARefusedRunDoesNotRunForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "half")
	run := r.runOf(turnID)
	refuse := func() {
		r.must(r.Refused(r.ctx, run, wire.NewError(wire.CodeStateUntrusted, "").Body()))
	}
	refuse()
	r.tick(179 * time.Second)
	refuse()
	r.must(r.Sweep(r.ctx))
	if r.turn(turnID).Status != gateway.TurnRunning {
		t.Fatal("too early")
	}
	r.tick(time.Second)
	r.must(r.Sweep(r.ctx))
	r.wantLog(th, "input:hello start:hello output.partial:half turn.timeout!host_lost")
}

// TestDecision11_ATurnHasADeadline: a turn whose end its host will never tell,
// although it is there, is settled all the same.
func TestDecision11_ATurnHasADeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "half")
	r.say(th, "next")
	r.tick(2*time.Hour - time.Second)
	r.must(r.Sweep(r.ctx))
	if r.turn(turnID).Status != gateway.TurnRunning {
		t.Fatal("too early")
	}
	r.respawn()
	r.Waiting(r.ctx, r.runOf(turnID), "", time.Time{}) // its host is there
	r.tick(time.Second)
	r.must(r.Sweep(r.ctx))
	r.wantTurn(th, "next")
	r.wantLog(th, "input:hello start:hello input:next output.partial:half turn.timeout!turn_deadline control.revoke start:next")
	r.accept()
	if told := r.host.Started()[0]; !told.Interrupted {
		t.Fatal("the host was not told to stop")
	}
}

// fragile is a splitter that cannot bear a word.
type fragile struct{ lines }

func (f *fragile) Append(text string) []gateway.Block {
	if strings.Contains(text, "poison") {
		panic("poisoned")
	}
	return f.lines.Append(text)
}

// TestF22_ATextThatBreaksItsSplitterStaysText: the process outlives it, also at
// its next start.
func TestF22_ATextThatBreaksItsSplitterStaysText(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.blocks = func() chat.Splitter { return &fragile{} } })
	th, turnID := r.streaming("hello", "one\n", "poison\n", "two\n")
	r.restart()
	reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, HTML: true})
	r.must(err)
	if reply.Turn.Text != "one\npoison\ntwo\n" || len(reply.Turn.Blocks) > 1 {
		t.Fatalf("turn %s", asJSON(t, reply.Turn))
	}
	r.end(turnID, gatewaytest.Completed())
	r.wantLog(th, "input:hello start:hello output.message:one\npoison\ntwo\n turn.completed")
}
