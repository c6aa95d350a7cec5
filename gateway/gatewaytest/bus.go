package gatewaytest

import (
	"sync"

	"github.com/fairlead/fairlead/gateway"
)

// Bus is a gateway.Bus in memory that remembers what was published.
type Bus struct {
	mu     sync.Mutex
	next   int
	subs   map[string]map[int]func(gateway.Push)
	pushes map[string][]gateway.Push
}

// NewBus makes an empty bus.
func NewBus() *Bus {
	return &Bus{subs: make(map[string]map[int]func(gateway.Push)), pushes: make(map[string][]gateway.Push)}
}

// Publish remembers p and hands it to the handlers of the topic.
func (b *Bus) Publish(topic string, p gateway.Push) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pushes[topic] = append(b.pushes[topic], p)
	for _, handle := range b.subs[topic] {
		handle(p)
	}
}

// Subscribe calls handle for each push of the topic from now on.
func (b *Bus) Subscribe(topic string, handle func(gateway.Push)) (cancel func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	id := b.next
	if b.subs[topic] == nil {
		b.subs[topic] = make(map[int]func(gateway.Push))
	}
	b.subs[topic][id] = handle
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subs[topic], id)
	}
}

// Pushes gives what was published to a topic so far, only of the given types if
// there are any.
func (b *Bus) Pushes(topic string, types ...string) []gateway.Push {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []gateway.Push
	for _, p := range b.pushes[topic] {
		if len(types) == 0 {
			list = append(list, p)
		}
		for _, t := range types {
			if p.Type == t {
				list = append(list, p)
			}
		}
	}
	return list
}

var _ gateway.Bus = (*Bus)(nil)
