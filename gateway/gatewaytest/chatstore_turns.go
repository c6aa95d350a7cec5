package gatewaytest

import (
	"fmt"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

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
		t.Partial, t.RecoverBy, t.Billing = &partial, 99, string(gateway.BillingOwn) // what a turn without a word on it costs
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
		if fmt.Sprint(usage) != "[{r tokens.input 5 <nil>} {r tokens.output 3 <nil>}]" {
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
		if status, err := tx.TurnStatus(s.ctx, t.ID); err != nil || status != gateway.TurnPending {
			s.Errorf("status %q %v", status, err)
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

		_, _, err = tx.LatestBinding(s.ctx, t.ThreadID)
		s.want(err, gateway.ErrNoRow) // none is applied yet
		s.must(tx.MarkApplied(s.ctx, t.BindingID))
		later := gateway.BindingRow{ID: uid(), RunID: t.RunID, VirtualThreadID: uid(), ContinueFrom: t.BindingID, CreatedAt: 2}
		s.must(tx.InsertBinding(s.ctx, later))
		latest, host, err := tx.LatestBinding(s.ctx, t.ThreadID)
		s.must(err)
		if latest.ID != t.BindingID || !latest.Applied || host != run.HostID {
			s.Errorf("latest %+v", latest)
		}
		s.must(tx.MarkApplied(s.ctx, later.ID))
		latest, _, err = tx.LatestBinding(s.ctx, t.ThreadID)
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
		if len(all) != 2 || all[0].Seq != 1 || len(all[0].Body) != 0 || len(all[1].Body) == 0 {
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
		if len(events) != 0 || got.Waiting != 0 || len(deltas) != 0 || len(usage) != 1 || turn.Partial != nil {
			s.Errorf("%d events, %d waiting, %d deltas, %d usage rows, partial %v", len(events), got.Waiting, len(deltas), len(usage), turn.Partial)
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
		s.bindingReadOuts(tx, bindings[0], t)
		queue, err := tx.AdminQueue(s.ctx, org, gateway.Page{Limit: 10})
		s.must(err)
		if len(queue) != 2 || queue[0].Position+queue[1].Position != 3 {
			s.Errorf("queue %+v", queue)
		}
	})
}

// bindingReadOuts looks for one binding by all that narrows, and at what stands beside
// it.
func (s *suite) bindingReadOuts(tx gateway.ChatTx, b gateway.AdminBinding, t gateway.TurnRow) {
	for _, c := range []struct {
		page gateway.Page
		want int
	}{
		{gateway.Page{BindingID: b.BindingID}, 1},
		{gateway.Page{BindingID: "another"}, 0},
		{gateway.Page{HostID: "host"}, 1},
		{gateway.Page{HostID: "another"}, 0},
		{gateway.Page{Binding: gateway.BindingOpen, ThreadID: b.ThreadID}, 1},
		{gateway.Page{Binding: gateway.BindingSettled}, 0},
		{gateway.Page{Binding: gateway.BindingUnanswered}, 1},
	} {
		c.page.Limit = 10
		rows, err := tx.AdminBindings(s.ctx, org, c.page)
		s.must(err)
		if len(rows) != c.want {
			s.Errorf("%+v: %d bindings, want %d", c.page, len(rows), c.want)
		}
	}
	turns, err := tx.AdminTurns(s.ctx, org, gateway.Page{Limit: 10, ThreadID: b.ThreadID, BindingID: b.BindingID})
	s.must(err)
	commands, err := tx.AdminCommands(s.ctx, b.RunID, 10)
	s.must(err)
	events, err := tx.AdminEvents(s.ctx, b.ThreadID, 1)
	s.must(err)
	if len(turns) != 1 || turns[0].TurnID != t.ID || turns[0].RecoverBy != nil || turns[0].Delivery != "" {
		s.Errorf("turns of the binding %+v", turns)
	}
	if len(commands) != 1 || commands[0].TurnID != t.ID || commands[0].State != gateway.CommandPending {
		s.Errorf("commands of the run %+v", commands)
	}
	if len(events) != 1 || events[0].SeqID == 0 || events[0].Size == 0 || !b.UsedAt.Equal(gateway.Millis(t.CreatedAt).Time) {
		s.Errorf("events %+v, used %v", events, b.UsedAt)
	}
}
