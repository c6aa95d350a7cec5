package native_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// steering is a random history of one turn: steers, ends of responses, an interrupt,
// faults of the store, kills. The actions do not wait for each other, so that they
// meet the engine wherever it is.
type steering struct {
	host    *host
	client  *stage
	start   relay.StartTurn
	offers  map[int][]<-chan relay.SteerResult // by number of the steer
	stopped bool                               // a person stopped the turn
	killed  bool
}

// TestF24_ASteeredTurnAgainstItsInvariants: every steer is settled as the end of the
// turn tells it, the ledger and each request tell one story, and no provider hears
// of anything that was not taken.
func TestF24_ASteeredTurnAgainstItsInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &steering{client: newStage(), offers: map[int][]<-chan relay.SteerResult{}}
		s.host = newHost(t, s.client)
		defer func() { s.host.close() }()
		s.start = turnOf(s.host.thread(), 1)
		s.host.start(s.start)
		rt.Repeat(map[string]func(*rapid.T){
			"offer":     s.offer,
			"end":       s.end,
			"fault":     s.fault,
			"interrupt": s.interrupt,
			"kill":      s.kill,
		})
		s.finish()
		s.check(rt)
	})
}

func (s *steering) offer(rt *rapid.T) {
	n := rapid.IntRange(1, 6).Draw(rt, "steer")
	st := steer(n)
	st.Now = rapid.Bool().Draw(rt, "now")
	settled, err := s.host.OfferSteer(context.Background(), s.start.ThreadID, s.start.TurnID, st)
	if err != nil {
		rt.Fatalf("OfferSteer: %v", err)
	}
	s.offers[n] = append(s.offers[n], settled)
}

func (s *steering) end(rt *rapid.T) {
	e := whole()
	switch rapid.IntRange(0, 9).Draw(rt, "end") {
	case 0:
		e.res.Finish = provider.FinishLength
	case 1:
		e = ending{err: &provider.Failure{Code: wire.CodeModelFailed}}
	case 2, 3:
		e.say = "and more. "
	}
	s.client.ends <- e
}

func (s *steering) fault(rt *rapid.T) {
	step := rapid.SampledFrom([]string{"TakeSteer", "AppendDeltas", "CompleteTurn"}).Draw(rt, "step")
	if step == "TakeSteer" && rapid.Bool().Draw(rt, "stored") {
		s.host.store.set(nil, once(step, errDisk))
		return
	}
	s.host.store.set(once(step, errDisk), nil)
}

func (s *steering) interrupt(rt *rapid.T) {
	if s.stopped || rapid.IntRange(0, 3).Draw(rt, "really") > 0 {
		rt.Skip()
	}
	s.stopped = true
	if err := s.host.InterruptTurn(context.Background(), s.start.ThreadID, s.start.TurnID); err != nil {
		rt.Fatalf("InterruptTurn: %v", err)
	}
}

// kill continues on a copy of the files, which the next process finds.
func (s *steering) kill(rt *rapid.T) {
	if s.killed || rapid.IntRange(0, 3).Draw(rt, "really") > 0 {
		rt.Skip()
	}
	s.killed = true
	s.host.known = true
	s.host.reopen() // in good order: nothing may write while files are copied
}

// finish lets every response that still comes end.
func (s *steering) finish() {
	over := make(chan struct{})
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for {
			select {
			case s.client.ends <- whole():
			case <-over:
				return
			}
		}
	}()
	s.host.end(s.start.ThreadID, s.start.TurnID)
	close(over)
	<-fed
}

func (s *steering) check(rt *rapid.T) {
	c := s.host.end(s.start.ThreadID, s.start.TurnID)
	answer, _ := s.host.said(s.start.ThreadID, s.start.TurnID)
	listed := map[string]wire.Delivered{}
	last := uint64(0)
	for _, d := range c.Outcome.Deliveries {
		if _, twice := listed[d.DeliveryID]; twice || d.At < last || d.At > uint64(len(answer)) {
			rt.Fatalf("deliveries %+v of %d bytes", c.Outcome.Deliveries, len(answer))
		}
		listed[d.DeliveryID], last = d, d.At
	}
	s.checkSettled(rt, listed)
	s.checkRequests(rt, c, answer)
	if n := len(of(s.host.events(s.start.ThreadID), s.start.TurnID, "turn.steered")); n != len(listed) {
		rt.Fatalf("%d turn.steered for %d deliveries", n, len(listed))
	}
}

// checkSettled: each offer is settled once, as the end of the turn tells.
func (s *steering) checkSettled(rt *rapid.T, listed map[string]wire.Delivered) {
	for n, offers := range s.offers {
		d, taken := listed[delivery(n)]
		for _, settled := range offers {
			res, known := <-settled
			if !known || res.Taken != taken || taken && (res.At != d.At || res.Cut != d.Cut) || !taken && res != turnOver {
				rt.Fatalf("steer %d is settled as %+v (%v), the end lists %+v (%v)", n, res, known, d, taken)
			}
		}
	}
}

// checkRequests: one request at a time, each the one before with its answer and the
// next steers, and never more than were taken.
func (s *steering) checkRequests(rt *rapid.T, c completed, answer string) {
	requests := s.client.requests()
	if len(requests) > 1+len(c.Outcome.Deliveries) || s.client.most > 1 {
		rt.Fatalf("F25: %d requests (%d at once) for %d deliveries", len(requests), s.client.most, len(c.Outcome.Deliveries))
	}
	for i, req := range requests {
		if len(req.Messages)%2 != 1 {
			rt.Fatalf("request %d has %d messages", i, len(req.Messages))
		}
		for j, m := range req.Messages {
			want := provider.RoleUser
			if j%2 == 1 {
				want = provider.RoleAssistant
			}
			if m.Role != want || strings.TrimSpace(m.Text) == "" {
				rt.Fatalf("request %d: message %d is %+v", i, j, m)
			}
			if j%2 == 0 && j > 0 {
				d := c.Outcome.Deliveries[j/2-1]
				if delivery(number(rt, m.Text)) != d.DeliveryID {
					rt.Fatalf("request %d: %q in the place of %s", i, m.Text, d.DeliveryID)
				}
			}
			if i > 0 && j < len(requests[i-1].Messages) && m.Text != requests[i-1].Messages[j].Text {
				rt.Fatalf("request %d changes message %d of the one before", i, j)
			}
		}
	}
	from := uint64(0)
	for i, d := range c.Outcome.Deliveries {
		if len(requests) > 0 && len(requests[len(requests)-1].Messages) > 2*i+1 {
			said := strings.TrimSpace(answer[from:d.At])
			if told := requests[len(requests)-1].Messages[2*i+1].Text; !strings.HasPrefix(told, said) || d.Cut == (strings.TrimSpace(told) == said) {
				rt.Fatalf("the provider is told %q of %q (cut %v)", told, said, d.Cut)
			}
		}
		from = d.At
	}
}

func number(rt *rapid.T, text string) (n int) {
	if _, err := fmt.Sscanf(text, "steer %d", &n); err != nil {
		rt.Fatalf("%q is no steer", text)
	}
	return n
}
