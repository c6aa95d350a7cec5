package terminal

import (
	"unicode"

	eastasian "golang.org/x/text/width"
)

const tabStop = 8

// runeWidth is how many columns a character takes. Terminals differ in a few;
// a wrong guess costs looks, never text.
func runeWidth(r rune) int {
	switch {
	case r == 0x200d, r >= 0xfe00 && r <= 0xfe0f, unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r < 0x1100:
		return 1
	}
	switch eastasian.LookupRune(r).Kind() {
	case eastasian.EastAsianWide, eastasian.EastAsianFullwidth:
		return 2
	}
	return 1
}

func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}
