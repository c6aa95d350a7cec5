// Package bus fans pushes out to the sessions that subscribed to their topic.
//
// A bus is a wake-up beside the log and never the truth: a push that nobody
// subscribed to is dropped, and readers resume from the log. Memory serves one
// process. It has no goroutine of its own: handlers run in the publisher's.
package bus

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fairlead/fairlead/gateway"
)

var _ gateway.Bus = (*Memory)(nil)

// Memory is the bus of one process. The zero value is ready for use.
type Memory struct {
	// mu guards topics and the lists of subscriptions; no handler runs under it.
	mu     sync.RWMutex
	topics map[string]*topic
}

// NewMemory makes an empty bus.
func NewMemory() *Memory { return &Memory{} }

type topic struct {
	// order is held while the handlers of one push run: pushes of concurrent
	// publishers reach every subscriber in the same order.
	order sync.Mutex
	// subs is replaced, never changed, so that a push may run over it unlocked.
	subs []*subscription
}

type subscription struct {
	handle func(gateway.Push)
	ended  atomic.Bool
}

// Publish hands p to the topic's subscribers, one after the other. A handler must
// not block and must not publish to the same topic.
func (b *Memory) Publish(name string, p gateway.Push) {
	b.mu.RLock()
	t := b.topics[name]
	b.mu.RUnlock()
	if t == nil {
		return
	}
	t.order.Lock()
	defer t.order.Unlock()
	b.mu.RLock()
	subs := t.subs
	b.mu.RUnlock()
	for _, s := range subs {
		if !s.ended.Load() {
			s.handle(p)
		}
	}
}

// Subscribe adds a handler to a topic. After cancel no new call of it starts; one
// that runs at that moment may still end. cancel may be called more than once, and
// from within a handler.
func (b *Memory) Subscribe(name string, handle func(gateway.Push)) (cancel func()) {
	s := &subscription{handle: handle}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics == nil {
		b.topics = map[string]*topic{}
	}
	t := b.topics[name]
	if t == nil {
		t = &topic{}
		b.topics[name] = t
	}
	t.subs = append(slices.Clone(t.subs), s)
	return func() { b.cancel(name, t, s) }
}

func (b *Memory) cancel(name string, t *topic, s *subscription) {
	if s.ended.Swap(true) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t.subs = slices.DeleteFunc(slices.Clone(t.subs), func(other *subscription) bool { return other == s })
	if len(t.subs) == 0 && b.topics[name] == t {
		delete(b.topics, name)
	}
}
