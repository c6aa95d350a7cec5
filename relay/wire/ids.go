package wire

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of ids, in bytes.
const (
	MaxRelayIDBytes        = 240
	MaxOwnerComponentBytes = 512
	MaxModelIDBytes        = 256
	MaxRouteIDBytes        = 128

	virtualThreadPrefix = "local_thread_"
	virtualTurnPrefix   = "local_turn_"
	virtualHexDigits    = 24
)

// ValidRelayID tells whether s is a relay id: 1–240 bytes of [A-Za-z0-9._:@/+~-]
// without ".." and "://" (relay-host.md §1.1).
func ValidRelayID(s string) bool {
	return s != "" && len(s) <= MaxRelayIDBytes && only(s, "._:@/+~-") &&
		!strings.Contains(s, "..") && !strings.Contains(s, "://")
}

// ValidOperationKey tells whether s is a relay id of at most 128 bytes.
func ValidOperationKey(s string) bool {
	return len(s) <= MaxOperationKeyBytes && ValidRelayID(s)
}

// ValidOwnerComponent tells whether s may name an account, a target or a
// session: 1–512 bytes, equal to its own trim, no NUL.
func ValidOwnerComponent(s string) bool {
	return s != "" && len(s) <= MaxOwnerComponentBytes && utf8.ValidString(s) &&
		strings.TrimSpace(s) == s && !strings.Contains(s, "\x00")
}

// ValidNativeID tells whether s may name a native record: 5–80 of [A-Za-z0-9_].
func ValidNativeID(s string) bool {
	return len(s) >= 5 && len(s) <= 80 && only(s, "_")
}

// ValidVirtualThreadID tells whether s is local_thread_ and 24 of [0-9a-f].
func ValidVirtualThreadID(s string) bool { return virtual(s, virtualThreadPrefix) }

// ValidVirtualTurnID tells whether s is local_turn_ and 24 of [0-9a-f].
func ValidVirtualTurnID(s string) bool { return virtual(s, virtualTurnPrefix) }

func virtual(s, prefix string) bool {
	digits, ok := strings.CutPrefix(s, prefix)
	return ok && len(digits) == virtualHexDigits && strings.Trim(digits, "0123456789abcdef") == ""
}

// ValidChallenge tells whether s is 32–128 of [A-Za-z0-9_-] (RH15).
func ValidChallenge(s string) bool {
	return len(s) >= 32 && len(s) <= 128 && only(s, "_-")
}

// ValidUUID tells whether s is a UUID in its usual form, in lower case.
func ValidUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// ValidFingerprint tells whether s is 64 hex digits of either case.
func ValidFingerprint(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// ValidModelID tells whether s is a model name that may leave a host: RH19. It
// keeps out paths, addresses and whatever looks like a key.
func ValidModelID(s string) bool { return safeName(s, MaxModelIDBytes, "._:/+-") }

// ValidRouteID tells whether s is a provider name that may leave a host: RH20.
func ValidRouteID(s string) bool { return safeName(s, MaxRouteIDBytes, "._-") }

// SafeModelIDs is what RH17 publishes of the given names: unsafe ones dropped,
// sorted bytewise, without duplicates.
func SafeModelIDs(names []string) []string {
	safe := make([]string, 0, len(names))
	for _, n := range names {
		if ValidModelID(n) {
			safe = append(safe, n)
		}
	}
	slices.Sort(safe)
	return slices.Compact(safe)
}

func safeName(s string, maxBytes int, extra string) bool {
	if s == "" || len(s) > maxBytes || !alphanumeric(s[0]) || !only(s, extra) {
		return false
	}
	if strings.Contains(s, "..") || strings.Contains(s, "://") || strings.HasPrefix(s, "redacted-") {
		return false
	}
	return !hostAndPort(s) && safeLabel(s)
}

// hostAndPort tells whether the part before the first slash reads host:digits.
func hostAndPort(s string) bool {
	head, _, _ := strings.Cut(s, "/")
	colon := strings.LastIndexByte(head, ':')
	if colon < 0 || colon == len(head)-1 {
		return false
	}
	return strings.Trim(head[colon+1:], "0123456789") == ""
}

func only(s, extra string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte(extra, s[i]) < 0 {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// NewVirtualThreadID makes a random virtual thread id.
func NewVirtualThreadID() string { return virtualThreadPrefix + randomHex(virtualHexDigits/2) }

// NewVirtualTurnID makes a random virtual turn id.
func NewVirtualTurnID() string { return virtualTurnPrefix + randomHex(virtualHexDigits/2) }

// NewNativeID makes a native record id: the prefix ("thr", "item"), an
// underscore and 128 random bits in hex.
func NewNativeID(prefix string) string { return prefix + "_" + randomHex(16) }

// NewChallenge makes a challenge for a catalog request.
func NewChallenge() string { return randomHex(32) }

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // it never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// NormalizeEffort gives the canonical name of a reasoning effort (RH13): off,
// minimal, low, medium, high, xhigh, ultra, max or auto.
func NormalizeEffort(s string) (string, bool) {
	switch e := strings.ToLower(strings.TrimSpace(s)); e {
	case "off", "disabled", "none", "false":
		return "off", true
	case "low", "minimum", "light":
		return "low", true
	case "medium", "mid":
		return "medium", true
	case "ultra", "ultracode":
		return "ultra", true
	case "max", "maximum":
		return "max", true
	case "auto", "automatic":
		return "auto", true
	case "minimal", "high", "xhigh":
		return e, true
	}
	return "", false
}
