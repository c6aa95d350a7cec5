package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// ChatStore is the conformance suite of a gateway.ChatStore. open gives an empty
// store; it cleans up by itself.
func ChatStore(t *testing.T, open func(t *testing.T) gateway.ChatStore) {
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
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(&suite{T: t, ctx: context.Background(), store: open(t)})
		})
	}
}

type suite struct {
	*testing.T
	ctx   context.Context
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
		Model: "m", Options: &gateway.Options{MaxOutputTokens: 3}, Prompt: "x", CreatedAt: 1,
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
			Prompt: "x", CreatedAt: 5,
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
					return tx.SetClientReply(s.ctx, e.ID, []byte(`{"a":1}`))
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
		s.must(tx.InsertAgent(s.ctx, private, 1))
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

func (s *suite) events() {
	th := s.thread()
	from, to := int64(0), int64(7)
	content := "日本\n\"<&>\u2028"
	first := &gateway.Event{
		ID: uid(), EventType: gateway.EventInputPrompt, CreatedAt: gateway.Millis(1234), Mode: gateway.ModeQueue, Rank: -1,
		OriginID: uid(), UserMessage: &gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "text", Text: content}}},
	}
	second := &gateway.Event{
		ID: uid(), EventType: gateway.EventOutputPartial, CreatedAt: gateway.Millis(1235), TurnID: uid(), RevokesEventID: first.ID,
		Content: &content, From: &from, To: &to,
	}
	third := &gateway.Event{
		ID: uid(), EventType: gateway.EventTurnFailed, CreatedAt: gateway.Millis(1236), TurnID: second.TurnID,
		Error: wire.CodeModelFailed, Reason: "r", Finish: "f", RetryAt: "2026",
	}
	s.update(func(tx gateway.ChatTx) {
		s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{first, second}))
		s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{third}))
		if first.SeqID != 1 || second.SeqID != 2 || third.SeqID != 3 || first.ThreadID != th.ID {
			s.Errorf("numbers %d %d %d", first.SeqID, second.SeqID, third.SeqID)
		}
		s.want(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{{ID: first.ID, EventType: gateway.EventTurnFailed}}), gateway.ErrRowExists)
	})
	s.view(func(tx gateway.ChatTx) {
		for _, e := range []*gateway.Event{first, second, third} {
			got, err := tx.Event(s.ctx, e.ID)
			s.must(err)
			if fmt.Sprintf("%+v", flat(got)) != fmt.Sprintf("%+v", flat(*e)) {
				s.Errorf("got %+v\nwant %+v", flat(got), flat(*e))
			}
		}
		by, err := tx.Revoker(s.ctx, first.ID)
		s.must(err)
		if by.ID != second.ID {
			s.Error("another event revokes it")
		}
		_, err = tx.Revoker(s.ctx, second.ID)
		s.want(err, gateway.ErrNoRow)
		_, err = tx.Event(s.ctx, uid())
		s.want(err, gateway.ErrNoRow)
	})
}

// flat makes an event comparable by its printed form.
func flat(e gateway.Event) any {
	type plain struct {
		gateway.Event
		Text, Doc string
		From, To  int64
	}
	p := plain{Event: e}
	if e.Content != nil {
		p.Text = *e.Content
	}
	if e.UserMessage != nil {
		p.Doc = fmt.Sprint(*e.UserMessage)
	}
	if e.From != nil {
		p.From, p.To = *e.From, *e.To
	}
	p.Event.Content, p.Event.UserMessage, p.Event.From, p.Event.To = nil, nil, nil, nil
	return p
}

func (s *suite) interrupts() {
	th := s.thread()
	e := &gateway.Event{ID: uid(), EventType: gateway.EventControlInterrupt, CreatedAt: gateway.Millis(1), InterruptsTurnID: uid()}
	s.update(func(tx gateway.ChatTx) { s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{e})) })
	s.view(func(tx gateway.ChatTx) {
		got, err := tx.Event(s.ctx, e.ID)
		s.must(err)
		if got.InterruptsTurnID != e.InterruptsTurnID || got.TurnID != "" {
			s.Errorf("event %+v", got)
		}
	})
}

func (s *suite) paging() {
	th := s.thread()
	big := strings.Repeat("x", 1000)
	s.update(func(tx gateway.ChatTx) {
		for range 10 {
			s.must(tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{{ID: uid(), EventType: gateway.EventOutputMessage, CreatedAt: gateway.Millis(1), Content: &big}}))
		}
	})
	for _, c := range []struct {
		q    gateway.EventQuery
		want string
		more bool
	}{
		{gateway.EventQuery{Limit: 100, MaxBytes: 1 << 20}, "[1 2 3 4 5 6 7 8 9 10]", false},
		{gateway.EventQuery{After: 8, Limit: 100, MaxBytes: 1 << 20}, "[9 10]", false},
		{gateway.EventQuery{After: 10, Limit: 100, MaxBytes: 1 << 20}, "[]", false},
		{gateway.EventQuery{Limit: 3, MaxBytes: 1 << 20}, "[1 2 3]", true},
		{gateway.EventQuery{After: 7, Limit: 3, MaxBytes: 1 << 20}, "[8 9 10]", false},
		{gateway.EventQuery{Limit: 100, MaxBytes: 3000}, "[1 2]", true},
		{gateway.EventQuery{Limit: 100, MaxBytes: 1}, "[1]", true},
		{gateway.EventQuery{Newest: true, Limit: 3, MaxBytes: 1 << 20}, "[8 9 10]", true},
		{gateway.EventQuery{Newest: true, Before: 3, Limit: 3, MaxBytes: 1 << 20}, "[1 2]", false},
		{gateway.EventQuery{Newest: true, Limit: 100, MaxBytes: 3000}, "[9 10]", true},
		{gateway.EventQuery{Newest: true, Limit: 100, MaxBytes: 1}, "[10]", true},
	} {
		s.view(func(tx gateway.ChatTx) {
			c.q.ThreadID = th.ID
			events, more, err := tx.Events(s.ctx, c.q)
			s.must(err)
			got := []int64{}
			for _, e := range events {
				got = append(got, e.SeqID)
			}
			if fmt.Sprint(got) != c.want || more != c.more {
				s.Errorf("%+v: %v %v, want %s %v", c.q, got, more, c.want, c.more)
			}
		})
	}
}

func (s *suite) queue() {
	th := s.thread()
	s.update(func(tx gateway.ChatTx) {
		_, err := tx.QueueHead(s.ctx, th.ID)
		s.want(err, gateway.ErrNoRow)
		a, b, first := s.waiting(tx, th, 0), s.waiting(tx, th, 0), s.waiting(tx, th, -1)
		for _, want := range []gateway.QueueRow{first, a, b} {
			got, err := tx.QueueHead(s.ctx, th.ID)
			s.must(err)
			if got.EventID != want.EventID || *got.Options != *want.Options || got.Prompt != "x" || got.Rank != want.Rank || got.Model != "m" {
				s.Errorf("head %+v, want %+v", got, want)
			}
			ok, err := tx.Dequeue(s.ctx, want.EventID)
			s.must(err)
			again, err := tx.Dequeue(s.ctx, want.EventID)
			s.must(err)
			if !ok || again {
				s.Errorf("dequeue %v, then %v", ok, again)
			}
			_, err = tx.QueueItem(s.ctx, want.EventID)
			s.want(err, gateway.ErrNoRow)
		}
	})
}

func (s *suite) association() {
	th := s.thread()
	s.update(func(tx gateway.ChatTx) {
		t := gateway.TurnRow{ID: uid(), OrgID: org, AccountID: account, ThreadID: th.ID, Status: gateway.TurnPending}
		if err := tx.InsertTurn(s.ctx, t); wire.CodeOf(err) != gateway.CodeQueueAssociationRequired {
			s.Errorf("error %v", err)
		}
	})
}

func (s *suite) oneTurn() {
	th := s.thread()
	t := s.started(th)
	s.update(func(tx gateway.ChatTx) {
		q := s.waiting(tx, th, 0)
		other := t
		other.ID, other.InputEventID, other.VirtualTurnID = uid(), q.EventID, uid()
		s.want(tx.InsertTurn(s.ctx, other), gateway.ErrRowExists)
		active, err := tx.ActiveTurn(s.ctx, th.ID)
		s.must(err)
		if active.ID != t.ID {
			s.Errorf("active %s", active.ID)
		}
		t.Status, t.EndedAt, t.Error, t.Reason, t.Interrupted, t.StartedAt = gateway.TurnCancelled, 9, "e", "r", true, 7
		partial := "p"
		t.Partial, t.RecoverBy = &partial, 99
		s.must(tx.UpdateTurn(s.ctx, t))
		got, err := tx.Turn(s.ctx, t.ID)
		s.must(err)
		if *got.Partial != "p" {
			s.Errorf("partial %q", *got.Partial)
		}
		got.Partial, t.Partial = nil, nil
		if got != t {
			s.Errorf("got %+v\nwant %+v", got, t)
		}
		_, err = tx.ActiveTurn(s.ctx, th.ID)
		s.want(err, gateway.ErrNoRow)
		s.must(tx.InsertTurn(s.ctx, other))
		other.ID, other.ThreadID = uid(), s.threadIn(tx).ID
		s.want(tx.InsertTurn(s.ctx, other), gateway.ErrRowExists) // the message was taken
		held, err := tx.RecoveringTurns(s.ctx, th.ID)
		s.must(err)
		all, err := tx.RecoveringTurns(s.ctx, "")
		s.must(err)
		if len(held) != 1 || len(all) != 1 || held[0].ID != t.ID {
			s.Errorf("recovering %d of %d", len(held), len(all))
		}
	})
}

// threadIn makes a thread within a transaction.
func (s *suite) threadIn(tx gateway.ChatTx) gateway.ThreadRow {
	a, err := tx.DefaultAgent(s.ctx, org, uid(), 1)
	s.must(err)
	th := gateway.ThreadRow{ID: uid(), OrgID: org, AccountID: account, AgentID: a.ID}
	s.must(tx.InsertThread(s.ctx, th))
	return th
}

func (s *suite) turnParts() {
	t := s.started(s.thread())
	s.update(func(tx gateway.ChatTx) {
		s.must(tx.AppendDelta(s.ctx, gateway.DeltaRow{TurnID: t.ID, From: 3, To: 5, Text: "\x00b", Sources: []string{"s3"}}))
		s.must(tx.AppendDelta(s.ctx, gateway.DeltaRow{TurnID: t.ID, From: 0, To: 3, Text: "日", Sources: []string{"s1", "s2"}}))
		deltas, err := tx.Deltas(s.ctx, t.ID)
		s.must(err)
		if len(deltas) != 2 || deltas[0].Text != "日" || deltas[1].Text != "\x00b" || fmt.Sprint(deltas[0].Sources) != "[s1 s2]" || deltas[1].From != 3 {
			s.Errorf("deltas %+v", deltas)
		}
		s.must(tx.DropDeltas(s.ctx, t.ID))
		if deltas, err = tx.Deltas(s.ctx, t.ID); err != nil || len(deltas) != 0 {
			s.Errorf("deltas %v %v", deltas, err)
		}
		rows := []gateway.UsageRow{{ResponseID: "r", Category: "tokens.output", Quantity: 3}, {ResponseID: "r", Category: "tokens.input", Quantity: 5}}
		s.must(tx.AddUsage(s.ctx, t.ID, rows))
		rows[0].Quantity = 99
		s.must(tx.AddUsage(s.ctx, t.ID, rows))
		usage, err := tx.Usage(s.ctx, t.ID)
		s.must(err)
		if fmt.Sprint(usage) != "[{r tokens.input 5} {r tokens.output 3}]" {
			s.Errorf("usage %v", usage)
		}
		for i := range 3 {
			s.must(tx.AddMoment(s.ctx, t.ID, 7, fmt.Sprint(i), "d"))
		}
		moments, err := tx.Moments(s.ctx, t.ID)
		s.must(err)
		if len(moments) != 3 || moments[2].Stage != "2" || moments[2].At != gateway.Millis(7) {
			s.Errorf("moments %v", moments)
		}
		found, err := tx.TurnOfHost(s.ctx, t.RunID, t.VirtualTurnID)
		s.must(err)
		if found.ID != t.ID {
			s.Errorf("turn of host %s", found.ID)
		}
	})
}

func (s *suite) open() {
	busy, idle, held := s.thread(), s.thread(), s.thread()
	s.started(busy)
	t := s.started(held)
	s.update(func(tx gateway.ChatTx) {
		for _, th := range []gateway.ThreadRow{busy, idle, held} {
			s.waiting(tx, th, 0)
		}
		t.Status, t.RecoverBy = gateway.TurnCancelled, 5
		s.must(tx.UpdateTurn(s.ctx, t))
		s.must(tx.SetCommand(s.ctx, t.RunID, 1, gateway.CommandAcked, ""))
	})
	s.view(func(tx gateway.ChatTx) {
		ids, err := tx.IdleThreads(s.ctx, 10)
		s.must(err)
		if fmt.Sprint(ids) != fmt.Sprint([]string{idle.ID}) {
			s.Errorf("idle %v", ids)
		}
		runs, err := tx.OpenRuns(s.ctx, "host")
		s.must(err)
		if len(runs) != 2 {
			s.Errorf("open runs %v", runs)
		}
		if runs, err = tx.OpenRuns(s.ctx, "other"); err != nil || len(runs) != 0 {
			s.Errorf("runs of another host %v %v", runs, err)
		}
		lives, err := tx.LiveTurns(s.ctx)
		s.must(err)
		if len(lives) != 1 || lives[0].ThreadID != busy.ID {
			s.Errorf("live %v", lives)
		}
	})
	s.update(func(tx gateway.ChatTx) {
		b, err := tx.RunBusy(s.ctx, t.RunID)
		s.must(err)
		t.RecoverBy = 0
		s.must(tx.UpdateTurn(s.ctx, t))
		after, err := tx.RunBusy(s.ctx, t.RunID)
		s.must(err)
		if !b || after {
			s.Errorf("busy %v, then %v", b, after)
		}
	})
}

func (s *suite) runs() {
	t := s.started(s.thread())
	s.update(func(tx gateway.ChatTx) {
		run, err := tx.Run(s.ctx, t.RunID)
		s.must(err)
		for _, c := range []struct{ to, want uint64 }{{5, 5}, {3, 5}, {1 << 52, 1 << 52}} {
			s.must(tx.RaiseCursor(s.ctx, run.ID, c.to))
			got, err := tx.Run(s.ctx, run.ID)
			s.must(err)
			if got.Cursor != c.want {
				s.Errorf("cursor %d", got.Cursor)
			}
		}
		run.ID = uid()
		s.want(tx.InsertRun(s.ctx, run), gateway.ErrRowExists)

		_, err = tx.LatestBinding(s.ctx, t.RunID)
		s.want(err, gateway.ErrNoRow) // none is applied yet
		s.must(tx.MarkApplied(s.ctx, t.BindingID))
		later := gateway.BindingRow{ID: uid(), RunID: t.RunID, VirtualThreadID: uid(), ContinueFrom: t.BindingID, CreatedAt: 2}
		s.must(tx.InsertBinding(s.ctx, later))
		latest, err := tx.LatestBinding(s.ctx, t.RunID)
		s.must(err)
		if latest.ID != t.BindingID || !latest.Applied {
			s.Errorf("latest %+v", latest)
		}
		s.must(tx.MarkApplied(s.ctx, later.ID))
		latest, err = tx.LatestBinding(s.ctx, t.RunID)
		s.must(err)
		if latest.ID != later.ID || latest.ContinueFrom != t.BindingID {
			s.Errorf("latest %+v", latest)
		}

		seq, err := tx.AppendCommand(s.ctx, gateway.CommandRow{RunID: t.RunID, TurnID: t.ID, Kind: wire.TypeRunControl, Body: []byte(`{}`), CreatedAt: 2})
		s.must(err)
		s.must(tx.SetCommand(s.ctx, t.RunID, 1, gateway.CommandSent, "c"))
		open, err := tx.OpenCommands(s.ctx, t.RunID)
		s.must(err)
		if seq != 2 || len(open) != 2 || open[0].State != gateway.CommandSent || open[0].Error != "c" || string(open[0].Body) != `{"a":1}` || open[1].Seq != 2 {
			s.Errorf("commands %+v", open)
		}
		for _, state := range []gateway.CommandState{gateway.CommandAcked, gateway.CommandFailed, gateway.CommandDropped} {
			s.must(tx.SetCommand(s.ctx, t.RunID, 1, state, ""))
			if open, err = tx.OpenCommands(s.ctx, t.RunID); err != nil || len(open) != 1 {
				s.Errorf("%s is open: %v", state, err)
			}
		}
		all, err := tx.TurnCommands(s.ctx, t.ID)
		s.must(err)
		if len(all) != 2 || all[0].Seq != 1 {
			s.Errorf("commands %+v", all)
		}
		_, err = tx.Command(s.ctx, t.RunID, 9)
		s.want(err, gateway.ErrNoRow)
	})
}

func (s *suite) feed() {
	th := s.thread()
	title := "T"
	s.update(func(tx gateway.ChatTx) {
		head, err := tx.FeedHead(s.ctx, account)
		s.must(err)
		if head != 0 {
			s.Errorf("head %d", head)
		}
		for _, e := range []gateway.FeedEvent{{Kind: gateway.FeedCreated, Title: &title}, {Kind: gateway.FeedModelUpdated}, {Kind: gateway.FeedDeleted}} {
			e.ThreadID, e.CreatedAt = th.ID, gateway.Millis(4)
			s.must(tx.AppendFeed(s.ctx, account, &e))
		}
		other := gateway.FeedEvent{Kind: gateway.FeedCreated, ThreadID: th.ID, CreatedAt: gateway.Millis(4)}
		s.must(tx.AppendFeed(s.ctx, "acc-b", &other))
		if other.SeqID != 1 {
			s.Errorf("feeds share numbers: %d", other.SeqID)
		}
		events, err := tx.Feed(s.ctx, account, 1, 10)
		s.must(err)
		if len(events) != 2 || events[0].SeqID != 2 || events[0].Kind != gateway.FeedModelUpdated || events[0].Title != nil || events[1].CreatedAt != gateway.Millis(4) {
			s.Errorf("feed %+v", events)
		}
		if head, err = tx.FeedHead(s.ctx, account); err != nil || head != 3 {
			s.Errorf("head %d %v", head, err)
		}
	})
}

func (s *suite) erase() {
	th := s.thread()
	t := s.started(th)
	s.update(func(tx gateway.ChatTx) {
		s.waiting(tx, th, 0)
		s.must(tx.AppendDelta(s.ctx, gateway.DeltaRow{TurnID: t.ID, To: 1, Text: "x"}))
		s.must(tx.AddUsage(s.ctx, t.ID, []gateway.UsageRow{{ResponseID: "r", Category: "c", Quantity: 1}}))
		s.must(tx.EraseThread(s.ctx, th.ID))
	})
	s.view(func(tx gateway.ChatTx) {
		events, _, err := tx.Events(s.ctx, gateway.EventQuery{ThreadID: th.ID, Limit: 10, MaxBytes: 1 << 20})
		s.must(err)
		got, err := tx.Thread(s.ctx, th.ID)
		s.must(err)
		deltas, err := tx.Deltas(s.ctx, t.ID)
		s.must(err)
		usage, err := tx.Usage(s.ctx, t.ID)
		s.must(err)
		turn, err := tx.Turn(s.ctx, t.ID)
		s.must(err)
		if len(events) != 0 || got.Waiting != 0 || len(deltas) != 0 || len(usage) != 1 || turn.Prompt != "" {
			s.Errorf("%d events, %d waiting, %d deltas, %d usage rows, prompt %q", len(events), got.Waiting, len(deltas), len(usage), turn.Prompt)
		}
	})
}

func (s *suite) readOuts() {
	th := s.thread()
	t := s.started(th)
	foreign := s.thread(func(th *gateway.ThreadRow) { th.OrgID = "org-b" })
	s.started(foreign)
	s.update(func(tx gateway.ChatTx) { s.waiting(tx, th, 0); s.waiting(tx, th, -1); s.waiting(tx, foreign, 0) })
	s.view(func(tx gateway.ChatTx) {
		turns, err := tx.AdminTurns(s.ctx, org, gateway.Page{Limit: 10, TurnID: t.ID, ThreadID: th.ID, Status: gateway.TurnPending})
		s.must(err)
		if len(turns) != 1 || turns[0].Command != gateway.CommandPending || turns[0].Recovering || turns[0].StartedAt != nil {
			s.Errorf("turns %+v", turns)
		}
		if turns, err = tx.AdminTurns(s.ctx, org, gateway.Page{Limit: 10, Status: gateway.TurnFailed}); err != nil || len(turns) != 0 {
			s.Errorf("failed turns %v %v", turns, err)
		}
		bindings, err := tx.AdminBindings(s.ctx, org, gateway.Page{Limit: 10})
		s.must(err)
		if len(bindings) != 1 || bindings[0].Turns != 1 || bindings[0].Unsettled != 1 || bindings[0].HostID != "host" {
			s.Errorf("bindings %+v", bindings)
		}
		queue, err := tx.AdminQueue(s.ctx, org, gateway.Page{Limit: 10})
		s.must(err)
		if len(queue) != 2 || queue[0].Position+queue[1].Position != 3 {
			s.Errorf("queue %+v", queue)
		}
	})
}
