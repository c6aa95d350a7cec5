package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// PostgreSQL takes neither a NUL nor invalid UTF-8 in a text, and models and
// people send both. Such a byte is stored as mark and two hex digits, and mark
// itself, a code point that stands for no character, as two of it. Every other
// text is stored as it is.
const mark = "\uFDD0"

const hexDigits = "0123456789abcdef"

// encodeText gives the stored form of a text.
func encodeText(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, mark) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case s[i] == 0, r == utf8.RuneError && size == 1:
			b.WriteString(mark)
			b.WriteByte(hexDigits[s[i]>>4])
			b.WriteByte(hexDigits[s[i]&15])
		case strings.HasPrefix(s[i:], mark):
			b.WriteString(mark + mark)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// decodeText reverses encodeText.
func decodeText(s string) string {
	if !strings.Contains(s, mark) {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, mark)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		s = after
		high, low := hexValue(s, 0), hexValue(s, 1)
		switch {
		case high >= 0 && low >= 0:
			b.WriteByte(byte(high<<4 | low))
			s = s[2:]
		default:
			b.WriteString(mark)
			s = strings.TrimPrefix(s, mark)
		}
	}
}

func hexValue(s string, i int) int {
	if i >= len(s) {
		return -1
	}
	return strings.IndexByte(hexDigits, s[i])
}

// encodeArgs turns arguments into what every driver takes, with texts in their
// stored form.
func encodeArgs(args []any) ([]any, error) {
	out := make([]any, len(args))
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return nil, fmt.Errorf("sqldb: argument %d: %w", i+1, err)
		}
		if s, ok := v.(string); ok {
			v = encodeText(s)
		}
		out[i] = v
	}
	return out, nil
}

// decodeTexts puts the texts that were scanned into their own form.
func decodeTexts(dest []any) {
	for _, d := range dest {
		switch d := d.(type) {
		case *string:
			*d = decodeText(*d)
		case *sql.NullString:
			d.String = decodeText(d.String)
		case *int, *int64, *bool, *sql.NullInt64:
		default:
			if v := reflect.ValueOf(d); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.String {
				v.Elem().SetString(decodeText(v.Elem().String()))
			}
		}
	}
}
