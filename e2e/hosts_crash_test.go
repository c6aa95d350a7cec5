package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// moment is when a crash test kills: at a message of the link, before it is
// delivered or after, or after some time.
type moment struct {
	name  string
	d     direction
	words []string // that stand in the message
	late  bool     // after it is delivered
	in    time.Duration
}

// victim is who is killed, one after the other.
type victim struct {
	name          string
	gateway, host bool
	hostFirst     bool
}

var victims = []victim{
	{name: "the gateway", gateway: true},
	{name: "the host", host: true},
	{name: "the gateway, then the host", gateway: true, host: true},
	{name: "the host, then the gateway", gateway: true, host: true, hostFirst: true},
}

// moments are all named ones.
func moments() (all []moment) {
	for _, late := range []bool{false, true} {
		for _, m := range []moment{
			{name: "the prompt", d: down, words: []string{`"command"`, `"prompt.request"`}},
			{name: "the ack", d: up, words: []string{`"type":"ack"`, `"applied"`}},
			{name: "the first event", d: up, words: []string{`"type":"event"`, `"turn.started"`}},
			{name: "a delta", d: up, words: []string{`"type":"event"`, `"item.delta"`}},
			{name: "a cursor", d: down, words: []string{`"type":"cursor"`}},
			{name: "the last event", d: up, words: []string{`"type":"event"`, `"turn.completed"`}},
		} {
			m.late = late
			m.name = map[bool]string{false: "before ", true: "after "}[late] + m.name
			all = append(all, m)
		}
	}
	return all
}

// TestF22_RH48_RH49_RH50_KillsAroundALinkLoseAndRepeatNothing kills the gateway, the
// host or both around the messages of a turn and at random moments, starts them
// again, sends the same message again, and looks at what everybody has.
// E2E_HOST_POINTS sets how many of the 48 named cases run, in an order of chance,
// E2E_HOST_KILLS how many random ones.
func TestF22_RH48_RH49_RH50_KillsAroundALinkLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	onBothGateways(t, func(t *testing.T, gw *install) {
		f := newFleet(t, p, gw, 1, "count:500+delay=2ms")
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 2))
		whole, asked := 0, 0
		for _, c := range killCases(random, number(t, "E2E_HOST_POINTS", 5), number(t, "E2E_HOST_KILLS", 2)) {
			a := f.killed(c, random)
			n := p.requests(t, a.prompt)
			if n > 1 {
				t.Fatalf("%s: %d provider requests\n%s", a.prompt, n, f.logs())
			}
			asked += n
			if a.answer(a.turnOf(a.message)) == counted(500) {
				whole++
			} else if !c.host {
				t.Errorf("%s: the host lived, but the answer is not whole:\n%s", a.prompt, describe(a.view))
			}
		}
		t.Logf("%d answers reached the provider, %d came through whole", asked, whole)
		f.checkLogs()
	})
}

type killCase struct {
	moment
	victim
}

func killCases(random *rand.Rand, points, more int) (cases []killCase) {
	for _, m := range moments() {
		for _, v := range victims {
			cases = append(cases, killCase{m, v})
		}
	}
	random.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	cases = cases[:min(points, len(cases))]
	for range more {
		in := time.Duration(random.Int64N(int64(2 * time.Second)))
		cases = append(cases, killCase{moment{name: "after " + in.String(), in: in}, victims[random.IntN(len(victims))]})
	}
	return cases
}

// killed has one turn through one case.
func (f *fleet) killed(c killCase, random *rand.Rand) *ask {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	m := f.hosts[0]
	a := newAsk(fmt.Sprintf("%s killed %s, %s", c.victim.name, c.moment.name, newID()))
	dead := make(chan struct{})
	fire := sync.OnceFunc(func() {
		f.kill(m, c.victim)
		close(dead)
	})
	if c.words == nil {
		timer := time.AfterFunc(c.in, fire)
		defer timer.Stop()
	} else {
		m.net.watched(func(d direction, message []byte) func() {
			switch {
			case d != c.d || !c.matches(message):
			case c.late:
				return fire
			default:
				fire()
			}
			return nil
		})
	}
	reading, leave := context.WithCancel(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_ = f.send(reading, a)
		_ = f.read(reading, a)
	}()
	select {
	case <-dead:
	case <-ctx.Done():
		f.t.Fatalf("%s: nothing was killed\n%s", a.prompt, f.logs())
	}
	m.net.watched(nil)
	leave()
	<-read
	began := time.Now()
	f.revive(m, c.victim, random.IntN(2) == 0)
	revived := time.Since(began)
	f.must(f.send(ctx, a))
	sent := time.Since(began)
	f.must(f.read(ctx, a))
	f.t.Logf("%s: up after %s, sent again after %s, over after %s", a.prompt, revived, sent, time.Since(began))
	turn := a.view.turnID
	checkTurn(f.t, a.view, a.message)
	a.view.turnID = turn
	return a
}

func (m moment) matches(message []byte) bool {
	for _, words := range m.words {
		if !bytes.Contains(message, []byte(words)) {
			return false
		}
	}
	return true
}

func (f *fleet) kill(m *machine, v victim) {
	if v.host && v.hostFirst {
		m.kill()
	}
	if v.gateway {
		f.gw.kill()
	}
	if v.host {
		m.kill()
	}
}

// revive starts again what was killed. A host that is started first waits for its
// gateway.
func (f *fleet) revive(m *machine, v victim, hostFirst bool) {
	f.t.Helper()
	var host sync.WaitGroup
	if v.host && hostFirst {
		host.Go(m.start)
	}
	if v.gateway {
		f.gw.start()
	}
	if v.host && !hostFirst {
		m.start()
	}
	host.Wait()
}
