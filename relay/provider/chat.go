package provider

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/fairlead/fairlead/relay/wire"
)

// chat is the API of OpenAI chat completions, which most servers follow, each
// with small departures. Its terminal marker is a finish reason: [DONE] may be
// missing. Chunks have no number, so a chunk that comes twice counts twice: its
// text stands as it was sent.
type chat struct {
	limit  LimitField
	usage  bool // ask for usage
	replay bool // hand reasoning back
}

func (chat) path(base string) string { return base + "/chat/completions" }

func (chat) authorise(h http.Header, key Key) { bearer(h, key) }

func bearer(h http.Header, key Key) {
	if !key.IsZero() {
		h.Set("Authorization", "Bearer "+key.secret())
	}
}

type chatRequest struct {
	Model               string             `json:"model"`
	Messages            []chatMessage      `json:"messages"`
	Stream              bool               `json:"stream"`
	StreamOptions       *chatStreamOptions `json:"stream_options,omitempty"`
	ReasoningEffort     string             `json:"reasoning_effort,omitempty"`
	MaxTokens           uint32             `json:"max_tokens,omitempty"`
	MaxCompletionTokens uint32             `json:"max_completion_tokens,omitempty"`
}

type chatStreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// chatMessage has a string or a list of parts as its content.
type chatMessage struct {
	Role             string `json:"role"`
	Content          any    `json:"content"`
	ReasoningContent string `json:"reasoning_content,omitempty"`
}

type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

func (c chat) encode(req Request) ([]byte, error) {
	out := chatRequest{
		Model: req.Model, Stream: true, ReasoningEffort: openAIEffort(req.ReasoningEffort),
	}
	if c.usage {
		out.StreamOptions = &chatStreamOptions{IncludeUsage: true}
	}
	if c.limit == LimitMaxCompletionTokens {
		out.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		out.MaxTokens = req.MaxOutputTokens
	}
	if req.System != "" {
		out.Messages = append(out.Messages, chatMessage{Role: "system", Content: req.System})
	}
	for _, m := range req.Messages {
		out.Messages = append(out.Messages, c.message(m))
	}
	return encodeJSON(out)
}

func (c chat) message(m Message) chatMessage {
	out := chatMessage{Role: string(m.Role), Content: m.Text}
	if c.replay && m.Role == RoleAssistant {
		out.ReasoningContent = m.Reasoning
	}
	if len(m.Images) == 0 {
		return out
	}
	var parts []chatPart
	if m.Text != "" {
		parts = append(parts, chatPart{Type: "text", Text: m.Text})
	}
	for _, img := range m.Images {
		parts = append(parts, chatPart{Type: "image_url", ImageURL: &chatImage{dataURL(img)}})
	}
	out.Content = parts
	return out
}

func dataURL(img wire.Image) string { return "data:" + img.Mime + ";base64," + img.DataBase64 }

// openAIEffort is the canonical effort but for two: off is called none, and
// auto is what a server does without being told.
func openAIEffort(effort string) string {
	switch effort {
	case "off":
		return "none"
	case "auto":
		return ""
	}
	return effort
}

type chatChunk struct {
	ID          str                  `json:"id"`
	Model       str                  `json:"model"`
	ServiceTier str                  `json:"service_tier"`
	Choices     []chatChoice         `json:"choices"`
	Usage       lenient[openAIUsage] `json:"usage"`
	Groq        lenient[groqFields]  `json:"x_groq"`
}

type groqFields struct {
	Usage lenient[openAIUsage] `json:"usage"`
}

type chatChoice struct {
	Index        count                `json:"index"`
	Delta        chatDelta            `json:"delta"`
	FinishReason str                  `json:"finish_reason"`
	Usage        lenient[openAIUsage] `json:"usage"`
}

// chatDelta knows the three names under which servers send reasoning.
type chatDelta struct {
	Content          chatContent     `json:"content"`
	ReasoningContent text            `json:"reasoning_content"`
	Reasoning        text            `json:"reasoning"`
	Thinking         text            `json:"thinking"`
	Refusal          str             `json:"refusal"`
	ToolCalls        json.RawMessage `json:"tool_calls"`
	FunctionCall     json.RawMessage `json:"function_call"`
}

// chatContent is a string, or a list of parts (Mistral).
type chatContent struct{ text, reasoning text }

// UnmarshalJSON takes a string, null or a list of parts.
func (c *chatContent) UnmarshalJSON(raw []byte) error {
	*c = chatContent{}
	if raw[0] != '[' {
		return json.Unmarshal(raw, &c.text)
	}
	var parts []struct {
		Type     str             `json:"type"`
		Text     text            `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			c.text = append(c.text, p.Text...)
		case "thinking":
			var inner chatContent
			if present(p.Thinking) {
				if err := json.Unmarshal(p.Thinking, &inner); err != nil {
					return err
				}
			}
			c.reasoning = append(c.reasoning, inner.text...)
		}
	}
	return nil
}

func (chat) decoder(out *output) decoder { return &chatDecoder{out: out} }

type chatDecoder struct {
	out      *output
	tier     string
	refused  bool
	finished bool
}

func (d *chatDecoder) ended() bool { return d.finished }

func (d *chatDecoder) event(data []byte) (bool, error) {
	if string(data) == doneMark {
		if !d.finished {
			return false, fail(wire.CodeModelStreamCut, "stream was closed without a finish reason")
		}
		return true, nil
	}
	var c chatChunk
	if json.Unmarshal(data, &c) != nil {
		return false, fail(wire.CodeModelStreamInvalid, "chunk has fields of another type")
	}
	d.out.identify(c.ID, c.Model)
	if c.ServiceTier != "" && d.out.isName(string(c.ServiceTier)) {
		d.tier = string(c.ServiceTier)
	}
	d.report(c.Usage)
	if c.Groq.value != nil {
		d.report(c.Groq.value.Usage)
	}
	for i := range c.Choices {
		if c.Choices[i].Index.n != 0 { // one answer was asked for
			continue
		}
		d.report(c.Choices[i].Usage)
		if err := d.choice(&c.Choices[i]); err != nil {
			return false, err
		}
	}
	return false, nil
}

// report keeps the last usage that came, wherever it came (F31).
func (d *chatDecoder) report(u lenient[openAIUsage]) {
	if r := u.value.report(); r != nil {
		d.out.result.Usage = r
	}
	if d.out.result.Usage != nil {
		d.out.result.Usage.ServiceTier = d.tier
	}
}

func (d *chatDecoder) choice(c *chatChoice) error {
	for _, r := range []text{c.Delta.ReasoningContent, c.Delta.Reasoning, c.Delta.Thinking, c.Delta.Content.reasoning} {
		if len(r) == 0 {
			continue
		}
		if err := d.out.addReasoning(r); err != nil {
			return err
		}
		break // some send the same under two names
	}
	if err := d.out.addText(c.Delta.Content.text); err != nil {
		return err
	}
	d.refused = d.refused || c.Delta.Refusal != ""
	if present(c.Delta.ToolCalls) || present(c.Delta.FunctionCall) {
		d.out.result.ToolCall = true
	}
	if c.FinishReason == "" {
		return nil
	}
	return d.finish(string(c.FinishReason))
}

// finish takes a finish reason. Some servers report their own breakdown so.
func (d *chatDecoder) finish(reason string) error {
	switch reason {
	case "error", "network_error":
		return fail(wire.CodeModelFailed, "provider finished with an error")
	case "insufficient_system_resource":
		return fail(wire.CodeModelOverloaded, "provider ran out of resources")
	case "abort", "cancelled":
		return fail(wire.CodeModelStreamCut, "provider gave the answer up")
	}
	d.finished = true
	f := chatFinish(reason)
	if d.refused && f != FinishLength {
		f = FinishRefused
	}
	d.out.result.Finish = f
	return nil
}

func chatFinish(reason string) Finish {
	switch reason {
	case "stop", "eos", "eos_token", "end_turn", "stop_sequence":
		return FinishStop
	case "length", "max_tokens", "model_length":
		return FinishLength
	case "tool_calls", "function_call", "tool_use":
		return FinishToolCall
	case "content_filter", "sensitive":
		return FinishFiltered
	case "refusal":
		return FinishRefused
	}
	return FinishUndefined
}

// encodeJSON writes JSON without the escapes that only HTML needs.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}
