package wire

import (
	"bytes"
	"encoding/json"
)

// Control planes: GET ControlPath, subprotocol ChatRelayProtocol (protocol.md §3).
const (
	ControlPath = "/ws/control"
	// MaxControlFrameBytes bounds a frame in both directions: a command may carry
	// pictures.
	MaxControlFrameBytes = 8 << 20
	// MaxSeq is the greatest sequence number of a command or an event (RH48).
	MaxSeq = 1<<53 - 1
)

// Types of the frames, those of a control plane first.
const (
	ControlTypeAttach  = "attach"
	ControlTypeCommand = "command"
	ControlTypeCursor  = "cursor"
	ControlTypeDetach  = "detach"
	ControlTypePing    = "ping"

	ControlTypeAttached = "attached"
	ControlTypeRefused  = "refused"
	ControlTypeAck      = "ack"
	ControlTypeEvent    = "event"
	ControlTypeGoaway   = "goaway"
)

// ControlFrame is one frame of a control plane: a pointer to one of ControlAttach,
// ControlCommand, ControlCursor, ControlDetach, ControlPing.
type ControlFrame interface {
	// Head gives what all frames share.
	Head() ControlHead
	// Validate checks the values of the frame. Errors: relay_owner_invalid,
	// relay_command_invalid, bad_request.
	Validate() error
}

// ControlHead is what all frames of a control plane share. Frames need no ID; one
// that has it is answered under it as well (protocol.md §1).
type ControlHead struct {
	Type string `json:"type" validate:"required"`
	ID   string `json:"id,omitempty" validate:"omitempty,max=64"`
}

// Frames of a control plane.
type (
	// ControlAttach asks to drive a run at a target. It is Attach, but that a control
	// plane must give a challenge: the catalog comes as an event of the run (RH60).
	ControlAttach struct {
		ControlHead
		TargetRef   string `json:"targetRef" validate:"required,owner"`
		SessionID   string `json:"sessionId" validate:"required,owner"`
		AccountRef  string `json:"accountRef" validate:"required,owner"`
		RunID       string `json:"runId" validate:"required,relayid"`
		WorkspaceID string `json:"workspaceId" validate:"required,relayid"`
		Cursor      uint64 `json:"cursor" validate:"present,max=9007199254740991"`
		Challenge   string `json:"challenge" validate:"required,challenge"`
	}
	// ControlCommand carries one command of an attached run.
	ControlCommand struct {
		ControlHead
		CommandMessage
	}
	// ControlCursor retires what the control plane holds durably.
	ControlCursor struct {
		ControlHead
		CursorMessage
	}
	// ControlDetach gives a run up; its turns go on.
	ControlDetach struct {
		ControlHead
		Detach
	}
	// ControlPing asks for a sign of life.
	ControlPing struct {
		ControlHead
	}
)

// Pushes of a gateway.
type (
	// ControlAttached answers ControlAttach: see Attached.
	ControlAttached struct {
		Type   string `json:"type"`
		RunID  string `json:"runId"`
		Runner Runner `json:"runner"`
		// RuntimeCursor is the highest sequence number that the host knew to be
		// acknowledged.
		RuntimeCursor uint64 `json:"runtimeCursor"`
	}
	// ControlRefused answers ControlAttach, or ends an attachment.
	ControlRefused struct {
		Type string `json:"type"`
		Refused
	}
	// ControlAck answers ControlCommand as its host did.
	ControlAck struct {
		Type string `json:"type"`
		Ack
	}
	// ControlEvent carries one envelope of a run.
	ControlEvent struct {
		Type string `json:"type"`
		EventMessage
	}
	// ControlGoaway comes before the gateway closes the socket.
	ControlGoaway struct {
		Type string `json:"type"`
		Goaway
	}
)

// Runner is the host of an attached run, as a control plane sees it.
type Runner struct {
	ID             string   `json:"id"`
	Name           string   `json:"name"`
	TargetRef      string   `json:"targetRef"`
	RuntimeVersion string   `json:"runtimeVersion"`
	Capabilities   []string `json:"capabilities"`
}

// Head gives what all frames share.
func (h ControlHead) Head() ControlHead { return h }

// Attach is the frame as a host gets it.
func (f *ControlAttach) Attach() Attach {
	return Attach{
		TargetRef: f.TargetRef, SessionID: f.SessionID, AccountRef: f.AccountRef, RunID: f.RunID,
		WorkspaceID: f.WorkspaceID, Cursor: f.Cursor, Challenge: f.Challenge,
	}
}

// DecodeControl decodes one frame of a control plane and refuses what DecodeStrict
// refuses. Values are not validated: see ControlFrame.Validate. The error is a
// bad_request; the frame beside it is nil, or holds what could be read.
func DecodeControl(raw []byte) (ControlFrame, error) {
	switch first := bytes.TrimLeft(raw, " \t\r\n"); {
	case len(first) == 0:
		return nil, NewError(CodeBadRequest, "The frame is empty.")
	case first[0] != '{':
		return nil, NewError(CodeBadRequest, "A frame is one JSON object.")
	}
	n, err := parseBounded(raw, maxControlValues)
	if err != nil {
		return nil, NewError(CodeBadRequest, syntaxFault(CodeBadRequest, err).Message)
	}
	kind := n.get("type")
	if kind == nil {
		return nil, frameFault("The frame has no type.", "required")
	}
	f := newControlFrame(kind.text)
	if f == nil {
		return nil, frameFault("The frame has a type that is not known.", "enum")
	}
	return f, decodeNode(CodeBadRequest, n, f)
}

// maxControlValues bounds the JSON values of one frame, far above those of the largest
// command.
const maxControlValues = 1 << 16

func newControlFrame(kind string) ControlFrame {
	switch kind {
	case ControlTypeAttach:
		return &ControlAttach{}
	case ControlTypeCommand:
		return &ControlCommand{}
	case ControlTypeCursor:
		return &ControlCursor{}
	case ControlTypeDetach:
		return &ControlDetach{}
	case ControlTypePing:
		return &ControlPing{}
	}
	return nil
}

func frameFault(message, rule string) *Error {
	e := NewError(CodeBadRequest, message)
	e.Fields = []Field{{Path: "type", Rule: rule}}
	return e
}

// Validate checks the attachment in the order of a host: owner components
// (relay_owner_invalid), cursor and challenge (bad_request), ids
// (relay_command_invalid, neither the field nor the value is named).
func (f *ControlAttach) Validate() error {
	return firstFault(ValidateStruct(f), []step{
		{fields: []string{"type", "id"}, code: CodeBadRequest, message: messageHead},
		{fields: []string{"cursor"}, code: CodeBadRequest, message: "The cursor is beyond the greatest sequence number."},
		{fields: []string{"challenge"}, code: CodeBadRequest, message: "The challenge must be 32 to 128 of A-Z, a-z, 0-9, _ and -."},
		{fields: []string{"targetRef", "sessionId", "accountRef"}, code: CodeOwnerInvalid, message: "An account, target or session is not valid."},
		{fields: []string{"runId", "workspaceId"}, message: "An identifier of the attachment is not valid.", anonymous: true},
	})
}

const messageHead = "The id of a frame has 1 to 64 characters."

// Validate checks the frame but not the command in it: see ParseCommand.
func (f *ControlCommand) Validate() error { return validateRunFrame(f) }

// Validate checks the values of the frame.
func (f *ControlCursor) Validate() error { return validateRunFrame(f) }

// Validate checks the values of the frame.
func (f *ControlDetach) Validate() error { return validateRunFrame(f) }

// Validate checks the values of the frame.
func (f *ControlPing) Validate() error { return validateRunFrame(f) }

func validateRunFrame(f ControlFrame) error {
	return firstFault(ValidateStruct(f), []step{
		{fields: []string{"type", "id"}, code: CodeBadRequest, message: messageHead},
		{fields: []string{"runId"}, message: messageID, anonymous: true},
		{fields: []string{"seq"}, code: CodeBadRequest, message: "The sequence number of the command is out of range."},
		{fields: []string{"cursor"}, code: CodeBadRequest, message: "The cursor is beyond the greatest sequence number."},
		{fields: []string{"command"}, code: CodeBadRequest, message: "The frame has no command."},
	})
}

// EncodeControl makes the bytes of a frame: HTML is left as it is, so that a text is
// not six times its size.
func EncodeControl(frame any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(frame); err != nil {
		return nil, WrapError(CodeInternal, "The frame cannot be encoded.", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
