package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/relaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

// settling gives what Settled returns.
func settling(ctx context.Context, r *rig) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.host.Settled(ctx) }()
	return done
}

func TestRH62_ADrainingHostTakesNoNewPrompt(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*relay.Host){
		"asked":   func(h *relay.Host) { h.Drain("", false) },
		"leaving": func(h *relay.Host) { h.Quiesce("shutting_down") },
	} {
		t.Run("RH62 "+name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a := attach(t, r, 0)
			applied(t, a, 1, relaytest.Prompt(1, 1))
			begin(r.host)
			before := dump(t, r)
			refused(t, a, relaytest.Message(2, relaytest.Prompt(1, 2)), wire.CodeShuttingDown)
			refused(t, a, relaytest.Message(2, relaytest.Prompt(2, 2)), wire.CodeShuttingDown)
			changed := relaytest.Prompt(1, 1)
			changed.Prompt = "another"
			refused(t, a, relaytest.Message(2, changed), wire.CodeShuttingDown)
			equal(t, "state", dump(t, r), before)
			equal(t, "threads", r.runtime.Threads(), 1)

			// What is accepted already is answered again, and can be stopped.
			applied(t, a, 1, relaytest.Prompt(1, 1))
			applied(t, a, 2, relaytest.Interrupt(1, 1))
			equal(t, "native starts", len(r.runtime.Started()), 1)
			equal(t, "native interrupts", len(r.runtime.Interrupted()), 1)
		})
	}
}

func TestRH62_AShuttingDownAnswerIsRetryableAndChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := attach(t, r, 0)
	r.host.Drain("maintenance", false)
	ack := a.Command(context.Background(), relaytest.Message(1, relaytest.Prompt(1, 1)))
	if ack.Error == nil || !ack.Error.Retryable {
		t.Fatalf("ack is %+v, want a retryable error", ack.Error)
	}
	r.host.Drain("", true)
	applied(t, a, 1, relaytest.Prompt(1, 1))
}

// TestRH62_ARejectedStartIsNotTriedAgain is trap 21: its exact replay starts a turn.
func TestRH62_ARejectedStartIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := attach(t, r, 0)
	r.runtime.Fail(relaytest.StartTurn, errors.New("no"), false, 1)
	refused(t, a, relaytest.Message(1, relaytest.Prompt(1, 1)), wire.CodeStartFailed)
	r.host.Quiesce("shutting_down")
	refused(t, a, relaytest.Message(1, relaytest.Prompt(1, 1)), wire.CodeShuttingDown)
	equal(t, "native starts", len(r.runtime.Started()), 0)
}

func TestRH62_OnlyTheGatewaysDrainIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	told := make(chan struct{}, 16)
	defer r.host.Watch(func() { told <- struct{}{} })()
	says := func(want string, yes bool) {
		t.Helper()
		<-told
		reason, draining := r.host.Draining()
		equal(t, "reason", reason, want)
		equal(t, "draining", draining, yes)
	}
	r.host.Drain("maintenance", false)
	says("maintenance", true)
	r.host.Drain("", true)
	says("", false)
	r.host.Quiesce("shutting_down")
	says("shutting_down", true)
	r.host.Drain("", true)
	says("shutting_down", true)
}

func TestRH62_SettledWaitsForTheEndAndItsAcknowledgement(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	must(t, r.host.Settled(ctx))
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	r.host.Quiesce("shutting_down")
	done := settling(ctx, r)
	waits := func(what string) {
		t.Helper()
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := r.host.Settled(gone); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: Settled gave %v", what, err)
		}
	}
	waits("the turn runs")
	thread, turn := r.started(0)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	waits("its end is in the ledger")
	next(t, a, 2)
	waits("its end is handed off")
	must(t, a.Acknowledge(ctx, 1))
	waits("its start is acknowledged")
	must(t, a.Acknowledge(ctx, 2))
	must(t, <-done)
}

// TestRH49_TheHelloNamesWhatIsNotAcknowledged also by a process that comes after.
func TestRH49_TheHelloNamesWhatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	equal(t, "while the turn runs", fmt.Sprint(r.host.Hello().Owing), "[{"+relaytest.Run+" 0 1}]")
	thread, turn := r.started(0)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	next(t, a, 2)
	equal(t, "after its end", fmt.Sprint(r.host.Hello().Owing), "[{"+relaytest.Run+" 2 0}]")
	a.Close()
	r.reopen()
	equal(t, "after a restart", fmt.Sprint(r.host.Hello().Owing), "[{"+relaytest.Run+" 2 0}]")
	attach(t, r, 2)
	equal(t, "after an attach with its cursor", len(r.host.Hello().Owing), 0)
}

// TestRH62_SettledWaitsForAPromptThatWasLetIn lets the host drain while a prompt is
// between its checks and its reservation.
func TestRH62_SettledWaitsForAPromptThatWasLetIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		held, gate := make(chan struct{}), make(chan struct{})
		r := newRig(t, func(c *relay.Config) {
			c.Runtime = &gatedThreads{Runtime: c.Runtime, held: held, gate: gate}
		})
		a := attach(t, r, 0)
		acks := make(chan wire.Ack, 1)
		go func() { acks <- a.Command(ctx, relaytest.Message(1, relaytest.Prompt(1, 1))) }()
		<-held
		r.host.Quiesce("shutting_down")
		done := settling(ctx, r)
		synctest.Wait()
		if len(done) > 0 {
			t.Fatalf("Settled gave %v while a prompt is being applied", <-done)
		}
		close(gate)
		if ack := <-acks; ack.Status != wire.AckApplied {
			t.Fatalf("ack is %+v", ack)
		}
		synctest.Wait()
		if len(done) > 0 {
			t.Fatalf("Settled gave %v while the turn runs", <-done)
		}
		thread, turn := r.started(0)
		r.runtime.End(thread, turn, relay.NativeCompleted)
		must(t, a.Acknowledge(ctx, next(t, a, 2)[1].Seq))
		must(t, <-done)
	})
}

// gatedThreads holds the making of a native thread up.
type gatedThreads struct {
	relay.Runtime
	held, gate chan struct{}
}

func (g *gatedThreads) CreateThread(ctx context.Context, n relay.NewThread) (string, error) {
	g.held <- struct{}{}
	<-g.gate
	return g.Runtime.CreateThread(ctx, n)
}

func TestRH62_SettledKnowsWhatAnEarlierProcessLeft(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	a.Close()
	r.reopen()
	r.host.Quiesce("shutting_down")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.host.Settled(gone); !errors.Is(err, context.Canceled) {
		t.Fatalf("Settled gave %v", err)
	}
	done := settling(ctx, r)
	thread, turn := r.started(0)
	r.runtime.End(thread, turn, relay.NativeCompleted)
	a = attach(t, r, 0)
	must(t, a.Acknowledge(ctx, next(t, a, 2)[1].Seq))
	must(t, <-done)
}

func TestRH62_CloseEndsSettled(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t)
	a := attach(t, r, 0)
	applied(t, a, 1, relaytest.Prompt(1, 1))
	a.Close()
	must(t, r.host.Close())
	wantCode(t, r.host.Settled(ctx), wire.CodeShuttingDown)
}

func TestFR38_TheHostAnnouncesItsGenerations(t *testing.T) {
	t.Parallel()
	if got := newRig(t).host.Hello().ConfigGenerations; !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("generations are %v", got)
	}
}
