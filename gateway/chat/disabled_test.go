package chat_test

import (
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
)

// enrol makes an account of each person, so that they can be disabled.
func (r *rig) enrol(people ...gateway.Actor) {
	r.Helper()
	for _, p := range people {
		acc := gateway.StoredAccount{Account: gateway.Account{
			ID: p.AccountID, OrgID: p.OrgID, Email: p.AccountID + "@example.com", Role: gateway.RoleMember,
		}, CreatedAt: r.now()}
		_, err := r.sql.Accounts().CreateAccount(r.ctx, acc, "", gateway.Org{}, r.entry())
		r.must(err)
	}
}

func (r *rig) entry() gateway.AuditEntry { return gateway.AuditEntry{ID: id(), At: r.now()} }

func (r *rig) disable(who gateway.Actor) {
	r.Helper()
	_, err := r.sql.Accounts().DisableMember(r.ctx, who.OrgID, who.AccountID, r.entry())
	r.must(err)
}

func (r *rig) enable(who gateway.Actor) {
	r.Helper()
	r.must(r.sql.Accounts().EnableMember(r.ctx, who.OrgID, who.AccountID, r.entry()))
}

// TestDisabled_WaitingMessagesWaitUntilTheAccountIsEnabled: the turn that runs ends as
// always, nothing that waits is started or lost, also not by a restart, and all of it
// goes on in its order.
func TestDisabled_WaitingMessagesWaitUntilTheAccountIsEnabled(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		r.enrol(ann, bob)
		th, turnID := r.streaming("one", "text")
		r.say(th, "two")
		r.say(th, "three")
		r.disable(ann)
		r.end(turnID, gatewaytest.Completed())
		const ended = "input:one start:one input:two input:three output.message:text turn.completed"
		r.wantStatus(turnID, gateway.TurnCompleted)
		r.must(r.Sweep(r.ctx))
		r.restart()
		r.must(r.Sweep(r.ctx))
		r.wantLog(th, ended)
		if got := r.thread(th); got.Waiting != 2 || got.Turn != nil {
			t.Fatalf("thread %s", asJSON(t, got))
		}
		t.Run("one that was on its way waits too", func(t *testing.T) {
			defer r.under(t)()
			if late := r.say("", "late"); late.Disposition != gateway.DispositionQueued || late.TurnID != nil {
				t.Fatalf("reply %s", asJSON(t, late))
			}
		})
		t.Run("others of the org go on", func(t *testing.T) {
			defer r.under(t)()
			reply, err := r.Send(r.ctx, bob, message("", "bob's"))
			r.must(err)
			if reply.Disposition != gateway.DispositionStarted {
				t.Fatalf("reply %s", asJSON(t, reply))
			}
		})
		r.enable(ann)
		r.must(r.Sweep(r.ctx))
		two := r.wantTurn(th, "two")
		r.wantLog(th, ended+" start:two")
		r.accept()
		r.end(two, gatewaytest.Completed())
		r.wantTurn(th, "three")
	})
}

// TestDisabled_TurnsThatWaitForTheirOrgWait: a place that becomes free goes to the
// next member, and the turn goes on once its account is enabled.
func TestDisabled_TurnsThatWaitForTheirOrgWait(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		r.enrol(ann, bob)
		r.limit(gateway.Limits{ConcurrentTurns: 1}, gateway.Limits{})
		blocker, err := r.Send(r.ctx, bob, message("", "blocker"))
		r.must(err)
		mine := r.say("", "mine")
		if mine.Disposition != gateway.DispositionOrgQueued {
			t.Fatalf("reply %s", asJSON(t, mine))
		}
		r.disable(ann)
		_, err = r.CancelTurn(r.ctx, bob, gateway.TurnRequest{TurnID: *blocker.TurnID})
		r.must(err)
		r.must(r.Promote(r.ctx, ann.OrgID))
		if got := r.turn(*mine.TurnID); got.Status != gateway.TurnQueued {
			t.Fatalf("turn %s", asJSON(t, got))
		}
		next, err := r.Send(r.ctx, bob, message("", "next"))
		r.must(err)
		if next.Disposition != gateway.DispositionStarted {
			t.Fatalf("reply %s", asJSON(t, next))
		}
		_, err = r.CancelTurn(r.ctx, bob, gateway.TurnRequest{TurnID: *next.TurnID})
		r.must(err)
		r.enable(ann)
		r.must(r.Sweep(r.ctx))
		r.wantStatus(*mine.TurnID, gateway.TurnPending)
	})
}

// TestDisabled_SteersAreNotOffered: a steer would make the running turn ask its model
// once more. It waits, and is the next message once the account is enabled.
func TestDisabled_SteersAreNotOffered(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		r.enrol(ann)
		th, turnID := r.streaming("one", "text")
		r.say(th, "two", mode(gateway.ModeSteer))
		r.disable(ann)
		if offer := r.poll(r.runOf(turnID)); offer.Outcome != gateway.OfferEmpty {
			t.Fatalf("offer %s", asJSON(t, offer))
		}
		r.enable(ann)
		if offer := r.poll(r.runOf(turnID)); offer.Outcome != gateway.OfferReserved {
			t.Fatalf("offer %s", asJSON(t, offer))
		}
	})
}
