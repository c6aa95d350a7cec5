package enroll

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

const (
	// nonceTTL is how long a nonce can be used.
	nonceTTL = time.Minute
	// usedPerHost bounds what a host can make the gateway remember, and how often it
	// may link within nonceTTL.
	usedPerHost = 64

	momentBytes = 8
	randomBytes = 16
)

// nonces gives out challenges. One tells by itself when and for whom it was made, so
// nothing is kept of those that are not used: however many strangers ask, no host's
// nonce is lost over it.
type nonces struct {
	key [sha256.Size]byte

	mu   sync.Mutex
	used map[string]map[string]time.Time // expiry of used nonces by host; guarded by mu
}

func newNonces() *nonces {
	n := &nonces{used: map[string]map[string]time.Time{}}
	_, _ = rand.Read(n.key[:]) // it never fails: crypto/rand ends the process instead
	return n
}

// make gives a nonce for a host.
func (n *nonces) make(hostID string, now time.Time) string {
	body := make([]byte, momentBytes+randomBytes, momentBytes+randomBytes+sha256.Size)
	binary.BigEndian.PutUint64(body, uint64(now.UnixMilli())) //nolint:gosec // a moment of today
	_, _ = rand.Read(body[momentBytes:])
	return base64.RawURLEncoding.EncodeToString(append(body, n.seal(hostID, body)...))
}

func (n *nonces) seal(hostID string, body []byte) []byte {
	mac := hmac.New(sha256.New, n.key[:])
	mac.Write(body)
	mac.Write([]byte(hostID))
	return mac.Sum(nil)
}

// fresh tells whether a nonce was made here, for the host, and can still be used.
func (n *nonces) fresh(hostID, nonce string, now time.Time) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil || len(raw) != momentBytes+randomBytes+sha256.Size {
		return false
	}
	body, seal := raw[:momentBytes+randomBytes], raw[momentBytes+randomBytes:]
	if !hmac.Equal(seal, n.seal(hostID, body)) {
		return false
	}
	age := now.Sub(time.UnixMilli(int64(binary.BigEndian.Uint64(body)))) //nolint:gosec // it is sealed
	if age < -nonceTTL || age >= nonceTTL {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, spent := n.used[hostID][nonce]
	return !spent
}

// spending says what became of a nonce.
type spending int

const (
	nonceTaken spending = iota // it was used before
	nonceTooMany
	nonceSpent
)

// spend uses a fresh nonce up. It is called for hosts that proved who they are alone,
// so that there are as many entries as hosts.
func (n *nonces) spend(hostID, nonce string, now time.Time) spending {
	n.mu.Lock()
	defer n.mu.Unlock()
	used := n.used[hostID]
	if used == nil {
		used = map[string]time.Time{}
		n.used[hostID] = used
	}
	if _, taken := used[nonce]; taken {
		return nonceTaken
	}
	for old, until := range used {
		if !now.Before(until) {
			delete(used, old)
		}
	}
	if len(used) >= usedPerHost {
		return nonceTooMany
	}
	// A clock that was set back makes an older nonce fresh for longer.
	used[nonce] = now.Add(2 * nonceTTL)
	return nonceSpent
}
