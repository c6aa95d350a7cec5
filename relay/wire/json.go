package wire

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxJSONDepth is how deep objects and arrays may nest.
const MaxJSONDepth = 32

// nodeKind is what a JSON value is.
type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeBool
	nodeNumber
	nodeString
	nodeArray
	nodeObject
)

// node is one parsed JSON value. raw is the text of the value itself, text the
// unescaped string.
type node struct {
	kind    nodeKind
	raw     []byte
	text    string
	members []member
	elems   []node
}

type member struct {
	key   string
	value node
}

func (n *node) get(key string) *node {
	for i := range n.members {
		if n.members[i].key == key {
			return &n.members[i].value
		}
	}
	return nil
}

// syntaxError is text that is not strict JSON. rule is one of Field's.
type syntaxError struct {
	rule string
	what string
	at   int
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

// parseJSON reads exactly one JSON value. It refuses what encoding/json lets
// pass: duplicate keys, invalid UTF-8, lone surrogates.
func parseJSON(raw []byte) (*node, error) {
	return parseBounded(raw, 0)
}

// parseBounded is parseJSON for at most so many values, those within others among
// them; 0 sets no bound. A value takes far more memory than its text.
func parseBounded(raw []byte, values int) (*node, error) {
	p := parser{src: raw, bound: values}
	p.space()
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	p.space()
	if p.pos != len(p.src) {
		return nil, p.fail("type", "text after the value")
	}
	return &n, nil
}

type parser struct {
	src    []byte
	pos    int
	values int
	bound  int // 0: none
}

func (p *parser) fail(rule, what string) error {
	return &syntaxError{rule: rule, what: what, at: p.pos}
}

func (p *parser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

func (p *parser) value(depth int) (node, error) {
	if depth > MaxJSONDepth {
		return node{}, p.fail("max", "value nested too deeply")
	}
	if p.values++; p.bound > 0 && p.values > p.bound {
		return node{}, p.fail("max", "too many values")
	}
	start := p.pos
	var n node
	var err error
	switch c := p.peek(); {
	case c == '{':
		n, err = p.object(depth)
	case c == '[':
		n, err = p.array(depth)
	case c == '"':
		n.kind = nodeString
		n.text, err = p.str()
	case c == '-' || c >= '0' && c <= '9':
		n.kind = nodeNumber
		err = p.number()
	case c == 't':
		n.kind, err = nodeBool, p.word("true")
	case c == 'f':
		n.kind, err = nodeBool, p.word("false")
	case c == 'n':
		n.kind, err = nodeNull, p.word("null")
	default:
		err = p.fail("type", "no JSON value")
	}
	n.raw = p.src[start:p.pos:p.pos]
	return n, err
}

func (p *parser) word(w string) error {
	if len(p.src)-p.pos < len(w) || string(p.src[p.pos:p.pos+len(w)]) != w {
		return p.fail("type", "no JSON value")
	}
	p.pos += len(w)
	return nil
}

func (p *parser) object(depth int) (node, error) {
	n := node{kind: nodeObject}
	seen := map[string]struct{}{}
	p.pos++
	p.space()
	if p.peek() == '}' {
		p.pos++
		return n, nil
	}
	for {
		if p.peek() != '"' {
			return n, p.fail("type", "no key")
		}
		key, err := p.str()
		if err != nil {
			return n, err
		}
		if _, dup := seen[key]; dup {
			return n, p.fail("unknown", "repeated key")
		}
		seen[key] = struct{}{}
		p.space()
		if p.peek() != ':' {
			return n, p.fail("type", "no colon after a key")
		}
		p.pos++
		p.space()
		v, err := p.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.members = append(n.members, member{key: key, value: v})
		if done, err := p.next('}'); done || err != nil {
			return n, err
		}
	}
}

func (p *parser) array(depth int) (node, error) {
	n := node{kind: nodeArray}
	p.pos++
	p.space()
	if p.peek() == ']' {
		p.pos++
		return n, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.elems = append(n.elems, v)
		if done, err := p.next(']'); done || err != nil {
			return n, err
		}
	}
}

// next takes the comma before another item, or the bracket that ends the list.
func (p *parser) next(end byte) (done bool, err error) {
	p.space()
	switch p.peek() {
	case end:
		p.pos++
		return true, nil
	case ',':
		p.pos++
		p.space()
		return false, nil
	}
	return false, p.fail("type", "no comma between items")
}

func (p *parser) number() error {
	if p.peek() == '-' {
		p.pos++
	}
	switch c := p.peek(); {
	case c == '0':
		p.pos++
	case c >= '1' && c <= '9':
		p.digits()
	default:
		return p.fail("type", "malformed number")
	}
	if p.peek() == '.' {
		p.pos++
		if !p.digits() {
			return p.fail("type", "malformed number")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.pos++
		if s := p.peek(); s == '+' || s == '-' {
			p.pos++
		}
		if !p.digits() {
			return p.fail("type", "malformed number")
		}
	}
	return nil
}

func (p *parser) digits() bool {
	from := p.pos
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.pos++
	}
	return p.pos > from
}

// str reads a string with its quotes. A string without escapes is copied once.
func (p *parser) str() (string, error) {
	p.pos++
	start := p.pos
	var buf []byte
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		switch {
		case c == '"':
			part := p.src[start:p.pos]
			p.pos++
			if buf == nil {
				return string(part), nil
			}
			return string(append(buf, part...)), nil
		case c == '\\':
			buf = append(buf, p.src[start:p.pos]...)
			var err error
			if buf, err = p.escape(buf); err != nil {
				return "", err
			}
			start = p.pos
		case c < 0x20:
			return "", p.fail("type", "raw control character in a string")
		case c < utf8.RuneSelf:
			p.pos++
		default:
			r, size := utf8.DecodeRune(p.src[p.pos:])
			if r == utf8.RuneError && size == 1 {
				return "", p.fail("utf8", "invalid UTF-8")
			}
			p.pos += size
		}
	}
	return "", p.fail("type", "unterminated string")
}

func (p *parser) escape(buf []byte) ([]byte, error) {
	p.pos++
	c := p.peek()
	p.pos++
	switch c {
	case '"', '\\', '/':
		return append(buf, c), nil
	case 'b':
		return append(buf, '\b'), nil
	case 'f':
		return append(buf, '\f'), nil
	case 'n':
		return append(buf, '\n'), nil
	case 'r':
		return append(buf, '\r'), nil
	case 't':
		return append(buf, '\t'), nil
	case 'u':
		r, err := p.unicode()
		return utf8.AppendRune(buf, r), err
	}
	return nil, p.fail("type", "unknown escape")
}

func (p *parser) unicode() (rune, error) {
	r, err := p.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if p.pos+1 < len(p.src) && p.src[p.pos] == '\\' && p.src[p.pos+1] == 'u' {
		p.pos += 2
		low, err := p.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, p.fail("utf8", "lone surrogate")
}

func (p *parser) hex4() (rune, error) {
	if p.pos+4 > len(p.src) {
		return 0, p.fail("type", "malformed escape")
	}
	var r rune
	for _, c := range p.src[p.pos : p.pos+4] {
		d, ok := hexDigit(c)
		if !ok {
			return 0, p.fail("type", "malformed escape")
		}
		r = r<<4 | d
	}
	p.pos += 4
	return r, nil
}

func hexDigit(c byte) (rune, bool) {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0'), true
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10, true
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}

// syntaxFault turns a parse error into the error that a caller may see.
func syntaxFault(code Code, err error) *Error {
	e := WrapError(code, "This is not one well-formed JSON object.", err)
	var s *syntaxError
	if errors.As(err, &s) {
		e.Message = "This is not strict JSON: " + s.what + " at byte " + strconv.Itoa(s.at) + "."
		e.Fields = []Field{{Path: "", Rule: s.rule}}
	}
	return e
}
