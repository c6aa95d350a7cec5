package chat

import (
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
)

// What goes into one frame, in bytes of JSON: text may become six times as long
// there, and a reply that fits into no frame is none.
const (
	maxReplyJSON  = gateway.MaxFrameBytes - 64<<10
	maxEventsJSON = 640 << 10 // of a reply; the rest is for the running turn
	maxBlockJSON  = 256 << 10
	// maxBlocksJSON bounds the blocks of one turn. What follows them stays plain
	// text until the turn ends, so that an open brings a bounded amount of HTML.
	maxBlocksJSON = 4 << 20
	// eventJSON and partJSON stand for the keys of an event and of a message part.
	eventJSON, partJSON = 768, 64
)

// jsonLen is the length of a text in JSON.
func jsonLen(text string) int {
	n := 0
	for _, c := range text {
		n += jsonSize(c)
	}
	return n
}

func jsonSize(c rune) int {
	switch {
	case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
		return 2
	case c < 0x20, c == 0x7f, c == 0x2028, c == 0x2029, c == utf8.RuneError:
		return 6
	}
	return utf8.RuneLen(c)
}

// eventLen is about the length of an event in JSON, and no less.
func eventLen(e gateway.Event) int {
	n := eventJSON + jsonLen(e.HTML)
	if e.Content != nil {
		n += jsonLen(*e.Content)
	}
	if e.UserMessage != nil {
		for _, p := range e.UserMessage.Parts {
			n += partJSON + jsonLen(p.Text)
		}
	}
	return n
}

// cut splits text between characters into pieces of at most limit bytes, which
// are at most half as much longer in JSON.
func cut(text string, limit int) []string {
	var pieces []string
	from, size := 0, 0
	for i := 0; i < len(text); {
		c, width := utf8.DecodeRuneInString(text[i:])
		n := jsonSize(c)
		if i > from && (i+width-from > limit || size+n > limit+limit/2) {
			pieces = append(pieces, text[from:i])
			from, size = i, 0
		}
		size += n
		i += width
	}
	if from < len(text) {
		pieces = append(pieces, text[from:])
	}
	return pieces
}
