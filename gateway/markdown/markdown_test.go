package markdown_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway/markdown"
	"golang.org/x/net/html"
)

func TestRender(t *testing.T) {
	t.Parallel()
	const attrs = `target="_blank" rel="noopener noreferrer nofollow"`
	for _, c := range []struct{ name, md, want string }{
		{"empty", "", ""},
		{"emphasis", "**a** *b* ~~c~~ `d`", "<p><strong>a</strong> <em>b</em> <del>c</del> <code>d</code></p>\n"},
		{"link", `[a](https://b.c/d?e=f&g "h")`, `<p><a href="https://b.c/d?e=f&amp;g" title="h" ` + attrs + ">a</a></p>\n"},
		{"bare link", "see www.a.bc.", `<p>see <a href="http://www.a.bc" ` + attrs + ">www.a.bc</a>.</p>\n"},
		{"mail", "<a@b.cc>", `<p><a href="mailto:a@b.cc" ` + attrs + ">a@b.cc</a></p>\n"},
		{"reference link", "[a]\n\n[a]: http://b.c", `<p><a href="http://b.c" ` + attrs + ">a</a></p>\n"},
		{"image is a link", "![a](https://b.c/d.png)", `<p><a href="https://b.c/d.png" ` + attrs + ">a</a></p>\n"},
		{"image without words", "![](https://b.c/d)", `<p><a href="https://b.c/d" ` + attrs + ">https://b.c/d</a></p>\n"},
		{"image in a link", "[![a](http://x/y)](http://b.c)", `<p><a href="http://b.c" ` + attrs + ">a</a></p>\n"},
		{"data image is its words", "![a](data:image/png;base64,xx)", "<p>a</p>\n"},
		{"relative link is text", "[a](/admin/delete) [b](#c) [d](//e.f)", "<p>a b d</p>\n"},
		{"task list", "- [x] a\n- [ ] b", "<ul>\n<li><input type=\"checkbox\" disabled=\"\" checked=\"\" aria-label=\"done\"> a</li>\n" +
			"<li><input type=\"checkbox\" disabled=\"\" aria-label=\"to do\"> b</li>\n</ul>\n"},
		{"ordered from", "3. a", "<ol start=\"3\">\n<li>a</li>\n</ol>\n"},
		{"break in a cell", "|a|\n|:-:|\n|b<br>c|", "<table>\n<thead>\n<tr>\n<th align=\"center\">a</th>\n</tr>\n</thead>\n<tbody>\n" +
			"<tr>\n<td align=\"center\">b<br>\nc</td>\n</tr>\n</tbody>\n</table>\n"},
		{"html is text", "<div onclick=x>\n**a** <b>c</b>", "<p>&lt;div onclick=x&gt;\n<strong>a</strong> &lt;b&gt;c&lt;/b&gt;</p>\n"},
		{"code", "```go\nreturn 1\n```", "<pre class=\"chroma\" tabindex=\"0\"><code class=\"language-go\">" +
			"<span class=\"k\">return</span> <span class=\"mi\">1</span>\n</code></pre>\n"},
		{"code of no language", "```\n<a>\n```", "<pre class=\"chroma\" tabindex=\"0\"><code>&lt;a&gt;\n</code></pre>\n"},
		{"code of an odd language", "```\"onload=x\n<a>\n```", "<pre class=\"chroma\" tabindex=\"0\"><code>&lt;a&gt;\n</code></pre>\n"},
		{"invalid utf-8 and nul", "a\xffb\x00c", "<p>a\uFFFDb\uFFFDc</p>\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := markdown.Render(c.md); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestRender_CodeIsKeptToTheByte(t *testing.T) {
	t.Parallel()
	code := "func f() {\n\tx := `<b>` // \"quoted\" & more\n\n  }\n"
	for _, language := range []string{"", "go", "js", "javascript", "py", "c++", "html", "diff", "sh", "json", "nonesuch"} {
		if got := textOf(t, markdown.Render("```"+language+"\n"+code+"```\n")); got != code+"\n" {
			t.Errorf("%s: %q", language, got)
		}
	}
}

func textOf(t testing.TB, rendered string) string {
	t.Helper()
	var text strings.Builder
	for z := html.NewTokenizer(strings.NewReader(rendered)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return text.String()
		case html.TextToken:
			text.WriteString(z.Token().Data)
		}
	}
}

func hostileTexts() []string {
	repeat := strings.Repeat
	return []string{
		`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `<svg/onload=alert(1)>`, `<a href="javascript:alert(1)">x</a>`,
		`[x](javascript:alert(1))`, `[x](JaVaScRiPt:alert(1))`, "[x](java\tscript:alert(1))", `[x](&#106;avascript:alert(1))`,
		`[x](data:text/html;base64,PHNjcmlwdD4=)`, `[x](vbscript:x)`, `<javascript:alert(1)>`, `![x](javascript:alert(1))`,
		`![x"onerror="alert(1)](http://a.b)`, `[x](http://a.b "t\" onmouseover=\"alert(1)")`, `[x](http://a.b' onclick='x)`,
		"[x]: javascript:alert(1)\n\n[x]", "```\"><script>alert(1)</script>\nx\n```", "```html\n<script>alert(1)</script>\n```",
		"`<script>`", "<!-- <script> -->", "<![CDATA[<script>]]>", "<?php x ?>", "</p></div></body>", "<style>*{display:none}</style>",
		"<iframe src=//a.b>", "<form action=/x><input name=y>", "| <script> |\n|---|\n| <img onerror=x> |", "&lt;script&gt;", "&#60;script&#62;",
		"<br onload=x>", "<br/><BR />", "- [x] <script>", "# <script>", "> <script>", "http://a.b/<script>", "www.a.b\"onclick=x",
		"[a](http://b.c\n)", "\\<script>", "<scr<script>ipt>", "\u2028<script>", "![](http://a.b/\"><script>)", "<mailto:x@y.z?body=<script>>",
		"[x](https://user:pass@a.b)", "\x00<script>\x00", "[x](\x01javascript:alert(1))", "{#id onclick=x}", "# a {onclick=x}",
		repeat("[", 60000), repeat("[a](", 60000), repeat("![", 60000), repeat("**a**", 16000), repeat(">", 200000), repeat("> ", 5000) + "x",
		repeat("- ", 20000) + "x", repeat("`", 50000) + "a", repeat("*a_", 50000), repeat("|a", 3000) + "|\n" + repeat("|-", 3000) + "|\n" + repeat("|x\n", 3000),
		repeat("<", 100000), repeat("&", 100000), repeat("~~a", 50000), "```js\n" + repeat("`${", 30000), repeat("http://a.b ", 20000), repeat("[a]: b\n", 20000) + repeat("[a]", 20000),
	}
}

func TestRender_HostileTextsAreHarmless(t *testing.T) {
	t.Parallel()
	for _, md := range hostileTexts() {
		rendered := markdown.Render(md)
		if most := 200 * (len(md) + 100); len(rendered) > most {
			t.Errorf("%.40q grew from %d to %d bytes", md, len(md), len(rendered))
		}
		assertSafe(t, rendered)
	}
}

// assertSafe parses HTML and checks it against the list of what this package
// may write, tag by tag.
func assertSafe(t testing.TB, rendered string) {
	t.Helper()
	void := []string{"br", "hr", "input"}
	elements := strings.Fields("p br hr h1 h2 h3 h4 h5 h6 blockquote ul ol li em strong del pre code span table thead tbody tr th td a input")
	attributes := strings.Fields("href title target rel class start align type disabled checked aria-label tabindex")
	var open []string
	for z := html.NewTokenizer(strings.NewReader(rendered)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		if kind == html.TextToken {
			continue
		}
		if !slices.Contains(elements, token.Data) {
			t.Fatalf("%v %q in %.300q", kind, token.Data, rendered)
		}
		for _, a := range token.Attr {
			if !slices.Contains(attributes, a.Key) || a.Key == "href" && !allowedAddress(a.Val) {
				t.Fatalf("attribute %s=%q in %.300q", a.Key, a.Val, rendered)
			}
		}
		switch {
		case slices.Contains(void, token.Data):
		case kind == html.StartTagToken:
			open = append(open, token.Data)
		case kind == html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes %v in %.300q", token.Data, open, rendered)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) != 0 {
		t.Fatalf("%v stay open in %.300q", open, rendered)
	}
}

func allowedAddress(href string) bool {
	return strings.HasPrefix(href, "http://") || strings.HasPrefix(href, "https://") || strings.HasPrefix(href, "mailto:")
}

func FuzzRender(f *testing.F) {
	for _, md := range hostileTexts() {
		if len(md) < 200 {
			f.Add(md)
		}
	}
	f.Fuzz(func(t *testing.T, md string) {
		if len(md) > 4<<10 {
			t.Skip()
		}
		assertSafe(t, markdown.Render(md))
		assertSafe(t, joinBlocks(stream(strings.ToValidUTF8(md, "?"), each(7))))
	})
}

// BenchmarkRender_HostileTexts prints how many times as long the costliest of the
// hostile texts takes as prose of the same length.
func BenchmarkRender_HostileTexts(b *testing.B) {
	const line = "Some words of an answer, as **most** of them are: plain, with `code` now and then.\n\n"
	worst := 0.0
	for b.Loop() {
		for _, md := range hostileTexts() {
			if len(md) < 10_000 {
				continue
			}
			prose := strings.Repeat(line, len(md)/len(line)+1)
			worst = max(worst, float64(spent(md))/float64(spent(prose)))
		}
	}
	b.ReportMetric(worst, "x-prose")
}

func spent(md string) time.Duration {
	start := time.Now()
	markdown.Render(md)
	return time.Since(start)
}
