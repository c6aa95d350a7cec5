package socket_test

import (
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/gateway"
)

// viewer is what a careful client knows of one thread. Its first fault is any
// gap, overlap, or text after a turn's end that the server let through.
type viewer struct {
	threadID string
	html     bool
	open     bool // a subscription runs
	window   bool // the viewer asked for a window, not for what is beyond its position

	seq    int64
	log    []string // what the events were, by their place
	turnID string
	text   strings.Builder
	blocks int64
	over   map[string]bool
	fault  error
}

func newViewer(threadID string, html bool) *viewer {
	return &viewer{threadID: threadID, html: html, over: make(map[string]bool)}
}

func (v *viewer) fail(format string, args ...any) {
	if v.fault == nil {
		v.fault = fmt.Errorf(format, args...)
	}
}

func (v *viewer) next() int64 { return int64(v.text.Len()) }

// resume asks for what lies beyond the viewer's position.
func (v *viewer) resume() fields {
	v.window = false
	f := fields{"threadId": v.threadID, "sinceSeq": v.seq, "html": v.html}
	if v.turnID != "" {
		f["turn"] = fields{"turnId": v.turnID, "offset": v.next()}
	}
	return f
}

// reply takes the reply of thread.open.
func (v *viewer) reply(f frame, live *gateway.LiveTurn) {
	v.events(f, true)
	if f.More && !v.window {
		v.open = false
		return
	}
	v.open = true
	if v.seq != f.LatestSeq {
		v.fail("the reply ends at event %d and says %d", v.seq, f.LatestSeq)
	}
	if live == nil {
		return
	}
	if live.TurnID != v.turnID {
		v.turn(live.TurnID)
	}
	if live.Resync || live.Offset == 0 {
		v.text.Reset()
		v.blocks = 0
	}
	if live.Offset != v.next() || live.Next != live.Offset+int64(len(live.Text)) {
		v.fail("turn [%d,%d) of %d bytes after %d", live.Offset, live.Next, len(live.Text), v.next())
	}
	v.text.WriteString(live.Text)
	if v.html {
		v.blocks = 0
		for _, b := range live.Blocks {
			v.block(b.From, b.To)
		}
	}
}

func (v *viewer) turn(turnID string) {
	v.turnID, v.blocks = turnID, 0
	v.text.Reset()
}

// push takes a push of the subscription.
func (v *viewer) push(f frame) {
	if f.ThreadID != v.threadID {
		return
	}
	if !v.open {
		v.fail("a push without a subscription: %s", f.raw)
	}
	switch f.Type {
	case "thread.events":
		v.events(f, false)
	case "turn.delta":
		if v.over[f.TurnID] {
			v.fail("text after the end of its turn: %s", f.raw)
		}
		if f.TurnID != v.turnID {
			v.turn(f.TurnID)
		}
		if f.Offset != v.next() || f.next() != f.Offset+int64(len(f.Text)) {
			v.fail("delta [%d,%d) of %d bytes after %d", f.Offset, f.next(), len(f.Text), v.next())
		}
		v.text.WriteString(f.Text)
	case "turn.block":
		if !v.html || f.TurnID != v.turnID || v.over[f.TurnID] {
			v.fail("a block that nobody wants: %s", f.raw)
		}
		v.block(f.From, f.To)
	}
}

func (v *viewer) block(from, to int64) {
	if from != v.blocks || to <= from {
		v.fail("block [%d,%d) after %d", from, to, v.blocks)
	}
	v.blocks = to
}

// events takes events; those of a reply may be known.
func (v *viewer) events(f frame, known bool) {
	for _, e := range f.Events {
		if known && e.SeqID <= v.seq {
			continue
		}
		if e.SeqID != v.seq+1 && (!known || v.seq != 0) { // a window begins anywhere
			v.fail("event %d after %d: %.300s", e.SeqID, v.seq, f.raw)
		}
		v.seq = e.SeqID
		if e.EventType == gateway.EventInputPrompt && e.TurnID != "" && e.TurnID != v.turnID {
			v.turn(e.TurnID)
		}
		line := string(e.EventType)
		if e.Content != nil {
			line += ":" + *e.Content
			if v.html != (e.HTML != "") && !known && *e.Content != "" {
				v.fail("html is %q: %s", e.HTML, f.raw)
			}
		}
		v.log = append(v.log, line)
		if strings.HasPrefix(string(e.EventType), "turn.") {
			v.over[e.TurnID] = true
		}
	}
}

// take sorts frames that a client read into replies of open and pushes.
func (v *viewer) take(c *client, frames []frame) {
	for _, f := range frames {
		switch {
		case f.Type != "":
			v.push(f)
		case f.Error != nil:
			v.fail("refused: %s", f.raw)
		case f.Events != nil:
			v.reply(f, f.turn(c))
		}
	}
}
