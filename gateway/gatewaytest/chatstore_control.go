package gatewaytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairlead/fairlead/gateway"
)

func (s *suite) deliveries() {
	th := s.thread()
	t := s.started(th)
	other := s.started(s.thread())
	s.update(func(tx gateway.ChatTx) {
		q, next := s.waiting(tx, th, 0), s.waiting(tx, th, 0)
		d := gateway.DeliveryRow{
			ID: uid(), TurnID: t.ID, ThreadID: th.ID, EventID: q.EventID, Kind: gateway.DeliveryMessage,
			State: gateway.DeliveryReserved, Prompt: "p\x00", Now: true, CreatedAt: 3,
		}
		s.must(tx.InsertDelivery(s.ctx, d))
		for _, read := range []func() (gateway.DeliveryRow, error){
			func() (gateway.DeliveryRow, error) { return tx.Delivery(s.ctx, d.ID) },
			func() (gateway.DeliveryRow, error) { return tx.OpenDelivery(s.ctx, t.ID) },
			func() (gateway.DeliveryRow, error) { return tx.DeliveryOfEvent(s.ctx, q.EventID) },
		} {
			if got, err := read(); err != nil || got != d {
				s.Errorf("got %+v, %v\nwant %+v", got, err, d)
			}
		}
		second := d
		second.ID, second.EventID = uid(), next.EventID
		s.want(tx.InsertDelivery(s.ctx, second), gateway.ErrRowExists) // of the turn
		second.TurnID, second.EventID = other.ID, q.EventID
		s.want(tx.InsertDelivery(s.ctx, second), gateway.ErrRowExists) // of the message

		d.State, d.Prompt, d.Now, d.At, d.SettledAt = gateway.DeliveryDelivered, "", false, 12, 9
		s.must(tx.UpdateDelivery(s.ctx, d))
		_, err := tx.OpenDelivery(s.ctx, t.ID)
		s.want(err, gateway.ErrNoRow)
		_, err = tx.DeliveryOfEvent(s.ctx, q.EventID)
		s.want(err, gateway.ErrNoRow)
		second.TurnID, second.EventID, second.CreatedAt = t.ID, next.EventID, 4
		s.must(tx.InsertDelivery(s.ctx, second))
		all, err := tx.Deliveries(s.ctx, t.ID)
		s.must(err)
		if len(all) != 2 || all[0] != d || all[1] != second {
			s.Errorf("deliveries %+v", all)
		}
		_, err = tx.Delivery(s.ctx, uid())
		s.want(err, gateway.ErrNoRow)
	})
}

func (s *suite) deadlines() {
	th := s.thread()
	t, young := s.started(th), s.started(s.thread())
	s.update(func(tx gateway.ChatTx) {
		if list, err := tx.AgedTurns(s.ctx, 100); err != nil || len(list) != 0 {
			s.Errorf("aged turns that do not run: %v %v", list, err)
		}
		t.Status, t.StartedAt = gateway.TurnRunning, 50
		young.Status, young.StartedAt = gateway.TurnRunning, 101
		s.must(tx.UpdateTurn(s.ctx, t))
		s.must(tx.UpdateTurn(s.ctx, young))
		list, err := tx.AgedTurns(s.ctx, 100)
		s.must(err)
		if len(list) != 1 || list[0].ID != t.ID {
			s.Errorf("aged turns %+v", list)
		}
		d := gateway.DeliveryRow{
			ID: uid(), TurnID: t.ID, ThreadID: th.ID, EventID: uid(), Kind: gateway.DeliveryDeadline, State: gateway.DeliveryWaiting, CreatedAt: 1,
		}
		s.must(tx.InsertDelivery(s.ctx, d))
		d.ID = uid()
		s.want(tx.InsertDelivery(s.ctx, d), gateway.ErrRowExists) // once for a turn
		if list, err = tx.AgedTurns(s.ctx, 100); err != nil || len(list) != 0 {
			s.Errorf("warned twice: %v %v", list, err)
		}
	})
}

func (s *suite) steers() {
	th := s.thread()
	s.update(func(tx gateway.ChatTx) {
		s.waiting(tx, th, 0)
		var want []string
		for _, rank := range []int{0, -1} {
			q := s.waiting(tx, th, rank)
			_, err := tx.Dequeue(s.ctx, q.EventID)
			s.must(err)
			q.Mode, q.Now, q.Options, q.ReceivedAt = gateway.ModeSteer, true, nil, 7
			s.must(tx.Enqueue(s.ctx, q))
			want = append([]string{q.EventID}, want...)
		}
		got, err := tx.Steers(s.ctx, th.ID)
		s.must(err)
		if len(got) != 2 || got[0].EventID != want[0] || got[1].EventID != want[1] {
			s.Fatalf("steers %+v, want %v", got, want)
		}
		if q := got[0]; q.Mode != gateway.ModeSteer || !q.Now || q.Options != nil || q.ReceivedAt != 7 {
			s.Errorf("steer %+v", q)
		}
	})
}

func (s *suite) admission() {
	s.view(func(tx gateway.ChatTx) {
		_, err := tx.Admission(s.ctx, org, account)
		s.want(err, gateway.ErrNoRow)
	})
	s.orgs()
	check := func(accountID string, want gateway.Admission) {
		s.Helper()
		s.view(func(tx gateway.ChatTx) {
			got, err := tx.Admission(s.ctx, org, accountID)
			s.must(err)
			if fmt.Sprintf("%+v", plainAdmission(got)) != fmt.Sprintf("%+v", plainAdmission(want)) {
				s.Errorf("got %+v, want %+v", plainAdmission(got), plainAdmission(want))
			}
		})
	}
	check(account, gateway.Admission{})
	credits := int64(-5)
	accounts := s.sql.Accounts()
	s.must(accounts.SetEntitlement(s.ctx, org, gateway.Entitlement{Status: "suspended", Credits: &credits}, gateway.AuditEntry{ID: uid()}))
	s.must(accounts.SetOrgLimits(s.ctx, org, gateway.Limits{ConcurrentTurns: 1, DailyTurns: 2}, gateway.AuditEntry{ID: uid()}))
	s.must(accounts.SetMemberDefaults(s.ctx, org, gateway.Limits{ConcurrentTurns: 3, DailyTurns: 4}, gateway.AuditEntry{ID: uid()}))
	want := gateway.Admission{Suspended: true, Credits: &credits, OrgTurns: 1, OrgDaily: 2, MemberTurns: 3, MemberDaily: 4}
	check(account, want)
	member := gateway.StoredAccount{}
	member.ID, member.OrgID, member.Email, member.Role = "acc-limited", org, "l@example.com", gateway.RoleMember
	_, err := accounts.CreateAccount(s.ctx, member, "", gateway.Org{}, gateway.AuditEntry{ID: uid()})
	s.must(err)
	_, err = accounts.SetMemberLimits(s.ctx, org, member.ID, &gateway.Limits{DailyTurns: 9}, gateway.AuditEntry{ID: uid()})
	s.must(err)
	want.MemberTurns, want.MemberDaily = 0, 9 // a row of its own stands for both
	check(member.ID, want)
}

func (s *suite) disabled() {
	s.orgs()
	owner := gateway.StoredAccount{Account: gateway.Account{ID: account, OrgID: org, Email: "a@example.com", Role: gateway.RoleMember}}
	accounts := s.sql.Accounts()
	_, err := accounts.CreateAccount(s.ctx, owner, "", gateway.Org{}, gateway.AuditEntry{ID: uid()})
	s.must(err)
	mine, theirs := s.thread(), s.thread(func(th *gateway.ThreadRow) { th.AccountID = "acc-b" })
	s.update(func(tx gateway.ChatTx) {
		s.waiting(tx, mine, 0)
		s.waiting(tx, theirs, 0)
	})
	check := func(disabled bool) {
		s.Helper()
		s.view(func(tx gateway.ChatTx) {
			a, err := tx.Admission(s.ctx, org, account)
			s.must(err)
			th, err := tx.Thread(s.ctx, mine.ID)
			s.must(err)
			other, err := tx.Thread(s.ctx, theirs.ID)
			s.must(err)
			ids, err := tx.IdleThreads(s.ctx, 10)
			s.must(err)
			if a.Disabled != disabled || th.Disabled != disabled || other.Disabled ||
				slices.Contains(ids, mine.ID) == disabled || !slices.Contains(ids, theirs.ID) {
				s.Errorf("disabled is %v: admission %v, threads %v and %v, idle %v", disabled, a.Disabled, th.Disabled, other.Disabled, ids)
			}
		})
	}
	check(false)
	_, err = accounts.DisableMember(s.ctx, org, account, gateway.AuditEntry{ID: uid(), At: time.UnixMilli(5)})
	s.must(err)
	check(true)
	s.must(accounts.EnableMember(s.ctx, org, account, gateway.AuditEntry{ID: uid()}))
	check(false)
}

func plainAdmission(a gateway.Admission) any {
	credits := "unlimited"
	if a.Credits != nil {
		credits = fmt.Sprint(*a.Credits)
	}
	a.Credits = nil
	return struct {
		gateway.Admission
		credits string
	}{a, credits}
}

func (s *suite) load() {
	mine, theirs := s.thread(), s.thread(func(th *gateway.ThreadRow) { th.AccountID = "acc-b" })
	s.started(mine)
	running, foreign := s.started(theirs), s.started(s.thread(func(th *gateway.ThreadRow) { th.OrgID = orgB }))
	var waiting []string
	s.update(func(tx gateway.ChatTx) {
		running.Status = gateway.TurnRunning
		s.must(tx.UpdateTurn(s.ctx, running))
		for i := range 2 {
			th := s.threadIn(tx)
			t := gateway.TurnRow{
				ID: uid(), OrgID: org, AccountID: account, ThreadID: th.ID, InputEventID: uid(), Status: gateway.TurnQueued, CreatedAt: int64(20 - i),
				Context: "what the model is told",
			}
			s.must(tx.InsertTurn(s.ctx, t))
			waiting = append([]string{t.ID}, waiting...)
		}
		foreign.Status = gateway.TurnQueued
		s.must(tx.UpdateTurn(s.ctx, foreign))
	})
	s.view(func(tx gateway.ChatTx) {
		got, err := tx.Load(s.ctx, org, account, 6) // those of started() are of 5
		s.must(err)
		if want := (gateway.Load{OrgActive: 2, MemberActive: 1, OrgQueued: 2, OrgStarted: 2, MemberStarted: 2}); got != want {
			s.Errorf("load %+v, want %+v", got, want)
		}
		for limit, want := range map[int][]string{10: waiting, 1: waiting[:1]} {
			list, err := tx.QueuedTurns(s.ctx, org, limit)
			s.must(err)
			var ids []string
			for _, t := range list {
				ids = append(ids, t.ID)
				if t.Context != "" || t.OrgID != org || t.AccountID != account || t.CreatedAt == 0 {
					s.Errorf("queued turn %+v", t)
				}
			}
			if fmt.Sprint(ids) != fmt.Sprint(want) {
				s.Errorf("queued %v, want %v", ids, want)
			}
		}
		orgs, err := tx.WaitingOrgs(s.ctx)
		s.must(err)
		if len(orgs) != 2 {
			s.Errorf("waiting orgs %v", orgs)
		}
	})
}

func (s *suite) charges() {
	s.orgs()
	t := s.started(s.thread())
	credits := int64(10)
	accounts := s.sql.Accounts()
	s.must(accounts.SetEntitlement(s.ctx, org, gateway.Entitlement{Status: "active", Credits: &credits}, gateway.AuditEntry{ID: uid()}))
	row := func(category string, spent int64) gateway.ChargeRow {
		return gateway.ChargeRow{
			ID: uid(), OrgID: org, AccountID: account, TurnID: t.ID, Provider: "p", Model: "m", ResponseID: "r",
			Category: category, Quantity: 3, Credits: spent, CreatedAt: 1,
		}
	}
	out, in := row("tokens.output", 7), row("tokens.input", 5)
	for range 2 { // booking again books nothing
		s.update(func(tx gateway.ChatTx) { s.must(tx.Charge(s.ctx, []gateway.ChargeRow{out, in})) })
	}
	unlimited := row("tokens.output", 1)
	unlimited.OrgID = orgB
	s.update(func(tx gateway.ChatTx) {
		s.must(tx.Charge(s.ctx, []gateway.ChargeRow{unlimited}))
		s.must(tx.Charge(s.ctx, nil))
	})
	s.view(func(tx gateway.ChatTx) {
		list, err := tx.Charges(s.ctx, t.ID)
		s.must(err)
		if len(list) != 3 || list[0] != in {
			s.Errorf("charges %+v", list)
		}
		a, err := tx.Admission(s.ctx, org, account)
		s.must(err)
		b, err := tx.Admission(s.ctx, orgB, account)
		s.must(err)
		if a.Credits == nil || *a.Credits != -2 || b.Credits != nil {
			s.Errorf("credits %v and %v, want -2 and unlimited", a.Credits, b.Credits)
		}
	})
}

func (s *suite) agents() {
	s.update(func(tx gateway.ChatTx) {
		standard, err := tx.DefaultAgent(s.ctx, org, uid(), 1)
		s.must(err)
		shared := gateway.AgentRow{ID: uid(), OrgID: org, OwnerID: "acc-b", Name: "b shared", Description: "d", Instructions: "i", Model: "m", CreatedAt: 1, UpdatedAt: 1}
		own := gateway.AgentRow{ID: uid(), OrgID: org, OwnerID: account, Name: "A own", Private: true}
		hidden := gateway.AgentRow{ID: uid(), OrgID: org, OwnerID: "acc-b", Name: "hidden", Private: true}
		foreign := gateway.AgentRow{ID: uid(), OrgID: orgB, Name: "foreign"}
		for _, a := range []gateway.AgentRow{shared, own, hidden, foreign} {
			s.must(tx.InsertAgent(s.ctx, a))
		}
		s.want(tx.InsertAgent(s.ctx, own), gateway.ErrRowExists)
		list := func() (names []string) {
			rows, err := tx.Agents(s.ctx, org, account)
			s.must(err)
			for _, a := range rows {
				names = append(names, a.Name)
			}
			return names
		}
		if got := list(); fmt.Sprint(got) != fmt.Sprint([]string{standard.Name, "A own", "b shared"}) {
			s.Errorf("agents %v", got)
		}
		own.Name, own.Description, own.Instructions, own.Model, own.Private, own.UpdatedAt = "Z", "d", "i\x00", "m", false, 5
		s.must(tx.UpdateAgent(s.ctx, own))
		if got, err := tx.Agent(s.ctx, org, own.ID); err != nil || got != own {
			s.Errorf("agent %+v %v", got, err)
		}
		shared.DeletedAt = 6
		s.must(tx.UpdateAgent(s.ctx, shared))
		if got := list(); fmt.Sprint(got) != fmt.Sprint([]string{standard.Name, "Z"}) {
			s.Errorf("agents %v", got)
		}
		if got, err := tx.Agent(s.ctx, org, shared.ID); err != nil || got != shared {
			s.Errorf("deleted agent %+v %v", got, err)
		}
	})
}

func (s *suite) unknownTurns() {
	th := s.thread()
	s.update(func(tx gateway.ChatTx) {
		var want []string
		for i, t := range []gateway.TurnRow{
			{Status: gateway.TurnFailed},
			{Status: gateway.TurnCompleted, StartedAt: 3},
			{Status: gateway.TurnCancelled},
			{Status: gateway.TurnPending},
		} {
			t.ID, t.OrgID, t.AccountID, t.ThreadID, t.InputEventID, t.CreatedAt = uid(), org, account, th.ID, uid(), int64(i)
			s.must(tx.InsertTurn(s.ctx, t))
			if t.StartedAt == 0 && t.Status.Final() {
				want = append([]string{t.ID}, want...)
			}
		}
		for limit, n := range map[int]int{10: 2, 1: 1} {
			got, err := tx.UnknownTurns(s.ctx, th.ID, limit)
			s.must(err)
			if len(got) != n || got[0].ID != want[0] || got[n-1].ID != want[n-1] {
				s.Errorf("unknown %+v, want %v", got, want[:n])
			}
		}
	})
}

func (s *suite) replies() {
	e := gateway.ClientEvent{ID: uid(), AccountID: account, Kind: gateway.ClientSteer, ContentHash: "h", CreatedAt: 1}
	s.update(func(tx gateway.ChatTx) {
		_, _, err := tx.ClaimClientEvent(s.ctx, e)
		s.must(err)
		for _, settled := range []bool{false, true} {
			reply := fmt.Sprintf(`{"settled":%v}`, settled)
			s.must(tx.SetClientReply(s.ctx, e.ID, []byte(reply), settled))
			first, fresh, err := tx.ClaimClientEvent(s.ctx, e)
			s.must(err)
			if fresh || first.Settled != settled || string(first.Reply) != reply || first.CreatedAt != 1 {
				s.Errorf("first %+v, fresh %v", first, fresh)
			}
		}
	})
}

// parts checks the parts of a turn that its end and the org queue write.
func (s *suite) parts() {
	t := s.started(s.thread())
	s.update(func(tx gateway.ChatTx) {
		t.MarkerEventID, t.EstimateInput, t.EstimateOutput, t.Status = uid(), 1<<40, 7, gateway.TurnRunning
		t.Billing, t.StartedAt = string(gateway.BillingOwn), 4
		s.must(tx.UpdateTurn(s.ctx, t))
		if got, err := tx.Turn(s.ctx, t.ID); err != nil || got != t {
			s.Errorf("got %+v, %v\nwant %+v", got, err, t)
		}
		metered := gateway.TurnRow{
			ID: uid(), OrgID: org, AccountID: account, ThreadID: s.threadIn(tx).ID, InputEventID: uid(), Status: gateway.TurnQueued,
			Model: "m", Route: "r", Billing: "metered", Family: "f", MarkerEventID: "e", Context: "c\x00\xff", CreatedAt: 1,
		}
		s.must(tx.InsertTurn(s.ctx, metered))
		if got, err := tx.Turn(s.ctx, metered.ID); err != nil || got != metered {
			s.Errorf("got %+v, %v\nwant %+v", got, err, metered)
		}
		s.must(tx.SetCommand(s.ctx, t.RunID, 1, gateway.CommandParked, ""))
		if open, err := tx.OpenCommands(s.ctx, t.RunID); err != nil || len(open) != 0 {
			s.Errorf("a parked command is told to a host: %v %v", open, err)
		}
	})
}
