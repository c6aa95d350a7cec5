package accounts

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// ThrottleConfig limits attempts to log in. A bucket holds Burst attempts and
// gains one per Every. A successful login fills the bucket of its account.
type ThrottleConfig struct {
	AddressEvery time.Duration
	AddressBurst int
	AccountEvery time.Duration
	AccountBurst int
}

// DefaultThrottle lets a forgetful person try. An account gains attempts faster
// than an address does, so that one guesser cannot lock its owner out.
func DefaultThrottle() ThrottleConfig {
	return ThrottleConfig{
		AddressEvery: 10 * time.Second, AddressBurst: 10,
		AccountEvery: 5 * time.Second, AccountBurst: 20,
	}
}

const (
	refusalEvery = time.Second
	refusalBurst = 20
	// throttleKeys bounds the memory that strangers can take.
	throttleKeys = 10_000
)

// addressKey is the key of a client address: of IPv6 the network that one
// subscriber has, since its addresses are free to change.
func addressKey(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = ip.Unmap()
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return network.String()
}

// throttle is one token bucket per key.
type throttle struct {
	every time.Duration
	burst int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter // guarded by mu
}

func newThrottle(every time.Duration, burst int) *throttle {
	return &throttle{every: every, burst: burst, buckets: make(map[string]*rate.Limiter)}
}

// take takes one attempt of key, or tells how long to wait for the next.
func (t *throttle) take(key string, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buckets[key]
	if b == nil {
		t.makeRoom(now)
		b = rate.NewLimiter(rate.Every(t.every), t.burst)
		t.buckets[key] = b
	}
	if b.AllowN(now, 1) {
		return 0
	}
	missing := 1 - b.TokensAt(now)
	return max(time.Duration(missing*float64(t.every)), time.Second)
}

// fill forgets the attempts of a key.
func (t *throttle) fill(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.buckets, key)
}

// makeRoom drops buckets that are full again: they hold nothing to remember. If
// that is not enough it drops any, which errs on the side of letting people in.
func (t *throttle) makeRoom(now time.Time) {
	if len(t.buckets) < throttleKeys {
		return
	}
	for key, b := range t.buckets {
		if b.TokensAt(now) >= float64(t.burst) {
			delete(t.buckets, key)
		}
	}
	for key := range t.buckets {
		if len(t.buckets) < throttleKeys*3/4 {
			return
		}
		delete(t.buckets, key)
	}
}
