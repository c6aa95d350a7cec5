package hosts

import (
	"strings"
	"sync"

	"github.com/fairlead/fairlead/relay/wire"
)

// Bounds of what waits for a run's driver. A host holds back more than 192
// envelopes or 3 MiB that are not acknowledged, so they are met only when a ledger
// fails for long.
const (
	maxInboxEvents = 1024
	maxInboxBytes  = 8 << 20
	// maxInboxAcks is far more than one command in flight is answered with.
	maxInboxAcks = 64
	// maxInboxReceipts is far more than the deliveries of a run that may be open. A
	// receipt that is dropped is told again by the end of its turn.
	maxInboxReceipts = 256
)

// inbox is what happened since a driver last looked.
type inbox struct {
	woken    bool // Work may have changed
	room     bool // the host may have room
	reminded bool // say again why the run waits
	attached bool
	known    uint64 // what the host knew to be acknowledged when it attached
	refused  *wire.ErrorBody
	acks     []wire.Ack
	receipts []wire.Receipt
	events   []wire.Envelope
	bytes    int
	// cursor is up to where the ledger is durable.
	cursor uint64
	// overflow is set when events were dropped: they come again after an attach.
	overflow bool
	// deaf drops events: those of an attachment that was given up.
	deaf bool
}

func (in *inbox) add(e wire.Envelope) {
	if in.deaf {
		return
	}
	if len(in.events) >= maxInboxEvents || in.bytes+len(e.Payload) > maxInboxBytes {
		in.overflow, in.deaf = true, true
		return
	}
	in.events = append(in.events, e)
	in.bytes += len(e.Payload)
}

// addAck drops the answers of a host that answers more than it is asked: after the next
// attach its command is sent again.
func (in *inbox) addAck(a wire.Ack) {
	if len(in.acks) >= maxInboxAcks {
		in.overflow, in.deaf = true, true
		return
	}
	in.acks = append(in.acks, a)
}

// maxCode is the length of the longest code that is stored.
const maxCode = 64

// reported is an error of a host as it may be stored: what is no code counts as internal.
func reported(e *wire.ErrorBody) *wire.ErrorBody {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }
	if e.Code != "" && len(e.Code) <= maxCode && !strings.ContainsFunc(string(e.Code), odd) {
		return e
	}
	safe := *e
	safe.Code = wire.CodeInternal
	return &safe
}

func (in *inbox) empty() bool {
	return !in.woken && !in.room && !in.reminded && !in.attached && in.refused == nil &&
		len(in.acks) == 0 && len(in.receipts) == 0 && len(in.events) == 0 && in.cursor == 0 && !in.overflow
}

// mailbox is an inbox that any goroutine may post to and one takes from.
type mailbox struct {
	// wake has room for one and is filled after each post.
	wake chan struct{}

	mu sync.Mutex
	in inbox
}

func newMailbox() mailbox {
	return mailbox{wake: make(chan struct{}, 1), in: inbox{deaf: true}}
}

func (m *mailbox) post(put func(*inbox)) {
	m.mu.Lock()
	put(&m.in)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take empties the inbox; whether it is deaf stays.
func (m *mailbox) take() inbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in
	m.in = inbox{deaf: in.deaf}
	return in
}

func (m *mailbox) pending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.in.empty()
}

// deafen drops the events of an attachment that is given up, those that wait too:
// what comes before them may be missing.
func (m *mailbox) deafen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in.deaf, m.in.events, m.in.bytes = true, nil, 0
}
