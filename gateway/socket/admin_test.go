package socket_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/socket"
	"github.com/fairlead/fairlead/relay/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// viewsDouble is a dashboard with nothing on it.
type viewsDouble struct{}

func (viewsDouble) Render(context.Context, gateway.Actor, string, gateway.Page) ([]socket.Patch, error) {
	return nil, nil
}

// boardDouble is a dashboard whose rows the test sets.
type boardDouble struct {
	mu      sync.Mutex
	rows    map[string]string
	renders int
	filter  gateway.Page
}

func (b *boardDouble) set(rows map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = rows
}

func (b *boardDouble) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.renders
}

func (b *boardDouble) Render(_ context.Context, actor gateway.Actor, view string, filter gateway.Page) ([]socket.Patch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renders++
	b.filter = filter
	if view == "audit" {
		return nil, wire.NewError(wire.CodeNotFound, "There is no such view.")
	}
	var patches []socket.Patch
	for _, target := range []string{"a", "b", "c"} {
		if html, ok := b.rows[target]; ok {
			patches = append(patches, socket.Patch{Target: target, Op: "replace", HTML: html + "<" + actor.OrgID})
		}
	}
	return patches, nil
}

func TestAdminFollow_SendsWhatChanged(t *testing.T) {
	t.Parallel()
	board := &boardDouble{}
	r := newRig(t, func(c *socket.Config) {
		c.Admin = board
		c.Limits.AdminEvery = time.Millisecond
	})
	change := func(rows map[string]string) {
		board.set(rows)
		before := board.count()
		r.bus.Publish(gateway.AdminTopic("org-1"), gateway.Push{})
		eventually(t, "the view is rendered", func() bool { return board.count() > before })
	}
	board.set(map[string]string{"a": "1", "b": "1"})
	c := r.dial("ann")
	c.must("admin.follow", fields{"view": "turns", "filter": fields{"status": "running", "limit": 20}})
	if board.filter != (gateway.Page{Status: gateway.TurnRunning, Limit: 20}) {
		t.Errorf("filter %+v", board.filter)
	}
	change(map[string]string{"a": "1", "b": "2"})
	change(map[string]string{"b": "2", "c": "1"})
	change(map[string]string{"b": "2", "c": "1"})
	want := []string{
		`{"type":"admin.patch","view":"turns","target":"a","op":"replace","html":"1<org-1"}`,
		`{"type":"admin.patch","view":"turns","target":"b","op":"replace","html":"1<org-1"}`,
		`{"type":"admin.patch","view":"turns","target":"b","op":"replace","html":"2<org-1"}`,
		`{"type":"admin.patch","view":"turns","target":"c","op":"replace","html":"1<org-1"}`,
		`{"type":"admin.patch","view":"turns","target":"a","op":"remove"}`,
	}
	for _, w := range want {
		if got := c.read(); got.raw != w {
			t.Errorf("got  %s\nwant %s", got.raw, w)
		}
	}
	if more := c.settle(); len(more) != 1 { // the reply of admin.follow alone
		t.Errorf("told more: %v", more)
	}
}

// TestAdminFollow_LooksAtWhatChangesByTime: a host falls silent, and nobody tells.
func TestAdminFollow_LooksAtWhatChangesByTime(t *testing.T) {
	t.Parallel()
	board := &boardDouble{}
	r := newRig(t, func(c *socket.Config) {
		c.Admin = board
		c.Limits.AdminEvery, c.Limits.AdminLook = time.Millisecond, time.Millisecond
	})
	board.set(map[string]string{"a": "online"})
	c := r.dial("ann")
	want := func(view, html string) {
		t.Helper()
		w := `{"type":"admin.patch","view":"` + view + `","target":"a","op":"replace","html":"` + html + `<org-1"}`
		if got := c.read(); got.raw != w {
			t.Errorf("got  %s\nwant %s", got.raw, w)
		}
	}
	for _, view := range []string{"turns", "hosts"} {
		c.must("admin.follow", fields{"view": view})
		want(view, "online")
	}
	board.set(map[string]string{"a": "lost"})
	want("hosts", "lost")
	board.set(map[string]string{"a": "online"})
	want("hosts", "online") // and the turns are not looked at
}

// turningBoard is a dashboard that changes right after it was first read for a view.
type turningBoard struct {
	change func() // tells of the change
	mu     sync.Mutex
	rows   map[string]string // the row of a view
}

func (b *turningBoard) Render(_ context.Context, _ gateway.Actor, view string, _ gateway.Page) ([]socket.Patch, error) {
	b.mu.Lock()
	row, again := b.rows[view]
	b.rows[view] = "new"
	b.mu.Unlock()
	if again {
		return []socket.Patch{{Target: view, Op: "replace", HTML: row}}, nil
	}
	b.change()
	return []socket.Patch{{Target: view, Op: "replace", HTML: "old"}}, nil
}

// TestAdminFollow_MissesNoChangeWhileItBegins: what changes after a view was read first
// and before it is sent is sent too, for the first view of a session and the next.
func TestAdminFollow_MissesNoChangeWhileItBegins(t *testing.T) {
	t.Parallel()
	board := &turningBoard{rows: make(map[string]string)}
	r := newRig(t, func(c *socket.Config) {
		c.Admin = board
		c.Limits.AdminEvery, c.Limits.AdminLook = time.Millisecond, time.Hour
	})
	board.change = func() { r.bus.Publish(gateway.AdminTopic("org-1"), gateway.Push{}) }
	c := r.dial("ann")
	for _, view := range []string{"turns", "queue"} {
		c.must("admin.follow", fields{"view": view})
		for _, html := range []string{"old", "new"} {
			want := `{"type":"admin.patch","view":"` + view + `","target":"` + view + `","op":"replace","html":"` + html + `"}`
			if got := c.read(); got.raw != want {
				t.Fatalf("got  %s\nwant %s", got.raw, want)
			}
		}
	}
}

func TestAdminFollow_RestsBetweenTwoRenderings(t *testing.T) {
	t.Parallel()
	board := &boardDouble{}
	r := newRig(t, func(c *socket.Config) {
		c.Admin = board
		c.Limits.AdminEvery = time.Hour
	})
	c := r.dial("ann")
	c.must("admin.follow", fields{"view": "hosts"})
	for range 100 {
		r.bus.Publish(gateway.AdminTopic("org-1"), gateway.Push{})
	}
	eventually(t, "the first change is rendered", func() bool { return board.count() == 2 })
	tick()
	if n := board.count(); n != 2 {
		t.Errorf("rendered %d times", n)
	}
}

func TestAdminFollow_IsForAdmins(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *socket.Config) { c.Admin = &boardDouble{} })
	if f := r.dial("bob").call("admin.follow", fields{"view": "turns"}); f.Error == nil || f.Error.Code != wire.CodeForbidden {
		t.Errorf("a member is answered %s", f.raw)
	}
	ann := r.dial("ann")
	if f := ann.call("admin.follow", fields{"view": "secrets"}); f.Error == nil || f.Error.Code != wire.CodeBadRequest {
		t.Errorf("an unknown view is answered %s", f.raw)
	}
	if f := ann.call("admin.follow", fields{"view": "audit"}); f.Error == nil || f.Error.Code != wire.CodeNotFound {
		t.Errorf("an unknown view is answered %s", f.raw)
	}
}
