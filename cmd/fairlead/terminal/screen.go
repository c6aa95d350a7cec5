package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Style is how a text is set off.
type Style string

// The styles. They are told apart by more than colour: each use has a mark or a
// place of its own.
const (
	Plain Style = ""
	Dim   Style = "2"
	Bold  Style = "1"
	Warn  Style = "33"
)

const (
	escReset = "\x1b[0m"
	escClear = "\x1b[J" // from the cursor to the end of the screen
	escUp    = "\x1b[A"
)

// Screen writes text that scrolls, and keeps a few lines below it: what is going
// on, and the line that is being typed. The last, unfinished row of the text is
// drawn again with them, so that text goes on where it ended. Owned by one
// goroutine.
type Screen struct {
	out io.Writer
	// Live keeps the lines below; without it (no terminal) text alone is written.
	Live bool
	// Colour allows styles.
	Colour bool
	// Columns tells the width of the terminal; nil is 80.
	Columns func() int

	buf    strings.Builder
	row    string // the unfinished row, as it was written, styles included
	col    int    // columns that it takes
	below  int    // rows drawn below the row
	status string
	prompt string
	cursor int // column of the prompt
	input  bool
}

// NewScreen makes a screen that only writes text.
func NewScreen(out io.Writer) *Screen { return &Screen{out: out} }

func (s *Screen) columns() int {
	if s.Columns != nil {
		if n := s.Columns(); n >= 10 {
			return n
		}
	}
	return 80
}

// Write adds text where the text before ended.
func (s *Screen) Write(style Style, text string) {
	if text == "" {
		return
	}
	s.erase()
	s.add(style, Clean(text))
	s.draw()
}

// Para adds text on lines of its own.
func (s *Screen) Para(style Style, text string) {
	s.erase()
	s.freshLine()
	s.add(style, strings.TrimRight(Clean(text), "\n")+"\n")
	s.draw()
}

// Fresh goes to a new line if text stands on this one.
func (s *Screen) Fresh() {
	s.erase()
	s.freshLine()
	s.draw()
}

// Status sets the line above the prompt; "" takes it away.
func (s *Screen) Status(text string) {
	text = Line(text)
	if text == s.status {
		return
	}
	s.erase()
	s.status = text
	s.draw()
}

// Prompt sets the line that is typed, with the cursor after so many characters
// of text. Its tail is cut off where it does not fit.
func (s *Screen) Prompt(mark string, text []rune, cursor int) {
	s.erase()
	s.input = true
	s.prompt, s.cursor = window(mark, text, cursor, s.columns()-1)
	s.draw()
}

// Close takes the lines below away.
func (s *Screen) Close() {
	s.erase()
	s.input, s.status = false, ""
	s.freshLine()
	s.flush()
}

// window is the part of a long line around the cursor, and the cursor's column.
func window(mark string, text []rune, cursor, columns int) (string, int) {
	shown := []rune(mark)
	for _, r := range text {
		if r == '\n' {
			r = '⏎'
		}
		if r == '\t' {
			r = ' '
		}
		shown = append(shown, harmless(r))
	}
	cursor += len([]rune(mark))
	from, used := cursor, 0
	// What the cursor stands on may be two columns wide.
	for from > 0 && used+runeWidth(shown[from-1]) < columns-2 {
		from--
		used += runeWidth(shown[from])
	}
	to, all := cursor, used
	for to < len(shown) && all+runeWidth(shown[to]) < columns {
		all += runeWidth(shown[to])
		to++
	}
	return string(shown[from:to]), used
}

func (s *Screen) freshLine() {
	if s.col > 0 {
		s.add(Plain, "\n")
	}
}

// add writes text row by row. The terminal wraps rows itself, so that a copied
// line stays one line; here they are only counted.
func (s *Screen) add(style Style, text string) {
	on, off := s.style(style)
	columns := s.columns()
	start := s.buf.Len()
	s.buf.WriteString(on)
	var row strings.Builder
	row.WriteString(s.row)
	row.WriteString(on)
	for _, r := range text {
		piece, w := string(r), runeWidth(r)
		if r == '\t' { // a tab ends at the border
			at := s.col % columns
			w = min(tabStop-at%tabStop, columns-at)
			piece = strings.Repeat(" ", w)
		}
		switch {
		case r == '\n':
			s.buf.WriteString(s.newline())
			row.Reset()
			row.WriteString(on)
			s.col = 0
			continue
		case s.col+w > columns:
			row.Reset()
			row.WriteString(on)
			s.col = 0
		}
		s.col += w
		s.buf.WriteString(piece)
		row.WriteString(piece)
	}
	if s.buf.Len() > start {
		s.buf.WriteString(off)
		row.WriteString(off)
	}
	s.row = row.String()
	if s.col == 0 {
		s.row = ""
	}
}

func (s *Screen) newline() string {
	if s.Live {
		return "\r\n"
	}
	return "\n"
}

func (s *Screen) style(style Style) (on, off string) {
	if !s.Colour || style == Plain {
		return "", ""
	}
	return "\x1b[" + string(style) + "m", escReset
}

// erase takes the unfinished row and all below it away; draw writes them again.
func (s *Screen) erase() {
	if !s.Live {
		return
	}
	s.buf.WriteString("\r" + strings.Repeat(escUp, s.below) + escClear)
	s.below = 0
	s.buf.WriteString(s.row)
}

func (s *Screen) draw() {
	if s.Live && (s.input || s.status != "") {
		s.drawBelow()
	}
	s.flush()
}

func (s *Screen) drawBelow() {
	on, off := s.style(Dim)
	if s.col > 0 {
		s.buf.WriteString("\r\n")
		s.below++
	}
	if s.status != "" {
		s.buf.WriteString(on + short(s.status, s.columns()-1) + off)
		if s.input {
			s.buf.WriteString("\r\n")
			s.below++
		}
	}
	if s.input {
		s.buf.WriteString(s.prompt + "\r")
		if s.cursor > 0 {
			_, _ = fmt.Fprintf(&s.buf, "\x1b[%dC", s.cursor)
		}
	}
}

func (s *Screen) flush() {
	_, _ = io.WriteString(s.out, s.buf.String())
	s.buf.Reset()
}

// Reset draws all below the text anew on a cleared screen.
func (s *Screen) Reset() {
	if s.Live {
		s.buf.WriteString("\x1b[2J\x1b[H")
		s.below = 0
		s.row, s.col = "", 0
	}
	s.draw()
}
