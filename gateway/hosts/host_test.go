package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// relayHost is a scripted relay host that keeps the promises of the contract: a
// command is applied once and its answer repeated, what is not acknowledged is sent
// again, the native event keeps its source id.
type relayHost struct {
	id string

	mu     sync.Mutex
	scopes map[string]*scope
	room   wire.Room
	routes []wire.Route
	watch  func()
	// refuse answers an attach; busy a prompt. Nil takes both.
	refuse func(wire.Attach) error
	busy   func(wire.CommandMessage) *wire.ErrorBody
	// manual leaves the turns of applied prompts to the test.
	manual bool
	log    []string // commands in the order in which they came
	// took says what becomes of a steer at once; nil or false leaves it to the test.
	took func(wire.Steer) (wire.Receipt, bool)
	old  bool // it takes no steers
	// tellsOwing has it name what is not acknowledged.
	tellsOwing bool
	// drain is why it drains, "" if it does not; asked what its gateway wished.
	drain string
	asked []bool
	// generations of settings that it understands.
	generations []int
}

// scope is one run at the host; it outlives links.
type scope struct {
	host    *relayHost
	run     string
	answers map[uint64]wire.Ack
	started map[string]int // executions by turn
	journal []wire.Envelope
	seq     uint64
	cursor  uint64
	open    int
	// unsettled is how many turns the host says to be so.
	unsettled int
	changed   chan struct{}
	offered   []wire.Steer
	settled   map[string]*settled
}

func newRelayHost(id string) *relayHost {
	return &relayHost{id: id, scopes: map[string]*scope{}, room: wire.Room{Max: 8}}
}

func (h *relayHost) Hello() wire.Hello {
	hello := wire.Hello{
		HostID: h.id, Name: "Host " + h.id, Version: "1.0.0", Protocols: []string{wire.HostProtocol},
		Capabilities:      []string{wire.CapabilityOutcome, wire.CapabilityReasoning},
		ConfigGenerations: h.generations,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.scopes {
		if n := len(s.journal); n > 0 && h.tellsOwing {
			hello.Owing = append(hello.Owing, wire.Owing{RunID: s.run, Seq: s.journal[n-1].Seq})
		} else if s.unsettled > 0 {
			hello.Owing = append(hello.Owing, wire.Owing{RunID: s.run, Turns: s.unsettled})
		}
	}
	if !h.old {
		hello.Capabilities = append(hello.Capabilities, wire.CapabilitySteer)
	}
	return hello
}

func (h *relayHost) Attach(_ context.Context, a wire.Attach, _ []string) (link.Attachment, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, "attach "+a.RunID)
	if h.refuse != nil {
		if err := h.refuse(a); err != nil {
			return nil, err
		}
	}
	s := h.scope(a.RunID)
	s.open++
	s.retire(a.Cursor)
	return &attachment{scope: s, given: a.Cursor}, nil
}

func (h *relayHost) Catalog(_ context.Context, challenge string) (wire.CatalogMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return wire.CatalogMessage{Challenge: challenge, Routes: slices.Clone(h.routes)}, nil
}

func (h *relayHost) Room() wire.Room {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.room
}

func (h *relayHost) Draining() (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.drain, h.drain != ""
}

func (h *relayHost) Drain(reason string, resume bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drain = reason; resume {
		h.drain = ""
	}
	h.asked = append(h.asked, !resume)
}

func (h *relayHost) Watch(fn func()) func() {
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
func (h *relayHost) change(alter func()) {
	h.mu.Lock()
	alter()
	tell := h.watch
	h.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// commands gives what came so far.
func (h *relayHost) commands() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log)
}

// scope is called with mu held.
func (h *relayHost) scope(run string) *scope {
	s := h.scopes[run]
	if s == nil {
		s = &scope{host: h, run: run, answers: map[uint64]wire.Ack{}, started: map[string]int{}, changed: make(chan struct{}, 1), settled: map[string]*settled{}}
		h.scopes[run] = s
	}
	return s
}

// emit journals the events of a turn; it is called with mu held.
func (s *scope) emit(turn string, events ...string) {
	for i, event := range events {
		s.seq++
		e := wire.Envelope{
			SchemaVersion: wire.EnvelopeSchemaVersion, Seq: s.seq, Event: event, TurnID: turn,
			SourceEventID: fmt.Sprintf("%s/%s/%d/%d", turn, event, s.started[turn], i), Payload: json.RawMessage(`{}`),
		}
		if event == wire.EventItemDelta {
			e.Payload = json.RawMessage(fmt.Sprintf("%d ", i))
		}
		s.journal = append(s.journal, e)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *scope) retire(cursor uint64) {
	s.cursor = max(s.cursor, cursor)
	s.journal = slices.DeleteFunc(s.journal, func(e wire.Envelope) bool { return e.Seq <= s.cursor })
}

// play emits a whole turn.
func (h *relayHost) play(run, turn string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scope(run).emit(turn, wire.EventTurnStarted, wire.EventItemDelta, wire.EventItemDelta, wire.EventItemDelta, wire.EventTurnCompleted)
}

// wholeTurn is the text of a turn that was played.
const wholeTurn = "1 2 3 "

type attachment struct {
	scope *scope
	given uint64
}

func (a *attachment) RuntimeCursor() uint64 { return a.scope.cursor }

func (a *attachment) Command(_ context.Context, m wire.CommandMessage) wire.Ack {
	s := a.scope
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	var c struct{ Type, TurnID string }
	_ = json.Unmarshal(m.Command, &c)
	s.host.log = append(s.host.log, fmt.Sprintf("%s %d %s", m.RunID, m.Seq, c.Type))
	if ack, replay := s.answers[m.Seq]; replay {
		return ack
	}
	ack := wire.Ack{RunID: m.RunID, CommandSeq: m.Seq, CommandType: c.Type, Status: wire.AckApplied}
	if s.host.drain != "" && c.Type == wire.TypePromptRequest {
		ack.Status, ack.Error = wire.AckFailed, body(wire.CodeShuttingDown)
		return ack
	}
	if s.host.busy != nil {
		if ack.Error = s.host.busy(m); ack.Error != nil {
			ack.Status = wire.AckFailed
			return ack
		}
	}
	s.answers[m.Seq] = ack
	if c.Type == wire.TypePromptRequest {
		s.started[c.TurnID]++
		if !s.host.manual {
			s.emit(c.TurnID, wire.EventTurnStarted, wire.EventItemDelta, wire.EventItemDelta, wire.EventItemDelta, wire.EventTurnCompleted)
		}
	}
	return ack
}

func (a *attachment) Next(ctx context.Context) ([]wire.Envelope, error) {
	s := a.scope
	for {
		s.host.mu.Lock()
		var batch []wire.Envelope
		for _, e := range s.journal {
			if e.Seq > a.given && len(batch) < 2 {
				batch = append(batch, e)
			}
		}
		s.host.mu.Unlock()
		if len(batch) > 0 {
			return batch, nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (a *attachment) HandedOff(_ context.Context, seq uint64) error {
	a.scope.host.mu.Lock()
	defer a.scope.host.mu.Unlock()
	a.given = seq
	return nil
}

func (a *attachment) Acknowledge(_ context.Context, cursor uint64) error {
	a.scope.host.mu.Lock()
	defer a.scope.host.mu.Unlock()
	a.scope.retire(cursor)
	return nil
}

func (a *attachment) Close() {
	a.scope.host.mu.Lock()
	defer a.scope.host.mu.Unlock()
	a.scope.open--
}

func (h *relayHost) pendingOf(run string) (unacknowledged, attachments int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.scope(run)
	return len(s.journal), s.open
}
