package httpd

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/renameio/v2"
)

const (
	cookieSignBytes = 64
	cookieSealBytes = 32
)

// CookieKeys sign and encrypt the session cookie.
type CookieKeys struct {
	sign, seal []byte
}

// LoadCookieKeys reads the keys from a file in the data folder, and makes it (mode
// 0600) if it is missing: the same folder keeps people logged in. It refuses a
// file that others may read, and one that is damaged.
func LoadCookieKeys(path string) (CookieKeys, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeCookieKeys(path)
	}
	if err != nil {
		return CookieKeys{}, fmt.Errorf("cookie keys: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return CookieKeys{}, fmt.Errorf("cookie keys: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return CookieKeys{}, fmt.Errorf("cookie keys: %s is open to other users; run chmod 600 on it", path)
	}
	keys, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(raw)))
	if err != nil || len(keys) != cookieSignBytes+cookieSealBytes {
		return CookieKeys{}, fmt.Errorf("cookie keys: %s is damaged; remove it, and everybody logs in again", path)
	}
	return CookieKeys{sign: keys[:cookieSignBytes], seal: keys[cookieSignBytes:]}, nil
}

func makeCookieKeys(path string) (CookieKeys, error) {
	keys := make([]byte, cookieSignBytes+cookieSealBytes)
	// crypto/rand.Read never fails: it ends the process where it cannot read.
	_, _ = rand.Read(keys)
	text := base64.StdEncoding.EncodeToString(keys) + "\n"
	if err := renameio.WriteFile(path, []byte(text), 0o600); err != nil {
		return CookieKeys{}, fmt.Errorf("cookie keys: %w", err)
	}
	return CookieKeys{sign: keys[:cookieSignBytes], seal: keys[cookieSignBytes:]}, nil
}
