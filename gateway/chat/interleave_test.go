package chat_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// stops holds updates at the points that a test names. PostgreSQL runs updates
// side by side: what one has read without a lock, another may change before it
// writes. On SQLite the others wait behind it.
type stops struct {
	gateway.ChatStore
	r *rig

	mu    sync.Mutex
	any   *stop // of the updates that the chat runs by itself
	again int   // updates that PostgreSQL broke up
}

// stop is a point at which one update waits, once, after it has come to it.
type stop struct {
	at      string
	once    sync.Once
	reached chan struct{}
	resume  chan struct{}
}

type stopKey struct{}

func withStops(r *rig) *stops {
	p := &stops{r: r}
	r.wrap = func(s gateway.ChatStore) gateway.ChatStore { p.ChatStore = s; return p }
	r.respawn()
	return p
}

// stopAt gives a context whose updates wait at a point.
func (p *stops) stopAt(at string) (context.Context, *stop) {
	s := &stop{at: at, reached: make(chan struct{}), resume: make(chan struct{})}
	p.r.t.Cleanup(s.goOn)
	return context.WithValue(p.r.ctx, stopKey{}, s), s
}

// stopAny stops the next update that comes to a point, whosever it is.
func (p *stops) stopAny(at string) *stop {
	_, s := p.stopAt(at)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.any = s
	return s
}

func (s *stop) goOn() {
	select {
	case <-s.resume:
	default:
		close(s.resume)
	}
}

// beside runs fn while an update waits at its point, as far as it gets: until it
// is done or waits for what the update holds. The update goes on then.
func (p *stops) beside(s *stop, fn func()) {
	p.r.Helper()
	<-s.reached
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	p.r.until("the other is done or waits", func() bool {
		select {
		case <-done:
			return true
		default:
		}
		n, err := p.r.place.Waiters(p.r.ctx)
		p.r.must(err)
		return n > 0
	})
	s.goOn()
	<-done
	p.r.until("the update is over", func() bool { return p.r.sql.Waiting() == 0 })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.again > 0 {
		p.r.t.Errorf("%d updates stood in each other's way", p.again)
	}
}

func (p *stops) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	s, _ := ctx.Value(stopKey{}).(*stop)
	if s == nil {
		p.mu.Lock()
		s = p.any
		p.mu.Unlock()
	}
	if s == nil {
		s = &stop{}
	}
	runs := 0
	return p.ChatStore.Update(ctx, func(tx gateway.ChatTx) error {
		// SQLite runs an update again because another of its group was refused.
		if runs++; runs > 1 && p.r.place.Kind.Name == gatewaytest.Postgres {
			p.mu.Lock()
			p.again++
			p.mu.Unlock()
		}
		return fn(stopTx{tx, s})
	})
}

type stopTx struct {
	gateway.ChatTx
	stop *stop
}

func (tx stopTx) come(at string) {
	if tx.stop.at == at {
		tx.stop.once.Do(func() {
			close(tx.stop.reached)
			<-tx.stop.resume
		})
	}
}

func (tx stopTx) OpenCommands(ctx context.Context, runID string) ([]gateway.CommandRow, error) {
	cmds, err := tx.ChatTx.OpenCommands(ctx, runID)
	tx.come("commands")
	return cmds, err
}

func (tx stopTx) TurnStatus(ctx context.Context, turnID string) (gateway.TurnStatus, error) {
	status, err := tx.ChatTx.TurnStatus(ctx, turnID)
	tx.come("status")
	return status, err
}

func (tx stopTx) AddMoment(ctx context.Context, turnID string, at int64, stage, detail string) error {
	err := tx.ChatTx.AddMoment(ctx, turnID, at, stage, detail)
	tx.come("moment " + stage)
	return err
}

// A prompt that its writer stops while its host asks for work is either withheld
// from the host, or the host is told to stop it and the thread waits for its end.
func TestSQ23_StoppedWhileTheHostAsksForWork(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		p := withStops(r)
		sent := r.say("", "hello")
		runID := r.runOf(*sent.TurnID)
		ctx, s := p.stopAt("commands")
		var work gateway.RunWork
		done := make(chan error, 1)
		go func() {
			var err error
			work, err = r.Work(ctx, runID)
			done <- err
		}()
		p.beside(s, func() {
			_, err := r.Interrupt(r.ctx, ann, gateway.InterruptRequest{ThreadID: sent.ThreadID, ClientEventID: id(), TurnID: *sent.TurnID})
			if err != nil {
				t.Errorf("interrupt: %v", err)
			}
		})
		r.must(<-done)
		after, err := r.Work(r.ctx, runID)
		r.must(err)
		kinds := func(w gateway.RunWork) (list []string) {
			for _, c := range w.Commands {
				list = append(list, peekType(t, c))
			}
			return list
		}
		given, held := len(work.Commands) > 0, r.thread(sent.ThreadID).CancellationRecoveryPending
		if given != held {
			t.Errorf("the host was given %v, the thread waits for it: %v", kinds(work), held)
		}
		want := 0
		if given {
			want = 2 // the prompt and its end
		}
		if len(after.Commands) != want {
			t.Errorf("the host is to be told %v", kinds(after))
		}
	})
}

func peekType(t *testing.T, c wire.CommandMessage) string {
	t.Helper()
	var head struct{ Type string }
	if err := json.Unmarshal(c.Command, &head); err != nil {
		t.Errorf("command %d is %q: %v", c.Seq, c.Command, err)
	}
	return head.Type
}

// The first text of a turn and its end note their moments at once, and neither
// fails for it.
func TestSQ16_StoppedWithItsFirstText(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		p := withStops(r)
		sent := r.say("", "hello")
		r.accept()
		r.until("it runs", func() bool { return r.turn(*sent.TurnID).Status == gateway.TurnRunning })
		s := p.stopAny("moment first_text")
		r.host.Say(r.runOf(*sent.TurnID), "first")
		r.must(r.host.Deliver(r.ctx, r.Service, -1))
		p.beside(s, func() {
			_, err := r.Interrupt(r.ctx, ann, gateway.InterruptRequest{ThreadID: sent.ThreadID, ClientEventID: id(), TurnID: *sent.TurnID})
			if err != nil {
				t.Errorf("interrupt: %v", err)
			}
		})
		r.wantLog(sent.ThreadID, "input:hello start:hello control.interrupt output.partial:first turn.cancelled")
	})
}

// Text that arrives while its turn ends is not stored beside the events that stand
// for it, and none outlives its thread.
func TestSQ39_NoTextOutlivesItsTurn(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		p := withStops(r)
		threadID, turnID := r.streaming("hello", "some ")
		s := p.stopAny("status")
		r.host.Say(r.runOf(turnID), "secret")
		r.must(r.host.Deliver(r.ctx, r.Service, -1))
		p.beside(s, func() {
			if err := r.DeleteThread(r.ctx, ann, gateway.DeleteThreadRequest{ThreadID: threadID}); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
		r.until("envelopes are durable", r.host.Settled)
		var left int
		r.must(r.place.Raw(t).QueryRow(`SELECT COUNT(*) FROM turn_deltas`).Scan(&left))
		if left != 0 {
			t.Errorf("%d texts of a deleted thread are stored", left)
		}
	})
}
