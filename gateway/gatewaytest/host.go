package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Host keeps a host's side of the relay contract against a gateway.Ledger: it
// starts each turn once, keeps envelopes until the cursor retires them, sends
// them again when it is told to, and answers repeated commands alike. Nothing
// happens by itself: the test says when commands are fetched, what a turn says
// and when envelopes are delivered. It is not for concurrent use, but for the
// durable callback.
type Host struct {
	ID string

	mu   sync.Mutex
	runs map[string]*hostRun
}

type hostRun struct {
	seq     uint64
	source  int
	outbox  []wire.Envelope
	cursor  uint64
	acks    map[uint64]wire.Ack
	turns   map[string]*HostTurn
	order   []string
	unacked []wire.Ack
}

// HostTurn is a turn as the host knows it.
type HostTurn struct {
	Request     wire.PromptRequest
	Starts      int
	Ended       bool
	Interrupted bool
	Text        string
}

// NewHost makes a host that knows nothing.
func NewHost(id string) *Host { return &Host{ID: id, runs: make(map[string]*hostRun)} }

func (h *Host) run(runID string) *hostRun {
	r := h.runs[runID]
	if r == nil {
		r = &hostRun{acks: make(map[uint64]wire.Ack), turns: make(map[string]*HostTurn)}
		h.runs[runID] = r
	}
	return r
}

// Fetch takes up the commands of all open runs, in order, and holds the answers
// back until Answer.
func (h *Host) Fetch(ctx context.Context, l gateway.Ledger) error {
	runs, err := l.OpenRuns(ctx, h.ID)
	if err != nil {
		return err
	}
	for _, id := range runs {
		work, err := l.Work(ctx, id)
		if err != nil {
			return err
		}
		h.mu.Lock()
		r := h.run(id)
		for _, c := range work.Commands {
			ack, known := r.acks[c.Seq]
			if !known {
				if ack, err = r.apply(c); err != nil {
					h.mu.Unlock()
					return err
				}
				r.acks[c.Seq] = ack
			}
			r.unacked = append(r.unacked, ack)
		}
		h.mu.Unlock()
	}
	return nil
}

func (r *hostRun) apply(c wire.CommandMessage) (wire.Ack, error) {
	ack := wire.Ack{RunID: c.RunID, CommandSeq: c.Seq, Status: wire.AckApplied}
	var head struct{ Type, TurnID string }
	if err := json.Unmarshal(c.Command, &head); err != nil {
		return ack, err
	}
	ack.CommandType, ack.TurnID = head.Type, head.TurnID
	t := r.turns[head.TurnID]
	if head.Type == wire.TypeRunControl {
		if t == nil {
			ack.Status = wire.AckFailed
			ack.Error = wire.NewError(wire.CodeInterruptUnknown, "No such turn.").Body()
			return ack, nil
		}
		t.Interrupted = true
		return ack, nil
	}
	if t == nil {
		t = &HostTurn{}
		if err := json.Unmarshal(c.Command, &t.Request); err != nil {
			return ack, err
		}
		t.Starts++
		r.turns[head.TurnID], r.order = t, append(r.order, head.TurnID)
		r.emit(head.TurnID, wire.EventTurnStarted, wire.StartedPayload{})
	}
	return ack, nil
}

func (r *hostRun) emit(turnID, event string, payload any) {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // a fault of the test
	}
	r.seq++
	r.source++
	r.outbox = append(r.outbox, wire.Envelope{
		SchemaVersion: wire.EnvelopeSchemaVersion, Seq: r.seq, Event: event, Kind: event, TurnID: turnID,
		SourceEventID: fmt.Sprintf("native_event_%064d", r.source), Payload: raw,
	})
}

// Answer gives the answers that are held back.
func (h *Host) Answer(ctx context.Context, l gateway.Ledger) error {
	for _, id := range h.Runs() {
		h.mu.Lock()
		acks := h.runs[id].unacked
		h.runs[id].unacked = nil
		h.mu.Unlock()
		for _, a := range acks {
			if err := l.Ack(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// LoseAnswers forgets the answers that are held back, as a cut link does.
func (h *Host) LoseAnswers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		r.unacked = nil
	}
}

// Runs lists the runs that the host knows.
func (h *Host) Runs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]string, 0, len(h.runs))
	for id := range h.runs {
		ids = append(ids, id)
	}
	return ids
}

// Turn gives the newest turn of a run.
func (h *Host) Turn(runID string) (name string, t *HostTurn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.run(runID)
	if len(r.order) == 0 {
		return "", nil
	}
	name = r.order[len(r.order)-1]
	return name, r.turns[name]
}

// Started lists all turns of the host with what is known of them.
func (h *Host) Started() []HostTurn {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []HostTurn
	for _, r := range h.runs {
		for _, name := range r.order {
			list = append(list, *r.turns[name])
		}
	}
	return list
}

// Say makes the newest turn of a run say text, unless it is over.
func (h *Host) Say(runID, text string) {
	name, t := h.Turn(runID)
	h.mu.Lock()
	defer h.mu.Unlock()
	if t == nil || t.Ended || t.Interrupted {
		return
	}
	t.Text += text
	h.runs[runID].emit(name, wire.EventItemDelta, wire.DeltaPayload{Kind: wire.DeltaMessage, Delta: text})
}

// End ends the newest turn of a run, as interrupted if it was: then nothing but the
// list of the steers that it took is told beside.
func (h *Host) End(runID string, p wire.CompletedPayload) {
	name, t := h.Turn(runID)
	h.mu.Lock()
	defer h.mu.Unlock()
	if t == nil || t.Ended {
		return
	}
	if t.Interrupted {
		p.Turn.Status = wire.NativeInterrupted
		if p.Outcome != nil && len(p.Outcome.Deliveries) > 0 {
			p.Outcome = &wire.Outcome{Deliveries: p.Outcome.Deliveries}
		} else {
			p.Outcome = nil
		}
	}
	t.Ended = true
	h.runs[runID].emit(name, wire.EventTurnCompleted, p)
}

// Completed is the end of a turn that went well and used some tokens.
func Completed() wire.CompletedPayload {
	return wire.CompletedPayload{
		Turn:    wire.CompletedTurn{Status: wire.NativeCompleted, Usage: json.RawMessage(`{"input_tokens":5,"output_tokens":3}`)},
		Outcome: &wire.Outcome{ResponseID: "resp_1"},
	}
}

// Failed is the end of a turn that failed with a code.
func Failed(code wire.Code) wire.CompletedPayload {
	return wire.CompletedPayload{
		Turn:    wire.CompletedTurn{Status: wire.NativeFailed, Usage: json.RawMessage(`{}`)},
		Outcome: &wire.Outcome{Error: code},
	}
}

// Deliver gives at most n envelopes above the cursor of each run, all of them for
// n < 0. It does not wait for them to be durable; Settled does.
func (h *Host) Deliver(ctx context.Context, l gateway.Ledger, n int) error {
	for _, id := range h.Runs() {
		h.mu.Lock()
		batch := append([]wire.Envelope(nil), h.runs[id].outbox...)
		h.mu.Unlock()
		if n >= 0 && len(batch) > n {
			batch = batch[:n]
		}
		if err := l.Intake(ctx, id, batch, func(cursor uint64) { h.retire(id, cursor) }); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) retire(runID string, cursor uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[runID]
	r.cursor = max(r.cursor, cursor)
	for len(r.outbox) > 0 && r.outbox[0].Seq <= r.cursor {
		r.outbox = r.outbox[1:]
	}
}

// Settled tells whether everything that the host sent is durable.
func (h *Host) Settled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if len(r.outbox) > 0 {
			return false
		}
	}
	return true
}

// Renumber sends what is not retired under new sequence numbers but with the same
// native events, as a host does that ended between journal and cursor (RH42).
func (h *Host) Renumber() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		again := append([]wire.Envelope(nil), r.outbox...)
		for i := range again {
			r.seq++
			again[i].Seq = r.seq
		}
		r.outbox = append(r.outbox, again...)
	}
}
