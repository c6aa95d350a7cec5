package wire

import "strings"

const (
	messageID     = "An identifier of the command is not valid."
	messageSystem = "The system prompt is blank, too long, or holds a character that is not allowed."
	messagePrompt = "The prompt is blank, too long, or holds a character that is not allowed."
)

// ParseCommand decodes the command of a CommandMessage: prompt.request by its
// full schema, run.control with exactly its seven keys. All else, the work prompt
// of four keys among it, is relay_command_invalid (RH51). The values are not
// validated yet: see Validate.
func ParseCommand(raw []byte) (Command, error) {
	n, err := parseJSON(raw)
	if err != nil {
		return Command{}, syntaxFault(CodeCommandInvalid, err)
	}
	kind := n.get("type")
	if n.kind != nodeObject || kind == nil {
		return Command{}, commandFault("The command has no type.", "type", "required")
	}
	switch kind.text {
	case TypePromptRequest:
		p := &PromptRequest{}
		return Command{Prompt: p}, decodeNode(CodeCommandInvalid, n, p)
	case TypeRunControl:
		c := &RunControl{}
		return Command{Control: c}, decodeNode(CodeCommandInvalid, n, c)
	}
	return Command{}, commandFault("The command has a type that this host does not take.", "type", "enum")
}

// Validate checks whichever command is set.
func (c Command) Validate() error {
	switch {
	case c.Prompt != nil:
		return c.Prompt.Validate()
	case c.Control != nil:
		return c.Control.Validate()
	}
	return commandFault("The command is empty.", "type", "required")
}

func commandFault(message, path, rule string) *Error {
	e := NewError(CodeCommandInvalid, message)
	e.Fields = []Field{{Path: path, Rule: rule}}
	return e
}

// step is one check of a command in its place: the fields that it looks at and
// the answer when one of them is at fault. An anonymous step does not name the
// field.
type step struct {
	fields    []string
	code      Code
	message   string
	anonymous bool
}

// promptSteps is the order of RH11 after the pictures. The optional fields of
// this project stand beside their like: continueFrom with the ids, context after
// the system prompt.
func promptSteps() []step {
	return []step{
		{fields: []string{"type"}, message: "The command is not a prompt request."},
		{fields: []string{"runId", "turnId", "operationKey", "runtimeBindingId", "runtimeThreadId", "continueFrom"}, message: messageID, anonymous: true},
		{fields: []string{"model", "modelProvider", "modelProviderId"}, message: messageID, anonymous: true},
		{fields: []string{"prompt"}, message: messagePrompt},
		{fields: []string{"systemPrompt"}, message: messageSystem},
		{fields: []string{"context"}, message: "The context of the turn is blank, too long, or holds a character that is not allowed."},
		{fields: []string{"allowedTools"}, message: "A chat turn takes no tools."},
		{fields: []string{"mode", "requestedMode"}, message: "Only the chat mode is served."},
		{fields: []string{"reasoningEffort"}, code: CodeReasoningInvalid, message: "The reasoning effort is not one of the known names."},
		{fields: []string{"workspace"}, message: messageID, anonymous: true},
	}
}

// Validate checks the values of a prompt request in the order of RH11: pictures
// (relay_image_invalid), type, ids, route, prompt, system prompt, tools, modes
// (relay_command_invalid), effort (relay_reasoning_invalid), workspace. A fault
// of any id gives the same answer, which names neither field nor value.
func (p *PromptRequest) Validate() error {
	if p.MaxOutputTokens != nil && *p.MaxOutputTokens == 0 {
		return commandFault("The output limit must be at least 1 token.", "maxOutputTokens", "min")
	}
	if err := checkImages(p.Images); err != nil {
		return err
	}
	if len(p.Images) > 0 && strings.EqualFold(strings.TrimSpace(p.Model), "auto") {
		return imageFault("Pictures need a model that is named exactly.", "model", "enum")
	}
	return firstFault(ValidateStruct(p), promptSteps())
}

// Validate checks the values of an interrupt (RH37, RH51).
func (c *RunControl) Validate() error {
	return firstFault(ValidateStruct(c), []step{
		{fields: []string{"type"}, message: "The command is not a control command."},
		{fields: []string{"action"}, message: "The only action of a chat run is interrupt."},
		{fields: []string{"runId", "turnId", "runtimeBindingId", "runtimeThreadId"}, message: messageID, anonymous: true},
		{fields: []string{"reason"}, message: "The reason is blank, too long, or holds a character that is not allowed."},
	})
}

func firstFault(faults []Field, steps []step) error {
	if len(faults) == 0 {
		return nil
	}
	for _, s := range steps {
		for _, name := range s.fields {
			if f := faultOf(faults, name); f != nil {
				return s.error(*f)
			}
		}
	}
	return commandFault(describeFields(faults), faults[0].Path, faults[0].Rule)
}

func (s step) error(f Field) *Error {
	code := s.code
	if code == "" {
		code = CodeCommandInvalid
	}
	e := NewError(code, s.message)
	if !s.anonymous {
		e.Fields = []Field{f}
	}
	return e
}

func faultOf(faults []Field, name string) *Field {
	for i := range faults {
		top := faults[i].Path
		if cut := strings.IndexAny(top, ".["); cut >= 0 {
			top = top[:cut]
		}
		if top == name {
			return &faults[i]
		}
	}
	return nil
}

// RequestFingerprint is the SHA-256 of the canonical JSON of the command as it
// was received: 64 hex digits. Of its fields only empty images and absent or null
// optional ones are left out (RH14).
func (p *PromptRequest) RequestFingerprint() (string, error) {
	bound := *p
	if bound.AllowedTools == nil {
		bound.AllowedTools = []string{}
	}
	text, err := Canonical(&bound)
	if err != nil {
		return "", WrapError(CodeCommandInvalid, "The command cannot be fingerprinted.", err)
	}
	return Fingerprint(string(text)), nil
}

// Fingerprint is the SHA-256 of the canonical JSON of the catalog, nulls and
// empty arrays kept: 64 hex digits.
func (c *Catalog) Fingerprint() (string, error) {
	text, err := Canonical(c)
	if err != nil {
		return "", WrapError(CodeInternal, "The catalog cannot be fingerprinted.", err)
	}
	return Fingerprint(string(text)), nil
}

// EscapeElement makes text safe to stand inside <element>…</element>: the
// element's own closing tag, in any case, cannot end it early.
func EscapeElement(text, element string) string {
	closing := "</" + strings.ToLower(element)
	if !strings.Contains(strings.ToLower(text), closing) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if end := i + len(closing); end <= len(text) && strings.EqualFold(text[i:end], closing) {
			b.WriteString("&lt;")
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
