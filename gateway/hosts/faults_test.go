package hosts_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/gateway/hosts"
	"github.com/fairlead/fairlead/relay/wire"
)

// chaos is a rig with two hosts and whatever befalls them.
type chaos struct {
	*rig
	hosts map[string]*relayHost
	links map[string]*linked
	past  []*linked // superseded
	turns map[string][]string
}

// runsOf are the runs of the hosts of a chaos.
var runsOf = map[string]string{"run_a": "host_1", "run_b": "host_1", "run_c": "host_2", "run_d": "host_2"}

// events of a chaos, by their names; each is given a run and its host.
var events = map[string]func(c *chaos, run string, h *relayHost){
	"prompt": func(c *chaos, run string, _ *relayHost) {
		if r := c.snapshot(run); r.idle() {
			c.turns[run] = append(c.turns[run], c.prompt(run))
		}
		c.registry.Wake(run)
	},
	"stop": func(c *chaos, run string, _ *relayHost) {
		if n := len(c.turns[run]); n > 0 {
			c.stop(run, c.turns[run][n-1])
		}
		c.registry.Wake(run)
	},
	"wake": func(c *chaos, run string, _ *relayHost) { c.registry.Wake(run) },
	"cut": func(c *chaos, _ string, h *relayHost) {
		if l := c.links[h.id]; l != nil {
			l.cut()
			delete(c.links, h.id)
		}
	},
	"connect": func(c *chaos, _ string, h *relayHost) {
		if c.links[h.id] == nil {
			c.links[h.id] = c.connect(h)
		}
	},
	"supersede": func(c *chaos, _ string, h *relayHost) {
		if l := c.links[h.id]; l != nil {
			c.past = append(c.past, l)
			c.links[h.id] = c.connect(h)
		}
	},
	"work fails":   func(c *chaos, _ string, _ *relayHost) { c.ledger.fail("Work", 1) },
	"ack fails":    func(c *chaos, _ string, _ *relayHost) { c.ledger.fail("Ack", 1) },
	"intake fails": func(c *chaos, _ string, _ *relayHost) { c.ledger.fail("Intake", 1) },
	"host of fails": func(c *chaos, _ string, _ *relayHost) {
		c.ledger.fail("HostOf", 1)
	},
	"full": func(_ *chaos, _ string, h *relayHost) {
		h.change(func() { h.room = wire.Room{Inflight: 1, Max: 1} })
	},
	"room": func(_ *chaos, _ string, h *relayHost) { h.change(func() { h.room = wire.Room{Max: 1} }) },
	"busy": func(_ *chaos, _ string, h *relayHost) {
		left := 2
		h.change(func() {
			h.busy = func(wire.CommandMessage) *wire.ErrorBody {
				if left--; left >= 0 {
					return body(wire.CodeInferenceBusy)
				}
				return nil
			}
		})
	},
	"attach refused": func(_ *chaos, _ string, h *relayHost) {
		left := 1
		h.change(func() {
			h.refuse = func(wire.Attach) error {
				if left--; left >= 0 {
					return wire.NewError(wire.CodePersistFailed, "no")
				}
				return nil
			}
		})
	},
	"drain":  func(c *chaos, _ string, h *relayHost) { c.registry.Update(hosts.Host{ID: h.id, Draining: true}) },
	"resume": func(c *chaos, _ string, h *relayHost) { c.registry.Update(hosts.Host{ID: h.id}) },
	"host drains": func(_ *chaos, _ string, h *relayHost) {
		h.change(func() { h.drain = "leaving" })
	},
	"upgrade": func(_ *chaos, _ string, h *relayHost) { h.change(func() { h.generations = []int{1, 2} }) },
	"revoke": func(c *chaos, _ string, h *relayHost) {
		_ = c.registry.Revoke(c.t.Context(), h.id, "chance") // a fault of the ledger is tried again
		if l := c.links[h.id]; l != nil {
			l.ends.Wait()
			delete(c.links, h.id)
		}
		pass(time.Second)
		c.registry.Register(hosts.Host{ID: h.id, TargetRef: h.id})
	},
	"pass": func(*chaos, string, *relayHost) { pass(300 * time.Millisecond) },
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	c := &chaos{rig: newRig(t), links: map[string]*linked{}, turns: map[string][]string{}}
	c.hosts = map[string]*relayHost{"host_1": c.host, "host_2": newRelayHost("host_2")}
	c.generation, c.host.generations = 2, []int{1, 2}
	c.registry.Register(hosts.Host{ID: "host_2", TargetRef: "target_2"})
	for run, hostID := range runsOf {
		c.at(run, hostID)
	}
	return c
}

// heal brings both hosts back in good order.
func (c *chaos) heal() {
	for id, h := range c.hosts {
		h.change(func() { h.drain, h.generations = "", []int{1, 2} })
		c.registry.Update(hosts.Host{ID: id})
		if l := c.links[id]; l != nil {
			l.cut() // with what it said of itself before
		}
		c.links[id] = c.connect(h)
	}
	pass(5 * time.Minute)
}

func (c *chaos) end() {
	for _, l := range c.links {
		l.cut()
	}
	for _, l := range c.past {
		l.ends.Wait()
	}
	c.registry.Close()
}

// faults are what is wrong with what became of the turns.
func (c *chaos) faults() []string {
	var faults []string
	for run, all := range c.turns {
		h, other := c.hosts[runsOf[run]], c.hosts["host_1"]
		if h == other {
			other = c.hosts["host_2"]
		}
		r := c.snapshot(run)
		for _, turn := range all {
			h.mu.Lock()
			started := h.scope(run).started[turn]
			h.mu.Unlock()
			none := started == 0 && r.text[turn] == "" && r.ended[turn] == 0
			switch {
			case r.dropped[turn] && none:
			case r.lost[turn] && started <= 1 && r.ended[turn] <= 1:
			case r.text[turn] == wholeTurn && r.ended[turn] == 1 && started == 1:
			default:
				faults = append(faults, fmt.Sprintf("%s: %q, %d ends, ran %d times", turn, r.text[turn], r.ended[turn], started))
			}
		}
		unacknowledged, attachments := h.pendingOf(run)
		if len(r.lost) > 0 {
			unacknowledged = 0 // nobody asks for it any more
		}
		if !r.idle() || unacknowledged != 0 || attachments != 0 {
			faults = append(faults, fmt.Sprintf("%s: idle %v, %d unacknowledged, %d attachments", run, r.idle(), unacknowledged, attachments))
		}
		if slices.ContainsFunc(other.commands(), func(s string) bool { return s == "attach "+run }) {
			faults = append(faults, run+" came to the other host")
		}
	}
	return append(faults, c.faulty...)
}

// TestRandomFaults_EachTurnRunsOnceAndArrivesWhole cuts and supersedes links, fails
// the ledger, fills hosts, has them drain, be revoked and join again, and wakes runs
// in a drawn order. Only a turn whose host was revoked may end without all of it.
func TestRandomFaults_EachTurnRunsOnceAndArrivesWhole(t *testing.T) {
	t.Parallel()
	var names, runs []string
	for name := range events {
		names = append(names, name)
	}
	for run := range runsOf {
		runs = append(runs, run)
	}
	slices.Sort(names)
	slices.Sort(runs)
	names = append(names, "prompt", "prompt", "prompt", "connect", "connect", "pass", "upgrade")
	rapid.Check(t, func(rt *rapid.T) {
		type op struct{ what, run string }
		plan := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
			return op{rapid.SampledFrom(names).Draw(rt, "op"), rapid.SampledFrom(runs).Draw(rt, "run")}
		}), 1, 30).Draw(rt, "plan")
		var faults []string
		synctest.Test(t, func(t *testing.T) {
			c := newChaos(t)
			for _, o := range plan {
				events[o.what](c, o.run, c.hosts[runsOf[o.run]])
			}
			c.heal()
			faults = c.faults()
			c.end()
		})
		if len(faults) > 0 {
			rt.Fatalf("plan %v: %v", plan, faults)
		}
	})
}
