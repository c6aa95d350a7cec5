package provider

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay/wire"
)

// demo is the built-in model: it answers from a text of its own, without any
// network, so that a fresh installation can be tried. The same conversation
// always gets the same answer.
type demo struct{ delay time.Duration }

const demoModel = "demo"

// Stream implements Client.
func (d *demo) Stream(ctx context.Context, req Request, emit func(Delta) error) (Result, error) {
	res := Result{
		Model: demoModel,
		Usage: &wire.Usage{InputTokens: demoInput(req)},
	}
	thought := ""
	if req.ReasoningEffort != "" && req.ReasoningEffort != "off" {
		thought = fmt.Sprintf("The demo model does not think, but it was asked to (effort %s), so these words stand where reasoning would.", req.ReasoningEffort)
	}
	for _, part := range []Delta{{DeltaReasoning, thought}, {DeltaText, demoAnswer(req)}} {
		for _, word := range words(part.Text) {
			if req.MaxOutputTokens > 0 && res.Usage.OutputTokens >= uint64(req.MaxOutputTokens) {
				res.Finish = FinishLength
				return res, nil
			}
			if err := d.pause(ctx); err != nil {
				return res, err
			}
			if err := emit(Delta{part.Kind, word}); err != nil {
				return res, err
			}
			res.Usage.OutputTokens++
		}
	}
	res.Finish = FinishStop
	return res, nil
}

func (d *demo) pause(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.delay <= 0 {
		return nil
	}
	t := time.NewTimer(d.delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// words cuts a text before each word, keeping all white space.
func words(s string) []string {
	var out []string
	from, inWord := 0, false
	for i, r := range s {
		space := r == ' ' || r == '\n' || r == '\t'
		if space && inWord {
			out = append(out, s[from:i])
			from = i
		}
		inWord = !space
	}
	if from < len(s) {
		out = append(out, s[from:])
	}
	return out
}

func demoInput(req Request) uint64 {
	n := len(strings.Fields(req.System))
	for _, m := range req.Messages {
		n += len(strings.Fields(m.Text))
	}
	return uint64(n)
}

const (
	maxDemoCount = 2000
	maxDemoQuote = 600 // bytes of the prompt that are repeated
)

var demoCount = regexp.MustCompile(`(?i)^\s*count to (\d{1,9})\b`)

// demoAnswer answers the last message of the user.
func demoAnswer(req Request) string {
	last, asked := Message{}, 0
	for _, m := range req.Messages {
		if m.Role == RoleUser {
			last = m
			asked++
		}
	}
	last.Text = withoutContext(last.Text)
	if m := demoCount.FindStringSubmatch(last.Text); m != nil {
		n, _ := strconv.Atoi(m[1])
		return countTo(min(n, maxDemoCount))
	}
	if asked > 1 {
		return demoHeard(req, last, asked) + demoShort
	}
	return demoHeard(req, last, asked) + demoLong
}

// withoutContext gives what the person wrote: the demo model answers that, not
// the <context> element that a turn may carry before it.
func withoutContext(s string) string {
	if rest, ok := strings.CutPrefix(s, "<context>"); ok {
		if _, prompt, ok := strings.Cut(rest, "</context>"); ok {
			return strings.TrimLeft(prompt, "\r\n")
		}
	}
	return s
}

func countTo(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if i > 1 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(i))
	}
	return b.String()
}

// demoHeard tells what the model was sent.
func demoHeard(req Request, last Message, asked int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You are talking to Fairlead's **demo model**. It runs inside this program, knows nothing and costs nothing.\n\n")
	fmt.Fprintf(&b, "### What I received\n\n")
	fmt.Fprintf(&b, "%s in this conversation, %d of them yours", plural(len(req.Messages), "message"), asked)
	if n := len(last.Images); n > 0 {
		fmt.Fprintf(&b, ", the last with %s", plural(n, "image"))
	}
	b.WriteString(". The last one says:\n\n")
	for line := range strings.Lines(quoted(last.Text)) {
		b.WriteString("> " + strings.TrimRight(line, "\r\n") + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

func quoted(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return "*(no text)*"
	}
	if len(s) <= maxDemoQuote {
		return s
	}
	cut := maxDemoQuote
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + " …"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

const demoLong = `### What Fairlead is

A gateway for chatting with language models that you run yourself. **A turn survives everything and happens once**: reload this page while I am writing, open it in a second tab, or restart the server, and the conversation reads the same afterwards.

Try it now:

- send ` + "`count to 500`" + ` and press **Stop**;
- send a second message while I am still writing: it waits in the queue;
- reload the page in the middle of an answer.

### Add a real model

Put this into ` + "`fairlead.yaml`" + ` and start Fairlead again:

` + "```yaml" + `
host:
  providers:
    - id: ollama
      key: local
      name: Ollama
      api: openai-chat
      base_url: http://127.0.0.1:11434/v1
      models:
        - {id: llama3.2, family: llama}
    - id: openai
      key: team
      name: OpenAI
      api: openai-responses
      api_key_env: OPENAI_API_KEY
      models:
        - {id: gpt-5, family: gpt}
` + "```" + `

Keys stay in the environment or in a file of their own; they never stand in the settings. ` + "`docs/providers.md`" + ` tells the rest.
`

const demoShort = `I remember our conversation only as far as it is sent to me with each message, as every model does. Send ` + "`count to 500`" + ` for something to stop, or add a real model under ` + "`host.providers`" + ` in ` + "`fairlead.yaml`" + `.
`
