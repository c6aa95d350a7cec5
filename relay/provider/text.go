package provider

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// text is a JSON string as the provider meant it, before it is known to be
// whole: bytes that are no UTF-8 are kept, and half of a surrogate pair stands
// in its three-byte form, so that a joiner can put together what a provider cut
// in two (F28). encoding/json alone would make U+FFFD of both halves.
type text []byte

var errNotText = errors.New("not a string")

// UnmarshalJSON takes a string or null.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = nil
	if string(raw) == "null" {
		return nil
	}
	if len(raw) < 2 || raw[0] != '"' {
		return errNotText
	}
	*t = unquote(raw[1 : len(raw)-1])
	return nil
}

// unquote decodes the inside of a valid JSON string.
func unquote(in []byte) []byte {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		if in[i] != '\\' {
			out = append(out, in[i])
			i++
			continue
		}
		if in[i+1] != 'u' {
			out = append(out, unescape(in[i+1]))
			i += 2
			continue
		}
		r := hex4(in[i+2:])
		i += 6
		if utf16.IsSurrogate(r) && i+6 <= len(in) && in[i] == '\\' && in[i+1] == 'u' {
			if joined := utf16.DecodeRune(r, hex4(in[i+2:])); joined != utf8.RuneError {
				r, i = joined, i+6
			}
		}
		out = appendRune(out, r)
	}
	return out
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hex4(in []byte) rune {
	if len(in) < 4 {
		return utf8.RuneError
	}
	n, err := strconv.ParseUint(string(in[:4]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

// appendRune is utf8.AppendRune that keeps lone surrogates.
func appendRune(out []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return utf8.AppendRune(out, r)
}

// joiner makes whole runes of pieces that may end inside one.
type joiner struct{ held []byte }

// push returns what is whole of the held bytes and these; it holds back an end
// that more bytes could complete. What is broken for good becomes U+FFFD.
func (j *joiner) push(piece []byte) string {
	if len(j.held) == 0 && utf8.Valid(piece) {
		return string(piece)
	}
	in := append(j.held, piece...)
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		r, n := decodeRune(in)
		if n == 0 { // more bytes could complete it
			break
		}
		out = utf8.AppendRune(out, r)
		in = in[n:]
	}
	j.held = append([]byte(nil), in...)
	return string(out)
}

// flush returns U+FFFD if something is held that nothing will complete.
func (j *joiner) flush() string {
	if len(j.held) == 0 {
		return ""
	}
	j.held = nil
	return string(utf8.RuneError)
}

// decodeRune is utf8.DecodeRune that joins the three-byte forms of a surrogate
// pair. n is 0 when b is the beginning of something longer.
func decodeRune(b []byte) (r rune, n int) {
	if hi, ok := surrogate(b); ok {
		if hi >= 0xdc00 {
			return utf8.RuneError, 3
		}
		rest := b[3:]
		if lo, ok := surrogate(rest); ok {
			if joined := utf16.DecodeRune(hi, lo); joined != utf8.RuneError {
				return joined, 6
			}
			return utf8.RuneError, 3
		}
		if beginsSurrogate(rest) {
			return 0, 0
		}
		return utf8.RuneError, 3
	}
	if !utf8.FullRune(b) || (len(b) < 3 && b[0] == 0xed && beginsSurrogate(b)) {
		return 0, 0
	}
	return utf8.DecodeRune(b)
}

// surrogate reads the three-byte form of a surrogate.
func surrogate(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xed || b[1]&0xe0 != 0xa0 || b[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f), true
}

// beginsSurrogate tells whether b is a beginning of such a form, be it empty.
func beginsSurrogate(b []byte) bool {
	return len(b) < 3 && (len(b) == 0 || b[0] == 0xed) && (len(b) < 2 || b[1]&0xe0 == 0xa0)
}

// str is a string field that may be anything: what is no string is "".
type str string

// UnmarshalJSON never fails.
func (s *str) UnmarshalJSON(raw []byte) error {
	*s = ""
	var v string
	if json.Unmarshal(raw, &v) == nil {
		*s = str(v)
	}
	return nil
}

// count is a number of tokens that may be missing: what is no number is unset.
type count struct {
	n   uint64
	set bool
}

// UnmarshalJSON never fails.
func (c *count) UnmarshalJSON(raw []byte) error {
	*c = count{}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err == nil && f >= 0 && f < 1<<53 {
		*c = count{n: uint64(f), set: true}
	}
	return nil
}

// or is c if it is set, else other.
func (c count) or(other count) count {
	if c.set {
		return c
	}
	return other
}

// ptr is nil when the count is unset.
func (c count) ptr() *uint64 {
	if !c.set {
		return nil
	}
	n := c.n
	return &n
}

// lenient is a field of which nothing but facts depend, such as a report of
// usage: where it has another form than T it is as if it was not there.
type lenient[T any] struct{ value *T }

// UnmarshalJSON never fails.
func (l *lenient[T]) UnmarshalJSON(raw []byte) error {
	l.value = nil
	var v *T
	if json.Unmarshal(raw, &v) == nil {
		l.value = v
	}
	return nil
}
