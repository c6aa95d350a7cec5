package hosts_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// ledgerSteer is a steer of the ledger double: it waits until a poll reserves it
// for the turn that runs, and is settled once, by a receipt.
type ledgerSteer struct {
	id, text string
	now      bool
	turn     string // that it is reserved for
	outcome  wire.ReceiptOutcome
	receipts int
}

// steer adds a message to the run and gives its delivery id.
func (l *ledger) steer(runID, text string) (delivery string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.run(runID)
	delivery = fmt.Sprintf("00000000-0000-4000-8000-%012d", len(r.steers)+1)
	r.steers = append(r.steers, &ledgerSteer{id: delivery, text: text})
	return delivery
}

// hurry makes a steer cut the response.
func (l *ledger) hurry(runID, delivery string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run(runID).steerOf(delivery).now = true
}

func (r *ledgerRun) steerOf(delivery string) *ledgerSteer {
	i := slices.IndexFunc(r.steers, func(s *ledgerSteer) bool { return s.id == delivery })
	if i < 0 {
		return nil
	}
	return r.steers[i]
}

// running is the turn whose prompt the host has answered and whose end it owes.
func (r *ledgerRun) running() string {
	for _, c := range r.commands {
		if c.kind == wire.TypePromptRequest && c.state == "acked" && r.owed[c.turn] {
			return c.turn
		}
	}
	return ""
}

func (l *ledger) Poll(_ context.Context, hostID, runID string) (gateway.SteerOffer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.polled++
	if err := l.fails("Poll"); err != nil {
		return gateway.SteerOffer{}, err
	}
	r := l.runs[runID]
	if r == nil || r.host != hostID {
		return gateway.SteerOffer{}, wire.NewError(wire.CodeForbidden, "This run is not this host's.")
	}
	turn := r.running()
	if turn == "" {
		return gateway.SteerOffer{Outcome: gateway.OfferTerminal}, nil
	}
	for _, s := range r.steers {
		if s.outcome != "" {
			continue
		}
		s.turn = turn
		return gateway.SteerOffer{Outcome: gateway.OfferReserved, DeliveryID: s.id, Steer: &wire.Steer{
			RunID: runID, TurnID: turn, DeliveryID: s.id, Text: s.text, Now: s.now,
		}}, nil
	}
	return gateway.SteerOffer{Outcome: gateway.OfferEmpty}, nil
}

func (l *ledger) Receipt(_ context.Context, hostID string, m wire.Receipt) (wire.ReceiptOutcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fails("Receipt"); err != nil {
		return "", err
	}
	r := l.run(m.RunID)
	s := r.steerOf(m.DeliveryID)
	if s == nil || s.turn != m.TurnID || r.host != hostID {
		return "", wire.NewError(wire.CodeForbidden, "There is no such delivery.")
	}
	s.receipts++
	if s.outcome == "" {
		s.outcome = m.Outcome
	}
	return s.outcome, nil
}

// steerState gives a copy of a steer.
func (l *ledger) steerState(runID, delivery string) ledgerSteer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.run(runID).steerOf(delivery)
}

func (l *ledger) polls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.polled
}

// settled is what became of a steer at the scripted host; it outlives links.
type settled struct {
	receipt wire.Receipt
	known   chan struct{}
	once    sync.Once
}

func (s *scope) settlement(delivery string) *settled {
	if s.settled[delivery] == nil {
		s.settled[delivery] = &settled{known: make(chan struct{})}
	}
	return s.settled[delivery]
}

func (g *settled) settle(r wire.Receipt) {
	g.once.Do(func() {
		g.receipt = r
		close(g.known)
	})
}

// Steer keeps a steer until it is settled, and answers as it was settled for ever.
func (a *attachment) Steer(_ context.Context, m wire.Steer) (func(context.Context) (wire.Receipt, bool), error) {
	s := a.scope
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.offered = append(s.offered, m)
	g := s.settlement(m.DeliveryID)
	if s.host.took != nil {
		if r, ok := s.host.took(m); ok {
			g.settle(r)
		}
	}
	return func(ctx context.Context) (wire.Receipt, bool) {
		select {
		case <-g.known:
			return g.receipt, true
		case <-ctx.Done():
			return wire.Receipt{}, false
		}
	}, nil
}

// offers gives the steers that came for a run, in order.
func (h *relayHost) offers(run string) []wire.Steer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.scope(run).offered)
}

// settle says what became of a steer that the host was offered.
func (h *relayHost) settle(run, turn, delivery string, outcome wire.ReceiptOutcome) {
	h.mu.Lock()
	g := h.scope(run).settlement(delivery)
	h.mu.Unlock()
	g.settle(wire.Receipt{RunID: run, TurnID: turn, DeliveryID: delivery, Outcome: outcome})
}
