package chat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// audited lists the actions of the audit log of an org about a target, newest first.
func (r *rig) audited(orgID, target string) (actions []gateway.AuditAction) {
	r.Helper()
	entries, err := r.sql.Accounts().Audit(r.ctx, orgID, "", 50)
	r.must(err)
	for _, e := range entries {
		if e.Target == target {
			if e.OrgID != orgID || e.AccountID != ann.AccountID {
				r.Fatalf("audit entry %+v", e)
			}
			actions = append(actions, e.Action)
		}
	}
	return actions
}

// TestDecision9_AnAdminEndsATurnWhoseHostIsDead: the turn is over at once, its text
// stays, the thread opens when the time for its host is over, and who did it is on
// record once.
func TestDecision9_AnAdminEndsATurnWhoseHostIsDead(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID := r.streaming("one", "text")
		r.Waiting(r.ctx, r.runOf(turnID), "host_offline", time.Time{})
		req := gateway.TurnRequest{TurnID: turnID}
		for range 2 {
			r.must(r.AdminEnd(r.ctx, ann, req))
		}
		if got := r.turn(turnID); got.Status != gateway.TurnCancelled || got.Reason != "ended_by_admin" {
			t.Fatalf("turn %s", asJSON(t, got))
		}
		r.wantLog(th, "input:one start:one output.partial:text turn.cancelled")
		if got := r.audited(ann.OrgID, turnID); len(got) != 1 || got[0] != gateway.AuditTurnEnded {
			t.Fatalf("audit %v", got)
		}
		r.say(th, "two")
		if got := r.thread(th); got.Turn != nil || !got.CancellationRecoveryPending {
			t.Fatalf("thread %s", asJSON(t, got))
		}
		wantCode(t, r.AdminRelease(r.ctx, ann, req), wire.CodeBadRequest)
		r.tick(120 * time.Second)
		r.must(r.Sweep(r.ctx))
		r.wantTurn(th, "two")
	})
}

func TestAdminEnd_IsForTurnsOfTheOrgThatRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reply := r.say("", "one")
	req := gateway.TurnRequest{TurnID: *reply.TurnID}
	for _, act := range []func(gateway.Actor, gateway.TurnRequest) error{
		func(a gateway.Actor, req gateway.TurnRequest) error { return r.AdminEnd(r.ctx, a, req) },
		func(a gateway.Actor, req gateway.TurnRequest) error { return r.AdminRelease(r.ctx, a, req) },
	} {
		wantCode(t, act(bob, req), wire.CodeForbidden)
		wantCode(t, act(eve, req), wire.CodeNotFound)
		wantCode(t, act(ann, gateway.TurnRequest{TurnID: id()}), wire.CodeNotFound)
	}
	wantCode(t, r.AdminRelease(r.ctx, ann, req), gateway.CodeTurnActive) // pending
	r.accept()
	wantCode(t, r.AdminRelease(r.ctx, ann, req), gateway.CodeTurnActive)
	if got := r.turn(*reply.TurnID); got.Status != gateway.TurnRunning {
		t.Fatalf("turn %s", asJSON(t, got))
	}
	r.end(*reply.TurnID, gatewaytestCompleted())
	wantCode(t, r.AdminEnd(r.ctx, ann, req), gateway.CodeTurnNotActive)
	r.must(r.AdminRelease(r.ctx, ann, req)) // there is nothing to release
	if got := r.audited(ann.OrgID, *reply.TurnID); len(got) != 0 {
		t.Fatalf("audit %v", got)
	}
}

// TestSQ35_AnAdminReleasesAHeldThread: the host is linked, and for ever silent about
// the steer that it was given. Nothing but the admin opens the thread.
func TestSQ35_AnAdminReleasesAHeldThread(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID, _, offer := r.offered("A")
		r.must(interrupt(r, th, turnID))
		r.accept()
		req := gateway.TurnRequest{TurnID: turnID}
		wantCode(t, r.AdminRelease(r.ctx, ann, req), wire.CodeBadRequest)
		r.tick(120*time.Second + 1)
		r.must(r.Sweep(r.ctx))
		rows, err := r.AdminTurns(r.ctx, ann, gateway.Page{TurnID: turnID})
		r.must(err)
		if row := rows.Rows[0]; !row.Recovering || row.RecoverBy == nil || row.Delivery != gateway.DeliveryHeld {
			t.Fatalf("the read-out %s", asJSON(t, row))
		}
		for range 2 {
			r.must(r.AdminRelease(r.ctx, ann, req))
		}
		r.wantTurn(th, "A")
		if d := r.delivery(offer.DeliveryID); d.State.Open() {
			t.Fatalf("delivery %+v", d)
		}
		if got := r.audited(ann.OrgID, turnID); len(got) != 1 || got[0] != gateway.AuditThreadReleased {
			t.Fatalf("audit %v", got)
		}
	})
}

func TestAdminBinding_IsOfTheOrgAndWithoutText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("a secret prompt", "a secret answer")
	rows, err := r.AdminBindings(r.ctx, ann, gateway.Page{Binding: gateway.BindingOpen, ThreadID: th})
	r.must(err)
	id := rows.Rows[0].BindingID
	view, err := r.AdminBinding(r.ctx, ann, id)
	r.must(err)
	if view.SessionID != "chat:"+th || view.TargetRef == "" || len(view.Turns) != 1 || view.Turns[0].TurnID != turnID ||
		len(view.Commands) != 1 || view.Commands[0].State != gateway.CommandAcked || len(view.Events) != 2 {
		t.Fatalf("%s", asJSON(t, view))
	}
	if all := asJSON(t, view); strings.Contains(all, "secret") {
		t.Fatalf("text in %s", all)
	}
	_, err = r.AdminBinding(r.ctx, eve, id)
	wantCode(t, err, wire.CodeNotFound)
	_, err = r.AdminBinding(r.ctx, bob, id)
	wantCode(t, err, wire.CodeForbidden)
}
