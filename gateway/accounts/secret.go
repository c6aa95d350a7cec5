package accounts

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// The prefixes tell secrets apart on sight, for secret scanners and for
// Authenticate.
const (
	tokenPrefix   = "fl_"
	sessionPrefix = "fs_"
)

const secretBytes = 32

// newSecret is 256 random bits behind a prefix, in a form that fits URLs,
// cookies and headers.
func newSecret(prefix string) string {
	var b [secretBytes]byte
	// crypto/rand.Read never fails: it ends the process where it cannot read.
	_, _ = rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// hashSecret is the stored form of a secret. A plain hash is enough for 256
// random bits, and lets the row be found by an index.
func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
