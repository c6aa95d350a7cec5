package link_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

const someTurn = "local_turn_bbbbbbbbbbbbbbbbbbbbbbbb"

func delivery(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func receiptFor(run string, n int) wire.Receipt {
	return wire.Receipt{RunID: run, TurnID: someTurn, DeliveryID: delivery(n), Outcome: wire.ReceiptDelivered, At: uint64(n)}
}

func (l *linked) steer(t *testing.T, run string, n int) {
	t.Helper()
	m := wire.Steer{RunID: run, TurnID: someTurn, DeliveryID: delivery(n), Text: "more"}
	if err := l.session.Steer(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// offered waits until a run was offered n steers; commands follow on steers, so a
// command that is answered tells.
func (l *linked) offered(t *testing.T, run string, seq uint64, n int) []wire.Steer {
	t.Helper()
	l.command(t, run, seq)
	take(t, l.acks)
	r := l.lookup(run)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.steers) != n {
		t.Fatalf("%s was offered %d steers, want %d", run, len(r.steers), n)
	}
	return r.steers
}

func TestSteer_IsAnsweredOnceTheTurnHasDecided(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		l := over.open(t, newScriptedHost())
		l.attach(t, "run_1", 0)
		l.steer(t, "run_1", 1)
		l.steer(t, "run_1", 2)
		got := l.offered(t, "run_1", 1, 2) // and the command passes while both wait
		if got[0].DeliveryID != delivery(1) || got[1].DeliveryID != delivery(2) || got[0].Text != "more" {
			t.Errorf("offered %+v", got)
		}
		r := l.lookup("run_1")
		for _, n := range []int{2, 1} {
			r.settled(delivery(n)) <- receiptFor("run_1", n)
			if got := take(t, l.receipts); got != receiptFor("run_1", n) {
				t.Errorf("receipt %+v", got)
			}
		}
	})
}

func TestSQ26_ASteerOutlivesItsAttachment(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		l := over.open(t, newScriptedHost())
		l.attach(t, "run_1", 0)
		l.steer(t, "run_1", 1)
		l.offered(t, "run_1", 1, 1)
		l.attach(t, "run_1", 0) // the first wait ends with its attachment
		r := l.lookup("run_1")
		l.steer(t, "run_1", 1)
		l.offered(t, "run_1", 2, 2)
		r.settled(delivery(1)) <- receiptFor("run_1", 1)
		if got := take(t, l.receipts); got != receiptFor("run_1", 1) {
			t.Errorf("receipt %+v", got)
		}
		if err := l.session.Detach(t.Context(), "run_1"); err != nil {
			t.Fatal(err)
		}
		l.steer(t, "run_1", 2) // of no attachment: dropped
		l.attach(t, "run_1", 0)
		l.offered(t, "run_1", 3, 2)
		if n := len(l.receipts); n != 0 {
			t.Errorf("%d receipts too many", n)
		}
	})
}

func TestSteer_WithoutAReceipt(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		l := over.open(t, newScriptedHost())
		l.attach(t, "run_1", 0)
		r := l.lookup("run_1")
		close(r.settled(delivery(1))) // nobody can know
		l.steer(t, "run_1", 1)
		l.offered(t, "run_1", 1, 1)
		r.mu.Lock()
		r.steerErr = wire.NewError(wire.CodeNativeUnavailable, "The conversation cannot be read on its host.")
		r.mu.Unlock()
		l.steer(t, "run_1", 2)
		if got := take(t, l.refused); got.RunID != "run_1" || !got.Error.Retryable {
			t.Errorf("refused %+v", got)
		}
		if n := len(l.receipts); n != 0 {
			t.Errorf("%d receipts", n)
		}
	})
}

func TestSteer_WaitsOfOneRunAreBounded(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		l := over.open(t, newScriptedHost())
		l.attach(t, "run_1", 0)
		for n := range 65 {
			l.steer(t, "run_1", n)
		}
		var fault *link.ProtocolError
		if err := <-l.hostEnds; !errors.As(err, &fault) {
			t.Errorf("the host's end returned %v", err)
		}
	})
}

func TestSteer_OnlyWhereBothAgreed(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, over transport) {
		var fault *link.ProtocolError
		t.Run("to the host", func(t *testing.T) {
			t.Parallel()
			h := newScriptedHost()
			h.hello.Capabilities = nil
			l := over.open(t, h)
			l.attach(t, "run_1", 0)
			l.steer(t, "run_1", 1)
			if err := <-l.hostEnds; !errors.As(err, &fault) {
				t.Errorf("the host's end returned %v", err)
			}
		})
		t.Run("to the gateway", func(t *testing.T) {
			t.Parallel()
			hostConn, gatewayConn := over(t)
			defer func() { _ = hostConn.Close(link.Ending{}) }()
			if err := hostConn.Send(t.Context(), newScriptedHost().hello); err != nil {
				t.Fatal(err)
			}
			session, err := link.Open(t.Context(), gatewayConn, link.SessionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ends := make(chan error, 1)
			go func() { ends <- session.Serve(context.Background(), newRecorder()) }()
			if err := hostConn.Send(t.Context(), receiptFor("run_1", 1)); err != nil {
				t.Fatal(err)
			}
			var fault *link.ProtocolError
			if err := <-ends; !errors.As(err, &fault) {
				t.Errorf("the gateway's end returned %v", err)
			}
		})
	})
}
