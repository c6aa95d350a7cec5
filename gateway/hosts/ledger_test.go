package hosts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// ledger is a faithful double of the account side in memory: it keeps commands in
// order, marks them as sent when it gives them, drops what it knows by its source
// event, and moves the cursor only to what it holds.
type ledger struct {
	mu   sync.Mutex
	runs map[string]*ledgerRun
	// said holds what Waiting was told, per run; refused what Refused was.
	said    map[string][]said
	refused map[string][]wire.Code
	asked   int // calls of Work
	polled  int // calls of Poll
	// faults makes the next calls of a method fail.
	faults map[string]int
	// lazy keeps durable callbacks until settle; stuck holds Intake up.
	lazy  bool
	stuck chan struct{}
	slow  chan struct{} // holds Ack up
	// generation is that of every prompt.
	generation int
	owed       []func()
	faulty     []string // what went against the contract
}

type said struct {
	reason  string
	retryAt time.Time
}

type ledgerRun struct {
	id, host string
	commands []*ledgerCommand
	// turns that the host owes an end, by virtual turn id.
	owed   map[string]bool
	cursor uint64
	known  map[string]bool
	text   map[string]string // answer by turn
	ended  map[string]int
	// dropped are the turns that were stopped before the host had anything of them.
	dropped map[string]bool
	lost    map[string]bool // ended because their host refused or was gone
	taken   []uint64        // Seq of each envelope given, duplicates too
	steers  []*ledgerSteer
	attach  wire.Attach              // zero: one of the double's own
	ends    map[string]wire.Envelope // by turn
}

type ledgerCommand struct {
	seq   uint64
	body  json.RawMessage
	kind  string
	turn  string
	state string // pending, sent, acked, failed
	acks  int
	code  wire.Code
}

func newLedger() *ledger {
	return &ledger{
		runs: map[string]*ledgerRun{}, said: map[string][]said{}, refused: map[string][]wire.Code{}, faults: map[string]int{},
	}
}

// run is called with mu held.
func (l *ledger) run(id string) *ledgerRun {
	r := l.runs[id]
	if r == nil {
		r = &ledgerRun{
			id: id, host: "host_1", owed: map[string]bool{}, known: map[string]bool{}, text: map[string]string{}, ended: map[string]int{},
			dropped: map[string]bool{}, lost: map[string]bool{}, ends: map[string]wire.Envelope{},
		}
		l.runs[id] = r
	}
	return r
}

// at makes a run one of another host than host_1.
func (l *ledger) at(runID, hostID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run(runID).host = hostID
}

// prompt appends a prompt command and gives its turn.
func (l *ledger) prompt(runID string) (turn string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.run(runID)
	seq := uint64(len(r.commands) + 1)
	turn = fmt.Sprintf("%s/turn_%d", runID, seq)
	body, _ := json.Marshal(map[string]string{
		"type": wire.TypePromptRequest, "turnId": turn, "model": "m", "modelProvider": "p", "modelProviderId": "p-id",
	})
	r.commands = append(r.commands, &ledgerCommand{seq: seq, body: body, kind: wire.TypePromptRequest, turn: turn, state: "pending"})
	r.owed[turn] = true
	return turn
}

// stop appends a command that interrupts a turn.
func (l *ledger) stop(runID, turn string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.run(runID)
	body, _ := json.Marshal(map[string]string{"type": wire.TypeRunControl, "turnId": turn})
	r.commands = append(r.commands, &ledgerCommand{
		seq: uint64(len(r.commands) + 1), body: body, kind: wire.TypeRunControl, turn: turn, state: "pending",
	})
}

// fails is called with mu held.
func (l *ledger) fails(method string) error {
	if l.faults[method] == 0 {
		return nil
	}
	l.faults[method]--
	return wire.NewError(wire.CodeStorageUnavailable, "The store is down.")
}

func (l *ledger) fail(method string, times int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[method] = times
}

func (r *ledgerRun) open() []*ledgerCommand {
	return slices.DeleteFunc(slices.Clone(r.commands), func(c *ledgerCommand) bool { return c.state == "acked" || c.state == "failed" })
}

// stopped tells whether a turn is to be stopped.
func (r *ledgerRun) stopped(turn string) bool {
	return slices.ContainsFunc(r.commands, func(c *ledgerCommand) bool { return c.kind == wire.TypeRunControl && c.turn == turn })
}

func (r *ledgerRun) idle() bool { return len(r.open()) == 0 && len(r.owed) == 0 }

func (l *ledger) OpenRuns(_ context.Context, hostID string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var open []string
	for id, r := range l.runs {
		if r.host == hostID && !r.idle() {
			open = append(open, id)
		}
	}
	slices.Sort(open)
	return open, l.fails("OpenRuns")
}

func (l *ledger) HostOf(_ context.Context, runID string) (hostID string, idle bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails("HostOf"); err != nil {
		return "", false, err
	}
	r := l.runs[runID]
	if r == nil {
		return "", false, wire.NewError(wire.CodeNotFound, "There is no such run.")
	}
	return r.host, r.idle(), nil
}

func (l *ledger) Work(_ context.Context, runID string) (gateway.RunWork, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if err := l.fails("Work"); err != nil {
		return gateway.RunWork{}, err
	}
	r := l.runs[runID]
	if r == nil {
		return gateway.RunWork{}, wire.NewError(wire.CodeNotFound, "There is no such run.")
	}
	work := gateway.RunWork{
		RunID: runID, HostID: r.host, Idle: r.idle(),
		Attach: wire.Attach{TargetRef: "target_1", SessionID: "chat:" + runID, AccountRef: "account_1", RunID: runID, WorkspaceID: "w", Cursor: r.cursor},
	}
	if r.attach.RunID != "" {
		work.Attach = r.attach
		work.Attach.Cursor = r.cursor
	}
	if open := r.open(); len(open) > 0 && open[0].kind == wire.TypePromptRequest {
		work.Generation = l.generation
	}
	for _, c := range r.open() {
		c.state = "sent"
		work.Commands = append(work.Commands, wire.CommandMessage{RunID: runID, Seq: c.seq, Command: c.body})
	}
	return work, nil
}

func (l *ledger) Ack(_ context.Context, ack wire.Ack) error {
	l.mu.Lock()
	slow := l.slow
	l.mu.Unlock()
	if slow != nil {
		<-slow
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails("Ack"); err != nil {
		return err
	}
	r := l.run(ack.RunID)
	i := slices.IndexFunc(r.commands, func(c *ledgerCommand) bool { return c.seq == ack.CommandSeq })
	if i < 0 {
		l.faulty = append(l.faulty, fmt.Sprintf("answer to command %d that never was", ack.CommandSeq))
		return nil
	}
	c := r.commands[i]
	c.acks++
	for _, before := range r.commands[:i] {
		if before.state == "pending" || before.state == "sent" {
			l.faulty = append(l.faulty, fmt.Sprintf("command %d is answered before %d", c.seq, before.seq))
		}
	}
	switch {
	case ack.Status == wire.AckApplied:
		c.state = "acked"
	case ack.Error.Retryable && c.kind == wire.TypePromptRequest && untouched(ack.Error.Code) && r.stopped(c.turn):
		// The host has nothing of the turn, and nobody wants it any more.
		for _, of := range r.open() {
			if of.turn == c.turn {
				of.state = "failed"
			}
		}
		delete(r.owed, c.turn)
		r.dropped[c.turn] = true
	case ack.Error.Retryable:
		c.state = "pending"
	default:
		c.state, c.code = "failed", ack.Error.Code
		delete(r.owed, c.turn)
	}
	return nil
}

// untouched tells whether a code proves that the host has nothing of a turn.
func untouched(code wire.Code) bool {
	return code == wire.CodeInferenceBusy || code == gateway.CodeHostDraining || code == gateway.CodeHostOutdated
}

func (l *ledger) Intake(_ context.Context, runID string, batch []wire.Envelope, durable func(uint64)) error {
	l.mu.Lock()
	stuck := l.stuck
	l.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails("Intake"); err != nil {
		return err
	}
	r := l.run(runID)
	reached := r.cursor
	var ended []string
	for _, e := range batch {
		r.taken = append(r.taken, e.Seq)
		reached = max(reached, e.Seq)
		if r.known[e.SourceEventID] {
			continue
		}
		r.known[e.SourceEventID] = true
		switch e.Event {
		case wire.EventItemDelta:
			r.text[e.TurnID] += string(e.Payload)
		case wire.EventTurnCompleted:
			r.ended[e.TurnID]++
			r.ends[e.TurnID] = e
			ended = append(ended, e.TurnID)
		}
	}
	commit := func() {
		l.mu.Lock()
		r.cursor = max(r.cursor, reached)
		for _, turn := range ended {
			delete(r.owed, turn)
		}
		l.mu.Unlock()
		durable(reached)
	}
	if l.lazy {
		l.owed = append(l.owed, commit)
		return nil
	}
	go commit()
	return nil
}

// settle makes durable what was taken in.
func (l *ledger) settle() {
	l.mu.Lock()
	owed := l.owed
	l.owed = nil
	l.mu.Unlock()
	for _, commit := range owed {
		commit()
	}
}

func (l *ledger) Waiting(_ context.Context, runID, reason string, retryAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said[runID] = append(l.said[runID], said{reason: reason, retryAt: retryAt})
}

func (l *ledger) Refused(_ context.Context, runID string, cause *wire.ErrorBody) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails("Refused"); err != nil {
		return err
	}
	l.refused[runID] = append(l.refused[runID], cause.Code)
	r := l.run(runID)
	for _, c := range r.open() {
		c.state, c.code = "failed", cause.Code
		delete(r.owed, c.turn)
		r.lost[c.turn] = true
	}
	if cause.Code == wire.CodeHostLost {
		for turn := range r.owed {
			r.lost[turn] = true
		}
		clear(r.owed)
	}
	return nil
}

// reasons gives what Waiting was told of a run, in order.
func (l *ledger) reasons(runID string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, s := range l.said[runID] {
		out = append(out, s.reason)
	}
	return out
}

func (l *ledger) last(runID string) said {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := l.said[runID]; len(all) > 0 {
		return all[len(all)-1]
	}
	return said{reason: "nothing was said"}
}

func (l *ledger) command(runID string, seq uint64) ledgerCommand {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.run(runID).commands[seq-1]
}

// snapshot gives a copy of what is known of a run.
func (l *ledger) snapshot(runID string) ledgerRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := *l.run(runID)
	r.taken, r.ended = slices.Clone(r.taken), maps.Clone(r.ended)
	return r
}

// payload gives what the end of a turn said.
func (l *ledger) payload(runID, turn string) json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run(runID).ends[turn].Payload
}
