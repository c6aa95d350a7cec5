package relay

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay/wire"
)

// maxErrorBytes bounds the text of an error that leaves the host (RH64).
const maxErrorBytes = 4096

// outward is an error as it may leave the host: its text without secrets, at most
// 4,096 bytes and never empty (RH64). Its cause stays for the log. An error that is no
// *wire.Error has no text of its own outside.
func outward(err error) error {
	var e *wire.Error
	if !errors.As(err, &e) {
		return err
	}
	text := outwardText(e.Message)
	fields := outwardFields(e.Fields)
	if text == e.Message && fields == nil {
		return err
	}
	out := *e
	out.Message = text
	if fields != nil {
		out.Fields = fields
	}
	return &out
}

func outwardText(text string) string {
	text = wire.Redacted(strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > maxErrorBytes {
		end := maxErrorBytes
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	if strings.TrimSpace(text) == "" {
		return "The host could not do this."
	}
	return text
}

// outwardFields is nil where nothing has to change. A path may hold a key that the
// other end made up.
func outwardFields(fields []wire.Field) (out []wire.Field) {
	for i, f := range fields {
		path := wire.Redacted(f.Path)
		if path == f.Path && out == nil {
			continue
		}
		if out == nil {
			out = append(out, fields[:i]...)
		}
		out = append(out, wire.Field{Path: path, Rule: f.Rule})
	}
	return out
}
