package socket_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/wire"
	"pgregory.net/rapid"
)

// act does one thing to a thread of the double.
func (d *chatDouble) act(threadID, what string) {
	switch what {
	case "event":
		d.append(threadID, gateway.Event{EventType: gateway.EventControlRevoke})
	case "two events":
		d.append(threadID, gateway.Event{EventType: gateway.EventInputPrompt}, gateway.Event{EventType: gateway.EventInputPrompt})
	case "start":
		d.mu.Lock()
		idle := d.threads[threadID].turn == nil
		d.mu.Unlock()
		if idle {
			d.start(threadID)
		}
	case "end":
		d.finish(threadID)
	default:
		d.delta(threadID, what)
	}
}

var acts = []string{"event", "two events", "start", "start", "end", "a", "bc 你", "🌍 long enough to be cut in the reply.", "block.", "x"}

// TestResume_WithoutGapOrOverlap lets things happen before, within and after
// every open, and clients that open again, page, close and come back on another
// connection. It covers F01 and F02 for all orders that a thread.open can meet.
func TestResume_WithoutGapOrOverlap(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) {
		c.Limits.CommandsPerSecond = 1 << 20
	})
	rapid.Check(t, func(rt *rapid.T) {
		threadID := r.chat.newThread("acc-ann")
		some := rapid.SliceOfN(rapid.SampledFrom(acts), 0, 4)
		do := func(list []string) {
			for _, what := range list {
				r.chat.act(threadID, what)
			}
		}
		clients := []*client{r.dial("ann"), r.dial("ann")}
		viewers := []*viewer{newViewer(threadID, false), newViewer(threadID, true)}
		defer func() {
			for _, c := range clients {
				_ = c.ws.CloseNow()
			}
		}()
		settle := func(i int) {
			viewers[i].take(clients[i], clients[i].settle())
			if err := viewers[i].fault; err != nil {
				rt.Fatalf("viewer %d: %v", i, err)
			}
		}
		open := func(i int, with fields) {
			during := [3][]string{some.Draw(rt, "before"), some.Draw(rt, "between"), some.Draw(rt, "after")}
			r.chat.during = func(step int) { do(during[step]) }
			clients[i].say("thread.open", with)
			settle(i)
			r.chat.during = nil
		}
		resume := func(i int) {
			settle(i) // what came before the question is in the answer too
			for open(i, viewers[i].resume()); !viewers[i].open; {
				open(i, viewers[i].resume())
			}
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			i := rapid.IntRange(0, 1).Draw(rt, "who")
			switch rapid.SampledFrom([]string{"act", "act", "resume", "anew", "close", "again", "page", "wrong"}).Draw(rt, "step") {
			case "act":
				do(some.Draw(rt, "acts"))
			case "resume":
				resume(i)
			case "anew":
				html := viewers[i].html
				settle(i)
				fresh := newViewer(threadID, html)
				fresh.over, fresh.window = viewers[i].over, true
				viewers[i] = fresh
				open(i, fields{"threadId": threadID, "window": rapid.IntRange(1, 9).Draw(rt, "window"), "html": html})
			case "close":
				clients[i].must("thread.close", fields{"threadId": threadID})
				settle(i)
				viewers[i].open = false
			case "again":
				_ = clients[i].ws.CloseNow()
				clients[i] = r.dial("ann")
				viewers[i].open = false
			case "page":
				settle(i)
				page := clients[i].call("thread.open", fields{"threadId": threadID, "before": 3, "window": 2})
				if page.Turn != nil || len(page.Events) > 2 {
					rt.Fatalf("page %s", page.raw)
				}
				clients[i].frames = nil
			case "wrong": // refused; what runs goes on
				settle(i)
				clients[i].call("thread.open", fields{"threadId": threadID, "window": 501})
				clients[i].frames = nil
			}
		}
		for i, v := range viewers {
			resume(i)
			settle(i)
			th := r.chat.threads[threadID]
			if v.seq != int64(len(th.events)) {
				rt.Fatalf("viewer %d knows %d of %d events", i, v.seq, len(th.events))
			}
			if th.turn != nil && (v.turnID != th.turn.TurnID || v.text.String() != th.text) {
				rt.Fatalf("viewer %d reads %q, want %q", i, v.text.String(), th.text)
			}
			if v.html && th.turn != nil && len(th.blocks) > 0 && v.blocks != th.blocks[len(th.blocks)-1].To {
				rt.Fatalf("viewer %d has blocks to %d", i, v.blocks)
			}
		}
	})
}

func TestOpen_TheReplyPrecedesEveryPush(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID := r.chat.newThread("acc-ann")
	turnID := r.chat.start(threadID)
	r.chat.delta(threadID, "known ")
	r.chat.during = func(step int) {
		r.chat.delta(threadID, fmt.Sprintf("step %d ", step))
		r.chat.act(threadID, "event")
	}
	c := r.dial("ann")
	c.say("thread.open", fields{"threadId": threadID})
	frames := c.settle()
	if len(frames) == 0 || frames[0].Re == "" {
		t.Fatalf("first comes %v", frames)
	}
	v := newViewer(threadID, false)
	v.window = true
	v.take(c, frames)
	if v.fault != nil {
		t.Fatal(v.fault)
	}
	if want := "known step 0 step 1 step 2 "; v.turnID != turnID || v.text.String() != want {
		t.Errorf("text %q, want %q", v.text.String(), want)
	}
}

func TestOpen_TextOfATurnThatEndedMeanwhileIsNotSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID := r.chat.newThread("acc-ann")
	c := r.dial("ann")
	for step := range 3 {
		r.chat.start(threadID)
		r.chat.during = func(at int) {
			if at == step {
				r.chat.delta(threadID, "late")
				r.chat.finish(threadID)
				r.chat.act(threadID, "event") // the end is not the newest event
			}
		}
		c.say("thread.open", fields{"threadId": threadID, "window": 1})
		v := newViewer(threadID, false)
		v.window = true
		v.take(c, c.settle())
		if v.fault != nil {
			t.Errorf("ended in step %d: %v", step, v.fault)
		}
		r.chat.during = nil
		c.must("thread.close", fields{"threadId": threadID})
		c.settle()
	}
}

func TestOpen_WithAnOldOffsetOfAForeignTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID := r.chat.newThread("acc-ann")
	r.chat.start(threadID)
	r.chat.delta(threadID, "short")
	c := r.dial("ann")
	turn := r.chat.threads[threadID].turn.TurnID
	f := c.must("thread.open", fields{"threadId": threadID, "turn": fields{"turnId": turn, "offset": 99}})
	if live := f.turn(t); live == nil || !live.Resync || live.Offset != 0 || live.Text != "short" {
		t.Errorf("turn %s", f.raw)
	}
}

func TestOpen_AStraddlingDeltaIsTrimmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID := r.chat.newThread("acc-ann")
	turnID := r.chat.start(threadID)
	r.chat.delta(threadID, "你好")
	c := r.dial("ann")
	c.must("thread.open", fields{"threadId": threadID})
	topic := gateway.ThreadTopic(threadID)
	r.bus.Publish(topic, gateway.Push{
		Type: "turn.delta", ThreadID: threadID, TurnID: turnID, Offset: 3, Next: 9, Text: "好<b", Raw: mustJSON("all of it"),
	})
	r.bus.Publish(topic, gateway.Push{
		Type: "turn.delta", ThreadID: threadID, TurnID: turnID, Offset: 3, Next: 6, Text: "好", Raw: mustJSON("known"),
	})
	frames := c.settle()
	want := `{"type":"turn.delta","threadId":"` + threadID + `","turnId":"` + turnID + `","offset":6,"next":9,"text":"<b"}`
	if len(frames) != 2 || frames[1].raw != want {
		t.Errorf("told %v, want %s", frames, want)
	}
}

func TestOpen_AStraddlingPushOfEventsIsTrimmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID := r.chat.newThread("acc-ann")
	c := r.dial("ann")
	r.chat.act(threadID, "two events")
	c.must("thread.open", fields{"threadId": threadID})
	var events []gateway.Event
	for seq := int64(1); seq <= 4; seq++ {
		events = append(events, gateway.Event{ID: itoa(int(seq)), SeqID: seq, EventType: gateway.EventInputPrompt})
	}
	r.bus.Publish(gateway.ThreadTopic(threadID), gateway.Push{
		Type: "thread.events", ThreadID: threadID, FirstSeq: 1, LastSeq: 4, Raw: eventsRaw(threadID, events),
	})
	frames := c.settle()
	if len(frames) != 2 || len(frames[1].Events) != 2 || frames[1].Events[0].SeqID != 3 || frames[1].LatestSeq != 4 {
		t.Errorf("told %v", frames)
	}
}

func TestOpen_TwiceLeavesOneSubscription(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID := r.chat.newThread("acc-ann")
	c := r.dial("ann")
	for range 3 {
		c.must("thread.open", fields{"threadId": threadID})
	}
	c.settle()
	r.chat.act(threadID, "event")
	if frames := c.settle(); len(frames) != 1 {
		t.Errorf("told %v", frames)
	}
	c.must("thread.close", fields{"threadId": threadID})
	c.must("thread.close", fields{"threadId": threadID})
	c.settle()
	r.chat.act(threadID, "event")
	if frames := c.settle(); len(frames) != 0 {
		t.Errorf("told after the close: %v", frames)
	}
}

func TestOpen_WithMoreToComeStartsNoSubscription(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID := r.chat.newThread("acc-ann")
	for range 30 {
		r.chat.act(threadID, "event")
	}
	c := r.dial("ann")
	c.must("thread.open", fields{"threadId": threadID})
	if f := c.must("thread.open", fields{"threadId": threadID, "sinceSeq": 0}); !f.More || f.Turn != nil {
		t.Fatalf("reply %s", f.raw)
	}
	c.settle()
	r.chat.act(threadID, "event")
	if frames := c.settle(); len(frames) != 0 {
		t.Errorf("told %v", frames)
	}
}

func TestOpen_HTMLOnlyForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	threadID := r.chat.newThread("acc-ann")
	plain, rich := r.dial("ann"), r.dial("ann")
	plain.must("thread.open", fields{"threadId": threadID})
	rich.must("thread.open", fields{"threadId": threadID, "html": true})
	plain.settle()
	rich.settle()
	r.chat.start(threadID)
	r.chat.delta(threadID, "A block.")
	r.chat.finish(threadID)
	for name, frames := range map[string][]frame{"plain": plain.settle(), "rich": rich.settle()} {
		var all strings.Builder
		for _, f := range frames {
			all.WriteString(f.raw)
		}
		if has := strings.Contains(all.String(), `"html"`); has != (name == "rich") {
			t.Errorf("%s is told %s", name, all.String())
		}
		if has := strings.Contains(all.String(), "turn.block"); has != (name == "rich") {
			t.Errorf("%s is told %s", name, all.String())
		}
	}
}

func TestDeletedThreadEndsItsSubscriptions(t *testing.T) {
	t.Parallel()
	deleted := func(frames []frame, threadID string) (n int) {
		for _, f := range frames {
			if f.Type == "threads.events" && f.Events[0].Kind == gateway.FeedDeleted && f.Events[0].ThreadID == threadID {
				n++
			}
		}
		return n
	}
	t.Run("who has it open is told, follower or not, once", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		threadID, other := r.chat.newThread("acc-ann"), r.chat.newThread("acc-ann")
		reader, follower, stranger := r.dial("ann"), r.dial("ann"), r.dial("ann")
		reader.must("thread.open", fields{"threadId": threadID})
		follower.must("thread.open", fields{"threadId": threadID})
		follower.must("threads.follow", nil)
		stranger.must("thread.open", fields{"threadId": other})
		title := `"kind":"deleted"`
		r.chat.feed("acc-ann", gateway.FeedEvent{SeqID: 11, Kind: gateway.FeedRenamed, ThreadID: threadID, Title: &title})
		r.chat.delete("acc-ann", threadID, 12)
		for name, c := range map[string]*client{"reader": reader, "follower": follower} {
			if n := deleted(c.settle(), threadID); n != 1 {
				t.Errorf("the %s is told %d times", name, n)
			}
		}
		if frames := stranger.settle(); len(frames) != 1 {
			t.Errorf("told %v", frames)
		}
		r.bus.Publish(gateway.ThreadTopic(threadID), gateway.Push{Type: "turn.state", ThreadID: threadID, Raw: mustJSON("ghost")})
		if frames := reader.settle(); len(frames) != 0 {
			t.Errorf("told %v after the end", frames)
		}
		if f := reader.call("thread.open", fields{"threadId": threadID}); f.Error == nil || f.Error.Code != wire.CodeNotFound {
			t.Errorf("opened again: %s", f.raw)
		}
	})
	t.Run("in the middle of an open", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		threadID := r.chat.newThread("acc-ann")
		r.chat.during = func(step int) {
			if step == 2 {
				r.chat.delete("acc-ann", threadID, 12)
			}
		}
		c := r.dial("ann")
		c.say("thread.open", fields{"threadId": threadID})
		frames := c.settle()
		if len(frames) != 2 || frames[0].Re == "" || deleted(frames, threadID) != 1 {
			t.Errorf("told %v", frames)
		}
	})
}

func TestFollow_GoesOnExactlyWhereTheReplyEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	entry := func(seq int64) {
		kind := gateway.FeedCreated
		if seq == 0 {
			kind = gateway.FeedTouched
		}
		r.chat.feed("acc-ann", gateway.FeedEvent{SeqID: seq, Kind: kind, ThreadID: "t"})
	}
	r.chat.during = func(step int) {
		if step == 0 {
			entry(9)
			entry(10)
			return
		}
		entry(11)
		entry(0)
	}
	c := r.dial("ann")
	entry(8)
	if f := c.must("threads.follow", fields{"sinceSeq": 1}); !f.More {
		t.Fatal("more is not told")
	}
	if frames := c.settle(); len(frames) != 1 {
		t.Errorf("a follow with more to come is told %v", frames)
	}
	c.must("threads.follow", fields{"sinceSeq": 8})
	entry(12)
	entry(12)
	frames := c.settle()
	var got []string
	for _, f := range frames {
		if f.Re == "" {
			got = append(got, itoa(int(f.Events[0].SeqID)))
		} else if f.LatestSeq != 10 {
			t.Errorf("reply %s", f.raw)
		}
	}
	if frames[0].Re == "" || strings.Join(got, " ") != "11 0 12" {
		t.Errorf("told %v: %v", got, frames)
	}
}
