package markdown

import "strings"

// kind is what the last top-level block of a splitter's tail is.
type kind uint8

const (
	kindNone       kind = iota
	kindParagraph       // also a table, and the first line of an underlined heading
	kindClosed          // a heading, a rule or a closed fence: whatever follows is new
	kindUnderlined      // a heading by its underline of dashes, or a table before an empty item
	kindFence
	kindList
	kindQuote
	kindIndented
)

// state is what a splitter knows of the block that it is in. It is a guess: the
// parser decides.
type state struct {
	kind  kind
	blank bool // the line before was blank
	// fence is the marker that opened a fence.
	fence string
	// bullet is what the items of a list begin with: one of - + * . )
	bullet byte
}

// after is the state once a complete line was taken.
func (s state) after(line string) state {
	indent, rest := indentation(line)
	if s.kind == kindFence {
		if indent < 4 && closesFence(s.fence, rest) {
			return state{kind: kindClosed}
		}
		return s
	}
	if rest == "" {
		s.blank = s.kind != kindNone
		return s
	}
	blank := s.blank
	s.blank = false
	switch {
	case s.kind == kindNone:
		return opening(indent, rest)
	case s.kind == kindParagraph && !blank && indent < 4 && underlines(rest):
		if rest[0] == '-' {
			return state{kind: kindUnderlined}
		}
		return state{kind: kindClosed}
	}
	return s
}

// opening is the state after the first line of a block.
func opening(indent int, rest string) state {
	if indent >= 4 {
		return state{kind: kindIndented}
	}
	if marker := opensFence(rest); marker != "" {
		return state{kind: kindFence, fence: marker}
	}
	if isHeading(rest) || isRule(rest) {
		return state{kind: kindClosed}
	}
	if rest[0] == '>' {
		return state{kind: kindQuote}
	}
	if bullet, _ := listItem(rest); bullet != 0 {
		return state{kind: kindList, bullet: bullet}
	}
	return state{kind: kindParagraph}
}

// mayBegin tells whether the parser should be asked if a block begins with this
// line, of which the head is given. It says yes only when no further character
// of an incomplete line can take the new block away.
func (s state) mayBegin(head string, complete bool) bool {
	indent, rest := indentation(head)
	if rest == "" {
		return false
	}
	switch s.kind {
	case kindNone, kindFence:
		return false
	case kindClosed:
		return true
	case kindUnderlined:
		return complete
	case kindIndented:
		return indent < 4
	case kindParagraph:
		return s.blank || complete && indent < 4 && interrupts(rest) && !underlines(rest)
	case kindQuote:
		if s.blank {
			return true
		}
		return complete && indent < 4 && interrupts(rest) && rest[0] != '>'
	case kindList:
		return s.leavesList(indent, rest, complete)
	}
	return false
}

// leavesList tells whether a line may begin a block after a list: it stands left
// of what the items hold, and is no further item.
func (s state) leavesList(indent int, rest string, complete bool) bool {
	if indent >= 2 {
		return false
	}
	if bullet, _ := listItem(rest); bullet != 0 {
		return complete && (bullet != s.bullet || isRule(rest))
	}
	if !complete && strings.Trim(rest, "0123456789") == "" {
		return false
	}
	return s.blank || complete && interrupts(rest)
}

// interrupts tells whether a complete line ends a paragraph without a blank line
// between.
func interrupts(rest string) bool {
	if opensFence(rest) != "" || isHeading(rest) || isRule(rest) || rest[0] == '>' {
		return true
	}
	bullet, empty := listItem(rest)
	if bullet == 0 || empty {
		return false
	}
	return bullet != '.' && bullet != ')' || rest[0] == '1' && (rest[1] == '.' || rest[1] == ')')
}

// indentation gives the width of a line's indent, with tabs to the next multiple
// of four, and the line without it and without trailing blanks.
func indentation(line string) (int, string) {
	width := 0
	for i := range len(line) {
		switch line[i] {
		case ' ':
			width++
		case '\t':
			width += 4 - width%4
		default:
			return width, strings.TrimRight(line[i:], " \t\r\n")
		}
	}
	return width, ""
}

// opensFence gives the marker with which a line opens a code fence, or "".
func opensFence(rest string) string {
	c := rest[0]
	if c != '`' && c != '~' {
		return ""
	}
	n := len(rest) - len(strings.TrimLeft(rest, rest[:1]))
	if n < 3 || c == '`' && strings.Contains(rest[n:], "`") {
		return ""
	}
	return rest[:n]
}

func closesFence(marker, rest string) bool {
	return len(rest) >= len(marker) && strings.Trim(rest, marker[:1]) == ""
}

func isHeading(rest string) bool {
	after := strings.TrimLeft(rest, "#")
	level := len(rest) - len(after)
	return level >= 1 && level <= 6 && (after == "" || after[0] == ' ' || after[0] == '\t')
}

func isRule(rest string) bool {
	c := rest[0]
	if c != '-' && c != '*' && c != '_' {
		return false
	}
	drawn := strings.NewReplacer(" ", "", "\t", "").Replace(rest)
	return len(drawn) >= 3 && strings.Trim(drawn, rest[:1]) == ""
}

// underlines tells whether a line makes a heading of the paragraph before it.
func underlines(rest string) bool {
	return strings.Trim(rest, "=") == "" || strings.Trim(rest, "-") == ""
}

// listItem gives the bullet of a list item, or the character after its number,
// and whether nothing follows it; 0 for a line that is no item.
func listItem(rest string) (bullet byte, empty bool) {
	i := 0
	for i < len(rest) && i < 9 && rest[i] >= '0' && rest[i] <= '9' {
		i++
	}
	if i == len(rest) {
		return 0, false
	}
	c := rest[i]
	if i == 0 && c != '-' && c != '+' && c != '*' || i > 0 && c != '.' && c != ')' {
		return 0, false
	}
	if i+1 == len(rest) {
		return c, true
	}
	if rest[i+1] != ' ' && rest[i+1] != '\t' {
		return 0, false
	}
	return c, false
}
