package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestF08_F10_RH48_RH49_NetworksLoseAndRepeatNothing lets turns stream over two
// hosts whose networks are cut, stall, tear, jitter and slow down at random: every
// number is there once and in order, in the log and for those who read along, and
// no provider is asked twice. E2E_HOST_TURNS sets the number of turns,
// E2E_HOST_NUMBERS their length.
func TestF08_F10_RH48_RH49_NetworksLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	numbers := number(t, "E2E_HOST_NUMBERS", 300)
	onBothGateways(t, func(t *testing.T, gw *install) {
		f := newFleet(t, p, gw, 2, fmt.Sprintf("count:%d+delay=4ms", numbers))
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		calm, stop := context.WithCancel(t.Context())
		defer stop()
		var storms sync.WaitGroup
		told := make([]string, len(f.hosts))
		for i, m := range f.hosts {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			storms.Go(func() { told[i] = m.net.storm(calm, random, 500*time.Millisecond, 5*time.Second) })
		}
		began := time.Now()
		f.turns(number(t, "E2E_HOST_TURNS", 6), numbers)
		stop()
		storms.Wait()
		t.Logf("%s of faults: %s; turns by host: %d, %d", time.Since(began).Round(time.Millisecond),
			strings.Join(told, " | "), f.hosts[0].turns(), f.hosts[1].turns())
		f.checkLogs()
		for _, m := range f.hosts {
			if m.turns() == 0 {
				t.Errorf("%s had no turn", m.name)
			}
		}
	})
}

// turns is how many turns ended on this machine.
func (m *machine) turns() int { return strings.Count(m.log(), `msg="turn ended"`) }

// turns has n turns, ten at a time, and checks each.
func (f *fleet) turns(n, numbers int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute+time.Duration(n)*6*time.Second)
	defer cancel()
	places := make(chan struct{}, 10)
	failed := make(chan error, n)
	var all sync.WaitGroup
	streamed := make([]bool, n)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			a := newAsk(fmt.Sprintf("turn %d of %s", i, newID()))
			err := f.send(ctx, a)
			if err == nil {
				err = f.read(ctx, a)
			}
			if err == nil {
				err = f.completed(a, numbers)
			}
			if err != nil {
				failed <- err
			}
			streamed[i] = a.text.String() == counted(numbers)
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		f.t.Error(err)
	}
	if f.t.Failed() {
		f.t.Fatal(f.logs())
	}
	whole := 0
	for _, yes := range streamed {
		if yes {
			whole++
		}
	}
	f.t.Logf("%d turns of %d numbers; %d readers saw every number as it came", n, numbers, whole)
	if whole < n {
		f.t.Error("readers whose sockets nobody cut missed numbers")
	}
}
