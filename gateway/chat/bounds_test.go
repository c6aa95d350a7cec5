package chat_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestSend_APartHoldsNothingBesideItsKind: what has no limit of its own, since no
// prompt is made of it, is refused by name.
func TestSend_APartHoldsNothingBesideItsKind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := strings.Repeat("x", 900<<10)
	for path, part := range map[string]gateway.Part{
		"userMessage.parts[1].text":          {Type: "model", SelectedModel: "alpha", Text: long},
		"userMessage.parts[1].selectedModel": {Type: "text", Text: "hello", SelectedModel: long},
	} {
		m := text("hello")
		m.Parts = append(m.Parts, part)
		_, err := r.Send(r.ctx, ann, gateway.SendRequest{ClientEventID: id(), UserMessage: m})
		wantField(t, err, path, "unknown")
	}
	list, err := r.List(r.ctx, ann, gateway.ListRequest{})
	r.must(err)
	if len(list.Threads) != 0 {
		t.Errorf("kept %s", asJSON(t, list.Threads))
	}
}

// TestPushes_LongMessagesThatAreGivenBackFitIntoFrames: the end of a turn issues all
// its steers again, in one transaction.
func TestPushes_LongMessagesThatAreGivenBackFitIntoFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turn := r.streaming("hello", "text")
	for range 9 {
		r.asSteer(th, strings.Repeat("x", wire.MaxPromptBytes))
	}
	r.over(turn)
	last := int64(0)
	for _, p := range r.published(gateway.ThreadTopic(th), "thread.events") {
		if len(p.Raw) > gateway.MaxFrameBytes {
			t.Errorf("a push of events %d to %d has %d bytes", p.FirstSeq, p.LastSeq, len(p.Raw))
		}
		if p.FirstSeq <= last {
			t.Errorf("events from %d on were told after %d", p.FirstSeq, last)
		}
		last = p.LastSeq
	}
}

// TestSQ74_WhatNoProviderReportsEndsATurnAllTheSame: an id that no index takes, and
// counts that no credits hold, neither keep the end out of the store nor turn what is
// owed into what is had.
func TestSQ74_WhatNoProviderReportsEndsATurnAllTheSame(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		metered(r)
		r.respawn()
		r.entitle(gateway.EntitlementActive, ptr[int64](1000))
		chance := rand.New(rand.NewPCG(1, 2))
		var name strings.Builder
		for range 4000 { // nothing that could be compressed
			name.WriteByte(byte('!' + chance.IntN(90)))
		}
		var turns []string
		for range 3 {
			r.entitle(gateway.EntitlementActive, ptr[int64](1000))
			reply := r.say("", "hi")
			r.accept()
			p := using(fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, uint64(math.MaxUint64), uint64(math.MaxUint64)), name.String())
			p.Outcome.Finish, p.Outcome.RetryAt = strings.Repeat("y", 2<<20), strings.Repeat("z", 2<<20)
			r.end(*reply.TurnID, p)
			r.wantStatus(*reply.TurnID, gateway.TurnCompleted)
			turns = append(turns, *reply.TurnID)
			if left := r.credits(); left == nil || *left >= 0 {
				t.Fatalf("%s credits are left", asJSON(t, left))
			}
			for _, e := range r.eventsOf(reply.ThreadID, gateway.EventTurnCompleted) {
				if e.Finish != "" || e.RetryAt != "" {
					t.Errorf("the end tells %d and %d bytes of what it is", len(e.Finish), len(e.RetryAt))
				}
			}
		}
		for _, turn := range turns {
			if rows := r.turn(turn).Usage; len(rows) != 2 || len(rows[0].ResponseID) > 256 {
				t.Errorf("usage %.300s", asJSON(t, rows))
			}
		}
	})
}
