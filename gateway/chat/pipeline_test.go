package chat_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestCG68_TheServerWritesTheModel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sent := gateway.UserMessage{Version: 1, Parts: []gateway.Part{
		{Type: "model", SelectedModel: "gamma"}, {Type: "text", Text: "hello"}, {Type: "model", SelectedModel: "delta"},
	}}
	reply, err := r.Send(r.ctx, ann, gateway.SendRequest{ClientEventID: id(), UserMessage: sent, Model: "beta"})
	r.must(err)
	events := r.events(reply.ThreadID)
	if got := asJSON(t, events[0].UserMessage); got != asJSON(t, sent) {
		t.Fatalf("the queued event has %s", got)
	}
	if got := asJSON(t, events[1].UserMessage.Parts); got != `[{"type":"text","text":"hello"},{"type":"model","selectedModel":"beta"}]` {
		t.Fatalf("the replacement has %s", got)
	}
	r.accept()
	if _, turn := r.host.Turn(r.runOf(*reply.TurnID)); turn.Request.Prompt != "hello" || turn.Request.Model != "beta" {
		t.Fatalf("request %+v", turn.Request)
	}
	t.Run("a message of nothing but a model is blank", func(t *testing.T) {
		_, err := r.Send(r.ctx, ann, gateway.SendRequest{ClientEventID: id(), UserMessage: gateway.UserMessage{Version: 1, Parts: sent.Parts[:1]}})
		wantField(t, err, "userMessage.parts[0].text", "blank")
	})
	t.Run("a model part without a model is refused", func(t *testing.T) {
		_, err := r.Send(r.ctx, ann, gateway.SendRequest{ClientEventID: id(), UserMessage: gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "model"}}}})
		wantField(t, err, "userMessage.parts[0].selectedModel", "required")
	})
}

func TestCG70_TheTimelineBeginsWithTheRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, anchor := r.streaming("anchor", "text")
	arrived := r.now().Add(-250 * time.Millisecond)
	req := message(th, "hello")
	req.ReceivedAt = arrived
	_, err := r.Send(r.ctx, ann, req)
	r.must(err)
	r.tick(time.Minute)
	r.end(anchor, gatewaytest.Completed())
	turn := r.turn(r.wantTurn(th, "hello"))
	if first := turn.Timeline[0]; first.Stage != "received" || !first.At.Equal(arrived) {
		t.Fatalf("timeline %s", asJSON(t, turn.Timeline))
	}
	for i, m := range turn.Timeline[1:] {
		if m.At.Before(turn.Timeline[i].At.Time) {
			t.Fatalf("timeline %s", asJSON(t, turn.Timeline))
		}
	}
}

// TestCG71_WhatCountsAtThePromotionIsReadThen: the model that the thread has by
// then, the newest event of the message's chain, the message as it was sent.
func TestCG71_WhatCountsAtThePromotionIsReadThen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, anchor := r.streaming("anchor", "text")
	waiting := r.say(th, "first words")
	again := r.say(th, "better words", func(q *gateway.SendRequest) { q.RevokesEventID = waiting.EventID })
	beta := "beta"
	r.must(r.SetModel(r.ctx, ann, gateway.SetModelRequest{ThreadID: th, Model: &beta}))
	r.end(anchor, gatewaytest.Completed())
	turnID := r.wantTurn(th, "better words")
	events := r.events(th)
	if last := events[len(events)-1]; last.RevokesEventID != again.EventID || last.OriginID != waiting.EventID {
		t.Fatalf("replacement %s", asJSON(t, last))
	}
	if turn := r.turn(turnID); turn.Model != "beta" {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
}

// stuckBus hangs or panics on what is published to one topic.
type stuckBus struct {
	gateway.Bus
	topic string
	panic bool

	mu    sync.Mutex
	tries int
	free  chan struct{}
}

func (b *stuckBus) Publish(topic string, p gateway.Push) {
	if topic == b.topic {
		b.mu.Lock()
		b.tries++
		b.mu.Unlock()
		if b.panic {
			panic("the bus is broken")
		}
		<-b.free
	}
	b.Bus.Publish(topic, p)
}

func stuck(r *rig, topic string, broken bool) *stuckBus {
	b := &stuckBus{topic: topic, panic: broken, free: make(chan struct{})}
	r.config = func(c *chat.Config) { b.Bus, c.Bus = c.Bus, b }
	r.respawn()
	return b
}

func TestCG74_APublicationThatHangsDelaysNothing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		bus := stuck(r, gateway.AccountTopic(ann.AccountID), false)
		free := sync.OnceFunc(func() { close(bus.free) })
		t.Cleanup(free)
		reply := r.say("", "hello")
		if reply.TurnID == nil {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
		r.say(reply.ThreadID, "next")
		r.accept()
		r.host.Say(r.runOf(*reply.TurnID), "text")
		r.end(*reply.TurnID, gatewaytest.Completed())
		r.wantTurn(reply.ThreadID, "next")
		r.wantLog(reply.ThreadID, "input:hello start:hello input:next output.message:text turn.completed start:next")
		r.until("the thread's own viewers are told", func() bool {
			return len(r.bus.Pushes(gateway.ThreadTopic(reply.ThreadID), "thread.events")) >= 5
		})
		if bus.mu.Lock(); bus.tries != 1 {
			t.Errorf("%d publications hang", bus.tries)
		}
		bus.mu.Unlock()
		free()
		made := 0
		for _, p := range r.published(gateway.AccountTopic(ann.AccountID)) {
			if strings.Contains(string(p.Raw), `"kind":"created"`) {
				made++
			}
		}
		if made != 1 {
			t.Fatalf("the thread was told of as new %d times", made)
		}
	})
}

func TestCG75_APublicationThatFailsFailsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bus := stuck(r, gateway.AccountTopic(ann.AccountID), true)
	th, anchor := r.streaming("anchor", "text")
	req := message(th, "waits")
	first, err := r.Send(r.ctx, ann, req)
	r.must(err)
	r.until("all is told", r.Told)
	bus.mu.Lock()
	tries := bus.tries
	bus.mu.Unlock()
	again, err := r.Send(r.ctx, ann, req)
	r.must(err)
	if first.TurnID != nil || again.TurnID != nil || again.ThreadID != first.ThreadID || !again.Replayed {
		t.Fatalf("replies %s and %s", asJSON(t, first), asJSON(t, again))
	}
	r.until("all is told", r.Told)
	if bus.mu.Lock(); bus.tries != tries {
		t.Errorf("the retry published %d times", bus.tries-tries)
	}
	bus.mu.Unlock()
	r.end(anchor, gatewaytest.Completed())
	r.wantTurn(th, "waits")
}

// TestSQ37_ABrokenBusSpoilsNoSweep: what cannot be told is no error of a sweep.
func TestSQ37_ABrokenBusSpoilsNoSweep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("one", "text")
	r.say(th, "two")
	stuck(r, gateway.ThreadTopic(th), true)
	r.Waiting(r.ctx, r.runOf(turnID), "host_offline", time.Time{})
	r.tick(3 * time.Minute)
	swept, err := r.SweepTimeouts(r.ctx)
	r.must(err)
	if swept != (chat.Swept{Cleaned: 1}) {
		t.Fatalf("swept %+v", swept)
	}
	if turn := r.turn(turnID); turn.Status != gateway.TurnTimeout {
		t.Fatalf("turn %s", asJSON(t, turn))
	}
	r.wantTurn(th, "two")
}

func TestSQ20_ACancelLeavesNoInterrupt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "half")
	for range 2 {
		reply, err := r.CancelTurn(r.ctx, ann, gateway.TurnRequest{TurnID: turnID})
		r.must(err)
		if reply.ThreadID != th || reply.TurnID != nil || reply.Disposition != gateway.DispositionInterrupted {
			t.Fatalf("reply %s", asJSON(t, reply))
		}
	}
	r.wantLog(th, "input:hello start:hello output.partial:half turn.cancelled")
	_, err := r.Interrupt(r.ctx, ann, gateway.InterruptRequest{ThreadID: th, TurnID: turnID, ClientEventID: id()})
	wantCode(t, err, gateway.CodeTurnNotActive)
	t.Run("CG81: the thread stays closed until the host tells the end", func(t *testing.T) {
		next := r.say(th, "next")
		if next.Disposition != gateway.DispositionQueued || !r.thread(th).CancellationRecoveryPending {
			t.Fatalf("reply %s", asJSON(t, next))
		}
		r.accept()
		r.end(turnID, gatewaytest.Completed())
		done := r.wantTurn(th, "next")
		r.accept()
		r.end(done, gatewaytest.Completed())
		_, err := r.CancelTurn(r.ctx, ann, gateway.TurnRequest{TurnID: done})
		wantCode(t, err, gateway.CodeTurnNotActive)
	})
	t.Run("SQ23: of a turn that no host knows it leaves nothing to recover", func(t *testing.T) {
		fresh := r.say("", "one")
		r.say(fresh.ThreadID, "two")
		_, err := r.CancelTurn(r.ctx, ann, gateway.TurnRequest{TurnID: *fresh.TurnID})
		r.must(err)
		r.wantTurn(fresh.ThreadID, "two")
	})
	t.Run("SQ70: another's turn is not found", func(t *testing.T) {
		for _, actor := range []gateway.Actor{bob, eve} {
			_, err := r.CancelTurn(r.ctx, actor, gateway.TurnRequest{TurnID: turnID})
			wantCode(t, err, wire.CodeNotFound)
		}
		_, err := r.CancelTurn(r.ctx, ann, gateway.TurnRequest{TurnID: id()})
		wantCode(t, err, wire.CodeNotFound)
	})
}

func TestSQ70_AThreadOfOthersIsNotFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th := r.say("", "mine").ThreadID
	sameName := gateway.Actor{AccountID: ann.AccountID, OrgID: eve.OrgID}
	for _, actor := range []gateway.Actor{bob, eve, sameName} {
		for _, thread := range []string{th, id()} {
			_, err := r.Send(r.ctx, actor, message(thread, "x"))
			wantCode(t, err, wire.CodeNotFound)
		}
	}
	r.wantLog(th, "input:mine start:mine")
}

// TestSQ72_AnEndWithoutADurableNativeEndFails: a host whose process ended under a
// turn says that it was interrupted, although nobody asked for that.
func TestSQ72_AnEndWithoutADurableNativeEndFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, status := range []string{wire.NativeInterrupted, wire.NativeCanceled, "", "unheard-of"} {
		th, turnID := r.streaming("hello", "half")
		r.end(turnID, wire.CompletedPayload{Turn: wire.CompletedTurn{Status: status}})
		if turn := r.turn(turnID); turn.Status != gateway.TurnFailed || turn.Error == "" {
			t.Errorf("%q: turn %s", status, asJSON(t, turn))
		}
		if log := r.eventsOf(th, gateway.EventTurnFailed); len(log) != 1 {
			t.Errorf("%q: %d ends", status, len(log))
		}
	}
}

// crashStore ends the process after its first n updates: later ones fail.
type crashStore struct {
	gateway.ChatStore
	mu   sync.Mutex
	left int
}

func (c *crashStore) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	c.mu.Lock()
	c.left--
	dead := c.left < 0
	c.mu.Unlock()
	if dead {
		return errFault
	}
	return c.ChatStore.Update(ctx, fn)
}

// TestCG67_ACrashBetweenAcceptAndClaim: the message waits in an idle thread; the
// next process starts it, or whoever sends it again does.
func TestCG67_ACrashBetweenAcceptAndClaim(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		crash := func() (gateway.SendRequest, string) {
			th := r.emptyThread()
			r.wrap = func(s gateway.ChatStore) gateway.ChatStore { return &crashStore{ChatStore: s, left: 1} }
			r.respawn()
			req := message(th, "hello")
			if _, err := r.Send(r.ctx, ann, req); err == nil {
				t.Fatal("the crash did not happen")
			}
			r.wantLog(th, "input:hello")
			r.wrap = nil
			return req, th
		}
		t.Run("the next start takes it, and settles its reply", func(t *testing.T) {
			req, th := crash()
			r.respawn()
			turnID := r.wantTurn(th, "hello")
			again, err := r.Send(r.ctx, ann, req)
			r.must(err)
			if again.TurnID == nil || *again.TurnID != turnID || again.Disposition != gateway.DispositionStarted || !again.Replayed {
				t.Fatalf("SQ73: reply %s", asJSON(t, again))
			}
		})
		t.Run("a retry takes it", func(t *testing.T) {
			req, th := crash()
			r.routes.Fail(wire.NewError(wire.CodeHostOffline, "Not now.")) // the start cannot
			r.respawn()
			r.routes.Fail(nil)
			var replies [2]gateway.SendReply
			var wg sync.WaitGroup
			for i := range replies {
				wg.Go(func() {
					var err error
					if replies[i], err = r.Send(r.ctx, ann, req); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if replies[0].TurnID == nil || asJSON(t, replies[0]) != asJSON(t, replies[1]) {
				t.Fatalf("replies %s", asJSON(t, replies))
			}
			r.wantLog(th, "input:hello start:hello")
		})
		t.Run("SQ73: what was recalled before anybody answered stays queued in the reply", func(t *testing.T) {
			req, th := crash()
			r.routes.Fail(wire.NewError(wire.CodeHostOffline, "Not now."))
			r.respawn()
			r.must(r.recall(th, req.ClientEventID))
			r.routes.Fail(nil)
			for range 2 {
				again, err := r.Send(r.ctx, ann, req)
				r.must(err)
				if again.TurnID != nil || again.Disposition != gateway.DispositionQueued {
					t.Fatalf("reply %s", asJSON(t, again))
				}
			}
			r.wantLog(th, "input:hello control.revoke")
		})
	})
}

// TestF05_ARetriedSendIsOneTurn: five tries, two of them at once, with a process
// that ends at any of its commits.
func TestF05_ARetriedSendIsOneTurn(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		for n := range 4 {
			th := r.emptyThread()
			r.host = gatewaytest.NewHost(hostID + fmt.Sprint(n))
			r.routes.Use(r.host.ID, "alpha")
			r.wrap = func(s gateway.ChatStore) gateway.ChatStore { return &crashStore{ChatStore: s, left: n} }
			r.respawn()
			req := message(th, "hello")
			_, first := r.Send(r.ctx, ann, req)
			if (first == nil) != (n >= 2) {
				t.Fatalf("a process that ends after %d commits: %v", n, first)
			}
			r.wrap = nil
			r.respawn()
			var mu sync.Mutex
			seen := map[string]int{}
			var wg sync.WaitGroup
			try := func() {
				reply, err := r.Send(r.ctx, ann, req)
				if err != nil || reply.TurnID == nil {
					t.Errorf("reply %s: %v", asJSON(t, reply), err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[*reply.TurnID]++
			}
			wg.Go(try)
			wg.Go(try)
			wg.Wait()
			for range 3 {
				try()
			}
			r.accept()
			if starts := r.host.Started(); len(seen) != 1 || len(starts) != 1 || starts[0].Starts != 1 {
				t.Fatalf("turns %v, host %+v", seen, starts)
			}
			r.wantLog(th, "input:hello start:hello")
		}
	})
}

// countingStore counts updates.
type countingStore struct {
	gateway.ChatStore
	mu sync.Mutex
	n  int
}

func (c *countingStore) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return c.ChatStore.Update(ctx, fn)
}

// TestSend_CostsTwoCommitsAtMost: into an idle thread two, behind a turn one, a
// repeated one none.
func TestSend_CostsTwoCommitsAtMost(t *testing.T) {
	t.Parallel()
	store := &countingStore{}
	r := newRig(t, func(r *rig) {
		r.wrap = func(s gateway.ChatStore) gateway.ChatStore { store.ChatStore = s; return store }
	})
	cost := func(send func()) int {
		store.mu.Lock()
		before := store.n
		store.mu.Unlock()
		send()
		store.mu.Lock()
		defer store.mu.Unlock()
		return store.n - before
	}
	req := gateway.SendRequest{ClientEventID: id(), UserMessage: text("hello")}
	var first gateway.SendReply
	send := func() {
		var err error
		first, err = r.Send(r.ctx, ann, req)
		r.must(err)
	}
	if n := cost(send); n != 2 {
		t.Errorf("a send into an idle thread: %d commits", n)
	}
	if n := cost(send); n != 0 {
		t.Errorf("a repeated send: %d commits", n)
	}
	if n := cost(func() { r.say(first.ThreadID, "next") }); n != 1 {
		t.Errorf("a send behind a turn: %d commits", n)
	}
}

// TestF23_TheQueueDrainsWhateverEndsTheTurn runs the matrix of the fault: which
// turn ends, how, what waits, and a recall of the head while it is claimed.
func TestF23_TheQueueDrainsWhateverEndsTheTurn(t *testing.T) {
	t.Parallel()
	ends := map[string]func(r *rig, th, turn string){
		"ok":   func(r *rig, _, turn string) { r.end(turn, gatewaytest.Completed()) },
		"fail": func(r *rig, _, turn string) { r.end(turn, gatewaytest.Failed(wire.CodeModelFailed)) },
		"cancel": func(r *rig, th, turn string) {
			r.stop(th, turn)
			r.accept()
			r.end(turn, gatewaytest.Completed())
		},
		"crash": func(r *rig, _, turn string) {
			r.respawn()
			r.end(turn, wire.CompletedPayload{Turn: wire.CompletedTurn{Status: wire.NativeInterrupted}})
		},
	}
	everywhere(t, func(t *testing.T, r *rig) {
		g := gated(r)
		for _, later := range []bool{false, true} {
			for how, end := range ends {
				for _, items := range []int{1, 3} {
					for _, recalled := range []bool{false, true} {
						t.Run(fmt.Sprintf("later=%v %s items=%d recall=%v", later, how, items, recalled), func(t *testing.T) {
							defer r.under(t)()
							r.host = gatewaytest.NewHost("host-" + id())
							r.routes.Use(r.host.ID, "alpha")
							g.drains(later, end, items, recalled)
						})
					}
				}
			}
		}
	})
}

// drains is one case of the matrix.
func (g *gates) drains(later bool, end func(r *rig, th, turn string), items int, recalled bool) {
	r := g.r
	r.Helper()
	th, turn := r.streaming("anchor", "text")
	if later {
		r.end(turn, gatewaytest.Completed())
		turn = *r.say(th, "second").TurnID
		r.accept()
	}
	var waiting []gateway.SendReply
	for i := range items {
		waiting = append(waiting, r.say(th, fmt.Sprintf("m%d", i)))
	}
	from := 0
	if recalled {
		free := g.hold(orgLock, ann.OrgID)
		end(r, th, turn)
		g.await(1)
		r.must(r.recall(th, waiting[0].EventID))
		free()
		from = 1
	} else {
		end(r, th, turn)
	}
	for i := from; i < items; i++ {
		next := r.wantTurn(th, fmt.Sprintf("m%d", i))
		if got := r.thread(th); got.Waiting != items-1-i || got.Turn.TurnID != next {
			r.Fatalf("thread %s", asJSON(r, got))
		}
		r.accept()
		r.end(next, gatewaytest.Completed())
	}
	r.must(r.Sweep(r.ctx))
	if got := r.thread(th); got.Waiting != 0 || got.Turn != nil {
		r.Fatalf("thread %s", asJSON(r, got))
	}
	for _, turn := range r.host.Started() {
		if turn.Starts != 1 {
			r.Fatalf("%q started %d times", turn.Request.Prompt, turn.Starts)
		}
	}
}
