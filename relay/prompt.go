package relay

import (
	"strings"

	"github.com/fairlead/fairlead/relay/wire"
)

// accountInstructions is the element in which the account's instructions stand.
const accountInstructions = "account_chat_instructions"

// isolatedChat opens every system prompt (RH9).
const isolatedChat = `You are answering in an isolated chat. Reply directly to what the person writes.
You have no context from the machine, the account or the program that runs this chat: no files, no project, no history of other conversations, no settings.
You have no tools. Do not claim to read or change files, to run commands, to call tools, or to carry out work outside this conversation.`

// SystemPrompt composes the system prompt of a native thread: the fixed text of an
// isolated chat, followed by the account's trimmed instructions if there are any,
// in an element whose closing tag they cannot write themselves (RH9, trap 12).
func SystemPrompt(instructions *string) string {
	text := strings.TrimSpace(valueOf(instructions))
	if text == "" {
		return isolatedChat
	}
	return isolatedChat + "\n\n<" + accountInstructions + ">\n" +
		wire.EscapeElement(text, accountInstructions) + "\n</" + accountInstructions + ">"
}
