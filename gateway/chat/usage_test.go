package chat_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// prices are those of every model of a rig that is metered.
var prices = gateway.Prices{Input: 3_000_000, Output: 15_000_000, CacheRead: 1, CacheCreation: 4_000_000}

func metered(r *rig) {
	r.routes.Change(func(route *gateway.Route) { route.Billing, route.Prices = gateway.BillingMetered, prices })
	r.config = func(c *chat.Config) {
		c.Prices = func(provider, _ string) (gateway.Prices, bool) { return prices, strings.HasPrefix(provider, "test-") }
	}
}

// using is a good end with what the provider reported.
func using(usage, responseID string) wire.CompletedPayload {
	p := completed()
	p.Turn.Usage, p.Outcome.ResponseID = json.RawMessage(usage), responseID
	return p
}

// charges reads what was booked for a turn.
func (r *rig) charges(turnID string) (rows []gateway.ChargeRow) {
	r.Helper()
	r.must(r.sql.Chat().View(r.ctx, func(tx gateway.ChatTx) (err error) {
		rows, err = tx.Charges(r.ctx, turnID)
		return err
	}))
	return rows
}

// usage is the usage of a turn in short, and what its owner sees of an estimate.
func (r *rig) usage(turnID string) string {
	r.Helper()
	t := r.turn(turnID)
	var parts []string
	for _, u := range t.Usage {
		s := fmt.Sprintf("%s:%s=%d", u.ResponseID, strings.TrimPrefix(u.Category, "tokens."), u.Quantity)
		if u.Cost != nil {
			s += fmt.Sprintf("(%d)", *u.Cost)
		}
		parts = append(parts, s)
	}
	slices.Sort(parts)
	if e := t.UsageEstimate; e != nil {
		parts = append(parts, fmt.Sprintf("estimate=%d+%d", e.Input, e.Output))
	}
	return strings.Join(parts, " ")
}

func (r *rig) wantUsage(turnID, want string) {
	r.Helper()
	if got := r.usage(turnID); got != want {
		r.Fatalf("usage\n got %s\nwant %s", got, want)
	}
}

// credits reads what is left of ann's org.
func (r *rig) credits() (left *int64) {
	r.Helper()
	r.must(r.sql.Chat().View(r.ctx, func(tx gateway.ChatTx) error {
		a, err := tx.Admission(r.ctx, ann.OrgID, ann.AccountID)
		left = a.Credits
		return err
	}))
	return left
}

// TestSQ74_AMeteredTurnIsChargedOnce: each quantity, sorted by category, rounded
// up, with an id that is made of turn, response and category.
func TestSQ74_AMeteredTurnIsChargedOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		metered(r)
		r.respawn()
		r.entitle(gateway.EntitlementActive, ptr[int64](1000))
		reply := r.say("", "hi")
		r.accept()
		run := r.runOf(*reply.TurnID)
		r.end(*reply.TurnID, using(`{"input_tokens":15,"output_tokens":3,"prompt_cache_hit_tokens":4,"prompt_cache_write_tokens":6}`, "resp_9"))
		r.wantUsage(*reply.TurnID, "resp_9:cache_creation=6(24) resp_9:cache_read=4(1) resp_9:input=5(15) resp_9:output=3(45)")
		rows := r.charges(*reply.TurnID)
		var story []string
		for _, c := range rows {
			story = append(story, fmt.Sprintf("%s %d", c.Category, c.Credits))
			if c.Provider != "test-alpha" || c.Model != "alpha" || c.OrgID != ann.OrgID || c.AccountID != ann.AccountID || c.CreatedAt == 0 {
				t.Errorf("charge %+v", c)
			}
			name := asJSON(t, []string{*reply.TurnID, "resp_9", c.Category})
			if want := uuid.NewSHA1(uuid.MustParse("5f1c0a2e-8f0b-5c57-9a3e-0d6c2f7b41d9"), []byte(name)).String(); c.ID != want {
				t.Errorf("id %s, want %s of %s", c.ID, want, name)
			}
			if uuid.MustParse(c.ID).Version() != 5 {
				t.Errorf("id %s is of no version 5", c.ID)
			}
		}
		if got := strings.Join(story, ", "); got != "tokens.cache_creation 24, tokens.cache_read 1, tokens.input 15, tokens.output 45" {
			t.Errorf("charges %s", got)
		}
		virtual, _ := r.host.Turn(run)
		r.endFor(run, virtual, using(`{"input_tokens":15,"output_tokens":3,"prompt_cache_hit_tokens":4,"prompt_cache_write_tokens":6}`, "resp_9"))
		if again := r.charges(*reply.TurnID); !slices.Equal(again, rows) {
			t.Errorf("the same end again booked %+v", again)
		}
		if left := r.credits(); left == nil || *left != 1000-24-1-15-45 {
			t.Errorf("%v credits are left", left)
		}
	})
}

func TestSQ74_WhatIsNotCharged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, usage, want string
		own               bool
	}{
		{"the owner's key", `{"input_tokens":5,"output_tokens":3}`, "resp:input=5 resp:output=3", true},
		{"zero quantities are left out", `{"input_tokens":5,"output_tokens":0,"prompt_cache_hit_tokens":0}`, "resp:input=5(15)", false},
		{"all input was cached", `{"input_tokens":5,"output_tokens":1,"prompt_cache_hit_tokens":5}`, "resp:cache_read=5(1) resp:output=1(15)", false},
		{
			"reasoning outside of the output is output", `{"input_tokens":1,"output_tokens":1,"reasoning_tokens":2,"reasoning_outside":true}`,
			"resp:input=1(3) resp:output=1(15) resp:reasoning=2(30)", false,
		},
		{"reasoning within it is not charged twice", `{"input_tokens":1,"output_tokens":3,"reasoning_tokens":2}`, "resp:input=1(3) resp:output=3(45)", false},
		{
			"a number beyond all", `{"input_tokens":18446744073709551615,"output_tokens":1}`,
			"resp:input=9223372036854775807(1000000000000000) resp:output=1(15)", false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, metered)
			if c.own {
				r.routes.Change(func(route *gateway.Route) { route.Billing = gateway.BillingOwn })
			}
			reply := r.say("", "hi")
			r.accept()
			r.end(*reply.TurnID, using(c.usage, "resp"))
			r.wantUsage(*reply.TurnID, c.want)
			if charged := len(r.charges(*reply.TurnID)) > 0; charged == c.own {
				t.Errorf("charged: %v", charged)
			}
		})
	}
}

// TestSQ74_EvenWhatIsFreeCostsSomething: the sum of a turn is never zero.
func TestSQ74_EvenWhatIsFreeCostsSomething(t *testing.T) {
	t.Parallel()
	r := newRig(t, metered, func(r *rig) { r.config = nil }) // the price was taken out of the settings
	reply := r.say("", "hi")
	r.accept()
	r.end(*reply.TurnID, using(`{"input_tokens":5,"output_tokens":3}`, "resp"))
	r.wantUsage(*reply.TurnID, "resp:input=5(1) resp:output=3(0)")
}

// TestSQ74_EachResponseOfATurnIsBookedApart: a steer makes a second request in the
// same turn, also where a provider gives no ids, or the same twice.
func TestSQ74_EachResponseOfATurnIsBookedApart(t *testing.T) {
	t.Parallel()
	use := func(in, out uint64) wire.Usage { return wire.Usage{InputTokens: in, OutputTokens: out} }
	for _, c := range []struct {
		name      string
		responses []wire.ResponseUsage
		want      string
	}{
		{"two ids", []wire.ResponseUsage{{ResponseID: "a", Usage: use(1, 2)}, {ResponseID: "b", Usage: use(3, 4)}}, "a:input=1 a:output=2 b:input=3 b:output=4"},
		{"one id twice", []wire.ResponseUsage{{ResponseID: "a", Usage: use(1, 2)}, {ResponseID: "a", Usage: use(3, 4)}}, "a#2:input=3 a#2:output=4 a:input=1 a:output=2"},
		{"an id like one that is made", []wire.ResponseUsage{
			{ResponseID: "a#3", Usage: use(1, 0)}, {ResponseID: "a", Usage: use(2, 0)}, {ResponseID: "a", Usage: use(3, 0)},
		}, "a#3:input=1 a#4:input=3 a:input=2"},
		{"no ids", []wire.ResponseUsage{{Usage: use(1, 2)}, {Usage: use(3, 4)}}, "V#2:input=3 V#2:output=4 V:input=1 V:output=2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			reply := r.say("", "hi")
			r.accept()
			p := using(`{"input_tokens":4,"output_tokens":6}`, "b")
			p.Outcome.Responses = c.responses
			r.end(*reply.TurnID, p)
			virtual, _ := r.host.Turn(r.runOf(*reply.TurnID))
			if got := strings.ReplaceAll(r.usage(*reply.TurnID), virtual, "V"); got != c.want {
				t.Errorf("usage\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestSQ74_TheEndOfACancelledTurnIsCharged: what was used was used; also if the
// org has nothing left, and its thread is gone.
func TestSQ74_TheEndOfACancelledTurnIsCharged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		stop func(r *rig, threadID, turnID string)
	}{
		{"interrupted", func(r *rig, threadID, turnID string) { r.interrupt(threadID, turnID) }},
		{"thread deleted", func(r *rig, threadID, _ string) {
			r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: threadID}))
		}},
		{"timed out", func(r *rig, _, _ string) {
			r.tick(3 * 60 * 60 * 1e9)
			r.must(r.Sweep(r.ctx))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, metered)
			threadID, turnID := r.streaming("hi", "some text")
			run := r.runOf(turnID)
			virtual, _ := r.host.Turn(run)
			c.stop(r, threadID, turnID)
			r.endFor(run, virtual, using(`{"input_tokens":5,"output_tokens":3}`, "late"))
			if rows := r.charges(turnID); len(rows) != 2 || rows[0].Credits+rows[1].Credits != 60 {
				t.Errorf("charges %+v", rows)
			}
		})
	}
}

// TestF26_NothingReportedIsEstimated: once, marked as such, for turns that a host
// knew; a report that comes later takes its place.
func TestF26_NothingReportedIsEstimated(t *testing.T) {
	t.Parallel()
	r := newRig(t, metered)
	threadID, turnID := r.streaming("two words", "twelve bytes")
	r.interrupt(threadID, turnID)
	estimated := r.usage(turnID)
	if !strings.HasPrefix(estimated, "estimate=") || strings.HasSuffix(estimated, "+0") || strings.HasPrefix(estimated, "estimate=0") {
		t.Fatalf("usage %q", estimated)
	}
	if rows := r.charges(turnID); len(rows) != 0 {
		t.Errorf("an estimate was charged: %+v", rows)
	}
	virtual, _ := r.host.Turn(r.runOf(turnID))
	r.endFor(r.runOf(turnID), virtual, using(`{"input_tokens":5,"output_tokens":3}`, "late"))
	r.wantUsage(turnID, "late:input=5(15) late:output=3(45)")
	t.Run("a turn that no host knew used nothing", func(t *testing.T) {
		defer r.under(t)()
		reply := r.say("", "hi")
		r.interrupt(reply.ThreadID, *reply.TurnID)
		r.wantUsage(*reply.TurnID, "")
	})
	t.Run("a turn that its provider turned away used nothing", func(t *testing.T) {
		defer r.under(t)()
		for _, code := range []wire.Code{wire.CodeModelUnreachable, wire.CodeModelCredentialInvalid, wire.CodeModelRateLimited} {
			reply := r.say("", "hi")
			r.accept()
			r.end(*reply.TurnID, gatewaytest.Failed(code))
			r.wantUsage(*reply.TurnID, "")
		}
	})
	t.Run("a turn that a host may have had used its prompt", func(t *testing.T) {
		defer r.under(t)()
		reply := r.say("", "hi")
		r.must(r.host.Fetch(r.ctx, r.Service))
		r.host.LoseAnswers()
		r.interrupt(reply.ThreadID, *reply.TurnID)
		if got := r.usage(*reply.TurnID); !strings.HasPrefix(got, "estimate=") || !strings.HasSuffix(got, "+0") {
			t.Errorf("usage %q", got)
		}
	})
}

// TestF26_OneBookingForEachTurn: whoever goes at whatever byte, and whether the
// process ends there, the turn has exactly one booking: what was reported, or an
// estimate of at least the tokens that were delivered.
func TestF26_OneBookingForEachTurn(t *testing.T) {
	t.Parallel()
	script := []string{"Ship ", "it", ", ", "语", "言", " 🌍", "\n\n", "42", " times", "!"}
	endings := map[string]func(r *rig, threadID, turnID string, told int){
		"the person stops it": func(r *rig, threadID, turnID string, _ int) { r.interrupt(threadID, turnID) },
		"its host is lost": func(r *rig, _, turnID string, _ int) {
			r.Waiting(r.ctx, r.runOf(turnID), "host_offline", r.now())
			r.tick(200 * 1e9)
			r.must(r.Sweep(r.ctx))
		},
		"a crash, then its host is lost": func(r *rig, _, _ string, _ int) {
			r.respawn()
			r.tick(200 * 1e9)
			r.must(r.Sweep(r.ctx))
		},
		"the stream is cut": func(r *rig, _, turnID string, _ int) { r.end(turnID, gatewaytest.Failed(wire.CodeModelStreamCut)) },
		"its host restarted": func(r *rig, _, turnID string, _ int) {
			r.end(turnID, wire.CompletedPayload{Turn: wire.CompletedTurn{Status: wire.NativeInterrupted}})
		},
		"the last chunk came": func(r *rig, _, turnID string, told int) {
			r.end(turnID, using(fmt.Sprintf(`{"input_tokens":7,"output_tokens":%d}`, told), "resp"))
		},
		"the last chunk came after the stop": func(r *rig, threadID, turnID string, told int) {
			run := r.runOf(turnID)
			virtual, _ := r.host.Turn(run)
			r.interrupt(threadID, turnID)
			r.endFor(run, virtual, using(fmt.Sprintf(`{"input_tokens":7,"output_tokens":%d}`, told), "resp"))
			r.endFor(run, virtual, using(fmt.Sprintf(`{"input_tokens":7,"output_tokens":%d}`, told), "resp"))
		},
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for told := range len(script) + 1 {
				threadID, turnID := r.streaming("say something", script[:told]...)
				end(r, threadID, turnID, told)
				turn := r.turn(turnID)
				if !turn.Status.Final() {
					t.Fatalf("after %d tokens the turn is %s", told, turn.Status)
				}
				bookings, output := 0, int64(0)
				for _, u := range turn.Usage {
					if u.Category == "tokens.output" {
						bookings, output = bookings+1, u.Quantity
					}
				}
				if reported := len(turn.Usage) > 0; reported != strings.HasPrefix(name, "the last chunk") {
					t.Errorf("after %d tokens reported: %v", told, reported)
				}
				if e := turn.UsageEstimate; e != nil {
					bookings, output = bookings+1, e.Output
				}
				if bookings != min(1, bookings+told) || output < int64(told) || (told > 0 && bookings != 1) {
					t.Errorf("after %d tokens %d bookings of %d", told, bookings, output)
				}
			}
		})
	}
}
