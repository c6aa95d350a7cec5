package chat_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// gateStore makes updates wait while it is shut.
type gateStore struct {
	gateway.ChatStore
	mu   sync.Mutex
	wait chan struct{}
}

func (g *gateStore) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = make(chan struct{})
}

func (g *gateStore) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.wait)
	g.wait = nil
}

func (g *gateStore) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	g.mu.Lock()
	wait := g.wait
	g.mu.Unlock()
	if wait != nil {
		<-wait
	}
	return g.ChatStore.Update(ctx, fn)
}

// fault is how one update goes wrong.
type fault string

const (
	failsOnce    fault = "failed, not persisted"                       // the process goes on
	diesBefore   fault = "failed, not persisted, and the process ends" // nothing is written any more
	diesAfter    fault = "failed, but persisted, and the process ends" // nobody hears of the commit
	harmless     fault = "no fault"
	neverReached       = 1 << 30
)

var errFault = errors.New("injected fault")

// faultStore makes the nth update go wrong.
type faultStore struct {
	gateway.ChatStore
	mu   sync.Mutex
	kind fault
	at   int
	n    int
	dead bool
}

func (f *faultStore) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	f.mu.Lock()
	f.n++
	hit, dead := f.n == f.at, f.dead
	if hit && f.kind != failsOnce {
		f.dead = true
	}
	f.mu.Unlock()
	switch {
	case dead, hit && f.kind != diesAfter:
		return errFault
	case hit:
		err := f.ChatStore.Update(ctx, func(tx gateway.ChatTx) error { return fn(deaf{tx}) })
		return errors.Join(err, errFault)
	}
	return f.ChatStore.Update(ctx, fn)
}

func (f *faultStore) died() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *faultStore) updates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// deaf is a transaction after which nobody is told anything.
type deaf struct{ gateway.ChatTx }

func (deaf) OnCommit(func()) {}

// faulty is a rig whose nth update goes wrong, and a driver that behaves as
// clients and hosts do: it repeats what was not answered.
type faulty struct {
	*rig
	store *faultStore
}

func (f *faulty) insist(step func() error) {
	f.Helper()
	for range 5 {
		err := step()
		if f.store.died() {
			f.respawn()
			continue
		}
		if err == nil {
			return
		}
		if !errors.Is(err, errFault) {
			f.Fatal(err)
		}
	}
	f.Fatal("a step does not succeed")
}

// quiet waits for what happens in the background; the host sends again what a
// process took with it.
func (f *faulty) quiet(what string, ok func() bool) {
	f.Helper()
	f.until(what, func() bool {
		f.insist(func() error { return f.Sweep(f.ctx) })
		if ok() {
			return true
		}
		f.insist(func() error { return f.host.Deliver(f.ctx, f.Service, -1) })
		return false
	})
}

func (f *faulty) send(thread, prompt string) {
	req := gateway.SendRequest{ClientEventID: id(), UserMessage: text(prompt), ThreadID: thread}
	f.insist(func() error { _, err := f.Send(f.ctx, ann, req); return err })
}

func (f *faulty) relay() {
	f.insist(func() error { return f.host.Fetch(f.ctx, f.Service) })
	f.insist(func() error {
		if err := f.host.Answer(f.ctx, f.Service); err != nil {
			_ = f.host.Fetch(f.ctx, f.Service) // the host answers again when it is asked again
			return err
		}
		return nil
	})
	f.insist(func() error { return f.host.Deliver(f.ctx, f.Service, -1) })
	f.quiet("envelopes are durable", f.host.Settled)
}

// scenario runs a thread through all that can happen to it.
func (f *faulty) scenario(thread string) {
	f.send(thread, "one")
	f.relay()
	run := f.host.Runs()[0]
	f.host.Say(run, "1a ")
	f.relay()
	f.send(thread, "two")
	f.send(thread, "three")
	f.host.Say(run, "1b")
	f.host.End(run, gatewaytest.Completed())
	f.relay()
	two := ""
	f.quiet("two starts", func() bool { two = f.started(thread, "two"); return two != "" })
	f.relay()
	f.host.Say(run, "2")
	f.relay()
	stop := gateway.InterruptRequest{ThreadID: thread, TurnID: two, ClientEventID: id()}
	f.insist(func() error { _, err := f.Interrupt(f.ctx, ann, stop); return err })
	f.send(thread, "four")
	four := ""
	for _, e := range f.events(thread) {
		if e.EventType == gateway.EventInputPrompt && e.TurnID == "" && e.UserMessage.Parts[0].Text == "four" {
			four = e.ID
		}
	}
	recall := gateway.RecallRequest{ThreadID: thread, RevokesEventID: four, ClientEventID: id()}
	f.insist(func() error { _, err := f.Recall(f.ctx, ann, recall); return err })
	f.relay()
	f.host.End(run, gatewaytest.Completed())
	f.relay()
	f.quiet("three starts", func() bool { return f.started(thread, "three") != "" })
	f.relay()
	f.host.Say(run, "3")
	f.host.End(run, gatewaytest.Completed())
	f.relay()
}

func (f *faulty) started(thread, prompt string) string {
	for _, e := range f.events(thread) {
		if e.EventType == gateway.EventInputPrompt && e.TurnID != "" && e.UserMessage.Parts[0].Text == prompt {
			return e.TurnID
		}
	}
	return ""
}

const scenarioLog = "input:one start:one input:two input:three output.message:1a 1b turn.completed start:two " +
	"control.interrupt output.partial:2 turn.cancelled input:four control.revoke start:three output.message:3 turn.completed"

// TestF05_F22_FaultTable lets every single write of a scenario go wrong, in each
// way: the thread must read the same afterwards, each turn started once.
func TestF05_F22_FaultTable(t *testing.T) {
	t.Parallel()
	rig := newRig(t)
	for _, kind := range []fault{harmless, failsOnce, diesBefore, diesAfter} {
		t.Run(string(kind), func(t *testing.T) {
			defer rig.under(t)()
			at, last := neverReached, neverReached
			if kind != harmless {
				at, last = 1, countUpdates(rig)
			}
			for ; at <= last; at++ {
				runFault(rig, kind, at)
				if testing.Short() {
					at += 4
				}
			}
		})
	}
}

// countUpdates tells how many updates the scenario makes.
func countUpdates(r *rig) int { return runFault(r, harmless, neverReached) }

func runFault(r *rig, kind fault, at int) int {
	r.Helper()
	f := &faulty{rig: r}
	r.host = gatewaytest.NewHost("host-" + id())
	r.routes.Use(r.host.ID, "alpha")
	made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{})
	r.must(err)
	r.wrap = func(s gateway.ChatStore) gateway.ChatStore {
		f.store = &faultStore{ChatStore: s, kind: kind, at: at}
		at = neverReached // the next process has no fault
		return f.store
	}
	where := fmt.Sprintf("%s, update %d", kind, at)
	r.respawn()
	f.scenario(made.ThreadID)
	n := f.store.updates()
	if got := r.story(made.ThreadID); got != scenarioLog {
		r.Fatalf("%s:\n got %s\nwant %s", where, got, scenarioLog)
	}
	for _, turn := range r.host.Started() {
		if turn.Starts != 1 {
			r.Fatalf("%s: %q started %d times", where, turn.Request.Prompt, turn.Starts)
		}
	}
	if turns := len(r.host.Started()); turns != 3 {
		r.Fatalf("%s: %d turns at the host", where, turns)
	}
	r.wrap = nil
	r.respawn()
	return n
}

// headless is a store whose queue gives messages without an id once it is told to.
type headless struct {
	gateway.ChatStore
	now *atomic.Bool
}

func (h headless) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	return h.ChatStore.Update(ctx, func(tx gateway.ChatTx) error { return fn(headlessTx{tx, h.now}) })
}

func (h headless) View(ctx context.Context, fn func(gateway.ChatTx) error) error {
	return h.ChatStore.View(ctx, func(tx gateway.ChatTx) error { return fn(headlessTx{tx, h.now}) })
}

type headlessTx struct {
	gateway.ChatTx
	now *atomic.Bool
}

func (h headlessTx) QueueHead(ctx context.Context, threadID string) (gateway.QueueRow, error) {
	q, err := h.ChatTx.QueueHead(ctx, threadID)
	if h.now.Load() {
		q.EventID = ""
	}
	return q, err
}

func TestSQ1_NoTurnWithoutAWaitingMessage(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	var lost atomic.Bool
	r := newRig(t, func(r *rig) {
		r.log = slog.New(slog.NewTextHandler(&told, nil))
		r.wrap = func(s gateway.ChatStore) gateway.ChatStore { return headless{s, &lost} }
	})
	th, turnID := r.streaming("one", "text")
	r.say(th, "two")
	lost.Store(true)
	r.end(turnID, gatewaytest.Completed())
	r.must(r.Sweep(r.ctx))
	r.Stop()
	if !strings.Contains(told.String(), string(gateway.CodeQueueAssociationRequired)) {
		t.Fatalf("log: %s", told.String())
	}
	r.wantLog(th, "input:one start:one input:two output.message:text turn.completed")
}

func TestCG75_ARetryPublishesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := gateway.SendRequest{ClientThreadID: id(), ClientEventID: id(), UserMessage: text("x")}
	topics := []string{gateway.ThreadTopic(req.ClientThreadID), gateway.AccountTopic(ann.AccountID)}
	var told [2]int
	for n := range 3 {
		_, err := r.Send(r.ctx, ann, req)
		r.must(err)
		for i, topic := range topics {
			pushes := r.published(topic)
			if n > 0 && len(pushes) != told[i] {
				t.Errorf("try %d: %d pushes to %s, after the first there were %d", n+1, len(pushes), topic, told[i])
			}
			told[i] = len(pushes)
		}
	}
	made := 0
	for _, p := range r.published(topics[1]) {
		made += strings.Count(string(p.Raw), `"created"`)
	}
	if made != 1 {
		t.Errorf("the thread was told of as new %d times", made)
	}
}

// TestSQ49_ARefusedSendLeavesNoRow lets each check refuse, and then sends with the
// same ids.
func TestSQ49_ARefusedSendLeavesNoRow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.limits.QueuedPerThread = 1 })
	th := r.say("", "one").ThreadID
	r.say(th, "two")
	before := r.story(th)
	req := gateway.SendRequest{ThreadID: th, ClientEventID: id(), UserMessage: text("three")}
	_, err := r.Send(r.ctx, ann, req)
	wantCode(t, err, wire.CodeRateLimited)
	if after := r.story(th); after != before {
		t.Fatalf("log %s", after)
	}
	req.ThreadID = ""
	reply, err := r.Send(r.ctx, ann, req)
	r.must(err)
	if reply.Replayed || reply.Disposition != gateway.DispositionStarted {
		t.Fatalf("reply %s", asJSON(t, reply))
	}
}
