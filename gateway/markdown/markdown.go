// Package markdown turns the Markdown of a model's answer into HTML that is safe
// to put into a page, whole (Render) or block by block while it streams
// (Splitter).
//
// An answer is untrusted: whoever wrote the web page, the file or the prompt
// that the model read may have written it. So raw HTML is text, never markup;
// nothing that is rendered makes a browser load anything from elsewhere (an
// image becomes a link); a link leads to http, https or mailto only, in a tab of
// its own, without referrer or opener; and everything passes an allow-list
// (bluemonday) after it was rendered. Rendering never panics and never fails: a
// text that defeats the renderer is shown as it is.
//
// The dialect is GitHub's: tables, strikethrough, task lists, bare links. There
// are no footnotes, no HTML but <br>, and code is highlighted by class names
// alone (CSS gives their rules), since the page forbids inline styles.
//
// The package holds no state but the one renderer, which is built at the first
// call and never changed after. It starts no goroutine of its own.
package markdown

import (
	"bytes"
	"html"
	"strings"
	"sync"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	goldhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
)

// engine is a Markdown converter and the policy that its output must pass. Both
// are safe for concurrent use and never change.
type engine struct {
	md     goldmark.Markdown
	policy *bluemonday.Policy
}

// shared is the one engine: building it costs about a millisecond, and its
// first use loads the lexers.
var shared = sync.OnceValue(func() *engine {
	return &engine{md: newMarkdown(), policy: newPolicy()}
})

// Render gives the sanitised HTML of a Markdown text. It never fails: what
// cannot be rendered comes back as escaped, preformatted text. Safe for
// concurrent use.
func Render(md string) (out string) {
	md = strings.ToValidUTF8(md, "\uFFFD")
	defer func() {
		if recover() != nil {
			out = plain(md)
		}
	}()
	if hostile(md) {
		return plain(md)
	}
	e := shared()
	var buf bytes.Buffer
	if err := e.md.Convert([]byte(md), &buf); err != nil {
		return plain(md)
	}
	return e.policy.SanitizeReader(&buf).String()
}

// plain shows a text as it was written.
func plain(md string) string {
	return "<pre tabindex=\"0\">" + html.EscapeString(strings.ReplaceAll(md, "\x00", "\uFFFD")) + "</pre>\n"
}

// newMarkdown builds the converter. The HTML parsers of blocks and lines are
// left out, so that HTML is text to every other rule too: what a model writes
// after "<div>" is still formatted, and an unclosed comment swallows nothing.
func newMarkdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithParser(parser.NewParser(
			parser.WithBlockParsers(blockParsers()...),
			parser.WithInlineParsers(inlineParsers()...),
			parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		)),
		goldmark.WithExtensions(
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
			extension.NewLinkify(extension.WithLinkifyAllowedProtocols([]string{"http:", "https:", "mailto:"})),
			extension.TaskList,
		),
		goldmark.WithRenderer(renderer.NewRenderer(renderer.WithNodeRenderers(
			util.Prioritized(goldhtml.NewRenderer(), 1000),
		))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(
			util.Prioritized(codeRenderer{}, 100),
			util.Prioritized(linkRenderer{}, 100),
			util.Prioritized(extension.NewStrikethroughHTMLRenderer(), 100),
		)),
	)
}

// blockParsers are goldmark's own without the one for HTML.
func blockParsers() []util.PrioritizedValue {
	return []util.PrioritizedValue{
		util.Prioritized(parser.NewSetextHeadingParser(), 100),
		util.Prioritized(parser.NewThematicBreakParser(), 200),
		util.Prioritized(parser.NewListParser(), 300),
		util.Prioritized(parser.NewListItemParser(), 400),
		util.Prioritized(parser.NewCodeBlockParser(), 500),
		util.Prioritized(parser.NewATXHeadingParser(), 600),
		util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
		util.Prioritized(parser.NewBlockquoteParser(), 800),
		util.Prioritized(parser.NewParagraphParser(), 1000),
	}
}

// inlineParsers are goldmark's own with the one for HTML replaced by lineBreak,
// and strikethrough.
func inlineParsers() []util.PrioritizedValue {
	return []util.PrioritizedValue{
		util.Prioritized(parser.NewCodeSpanParser(), 100),
		util.Prioritized(bound(parser.NewLinkParser(), maxWalk, rest), 200),
		util.Prioritized(parser.NewAutoLinkParser(), 300),
		util.Prioritized(lineBreak{}, 400),
		util.Prioritized(bound(parser.NewEmphasisParser(), maxMarkers, each), 500),
		util.Prioritized(bound(extension.NewStrikethroughParser(), maxMarkers, each), 500),
	}
}
