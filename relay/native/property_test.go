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

// model is what should be true of a turn.
type modelTurn struct {
	start    relay.StartTurn
	accepted bool
	status   relay.NativeStatus // of an accepted turn
	restart  bool               // ended by a restart
}

// TestRuntimeAgainstAModel runs random schedules of starts, replays, interrupts,
// ends, kills and restarts, and compares the ledger with a model.
func TestRuntimeAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		client := newConductor()
		h := newHost(t, client)
		current := h // a kill continues on a copy of the files
		defer func() {
			h.close()
			current.close()
		}()
		threads := []string{h.thread(), h.thread()}
		turns := make([]*modelTurn, 6)
		for i := range turns {
			s := turnOf(threads[i%2], i)
			turns[i] = &modelTurn{start: s}
		}
		live := func(thread string) *modelTurn {
			for _, m := range turns {
				if m.start.ThreadID == thread && m.accepted && m.status.Live() {
					return m
				}
			}
			return nil
		}
		settle := func(m *modelTurn, status relay.NativeStatus, restart bool) {
			m.status, m.restart = status, restart
			current.end(m.start.ThreadID, m.start.TurnID)
		}
		pick := func(rt *rapid.T) *modelTurn { return turns[rapid.IntRange(0, len(turns)-1).Draw(rt, "turn")] }

		rt.Repeat(map[string]func(*rapid.T){
			"start": func(rt *rapid.T) {
				m := pick(rt)
				err := current.StartTurn(context.Background(), m.start)
				switch busy := live(m.start.ThreadID); {
				case m.accepted: // a replay, whatever became of it
					if err != nil {
						rt.Fatalf("replay: %v", err)
					}
				case busy != nil:
					if wire.CodeOf(err) != wire.CodeTurnActive {
						rt.Fatalf("start beside a live turn: %v", err)
					}
				default:
					if err != nil {
						rt.Fatalf("start: %v", err)
					}
					m.accepted, m.status = true, relay.NativeInProgress
					if got := <-client.begun; got != m.start.Prompt {
						rt.Fatalf("request for %q, want %q", got, m.start.Prompt)
					}
				}
			},
			"changed replay": func(rt *rapid.T) {
				m := pick(rt)
				if !m.accepted {
					rt.Skip()
				}
				s := m.start
				s.Prompt += " changed"
				if err := current.StartTurn(context.Background(), s); wire.CodeOf(err) != wire.CodeOperationMismatch {
					rt.Fatalf("changed replay: %v", err)
				}
			},
			"interrupt": func(rt *rapid.T) {
				m := pick(rt)
				err := current.InterruptTurn(context.Background(), m.start.ThreadID, m.start.TurnID)
				if (err == nil) != m.accepted {
					rt.Fatalf("interrupt of a turn that was accepted=%v: %v", m.accepted, err)
				}
				if m.accepted && m.status.Live() {
					settle(m, relay.NativeInterrupted, false)
				}
			},
			"end": func(rt *rapid.T) {
				m := pick(rt)
				if !m.accepted || !m.status.Live() {
					rt.Skip()
				}
				res, status := provider.Result{Finish: provider.FinishStop}, relay.NativeCompleted
				if rapid.Bool().Draw(rt, "cut short") {
					res, status = provider.Result{Finish: provider.FinishLength}, relay.NativeFailed
				}
				client.mu.Lock()
				client.live[m.start.Prompt] <- res
				client.mu.Unlock()
				settle(m, status, false)
			},
			"restart": func(rt *rapid.T) {
				if rapid.Bool().Draw(rt, "kill") {
					for _, m := range turns { // nothing may be writing while the files are copied
						if m.accepted && m.status.Live() {
							current.await(m.start.ThreadID, "the delta", func(e []relay.NativeEvent) bool {
								return len(of(e, m.start.TurnID, wire.EventItemDelta)) > 0
							})
						}
					}
					killed := current
					current = current.crash(client)
					killed.close()
				} else {
					current.known = true
					current.reopen()
				}
				for _, m := range turns {
					if m.accepted && m.status.Live() {
						settle(m, relay.NativeInterrupted, true)
					}
				}
			},
			"": func(rt *rapid.T) { checkModel(rt, current, client, threads, turns) },
		})
	})
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
