package socket

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay/wire"
)

// Head is the part that all commands share. It is exported for the decoder,
// which fills exported fields alone.
type Head struct {
	ID   string `json:"id" validate:"required"`
	Type string `json:"type" validate:"required"`
}

// maxIDChars is how long the client's id of a command may be.
const maxIDChars = 64

// decodeHead reads what a reply needs. On an error the frame is no command, and
// is answered without re.
func decodeHead(raw []byte) (Head, *wire.Error) {
	var keys map[string]json.RawMessage
	if err := wire.DecodeStrict(raw, &keys); err != nil {
		return Head{}, notACommand(raw, err)
	}
	var h Head
	if fault := text(keys["id"], &h.ID); fault != "" {
		return Head{}, headFault("id", fault)
	}
	if fault := text(keys["type"], &h.Type); fault != "" {
		return Head{}, headFault("type", fault)
	}
	return h, nil
}

// text reads a string of 1 to maxIDChars characters; it gives the rule that the
// value breaks, or "".
func text(raw json.RawMessage, into *string) (rule string) {
	if raw == nil {
		return "required"
	}
	if raw[0] != '"' || json.Unmarshal(raw, into) != nil {
		return "type"
	}
	switch n := utf8.RuneCountInString(*into); {
	case n == 0:
		return "min"
	case n > maxIDChars:
		return "max"
	}
	return ""
}

// notACommand says what a frame is that holds no JSON object. No field of it is
// at fault.
func notACommand(raw []byte, cause error) *wire.Error {
	switch first := bytes.TrimLeft(raw, " \t\r\n"); {
	case len(first) == 0:
		return wire.NewError(wire.CodeBadRequest, "The frame is empty.")
	case first[0] != '{':
		return wire.NewError(wire.CodeBadRequest, "A command is one JSON object.")
	}
	return wire.NewError(wire.CodeBadRequest, wire.AsError(cause).Message)
}

func headFault(path, rule string) *wire.Error {
	e := wire.NewError(wire.CodeBadRequest, "A command has an id of 1 to 64 characters and a type.")
	e.Fields = []wire.Field{{Path: path, Rule: rule}}
	return e
}

// idOf gives the id of a frame that is refused unread, or "".
func idOf(raw []byte) string {
	if h, err := decodeHead(raw); err == nil {
		return h.ID
	}
	return ""
}

// decode reads a command's frame into its struct and checks its shape.
func decode(raw []byte, into any) error {
	if err := wire.DecodeStrict(raw, into); err != nil {
		return err
	}
	return wire.CheckStruct(into)
}

// encodeReply puts a body's fields beside re and ok. A body is a struct, or nil
// for none.
func encodeReply(id string, body any) []byte {
	head := encode(struct {
		Re string `json:"re"`
		OK bool   `json:"ok"`
	}{id, true})
	if body == nil {
		return head
	}
	fields := encode(body)
	if len(fields) < 2 || fields[0] != '{' {
		return nil
	}
	if fields[1] == '}' {
		return head
	}
	reply := make([]byte, 0, len(head)+len(fields))
	reply = append(reply, head[:len(head)-1]...)
	reply = append(reply, ',')
	return append(reply, fields[1:]...)
}

// encodeError is the reply to a command that failed, or with id "" to a frame
// that was none.
func encodeError(id string, e *wire.Error) []byte {
	return encode(struct {
		Re    string          `json:"re,omitempty"`
		OK    bool            `json:"ok"`
		Error *wire.ErrorBody `json:"error"`
	}{id, false, e.Body()})
}

func frameTooLarge(limit int64) []byte {
	e := wire.NewError(wire.CodeFrameTooLarge, "The frame is too large.")
	e.Limit = int(limit)
	return encodeError("", e)
}
