package native_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// conductor is a provider.Client whose requests end when the test says so.
type conductor struct {
	mu    sync.Mutex
	live  map[string]chan provider.Result // by prompt
	calls map[string]int
	begun chan string
}

func newConductor() *conductor {
	return &conductor{live: map[string]chan provider.Result{}, calls: map[string]int{}, begun: make(chan string, 64)}
}

func (c *conductor) Stream(ctx context.Context, req provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
	prompt := req.Messages[len(req.Messages)-1].Text
	end := make(chan provider.Result, 1)
	c.mu.Lock()
	c.calls[prompt]++
	c.live[prompt] = end
	c.mu.Unlock()
	if err := emit(text("re: " + prompt)); err != nil {
		return provider.Result{}, err
	}
	c.begun <- prompt
	select {
	case res := <-end:
		return res, nil
	case <-ctx.Done():
		return provider.Result{}, context.Cause(ctx)
	}
}

// modelTurn is what should be true of a turn.
type modelTurn struct {
	start    relay.StartTurn
	accepted bool
	status   relay.NativeStatus // of an accepted turn
	restart  bool               // ended by a restart
}

func (m *modelTurn) live() bool { return m.accepted && m.status.Live() }

// schedule is a random history of two threads, and what should have come of it.
type schedule struct {
	host    *host // a kill continues on a copy of the files
	client  *conductor
	threads []string
	turns   []*modelTurn
}

// TestRuntimeAgainstAModel runs random schedules of starts, replays, interrupts,
// ends, kills and restarts, and compares the ledger with a model.
func TestRuntimeAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		client := newConductor()
		s := &schedule{host: newHost(t, client), client: client}
		defer func() { s.host.close() }()
		s.threads = []string{s.host.thread(), s.host.thread()}
		for i := range 6 {
			s.turns = append(s.turns, &modelTurn{start: turnOf(s.threads[i%2], i)})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start":          s.start,
			"changed replay": s.changedReplay,
			"interrupt":      s.interrupt,
			"end":            s.end,
			"restart":        s.restart,
			"":               func(rt *rapid.T) { checkModel(rt, s.host, s.client, s.threads, s.turns) },
		})
	})
}

func (s *schedule) pick(rt *rapid.T) *modelTurn {
	return s.turns[rapid.IntRange(0, len(s.turns)-1).Draw(rt, "turn")]
}

func (s *schedule) busy(thread string) bool {
	for _, m := range s.turns {
		if m.start.ThreadID == thread && m.live() {
			return true
		}
	}
	return false
}

// settle waits for the end of a turn that was made to end.
func (s *schedule) settle(m *modelTurn, status relay.NativeStatus, restart bool) {
	m.status, m.restart = status, restart
	s.host.end(m.start.ThreadID, m.start.TurnID)
}

func (s *schedule) start(rt *rapid.T) {
	m := s.pick(rt)
	err := s.host.StartTurn(context.Background(), m.start)
	switch {
	case m.accepted: // a replay, whatever became of the turn
		if err != nil {
			rt.Fatalf("replay: %v", err)
		}
	case s.busy(m.start.ThreadID):
		if wire.CodeOf(err) != wire.CodeTurnActive {
			rt.Fatalf("start beside a live turn: %v", err)
		}
	case err != nil:
		rt.Fatalf("start: %v", err)
	default:
		m.accepted, m.status = true, relay.NativeInProgress
		if got := <-s.client.begun; got != m.start.Prompt {
			rt.Fatalf("request for %q, want %q", got, m.start.Prompt)
		}
	}
}

func (s *schedule) changedReplay(rt *rapid.T) {
	m := s.pick(rt)
	if !m.accepted {
		rt.Skip()
	}
	changed := m.start
	changed.Prompt += " changed"
	if err := s.host.StartTurn(context.Background(), changed); wire.CodeOf(err) != wire.CodeOperationMismatch {
		rt.Fatalf("changed replay: %v", err)
	}
}

func (s *schedule) interrupt(rt *rapid.T) {
	m := s.pick(rt)
	err := s.host.InterruptTurn(context.Background(), m.start.ThreadID, m.start.TurnID)
	if (err == nil) != m.accepted {
		rt.Fatalf("interrupt of a turn that was accepted=%v: %v", m.accepted, err)
	}
	if m.live() {
		s.settle(m, relay.NativeInterrupted, false)
	}
}

func (s *schedule) end(rt *rapid.T) {
	m := s.pick(rt)
	if !m.live() {
		rt.Skip()
	}
	res, status := provider.Result{Finish: provider.FinishStop}, relay.NativeCompleted
	if rapid.Bool().Draw(rt, "cut short") {
		res, status = provider.Result{Finish: provider.FinishLength}, relay.NativeFailed
	}
	s.client.mu.Lock()
	s.client.live[m.start.Prompt] <- res
	s.client.mu.Unlock()
	s.settle(m, status, false)
}

// restart ends the process: in good order, or killed.
func (s *schedule) restart(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "kill") {
		for _, m := range s.turns { // nothing may be writing while the files are copied
			if m.live() {
				s.host.await(m.start.ThreadID, "the delta", func(e []relay.NativeEvent) bool {
					return len(of(e, m.start.TurnID, wire.EventItemDelta)) > 0
				})
			}
		}
		killed := s.host
		s.host = killed.crash(s.client)
		killed.close()
	} else {
		s.host.known = true
		s.host.reopen()
	}
	for _, m := range s.turns {
		if m.live() {
			s.settle(m, relay.NativeInterrupted, true)
		}
	}
}

func checkModel(rt *rapid.T, h *host, client *conductor, threads []string, turns []*modelTurn) {
	seen, ledger := map[uint64]bool{}, map[string][]relay.NativeEvent{}
	for _, thread := range threads {
		last := uint64(0)
		ledger[thread] = h.events(thread)
		for _, e := range ledger[thread] {
			if e.Seq <= last || seen[e.Seq] {
				rt.Fatalf("seq %d after %d", e.Seq, last)
			}
			last, seen[e.Seq] = e.Seq, true
		}
	}
	for _, m := range turns {
		s := m.start
		events := ledger[s.ThreadID]
		ends := of(events, s.TurnID, wire.EventTurnCompleted)
		client.mu.Lock()
		calls := client.calls[s.Prompt]
		client.mu.Unlock()
		want := map[bool]int{true: 1}
		if calls != want[m.accepted] || len(of(events, s.TurnID, wire.EventTurnStarted)) != want[m.accepted] {
			rt.Fatalf("%s: %d requests, accepted=%v", s.TurnID, calls, m.accepted)
		}
		if len(ends) != want[m.accepted && !m.status.Live()] || h.status(s.ThreadID, s.TurnID) != m.status {
			rt.Fatalf("%s: %d ends, status %s, want %s", s.TurnID, len(ends), h.status(s.ThreadID, s.TurnID), m.status)
		}
		if len(ends) == 0 {
			continue
		}
		if events[len(events)-1].TurnID == s.TurnID && events[len(events)-1].Seq != ends[0].Seq {
			rt.Fatalf("%s: %s follows its end", s.TurnID, events[len(events)-1].Event)
		}
		var c completed
		if err := json.Unmarshal(ends[0].Payload, &c); err != nil {
			rt.Fatal(err)
		}
		if c.Turn.Status != string(m.status) || (c.Outcome.Error == wire.CodeHostRestarted) != m.restart {
			rt.Fatalf("%s: %+v %+v, want %s restart=%v", s.TurnID, c.Turn, c.Outcome, m.status, m.restart)
		}
		if answer, _ := saidIn(h.t, events, s.TurnID); answer != fmt.Sprint("re: ", s.Prompt) {
			rt.Fatalf("%s: the ledger holds %q", s.TurnID, answer)
		}
	}
}
