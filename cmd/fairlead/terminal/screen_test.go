package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// glass is a terminal of its own: it understands what Screen writes and nothing
// else, wraps rows, and keeps all that scrolled.
type glass struct {
	t        *testing.T
	columns  int
	rows     [][]rune
	row, col int
}

func (g *glass) Write(p []byte) (int, error) {
	s := string(p)
	for s != "" {
		r := []rune(s)[0]
		switch {
		case strings.HasPrefix(s, "\x1b["):
			s = g.sequence(s[2:])
			continue
		case r == '\r':
			g.col = 0
		case r == '\n':
			g.row++
		case r < ' ':
			g.t.Errorf("control character %q", r)
		default:
			g.put(r)
		}
		s = s[len(string(r)):]
	}
	return len(p), nil
}

func (g *glass) sequence(s string) (rest string) {
	end := strings.IndexAny(s, "ACJm")
	if end < 0 {
		g.t.Fatalf("unknown sequence %q", s)
	}
	n, _ := strconv.Atoi(s[:end])
	switch s[end] {
	case 'A':
		g.row -= max(n, 1)
	case 'C':
		g.col += max(n, 1)
	case 'J':
		g.rows = g.rows[:min(len(g.rows), g.row+1)]
		if g.row < len(g.rows) {
			g.rows[g.row] = g.rows[g.row][:min(len(g.rows[g.row]), g.col)]
		}
	}
	return s[end+1:]
}

func (g *glass) put(r rune) {
	w := runeWidth(r)
	if g.col+w > g.columns {
		g.row, g.col = g.row+1, 0
	}
	for len(g.rows) <= g.row {
		g.rows = append(g.rows, nil)
	}
	for len(g.rows[g.row]) < g.col+w {
		g.rows[g.row] = append(g.rows[g.row], ' ')
	}
	if w > 0 {
		g.rows[g.row][g.col] = r
	}
	if w == 2 {
		g.rows[g.row][g.col+1] = 0
	}
	g.col += w
}

func (g *glass) String() string {
	var b strings.Builder
	for _, row := range g.rows {
		b.WriteString(strings.ReplaceAll(string(row), "\x00", "") + "\n")
	}
	return b.String()
}

func TestAnAnswerStreamsAboveTheLine(t *testing.T) {
	t.Parallel()
	const columns = 20
	texts := map[string]string{
		"short lines": "one\ntwo\n\nthree", "exactly full": strings.Repeat("x", columns) + "\n" + strings.Repeat("y", columns*2),
		"a long line": strings.Repeat("word ", 40), "wide": strings.Repeat("日本x", 30), "tabs": "a\tb\tc\td\te", "accents": strings.Repeat("é", 50),
	}
	for name, text := range texts {
		for _, piece := range []int{1, 3, 7, 1000} {
			t.Run(fmt.Sprint(name, piece), func(t *testing.T) {
				t.Parallel()
				g := &glass{t: t, columns: columns}
				s := NewScreen(g)
				s.Live, s.Colour, s.Columns = true, true, func() int { return columns }
				s.Status("answering")
				s.Prompt("> ", []rune("typing"), 3)
				runes := []rune(text)
				for from := 0; from < len(runes); from += piece {
					s.Write(Bold, string(runes[from:min(from+piece, len(runes))]))
					s.Prompt("> ", []rune("typing on"), from%9)
				}
				want := &glass{t: t, columns: columns}
				for _, r := range strings.ReplaceAll(text, "\n", "\r\n") {
					if r == '\t' {
						_, _ = want.Write([]byte(strings.Repeat(" ", min(tabStop-want.col%tabStop, columns-want.col))))
						continue
					}
					_, _ = want.Write([]byte(string(r)))
				}
				below := "answering\n> typing on\n"
				if got := g.String(); got != want.String()+below {
					t.Errorf("the screen shows\n%s\nwant\n%s", got, want.String()+below)
				}
				s.Close()
				if got := g.String(); got != want.String() {
					t.Errorf("afterwards\n%s", got)
				}
			})
		}
	}
}

func TestALongLineShowsItsPartAroundTheCursor(t *testing.T) {
	t.Parallel()
	long := []rune(strings.Repeat("0123456789", 5))
	for cursor := range len(long) + 1 {
		text, col := window("> ", long, cursor, 20)
		if width(text) >= 20 || col >= 20 {
			t.Fatalf("at %d: %q, column %d", cursor, text, col)
		}
		if cursor < len(long) && []rune(text)[col] != long[cursor] {
			t.Errorf("at %d the cursor stands on %q", cursor, []rune(text)[col])
		}
	}
	if text, _ := window("> ", []rune("a\nb\x1b"), 0, 20); text != "> a⏎b␛" {
		t.Errorf("%q", text)
	}
}

func TestWithoutATerminalOnlyTextIsWritten(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := NewScreen(&b)
	s.Status("answering")
	s.Write(Bold, "one\ntw")
	s.Write(Plain, "o")
	s.Para(Dim, "note")
	s.Close()
	if b.String() != "one\ntwo\nnote\n" {
		t.Errorf("%q", b.String())
	}
}
