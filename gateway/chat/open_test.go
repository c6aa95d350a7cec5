package chat_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestOpen_Paging(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th := r.say("", "0").ThreadID
	for i := range 9 {
		r.say(th, fmt.Sprint(i+1))
	}
	all := r.events(th)
	latest := all[len(all)-1].SeqID
	seqs := func(reply gateway.OpenReply) string {
		var list []string
		for _, e := range reply.Events {
			list = append(list, fmt.Sprint(e.SeqID))
		}
		return strings.Join(list, " ")
	}
	since := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name string
		req  gateway.OpenRequest
		want string
		more bool
	}{
		{"nothing named: the newest 100", gateway.OpenRequest{}, "1 2 3 4 5 6 7 8 9 10 11", false},
		{"window: the newest, ascending", gateway.OpenRequest{Window: 3}, "9 10 11", true},
		{"before: the page before it", gateway.OpenRequest{Window: 3, Before: 9}, "6 7 8", true},
		{"before the beginning", gateway.OpenRequest{Window: 3, Before: 3}, "1 2", false},
		{"sinceSeq is exclusive", gateway.OpenRequest{SinceSeq: since(8)}, "9 10 11", false},
		{"sinceSeq of the end", gateway.OpenRequest{SinceSeq: since(11)}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.ThreadID = th
			reply, err := r.Open(r.ctx, ann, c.req)
			r.must(err)
			if seqs(reply) != c.want || reply.More != c.more || reply.LatestSeq != latest {
				t.Fatalf("events %s, more %v, latest %d", seqs(reply), reply.More, reply.LatestSeq)
			}
			if reply.Events == nil {
				t.Fatal("events is null")
			}
			if (reply.Turn == nil) != (c.req.Before > 0) {
				t.Fatalf("turn %s", asJSON(t, reply.Turn))
			}
		})
	}
	_, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, SinceSeq: since(1), Window: 5})
	wantField(t, err, "window", "unknown")
}

// viewer is a session as the socket makes one: it subscribes, opens, drops what
// the reply holds, and folds the rest.
type viewer struct {
	mu     sync.Mutex
	pushes []gateway.Push
	log    []gateway.Event
	text   map[string]string
	over   map[string]bool
	seq    int64
	cancel func()
	fault  string
}

func (r *rig) view(threadID string) *viewer {
	r.Helper()
	v := &viewer{text: make(map[string]string), over: make(map[string]bool)}
	open := false
	var reply gateway.OpenReply
	v.cancel = r.bus.Subscribe(gateway.ThreadTopic(threadID), func(p gateway.Push) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if !open {
			v.pushes = append(v.pushes, p)
			return
		}
		v.apply(p)
	})
	var err error
	reply, err = r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: threadID})
	r.must(err)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range reply.Events {
		v.event(e)
	}
	v.seq = reply.LatestSeq
	if reply.Turn != nil {
		v.text[reply.Turn.TurnID] = reply.Turn.Text
	}
	ended := maps.Clone(v.over)
	for _, p := range append(reply.Then, v.pushes...) {
		// What was held of a turn whose end is in the reply came before that end.
		if p.Type != "turn.delta" || !ended[p.TurnID] {
			v.apply(p)
		}
	}
	open = true
	return v
}

func (v *viewer) event(e gateway.Event) {
	v.log = append(v.log, e)
	switch e.EventType {
	case gateway.EventTurnCompleted, gateway.EventTurnFailed, gateway.EventTurnCancelled, gateway.EventTurnTimeout:
		v.over[e.TurnID] = true
	}
}

func (v *viewer) apply(p gateway.Push) {
	switch p.Type {
	case "thread.events":
		var body struct{ Events []gateway.Event }
		if err := json.Unmarshal(p.Raw, &body); err != nil {
			v.fault = err.Error()
		}
		for _, e := range body.Events {
			if e.SeqID > v.seq {
				v.event(e)
				v.seq = e.SeqID
			}
		}
	case "turn.delta":
		have := int64(len(v.text[p.TurnID]))
		switch {
		case v.over[p.TurnID]:
			v.fault = "a delta after the end"
		case p.Offset > have:
			v.fault = fmt.Sprintf("a gap: have %d, got %d", have, p.Offset)
		case p.Next > have:
			v.text[p.TurnID] += p.Text[have-p.Offset:]
		}
	}
}

func TestF01_ASubscriptionGoesOnExactlyWhereTheReplyEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("hello", "begin ")
	run := r.runOf(turnID)
	r.say(th, "next")
	var want strings.Builder
	want.WriteString("begin ")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 300 {
			piece := fmt.Sprintf("%d日 ", i)
			want.WriteString(piece)
			r.host.Say(run, piece)
			if err := r.host.Deliver(r.ctx, r.Service, -1); err != nil {
				t.Error(err)
			}
		}
		r.host.End(run, gatewaytest.Completed())
		if err := r.host.Deliver(r.ctx, r.Service, -1); err != nil {
			t.Error(err)
		}
		close(stop)
	})
	var views []*viewer
	for done := false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		views = append(views, r.view(th))
	}
	wg.Wait()
	r.until("envelopes are durable", r.host.Settled)
	r.wantTurn(th, "next")
	r.until("all is told", r.Told)
	log := r.events(th)
	for i, v := range views {
		v.cancel()
		v.mu.Lock()
		if v.fault != "" {
			t.Fatalf("view %d of %d: %s", i, len(views), v.fault)
		}
		if asJSON(t, v.log) != asJSON(t, log) {
			t.Fatalf("view %d of %d has another log:\n%s\n%s", i, len(views), asJSON(t, v.log), asJSON(t, log))
		}
		if got := v.text[turnID]; got != "" && got != want.String() {
			t.Fatalf("view %d has %d bytes of text, not %d", i, len(got), want.Len())
		}
		v.mu.Unlock()
	}
}

// lines is a splitter for which each line is a block.
type lines struct {
	tail string
	at   int64
}

func (l *lines) Append(text string) (blocks []gateway.Block) {
	l.tail += text
	for {
		line, rest, ok := strings.Cut(l.tail, "\n")
		if !ok {
			return blocks
		}
		to := l.at + int64(len(line)) + 1
		blocks = append(blocks, gateway.Block{From: l.at, To: to, HTML: "<p>" + line + "</p>"})
		l.tail, l.at = rest, to
	}
}

func TestHTML_OnlyForSessionsThatAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.blocks = func() chat.Splitter { return &lines{} }
		r.render = func(md string) string { return "<article>" + md + "</article>" }
	})
	th, turnID := r.streaming("hello", "one\ntw", "o\nthree")
	topic := gateway.ThreadTopic(th)
	blocks := r.published(topic, "turn.block")
	if len(blocks) != 2 || blocks[1].Raw != nil || !strings.Contains(string(blocks[1].RawHTML), `"from":4,"to":8,"html":"<p>two`) {
		t.Fatalf("blocks %+v", blocks)
	}
	r.restart()
	reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, HTML: true})
	r.must(err)
	if len(reply.Turn.Blocks) != 2 || reply.BlocksTo != 8 || reply.Turn.Text != "one\ntwo\nthree" {
		t.Fatalf("turn %s", asJSON(t, reply.Turn))
	}
	reply, err = r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th})
	r.must(err)
	if reply.Turn.Blocks != nil {
		t.Fatal("blocks although nobody asked")
	}
	r.end(turnID, gatewaytest.Completed())
	push := r.published(topic, "thread.events")[0]
	if strings.Contains(string(push.Raw), `"html"`) || !strings.Contains(string(push.RawHTML), `"html":"<article>one`) {
		t.Fatalf("push %s | %s", push.Raw, push.RawHTML)
	}
	for _, html := range []bool{true, false} {
		reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, HTML: html})
		r.must(err)
		if got := reply.Events[2].HTML; (got != "") != html {
			t.Fatalf("html %v gives %q", html, got)
		}
	}
}

func TestHTML_LargeRepliesAreCutAndNothingIsSkipped(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.render = func(md string) string { return strings.Repeat(md, 3) } })
	th := ""
	for range 4 {
		reply := r.say(th, "x")
		th = reply.ThreadID
		r.accept()
		r.host.Say(r.runOf(*reply.TurnID), strings.Repeat("y", 60<<10))
		r.end(*reply.TurnID, gatewaytest.Completed())
	}
	want := len(r.events(th))
	got, since := 0, int64(0)
	for {
		reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, SinceSeq: &since, HTML: true})
		r.must(err)
		size := 0
		for _, e := range reply.Events {
			size += len(e.HTML)
		}
		if size > 512<<10 {
			t.Fatalf("%d bytes of HTML", size)
		}
		got += len(reply.Events)
		since = reply.Events[len(reply.Events)-1].SeqID
		if !reply.More {
			break
		}
	}
	if got != want {
		t.Fatalf("%d events of %d", got, want)
	}
	reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th, HTML: true})
	r.must(err)
	if !reply.More || reply.Events[len(reply.Events)-1].SeqID != reply.LatestSeq {
		t.Fatal("a window must keep the newest")
	}
}

func TestThreads_ListFeedAndRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var threads []string
	for i := range 5 {
		r.tick(time.Second)
		threads = append(threads, r.say("", fmt.Sprintf("Subject %d and 100%%", i)).ThreadID)
	}
	r.tick(time.Second)
	r.say(threads[0], "up again")
	page, err := r.List(r.ctx, ann, gateway.ListRequest{Limit: 2})
	r.must(err)
	rest, err := r.List(r.ctx, ann, gateway.ListRequest{Cursor: page.Next})
	r.must(err)
	var got []string
	for _, th := range append(page.Threads, rest.Threads...) {
		got = append(got, th.ID)
	}
	want := []string{threads[0], threads[4], threads[3], threads[2], threads[1]}
	if strings.Join(got, " ") != strings.Join(want, " ") || rest.Next != "" || page.Next == "" {
		t.Fatalf("list %v, want %v", got, want)
	}
	for query, n := range map[string]int{"SUBJECT 3": 1, "0%": 5, "1_0": 0, "": 5} {
		found, err := r.List(r.ctx, ann, gateway.ListRequest{Query: query})
		r.must(err)
		if len(found.Threads) != n {
			t.Errorf("%q finds %d", query, len(found.Threads))
		}
	}
	_, err = r.List(r.ctx, ann, gateway.ListRequest{Cursor: "nonsense"})
	wantField(t, err, "cursor", "type")

	t.Run("the title comes from the first words until it is renamed", func(t *testing.T) {
		made, err := r.CreateThread(r.ctx, ann, gateway.CreateThreadRequest{})
		r.must(err)
		if th := r.thread(made.ThreadID); th.Title != nil {
			t.Fatalf("title %q", *th.Title)
		}
		r.say(made.ThreadID, "  "+strings.Repeat("word ", 40))
		if th := r.thread(made.ThreadID); th.Title == nil || *th.Title != strings.TrimSpace(strings.Repeat("word ", 12))+"…" {
			t.Fatalf("title %v", asJSON(t, th.Title))
		}
		r.must(r.RenameThread(r.ctx, ann, gateway.RenameThreadRequest{ThreadID: made.ThreadID, Title: " Mine "}))
		r.say(made.ThreadID, "another")
		if th := r.thread(made.ThreadID); *th.Title != "Mine" {
			t.Fatalf("title %q", *th.Title)
		}
		wantField(t, r.RenameThread(r.ctx, ann, gateway.RenameThreadRequest{ThreadID: made.ThreadID, Title: "  "}), "title", "blank")
	})
	t.Run("reading never goes back nor beyond the end", func(t *testing.T) {
		for _, c := range []struct{ seq, want int64 }{{2, 2}, {1, 2}, {99, 3}} {
			r.must(r.MarkRead(r.ctx, ann, gateway.MarkReadRequest{ThreadID: threads[0], Seq: c.seq}))
			if th := r.thread(threads[0]); th.LastReadSeq != c.want {
				t.Fatalf("read up to %d, want %d", th.LastReadSeq, c.want)
			}
		}
	})
	t.Run("the model of a thread, and SQ48: a retry does not change it", func(t *testing.T) {
		beta := "beta"
		r.must(r.SetModel(r.ctx, ann, gateway.SetModelRequest{ThreadID: threads[1], Model: &beta}))
		gamma := "gamma"
		wantCode(t, r.SetModel(r.ctx, ann, gateway.SetModelRequest{ThreadID: threads[1], Model: &gamma}), gateway.CodeModelUnknown)
		r.say(threads[1], "x", func(q *gateway.SendRequest) { q.Model = "alpha" })
		if th := r.thread(threads[1]); *th.Model != "beta" {
			t.Fatalf("MC4: an explicit model of a send was kept: %s", *th.Model)
		}
	})
	t.Run("the feed tells it all, in order, and goes on from any point", func(t *testing.T) {
		r.must(r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: threads[2]}))
		zero := int64(0)
		reply, err := r.Follow(r.ctx, ann, gateway.FollowRequest{SinceSeq: &zero})
		r.must(err)
		var kinds []string
		for i, e := range reply.Events {
			kinds = append(kinds, string(e.Kind))
			if e.SeqID != int64(i+1) {
				t.Fatalf("seq %d at %d", e.SeqID, i)
			}
		}
		if got := strings.Join(kinds, " "); got != "created created created created created created renamed renamed model_selection_updated deleted" {
			t.Fatalf("feed %s", got)
		}
		end, err := r.Follow(r.ctx, ann, gateway.FollowRequest{})
		r.must(err)
		if end.LatestSeq != reply.LatestSeq || len(end.Events) != 0 {
			t.Fatalf("end %s", asJSON(t, end))
		}
		last := r.published(gateway.AccountTopic(ann.AccountID))
		if p := last[len(last)-1]; p.LastSeq != reply.LatestSeq || !strings.Contains(string(p.Raw), `"deleted"`) {
			t.Fatalf("push %s", p.Raw)
		}
	})
}

func TestAdmin_ReadOutsAreOfTheOrgAndWithoutText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	th, turnID := r.streaming("a secret prompt", "a secret answer")
	r.say(th, "a secret waiting")
	foreign, err := r.Send(r.ctx, eve, gateway.SendRequest{ClientEventID: id(), UserMessage: text("elsewhere")})
	r.must(err)
	turns, err := r.AdminTurns(r.ctx, ann, gateway.Page{})
	r.must(err)
	bindings, err := r.AdminBindings(r.ctx, ann, gateway.Page{})
	r.must(err)
	queue, err := r.AdminQueue(r.ctx, ann, gateway.Page{})
	r.must(err)
	one, err := r.AdminTurn(r.ctx, ann, gateway.TurnRequest{TurnID: turnID})
	r.must(err)
	if len(turns.Rows) != 1 || len(bindings.Rows) != 1 || len(queue.Rows) != 1 || queue.Rows[0].Position != 1 ||
		turns.Rows[0].Command != gateway.CommandAcked || bindings.Rows[0].Unsettled != 1 || len(one.Timeline) == 0 {
		t.Fatalf("%s %s %s", asJSON(t, turns), asJSON(t, bindings), asJSON(t, queue))
	}
	if all := asJSON(t, []any{turns, bindings, queue, one}); strings.Contains(all, "secret") {
		t.Fatalf("text in %s", all)
	}
	_, err = r.AdminTurn(r.ctx, ann, gateway.TurnRequest{TurnID: *foreign.TurnID})
	wantCode(t, err, wire.CodeNotFound)
	_, err = r.AdminTurns(r.ctx, bob, gateway.Page{})
	wantCode(t, err, wire.CodeForbidden)
	for range 3 {
		r.say("", "more")
	}
	page, err := r.AdminTurns(r.ctx, ann, gateway.Page{Limit: 2, Offset: 1, Status: gateway.TurnPending})
	r.must(err)
	if len(page.Rows) != 2 || page.More {
		t.Fatalf("page %s", asJSON(t, page))
	}
	r.until("the admins are told of the last change", func() bool {
		return len(r.published(gateway.AdminTopic(ann.OrgID))) >= 2
	})
}
