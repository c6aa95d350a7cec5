package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MaxLinkFrame is the size of the largest frame of a link, both ways: a prompt with
// all the images that it may have fits.
const MaxLinkFrame = 8 << 20

// maxLinkValues bounds the JSON values of one frame. The largest catalog has some
// 400,000.
const maxLinkValues = 1 << 19

// EncodeLink gives the frame of a message: one JSON object whose type comes first.
// What was taken over as JSON, payloads and commands, stays as it is byte for byte
// unless it holds blanks between its tokens. Errors: frame_too_large; internal for a
// message that is no JSON or not of this set.
func EncodeLink(m LinkMessage) ([]byte, error) {
	kind := LinkType(m)
	if kind == "" {
		return nil, NewError(CodeInternal, fmt.Sprintf("A %T is no message of a link.", m))
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(withLists(m)); err != nil {
		return nil, WrapError(CodeInternal, "A message of a link cannot be encoded.", err)
	}
	fields := bytes.TrimSuffix(body.Bytes(), []byte("\n"))[1:]
	frame := append(make([]byte, 0, len(fields)+len(kind)+12), `{"type":"`+kind+`"`...)
	if len(fields) > 1 {
		frame = append(frame, ',')
	}
	frame = append(frame, fields...)
	if len(frame) > MaxLinkFrame {
		e := NewError(CodeFrameTooLarge, "A message is too large for a link.")
		e.Limit = MaxLinkFrame
		return nil, e
	}
	return frame, nil
}

// DecodeLink reads a frame. Keys that it does not know are left out, and of a type
// that it does not know m is nil: both may come from a newer version. All else that
// does not fit the message is an error (bad_request): text that is not strict JSON, a
// missing key, a value of another type or outside its bounds.
func DecodeLink(frame []byte) (m LinkMessage, err error) {
	if len(frame) > MaxLinkFrame {
		e := NewError(CodeFrameTooLarge, "This frame is too large for a link.")
		e.Limit = MaxLinkFrame
		return nil, e
	}
	n, err := parseBounded(frame, maxLinkValues)
	if err != nil {
		return nil, syntaxFault(CodeBadRequest, err)
	}
	var head struct {
		Type string `json:"type" validate:"required"`
	}
	if err := decodeWith(decoder{open: true}, CodeBadRequest, n, &head); err != nil {
		return nil, err
	}
	if err := CheckStruct(&head); err != nil {
		return nil, err
	}
	decode := linkDecoder(head.Type)
	if decode == nil {
		return nil, nil
	}
	return decode(n)
}

func decodeLinkAs[M LinkMessage](n *node) (LinkMessage, error) {
	var m M
	if err := decodeWith(decoder{open: true}, CodeBadRequest, n, &m); err != nil {
		return nil, err
	}
	if err := CheckStruct(m); err != nil {
		return nil, err
	}
	return m, nil
}

// withLists is a message whose lists are lists: a program that is not written in Go
// need not expect null.
func withLists(m LinkMessage) LinkMessage {
	switch m := m.(type) {
	case Hello:
		m.Protocols, m.Capabilities = listed(m.Protocols), listed(m.Capabilities)
		return m
	case Welcome:
		m.Capabilities = listed(m.Capabilities)
		return m
	case CatalogMessage:
		m.Catalog.Providers, m.Routes = listed(m.Catalog.Providers), listed(m.Routes)
		return m
	}
	return m
}

func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
