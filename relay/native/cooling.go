package native

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/relay/wire"
)

// cooling remembers until when a provider asked to be left alone on a route. It
// is a courtesy, not a state: a restart forgets it.
type cooling struct {
	mu    sync.Mutex
	until map[string]time.Time // by routeKey
}

func (c *cooling) note(t Turn, end ending, now time.Time) {
	if end.code != wire.CodeModelRateLimited || !end.retryAt.After(now) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = make(map[string]time.Time)
	}
	for key, until := range c.until {
		if !until.After(now) {
			delete(c.until, key)
		}
	}
	c.until[routeKey(t.ModelProviderID, t.Model)] = end.retryAt
}

// Cooling tells until when a route is better left alone after a rate limit, or
// the zero time. It does not block.
func (r *Runtime) Cooling(modelProviderID, model string) time.Time {
	c := &r.cooling
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.until[routeKey(modelProviderID, model)]
	if !until.After(r.now()) {
		return time.Time{}
	}
	return until
}
