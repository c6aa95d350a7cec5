package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

const (
	maxParts     = 64
	maxModelName = 256 // bytes
)

// The types of parts that a person may send. A model part says on which model the
// sender thought to be; the claim puts the server's in its place (CG68).
const (
	partText  = "text"
	partModel = "model"
)

// render checks a user message and gives the prompt that it stands for: its text
// parts in order, nothing inserted between them (CG2).
func render(m gateway.UserMessage) (string, error) {
	switch {
	case len(m.Parts) == 0:
		return "", fieldError("userMessage.parts", "required", "A message needs at least one part.")
	case m.Version != 1:
		return "", fieldError("userMessage.version", "enum", "The version of a message is 1.")
	case len(m.Parts) > maxParts:
		return "", fieldError("userMessage.parts", "max", fmt.Sprintf("A message has at most %d parts.", maxParts))
	}
	var prompt strings.Builder
	for i, p := range m.Parts {
		path := fmt.Sprintf("userMessage.parts[%d]", i)
		switch {
		case p.Type == "":
			return "", fieldError(path+".type", "required", "A part needs a type.")
		case p.Type == partModel:
			if n := len(p.SelectedModel); n == 0 || n > maxModelName || !utf8.ValidString(p.SelectedModel) || strings.ContainsRune(p.SelectedModel, 0) {
				return "", fieldError(path+".selectedModel", "required", "A model part names a model.")
			}
			if p.Text != "" {
				return "", fieldError(path+".text", "unknown", "A model part has no text.")
			}
			continue
		case p.Type != partText:
			return "", fieldError(path+".type", "enum", "Only text and model parts can be sent.")
		case p.SelectedModel != "":
			return "", fieldError(path+".selectedModel", "unknown", "A text part names no model.")
		case strings.ContainsRune(p.Text, 0):
			return "", fieldError(path+".text", "nul", "A message must not hold the NUL character.")
		case !utf8.ValidString(p.Text):
			return "", fieldError(path+".text", "utf8", "A message must be valid UTF-8.")
		}
		prompt.WriteString(p.Text)
	}
	text := prompt.String()
	if strings.TrimSpace(text) == "" {
		return "", fieldError("userMessage.parts[0].text", "blank", "A message needs some text.")
	}
	if len(text) > wire.MaxPromptBytes {
		e := wire.NewError(wire.CodePromptTooLarge,
			fmt.Sprintf("The message has %d bytes; at most %d can be sent.", len(text), wire.MaxPromptBytes))
		e.Limit = wire.MaxPromptBytes
		return "", e
	}
	return text, nil
}

// contentHash stands for what a send says. It is "" for a retry that says nothing
// (CG69), which differs from no first one.
func contentHash(r gateway.SendRequest) string {
	if len(r.UserMessage.Parts) == 0 {
		return ""
	}
	return hashOf(r.UserMessage, r.Model, r.Options, r.RevokesEventID)
}

func hashOf(parts ...any) string {
	sum := sha256.Sum256(encode(parts))
	return hex.EncodeToString(sum[:])
}

// titleRunes is the length that a title made from a message has at most.
const titleRunes = 60

// titleOf makes a title from the first words of a message.
func titleOf(prompt string) string {
	words := strings.FieldsFunc(prompt, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	var title strings.Builder
	length := 0
	for _, w := range words {
		n := utf8.RuneCountInString(w)
		if length > 0 && length+1+n > titleRunes {
			return title.String() + "…"
		}
		if length == 0 && n > titleRunes {
			return string([]rune(w)[:titleRunes]) + "…"
		}
		if length > 0 {
			title.WriteByte(' ')
			length++
		}
		title.WriteString(w)
		length += n
	}
	return title.String()
}

// replay gives the first reply to a client event again, or tells that the id was
// spent by somebody else or on something else (SQ21, SQ49).
func replay(first gateway.ClientEvent, actor gateway.Actor, kind gateway.ClientEventKind, hash string) (gateway.SendReply, error) {
	var reply gateway.SendReply
	if first.AccountID != actor.AccountID || first.Kind != kind {
		return reply, errClientEventInUse()
	}
	reply, err := decodeReply(first)
	if err != nil {
		return reply, err
	}
	reply.Replayed = true
	reply.Differs = hash != "" && hash != first.ContentHash
	return reply, nil
}

func errClientEventInUse() error {
	return wire.NewError(gateway.CodeClientEventIDInUse, "This client event id was used for something else.")
}
