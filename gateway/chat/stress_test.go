package chat_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// TestF24_F25_EverybodyAtOnce lets people and their host do all that they can, side
// by side: nobody gets an error that is a fault, and in the end every message has
// one fate and nothing is open.
func TestF24_F25_EverybodyAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		var faults bytes.Buffer
		r.log = slog.New(slog.NewTextHandler(&lockedWriter{mu: &mu, w: &faults}, &slog.HandlerOptions{Level: slog.LevelError}))
		p := withStops(r)
		r.limit(gateway.Limits{ConcurrentTurns: 3}, gateway.Limits{ConcurrentTurns: 2})
		var threads []string
		for i := range 4 {
			threads = append(threads, r.say("", fmt.Sprintf("t%d", i)).ThreadID)
		}
		check := func(what string, err error) {
			switch wire.CodeOf(err) {
			case "", gateway.CodeNotRecallable, gateway.CodeTurnNotActive, wire.CodeRateLimited:
			default:
				t.Errorf("%s: %v", what, err)
			}
			if err != nil && wire.CodeOf(err) == "" {
				t.Errorf("%s: %v", what, err)
			}
		}
		stop := make(chan struct{})
		var people, host sync.WaitGroup
		end := sync.OnceFunc(func() {
			close(stop)
			host.Wait()
		})
		defer end()
		for n := range 6 {
			people.Go(func() { r.person(rand.New(rand.NewPCG(1, uint64(n))), threads, check) })
		}
		host.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r.serve(check)
			}
		})
		people.Wait()
		r.until("everything settles", func() bool {
			for _, th := range threads {
				if got := r.thread(th); got.Waiting > 0 || got.Turn != nil || got.CancellationRecoveryPending {
					return false
				}
			}
			return true
		})
		end()
		for _, th := range threads {
			r.events(th)
		}
		mu.Lock()
		defer mu.Unlock()
		if faults.Len() > 0 {
			t.Errorf("logged\n%s", faults.String())
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.again > 0 {
			t.Errorf("%d updates were broken up", p.again)
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

// person does what a person can, by chance.
func (r *rig) person(chance *rand.Rand, threads []string, check func(string, error)) {
	var mine []string
	for i := range 25 {
		th := threads[chance.IntN(len(threads))]
		opened, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: th})
		check("open", err)
		switch what := chance.IntN(10); {
		case what < 6:
			req := message(th, fmt.Sprintf("m%d", i))
			req.Mode = []gateway.Mode{gateway.ModeQueue, gateway.ModeSteer, gateway.ModeSteer, gateway.ModeInterrupt}[chance.IntN(4)]
			_, err := r.Send(r.ctx, ann, req)
			check("send", err)
			if err == nil {
				mine = append(mine, th, req.ClientEventID)
			}
		case what < 7 && opened.Thread.Turn != nil:
			_, err := r.Interrupt(r.ctx, ann, gateway.InterruptRequest{ThreadID: th, ClientEventID: id(), TurnID: opened.Thread.Turn.TurnID})
			check("interrupt", err)
		case len(mine) > 0:
			at := chance.IntN(len(mine)/2) * 2
			if what == 8 {
				check("recall", r.recall(mine[at], mine[at+1]))
				continue
			}
			_, err := r.Steer(r.ctx, ann, gateway.SteerRequest{ThreadID: mine[at], EventID: mine[at+1], Now: what == 9})
			check("steer", err)
		}
	}
}

// serve is one round of a host: it takes what it is told, says something of each
// turn, takes steers and ends turns.
func (r *rig) serve(check func(string, error)) {
	check("work", r.host.Fetch(r.ctx, r.Service))
	check("answer", r.host.Answer(r.ctx, r.Service))
	for _, run := range r.host.Runs() {
		r.host.Say(run, "text")
		check("deliver", r.host.Deliver(r.ctx, r.Service, -1))
		offer, err := r.Poll(r.ctx, hostID, run)
		check("poll", err)
		if offer.Outcome == gateway.OfferReserved {
			_, err := r.Receipt(r.ctx, hostID, wire.Receipt{
				RunID: run, TurnID: offer.Steer.TurnID, DeliveryID: offer.DeliveryID, Outcome: wire.ReceiptDelivered, At: 4,
			})
			check("receipt", err)
		}
		r.host.End(run, gatewaytest.Completed())
		check("deliver", r.host.Deliver(r.ctx, r.Service, -1))
	}
}
