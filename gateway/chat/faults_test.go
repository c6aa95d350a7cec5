package chat_test

import (
	"context"
	"sync"

	"github.com/fairlead/fairlead/gateway"
)

// gateStore makes updates wait while it is shut.
type gateStore struct {
	gateway.ChatStore
	mu   sync.Mutex
	wait chan struct{}
}

func (g *gateStore) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = make(chan struct{})
}

func (g *gateStore) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.wait)
	g.wait = nil
}

func (g *gateStore) Update(ctx context.Context, fn func(gateway.ChatTx) error) error {
	g.mu.Lock()
	wait := g.wait
	g.mu.Unlock()
	if wait != nil {
		<-wait
	}
	return g.ChatStore.Update(ctx, fn)
}
