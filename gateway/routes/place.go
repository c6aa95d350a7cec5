package routes

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// Rule says which hosts may serve a model, by their labels. All rules that are about
// a model and an org count together.
type Rule struct {
	Model string // "" is about every model
	Org   string // "" is about every org
	// Require are labels that a host must have; of those that have, the ones with more
	// labels of Prefer come first.
	Require, Prefer []string
}

func (r Rule) about(model string, actor gateway.Actor) bool {
	return (r.Model == "" || r.Model == model) && (r.Org == "" || r.Org == actor.OrgID)
}

// weigh tells whether a host may serve a model, and how many preferred labels it has.
func (t *Table) weigh(h *host, model string, actor gateway.Actor) (liked int, may bool) {
	for _, r := range t.rules {
		if !r.about(model, actor) {
			continue
		}
		for _, label := range r.Require {
			if !slices.Contains(h.Labels, label) {
				return 0, false
			}
		}
		for _, label := range r.Prefer {
			if slices.Contains(h.Labels, label) {
				liked++
			}
		}
	}
	return liked, true
}

// allows tells whether any host may serve an offer.
func (t *Table) allows(o *offer, actor gateway.Actor) bool {
	return slices.ContainsFunc(o.entries, func(e entry) bool {
		_, may := t.weigh(e.host, o.model, actor)
		return may
	})
}

// standing says how well an entry can serve a turn now; less is better.
type standing int

const (
	usable   standing = iota // ready on a linked host
	cooling                  // ready, but its provider asked to wait
	draining                 // ready on a host that takes no new turns: the turn waits for it
	outdated                 // ready on a host that does not understand the settings (AD78)
	away                     // ready on a host that is offline: the turn waits for it
	unready
)

func (s standing) reason() string {
	switch s {
	case draining:
		return ReasonHostDraining
	case outdated:
		return ReasonHostOutdated
	}
	return ReasonHostOffline
}

func (e entry) standing(now time.Time, generation int) standing {
	switch {
	case !e.route.Ready:
		return unready
	case !e.host.online:
		return away
	case generation > 0 && !slices.Contains(e.host.generations, generation):
		return outdated
	case e.host.Draining:
		return draining
	case coolsUntil(e.route).After(now):
		return cooling
	}
	return usable
}

func coolsUntil(r wire.Route) time.Time {
	at, err := time.Parse(time.RFC3339, r.AvailableAt)
	if err != nil {
		return time.Time{}
	}
	return at
}

// rank is where an entry stands among those of its offer.
type rank struct {
	standing standing
	liked    int
	room     int
}

// before tells whether a goes before b; of equals the first in order does.
func (a rank) before(b rank) bool {
	switch {
	case a.standing != b.standing:
		return a.standing < b.standing
	case a.liked != b.liked:
		return a.liked > b.liked
	}
	return a.room > b.room
}

// place chooses the entry of an offer that serves a turn. One of them may.
func (t *Table) place(o *offer, actor gateway.Actor, at gateway.Placement, now time.Time) (entry, standing) {
	var best, own entry
	var top, owned rank
	for _, e := range o.entries {
		liked, may := t.weigh(e.host, o.model, actor)
		if !may {
			continue
		}
		r := rank{standing: e.standing(now, at.Generation), liked: liked, room: e.host.room()}
		if best.host == nil || r.before(top) {
			best, top = e, r
		}
		if e.host.HostID == at.HostID && (own.host == nil || r.before(owned)) {
			own, owned = e, r
		}
	}
	if own.host != nil && (at.Running || t.stays(own.host, owned.standing, now)) {
		best, top = own, owned
	}
	best.host.placed.Add(1)
	return best, top.standing
}

// stays tells whether a thread stays at its host.
func (t *Table) stays(h *host, s standing, now time.Time) bool {
	switch s {
	case usable, cooling:
		return true
	case away:
		return !h.Draining && now.Sub(h.left) < t.stayFor
	}
	return false
}

// returnPatience is how long after its registration, which is the start of the
// gateway for most, a host is expected to link and to tell its catalog.
const returnPatience = 30 * time.Second

// comes tells whether a host may be back in a moment, with nobody knowing yet what it
// offers.
func (h *host) comes(now time.Time) bool {
	return !h.heard && !h.Draining && now.Sub(h.known) < returnPatience
}

// room is how many turns the host may take; those that were sent its way since it
// said so count. Hosts that do not say are equal.
func (h *host) room() int {
	if !h.roomy {
		return 0
	}
	return h.free - int(h.placed.Load())
}

// first is the entry that would serve an offer for somebody without a thread; ok is
// false if none may.
func (t *Table) first(o *offer, actor gateway.Actor, now time.Time) (first entry, s standing, ok bool) {
	for _, e := range o.entries {
		if _, may := t.weigh(e.host, o.model, actor); !may {
			continue
		}
		if r := e.standing(now, 0); !ok || r < s {
			first, s, ok = e, r, true
		}
	}
	return first, s, ok
}
