package chat

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/gateway"
)

// hintEvery is the shortest time between two hints to the admins of an org.
const hintEvery = 250 * time.Millisecond

// adminHints tells admin views that something changed: at once, then at most
// every hintEvery, the last change never untold.
type adminHints struct {
	s *Service

	mu      sync.Mutex
	stopped bool
	orgs    map[string]*orgHint
}

// orgHint is an org that was told lately.
type orgHint struct {
	timer *time.Timer
	next  *gateway.Push // what has gathered since
}

func newAdminHints(s *Service) *adminHints { return &adminHints{s: s, orgs: make(map[string]*orgHint)} }

// changed tells that a thread or turn of the org changed. It never blocks.
func (a *adminHints) changed(orgID, threadID, turnID string) {
	p := gateway.Push{Type: "admin.changed", ThreadID: threadID, TurnID: turnID}
	a.mu.Lock()
	if a.stopped {
		a.mu.Unlock()
		return
	}
	if h, lately := a.orgs[orgID]; lately {
		if h.next != nil && h.next.ThreadID != threadID {
			p.ThreadID, p.TurnID = "", "" // more than one: all of it
		}
		h.next = &p
		a.mu.Unlock()
		return
	}
	a.orgs[orgID] = &orgHint{timer: time.AfterFunc(hintEvery, func() { a.due(orgID) })}
	a.mu.Unlock()
	a.tell(orgID, p)
}

func (a *adminHints) tell(orgID string, p gateway.Push) {
	topic := gateway.AdminTopic(orgID)
	a.s.bus.post(topic, func(bus gateway.Bus) { bus.Publish(topic, p) })
}

func (a *adminHints) due(orgID string) {
	a.mu.Lock()
	h := a.orgs[orgID]
	if a.stopped || h == nil {
		a.mu.Unlock()
		return
	}
	next := h.next
	if next == nil {
		delete(a.orgs, orgID)
		a.mu.Unlock()
		return
	}
	h.next = nil
	h.timer.Reset(hintEvery)
	a.mu.Unlock()
	a.tell(orgID, *next)
}

func (a *adminHints) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	for _, h := range a.orgs {
		h.timer.Stop()
	}
}
