package chat

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
)

// live is a turn that is not final, with the text that was shown of it so far.
type live struct {
	turnID, threadID, runID, virtualID string
	created                            int64

	// gate is held while text is taken in and published, and by whoever ends the
	// turn in the host's stead, across the transaction. It comes before mu.
	gate sync.Mutex

	// mu guards the rest. It is held while a delta is published, so a snapshot
	// under it is exactly what was published before it.
	mu      sync.Mutex
	status  gateway.TurnStatus
	since   int64 // it may go to its host since
	started int64 // 0 until it runs
	reason  string
	retryAt time.Time
	text    []byte
	flushed int64               // output events stand for the text before it
	sources map[string]struct{} // native events in text
	split   Splitter            // of the text from flushed on; nil: no blocks
	blocks  []gateway.Block
	html    int     // JSON of blocks
	ended   bool    // nothing is taken in or published any more
	awaited *taking // a steer that the host took at text which is not here yet

	newSplit func() Splitter
}

func (s *Service) newLive(t gateway.TurnRow) *live {
	lt := &live{
		turnID: t.ID, threadID: t.ThreadID, runID: t.RunID, virtualID: t.VirtualTurnID,
		created: t.CreatedAt, since: t.CreatedAt, status: t.Status, started: t.StartedAt, reason: t.Reason,
		sources: make(map[string]struct{}), newSplit: s.newSplitter,
	}
	if s.newSplitter != nil {
		lt.split = s.newSplitter()
	}
	return lt
}

// restore takes up stored text after a restart; nothing is published. Output
// events stand for the text before flushed.
func (lt *live) restore(deltas []gateway.DeltaRow, flushed int64) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	lt.flushed = flushed
	for _, d := range deltas {
		for _, src := range d.Sources {
			lt.sources[src] = struct{}{}
		}
		lt.extend(d.Text)
	}
}

// extend needs mu. It gives the blocks that the text finished.
func (lt *live) extend(text string) []gateway.Block {
	known := max(lt.flushed-int64(len(lt.text)), 0)
	lt.text = append(lt.text, text...)
	return lt.splitOff(text[min(known, int64(len(text))):])
}

// splitOff needs mu. It gives the blocks that text after the last steer finished.
func (lt *live) splitOff(text string) []gateway.Block {
	if lt.split == nil || text == "" {
		return nil
	}
	before := len(lt.blocks)
	for _, b := range lt.appendTo(lt.split, text) {
		n := jsonLen(b.HTML)
		if lt.html += n; n > maxBlockJSON || lt.html > maxBlocksJSON {
			lt.split = nil // a gap would hide text: the rest is plain
			break
		}
		b.From, b.To = b.From+lt.flushed, b.To+lt.flushed
		lt.blocks = append(lt.blocks, b)
	}
	return lt.blocks[before:]
}

// appendTo asks a splitter for blocks. One that panics is asked no more: the text
// comes again with each start, and so would the end of the process.
func (lt *live) appendTo(split Splitter, text string) (blocks []gateway.Block) {
	defer func() {
		if recover() != nil {
			blocks, lt.split = nil, nil
		}
	}()
	return split.Append(text)
}

// take adds a delta and publishes it. ok is false if its native event is known
// or the turn is over. The caller holds gate.
func (lt *live) take(bus gateway.Bus, source, text string) (from int64, ok bool) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.ended || text == "" {
		return 0, false
	}
	if source != "" {
		if _, known := lt.sources[source]; known {
			return 0, false
		}
		lt.sources[source] = struct{}{}
	}
	from = int64(len(lt.text))
	blocks := lt.extend(text)
	topic := gateway.ThreadTopic(lt.threadID)
	bus.Publish(topic, deltaPush(lt.threadID, lt.turnID, from, text))
	for _, b := range blocks {
		bus.Publish(topic, blockPush(lt.threadID, lt.turnID, b))
	}
	return from, true
}

// shown is the text that was published so far.
func (lt *live) shown() answer {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	return answer{text: string(lt.text), from: lt.flushed}
}

// await keeps what a host says of a steer until the text is here that stands
// before it; false if it is.
func (lt *live) await(took taking) bool {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.ended || took.at <= int64(len(lt.text)) {
		return false
	}
	lt.awaited = &took
	return true
}

// taken tells whether the host took a delivery at text which is not here yet.
func (lt *live) taken(deliveryID string) bool {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	return lt.awaited != nil && lt.awaited.deliveryID == deliveryID
}

// arrived gives the awaited steer, once, when the text before it is here.
func (lt *live) arrived() (taking, bool) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.ended || lt.awaited == nil || lt.awaited.at > int64(len(lt.text)) {
		return taking{}, false
	}
	took := *lt.awaited
	lt.awaited = nil
	return took, true
}

// flush notes that output events stand for the text before at, and that a steer
// follows it: Markdown begins anew there, see resplit.
func (lt *live) flush(deliveryID string, at int64) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	lt.flushed = max(lt.flushed, at)
	lt.blocks, lt.html, lt.split = nil, 0, nil
	if lt.awaited != nil && lt.awaited.deliveryID == deliveryID {
		lt.awaited = nil
	}
}

// resplit begins with the blocks of the text after a steer, and publishes those
// that what came meanwhile finished. The caller holds gate.
func (lt *live) resplit(bus gateway.Bus) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.ended || lt.newSplit == nil || lt.split != nil || len(lt.blocks) > 0 {
		return
	}
	lt.split = lt.newSplit()
	for _, b := range lt.splitOff(answer{text: string(lt.text), from: lt.flushed}.rest()) {
		bus.Publish(gateway.ThreadTopic(lt.threadID), blockPush(lt.threadID, lt.turnID, b))
	}
}

// finish marks the turn as over.
func (lt *live) finish() {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	lt.ended = true
}

// run notes that the turn runs, since when; a reason to wait ends with it.
func (lt *live) run(since int64) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	lt.status, lt.started, lt.reason, lt.retryAt = gateway.TurnRunning, since, "", time.Time{}
}

// pend notes that the turn waits for its org no more, since when.
func (lt *live) pend(since int64) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	lt.status, lt.since = gateway.TurnPending, since
}

// pendingSince is when the turn could go to its host.
func (lt *live) pendingSince() int64 {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	return lt.since
}

// wait notes why the turn waits; changed is false if that is known. A turn that
// runs waits for nothing.
func (lt *live) wait(reason string, retryAt time.Time) (st turnState, changed bool) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	if lt.ended || lt.status != gateway.TurnPending || (lt.reason == reason && lt.retryAt.Equal(retryAt)) {
		return st, false
	}
	lt.reason, lt.retryAt = reason, retryAt
	return turnState{
		Type: "turn.state", ThreadID: lt.threadID, TurnID: lt.turnID,
		Status: lt.status, Reason: reason, RetryAt: stamp(retryAt),
	}, true
}

// standing is the status of the turn, since when it runs, and why it does not yet.
func (lt *live) standing() (status gateway.TurnStatus, started int64, reason string) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	return lt.status, lt.started, lt.reason
}

// view is what thread.open gives of the turn: text from offset on and blocks, as
// far as there is room for their JSON, and the pushes that bring the rest.
func (lt *live) view(offset int64, room int, html bool) (v gateway.LiveTurn, then []gateway.Push, ended bool) {
	lt.mu.Lock()
	defer lt.mu.Unlock()
	v = gateway.LiveTurn{TurnID: lt.turnID, Status: lt.status, Reason: lt.reason, Offset: offset}
	if offset > int64(len(lt.text)) || !runeStart(lt.text, offset) {
		v.Offset, v.Resync = 0, true
	}
	rest := string(lt.text[v.Offset:])
	if first := cut(rest, min(gateway.MaxReplyBytes, room/3)); len(first) > 0 {
		v.Text = first[0]
	}
	v.Next = v.Offset + int64(len(v.Text))
	at := v.Next
	for _, p := range cut(rest[len(v.Text):], gateway.MaxReplyBytes) {
		then = append(then, deltaPush(lt.threadID, lt.turnID, at, p))
		at += int64(len(p))
	}
	if !html {
		return v, then, lt.ended
	}
	room /= 2
	for i, b := range lt.blocks {
		if room -= eventJSON + jsonLen(b.HTML); room < 0 {
			for _, late := range lt.blocks[i:] {
				then = append(then, blockPush(lt.threadID, lt.turnID, late))
			}
			break
		}
		v.Blocks = append(v.Blocks, b)
	}
	return v, then, lt.ended
}

func runeStart(text []byte, offset int64) bool {
	return offset == int64(len(text)) || utf8.RuneStart(text[offset])
}
