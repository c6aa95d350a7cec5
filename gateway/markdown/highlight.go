package markdown

import (
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// What is highlighted is bounded, since the lexers are regular expressions run
// over text that a stranger may have shaped. Above the bounds code is shown
// plain; the bounds depend on the text alone, so that every reader sees the same.
const (
	maxHighlightBytes = 32 << 10
	maxHighlightLine  = 4 << 10
	maxLanguageBytes  = 32
)

var languageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+#._-]*$`)

// codeRenderer writes code blocks: <pre class="chroma"><code class="language-x">
// with a span per token.
type codeRenderer struct{}

func (r codeRenderer) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, r.block)
	reg.Register(ast.KindCodeBlock, r.block)
}

func (codeRenderer) block(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var language string
	if fenced, ok := n.(*ast.FencedCodeBlock); ok {
		language = languageOf(string(fenced.Language(source)))
	}
	_, _ = w.WriteString(`<pre class="chroma" tabindex="0"><code`)
	if language != "" {
		_, _ = w.WriteString(` class="language-` + language + `"`)
	}
	_, _ = w.WriteString(">")
	writeCode(w, language, codeOf(n, source))
	_, _ = w.WriteString("</code></pre>\n")
	return ast.WalkSkipChildren, nil
}

func codeOf(n ast.Node, source []byte) string {
	var code strings.Builder
	lines := n.Lines()
	for i := range lines.Len() {
		segment := lines.At(i)
		code.Write(segment.Value(source))
	}
	return code.String()
}

// languageOf gives a language name that is safe in a class, or "".
func languageOf(info string) string {
	if len(info) > maxLanguageBytes || !languageName.MatchString(info) {
		return ""
	}
	return strings.ToLower(info)
}

func writeCode(w util.BufWriter, language, code string) {
	for _, token := range tokens(language, code) {
		text := util.EscapeHTML([]byte(token.Value))
		class := classOf(token.Type)
		if class == "" || token.Type.InCategory(chroma.Text) || token.Type == chroma.Error {
			_, _ = w.Write(text)
			continue
		}
		_, _ = w.WriteString(`<span class="` + class + `">`)
		_, _ = w.Write(text)
		_, _ = w.WriteString("</span>")
	}
}

// tokens gives the code as tokens whose values together are the code again. It
// is one plain token where the language is unknown, the code is beyond the
// bounds, or the lexer fails.
func tokens(language, code string) (out []chroma.Token) {
	whole := []chroma.Token{{Type: chroma.Text, Value: code}}
	defer func() {
		if recover() != nil {
			out = whole
		}
	}()
	if language == "" || len(code) > maxHighlightBytes || longestLine(code) > maxHighlightLine {
		return whole
	}
	lexer := lexers.Get(language)
	if lexer == nil {
		return whole
	}
	it, err := chroma.Coalesce(lexer).Tokenise(&chroma.TokeniseOptions{State: "root"}, code)
	if err != nil {
		return whole
	}
	out = it.Tokens()
	if !sameText(out, code) {
		return whole
	}
	return out
}

// sameText guards against lexers that add or drop something: a reader copies
// code from here.
func sameText(list []chroma.Token, code string) bool {
	for _, token := range list {
		rest, ok := strings.CutPrefix(code, token.Value)
		if !ok {
			return false
		}
		code = rest
	}
	return code == ""
}

func longestLine(code string) int {
	longest := 0
	for line := range strings.Lines(code) {
		longest = max(longest, len(line))
	}
	return longest
}

// classOf is the short class name of a token, or of the nearest kind above it
// that has one.
func classOf(t chroma.TokenType) string {
	for t != 0 {
		if class, ok := chroma.StandardTypes[t]; ok {
			return class
		}
		t = t.Parent()
	}
	return ""
}
