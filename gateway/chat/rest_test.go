package chat_test

import (
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
)

// TestF12_AtRestMessagesWaitForTheNextProcess lets the chat come to rest while one
// turn runs and another waits for its org: the first goes on to its end, all else
// is taken, answered the same way when it is sent again, and started once by the
// next process.
func TestF12_AtRestMessagesWaitForTheNextProcess(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		running, turn := r.streaming("one", "1")
		r.limits.OrgConcurrentTurns = 1
		r.respawn()
		parked := r.say("", "parked")
		if parked.Disposition != gateway.DispositionOrgQueued {
			t.Fatalf("%+v", parked)
		}
		r.Rest()

		request := gateway.SendRequest{ThreadID: running, ClientEventID: id(), UserMessage: text("two")}
		behind, err := r.Send(r.ctx, ann, request)
		r.must(err)
		fresh := r.say("", "three")
		for _, reply := range []gateway.SendReply{behind, fresh} {
			if reply.Disposition != gateway.DispositionQueued || reply.TurnID != nil {
				t.Errorf("a message at rest is answered %+v", reply)
			}
		}
		again, err := r.Send(r.ctx, ann, request)
		r.must(err)
		if again.Replayed = false; asJSON(t, again) != asJSON(t, behind) {
			t.Errorf("sent again: %+v, first %+v", again, behind)
		}

		r.end(turn, completed())
		r.must(r.Promote(r.ctx, ann.OrgID))
		r.must(r.Sweep(r.ctx))
		r.wantLog(running, "input:one start:one input:two output.message:1 turn.completed")
		r.wantLog(fresh.ThreadID, "input:three")
		if got := r.turn(*parked.TurnID).Status; got != gateway.TurnQueued {
			t.Errorf("the turn that waits for its org is %s", got)
		}

		r.limits = chat.Limits{SweepEvery: r.limits.SweepEvery, RouteGrace: r.limits.RouteGrace}
		r.restart()
		r.wantTurn(running, "two")
		r.wantTurn(fresh.ThreadID, "three")
		r.until("the parked turn goes on", func() bool { return r.turn(*parked.TurnID).Status == gateway.TurnPending })
		r.wantLog(fresh.ThreadID, "input:three start:three")
	})
}
