package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes a text harmless for a terminal: control characters become visible
// signs, those that turn the direction of reading and broken bytes a replacement
// character. Line ends and tabs stay.
func Clean(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
		case r == '\u2028' || r == '\u2029':
			b.WriteByte('\n')
		default:
			b.WriteRune(harmless(r))
		}
	}
	return b.String()
}

func isClean(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

func harmless(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r < ' ':
		return 0x2400 + r // the sign for it
	case r == 0x7f:
		return 0x2421
	case unicode.IsControl(r), turns(r), r == utf8.RuneError:
		return utf8.RuneError
	}
	return r
}

// turns tells whether the character changes the order in which others are shown,
// or carries text that nobody sees.
func turns(r rune) bool {
	switch {
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

// Line is Clean for a text that must stay on one line, such as a title.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Clean(s))
}

// short cuts a line to a number of columns.
func short(s string, columns int) string {
	s = Line(s)
	if width(s) <= columns {
		return s
	}
	used := 0
	for i, r := range s {
		if used += runeWidth(r); used > columns-1 {
			return s[:i] + "…"
		}
	}
	return s
}
