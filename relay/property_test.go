package relay_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestPropertyOfReservationsClaimsAndCursors drives a scope through commands,
// native events, projection, acknowledgement, faults and restarts in any order, and
// compares it with a model that knows only what must be true.
func TestPropertyOfReservationsClaimsAndCursors(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *relay.Config) { c.MaxInflight = 2 })
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		m := newModel(rt, r, fmt.Sprintf("session %d", round))
		defer m.leave()
		rt.Repeat(map[string]func(*rapid.T){
			"apply":       m.apply,
			"replay":      m.replay,
			"interrupt":   m.interrupt,
			"say":         m.say,
			"end":         m.end,
			"project":     m.project,
			"journal":     m.journalOnly,
			"release":     func(*rapid.T) { m.scope.ReleaseClaims() },
			"acknowledge": m.acknowledge,
			"restart":     m.restart,
			"fault":       m.fault,
			"":            m.check,
		})
		m.finish()
	})
}

// model is what must be true of one scope, whatever happened.
type model struct {
	rt       *rapid.T
	r        *rig
	session  string
	scope    *relay.Scope
	commands []*wire.PromptRequest // every one that was ever accepted
	turns    int
	received []string // source ids, in order of their first arrival
	lastSeq  uint64   // of the run
	cursor   uint64
	cursors  map[string]uint64 // projection cursors
	faulty   bool
}

func newModel(rt *rapid.T, r *rig, session string) *model {
	m := &model{rt: rt, r: r, session: session, cursors: map[string]uint64{}}
	m.enter()
	return m
}

func (m *model) enter() {
	s, err := m.r.host.Scope(context.Background(), relaytest.Target, m.session)
	m.must(err)
	m.must(s.BindAccount(context.Background(), relaytest.Account, relaytest.Target))
	m.must(s.AuthorizeRun(context.Background(), relaytest.Run))
	m.scope = s
}

func (m *model) leave() { m.scope.Close() }

func (m *model) must(err error) {
	m.rt.Helper()
	if err != nil {
		m.rt.Fatal(err)
	}
}

// tolerate accepts the codes that are right answers here, and any failed write
// while a fault is armed.
func (m *model) tolerate(err error, codes ...wire.Code) bool {
	m.rt.Helper()
	if err == nil {
		return true
	}
	code := wire.CodeOf(err)
	if code == wire.CodePersistFailed && m.faulty {
		m.faulty = false
		return false
	}
	if !slices.Contains(codes, code) {
		m.rt.Fatalf("unexpected error: %v", err)
	}
	return false
}

func (m *model) apply(rt *rapid.T) {
	m.turns++
	b := rapid.IntRange(1, 3).Draw(rt, "binding")
	cmd := relaytest.Prompt(b, m.turns)
	if m.tolerate(m.scope.Apply(context.Background(), cmd), wire.CodeTurnActive) {
		m.commands = append(m.commands, cmd)
	}
}

func (m *model) pick(rt *rapid.T) *wire.PromptRequest {
	if len(m.commands) == 0 {
		rt.Skip("no command yet")
	}
	return rapid.SampledFrom(m.commands).Draw(rt, "command")
}

func (m *model) replay(rt *rapid.T) {
	cmd := m.pick(rt)
	before := len(m.r.runtime.Started())
	m.must(m.scope.Apply(context.Background(), cmd))
	if after := len(m.r.runtime.Started()); after != before {
		rt.Fatal("a replay of an accepted turn started another")
	}
	exact, err := m.scope.IsExactPromptReplay(context.Background(), cmd)
	if err != nil || !exact {
		rt.Fatalf("a replay is not exact: %v", err)
	}
	changed := *cmd
	changed.Prompt = "something else"
	m.tolerate(m.scope.Apply(context.Background(), &changed), wire.CodeTurnActive, wire.CodeTurnMismatch)
}

func (m *model) interrupt(rt *rapid.T) {
	cmd := m.pick(rt)
	m.must(m.scope.Interrupt(context.Background(), &wire.RunControl{
		Type: wire.TypeRunControl, RunID: relaytest.Run, Action: "interrupt", Reason: "stop", TurnID: cmd.TurnID,
		RuntimeBindingID: cmd.RuntimeBindingID, RuntimeThreadID: cmd.RuntimeThreadID,
	}))
}

// live gives the native turn that runs in this scope.
func (m *model) live(rt *rapid.T) relay.StartTurn {
	for _, s := range m.r.runtime.Live() {
		if slices.Contains(m.threads(), s.ThreadID) {
			return s
		}
	}
	rt.Skip("nothing runs")
	return relay.StartTurn{}
}

func (m *model) bindings() []relay.Binding {
	m.rt.Helper()
	list, err := m.r.host.Bindings(context.Background(), m.scope.Key(), 0, 0)
	m.must(err)
	return list
}

func (m *model) threads() []string {
	var out []string
	for _, b := range m.bindings() {
		out = append(out, b.NativeThreadID)
	}
	return out
}

func (m *model) say(rt *rapid.T) {
	s := m.live(rt)
	if rapid.Bool().Draw(rt, "projectable") {
		m.r.runtime.Say(s.ThreadID, s.TurnID, "word")
		return
	}
	m.r.runtime.Emit(s.ThreadID, s.TurnID, "item.completed", map[string]any{})
}

func (m *model) end(rt *rapid.T) {
	s := m.live(rt)
	m.r.runtime.End(s.ThreadID, s.TurnID, relay.NativeCompleted)
}

func (m *model) project(rt *rapid.T) {
	ctx := context.Background()
	ps, err := m.scope.Poll(ctx, rapid.IntRange(1, 4).Draw(rt, "max"))
	if !m.tolerate(err) {
		return
	}
	_, err = m.scope.Journal(ctx, ps)
	if !m.tolerate(err) {
		return
	}
	m.receive()
	m.tolerate(m.scope.HandedOff(ctx, ps))
}

// journalOnly is a transport that is lost between journal and hand-off.
func (m *model) journalOnly(rt *rapid.T) {
	ctx := context.Background()
	ps, err := m.scope.Poll(ctx, rapid.IntRange(1, 4).Draw(rt, "max"))
	if !m.tolerate(err) {
		return
	}
	_, err = m.scope.Journal(ctx, ps)
	m.tolerate(err)
	m.scope.ReleaseClaims()
}

// receive is the control plane: it takes everything above what it has.
func (m *model) receive() {
	m.rt.Helper()
	for _, e := range m.scope.Pending(m.lastSeq) {
		if e.Seq != m.lastSeq+1 {
			m.rt.Fatalf("seq %d follows on %d", e.Seq, m.lastSeq)
		}
		m.lastSeq = e.Seq
		if !slices.Contains(m.received, e.SourceEventID) {
			m.received = append(m.received, e.SourceEventID)
		}
	}
}

func (m *model) acknowledge(rt *rapid.T) {
	m.scope.Pending(0) // reads the state again after a fault
	m.receive()
	cursor := rapid.Uint64Range(0, m.lastSeq).Draw(rt, "cursor")
	if m.tolerate(m.scope.Acknowledge(context.Background(), relaytest.Run, cursor)) {
		m.cursor = max(m.cursor, cursor)
	}
	if pending := m.scope.Pending(0); len(pending) > 0 && pending[0].Seq <= m.cursor {
		rt.Fatalf("event %d is pending, the cursor is %d", pending[0].Seq, m.cursor)
	}
}

func (m *model) restart(rt *rapid.T) {
	m.leave()
	native := rapid.Bool().Draw(rt, "native too")
	m.must(m.r.host.Close())
	if native {
		m.r.runtime.Restart()
	}
	m.r.open()
	m.enter()
}

func (m *model) fault(rt *rapid.T) {
	if m.faulty {
		rt.Skip("one fault at a time")
	}
	step := rapid.SampledFrom([]relaytest.Step{
		relaytest.InsertBinding, relaytest.SaveTurn, relaytest.AppendJournal, relaytest.Advance, relaytest.Retire,
	}).Draw(rt, "step")
	m.r.store.Fail(step, 0, rapid.Bool().Draw(rt, "persisted"))
	m.faulty = true
}

// check holds after every action.
func (m *model) check(rt *rapid.T) {
	unsettled := 0
	for _, b := range m.bindings() {
		if b.ProjectedSeq < m.cursors[b.BindingID] {
			rt.Fatalf("the cursor of %s went back from %d to %d", b.BindingID, m.cursors[b.BindingID], b.ProjectedSeq)
		}
		m.cursors[b.BindingID] = b.ProjectedSeq
		turns, err := m.r.host.Reservations(context.Background(), m.scope.Key(), b.BindingID, "", 0)
		m.must(err)
		for _, t := range turns {
			if t.Unsettled() {
				unsettled++
			}
		}
	}
	if unsettled > 1 {
		rt.Fatalf("%d turns of the run are unsettled", unsettled)
	}
	seen := map[string]int{}
	for _, s := range m.r.runtime.Started() {
		if seen[s.TurnID]++; seen[s.TurnID] > 1 {
			rt.Fatalf("turn %s was started twice", s.TurnID)
		}
	}
}

// finish ends what runs and takes everything: then each projectable event has
// arrived, in its order, and nothing is owed.
func (m *model) finish() {
	ctx := context.Background()
	m.rt.Helper()
	m.r.store.Disarm()
	m.must(m.scope.BindAccount(ctx, relaytest.Account, relaytest.Target))
	m.settleReserved()
	for _, s := range m.r.runtime.Live() {
		if slices.Contains(m.threads(), s.ThreadID) {
			m.r.runtime.End(s.ThreadID, s.TurnID, relay.NativeCompleted)
		}
	}
	m.scope.ReleaseClaims()
	for {
		ps, err := m.scope.Poll(ctx, 3)
		m.must(err)
		if len(ps) == 0 {
			break
		}
		_, err = m.scope.Journal(ctx, ps)
		m.must(err)
		m.receive()
		m.must(m.scope.HandedOff(ctx, ps))
	}
	m.receive()
	m.must(m.scope.Acknowledge(ctx, relaytest.Run, m.lastSeq))
	for _, b := range m.bindings() {
		m.compareLedger(b)
	}
	list, err := m.r.host.Scopes(ctx, relay.ScopeRecord{}, 1)
	m.must(err)
	if list[0].Key == m.scope.Key() && (list[0].Leased || list[0].Unsettled > 0) {
		m.rt.Fatalf("something is owed: %+v", list[0])
	}
}

// settleReserved resends what was reserved and not accepted, as a control plane
// does that got no answer.
func (m *model) settleReserved() {
	m.rt.Helper()
	for n := 1; n <= m.turns; n++ {
		for b := 1; b <= 3; b++ {
			t, ok, err := m.r.store.Turn(context.Background(), m.scope.Key(), relaytest.BindingID(b), relaytest.TurnID(n))
			m.must(err)
			if ok && t.Unsettled() {
				m.must(m.scope.Apply(context.Background(), relaytest.Prompt(b, n)))
			}
		}
	}
}

func (m *model) compareLedger(b relay.Binding) {
	m.rt.Helper()
	events, err := m.r.runtime.Events(context.Background(), b.NativeThreadID, 0, 1<<20)
	m.must(err)
	at := -1
	for _, e := range events {
		switch e.Event {
		case wire.EventTurnStarted, wire.EventItemDelta, wire.EventTurnCompleted:
		default:
			continue
		}
		found := slices.Index(m.received, wire.SourceEventID(b.NativeThreadID, e.Seq))
		if found < 0 {
			m.rt.Fatalf("event %d (%s) of %s never arrived", e.Seq, e.Event, b.BindingID)
		}
		if found < at {
			m.rt.Fatalf("event %d of %s arrived out of order", e.Seq, b.BindingID)
		}
		at = found
	}
}
