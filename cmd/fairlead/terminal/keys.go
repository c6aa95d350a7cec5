package terminal

import (
	"strings"
	"unicode/utf8"
)

// Key is what was pressed: a rune, a name, or pasted text.
type Key struct {
	Name  string // "" for text
	Text  string // characters, or what was pasted
	Paste bool
}

// Names of keys.
const (
	KeyEnter     = "enter"
	KeyBackspace = "backspace"
	KeyDelete    = "delete"
	KeyLeft      = "left"
	KeyRight     = "right"
	KeyUp        = "up"
	KeyDown      = "down"
	KeyHome      = "home"
	KeyEnd       = "end"
	KeyInterrupt = "interrupt" // Ctrl-C
	KeyEOF       = "eof"       // Ctrl-D
	KeyKillLine  = "kill-line" // Ctrl-U
	KeyKillEnd   = "kill-end"  // Ctrl-K
	KeyKillWord  = "kill-word" // Ctrl-W
	KeyRedraw    = "redraw"    // Ctrl-L
	KeyNewline   = "newline"   // Alt-Enter
	KeyWordLeft  = "word-left"
	KeyWordRight = "word-right"
)

const (
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	// maxSequence is how long a sequence of a key may be; what is longer is none.
	maxSequence = 32
	maxPaste    = 4 << 20
)

func controls() map[byte]string {
	return map[byte]string{
		'\r': KeyEnter, '\n': KeyEnter, 0x7f: KeyBackspace, 0x08: KeyBackspace, 0x03: KeyInterrupt, 0x04: KeyEOF,
		0x01: KeyHome, 0x05: KeyEnd, 0x02: KeyLeft, 0x06: KeyRight, 0x0b: KeyKillEnd, 0x15: KeyKillLine,
		0x17: KeyKillWord, 0x0c: KeyRedraw, 0x10: KeyUp, 0x0e: KeyDown,
	}
}

func sequences() map[string]string {
	return map[string]string{
		"[A": KeyUp, "[B": KeyDown, "[C": KeyRight, "[D": KeyLeft, "OA": KeyUp, "OB": KeyDown, "OC": KeyRight, "OD": KeyLeft,
		"[H": KeyHome, "[F": KeyEnd, "OH": KeyHome, "OF": KeyEnd, "[1~": KeyHome, "[4~": KeyEnd, "[7~": KeyHome, "[8~": KeyEnd,
		"[3~": KeyDelete, "\r": KeyNewline, "\n": KeyNewline, "b": KeyWordLeft, "f": KeyWordRight, "[1;5D": KeyWordLeft,
		"[1;5C": KeyWordRight, "[1;3D": KeyWordLeft, "[1;3C": KeyWordRight, "\x7f": KeyKillWord,
	}
}

// Keys reads keys out of what a terminal sends, however it is cut.
type Keys struct {
	rest      []byte
	controls  map[byte]string
	sequences map[string]string
}

// NewKeys makes a reader of keys.
func NewKeys() *Keys { return &Keys{controls: controls(), sequences: sequences()} }

// Feed takes bytes and gives the keys that are whole. What may go on is kept.
func (k *Keys) Feed(p []byte) []Key {
	k.rest = append(k.rest, p...)
	var keys []Key
	for len(k.rest) > 0 {
		key, n := k.next(k.rest)
		if n == 0 {
			break
		}
		k.rest = k.rest[n:]
		if key.Name != "" || key.Text != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// next reads one key; n is 0 while it is not whole. An unknown one is empty.
func (k *Keys) next(p []byte) (key Key, n int) {
	switch c := p[0]; {
	case c == 0x1b:
		return k.escape(p)
	case c < 0x20 || c == 0x7f:
		if c == '\t' {
			return Key{Text: " "}, 1
		}
		return Key{Name: k.controls[c]}, 1
	}
	return text(p)
}

// text reads characters up to the next control character or the end.
func text(p []byte) (Key, int) {
	n := 0
	for n < len(p) && p[n] >= 0x20 && p[n] != 0x7f {
		if !utf8.FullRune(p[n:]) {
			break
		}
		_, size := utf8.DecodeRune(p[n:])
		n += size
	}
	return Key{Text: strings.ToValidUTF8(string(p[:n]), "\uFFFD")}, n
}

func (k *Keys) escape(p []byte) (Key, int) {
	if strings.HasPrefix(string(p), pasteBegin) {
		return paste(p)
	}
	if len(p) == 1 {
		return Key{}, 0
	}
	switch p[1] {
	case '[':
		for i := 2; i < len(p); i++ {
			if p[i] >= 0x40 && p[i] <= 0x7e {
				return Key{Name: k.sequences[string(p[1:i+1])]}, i + 1
			}
			if i >= maxSequence {
				return Key{}, i
			}
		}
		return Key{}, 0
	case 'O':
		if len(p) == 2 {
			return Key{}, 0
		}
		return Key{Name: k.sequences[string(p[1:3])]}, 3
	case 0x1b:
		return Key{}, 1
	}
	return Key{Name: k.sequences[string(p[1:2])]}, 2
}

func paste(p []byte) (Key, int) {
	body := string(p[len(pasteBegin):])
	text, _, whole := strings.Cut(body, pasteEnd)
	if !whole {
		if len(body) > maxPaste {
			return Key{}, len(p)
		}
		return Key{}, 0
	}
	n := len(pasteBegin) + len(text) + len(pasteEnd)
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return Key{Text: strings.ToValidUTF8(text, "\uFFFD"), Paste: true}, n
}
