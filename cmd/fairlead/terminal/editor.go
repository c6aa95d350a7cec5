package terminal

import (
	"slices"
	"strings"
	"unicode"
)

const maxHistory = 500

// Editor is the line that is being typed and the ones before it.
type Editor struct {
	text    []rune
	cursor  int
	history []string
	at      int    // the line of history that is shown; len(history) is the new one
	draft   string // the new line, while one of history is shown
}

// Text is the line and where the cursor stands in it.
func (e *Editor) Text() ([]rune, int) { return e.text, e.cursor }

// Empty tells whether nothing is typed.
func (e *Editor) Empty() bool { return len(e.text) == 0 }

// Clear takes the line away.
func (e *Editor) Clear() { e.set("") }

// Press takes a key. A finished line is given with done.
func (e *Editor) Press(k Key) (line string, done bool) {
	if k.Name == "" {
		e.insert(k.Text)
		return "", false
	}
	switch k.Name {
	case KeyEnter:
		return e.enter(), true
	case KeyNewline:
		e.insert("\n")
	case KeyUp:
		e.recall(e.at - 1)
	case KeyDown:
		e.recall(e.at + 1)
	case KeyBackspace:
		e.cut(e.cursor-1, e.cursor)
	case KeyDelete, KeyEOF:
		e.cut(e.cursor, e.cursor+1)
	case KeyKillLine:
		e.cut(0, e.cursor)
	case KeyKillEnd:
		e.cut(e.cursor, len(e.text))
	case KeyKillWord:
		e.cut(e.wordLeft(), e.cursor)
	default:
		e.move(k.Name)
	}
	return "", false
}

func (e *Editor) move(name string) {
	switch name {
	case KeyLeft:
		e.cursor--
	case KeyRight:
		e.cursor++
	case KeyHome:
		e.cursor = 0
	case KeyEnd:
		e.cursor = len(e.text)
	case KeyWordLeft:
		e.cursor = e.wordLeft()
	case KeyWordRight:
		e.cursor = e.wordRight()
	}
	e.cursor = min(max(e.cursor, 0), len(e.text))
}

func (e *Editor) enter() string {
	line := string(e.text)
	if strings.TrimSpace(line) != "" && (len(e.history) == 0 || e.history[len(e.history)-1] != line) {
		e.history = append(e.history, line)
		e.history = e.history[max(0, len(e.history)-maxHistory):]
	}
	e.at = len(e.history)
	e.set("")
	return line
}

func (e *Editor) set(s string) {
	e.text = []rune(s)
	e.cursor = len(e.text)
}

func (e *Editor) insert(s string) {
	runes := slices.DeleteFunc([]rune(s), func(r rune) bool { return r == 0 })
	e.text = slices.Insert(e.text, e.cursor, runes...)
	e.cursor += len(runes)
}

func (e *Editor) cut(from, to int) {
	from, to = max(from, 0), min(to, len(e.text))
	if from >= to {
		return
	}
	e.text = slices.Delete(e.text, from, to)
	e.cursor = from
}

func (e *Editor) recall(at int) {
	if at < 0 || at > len(e.history) {
		return
	}
	if e.at == len(e.history) {
		e.draft = string(e.text)
	}
	e.at = at
	if at == len(e.history) {
		e.set(e.draft)
		return
	}
	e.set(e.history[at])
}

func (e *Editor) wordLeft() int {
	i := e.cursor
	for i > 0 && unicode.IsSpace(e.text[i-1]) {
		i--
	}
	for i > 0 && !unicode.IsSpace(e.text[i-1]) {
		i--
	}
	return i
}

func (e *Editor) wordRight() int {
	i := e.cursor
	for i < len(e.text) && unicode.IsSpace(e.text[i]) {
		i++
	}
	for i < len(e.text) && !unicode.IsSpace(e.text[i]) {
		i++
	}
	return i
}
