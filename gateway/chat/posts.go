package chat

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/fairlead/fairlead/gateway"
)

// posts publishes on the bus: in order within a topic, and never in the path of a
// commit. A topic whose publication hangs or panics holds up nothing but itself
// (CG74, CG75).
type posts struct {
	bus   gateway.Bus
	spawn func(func(context.Context)) bool
	log   *slog.Logger

	// mu guards busy: the topics that somebody publishes to now, each with what is
	// to follow.
	mu   sync.Mutex
	busy map[string][]func(gateway.Bus)
}

func newPosts(bus gateway.Bus, spawn func(func(context.Context)) bool, log *slog.Logger) *posts {
	return &posts{bus: bus, spawn: spawn, log: log, busy: make(map[string][]func(gateway.Bus))}
}

// post has tell run soon, after what was posted to the topic before. It waits for
// nobody while the service runs; after Stop there is nobody else to do it.
func (p *posts) post(topic string, tell func(gateway.Bus)) {
	if p.behind(topic, tell) {
		return
	}
	if !p.spawn(func(context.Context) { p.run(topic, tell) }) {
		p.run(topic, tell)
	}
}

// Publish publishes before it returns, unless something is under way on the topic
// already: then after that.
func (p *posts) Publish(topic string, push gateway.Push) {
	tell := func(bus gateway.Bus) { bus.Publish(topic, push) }
	if p.behind(topic, tell) {
		return
	}
	p.tell(topic, tell)
	if then := p.after(topic); then != nil && !p.spawn(func(context.Context) { p.run(topic, then) }) {
		p.run(topic, then)
	}
}

// behind puts tell behind others, or makes the caller the one who publishes to the
// topic.
func (p *posts) behind(topic string, tell func(gateway.Bus)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, busy := p.busy[topic]
	if busy {
		waiting = append(waiting, tell)
	}
	p.busy[topic] = waiting
	return busy
}

// after gives what is to follow on the topic; nothing frees it.
func (p *posts) after(topic string) func(gateway.Bus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.busy[topic]
	if len(waiting) == 0 {
		delete(p.busy, topic)
		return nil
	}
	p.busy[topic] = waiting[1:]
	return waiting[0]
}

// run publishes to a topic until nothing follows.
func (p *posts) run(topic string, tell func(gateway.Bus)) {
	for ; tell != nil; tell = p.after(topic) {
		p.tell(topic, tell)
	}
}

// tell outlives a bus that panics: what it was told is in the store.
func (p *posts) tell(topic string, tell func(gateway.Bus)) {
	defer func() {
		if fault := recover(); fault != nil {
			p.log.Error("a publication failed", "topic", topic, "error", fmt.Sprint(fault))
		}
	}()
	tell(p.bus)
}

// Subscribe is there to be a bus; the chat subscribes to nothing.
func (p *posts) Subscribe(topic string, handle func(gateway.Push)) (cancel func()) {
	return p.bus.Subscribe(topic, handle)
}

var _ gateway.Bus = (*posts)(nil)
