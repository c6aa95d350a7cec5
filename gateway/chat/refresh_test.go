package chat_test

import (
	"context"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// unanswered is a store whose server is lost while it commits: what was to be kept
// is kept, its caller learns nothing, and nothing follows the commit.
type unanswered struct {
	gateway.ChatStore
	mu   sync.Mutex
	left int
	seen int
}

func losing(r *rig) *unanswered {
	p := &unanswered{}
	r.wrap = func(s gateway.ChatStore) gateway.ChatStore { p.ChatStore = s; return p }
	r.respawn()
	return p
}

// lose loses the answers to the next n commits that write something.
func (p *unanswered) lose(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.seen = n, 0
}

func (p *unanswered) lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (p *unanswered) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	p.mu.Lock()
	lose := p.left > 0
	p.mu.Unlock()
	if !lose {
		return p.ChatStore.Update(ctx, fn)
	}
	err := p.ChatStore.Update(ctx, func(tx gateway.ChatTx) error { return fn(silentTx{tx}) })
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	p.seen++
	return wire.NewError(wire.CodeStorageUnavailable, "The store did not tell whether this was kept.")
}

type silentTx struct{ gateway.ChatTx }

func (silentTx) OnCommit(func()) {}

func TestF24_CommitsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		test func(r *rig, p *unanswered)
	}{
		{"F24 text is stored once and the host is told", func(r *rig, p *unanswered) {
			threadID, turnID := r.streaming("hello", "some ")
			p.lose(1)
			r.host.Say(r.runOf(turnID), "text")
			r.deliver()
			r.end(turnID, completed())
			r.until("it ends", func() bool { return r.turn(turnID).Status.Final() })
			r.wantLog(threadID, "input:hello start:hello output.message:some text turn.completed")
		}},
		{"F24 a turn that was made is known", func(r *rig, p *unanswered) {
			first := r.say("", "hello")
			r.accept()
			r.end(*first.TurnID, completed())
			req := message(first.ThreadID, "again")
			p.lose(2) // to accept it, and to claim it
			if _, err := r.Send(r.ctx, ann, req); err == nil {
				r.Fatalf("the store answered")
			}
			if _, err := r.Send(r.ctx, ann, req); err == nil {
				r.Fatalf("the store answered")
			}
			if r.thread(first.ThreadID).Turn == nil {
				r.Fatalf("no turn")
			}
			reply, err := r.Send(r.ctx, ann, req)
			r.must(err)
			if reply.Disposition != gateway.DispositionStarted || !reply.Replayed {
				r.Fatalf("reply %+v", reply)
			}
			r.accept()
			r.host.Say(r.runOf(*reply.TurnID), "text")
			r.deliver()
			r.end(*reply.TurnID, completed())
			r.until("it ends", func() bool { return r.turn(*reply.TurnID).Status.Final() })
			r.wantLog(first.ThreadID, "input:hello start:hello turn.completed input:again start:again output.message:text turn.completed")
		}},
		{"F24 text of a turn that is not known yet is not passed over", func(r *rig, p *unanswered) {
			req := message("", "hello")
			req.ClientThreadID = id()
			p.lose(2)
			for range 2 {
				if _, err := r.Send(r.ctx, ann, req); err == nil {
					r.Fatalf("the store answered")
				}
			}
			rows, err := r.AdminTurns(r.ctx, ann, gateway.Page{ThreadID: req.ClientThreadID})
			r.must(err)
			turnID := rows.Rows[0].TurnID
			r.accept()
			r.host.Say(rows.Rows[0].RunID, "text")
			r.deliver()
			r.end(turnID, completed())
			r.until("it ends", func() bool { return r.turn(turnID).Status.Final() })
			r.wantLog(req.ClientThreadID, "input:hello start:hello output.message:text turn.completed")
		}},
		{"F24 a turn that was stopped is over", func(r *rig, p *unanswered) {
			threadID, turnID := r.streaming("hello", "some ")
			req := gateway.InterruptRequest{ThreadID: threadID, ClientEventID: id(), TurnID: turnID}
			p.lose(1)
			if _, err := r.Interrupt(r.ctx, ann, req); err == nil {
				r.Fatalf("the store answered")
			}
			_, err := r.Interrupt(r.ctx, ann, req)
			r.must(err)
			r.must(r.Sweep(r.ctx))
			r.host.Say(r.runOf(turnID), "late")
			r.deliver()
			r.wantLog(threadID, "input:hello start:hello control.interrupt output.partial:some  turn.cancelled")
			for _, push := range r.published(gateway.ThreadTopic(threadID), "turn.delta") {
				if push.Text == "late" {
					r.Fatalf("text was shown after the end")
				}
			}
		}},
		{"F24 the end that a host told is stored once", func(r *rig, p *unanswered) {
			threadID, turnID := r.streaming("hello", "text")
			p.lose(1)
			r.end(turnID, completed())
			r.until("the answer is lost", func() bool { return p.lost() == 1 })
			next := r.say(threadID, "next")
			if next.Disposition != gateway.DispositionStarted {
				r.Fatalf("reply %+v", next)
			}
			r.wantLog(threadID, "input:hello start:hello output.message:text turn.completed input:next start:next")
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := losing(r)
			test.test(r, p)
			r.must(r.Sweep(r.ctx))
			if p.lost() == 0 {
				t.Error("no answer was lost")
			}
		})
	}
}
