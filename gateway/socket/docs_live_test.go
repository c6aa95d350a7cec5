package socket_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/wire"
)

// The tests of this file ask a running server whether docs/protocol.md is right.

// nullable are the fields whose null counts as left out.
func nullable(t *testing.T, text string) []string {
	t.Helper()
	_, after, _ := strings.Cut(text, "`null` counts as left out for ")
	list, _, ok := strings.Cut(after, ", and is refused elsewhere")
	if !ok {
		t.Fatal("the page does not tell where null is allowed")
	}
	return keys(list)
}

// TestDocs_ServerKnowsTheFields asks the server itself: every documented field
// with a wrong value, or null, must be at fault for that alone, and every
// required one must be missed.
func TestDocs_ServerKnowsTheFields(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) { c.Admin = viewsDouble{}; c.Limits.CommandsPerSecond = 1000 })
	c := r.dial("ann")
	nulls := nullable(t, readPage(t).text)
	for name, row := range commandRows(t) {
		wrong, null := fields{"zzz": 1}, fields{"zzz": 1}
		wantWrong, wantNull := []string{"zzz unknown"}, []string{"zzz unknown"}
		for _, key := range keys(row[2]) {
			field, optional := strings.CutSuffix(key, "?")
			if !optional {
				wantWrong, wantNull = append(wantWrong, field+" required"), append(wantNull, field+" required")
				continue
			}
			wrong[field], null[field] = [][]int{{}}, nil
			wantWrong = append(wantWrong, field+" type")
			allowed := slices.Contains(nulls, field) && (field != "model" || name == "thread.model")
			if !allowed && name != "agent.update" {
				wantNull = append(wantNull, field+" type")
			}
		}
		same(t, name, sorted(wantWrong), faults(c.call(name, wrong)))
		same(t, name+" with null", sorted(wantNull), faults(c.call(name, null)))
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func faults(f frame) []string {
	if f.Error == nil {
		return nil
	}
	var list []string
	for _, fault := range f.Error.Fields {
		list = append(list, fault.Path+" "+fault.Rule)
	}
	return sorted(list)
}

func TestDocs_RefusalsBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	p := readPage(t)
	r := newRig(t)
	real := map[string]int{
		"401": r.handshake(func(h http.Header) { h.Del("Authorization") }).StatusCode,
		"403": r.handshake(func(h http.Header) { h.Set("Authorization", "Bearer meter") }).StatusCode,
		"426": r.handshake(func(h http.Header) { h.Del("Upgrade") }).StatusCode,
		"400": r.handshake(func(h http.Header) { h.Del("Sec-WebSocket-Protocol") }).StatusCode,
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	real["503"] = r.handshake(func(http.Header) {}).StatusCode
	same(t, "statuses", names(p.table(t, "status", "code", "why")), slices.Sorted(maps.Keys(real)))
	for want, got := range real {
		if strconv.Itoa(got) != want {
			t.Errorf("got %d, documented %s", got, want)
		}
	}
}

func TestDocs_CloseCodes(t *testing.T) {
	t.Parallel()
	told := make(map[string]bool)
	var sent []string
	for _, row := range readPage(t).table(t, "code", "meaning", "what a client does", "sent") {
		told[row[0]] = true
		if row[3] == "yes" {
			sent = append(sent, row[0])
		}
	}
	// Whatever the source can close with is told of.
	for _, code := range regexp.MustCompile(`\b44\d\d\b`).FindAllString(sources(t, "*.go"), -1) {
		if !told[code] {
			t.Errorf("%s is not told of", code)
		}
	}
	// Whatever is said to be sent is sent.
	var real []string
	for _, cause := range closeCauses() {
		t.Run(strconv.Itoa(int(cause.code)), func(t *testing.T) {
			r := newRig(t, cause.with)
			c := r.dial("bob")
			cause.do(r, c)
			if got := c.closed(); got != cause.code {
				t.Errorf("closed with %d", got)
			}
		})
		real = append(real, strconv.Itoa(int(cause.code)))
	}
	same(t, "sent", sent, sorted(real))
}

// sources is the text of source files without tests.
func sources(t *testing.T, patterns ...string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}

type closeCause struct {
	code websocket.StatusCode
	with func(*socket.Config)
	do   func(r *rig, c *client)
}

// closeCauses make a server close with each code that is said to be sent.
func closeCauses() []closeCause {
	plain := func(*socket.Config) {}
	return []closeCause{
		{1001, plain, func(r *rig, _ *client) {
			go func() { _ = r.Shutdown(context.Background()) }() // the rig's own shutdown waits for it
		}},
		{4401, plain, func(r *rig, _ *client) {
			r.bus.Publish(gateway.CredentialTopic("cred-bob"), gateway.Push{})
		}},
		{4408, func(c *socket.Config) { c.Limits.QueueBytes = 700 }, func(r *rig, c *client) {
			threadID := r.chat.newThread("acc-bob")
			for range 10 {
				r.chat.append(threadID, gateway.Event{EventType: gateway.EventInputPrompt})
			}
			c.say("thread.open", fields{"threadId": threadID, "sinceSeq": 0})
		}},
		{4413, plain, func(_ *rig, c *client) {
			_ = c.ws.Write(context.Background(), websocket.MessageText, make([]byte, 4*gateway.MaxFrameBytes+1))
		}},
		{4429, func(c *socket.Config) { c.Limits.CommandsPerSecond = 1 }, func(_ *rig, c *client) {
			for range 110 { // two at once, a hundred refusals, and some more
				_ = c.ws.Write(context.Background(), websocket.MessageText, []byte(`{"id":"1","type":"ping"}`))
			}
		}},
	}
}

func TestDocs_Limits(t *testing.T) {
	t.Parallel()
	c := newRig(t).dial("bob")
	var welcome struct {
		Limits map[string]int `json:"limits"`
		PingMs int            `json:"pingMs"`
	}
	if err := json.Unmarshal([]byte(c.welcome.raw), &welcome); err != nil {
		t.Fatal(err)
	}
	real := map[string]int{
		"pingMs": welcome.PingMs, "events in a page": gateway.MaxReplyEvents, "bytes of events in a page": gateway.MaxReplyBytes,
		"bytes of one output event": gateway.MaxOutputEventBytes, "bytes that wait for a slow reader": queueBytes(t),
	}
	for name, n := range welcome.Limits {
		real["limits."+name] = n
	}
	rows := readPage(t).table(t, "limit", "default", "above it")
	same(t, "limits", names(rows), slices.Sorted(maps.Keys(real)))
	for _, row := range rows {
		if name := strings.Trim(row[0], "`"); row[1] != strconv.Itoa(real[name]) {
			t.Errorf("%s: documented %s, real %d", name, row[1], real[name])
		}
	}
}

// queueBytes reads the default of Limits.QueueBytes, which no client is told.
func queueBytes(t *testing.T) int {
	t.Helper()
	m := regexp.MustCompile(`&l\.QueueBytes, (\d+)<<20`).FindStringSubmatch(sources(t, "server.go"))
	if m == nil {
		t.Fatal("the default is not where it was")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n << 20
}

func TestDocs_Pushes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.dial("bob")
	rows := make(map[string][]string)
	for _, row := range readPage(t).table(t, "push", "fields", "who gets it") {
		rows[strings.Trim(row[0], "`")] = keys(row[1])
	}
	go func() { _ = r.Shutdown(context.Background()) }()
	c.closed()
	for _, f := range append(c.frames, c.welcome) {
		var body map[string]any
		if err := json.Unmarshal([]byte(f.raw), &body); err != nil {
			t.Fatal(err)
		}
		delete(body, "type")
		same(t, f.Type, rows[f.Type], slices.Sorted(maps.Keys(body)))
		delete(rows, f.Type)
	}
	source := sources(t, "*.go", "../chat/*.go")
	for kind := range rows {
		if !strings.Contains(source, strconv.Quote(kind)) {
			t.Errorf("nobody pushes %s", kind)
		}
	}
}

// TestDocs_ExampleIsSpoken says the client's part of the example to a server.
func TestDocs_ExampleIsSpoken(t *testing.T) {
	t.Parallel()
	c := newRig(t).dial("bob")
	said := 0
	for line := range strings.Lines(readPage(t).text) {
		raw, client := strings.CutPrefix(strings.TrimSpace(line), "→ ")
		if !client {
			var server bool
			if raw, server = strings.CutPrefix(raw, "← "); !server {
				continue
			}
		}
		var f frame
		if err := json.Unmarshal([]byte(raw), &f); err != nil {
			t.Errorf("%v: %s", err, raw)
		}
		if !client {
			continue
		}
		said++
		var head socket.Head
		if err := json.Unmarshal([]byte(raw), &head); err != nil {
			t.Fatal(err)
		}
		c.write(raw)
		if reply := c.until(head.ID); wire.CodeOf(replyError(reply)) == wire.CodeBadRequest {
			t.Errorf("%s\n%s", raw, reply.raw)
		}
	}
	if said < 4 {
		t.Errorf("the example says %d commands", said)
	}
}

func replyError(f frame) error {
	if f.Error == nil {
		return nil
	}
	return wire.NewError(f.Error.Code, f.Error.Message)
}
