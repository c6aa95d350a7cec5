package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	errNotInteger = errors.New("a number of the canonical form is not a plain integer")
	errNotUTF8    = errors.New("a text of the canonical form is not valid UTF-8")
)

// Canonical is the canonical JSON of v (relay-host.md §5): keys sorted bytewise
// at every level, no whitespace, only the escapes that JSON demands, integers
// only. v is encoded by its json tags. Invalid UTF-8 is an error, never
// replaced.
func Canonical(v any) ([]byte, error) {
	if !allUTF8(reflect.ValueOf(v)) {
		return nil, errNotUTF8
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return CanonicalJSON(raw)
}

// CanonicalJSON rewrites one JSON value to its canonical form. It refuses what
// DecodeStrict refuses as text, and every number that is not a plain integer.
func CanonicalJSON(raw []byte) ([]byte, error) {
	n, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	return appendCanonical(make([]byte, 0, len(raw)), n)
}

func appendCanonical(b []byte, n *node) ([]byte, error) {
	switch n.kind {
	case nodeString:
		return appendString(b, n.text), nil
	case nodeNumber:
		return appendInteger(b, n.raw)
	case nodeArray:
		return appendArray(b, n.elems)
	case nodeObject:
		return appendObject(b, n.members)
	default:
		return append(b, n.raw...), nil
	}
}

func appendInteger(b, raw []byte) ([]byte, error) {
	if bytes.ContainsAny(raw, ".eE") {
		return nil, errNotInteger
	}
	if string(raw) == "-0" {
		raw = raw[1:]
	}
	return append(b, raw...), nil
}

func appendArray(b []byte, elems []node) (_ []byte, err error) {
	b = append(b, '[')
	for i := range elems {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendCanonical(b, &elems[i]); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendObject(b []byte, members []member) (_ []byte, err error) {
	sorted := slices.Clone(members)
	slices.SortFunc(sorted, func(x, y member) int { return strings.Compare(x.key, y.key) })
	b = append(b, '{')
	for i := range sorted {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, sorted[i].key), ':')
		if b, err = appendCanonical(b, &sorted[i].value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendString escapes the quote, the backslash and U+0000–001F; everything else
// stands raw, U+007F, U+2028 and U+2029 too.
func appendString(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\t':
			b = append(b, '\\', 't')
		case '\n':
			b = append(b, '\\', 'n')
		case '\f':
			b = append(b, '\\', 'f')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	return append(append(b, s[start:]...), '"')
}

// allUTF8 looks at every text that encoding/json would otherwise mend silently.
func allUTF8(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || allUTF8(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return true
		}
		for i := range v.Len() {
			if !allUTF8(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if !allUTF8(it.Key()) || !allUTF8(it.Value()) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if (f.IsExported() || f.Anonymous) && !allUTF8(v.Field(i)) {
				return false
			}
		}
	}
	return true
}
