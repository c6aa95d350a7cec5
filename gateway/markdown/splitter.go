package markdown

import (
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/fairlead/fairlead/gateway"
)

// Splitter renders an answer block by block while it streams: each top-level
// Markdown block once, as soon as the next one has begun.
//
// The blocks that it gives are consecutive ranges of the answer, from its first
// byte on, without gap or overlap; Flush gives what remains. Their HTML joined
// is that of the whole, but for two things: a reference link is resolved only
// within its own block, since its definition usually comes after it, and the
// bounds on hostile texts hold for each block by itself.
//
// It guesses from the first characters of a line that a block may begin there
// and asks the real parser whether one does, so that it cannot disagree with
// Render. The guesses are nearly always right, and after a wrong one it waits
// until the tail has doubled: a delta costs its own length, a block its own
// length a few times, however long the answer or the block is.
//
// A Splitter belongs to one goroutine.
type Splitter struct {
	render func(string) string
	blocks parser.Parser

	from int64  // where tail begins in the answer
	tail []byte // what is not yet given
	line int    // where the last, incomplete line begins in tail
	// asked is set once a block was sought at the incomplete line, so that each
	// further delta to it costs nothing until it is complete.
	asked bool
	// patience is the length that tail must reach before the parser is asked
	// again.
	patience int
	state    state
}

// NewSplitter makes a splitter that renders each block with render.
func NewSplitter(render func(string) string) *Splitter {
	// Building the engine counts up goldmark's context keys, which each parse
	// reads: so it is built before anything is parsed.
	shared()
	return &Splitter{render: render, blocks: blockParser()}
}

// blockParser finds blocks as newMarkdown does, and leaves lines unparsed.
func blockParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(blockParsers()...),
		parser.WithParagraphTransformers(append(parser.DefaultParagraphTransformers(),
			util.Prioritized(extension.NewTableParagraphTransformer(), 200))...),
	)
}

// Append takes the next piece of the answer, of whole characters, and gives the
// blocks that it finished.
func (s *Splitter) Append(piece string) []gateway.Block {
	var done []gateway.Block
	for len(piece) > 0 {
		n := lineEnd(piece)
		s.tail = append(s.tail, piece[:n]...)
		piece = piece[n:]
		complete := s.tail[len(s.tail)-1] == '\n'
		if block, ok := s.step(complete); ok {
			done = append(done, block)
		}
		if complete {
			s.state = s.state.after(string(s.tail[s.line:]))
			s.line, s.asked = len(s.tail), false
		}
	}
	return done
}

// Flush gives what remains as the last block, or none. The splitter is empty
// then and goes on at the same offset.
func (s *Splitter) Flush() []gateway.Block {
	if len(s.tail) == 0 {
		return nil
	}
	block := s.cut(len(s.tail))
	s.line, s.asked, s.patience, s.state = 0, false, 0, state{}
	return []gateway.Block{block}
}

// step looks at the last line and cuts before it if a block begins there.
func (s *Splitter) step(complete bool) (gateway.Block, bool) {
	if s.asked && !complete || s.line == 0 || len(s.tail) < s.patience {
		return gateway.Block{}, false
	}
	if !s.state.mayBegin(string(head(s.tail[s.line:])), complete) {
		return gateway.Block{}, false
	}
	s.asked = true
	switch s.seek(complete) {
	case unsure:
		return gateway.Block{}, false
	case inside:
		s.patience = 2 * len(s.tail)
		return gateway.Block{}, false
	}
	block := s.cut(s.line)
	s.line, s.patience, s.state = 0, 0, state{}
	return block, true
}

// finding is what the parser says of the last line.
type finding uint8

const (
	begins finding = iota // a top-level block begins with it
	inside                // it belongs to the block before
	unsure                // it may do either, once it is complete
)

// seek asks the parser whether a top-level block begins with the last line.
func (s *Splitter) seek(complete bool) finding {
	doc := s.blocks.Parse(text.NewReader(s.tail))
	last := doc.LastChild()
	if last == nil || last == doc.FirstChild() || last.Pos() < s.line {
		return inside
	}
	if _, definition := last.(*ast.LinkReferenceDefinition); definition {
		return inside
	}
	// A list that the state does not know of may yet take the line as an item.
	if _, list := last.PreviousSibling().(*ast.List); list && !complete && s.state.kind != kindList {
		return unsure
	}
	return begins
}

// cut gives tail up to n as a block and keeps the rest.
func (s *Splitter) cut(n int) gateway.Block {
	block := gateway.Block{From: s.from, To: s.from + int64(n), HTML: s.render(string(s.tail[:n]))}
	s.from += int64(n)
	s.tail = append(s.tail[:0], s.tail[n:]...)
	return block
}

// lineEnd is the length of the first line of a text with its line feed, or of
// all of it.
func lineEnd(text string) int {
	for i := range len(text) {
		if text[i] == '\n' {
			return i + 1
		}
	}
	return len(text)
}

// maxHead is how much of a line is looked at: enough for every marker.
const maxHead = 128

// head is the beginning of a line, cut between characters.
func head(line []byte) []byte {
	if len(line) <= maxHead {
		return line
	}
	n := maxHead
	for n > maxHead-utf8.UTFMax && !utf8.RuneStart(line[n]) {
		n--
	}
	return line[:n]
}
