package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/gateway"
)

// held runs fn in an update that stays open until the returned function is called,
// which gives the update's error.
func (s *suite) held(fn func(tx gateway.ChatTx) error) (release func() error) {
	s.Helper()
	inside, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.store.Update(s.ctx, func(tx gateway.ChatTx) error {
			err := fn(tx)
			close(inside)
			<-free
			return err
		})
	}()
	select {
	case <-inside:
	case err := <-done:
		s.Fatalf("the holding update ended: %v", err)
	}
	return sync.OnceValue(func() error { close(free); return <-done })
}

// blocks checks that of two updates that run lock the second waits for the end of
// the first, and runs its function after commit after it.
func (s *suite) blocks(what string, lock func(gateway.ChatTx) error) {
	s.Helper()
	var mu sync.Mutex
	var order []string
	note := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, name)
	}
	release := s.held(func(tx gateway.ChatTx) error {
		tx.OnCommit(func() { note("first published") })
		return lock(tx)
	})
	second := make(chan error, 1)
	go func() {
		second <- s.store.Update(s.ctx, func(tx gateway.ChatTx) error {
			if err := lock(tx); err != nil {
				return err
			}
			note("second has it")
			tx.OnCommit(func() { note("second published") })
			return nil
		})
	}()
	s.place.AwaitWaiters(s.T, 1)
	note("still waiting")
	s.must(release())
	s.must(<-second)
	if order[0] != "still waiting" || slices.Index(order, "second has it") < 1 {
		s.Errorf("%s: %v", what, order)
	}
	if sequenced := what == "org" || what == "thread"; sequenced &&
		slices.Index(order, "first published") > slices.Index(order, "second published") {
		s.Errorf("%s: %v", what, order)
	}
}

func (s *suite) locks() {
	s.orgs()
	th := s.thread()
	t := s.started(th)
	var q gateway.QueueRow
	s.update(func(tx gateway.ChatTx) { q = s.waiting(tx, th, 0) })
	for _, c := range []struct {
		what string
		lock func(gateway.ChatTx) error
	}{
		{"org", func(tx gateway.ChatTx) error { return tx.LockOrg(s.ctx, org) }},
		{"thread", func(tx gateway.ChatTx) error { return tx.LockThread(s.ctx, th.ID) }},
		{"turn", func(tx gateway.ChatTx) error { return tx.LockTurn(s.ctx, t.ID) }},
		{"waiting message", func(tx gateway.ChatTx) error { return tx.LockQueueRow(s.ctx, q.EventID) }},
	} {
		s.blocks(c.what, c.lock)
	}
	s.update(func(tx gateway.ChatTx) { // what is not there cannot be held, and that is no error
		s.must(tx.LockOrg(s.ctx, uid()))
		s.must(tx.LockThread(s.ctx, uid()))
		s.must(tx.LockTurn(s.ctx, uid()))
		s.must(tx.LockQueueRow(s.ctx, uid()))
	})
}

// locksApart checks that a lock holds its own row alone, where rows can be held.
func (s *suite) locksApart() {
	if s.place.Kind.Name != Postgres {
		s.Skip("one writer holds everything")
	}
	s.orgs()
	th, other := s.thread(), s.thread(func(th *gateway.ThreadRow) { th.OrgID = orgB })
	release := s.held(func(tx gateway.ChatTx) error {
		return errors.Join(tx.LockOrg(s.ctx, org), tx.LockThread(s.ctx, th.ID))
	})
	s.update(func(tx gateway.ChatTx) {
		s.must(tx.LockOrg(s.ctx, orgB))
		s.must(tx.LockThread(s.ctx, other.ID))
		s.waiting(tx, other, 0)
	})
	// A reference to a held thread is no change of it.
	s.update(func(tx gateway.ChatTx) {
		s.must(tx.InsertRun(s.ctx, gateway.RunRow{ID: uid(), OrgID: org, AccountID: account, ThreadID: th.ID, HostID: "h", TargetRef: "t"}))
	})
	s.must(release())
}

// secondClaim checks that of two sends with one id the second waits for what the
// first made of it.
func (s *suite) secondClaim() {
	e := gateway.ClientEvent{ID: uid(), AccountID: account, Kind: gateway.ClientSend, ContentHash: "h", CreatedAt: 1}
	for _, undone := range []error{errors.New("undone"), nil} {
		release := s.held(func(tx gateway.ChatTx) error {
			_, fresh, err := tx.ClaimClientEvent(s.ctx, e)
			if err != nil || !fresh {
				return fmt.Errorf("fresh %v: %w", fresh, err)
			}
			if err := tx.SetClientReply(s.ctx, e.ID, []byte(`{"a":1}`), true); err != nil {
				return err
			}
			return undone
		})
		second := make(chan error, 1)
		go func() {
			second <- s.store.Update(s.ctx, func(tx gateway.ChatTx) error {
				first, fresh, err := tx.ClaimClientEvent(s.ctx, e)
				switch {
				case err != nil:
					return err
				case fresh != (undone != nil):
					return fmt.Errorf("fresh %v after the first ended with %q", fresh, fmt.Sprint(undone))
				case !fresh && (string(first.Reply) != `{"a":1}` || !first.Settled):
					return fmt.Errorf("first %+v", first)
				case fresh: // and leaves no trace
					return undone
				}
				return nil
			})
		}()
		s.place.AwaitWaiters(s.T, 1)
		s.want(release(), undone)
		s.want(<-second, undone)
	}
}

// publishing checks that functions after commit run in commit order for each
// thread and feed, whatever else runs at the same time.
func (s *suite) publishing() {
	s.orgs()
	threads := []gateway.ThreadRow{s.thread(), s.thread(), s.thread()}
	const writers, each = 8, 20
	var mu sync.Mutex
	logs := map[string][]int64{}
	note := func(key string, seq int64) {
		mu.Lock()
		defer mu.Unlock()
		logs[key] = append(logs[key], seq)
	}
	boom := errors.New("boom")
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				th := threads[(w+i)%len(threads)]
				err := s.store.Update(s.ctx, func(tx gateway.ChatTx) error {
					e := &gateway.Event{ID: uid(), EventType: gateway.EventTurnFailed, CreatedAt: gateway.Millis(1)}
					f := &gateway.FeedEvent{Kind: gateway.FeedModelUpdated, ThreadID: th.ID, CreatedAt: gateway.Millis(1)}
					if err := errors.Join(tx.LockThread(s.ctx, th.ID), tx.AppendEvents(s.ctx, th.ID, []*gateway.Event{e}),
						tx.AppendFeed(s.ctx, account, f)); err != nil {
						return err
					}
					tx.OnCommit(func() { note(th.ID, e.SeqID); note(account, f.SeqID) })
					if (w*each+i)%7 == 0 {
						return boom
					}
					return nil
				})
				if err != nil && !errors.Is(err, boom) {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for key, seqs := range logs {
		for i, seq := range seqs {
			if seq != int64(i+1) {
				s.Errorf("%s was published in the order %v", key, seqs)
				break
			}
		}
	}
}

// again checks that updates that lock in each other's way all come to an end, and
// that what a broken-up run of one did is gone.
func (s *suite) again() {
	s.orgs()
	a, b := s.thread(), s.thread()
	const rounds = 10
	var wg sync.WaitGroup
	for _, pair := range [][2]string{{a.ID, b.ID}, {b.ID, a.ID}} {
		wg.Go(func() {
			for range rounds {
				var seqs []int64
				err := s.store.Update(s.ctx, func(tx gateway.ChatTx) error {
					seqs = nil // an earlier run left it behind
					for _, id := range pair {
						e := &gateway.Event{ID: uid(), EventType: gateway.EventTurnFailed, CreatedAt: gateway.Millis(1)}
						if err := tx.AppendEvents(s.ctx, id, []*gateway.Event{e}); err != nil {
							return err
						}
						seqs = append(seqs, e.SeqID)
					}
					return nil
				})
				if err != nil || len(seqs) != 2 {
					s.Errorf("%v: %v", seqs, err)
				}
			}
		})
	}
	wg.Wait()
	s.view(func(tx gateway.ChatTx) {
		for _, th := range []gateway.ThreadRow{a, b} {
			events, _, err := tx.Events(s.ctx, gateway.EventQuery{ThreadID: th.ID, Limit: 100, MaxBytes: 1 << 20})
			s.must(err)
			if len(events) != 2*rounds || events[len(events)-1].SeqID != 2*rounds {
				s.Errorf("%d events, want %d without a gap", len(events), 2*rounds)
			}
		}
	})
}

// orgs makes the rows of the orgs that the suite uses.
func (s *suite) orgs() {
	s.Helper()
	for _, id := range []string{org, orgB} {
		s.must(s.sql.Accounts().CreateOrg(context.Background(), gateway.Org{ID: id, Name: id}, gateway.AuditEntry{ID: uid()}))
	}
}
