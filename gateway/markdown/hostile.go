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
	// maxWalk is how many bytes may be walked over for brackets in one text: each
	// may be the end of a link, and looking costs up to the rest of its paragraph.
	maxWalk = 32 << 20
	// maxMarkers is how many runs of emphasis are looked at in one text: each may
	// be compared with all before it.
	maxMarkers = 10_000
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

// bounded is an inline parser that takes part until its budget for one text is
// spent; what comes after that is text.
type bounded struct {
	parser.InlineParser
	budget int
	// price of being asked here.
	price func(parent ast.Node, block text.Reader) int
	spent parser.ContextKey
}

func bound(p parser.InlineParser, budget int, price func(ast.Node, text.Reader) int) bounded {
	return bounded{InlineParser: p, budget: budget, price: price, spent: parser.NewContextKey()}
}

// each is the price of a parser whose work grows with how often it is asked.
func each(ast.Node, text.Reader) int { return 1 }

// rest is the price of a parser that may walk to the end of its paragraph.
func rest(parent ast.Node, block text.Reader) int {
	if parent.Type() != ast.TypeBlock || parent.Lines() == nil || parent.Lines().Len() == 0 {
		return 1
	}
	_, here := block.Position()
	return max(1, parent.Lines().At(parent.Lines().Len()-1).Stop-here.Start)
}

func (b bounded) Parse(parent ast.Node, block text.Reader, pc parser.Context) ast.Node {
	spent, _ := pc.Get(b.spent).(int)
	if spent >= b.budget {
		return nil
	}
	pc.Set(b.spent, spent+b.price(parent, block))
	return b.InlineParser.Parse(parent, block, pc)
}

// CloseBlock lets the parser turn what stayed open into text.
func (b bounded) CloseBlock(parent ast.Node, block text.Reader, pc parser.Context) {
	if closer, ok := b.InlineParser.(parser.CloseBlocker); ok {
		closer.CloseBlock(parent, block, pc)
	}
}
