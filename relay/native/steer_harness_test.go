package native_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// stage is a provider.Client whose n-th request, from 1, says "answer n. " and then
// waits for how it ends. It tells on begun that it has said so.
type stage struct {
	begun chan int
	ends  chan ending

	mu    sync.Mutex
	calls []provider.Request
	open  int // requests in progress
	most  int
}

// ending is what a request of a stage does: say more, then end as a client does.
type ending struct {
	say string
	res provider.Result
	err error
}

func newStage() *stage {
	return &stage{begun: make(chan int, 1024), ends: make(chan ending, 1024)}
}

// whole is the end of a complete response.
func whole() ending { return ending{res: provider.Result{Finish: provider.FinishStop}} }

func (s *stage) Stream(ctx context.Context, req provider.Request, emit func(provider.Delta) error) (provider.Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, req)
	n := len(s.calls)
	s.open++
	s.most = max(s.most, s.open)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}()
	partial := provider.Result{ResponseID: fmt.Sprintf("resp_%d", n), Usage: reported(n)}
	if err := emit(text(fmt.Sprintf("answer %d. ", n))); err != nil {
		return partial, err
	}
	s.begun <- n
	select {
	case e := <-s.ends:
		if e.say != "" {
			if err := emit(text(e.say)); err != nil {
				return partial, err
			}
		}
		if e.err == nil {
			e.res.ResponseID, e.res.Usage = partial.ResponseID, partial.Usage
		}
		return e.res, e.err
	case <-ctx.Done():
		return partial, context.Cause(ctx)
	}
}

// reported is the usage of the n-th request.
func reported(n int) *wire.Usage {
	return &wire.Usage{InputTokens: uint64(100 * n), OutputTokens: uint64(n), ReasoningTokens: ptr(uint64(n))}
}

func ptr[T any](v T) *T { return &v }

func (s *stage) requests() []provider.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]provider.Request(nil), s.calls...)
}

// await waits until the n-th request has said its part.
func (s *stage) await(t testing.TB, n int) {
	t.Helper()
	select {
	case got := <-s.begun:
		if got != n {
			t.Fatalf("request %d, want %d", got, n)
		}
	case <-time.After(patience):
		t.Fatalf("waited in vain for request %d", n)
	}
}

// script gives the messages of a request, one a line.
func transcript(req provider.Request) string {
	var b strings.Builder
	for _, m := range req.Messages {
		fmt.Fprintf(&b, "%s: %s\n", m.Role, strings.ReplaceAll(m.Text, "\n", "|"))
	}
	return b.String()
}

func delivery(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func steer(n int) relay.Steer {
	return relay.Steer{DeliveryID: delivery(n), Text: fmt.Sprintf(" steer %d ", n)}
}

func urgent(n int) relay.Steer {
	s := steer(n)
	s.Now = true
	return s
}

// offer offers a steer to a turn.
func (h *host) offer(s relay.StartTurn, st relay.Steer) <-chan relay.SteerResult {
	h.t.Helper()
	settled, err := h.OfferSteer(context.Background(), s.ThreadID, s.TurnID, st)
	if err != nil {
		h.t.Fatalf("OfferSteer: %v", err)
	}
	return settled
}

// want waits for what became of a steer.
func want(t testing.TB, settled <-chan relay.SteerResult, want relay.SteerResult) {
	t.Helper()
	select {
	case got, known := <-settled:
		if !known || got != want {
			t.Errorf("settled as %+v (known %v), want %+v", got, known, want)
		}
		if _, again := <-settled; again {
			t.Error("settled twice")
		}
	case <-time.After(patience):
		t.Fatalf("waited in vain for %+v", want)
	}
}

var turnOver = relay.SteerResult{Reason: wire.ReasonTurnOver}

const (
	answer1 = "answer 1. "
	answer2 = "answer 2. "
)
