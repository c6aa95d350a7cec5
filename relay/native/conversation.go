package native

import (
	"strings"

	"github.com/fairlead/fairlead/relay"
	"github.com/fairlead/fairlead/relay/provider"
)

// Marks of an interrupted round. They are addressed to the model.
const (
	markStopped   = "[This answer was interrupted here and is incomplete.]"
	markUnstarted = "[This answer was interrupted before it began.]"
)

// conversation is a thread as requests need it.
type conversation struct {
	system string
	rounds []Round
	bytes  int
}

func newConversation(system string, rounds []Round) *conversation {
	c := &conversation{system: system, bytes: len(system)}
	for _, r := range rounds {
		c.add(r)
	}
	return c
}

// add takes up a round that has ended. Failed rounds never enter a request, so
// they are not kept.
func (c *conversation) add(r Round) {
	if r.Status != relay.NativeCompleted && r.Status != relay.NativeInterrupted {
		return
	}
	c.rounds = append(c.rounds, r)
	c.bytes += len(r.Prompt) + len(r.Answer) + len(r.Reasoning)
	for _, img := range r.Images {
		c.bytes += len(img.DataBase64)
	}
}

// messages are the earlier rounds for a request on a route.
func (c *conversation) messages(stopped StoppedAnswers, route string) []provider.Message {
	out := make([]provider.Message, 0, 2*len(c.rounds)+1)
	for _, r := range c.rounds {
		// A round that a steer cut is the beginning of what follows.
		if r.Status == relay.NativeInterrupted && !r.Cut && stopped == StoppedOmit {
			continue
		}
		out = append(out, provider.Message{Role: provider.RoleUser, Text: r.Prompt, Images: r.Images}, r.reply(route))
	}
	return out
}

// reply is the answer of a round for a request on a route. Reasoning goes only to
// the route that it came from: to another it means nothing, or breaks the request
// (F34).
func (r Round) reply(route string) provider.Message {
	answer := provider.Message{Role: provider.RoleAssistant, Text: r.Answer}
	switch {
	case r.Status == relay.NativeInterrupted:
		answer.Text = marked(r.Answer) // its reasoning belongs to no finished answer
	case r.Route == route:
		answer.Reasoning = r.Reasoning
	}
	return answer
}

func marked(answer string) string {
	if strings.TrimSpace(answer) == "" {
		return markUnstarted
	}
	return strings.TrimRight(answer, " \t\r\n") + "\n\n" + markStopped
}

// withContext puts the context of one turn before its prompt, in an element of
// its own, which text inside cannot close (RH trap 12).
func withContext(context, prompt string) string {
	if strings.TrimSpace(context) == "" {
		return prompt
	}
	const open, shut = "<context>", "</context>"
	var b strings.Builder
	b.WriteString(open + "\n")
	for rest := context; rest != ""; {
		i := indexFold(rest, shut)
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i] + `<\` + rest[i+1:i+len(shut)])
		rest = rest[i+len(shut):]
	}
	b.WriteString("\n" + shut + "\n\n" + prompt)
	return b.String()
}

// indexFold is strings.Index for an ASCII text in any case.
func indexFold(s, ascii string) int {
	for i := 0; i+len(ascii) <= len(s); i++ {
		if s[i] == ascii[0] && strings.EqualFold(s[i:i+len(ascii)], ascii) {
			return i
		}
	}
	return -1
}

// routeKey names a route in stored rounds.
func routeKey(modelProviderID, model string) string { return modelProviderID + " " + model }
