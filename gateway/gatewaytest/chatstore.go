package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/relay/wire"
)

// ChatStore is the conformance suite of a gateway.ChatStore on a kind of database.
func ChatStore(t *testing.T, d Database) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"an update is all or nothing", (*suite).atomic},
		{"callbacks run after the commit, in order, and only then", (*suite).callbacks},
		{"SQ49 client event ids are spent once", (*suite).clientEvents},
		{"threads and agents", (*suite).threads},
		{"lists page by time and id", (*suite).listing},
		{"SQ53 events are numbered in order and read back whole", (*suite).events},
		{"SQ17 an interrupt has no payload and the turn's column", (*suite).interrupts},
		{"pages of a log", (*suite).paging},
		{"the queue is ordered by rank, then origin", (*suite).queue},
		{"SQ1 a turn needs a waiting message", (*suite).association},
		{"one turn at a time in a thread", (*suite).oneTurn},
		{"text, usage and timeline of a turn", (*suite).turnParts},
		{"idle threads and open runs", (*suite).open},
		{"runs, bindings, commands and cursors", (*suite).runs},
		{"the feed of an account", (*suite).feed},
		{"erasing a thread", (*suite).erase},
		{"read-outs are of one org", (*suite).readOuts},
		{"a turn and a message have one open delivery", (*suite).deliveries},
		{"a running turn is warned once", (*suite).deadlines},
		{"steers are ordered like the queue", (*suite).steers},
		{"admission reads entitlement and limits", (*suite).admission},
		{"a disabled account", (*suite).disabled},
		{"the load of an org", (*suite).load},
		{"charges are booked once", (*suite).charges},
		{"assistants and who sees them", (*suite).agents},
		{"turns that no host took", (*suite).unknownTurns},
		{"a reply is provisional, then settled", (*suite).replies},
		{"markers, estimates, billing, context and parked commands", (*suite).parts},
		{"locks make the second wait for the first", (*suite).locks},
		{"locks hold one row", (*suite).locksApart},
		{"SQ49 the second of two equal sends waits for the first", (*suite).secondClaim},
		{"callbacks of eight writers run in commit order", (*suite).publishing},
		{"F36 a deadlock is not seen", (*suite).again},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			place := d.New(t)
			sql := place.Open(t)
			c.test(&suite{T: t, ctx: context.Background(), place: place, sql: sql, store: sql.Chat()})
		})
	}
}

type suite struct {
	*testing.T
	ctx   context.Context
	place *Place
	sql   *gatewaysql.Store
	store gateway.ChatStore
}

func uid() string { return uuid.NewString() }

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) want(err, target error) {
	s.Helper()
	if !errors.Is(err, target) {
		s.Fatalf("error %v, want %v", err, target)
	}
}

func (s *suite) update(fn func(tx gateway.ChatTx)) {
	s.Helper()
	s.must(s.store.Update(s.ctx, func(tx gateway.ChatTx) error { fn(tx); return nil }))
}

func (s *suite) view(fn func(tx gateway.ChatTx)) {
	s.Helper()
	s.must(s.store.View(s.ctx, func(tx gateway.ChatTx) error { fn(tx); return nil }))
}

const (
	org     = "org-a"
	orgB    = "org-b"
	account = "acc-a"
)

// thread makes a thread of the account.
func (s *suite) thread(change ...func(*gateway.ThreadRow)) gateway.ThreadRow {
	s.Helper()
	var th gateway.ThreadRow
	s.update(func(tx gateway.ChatTx) {
		th = gateway.ThreadRow{ID: uid(), OrgID: org, AccountID: account, MadeBy: gateway.MadeBySend, CreatedAt: 1, UpdatedAt: 1}
		for _, f := range change {
			f(&th)
		}
		a, err := tx.DefaultAgent(s.ctx, th.OrgID, uid(), 1)
		s.must(err)
		th.AgentID = a.ID
		s.must(tx.InsertThread(s.ctx, th))
	})
	return th
}

// waiting stores a message that waits.
func (s *suite) waiting(tx gateway.ChatTx, th gateway.ThreadRow, rank int) gateway.QueueRow {
	s.Helper()
	m := gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "text", Text: "x"}}}
	e := &gateway.Event{ID: uid(), EventType: gateway.EventInputPrompt, CreatedAt: gateway.Millis(1), UserMessage: &m}
	s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{e}))
	q := gateway.QueueRow{
		EventID: e.ID, OriginID: e.ID, OriginSeq: e.SeqID, ThreadID: th.ID, Rank: rank, Mode: gateway.ModeQueue,
		Model: "m", Options: &gateway.Options{MaxOutputTokens: 3}, Prompt: "x", CreatedAt: 1, Origin: "https://other.example",
	}
	s.must(tx.Enqueue(s.ctx, q))
	return q
}

// started makes a pending turn with run, binding and command.
func (s *suite) started(th gateway.ThreadRow) gateway.TurnRow {
	s.Helper()
	var t gateway.TurnRow
	s.update(func(tx gateway.ChatTx) {
		q := s.waiting(tx, th, 0)
		run, err := tx.RunFor(s.ctx, th.ID, "host", "target")
		if errors.Is(err, gateway.ErrNoRow) {
			run = gateway.RunRow{ID: uid(), OrgID: th.OrgID, AccountID: th.AccountID, ThreadID: th.ID, HostID: "host", TargetRef: "target", CreatedAt: 1}
			err = tx.InsertRun(s.ctx, run)
		}
		s.must(err)
		b := gateway.BindingRow{ID: uid(), RunID: run.ID, Model: "m", ModelProvider: "p", ModelProviderID: "pid", VirtualThreadID: uid(), CreatedAt: 1}
		s.must(tx.InsertBinding(s.ctx, b))
		t = gateway.TurnRow{
			ID: uid(), OrgID: th.OrgID, AccountID: th.AccountID, ThreadID: th.ID, InputEventID: q.EventID, RunID: run.ID,
			BindingID: b.ID, HostID: "host", VirtualTurnID: uid(), Status: gateway.TurnPending, Model: "m", Route: "pid",
			CreatedAt: 5,
		}
		s.must(tx.InsertTurn(s.ctx, t))
		_, err = tx.Dequeue(s.ctx, q.EventID)
		s.must(err)
		_, err = tx.AppendCommand(s.ctx, gateway.CommandRow{RunID: run.ID, TurnID: t.ID, Kind: wire.TypePromptRequest, Body: []byte(`{"a":1}`), CreatedAt: 1})
		s.must(err)
	})
	return t
}

func (s *suite) atomic() {
	boom := errors.New("boom")
	th := gateway.ThreadRow{ID: uid(), OrgID: org, AccountID: account}
	err := s.store.Update(s.ctx, func(tx gateway.ChatTx) error {
		a, err := tx.DefaultAgent(s.ctx, org, uid(), 1)
		s.must(err)
		th.AgentID = a.ID
		s.must(tx.InsertThread(s.ctx, th))
		return boom
	})
	s.want(err, boom)
	s.view(func(tx gateway.ChatTx) {
		_, err := tx.Thread(s.ctx, th.ID)
		s.want(err, gateway.ErrNoRow)
	})
	coded := wire.NewError(wire.CodeNotFound, "x")
	err = s.store.View(s.ctx, func(gateway.ChatTx) error { return fmt.Errorf("wrapped: %w", coded) })
	if wire.CodeOf(err) != wire.CodeNotFound {
		s.Fatalf("a code of the caller became %v", err)
	}
	err = s.store.Update(s.ctx, func(tx gateway.ChatTx) error { // a broken reference is a fault of the store
		return tx.InsertThread(s.ctx, gateway.ThreadRow{ID: uid(), AgentID: "none"})
	})
	if wire.CodeOf(err) != wire.CodeStorageUnavailable {
		s.Fatalf("a failure of the store has code %q", wire.CodeOf(err))
	}
}

func (s *suite) callbacks() {
	var order []int
	var mu sync.Mutex
	note := func(n int) func() {
		return func() {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, n)
		}
	}
	_ = s.store.Update(s.ctx, func(tx gateway.ChatTx) error {
		tx.OnCommit(note(-1))
		return errors.New("undone")
	})
	for i := range 3 {
		s.update(func(tx gateway.ChatTx) { tx.OnCommit(note(2 * i)); tx.OnCommit(note(2*i + 1)) })
	}
	if fmt.Sprint(order) != "[0 1 2 3 4 5]" {
		s.Fatalf("order %v", order)
	}
}

func (s *suite) clientEvents() {
	e := gateway.ClientEvent{ID: uid(), AccountID: account, Kind: gateway.ClientSend, ContentHash: "h", CreatedAt: 1}
	s.view(func(tx gateway.ChatTx) {
		_, err := tx.ClientEvent(s.ctx, e.ID)
		s.want(err, gateway.ErrNoRow)
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for range 8 {
		wg.Go(func() {
			_ = s.store.Update(s.ctx, func(tx gateway.ChatTx) error {
				first, isFresh, err := tx.ClaimClientEvent(s.ctx, e)
				if err != nil {
					s.Error(err)
					return err
				}
				if isFresh {
					mu.Lock()
					fresh++
					mu.Unlock()
					return tx.SetClientReply(s.ctx, e.ID, []byte(`{"a":1}`), true)
				}
				if string(first.Reply) != `{"a":1}` || first.AccountID != account || first.Kind != gateway.ClientSend || first.ContentHash != "h" {
					s.Errorf("first %+v", first)
				}
				return nil
			})
		})
	}
	wg.Wait()
	if fresh != 1 {
		s.Fatalf("%d were fresh", fresh)
	}
}

func (s *suite) threads() {
	th := s.thread()
	s.update(func(tx gateway.ChatTx) {
		s.want(tx.InsertThread(s.ctx, th), gateway.ErrRowExists)
		a, err := tx.DefaultAgent(s.ctx, org, uid(), 1)
		s.must(err)
		if a.ID != th.AgentID {
			s.Error("two default agents")
		}
		_, err = tx.Agent(s.ctx, "other", a.ID)
		s.want(err, gateway.ErrNoRow)
		title, model := "T", "m"
		th.Title, th.Model, th.LastReadSeq, th.UpdatedAt = &title, &model, 3, 9
		s.must(tx.UpdateThread(s.ctx, th))
		got, err := tx.Thread(s.ctx, th.ID)
		s.must(err)
		if *got.Title != "T" || *got.Model != "m" || got.LastReadSeq != 3 || got.UpdatedAt != 9 || got.DeletedAt != 0 {
			s.Errorf("thread %+v", got)
		}
		private := gateway.AgentRow{ID: uid(), OrgID: org, OwnerID: account, Name: "N", Private: true}
		s.must(tx.InsertAgent(s.ctx, private))
		if got, err := tx.Agent(s.ctx, org, private.ID); err != nil || got != private {
			s.Errorf("agent %+v %v", got, err)
		}
	})
	s.started(th)
	s.update(func(tx gateway.ChatTx) { s.waiting(tx, th, 0) })
	s.view(func(tx gateway.ChatTx) {
		got, err := tx.Thread(s.ctx, th.ID)
		s.must(err)
		if got.Waiting != 1 || got.Active == nil || got.Active.Status != gateway.TurnPending || got.Recovering {
			s.Errorf("thread %+v", got)
		}
	})
}

func (s *suite) listing() {
	title := func(t string) *string { return &t }
	var want []string
	for i := range 6 {
		th := s.thread(func(th *gateway.ThreadRow) {
			th.UpdatedAt, th.Title = int64(i/2), title(fmt.Sprintf("Title %d", i))
		})
		want = append(want, th.ID)
	}
	s.thread(func(th *gateway.ThreadRow) { th.AccountID = "acc-b" })
	deleted := s.thread()
	s.update(func(tx gateway.ChatTx) { deleted.DeletedAt = 1; s.must(tx.UpdateThread(s.ctx, deleted)) })
	s.view(func(tx gateway.ChatTx) {
		q := gateway.ThreadQuery{AccountID: account, Limit: 2}
		seen := map[string]bool{}
		last := int64(1 << 40)
		for {
			rows, err := tx.Threads(s.ctx, q)
			s.must(err)
			for _, th := range rows {
				if seen[th.ID] || th.UpdatedAt > last {
					s.Errorf("%s again or out of order", th.ID)
				}
				seen[th.ID], last = true, th.UpdatedAt
				q.BeforeAt, q.BeforeID = th.UpdatedAt, th.ID
			}
			if len(rows) == 0 {
				break
			}
		}
		for _, id := range want {
			if !seen[id] {
				s.Errorf("%s is missing", id)
			}
		}
		if len(seen) != len(want) {
			s.Errorf("%d threads", len(seen))
		}
		found, err := tx.Threads(s.ctx, gateway.ThreadQuery{AccountID: account, Limit: 10, Match: "TITLE 3"})
		s.must(err)
		if len(found) != 1 || found[0].ID != want[3] {
			s.Errorf("found %d", len(found))
		}
	})
}
