package markdown

import (
	"net/url"
	"regexp"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

var brTag = regexp.MustCompile(`^<[bB][rR][ \t]*/?>`)

// lineBreak reads <br>, the one tag that models need: a table cell knows no
// other way to break a line.
type lineBreak struct{}

func (lineBreak) Trigger() []byte { return []byte{'<'} }

func (lineBreak) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, segment := block.PeekLine()
	tag := brTag.Find(line)
	if tag == nil {
		return nil
	}
	block.Advance(len(tag))
	br := ast.NewTextSegment(text.NewSegment(segment.Start, segment.Start))
	br.SetHardLineBreak(true)
	return br
}

// linkRenderer writes links, images and task boxes.
type linkRenderer struct{}

func (r linkRenderer) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindLink, r.link)
	reg.Register(ast.KindAutoLink, r.autoLink)
	reg.Register(ast.KindImage, r.image)
	reg.Register(extast.KindTaskCheckBox, r.taskBox)
}

func (linkRenderer) link(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	link := n.(*ast.Link)
	if !safeURL(link.Destination) || insideLink(n) {
		return ast.WalkContinue, nil
	}
	if !entering {
		_, _ = w.WriteString("</a>")
		return ast.WalkContinue, nil
	}
	openAnchor(w, link.Destination, link.Title)
	return ast.WalkContinue, nil
}

func (linkRenderer) autoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	link := n.(*ast.AutoLink)
	label, dest := util.EscapeHTML(link.Label(source)), link.URL(source)
	if link.AutoLinkType == ast.AutoLinkEmail {
		dest = append([]byte("mailto:"), dest...)
	}
	if !safeURL(dest) || insideLink(n) {
		_, _ = w.Write(label)
		return ast.WalkContinue, nil
	}
	openAnchor(w, dest, nil)
	_, _ = w.Write(label)
	_, _ = w.WriteString("</a>")
	return ast.WalkContinue, nil
}

// image writes a link in place of the image: a picture that loads by itself
// tells a stranger who reads the answer, and when, and can carry words of the
// conversation away in its address.
func (linkRenderer) image(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	image := n.(*ast.Image)
	if !safeURL(image.Destination) || insideLink(n) {
		return ast.WalkContinue, nil
	}
	if !entering {
		_, _ = w.WriteString("</a>")
		return ast.WalkContinue, nil
	}
	openAnchor(w, image.Destination, image.Title)
	if !n.HasChildren() {
		_, _ = w.Write(util.EscapeHTML(image.Destination))
	}
	return ast.WalkContinue, nil
}

func (linkRenderer) taskBox(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	if n.(*extast.TaskCheckBox).IsChecked {
		_, _ = w.WriteString(`<input type="checkbox" disabled="" checked="" aria-label="done"> `)
	} else {
		_, _ = w.WriteString(`<input type="checkbox" disabled="" aria-label="to do"> `)
	}
	return ast.WalkContinue, nil
}

const (
	linkRel    = "noopener noreferrer nofollow"
	linkTarget = "_blank"
)

func openAnchor(w util.BufWriter, dest, title []byte) {
	_, _ = w.WriteString(`<a href="`)
	_, _ = w.Write(util.EscapeHTML(util.URLEscape(dest, true)))
	if len(title) > 0 {
		_, _ = w.WriteString(`" title="`)
		_, _ = w.Write(util.EscapeHTML(title))
	}
	_, _ = w.WriteString(`" target="` + linkTarget + `" rel="` + linkRel + `">`)
}

// safeURL tells whether a link may lead there. Relative addresses are refused:
// an answer has no place of its own that they could be relative to, and within
// this site they would lead to pages that act.
func safeURL(dest []byte) bool {
	u, err := url.Parse(string(util.URLEscape(dest, true)))
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Host != ""
	case "mailto":
		return u.Opaque != ""
	}
	return false
}

// insideLink tells whether an ancestor is written as a link, which must not
// hold another.
func insideLink(n ast.Node) bool {
	for p := n.Parent(); p != nil && p.Type() == ast.TypeInline; p = p.Parent() {
		switch above := p.(type) {
		case *ast.Link:
			if safeURL(above.Destination) {
				return true
			}
		case *ast.Image:
			if safeURL(above.Destination) {
				return true
			}
		}
	}
	return false
}
