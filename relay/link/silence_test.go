package link_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/link"
	"github.com/fairlead/fairlead/relay/wire"
)

// over gives the transport of one connection of the network.
func (n *memnet) over(between **cable) transport {
	return func(*testing.T) (host, gateway link.Conn) {
		host, gateway, *between = n.connect()
		return host, gateway
	}
}

// A model may think for minutes, and a proxy cut whatever is silent for one.
func TestF08_HeartbeatsKeepASilentLinkThroughAProxy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet(t)
		n.idleCut = time.Minute
		var between *cable
		h := newScriptedHost()
		l := n.over(&between).open(t, h)
		l.attach(t, "run_1", 0)
		time.Sleep(30 * time.Minute)
		h.lookup("run_1").emit(1)
		if got := take(t, l.events); got.Envelope.Seq != 1 {
			t.Errorf("event %+v", got)
		}
	})
}

// The proxy of the test above does cut.
func TestF08_WithoutHeartbeatsAProxyCuts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet(t)
		n.idleCut = time.Minute
		host, gateway, _ := n.connect()
		time.Sleep(2 * time.Minute)
		for _, end := range []link.Conn{host, gateway} {
			if _, err := end.Receive(t.Context()); err == nil {
				t.Error("a silent link stands")
			}
			_ = end.Close(link.Ending{})
		}
	})
}

func TestF08_AVanishedPeerIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*cable){"what is sent vanishes": (*cable).swallow, "nothing is taken": (*cable).clog} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newMemnet(t)
				var between *cable
				l := n.over(&between).open(t, newScriptedHost())
				l.attach(t, "run_1", 0)
				time.Sleep(time.Minute)
				breaks(between)
				start := time.Now()
				// Decision 10: silent for 90 s, noticed at the next beat, and a moment to close.
				latest := link.MaxSilence + link.HeartbeatEvery + 5*time.Second
				for end, ends := range map[string]chan error{"host": l.hostEnds, "gateway": l.gatewayEnds} {
					err := waitFor(t, ends, latest)
					if !errors.Is(err, link.ErrSilent) && !errors.Is(err, link.ErrStuck) {
						t.Errorf("the %s's end: %v", end, err)
					}
				}
				if waited := time.Since(start); waited > latest {
					t.Errorf("given up after %s", waited)
				}
			})
		})
	}
}

// waitFor is take for the time of a bubble.
func waitFor[T any](t *testing.T, from <-chan T, d time.Duration) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(d):
		var zero T
		t.Fatalf("no %T within %s", zero, d)
		return zero
	}
}

// A host that reads nothing holds up its own link and no other, and that until the
// write times out.
func TestF10_AHostThatReadsNothingHurtsItselfAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet(t)
		var clogged, free *cable
		stuck := n.over(&clogged).open(t, newScriptedHost())
		lively := n.over(&free).open(t, newScriptedHost())
		stuck.attach(t, "run_1", 0)
		lively.attach(t, "run_1", 0)
		clogged.clog()
		large := wire.CommandMessage{RunID: "run_1", Seq: 1, Command: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
		sent := make(chan error, 1)
		start := time.Now()
		go func() { sent <- stuck.session.Command(context.Background(), large) }()
		synctest.Wait()
		for seq := uint64(1); seq <= 100; seq++ {
			lively.command(t, "run_1", seq)
			take(t, lively.acks)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the other link waited %s", waited)
		}
		if err := <-sent; !errors.Is(err, link.ErrStuck) {
			t.Errorf("sending to it: %v", err)
		}
		if waited := time.Since(start); waited > 31*time.Second {
			t.Errorf("it was waited for %s", waited)
		}
		if err := waitFor(t, stuck.gatewayEnds, time.Minute); err == nil {
			t.Error("its link goes on")
		}
	})
}

// A large frame on a slow line takes longer than a write may, and than an end may be
// silent, but it moves.
func TestF08_ASlowLineIsNoVanishedPeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet(t)
		var between *cable
		l := n.over(&between).open(t, newScriptedHost())
		l.attach(t, "run_1", 0)
		between.slow(2 * time.Second)
		start := time.Now()
		large := wire.CommandMessage{RunID: "run_1", Seq: 1, Command: []byte(`"` + strings.Repeat("x", 7<<20) + `"`)}
		if err := l.session.Command(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		if ack := waitFor(t, l.acks, 10*time.Minute); ack.CommandSeq != 1 {
			t.Errorf("answer %+v", ack)
		}
		if took := time.Since(start); took < 2*link.MaxSilence {
			t.Errorf("the line was not slow: %s", took)
		}
	})
}

// A gateway that speaks more seldom than its host expects, by its settings, is not
// silent: its welcome says how often it speaks.
func TestF08_AGatewayThatSpeaksSeldomIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemnet(t)
		host, gateway, _ := n.connect()
		ctx, stop := context.WithCancel(t.Context())
		ends := make(chan error, 2)
		go func() { ends <- link.ServeHost(ctx, host, newScriptedHost(), link.HostOptions{}) }()
		session, err := link.Open(ctx, gateway, link.SessionOptions{Heartbeat: 10 * time.Minute, Silence: 20 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		go func() { ends <- session.Serve(ctx, newRecorder()) }()
		// The two tick at different moments of their ten minutes.
		select {
		case err := <-ends:
			t.Errorf("the link ended: %v", err)
			ends <- err
		case <-time.After(3 * time.Hour):
		}
		stop()
		<-ends
		<-ends
	})
}
