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

const minute = time.Minute

func (r *rig) wantDeadlines(scanned, steered int) {
	r.Helper()
	got, err := r.SweepDeadlines(r.ctx)
	r.must(err)
	if got != (chat.Deadlines{Scanned: scanned, Steered: steered}) {
		r.Fatalf("the sweep found %+v, want %d and %d", got, scanned, steered)
	}
}

func TestDeadline_TheTurnIsWarnedOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		th, turnID := r.streaming("hello", "some text")
		run := r.runOf(turnID)
		t.Run("SQ43 not at 114 minutes, but at 115", func(t *testing.T) {
			r.tick(114 * minute)
			r.wantDeadlines(0, 0)
			r.wantPoll(run, gateway.OfferEmpty, "")
			r.tick(minute)
			woken := r.wakes.of(run)
			r.wantDeadlines(1, 1)
			if r.wakes.of(run) == woken {
				t.Fatal("the host was not woken")
			}
			r.wantDeadlines(1, 0)
		})
		offer := r.poll(run)
		t.Run("SQ44 it is offered like any steer, with a fixed text", func(t *testing.T) {
			if offer.Outcome != gateway.OfferReserved || len(offer.EventIDs) != 1 {
				t.Fatalf("offer %s", asJSON(t, offer))
			}
			for _, part := range []string{"hard limit of 2 hours", "115 minutes", "about 5 minutes", "goal", "what was done", "what was checked", "what is left", "in the way", "finish the turn normally"} {
				if !strings.Contains(offer.Steer.Text, part) {
					t.Errorf("%q is missing in %q", part, offer.Steer.Text)
				}
			}
			r.took(offer.Steer, 9, wire.ReceiptDelivered)
			r.wantPoll(run, gateway.OfferEmpty, "")
			list := r.eventsOf(th, gateway.EventInputDeadline)
			if len(list) != 1 || list[0].TurnID != turnID || list[0].RevokesEventID != offer.EventIDs[0] {
				t.Fatalf("events %s", asJSON(t, list))
			}
		})
		t.Run("SQ45 people see the text and nothing else", func(t *testing.T) {
			m := r.eventsOf(th, gateway.EventInputDeadline)[0].UserMessage
			if m == nil || len(m.Parts) != 1 || m.Parts[0].Type != "text" || m.Parts[0].Text != offer.Steer.Text {
				t.Fatalf("message %s", asJSON(t, m))
			}
		})
		t.Run("SQ43 once a turn", func(t *testing.T) {
			r.wantDeadlines(1, 0)
			r.wantPoll(run, gateway.OfferEmpty, "")
			r.respawn()
			r.wantDeadlines(1, 0)
		})
	})
}

func TestSQ46_AWarningIsNeverQueued(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(r *rig, th, turnID string)
	}{
		{"the turn was cancelled", func(r *rig, th, turnID string) {
			r.must(interrupt(r, th, turnID))
			r.wantPoll(r.runOf(turnID), gateway.OfferHeld, "")
			r.accept()
			r.over(turnID)
		}},
		{"the turn went well", func(r *rig, _, turnID string) { r.over(turnID) }},
	} {
		t.Run("SQ46 "+c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			th, turnID := r.streaming("hello", "x")
			run := r.runOf(turnID)
			r.tick(115 * minute)
			r.wantDeadlines(1, 1)
			offer := r.poll(run)
			c.end(r, th, turnID)
			r.took(offer.Steer, 1, wire.ReceiptRejected)
			revokes := r.eventsOf(th, gateway.EventControlRevoke)
			if len(revokes) != 1 || revokes[0].TurnID != turnID || revokes[0].RevokesEventID != offer.EventIDs[0] {
				t.Fatalf("revokes %s", asJSON(t, revokes))
			}
			next := r.say(th, "next")
			if next.TurnID == nil {
				t.Fatalf("reply %s", asJSON(t, next))
			}
			r.accept()
			r.wantPoll(run, gateway.OfferEmpty, "")
		})
	}
}

func TestDeadline_OnlyWhereTheHostTakesSteers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, turnID := r.streaming("hello", "x")
	r.routes.Use("host-2", "alpha")
	r.tick(116 * minute)
	r.wantDeadlines(1, 0)
	r.wantPoll(r.runOf(turnID), gateway.OfferEmpty, "")
	r.routes.Use(hostID, "alpha")
	r.wantDeadlines(1, 1)
}

func TestDeadline_FollowsTheLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		deadline, warn   time.Duration
		before, after    time.Duration
		says             string
		scanned, steered int
	}{
		{"a shorter deadline is warned of in the same measure", 2 * minute, 0, 114 * time.Second, 115 * time.Second, "about 5 seconds are left", 1, 1},
		{"a time of its own", 2 * time.Hour, 90 * minute, 89 * minute, 90 * minute, "90 minutes of it are used, about 30 minutes", 1, 1},
		{"never", 2 * time.Hour, -1, time.Minute, 119 * minute, "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(r *rig) { r.limits.TurnDeadline, r.limits.DeadlineWarning = c.deadline, c.warn })
			_, turnID := r.streaming("hello", "x")
			r.tick(c.before)
			r.wantDeadlines(0, 0)
			r.tick(c.after - c.before)
			r.wantDeadlines(c.scanned, c.steered)
			if offer := r.poll(r.runOf(turnID)); c.steered > 0 && !strings.Contains(offer.Steer.Text, c.says) {
				t.Fatalf("it says %q", offer.Steer.Text)
			}
			r.end(turnID, gatewaytest.Completed())
		})
	}
}
