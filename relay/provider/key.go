package provider

import "log/slog"

const redacted = "[redacted]"

// Key is a provider's API key. It prints, logs and encodes as "[redacted]",
// also from within another struct: what it holds is out of reach of reflection.
type Key struct{ reveal func() string }

// NewKey wraps a key; the empty string is no key.
func NewKey(secret string) Key {
	if secret == "" {
		return Key{}
	}
	return Key{reveal: func() string { return secret }}
}

// IsZero tells whether there is no key.
func (k Key) IsZero() bool { return k.reveal == nil }

// String gives "[redacted]", or "" when there is no key.
func (k Key) String() string {
	if k.IsZero() {
		return ""
	}
	return redacted
}

// GoString is String.
func (k Key) GoString() string { return k.String() }

// MarshalText is String, for JSON and YAML.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// LogValue is String, for slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

func (k Key) secret() string {
	if k.IsZero() {
		return ""
	}
	return k.reveal()
}

// sendable tells whether the key can stand in an HTTP header.
func (k Key) sendable() bool {
	for _, b := range []byte(k.secret()) {
		if b < 0x21 || b > 0x7e {
			return false
		}
	}
	return true
}
