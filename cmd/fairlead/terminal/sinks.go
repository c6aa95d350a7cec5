package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
)

// plainSink writes the answer to out and all else to err.
type plainSink struct {
	out, err io.Writer
	// shared: both are the same terminal, so that a note needs a line of its own.
	// Otherwise the bytes of the answer stay as they are.
	shared bool
	open   bool // the last line of the answer has no end
	wrote  bool
	reason string // the last one that was told
}

func (p *plainSink) thread(string)                 {}
func (p *plainSink) end(_ Outcome, _, _, _ string) { p.endLine() }

func (p *plainSink) receipt(r client.Receipt) {
	switch r.Disposition {
	case "queued", "org_queued":
		p.note("", "the message waits for its turn")
	}
}

func (p *plainSink) event(e *client.Event, mine bool, text string) {
	if !mine {
		return
	}
	switch {
	case e.EventType == "output.error":
		p.note("", e.Body())
	case e.EventType == "control.revoke":
		p.note("", "the message was taken back")
	case e.Ends():
		if said := ending(e); said != "" {
			p.note("", said)
		}
	case e.EventType == "input.rejected":
		p.note("", "refused: "+explain(e.Error))
	default:
		p.write(text)
	}
}

func (p *plainSink) text(_, _ string, _, _ int64, text string, mine bool) {
	if mine {
		p.write(text)
	}
}

func (p *plainSink) write(text string) {
	if text == "" {
		return
	}
	text = Clean(text)
	p.wrote = true
	p.open = text[len(text)-1] != '\n'
	_, _ = io.WriteString(p.out, text)
}

func (p *plainSink) state(_, _, _, reason, _ string) {
	if reason != "" && reason != p.reason {
		p.note("", explain(reason))
	}
	p.reason = reason
}

func (p *plainSink) retract(_, _ string, mine bool) {
	if mine && p.wrote {
		p.note("", "the text above does not stand")
	}
}

func (p *plainSink) note(_, text string) {
	if p.shared {
		p.endLine()
	}
	_, _ = fmt.Fprintf(p.err, "fairlead: %s\n", Line(text))
}

func (p *plainSink) endLine() {
	if p.open {
		p.open = false
		_, _ = io.WriteString(p.out, "\n")
	}
}

// jsonSink writes one object a line. The lines are documented in
// docs/terminal.md; they only gain keys and types.
type jsonSink struct{ out io.Writer }

type jsonLine struct {
	Type     string          `json:"type"`
	ThreadID string          `json:"threadId,omitempty"`
	TurnID   string          `json:"turnId,omitempty"`
	EventID  string          `json:"eventId,omitempty"`
	Offset   *int64          `json:"offset,omitempty"`
	Next     *int64          `json:"next,omitempty"`
	Text     string          `json:"text,omitempty"`
	Status   string          `json:"status,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	RetryAt  string          `json:"retryAt,omitempty"`
	Dispo    string          `json:"disposition,omitempty"`
	Event    json.RawMessage `json:"event,omitempty"`
	Mine     *bool           `json:"mine,omitempty"`
	Note     string          `json:"note,omitempty"`
	Outcome  Outcome         `json:"outcome,omitempty"`
	Code     string          `json:"code,omitempty"`
}

func (j *jsonSink) thread(id string) { writeJSON(j.out, jsonLine{Type: "thread", ThreadID: id}) }

func (j *jsonSink) receipt(r client.Receipt) {
	line := jsonLine{Type: "receipt", ThreadID: r.ThreadID, EventID: r.EventID, Status: r.Status, Dispo: r.Disposition}
	if r.TurnID != nil {
		line.TurnID = *r.TurnID
	}
	writeJSON(j.out, line)
}

func (j *jsonSink) event(e *client.Event, mine bool, _ string) {
	writeJSON(j.out, jsonLine{Type: "event", Event: e.Raw, Mine: &mine})
}

func (j *jsonSink) text(threadID, turnID string, offset, next int64, text string, mine bool) {
	writeJSON(j.out, jsonLine{
		Type: "delta", ThreadID: threadID, TurnID: turnID, Offset: &offset, Next: &next, Text: text, Mine: &mine,
	})
}

func (j *jsonSink) state(threadID, turnID, status, reason, retryAt string) {
	writeJSON(j.out, jsonLine{Type: "state", ThreadID: threadID, TurnID: turnID, Status: status, Reason: reason, RetryAt: retryAt})
}

func (j *jsonSink) retract(threadID, turnID string, mine bool) {
	writeJSON(j.out, jsonLine{Type: "retract", ThreadID: threadID, TurnID: turnID, Mine: &mine})
}

func (j *jsonSink) note(kind, text string) {
	writeJSON(j.out, jsonLine{Type: "note", Note: kind, Text: text})
}

func (j *jsonSink) end(o Outcome, code, threadID, turnID string) {
	writeJSON(j.out, jsonLine{Type: "end", Outcome: o, Code: code, ThreadID: threadID, TurnID: turnID})
}

// writeJSON writes a line that is as harmless as any other output: encoding/json
// leaves some control characters as they are.
func writeJSON(w io.Writer, v any) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // a json.RawMessage was valid when it came
		return
	}
	_, _ = io.WriteString(w, escaped(strings.TrimSuffix(b.String(), "\n"))+"\n")
}

// escaped writes the harmful characters of a JSON text as JSON escapes; they
// stand within strings alone.
func escaped(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r >= ' ' && harmless(r) == r {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			_, _ = fmt.Fprintf(&b, "\\u%04x", unit)
		}
	}
	return b.String()
}
