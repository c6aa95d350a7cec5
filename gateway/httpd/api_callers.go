package httpd

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/fairlead/fairlead/relay/wire"
)

// callers hold each credential to its share of the API. A caller who is idle and
// has its whole allowance back is forgotten, so that the map is as large as the
// number of credentials in use.
type callers struct {
	perSecond, inFlight int

	mu     sync.Mutex
	known  map[string]*caller
	forget int // how many are known when the idle ones are forgotten next
}

type caller struct {
	allowed *rate.Limiter
	running int // guarded by callers.mu
}

const (
	defaultPerSecond = 50
	defaultInFlight  = 32
	fewCallers       = 1024
	busyPause        = 100 * time.Millisecond
)

func newCallers(perSecond, inFlight int) *callers {
	if perSecond <= 0 {
		perSecond = defaultPerSecond
	}
	if inFlight <= 0 {
		inFlight = defaultInFlight
	}
	return &callers{perSecond: perSecond, inFlight: inFlight, known: make(map[string]*caller), forget: fewCallers}
}

// enter takes one request of a credential in; done ends it. Error: rate_limited,
// with the time after which there is room.
func (c *callers) enter(credentialID string) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.known[credentialID]
	if who == nil {
		c.tidy()
		who = &caller{allowed: rate.NewLimiter(rate.Limit(c.perSecond), 2*c.perSecond)}
		c.known[credentialID] = who
	}
	if who.running >= c.inFlight {
		return nil, tooMany(busyPause)
	}
	turn := who.allowed.Reserve()
	if wait := turn.Delay(); wait > 0 {
		turn.Cancel()
		return nil, tooMany(wait)
	}
	who.running++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		who.running--
	}, nil
}

// tidy needs mu.
func (c *callers) tidy() {
	if len(c.known) < c.forget {
		return
	}
	for id, who := range c.known {
		if who.running == 0 && who.allowed.Tokens() >= float64(who.allowed.Burst()) {
			delete(c.known, id)
		}
	}
	c.forget = max(fewCallers, 2*len(c.known))
}

func tooMany(after time.Duration) error {
	e := wire.NewError(wire.CodeRateLimited, "Too many requests at once. Send fewer.")
	e.RetryAfter = max(after, time.Millisecond)
	return e
}
