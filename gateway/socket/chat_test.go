package socket_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/gateway/markdown"
	"github.com/fairlead/fairlead/gateway/socket"
)

// realRig is a rig over the real chat and a real database, with a host that the
// test moves by hand.
type realRig struct {
	*rig
	service *chat.Service
	store   gateway.ChatStore
	host    *gatewaytest.Host
}

type wakesNobody struct{}

func (wakesNobody) Wake(string) {}

func newRealRig(t testing.TB) *realRig {
	t.Helper()
	db, err := gatewaysql.Open(context.Background(), gatewaysql.Options{Path: filepath.Join(t.TempDir(), "gateway.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	now := time.Now()
	org := gateway.Org{ID: "org-1", Name: "Harbour", CreatedAt: now}
	if err := db.Accounts().CreateOrg(context.Background(), org, gateway.AuditEntry{ID: newID(), At: now}); err != nil {
		t.Fatal(err)
	}
	r := &realRig{store: db.Chat(), host: gatewaytest.NewHost("host-1")}
	r.rig = newRig(t, func(c *socket.Config) {
		r.service = chat.New(chat.Config{
			Store: r.store, Bus: c.Bus, Routes: gatewaytest.NewRoutes("host-1", "alpha"), Dispatcher: wakesNobody{},
			Render:      markdown.Render,
			NewSplitter: func() chat.Splitter { return markdown.NewSplitter(markdown.Render) },
		})
		c.Chat = r.service
		c.Limits.CommandsPerSecond = 1 << 20
	})
	if err := r.service.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.service.Stop)
	return r
}

// streaming sends a message over a socket and lets the host take it.
func (r *realRig) streaming(c *client, threadID, prompt string) (thread, turnID, runID string) {
	r.Helper()
	with := fields{"clientEventId": newID(), "userMessage": message(prompt)}
	if threadID != "" {
		with["threadId"] = threadID
	}
	f := c.must("message.send", with)
	if err := r.host.Fetch(context.Background(), r.service); err != nil {
		r.Fatal(err)
	}
	if err := r.host.Answer(context.Background(), r.service); err != nil {
		r.Fatal(err)
	}
	for _, run := range r.host.Runs() {
		runID = run
	}
	return f.ThreadID, f.TurnID, runID
}

// say lets the host stream one delta.
func (r *realRig) say(runID, text string) {
	r.Helper()
	r.host.Say(runID, text)
	if err := r.host.Deliver(context.Background(), r.service, -1); err != nil {
		r.Fatal(err)
	}
}

// end lets the host complete the turn.
func (r *realRig) end(runID string) {
	r.Helper()
	r.host.End(runID, gatewaytest.Completed())
	if err := r.host.Deliver(context.Background(), r.service, -1); err != nil {
		r.Fatal(err)
	}
	eventually(r, "the end is durable", r.host.Settled)
}

// logged gives the log of a thread as viewers note it, and the text of a turn.
func (r *realRig) logged(threadID, turnID string) (log []string, text string) {
	r.Helper()
	err := r.store.View(context.Background(), func(tx gateway.ChatTx) error {
		events, _, err := tx.Events(context.Background(), gateway.EventQuery{ThreadID: threadID, Limit: 500, MaxBytes: 1 << 30})
		if err != nil {
			return err
		}
		if err := gatewaytest.CheckLog(events); err != nil {
			return err
		}
		for _, e := range events {
			line := string(e.EventType)
			if e.Content != nil {
				line += ":" + *e.Content
				if e.TurnID == turnID {
					text += *e.Content
				}
			}
			log = append(log, line)
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return log, text
}

// follow reads until the viewer has seen a turn's end.
func (v *viewer) follow(c *client, turnID string) {
	for !v.over[turnID] && v.fault == nil {
		v.take(c, []frame{c.read()})
	}
}

func hash(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func (r *realRig) check(who string, v *viewer, threadID, turnID string) {
	r.Helper()
	if v.fault != nil {
		r.Fatalf("%s: %v", who, v.fault)
	}
	log, text := r.logged(threadID, turnID)
	if hash(v.text.String()) != hash(text) {
		r.Errorf("%s reads %d bytes, the log has %d", who, v.text.Len(), len(text))
	}
	if got, want := strings.Join(v.log, "\n"), strings.Join(log, "\n"); got != want {
		r.Errorf("%s knows the log\n%s\nwant\n%s", who, got, want)
	}
}

func TestF01_ARefreshInMidAnswerShowsAllOfIt(t *testing.T) {
	t.Parallel()
	for _, html := range []bool{false, true} {
		t.Run(fmt.Sprintf("html %v", html), func(t *testing.T) {
			t.Parallel()
			r := newRealRig(t)
			writer := r.dial("ann")
			threadID, turnID, runID := r.streaming(writer, "", "alphabet")
			sofar := ""
			views := []*viewer{}
			clients := []*client{}
			for letter := 'A'; letter <= 'T'; letter++ {
				// Each reader comes as a reloaded page does, knowing nothing.
				c, v := r.dial("ann"), newViewer(threadID, html)
				v.window = true
				c.say("thread.open", fields{"threadId": threadID, "html": html})
				v.take(c, c.settle())
				if v.fault != nil || v.text.String() != sofar {
					t.Fatalf("a refresh after %q shows %q (%v)", sofar, v.text.String(), v.fault)
				}
				part := strings.Repeat(string(letter), 5) + " 你🌍\n\n"
				r.say(runID, part)
				sofar += part
				for i, other := range append(views, v) {
					cl := append(clients, c)[i]
					other.take(cl, cl.settle())
					if other.text.String() != sofar {
						t.Fatalf("reader %d shows %q, want %q", i, other.text.String(), sofar)
					}
				}
				views, clients = append(views, v), append(clients, c)
			}
			r.end(runID)
			for i, v := range views {
				v.follow(clients[i], turnID)
				r.check(fmt.Sprintf("reader %d", i), v, threadID, turnID)
			}
		})
	}
}

func TestF02_AReplayIsAppliedOnce(t *testing.T) {
	t.Parallel()
	r := newRealRig(t)
	writer := r.dial("ann")
	// A finished turn stands above the running one.
	threadID, _, runID := r.streaming(writer, "", "first")
	r.say(runID, "an answer that is over")
	r.end(runID)
	threadID, turnID, runID := r.streaming(writer, threadID, "second")

	twice, once := r.dial("ann"), r.dial("ann")
	fromStart := func(v *viewer) fields {
		return fields{"threadId": threadID, "sinceSeq": 0, "turn": fields{"turnId": turnID, "offset": 0}, "html": v.html}
	}
	a, b := newViewer(threadID, false), newViewer(threadID, true)
	twice.say("thread.open", fromStart(a))
	twice.say("thread.open", fromStart(a))
	once.say("thread.open", fromStart(b))

	streamed := make(chan struct{})
	parts := expand(300)
	go func() {
		defer close(streamed)
		for _, part := range parts {
			r.say(runID, part)
		}
	}()
	for i := range 3 {
		for a.turnID != turnID || a.next() < int64(100*i) {
			a.take(twice, []frame{twice.read()})
		}
		twice.say("thread.open", fromStart(a))
	}
	<-streamed
	r.end(runID)
	a.follow(twice, turnID)
	b.follow(once, turnID)
	r.check("who subscribed twice and resumed thrice", a, threadID, turnID)
	r.check("who subscribed once", b, threadID, turnID)
	if a.text.String() != strings.Join(parts, "") {
		t.Error("the text is not what the host said")
	}
}

func TestSocketOverTheRealChat(t *testing.T) {
	t.Parallel()
	r := newRealRig(t)
	c := r.dial("ann")
	created := c.must("thread.create", fields{"title": "One"})
	c.must("threads.follow", nil)
	c.must("thread.rename", fields{"threadId": created.ThreadID, "title": "<b>Two"})
	c.must("thread.model", fields{"threadId": created.ThreadID, "model": "alpha"})
	c.must("thread.read", fields{"threadId": created.ThreadID, "seq": 0})
	threadID, turnID, runID := r.streaming(c, created.ThreadID, "hello")
	r.say(runID, "some text")
	f := c.must("turn.interrupt", fields{"threadId": threadID, "turnId": turnID, "clientEventId": newID()})
	if !strings.Contains(f.raw, `"disposition":"interrupted"`) {
		t.Errorf("interrupt is answered %s", f.raw)
	}
	if f = c.must("turn.get", fields{"turnId": turnID}); !strings.Contains(f.raw, `"status":"cancelled"`) {
		t.Errorf("turn is %s", f.raw)
	}
	queued := newID()
	c.must("message.send", fields{"threadId": threadID, "clientEventId": queued, "userMessage": message("later"), "mode": "queue"})
	c.must("message.recall", fields{"threadId": threadID, "revokesEventId": queued})
	if f = c.must("threads.list", nil); !strings.Contains(f.raw, `"title":"<b>Two"`) {
		t.Errorf("threads are %s", f.raw)
	}
	c.must("thread.open", fields{"threadId": threadID})
	c.must("thread.delete", fields{"threadId": threadID})
	kinds := map[gateway.FeedKind]int{}
	for _, f := range c.settle() {
		if f.Type == "threads.events" {
			for _, e := range f.Events {
				kinds[e.Kind]++
			}
		}
	}
	for _, kind := range []gateway.FeedKind{gateway.FeedRenamed, gateway.FeedModelUpdated, gateway.FeedDeleted} {
		if kinds[kind] != 1 {
			t.Errorf("%d entries %s of %v", kinds[kind], kind, kinds)
		}
	}
	if f = c.call("thread.open", fields{"threadId": threadID}); f.Error == nil || f.Error.Code != "not_found" {
		t.Errorf("a deleted thread is answered %s", f.raw)
	}
}

// TestTwoSessionsReadTheSameInTheSameOrder compares the pushes of two sessions
// byte by byte.
func TestTwoSessionsReadTheSameInTheSameOrder(t *testing.T) {
	t.Parallel()
	r := newRealRig(t)
	writer := r.dial("ann")
	threadID, _, runID := r.streaming(writer, "", "go")
	readers := []*client{r.dial("ann"), r.dial("ann")}
	for _, c := range readers {
		c.must("thread.open", fields{"threadId": threadID})
		c.settle()
	}
	for i := range 100 {
		r.say(runID, "words ")
		if i%10 == 0 {
			writer.must("message.send", fields{"threadId": threadID, "clientEventId": newID(), "userMessage": message(itoa(i)), "mode": "queue"})
		}
	}
	r.end(runID)
	var told [2][]string
	for i, c := range readers {
		for _, f := range c.settle() {
			told[i] = append(told[i], f.raw)
		}
	}
	n := min(len(told[0]), len(told[1]))
	if n < 110 || strings.Join(told[0][:n], "\n") != strings.Join(told[1][:n], "\n") {
		t.Errorf("%d and %d pushes differ", len(told[0]), len(told[1]))
	}
}
