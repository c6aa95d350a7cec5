package markdown_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/markdown"
	"pgregory.net/rapid"
)

// stream feeds a text in pieces that end at the given rune counts, and gives all
// blocks.
func stream(md string, sizes func() int) []gateway.Block {
	s := markdown.NewSplitter(markdown.Render)
	var blocks []gateway.Block
	for md != "" {
		n := 0
		for range max(1, sizes()) {
			_, size := utf8.DecodeRuneInString(md[n:])
			n += size
		}
		blocks = append(blocks, s.Append(md[:n])...)
		md = md[n:]
	}
	return append(blocks, s.Flush()...)
}

func each(n int) func() int { return func() int { return n } }

func joined(t testing.TB, md string, blocks []gateway.Block) string {
	t.Helper()
	var html strings.Builder
	at := int64(0)
	for _, b := range blocks {
		if b.From != at || b.To <= b.From {
			t.Fatalf("block %d–%d after byte %d", b.From, b.To, at)
		}
		at = b.To
		html.WriteString(b.HTML)
	}
	if at != int64(len(md)) {
		t.Fatalf("blocks end at byte %d of %d", at, len(md))
	}
	return html.String()
}

func TestSplitter_CutsWhereAPersonSeesBlocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, md, want string }{
		{"paragraphs", "one\n\ntwo\n\n\nthree", "one\n\n¦two\n\n\n¦three"},
		{"heading and text", "# h\ntext\n", "# h\n¦text\n"},
		{"underlined heading", "head\n===\ntext\n\nhead\n---\nmore\n", "head\n===\n¦text\n\n¦head\n---\n¦more\n"},
		{"fence with blank lines", "```\na\n\n# no\n```\nafter", "```\na\n\n# no\n```\n¦after"},
		{"fence in fence", "````\n```\nx\n```\n````\ny", "````\n```\nx\n```\n````\n¦y"},
		{"tilde fence", "~~~ go\n```\n~~~\ny", "~~~ go\n```\n~~~\n¦y"},
		{"fence interrupts", "see:\n```\ncode\n```\n", "see:\n¦```\ncode\n```\n"},
		{"unclosed fence", "```\na\n\nb\n", "```\na\n\nb\n"},
		{"loose list is one", "- a\n\n- b\n\n  more\n\ntext", "- a\n\n- b\n\n  more\n\n¦text"},
		{"list with fence", "1. a\n\n   ```\n   x\n\n   y\n   ```\n\n2. b\n\nend", "1. a\n\n   ```\n   x\n\n   y\n   ```\n\n2. b\n\n¦end"},
		{"two lists", "- a\n* b\n", "- a\n¦* b\n"},
		{"numbers in text", "the year\n1984. was\n", "the year\n1984. was\n"},
		{"table", "| a | b |\n|---|---|\n| 1 | 2 |\n\nend", "| a | b |\n|---|---|\n| 1 | 2 |\n\n¦end"},
		{"nested quote", "> a\n> > b\nlazy\n\n> c\n", "> a\n> > b\nlazy\n\n¦> c\n"},
		{"indented code", "a\n\n    x\n\n    y\nb", "a\n\n¦    x\n\n    y\n¦b"},
		{"rule", "a\n\n---\nb", "a\n\n¦---\n¦b"},
		{"bold after list", "- a\n\n**b** c", "- a\n\n¦**b** c"},
		{"blank start", "\n\n  \na\n\nb", "\n\n  \na\n\n¦b"},
		{"html is text", "<div>\n\n**x**\n</div>\n\ny", "<div>\n\n¦**x**\n</div>\n\n¦y"},
		{"carriage returns", "a\r\n\r\n```\r\nx\r\n```\r\nb", "a\r\n\r\n¦```\r\nx\r\n```\r\n¦b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for size := 1; size <= len(c.md); size++ {
				blocks := stream(c.md, each(size))
				if html, want := joined(t, c.md, blocks), markdown.Render(c.md); html != want {
					t.Errorf("in pieces of %d:\n%s\nwhole:\n%s", size, html, want)
				}
				var got []string
				for _, b := range blocks {
					got = append(got, c.md[b.From:b.To])
				}
				if g := strings.Join(got, "¦"); g != c.want {
					t.Errorf("in pieces of %d: %q, want %q", size, g, c.want)
				}
			}
		})
	}
}

func TestSplitter_GivesABlockWhenTheNextBegins(t *testing.T) {
	t.Parallel()
	s := markdown.NewSplitter(markdown.Render)
	if got := s.Append("First paragraph.\n\n"); len(got) != 0 {
		t.Fatalf("given before the next began: %v", got)
	}
	got := s.Append("S")
	if len(got) != 1 || got[0] != (gateway.Block{From: 0, To: 18, HTML: "<p>First paragraph.</p>\n"}) {
		t.Fatalf("got %+v", got)
	}
	if got := s.Append("econd, a long one that goes on and on."); len(got) != 0 {
		t.Fatalf("got %+v", got)
	}
}

func TestSplitter_GoesOnAfterFlush(t *testing.T) {
	t.Parallel()
	s := markdown.NewSplitter(markdown.Render)
	s.Append("```\nopen")
	first, empty := s.Flush(), s.Flush()
	s.Append("next")
	second := s.Flush()
	if len(first) != 1 || len(empty) != 0 || len(second) != 1 || second[0].From != first[0].To {
		t.Fatalf("%v, %v, %v", first, empty, second)
	}
}

// blockGen makes Markdown blocks as models write them, and worse.
func blockGen() *rapid.Generator[string] {
	word := rapid.SampledFrom([]string{
		"word", "**bold**", "*it*", "`code`", "你好", "🌍", "[l](http://x.y)", "1984.", "-", "- a", "#", "a|b",
		"===", "---", "***", ">", "```", "~~~", "<b>", "  ", "1.", "2)", "+", "\\", "!", "&amp;", "~~s~~", "|", "\t",
	})
	line := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(word, 1, 5).Draw(t, "words"), rapid.SampledFrom([]string{" ", "", "  "}).Draw(t, "gap"))
	})
	start := rapid.SampledFrom([]string{
		"", "", "", "- ", "* ", "+ ", "1. ", "2. ", "10) ", "> ", "> > ", "> - ", "# ", "### ", "    ", "  ", "   ", "\t",
		"```go", "```", "   ```", "~~~", "|a|b|\n|-|-|\n", "---", "=== ", "- [ ] ", "  - ", "   1. ", " ", "-\t",
	})
	end := rapid.SampledFrom([]string{"\n", "\n", "\n", "\n\n", "\n \n", "\r\n", "\n\n\n"})
	return rapid.Custom(func(t *rapid.T) string {
		return start.Draw(t, "start") + line.Draw(t, "line") + end.Draw(t, "end")
	})
}

func TestSplitter_BlocksJoinedAreTheWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		md := strings.Join(rapid.SliceOfN(blockGen(), 1, 14).Draw(t, "blocks"), "")
		size := rapid.IntRange(1, 40)
		blocks := stream(md, func() int { return size.Draw(t, "size") })
		html := ""
		at := int64(0)
		for _, b := range blocks {
			if b.From != at {
				t.Fatalf("block %d–%d after byte %d", b.From, b.To, at)
			}
			at, html = b.To, html+b.HTML
		}
		if at != int64(len(md)) {
			t.Fatalf("blocks end at %d of %d", at, len(md))
		}
		if want := markdown.Render(md); html != want {
			t.Fatalf("%q\nblocks: %v\njoined: %s\nwhole:  %s", md, blocks, html, want)
		}
	})
}

// TestF40_CostPerDeltaIsThatOfTheTail counts what a splitter renders: each byte
// once. That time stays linear too is shown by BenchmarkSplitter.
func TestF40_CostPerDeltaIsThatOfTheTail(t *testing.T) {
	t.Parallel()
	for name, md := range hugeAnswers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendered := 0
			s := markdown.NewSplitter(func(md string) string { rendered += len(md); return "" })
			for at := 0; at < len(md); at += 30 {
				s.Append(md[at:min(at+30, len(md))])
			}
			s.Flush()
			if rendered != len(md) {
				t.Errorf("rendered %d bytes of %d", rendered, len(md))
			}
		})
	}
}

func hugeAnswers() map[string]string {
	return map[string]string{
		"one code block":   "```\n" + strings.Repeat("x := x + 1 // a line of code\n", 7000) + "```\nend\n",
		"one list":         strings.Repeat("- an item\n\n  # with more\n", 8000),
		"one paragraph":    strings.Repeat("**a** words ", 16000),
		"one quote":        strings.Repeat("> quoted\n", 20000),
		"one table":        "|a|b|\n|-|-|\n" + strings.Repeat("|1|2|\n", 30000),
		"many paragraphs":  strings.Repeat("A paragraph of text.\n\n", 9000),
		"lines in a fence": "   ```\n" + strings.Repeat("# no\n\n- heading\n", 12000),
		"fence in a list":  "1. a\n\n  ```\n" + strings.Repeat("text\n\n# x\n", 20000),
		"definitions":      "a\n\n" + strings.Repeat("[a]: http://b.c\n\n", 12000),
	}
}

func BenchmarkSplitter(b *testing.B) {
	for name, md := range hugeAnswers() {
		for _, part := range []int{4, 1} {
			text := md[:len(md)/part]
			b.Run(fmt.Sprintf("%s/%dKB", strings.ReplaceAll(name, " ", "_"), len(text)>>10), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					s := markdown.NewSplitter(func(string) string { return "" })
					for at := 0; at < len(text); at += 30 {
						s.Append(text[at:min(at+30, len(text))])
					}
					s.Flush()
				}
			})
		}
	}
}

func joinBlocks(blocks []gateway.Block) string {
	var all strings.Builder
	for _, b := range blocks {
		all.WriteString(b.HTML)
	}
	return all.String()
}
