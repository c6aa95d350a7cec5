package markdown

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Bounds for texts that are short to write and long to render. No answer that
// somebody wants to read comes near them.
const (
	// maxDepth is how many quotes and lists one line may open.
	maxDepth = 100
	// maxCells is how many cells the tables of a text may have: a row of three
	// bytes is filled up to the width of its table.
	maxCells = 100_000
	// maxBrackets and maxMarkers are how many brackets, and how many runs of
	// emphasis, are parsed in one text; what comes after them is text. Each may
	// cost a walk over the rest of its paragraph.
	maxBrackets = 4000
	maxMarkers  = 20_000
)

// hostile tells whether rendering a text would cost far more than its length.
func hostile(md string) bool {
	columns, rows := 0, 0
	for line := range strings.Lines(md) {
		if depth(line) > maxDepth {
			return true
		}
		pipes := strings.Count(line, "|")
		if pipes == 0 {
			continue
		}
		rows++
		if strings.Trim(line, "|:- \t\r\n") == "" {
			columns = max(columns, pipes+1)
		}
	}
	return columns*rows > maxCells
}

// depth bounds from above how many containers a line opens. A line drawn with
// one character is a rule or text.
func depth(line string) int {
	n, first, mixed := 0, byte(0), false
	for i := range len(line) {
		switch c := line[i]; c {
		case '>', '-', '+', '*', '.', ')':
			n++
			if first == 0 {
				first = c
			}
			mixed = mixed || c != first || c == '>'
		case ' ', '\t', '\r', '\n', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		default:
			return n
		}
	}
	if !mixed {
		return 0
	}
	return n
}

// bounded is an inline parser that takes part until it was asked max times in
// one text.
type bounded struct {
	parser.InlineParser
	asked parser.ContextKey
	max   int
}

func bound(p parser.InlineParser, limit int) bounded {
	return bounded{InlineParser: p, asked: parser.NewContextKey(), max: limit}
}

func (b bounded) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	n, _ := pc.Get(b.asked).(int)
	if n >= b.max {
		return nil
	}
	pc.Set(b.asked, n+1)
	return b.InlineParser.Parse(parent, block, pc)
}

// CloseBlock lets the parser turn what stayed open into text.
func (b bounded) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	if closer, ok := b.InlineParser.(parser.CloseBlocker); ok {
		closer.CloseBlock(parent, block, pc)
	}
}
