package link_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// scriptedHost is a host whose runs a test drives by hand.
type scriptedHost struct {
	hello wire.Hello

	mu        sync.Mutex
	runs      map[string]*scriptedRun
	room      wire.Room
	catalog   wire.CatalogMessage
	watch     func()
	attachErr error
	leaving   string   // why it drains; empty if it does not
	seen      string   // what the link saw of it last
	drains    []string // what the gateway asked for
}

func newScriptedHost() *scriptedHost {
	return &scriptedHost{
		hello: wire.Hello{
			HostID: "host_1", Name: "Test host", Version: "1.2.3", Protocols: []string{wire.HostProtocol},
			Capabilities: []string{wire.CapabilityOutcome, "something_newer", wire.CapabilityReasoning, wire.CapabilitySteer},
		},
		runs: map[string]*scriptedRun{}, room: wire.Room{Max: 8},
	}
}

func (h *scriptedHost) Hello() wire.Hello { return h.hello }

func (h *scriptedHost) Attach(_ context.Context, a wire.Attach, capabilities []string) (link.Attachment, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.attachErr != nil {
		return nil, h.attachErr
	}
	r := h.run(a.RunID)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attach, r.capabilities = a, capabilities
	r.open++
	r.together = max(r.together, r.open-r.closed)
	r.handedOff = a.Cursor
	return r, nil
}

func (h *scriptedHost) Catalog(_ context.Context, challenge string) (wire.CatalogMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.catalog.Error != nil {
		return wire.CatalogMessage{}, wire.NewError(h.catalog.Error.Code, h.catalog.Error.Message)
	}
	m := h.catalog
	m.Challenge = challenge
	return m, nil
}

func (h *scriptedHost) Room() wire.Room {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.room
}

func (h *scriptedHost) Draining() (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = h.leaving
	return h.leaving, h.leaving != ""
}

// looked tells whether the link saw that the host does not drain.
func (h *scriptedHost) looked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen == ""
}

func (h *scriptedHost) Drain(reason string, resume bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving = reason
	if resume {
		h.leaving = ""
	}
	h.drains = append(h.drains, fmt.Sprintf("%s/%v", reason, resume))
}

func (h *scriptedHost) Watch(fn func()) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watch = fn
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.watch = nil
	}
}

// change alters the host and tells its watcher.
func (h *scriptedHost) change(alter func()) {
	h.mu.Lock()
	alter()
	tell := h.watch
	h.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// run is called with mu held.
func (h *scriptedHost) run(id string) *scriptedRun {
	r := h.runs[id]
	if r == nil {
		r = &scriptedRun{id: id, changed: make(chan struct{}, 1)}
		h.runs[id] = r
	}
	return r
}

func (h *scriptedHost) lookup(id string) *scriptedRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.run(id)
}

// scriptedRun is the attachment of one run; its journal outlives attachments.
type scriptedRun struct {
	id      string
	changed chan struct{}

	mu           sync.Mutex
	attach       wire.Attach
	capabilities []string
	open, closed int
	together     int // the most that were open at once
	journal      []wire.Envelope
	handedOff    uint64
	confirmed    []uint64
	acknowledged uint64
	commands     []uint64
	gate         chan struct{} // Command waits for it; nil lets all pass
	nextErr      error
	steers       []wire.Steer
	receipts     map[string]chan wire.Receipt // by delivery; closed without one: unknown
	steerErr     error
}

func (r *scriptedRun) RuntimeCursor() uint64 { return r.acknowledged }

func (r *scriptedRun) Command(ctx context.Context, m wire.CommandMessage) wire.Ack {
	r.mu.Lock()
	gate := r.gate
	r.commands = append(r.commands, m.Seq)
	r.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	return wire.Ack{RunID: m.RunID, CommandSeq: m.Seq, CommandType: wire.TypePromptRequest, Status: wire.AckApplied}
}

// Steer keeps the steer until the test settles it.
func (r *scriptedRun) Steer(_ context.Context, m wire.Steer) (func(context.Context) (wire.Receipt, bool), error) {
	settled := r.settled(m.DeliveryID)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steers = append(r.steers, m)
	if err := r.steerErr; err != nil {
		r.steerErr = nil
		return nil, err
	}
	return func(ctx context.Context) (wire.Receipt, bool) {
		select {
		case receipt, known := <-settled:
			return receipt, known
		case <-ctx.Done():
			return wire.Receipt{}, false
		}
	}, nil
}

// settled is where the test says what became of a steer.
func (r *scriptedRun) settled(deliveryID string) chan wire.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.receipts == nil {
		r.receipts = map[string]chan wire.Receipt{}
	}
	if r.receipts[deliveryID] == nil {
		r.receipts[deliveryID] = make(chan wire.Receipt, 2)
	}
	return r.receipts[deliveryID]
}

func (r *scriptedRun) Next(ctx context.Context) ([]wire.Envelope, error) {
	for {
		r.mu.Lock()
		if err := r.nextErr; err != nil {
			r.nextErr = nil
			r.mu.Unlock()
			return nil, err
		}
		var batch []wire.Envelope
		for _, e := range r.journal {
			if e.Seq > r.handedOff && len(batch) < 3 {
				batch = append(batch, e)
			}
		}
		r.mu.Unlock()
		if len(batch) > 0 {
			return batch, nil
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (r *scriptedRun) HandedOff(_ context.Context, seq uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handedOff = seq
	r.confirmed = append(r.confirmed, seq)
	return nil
}

func (r *scriptedRun) Acknowledge(_ context.Context, cursor uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acknowledged = max(r.acknowledged, cursor)
	r.journal = slices.DeleteFunc(r.journal, func(e wire.Envelope) bool { return e.Seq <= r.acknowledged })
	return nil
}

func (r *scriptedRun) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
}

// emit journals envelopes with the given sequence numbers.
func (r *scriptedRun) emit(seqs ...uint64) {
	r.mu.Lock()
	for _, seq := range seqs {
		r.journal = append(r.journal, wire.Envelope{SchemaVersion: wire.EnvelopeSchemaVersion, Seq: seq, Event: wire.EventItemDelta})
	}
	r.mu.Unlock()
	r.poke()
}

func (r *scriptedRun) fail(err error) {
	r.mu.Lock()
	r.nextErr = err
	r.mu.Unlock()
	r.poke()
}

func (r *scriptedRun) poke() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// recorder is a Handler that keeps what it is told in channels.
type recorder struct {
	attached chan wire.Attached
	refused  chan wire.Refused
	acks     chan wire.Ack
	events   chan wire.EventMessage
	rooms    chan wire.Room
	catalogs chan wire.CatalogMessage
	offline  chan wire.Offline
	draining chan wire.Draining
	receipts chan wire.Receipt
}

func newRecorder() *recorder {
	const enough = 1024
	return &recorder{
		attached: make(chan wire.Attached, enough), refused: make(chan wire.Refused, enough),
		acks: make(chan wire.Ack, enough), events: make(chan wire.EventMessage, enough),
		rooms: make(chan wire.Room, enough), catalogs: make(chan wire.CatalogMessage, enough),
		offline: make(chan wire.Offline, enough), draining: make(chan wire.Draining, enough), receipts: make(chan wire.Receipt, enough),
	}
}

func (r *recorder) Attached(m wire.Attached)      { r.attached <- m }
func (r *recorder) Refused(m wire.Refused)        { r.refused <- m }
func (r *recorder) Ack(m wire.Ack)                { r.acks <- m }
func (r *recorder) Event(m wire.EventMessage)     { r.events <- m }
func (r *recorder) Receipt(m wire.Receipt)        { r.receipts <- m }
func (r *recorder) Room(m wire.Room)              { r.rooms <- m }
func (r *recorder) Catalog(m wire.CatalogMessage) { r.catalogs <- m }
func (r *recorder) Offline(m wire.Offline)        { r.offline <- m }
func (r *recorder) Draining(m wire.Draining)      { r.draining <- m }

func take[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(10 * time.Second):
		var zero T
		t.Fatalf("no %T came", zero)
		return zero
	}
}
