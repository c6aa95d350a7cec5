package terminal

import (
	"reflect"
	"strings"
	"testing"
)

// typed feeds bytes, in pieces of a size, and gives the finished lines and what
// stands on the unfinished one.
func typed(input string, size int) (lines []string, rest string) {
	k, e := NewKeys(), &Editor{}
	for from := 0; from < len(input); from += size {
		for _, key := range k.Feed([]byte(input[from:min(from+size, len(input))])) {
			if line, done := e.Press(key); done {
				lines = append(lines, line)
			}
		}
	}
	text, cursor := e.Text()
	return lines, string(text[:cursor]) + "|" + string(text[cursor:])
}

func TestEditing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, input string
		lines       []string
		rest        string
	}{
		{"a line", "hello\r", []string{"hello"}, "|"},
		{"UTF-8", "日本é👍\r", []string{"日本é👍"}, "|"},
		{"backspace takes a character", "añ\x7fb", nil, "ab|"},
		{"arrows", "ac\x1b[Db\x1b[C\x1bOD", nil, "ab|c"},
		{"home and end", "b\x01a\x05c\x1b[Hx\x1b[4~y", nil, "xabcy|"},
		{"delete", "abc\x1b[H\x1b[3~\x04", nil, "|c"},
		{"kill", "one two  \x17", nil, "one |"},
		{"kill to both sides", "abc\x02\x0b\x15x", nil, "x|"},
		{"words", "one two\x1bb\x1bb\x1bfX", nil, "oneX| two"},
		{"paste keeps lines", "\x1b[200~a\r\nb\rc\x1b[201~\r", []string{"a\nb\nc"}, "|"},
		{"paste sends nothing", "\x1b[200~rm\r\x03\x04\x1b[A\x1b[201~", nil, "rm\n\x03\x04\x1b[A|"},
		{"Alt-Enter", "a\x1b\rb\r", []string{"a\nb"}, "|"},
		{"history", "one\rtwo\rdr\x1b[A\x1b[A\x1b[B\r\x1b[A", []string{"one", "two", "two"}, "two|"},
		{"the draft comes back", "one\rdr\x1b[A\x1b[B", []string{"one"}, "dr|"},
		{"unknown sequences are nothing", "a\x1b[99;99~\x1b[?1;2cb\x1bz", nil, "ab|"},
		{"broken bytes", "a\xffb\r", []string{"a\uFFFDb"}, "|"},
		{"tab", "a\tb", nil, "a b|"},
	} {
		for _, size := range []int{1, 2, 3, 1000} {
			lines, rest := typed(c.input, size)
			if !reflect.DeepEqual(lines, c.lines) || rest != c.rest {
				t.Errorf("%s, %d bytes at once: lines %q, rest %q", c.name, size, lines, rest)
			}
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("a\x1b[200~b\x1b[201~\r"), 1)
	f.Fuzz(func(t *testing.T, input []byte, size int) {
		size = 1 + (size&0x7fffffff)%8
		lines, rest := typed(string(input), size)
		if got := strings.Join(lines, "") + rest; !strings.Contains(got, "|") {
			t.Error("no cursor")
		}
	})
}
