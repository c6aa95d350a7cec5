package provider

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/fairlead/fairlead/relay/wire"
)

// messages is the Anthropic Messages API. Its terminal marker is message_stop.
// Events have no number, so one that comes twice counts twice: its text stands
// as it was sent.
type messages struct {
	thinking  Thinking
	maxTokens uint32
}

const anthropicVersion = "2023-06-01"

func (messages) path(base string) string { return strings.TrimSuffix(base, "/v1") + "/v1/messages" }

func (messages) authorise(h http.Header, key Key) {
	h.Set("Anthropic-Version", anthropicVersion)
	if !key.IsZero() {
		h.Set("X-Api-Key", key.secret())
	}
}

type messagesRequest struct {
	Model        string            `json:"model"`
	MaxTokens    uint32            `json:"max_tokens"`
	System       string            `json:"system,omitempty"`
	Messages     []messagesMessage `json:"messages"`
	Stream       bool              `json:"stream"`
	Thinking     *messagesThinking `json:"thinking,omitempty"`
	OutputConfig *messagesOutput   `json:"output_config,omitempty"`
}

type messagesThinking struct {
	Type         string `json:"type"`
	BudgetTokens uint32 `json:"budget_tokens,omitempty"`
}

type messagesOutput struct {
	Effort string `json:"effort"`
}

type messagesMessage struct {
	Role    string          `json:"role"`
	Content []messagesBlock `json:"content"`
}

type messagesBlock struct {
	Type   string          `json:"type"`
	Text   string          `json:"text,omitempty"`
	Source *messagesSource `json:"source,omitempty"`
}

type messagesSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

func (a messages) encode(req Request) ([]byte, error) {
	out := messagesRequest{
		Model: req.Model, MaxTokens: req.MaxOutputTokens, System: req.System,
		Messages: []messagesMessage{}, Stream: true,
	}
	if out.MaxTokens == 0 {
		out.MaxTokens = a.maxTokens
	}
	a.reason(&out, req.ReasoningEffort)
	for _, m := range req.Messages {
		msg := messagesMessage{Role: string(m.Role)}
		for _, img := range m.Images {
			msg.Content = append(msg.Content, messagesBlock{
				Type: "image", Source: &messagesSource{"base64", img.Mime, img.DataBase64},
			})
		}
		if m.Text != "" {
			msg.Content = append(msg.Content, messagesBlock{Type: "text", Text: m.Text})
		}
		if len(msg.Content) > 0 { // the API refuses an empty one
			out.Messages = append(out.Messages, msg)
		}
	}
	return encodeJSON(out)
}

// reason writes the effort in the way of the model's generation. A budget comes
// on top of the limit, which is one for the answer here and counts both there.
func (a messages) reason(out *messagesRequest, effort string) {
	switch {
	case effort == "":
		return
	case effort == "off":
		out.Thinking = &messagesThinking{Type: "disabled"}
	case a.thinking == ThinkingBudget:
		budget := thinkingBudget(effort)
		out.Thinking = &messagesThinking{Type: "enabled", BudgetTokens: budget}
		out.MaxTokens += budget
	default:
		out.Thinking = &messagesThinking{Type: "adaptive"}
		if level := anthropicEffort(effort); level != "" {
			out.OutputConfig = &messagesOutput{level}
		}
	}
}

// anthropicEffort names the nearest level that the API has.
func anthropicEffort(effort string) string {
	switch effort {
	case "minimal":
		return "low"
	case "ultra":
		return "max"
	case "auto":
		return ""
	}
	return effort
}

// thinkingBudget is in tokens; 1,024 is the least that the API takes.
func thinkingBudget(effort string) uint32 {
	switch effort {
	case "minimal":
		return 1_024
	case "low":
		return 2_048
	case "high":
		return 16_384
	case "xhigh", "ultra", "max":
		return 32_000
	}
	return 8_192 // medium, auto
}

type messagesEvent struct {
	Type    str `json:"type"`
	Message *struct {
		ID    str                     `json:"id"`
		Model str                     `json:"model"`
		Usage lenient[anthropicUsage] `json:"usage"`
	} `json:"message"`
	Block *struct {
		Type     str  `json:"type"`
		Text     text `json:"text"`
		Thinking text `json:"thinking"`
	} `json:"content_block"`
	Delta *struct {
		Type       str  `json:"type"`
		Text       text `json:"text"`
		Thinking   text `json:"thinking"`
		StopReason str  `json:"stop_reason"`
	} `json:"delta"`
	Usage lenient[anthropicUsage] `json:"usage"`
}

// anthropicUsage is cumulative: a later report replaces the fields it has.
type anthropicUsage struct {
	Input       count `json:"input_tokens"`
	Output      count `json:"output_tokens"`
	CacheRead   count `json:"cache_read_input_tokens"`
	CacheWrite  count `json:"cache_creation_input_tokens"`
	ServiceTier str   `json:"service_tier"`
}

func (messages) decoder(out *output) decoder { return &messagesDecoder{out: out} }

type messagesDecoder struct {
	out      *output
	usage    anthropicUsage
	finished bool
}

func (d *messagesDecoder) ended() bool { return d.finished }

func (d *messagesDecoder) event(data []byte) (bool, error) {
	if string(data) == doneMark {
		return false, nil // not of this API, but some proxies add it
	}
	var e messagesEvent
	if json.Unmarshal(data, &e) != nil {
		return false, fail(wire.CodeModelStreamInvalid, "event has fields of another type")
	}
	d.report(e.Usage)
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			d.out.identify(e.Message.ID, e.Message.Model)
			d.report(e.Message.Usage)
		}
	case "content_block_start":
		return false, d.block(&e)
	case "content_block_delta":
		return false, d.delta(&e)
	case "message_delta":
		if e.Delta != nil && e.Delta.StopReason != "" {
			d.out.result.Finish = messagesFinish(string(e.Delta.StopReason))
		}
	case "message_stop":
		if d.out.result.Finish == "" {
			d.out.result.Finish = FinishUndefined
		}
		d.finished = true
		return true, nil
	}
	return false, nil
}

// block takes the beginning of a content block, which may hold text already.
// Only tool_use is a call for the caller; server_tool_use and mcp_tool_use are
// run by the provider, and their results are no answer.
func (d *messagesDecoder) block(e *messagesEvent) error {
	if e.Block == nil {
		return nil
	}
	switch e.Block.Type {
	case "text":
		return d.out.addText(e.Block.Text)
	case "thinking":
		return d.out.addReasoning(e.Block.Thinking)
	case "tool_use":
		d.out.result.ToolCall = true
	}
	return nil
}

func (d *messagesDecoder) delta(e *messagesEvent) error {
	if e.Delta == nil {
		return fail(wire.CodeModelStreamInvalid, "delta is missing")
	}
	switch e.Delta.Type {
	case "text_delta":
		return d.out.addText(e.Delta.Text)
	case "thinking_delta":
		return d.out.addReasoning(e.Delta.Thinking)
	}
	return nil
}

// report adds to the usage; input is without what the cache read and wrote.
func (d *messagesDecoder) report(l lenient[anthropicUsage]) {
	u := l.value
	if u == nil {
		return
	}
	d.usage = anthropicUsage{
		Input: u.Input.or(d.usage.Input), Output: u.Output.or(d.usage.Output),
		CacheRead: u.CacheRead.or(d.usage.CacheRead), CacheWrite: u.CacheWrite.or(d.usage.CacheWrite),
		ServiceTier: d.usage.ServiceTier,
	}
	if d.out.isName(string(u.ServiceTier)) {
		d.usage.ServiceTier = u.ServiceTier
	}
	if !d.usage.Input.set && !d.usage.Output.set {
		return
	}
	d.out.result.Usage = &wire.Usage{
		InputTokens:          d.usage.Input.n + d.usage.CacheRead.n + d.usage.CacheWrite.n,
		OutputTokens:         d.usage.Output.n,
		PromptCacheHitTokens: d.usage.CacheRead.ptr(),
		PromptCacheWrite:     d.usage.CacheWrite.ptr(),
		ServiceTier:          string(d.usage.ServiceTier),
	}
}

// messagesFinish: a pause asks the caller to go on, so the answer is not whole.
func messagesFinish(reason string) Finish {
	switch reason {
	case "end_turn", "stop_sequence":
		return FinishStop
	case "max_tokens", "model_context_window_exceeded", "pause_turn":
		return FinishLength
	case "tool_use":
		return FinishToolCall
	case "refusal":
		return FinishRefused
	}
	return FinishUndefined
}
