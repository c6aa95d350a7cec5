package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// brief has a gateway give up the turns of a silent host soon.
const brief = "turn: {host_silence: 3s}"

// at gives the machine that a turn runs on.
func (f *fleet) at(turns int) *machine {
	f.t.Helper()
	var found *machine
	f.eventually("a host has the turn", func() bool {
		for _, row := range f.rows() {
			for _, m := range f.hosts {
				if row.HostID == m.id && row.Inflight == turns {
					found = m
				}
			}
		}
		return found != nil
	})
	return found
}

// say sends another message into a thread, and follows it.
func (f *fleet) say(ctx context.Context, a *ask, prompt string) *ask {
	f.t.Helper()
	next := &ask{view: &view{threadID: a.threadID}, message: newID(), prompt: prompt}
	c, err := dial(ctx, f.url, f.token)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.close()
	if _, err := c.send(ctx, a.threadID, "", next.message, prompt, "counter"); err != nil {
		f.t.Fatal(err)
	}
	return next
}

// TestF25_AHostThatWasStoppedForTooLongIsNotHeard stops a host in the middle of an
// answer until its turn is given up, lets another host go on with the thread, and
// lets the first one go on: what it says late changes nothing.
func TestF25_AHostThatWasStoppedForTooLongIsNotHeard(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	onBothGateways(t, func(t *testing.T, gw *install) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		f := newFleet(t, p, gw.set(brief), 2, "count:500+delay=4ms")
		first := newAsk("stopped " + newID())
		f.must(f.send(ctx, first))
		f.says(ctx, first)
		stopped := f.at(1)
		stopped.tell(syscall.SIGSTOP)
		f.must(f.read(ctx, first))
		turn := first.turnOf(first.message)
		if end := first.terminal(turn); end.EventType != "turn.timeout" || end.Error != "host_lost" {
			t.Fatalf("the turn of a stopped host ended as %s %s", end.EventType, end.Error)
		}
		f.eventually("its threads wait for it no more", func() bool { return f.unseen(stopped) > 12*time.Second })
		second := f.say(ctx, first, "goes on "+newID())
		f.must(f.read(ctx, second))
		f.must(f.completed(second, 500))
		before := describe(second.view)

		stopped.tell(syscall.SIGCONT)
		f.eventually("the host is back and has ended its turn", func() bool {
			return stopped.turns() == 1 && f.online(stopped)
		})
		third := f.say(ctx, first, "after it "+newID())
		f.must(f.read(ctx, third))
		f.must(f.completed(third, 500))
		if after := describe(third.view); !strings.HasPrefix(after, before) {
			t.Errorf("late output changed the log:\n%s\nbefore:\n%s", after, before)
		}
		if answer := third.answer(turn); answer == "" || answer == counted(500) || !strings.HasPrefix(counted(500), answer) {
			t.Errorf("the stopped turn keeps %d bytes", len(answer))
		}
		if n := p.requests(t, first.prompt); n != 1 {
			t.Errorf("%d provider requests for the stopped turn", n)
		}
		f.checkLogs()
	})
}

// TestF25_AHostThatWasStoppedForAWhileGoesOn stops a host for longer than its link
// lives, but not for as long as its turn: the answer is whole.
func TestF25_AHostThatWasStoppedForAWhileGoesOn(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newFleet(t, p, gatewayAlone(t), 2, "count:500+delay=4ms")
	a := newAsk("paused " + newID())
	f.must(f.send(ctx, a))
	f.says(ctx, a)
	m := f.at(1)
	m.tell(syscall.SIGSTOP)
	f.eventually("the gateway has noticed", func() bool { return !f.online(m) })
	m.tell(syscall.SIGCONT)
	f.must(f.read(ctx, a))
	f.must(f.completed(a, 500))
	f.checkLogs()
}

// TestF25_ASilentProviderIsNoDeadHost has pauses that are longer than the lease of
// the host, which is well: nothing is asked twice.
func TestF25_ASilentProviderIsNoDeadHost(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newFleet(t, p, gatewayAlone(t).set(brief), 1, "count:3+delay=4s")
	a := newAsk("thinks " + newID())
	f.must(f.send(ctx, a))
	f.must(f.read(ctx, a))
	f.must(f.completed(a, 3))
	f.checkLogs()
}

// TestRH44_RevocationBitesAtOnce revokes a host in the middle of an answer: the turn
// ends at once and visibly, the host ends with the code that says so, and does not
// get in again.
func TestRH44_RevocationBitesAtOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newFleet(t, p, gatewayAlone(t), 1, "count:3000+delay=4ms")
	a := newAsk("revoked " + newID())
	f.must(f.send(ctx, a))
	f.says(ctx, a)
	m := f.at(1)
	began := time.Now()
	f.api("POST", "/hosts/"+m.id+"/revoke", nil, nil)
	f.must(f.read(ctx, a))
	took := time.Since(began)
	end := a.terminal(a.turnOf(a.message))
	t.Logf("ended as %s %s after %s", end.EventType, end.Error, took)
	if end.Error != "host_lost" || took > 5*time.Second {
		t.Errorf("the turn ended as %s %s after %s", end.EventType, end.Error, took)
	}
	before := describe(a.view)
	if code := m.exitCode(); code != 4 {
		t.Errorf("the host ended with %d:\n%s", code, m.log())
	}
	if out, err := m.try("host", "run"); err == nil || !strings.Contains(out, "revoked") {
		t.Errorf("it got in again: %v\n%s", err, out)
	}
	late := &ask{view: &view{threadID: a.threadID}, message: a.message}
	f.must(f.read(ctx, late))
	if describe(late.view) != before {
		t.Errorf("the log changed:\n%s\nbefore:\n%s", describe(late.view), before)
	}
	if n := p.requests(t, a.prompt); n != 1 {
		t.Errorf("%d provider requests", n)
	}
	f.checkLogs()
}

// TestRH47_ASecondProcessOfAHostTakesOver starts a copy of a host's folder: the first
// process ends with the code that says so and does not come back, the second serves.
func TestRH47_ASecondProcessOfAHostTakesOver(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newFleet(t, p, gatewayAlone(t), 1, "count:50")
	first := f.hosts[0]
	second := &machine{install: newInstall(t, p.URL, model{"counter", "count:50"}).set(quick), net: first.net, name: first.name}
	second.args, second.ready = first.args, first.ready
	copyHost(t, first.install, second.install)
	second.start()
	if code := first.exitCode(); code != 5 {
		t.Errorf("the first process ended with %d:\n%s", code, first.log())
	}
	f.hosts = []*machine{second}
	f.serving(1)
	a := newAsk("copied " + newID())
	f.must(f.send(ctx, a))
	f.must(f.read(ctx, a))
	f.must(f.completed(a, 50))
	f.checkLogs()
}

// copyHost copies what a host's folder holds while it runs, but for its lock.
func copyHost(t *testing.T, from, to *install) {
	t.Helper()
	src, dst := filepath.Join(from.dir, "data"), filepath.Join(to.dir, "data")
	if err := os.CopyFS(dst, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err, "\n", f.logs())
	}
}

// unseen is for how long nothing was heard of a host that is away.
func (f *fleet) unseen(m *machine) time.Duration {
	f.t.Helper()
	for _, row := range f.rows() {
		if row.HostID == m.id && row.State != "online" {
			return time.Since(row.SeenAt)
		}
	}
	return 0
}

func (f *fleet) online(m *machine) bool {
	f.t.Helper()
	for _, row := range f.rows() {
		if row.HostID == m.id {
			return row.State == "online"
		}
	}
	return false
}
