package wire

import (
	"strings"
	"unicode"
)

// maxShown is how many characters of the other end's text are shown (RH64).
const maxShown = 140

// ShownText is text of another program as it may be shown to a person or written to
// a log: without control characters and line breaks, at most 140 characters (RH64).
func ShownText(text string) string {
	var out strings.Builder
	n := 0
	for _, r := range text {
		if unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) || unicode.Is(unicode.Bidi_Control, r) {
			continue
		}
		if n++; n > maxShown {
			break
		}
		out.WriteRune(r)
	}
	return out.String()
}
