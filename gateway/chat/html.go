package chat

import (
	"container/list"
	"sync"

	"github.com/fairlead/fairlead/gateway"
)

// htmlBytes bounds the rendered events that are kept, entryBytes is what one costs
// besides; maxEventHTML is the most JSON that the HTML of one event may be. A larger
// one is sent without.
const (
	htmlBytes    = 16 << 20
	entryBytes   = 256
	maxEventHTML = 512 << 10
)

// htmlCache keeps the HTML of output events, the longest unused leaving first.
// Events never change, so an entry never does.
type htmlCache struct {
	render func(string) string

	// mu guards the rest. It is not held while rendering.
	mu    sync.Mutex
	order *list.List // of *htmlEntry, the freshest first
	byID  map[string]*list.Element
	size  int
}

type htmlEntry struct{ id, html string }

func newHTMLCache(render func(string) string) *htmlCache {
	return &htmlCache{render: render, order: list.New(), byID: make(map[string]*list.Element)}
}

// rendered tells whether an event has HTML at all.
func (c *htmlCache) rendered(e gateway.Event) bool {
	return c.render != nil && e.Content != nil && *e.Content != ""
}

// prepare renders events before they are stored, so that publishing them later
// costs the writer nothing.
func (c *htmlCache) prepare(events []*gateway.Event) {
	for _, e := range events {
		c.of(*e)
	}
}

// of gives the HTML of an event, "" if it has none.
func (c *htmlCache) of(e gateway.Event) string {
	if !c.rendered(e) {
		return ""
	}
	if html, ok := c.get(e.ID); ok {
		return html
	}
	html := c.render(*e.Content)
	if jsonLen(html) > maxEventHTML {
		html = ""
	}
	c.put(e.ID, html)
	return html
}

// fill sets HTML in place.
func (c *htmlCache) fill(events []gateway.Event) {
	for i := range events {
		events[i].HTML = c.of(events[i])
	}
}

// known gives a copy of events with the HTML that is at hand; changed is false if
// there is none.
func (c *htmlCache) known(events []gateway.Event) (with []gateway.Event, changed bool) {
	for i, e := range events {
		if !c.rendered(e) {
			continue
		}
		html, _ := c.get(e.ID)
		if html == "" {
			continue
		}
		if !changed {
			with, changed = append([]gateway.Event(nil), events...), true
		}
		with[i].HTML = html
	}
	return with, changed
}

func (c *htmlCache) get(id string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byID[id]
	if !ok {
		return "", false
	}
	c.order.MoveToFront(el)
	entry, _ := el.Value.(*htmlEntry)
	return entry.html, true
}

func (c *htmlCache) put(id, html string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byID[id]; ok {
		return
	}
	c.byID[id] = c.order.PushFront(&htmlEntry{id: id, html: html})
	c.size += entryBytes + len(html)
	for c.size > htmlBytes && c.order.Len() > 1 {
		last := c.order.Back()
		entry, _ := c.order.Remove(last).(*htmlEntry)
		delete(c.byID, entry.id)
		c.size -= entryBytes + len(entry.html)
	}
}
