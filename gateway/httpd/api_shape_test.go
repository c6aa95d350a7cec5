package httpd_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

// Send implements httpd.APIChat.
func (spent) Send(context.Context, gateway.Actor, gateway.SendRequest) (gateway.SendReply, error) {
	return gateway.SendReply{}, wire.NewError(gateway.CodeInsufficientCredits, "The last credits are spent.")
}

func TestAPI_ShapesAreStrict(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	thread := want[gateway.CreateThreadReply](t, p.call("POST", "/threads", fields{"title": "x"}), 201).ThreadID
	id := newID()
	text := func(s string) string {
		return fmt.Sprintf(`{"clientEventId":%q,"userMessage":{"version":1,"parts":[{"type":"text","text":"%s"}]}}`, id, s)
	}
	for _, c := range []struct {
		name, method, path, body string
		field                    wire.Field
	}{
		{"unknown key", "POST", "/threads", `{"colour":"red"}`, wire.Field{Path: "colour", Rule: "unknown"}},
		{"wrong case", "POST", "/threads", `{"Title":"x"}`, wire.Field{Path: "Title", Rule: "unknown"}},
		{"repeated key", "POST", "/threads", `{"title":"x","title":"y"}`, wire.Field{Rule: "unknown"}},
		{"wrong type", "POST", "/threads", `{"title":7}`, wire.Field{Path: "title", Rule: "type"}},
		{"null", "POST", "/threads", `{"title":null}`, wire.Field{Path: "title", Rule: "type"}},
		{"within an object", "POST", "/messages", `{"clientEventId":"` + id + `","options":{"maxOutputTokens":1.5}}`, wire.Field{Path: "options.maxOutputTokens", Rule: "type"}},
		{"missing", "POST", "/messages", `{}`, wire.Field{Path: "clientEventId", Rule: "required"}},
		{"nothing at all", "POST", "/messages", ``, wire.Field{Path: "clientEventId", Rule: "required"}},
		{"no uuid", "POST", "/messages", `{"clientEventId":"1"}`, wire.Field{Path: "clientEventId", Rule: "uuid"}},
		{"unknown mode", "POST", "/messages", strings.TrimSuffix(text("x"), "}") + `,"mode":"shout"}`, wire.Field{Path: "mode", Rule: "enum"}},
		{"blank text", "POST", "/messages", text(" "), wire.Field{Path: "userMessage.parts[0].text", Rule: "blank"}},
		{"NUL", "POST", "/messages", text(`\u0000x`), wire.Field{Path: "userMessage.parts[0].text", Rule: "nul"}},
		{"bad UTF-8", "POST", "/messages", text("\xff"), wire.Field{Rule: "utf8"}},
		{"lone surrogate", "POST", "/messages", text(`\ud800`), wire.Field{Rule: "utf8"}},
		{"no object", "POST", "/threads", `[]`, wire.Field{Rule: "type"}},
		{"null for an object", "POST", "/threads", `null`, wire.Field{Rule: "type"}},
		{"text after it", "POST", "/threads", `{} {}`, wire.Field{Rule: "type"}},
		{"nested too deeply", "POST", "/threads", `{"title":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, wire.Field{Rule: "max"}},
		{"the path's key in the body", "PATCH", "/threads/" + thread, `{"threadId":"` + thread + `","title":"x"}`, wire.Field{Path: "threadId", Rule: "unknown"}},
		{"a new thread's id in a send to an old one", "POST", "/threads/" + thread + "/messages", strings.TrimSuffix(text("x"), "}") + `,"clientThreadId":"` + newID() + `"}`, wire.Field{Path: "clientThreadId", Rule: "unknown"}},
		{"no uuid in the path", "GET", "/threads/1", ``, wire.Field{Path: "threadId", Rule: "uuid"}},
		{"bad UTF-8 in the path", "GET", "/threads/%ff", ``, wire.Field{Path: "threadId", Rule: "uuid"}},
		{"query of a body's route", "POST", "/threads?title=x", `{}`, wire.Field{Path: "title", Rule: "unknown"}},
		{"unknown in the query", "GET", "/threads?colour=red", ``, wire.Field{Path: "colour", Rule: "unknown"}},
		{"twice in the query", "GET", "/threads?limit=1&limit=2", ``, wire.Field{Path: "limit", Rule: "unknown"}},
		{"no number", "GET", "/threads?limit=few", ``, wire.Field{Path: "limit", Rule: "type"}},
		{"a fraction", "GET", "/threads?limit=1.5", ``, wire.Field{Path: "limit", Rule: "type"}},
		{"too much", "GET", "/threads?limit=101", ``, wire.Field{Path: "limit", Rule: "max"}},
		{"negative", "GET", "/threads/" + thread + "/events?sinceSeq=-1", ``, wire.Field{Path: "sinceSeq", Rule: "min"}},
		{"waiting for too long", "GET", "/turns/" + id + "?wait=61", ``, wire.Field{Path: "wait", Rule: "max"}},
		{"bad UTF-8 in the query", "GET", "/threads?query=%ff", ``, wire.Field{Path: "query", Rule: "utf8"}},
		{"a broken query", "GET", "/threads?query=%zz", ``, wire.Field{Rule: "type"}},
		{"a number stays text where text is meant", "GET", "/threads?cursor=7", ``, wire.Field{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &program{t: t, b: p.b, token: p.token, doc: p.doc, http: p.http}
			r := p.call(c.method, c.path, c.body)
			refused(t, r, 400, wire.CodeBadRequest)
			if c.field != (wire.Field{}) && (len(r.Error.Fields) == 0 || r.Error.Fields[0] != c.field) {
				t.Errorf("answered %s, want %v", r.body, c.field)
			}
		})
	}
	if list := want[gateway.ListReply](t, p.get("/threads"), 200); len(list.Threads) != 1 || *list.Threads[0].Title != "x" {
		t.Errorf("something was done: %+v", list)
	}
}

func TestAPI_BodiesSayThatTheyAreJSON(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	for kind, status := range map[string]int{
		"application/json": 201, "application/json; charset=utf-8": 201, "Application/JSON": 201,
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "application/json; charset=latin1": 415,
		"multipart/form-data; boundary=x": 415, "application/": 415,
	} {
		t.Run(kind, func(t *testing.T) {
			p := &program{t: t, b: p.b, token: p.token, doc: p.doc, http: p.http}
			r := p.call("POST", "/threads", fields{"title": "x"}, "Content-Type", kind)
			if r.StatusCode != status {
				t.Errorf("%s: %s", r.Status, r.body)
			}
			if status == 415 {
				refused(t, r, 415, wire.CodeBadRequest)
			}
		})
	}
	want[gateway.CreateThreadReply](t, p.call("POST", "/threads", nil), 201)
}

func TestAPI_SizesAreThoseOfTheSocket(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	body := func(size int) string {
		head, tail := fmt.Sprintf(`{"clientEventId":%q,"userMessage":{"version":1,"parts":[{"type":"text","text":"`, newID()), `"}]}}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	r := p.call("POST", "/messages", body(gateway.MaxFrameBytes+1))
	if refused(t, r, 413, wire.CodeFrameTooLarge); r.Error.Limit != gateway.MaxFrameBytes {
		t.Errorf("limit %d", r.Error.Limit)
	}
	r = p.call("POST", "/messages", body(gateway.MaxFrameBytes))
	if refused(t, r, 413, wire.CodePromptTooLarge); r.Error.Limit != wire.MaxPromptBytes {
		t.Errorf("limit %d", r.Error.Limit)
	}
	exact := sending(newID(), strings.Repeat("x", wire.MaxPromptBytes))
	want[gateway.SendReply](t, p.call("POST", "/messages", exact), 201)
}

func TestAPI_UnknownAddressesAndMethodsAreJSONToo(t *testing.T) {
	t.Parallel()
	for name, public := range map[string]string{"at the root": "", "below a path": "http://127.0.0.1/base"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, options{public: public})
			b.people(t)
			br := b.browser(t) // says that it wants HTML
			for _, path := range []string{"/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v2/threads", "/api/v1/threads/" + aThread + "/nothing"} {
				res := br.get(path)
				if res.StatusCode != http.StatusNotFound || errorCode(t, res) != wire.CodeNotFound || res.Header.Get("X-Request-Id") == "" {
					t.Errorf("%s: %s %s", path, res.Status, res.body)
				}
			}
			for path, allow := range map[string]string{"/api/v1/messages": "POST", "/api/v1/threads": "GET, HEAD, POST", "/api/v1/openapi.json": "GET, HEAD"} {
				res := br.do("PATCH", path, nil, "Origin", b.public.Scheme+"://"+b.public.Host)
				if res.StatusCode != http.StatusMethodNotAllowed || errorCode(t, res) != wire.CodeBadRequest || res.Header.Get("Allow") != allow {
					t.Errorf("%s: %s %q %s", path, res.Status, res.Header.Get("Allow"), res.body)
				}
			}
			if res := br.get("/api/v1/threads"); res.StatusCode != http.StatusUnauthorized || errorCode(t, res) != wire.CodeUnauthorized {
				t.Errorf("a stranger's browser gets %s %s", res.Status, res.body)
			}
			if res := br.get("/apiary"); res.StatusCode != http.StatusNotFound || !strings.Contains(res.body, "error-page") {
				t.Errorf("a page that is no API: %s %s", res.Status, res.body)
			}
		})
	}
}

func TestF18_ACookieActsForPagesOfThisSiteAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	b.people(t)
	br := b.as(t, memberEmail)
	post := func(header ...string) answer {
		return br.do("POST", "/api/v1/threads", nil, header...)
	}
	if res := post("Origin", b.URL); res.StatusCode != http.StatusCreated {
		t.Errorf("this site: %s %s", res.Status, res.body)
	}
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"}} {
		if res := post(header...); res.StatusCode != http.StatusForbidden || errorCode(t, res) != wire.CodeForbidden {
			t.Errorf("%v: %s %s", header, res.Status, res.body)
		}
	}
	p := b.program(t, memberEmail)
	r := p.call("POST", "/threads", fields{}, "Origin", "https://editor.example", "Sec-Fetch-Site", "cross-site")
	want[gateway.CreateThreadReply](t, r, 201)
	refused(t, b.program(t, adminEmail, gateway.ScopeAdmin).get("/threads"), 403, wire.CodeForbidden)
}

func TestAPI_EachCredentialHasItsShare(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{api: func(c *httpd.APIConfig) { c.CommandsPerSecond = 1 }})
	other := p.other(t, memberEmail)
	for range 2 {
		want[any](t, p.get("/models"), 200)
	}
	r := p.get("/models")
	if refused(t, r, 429, wire.CodeRateLimited); r.Header.Get("Retry-After") != "1" || r.Error.RetryAfterMs < 1 || !r.Error.Retryable {
		t.Errorf("Retry-After %q, %s", r.Header.Get("Retry-After"), r.body)
	}
	want[any](t, other.get("/models"), 200)
	me := want[struct {
		Limits struct{ CommandsPerSecond, InFlight int }
	}](t, other.get("/me"), 200)
	if me.Limits.CommandsPerSecond != 1 || me.Limits.InFlight != 32 {
		t.Errorf("limits %+v", me.Limits)
	}
}

// slow is a chat whose List waits until it may go on.
type slow struct {
	httpd.APIChat
	entered chan context.Context
	leave   chan struct{}
}

func (s slow) List(ctx context.Context, actor gateway.Actor, req gateway.ListRequest) (gateway.ListReply, error) {
	s.entered <- ctx
	<-s.leave
	return s.APIChat.List(ctx, actor, req)
}

func (s slow) CreateThread(ctx context.Context, actor gateway.Actor, req gateway.CreateThreadRequest) (gateway.CreateThreadReply, error) {
	s.entered <- ctx
	<-s.leave
	return s.APIChat.CreateThread(ctx, actor, req)
}

func newSlow() (slow, func(*httpd.APIConfig)) {
	s := slow{entered: make(chan context.Context, 8), leave: make(chan struct{})}
	return s, func(c *httpd.APIConfig) { c.InFlight, c.Chat = 2, slow{c.Chat, s.entered, s.leave} }
}

func TestAPI_OnlySoManyRequestsRunAtOnce(t *testing.T) {
	t.Parallel()
	s, with := newSlow()
	p := newProgram(t, options{api: with})
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() { p.get("/threads") })
		<-s.entered
	}
	refused(t, p.get("/models"), 429, wire.CodeRateLimited)
	close(s.leave)
	running.Wait()
	want[any](t, p.get("/models"), 200)
}

func TestAPI_WhatWasReceivedIsDoneAlsoWhenTheClientHangsUp(t *testing.T) {
	t.Parallel()
	s, with := newSlow()
	p := newProgram(t, options{api: with})
	ctx, hangUp := context.WithCancel(t.Context())
	id := newID()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.b.base+"/api/v1/threads", strings.NewReader(`{"clientThreadId":"`+id+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+p.token)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := p.http.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	at := <-s.entered
	hangUp()
	<-done
	if at.Err() != nil {
		t.Error("the command was given up")
	}
	if _, bounded := at.Deadline(); !bounded {
		t.Error("the command may take for ever")
	}
	close(s.leave)
	p.until("the thread is there", func() bool { return p.get("/threads/"+id).StatusCode == http.StatusOK })
}

// until waits for what happens in the background.
func (p *program) until(what string, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("did not happen: %s", what)
		}
	}
}

func TestAPI_PagesOfTheLogAreNeverEmptyWhileThereIsMore(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{})
	first := p.say("", "hello")
	for range 6 {
		p.say(first.ThreadID, "later")
	}
	whole := p.events(first.ThreadID)
	for limit := 1; limit <= len(whole)+1; limit++ {
		var got []loggedEvent
		for since, more := int64(0), true; more; {
			page := want[struct {
				Events    []loggedEvent
				HasMore   bool
				LatestSeq int64
			}](t, p.get(fmt.Sprintf("/threads/%s/events?limit=%d&sinceSeq=%d", first.ThreadID, limit, since)), 200)
			if len(page.Events) == 0 && page.HasMore || len(page.Events) > limit || page.LatestSeq != whole[len(whole)-1].SeqID {
				t.Fatalf("limit %d: a page of %d, hasMore %v, latestSeq %d", limit, len(page.Events), page.HasMore, page.LatestSeq)
			}
			got, more = append(got, page.Events...), page.HasMore
			if more {
				since = page.Events[len(page.Events)-1].SeqID
			}
		}
		if len(got) != len(whole) || got[len(got)-1].ID != whole[len(whole)-1].ID {
			t.Errorf("limit %d: %d events of %d", limit, len(got), len(whole))
		}
	}
	end := want[struct{ Events []loggedEvent }](t, p.get("/threads/"+first.ThreadID+"/events?sinceSeq=99999"), 200)
	if end.Events == nil || len(end.Events) > 0 {
		t.Errorf("after the end: %v", end.Events)
	}
}
