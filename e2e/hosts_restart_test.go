package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestF12_HostsElsewhereRunOnThroughARestart ends the gateway in good order in the
// middle of answers of two hosts, and starts it again some seconds later: it waits for
// none of them, the hosts are told to come back, and every answer is whole.
func TestF12_HostsElsewhereRunOnThroughARestart(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	onBothGateways(t, func(t *testing.T, gw *install) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		f := newFleet(t, p, gw.set("shutdown: {drain: 60s}"), 2, "count:1000+delay=4ms")
		asks := make([]*ask, 6)
		read := make(chan error, len(asks))
		var speaking sync.WaitGroup
		for i := range asks {
			asks[i] = newAsk(fmt.Sprintf("through a restart %d of %s", i, newID()))
			f.must(f.send(ctx, asks[i]))
			speaking.Add(1)
			go func() {
				err := f.follow(ctx, asks[i], func() bool { return asks[i].offset > 0 })
				speaking.Done()
				if err == nil {
					err = f.read(ctx, asks[i])
				}
				read <- err
			}()
		}
		speaking.Wait()
		began := time.Now()
		<-gw.tell(syscall.SIGTERM)
		took := time.Since(began)
		if took > 15*time.Second {
			t.Errorf("the gateway waited for turns elsewhere: %s\n%s", took, f.logs())
		}
		for _, m := range f.hosts {
			if !strings.Contains(m.log(), "goes away") && !strings.Contains(m.log(), "1012") {
				t.Errorf("%s was not told to come back:\n%s", m.name, m.log())
			}
		}
		gw.start()
		for range asks {
			f.must(<-read)
		}
		for _, a := range asks {
			f.must(f.completed(a, 1000))
		}
		t.Logf("the gateway ended after %s; turns by host: %d, %d", took, f.hosts[0].turns(), f.hosts[1].turns())
		f.checkLogs()
	})
}

// TestRH62_AHostDrainsAtSIGTERM ends a host in the middle of an answer: it ends after
// its turn, and a prompt that comes meanwhile goes to the other host.
func TestRH62_AHostDrainsAtSIGTERM(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newFleet(t, p, gatewayAlone(t), 2, "count:500+delay=4ms")
	first := newAsk("drained " + newID())
	f.must(f.send(ctx, first))
	f.says(ctx, first)
	m := f.at(1)
	m.tell(syscall.SIGTERM)
	f.eventually("the gateway knows", func() bool {
		for _, row := range f.rows() {
			if row.HostID == m.id {
				return row.Draining
			}
		}
		return false
	})
	second := newAsk("elsewhere " + newID())
	f.must(f.send(ctx, second))
	f.must(f.read(ctx, second))
	f.must(f.completed(second, 500))
	f.must(f.read(ctx, first))
	f.must(f.completed(first, 500))
	if code := m.exitCode(); code != 0 || m.turns() != 1 {
		t.Errorf("the host ended with %d after %d turns:\n%s", code, m.turns(), m.log())
	}
	f.checkLogs()
}
