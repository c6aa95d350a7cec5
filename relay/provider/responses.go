package provider

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/fairlead/fairlead/relay/wire"
)

// responses is the OpenAI Responses API. Its terminal marker is one of
// response.completed, response.incomplete and response.failed. Events have
// numbers: one that repeats the event before it, number and all, is dropped.
type responses struct{}

func (responses) path(base string) string { return base + "/responses" }

func (responses) authorise(h http.Header, key Key) { bearer(h, key) }

type responsesRequest struct {
	Model           string              `json:"model"`
	Instructions    string              `json:"instructions,omitempty"`
	Input           []responsesMessage  `json:"input"`
	Stream          bool                `json:"stream"`
	Store           bool                `json:"store"`
	MaxOutputTokens uint32              `json:"max_output_tokens,omitempty"`
	Reasoning       *responsesReasoning `json:"reasoning,omitempty"`
}

type responsesReasoning struct {
	Effort string `json:"effort"`
}

type responsesMessage struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content []responsesPart `json:"content"`
}

type responsesPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

// encode asks the provider to keep nothing: the history is sent every time.
func (responses) encode(req Request) ([]byte, error) {
	out := responsesRequest{
		Model: req.Model, Instructions: req.System, Stream: true,
		MaxOutputTokens: req.MaxOutputTokens, Input: []responsesMessage{},
	}
	if effort := openAIEffort(req.ReasoningEffort); effort != "" {
		out.Reasoning = &responsesReasoning{effort}
	}
	for _, m := range req.Messages {
		kind := "input_text"
		if m.Role == RoleAssistant {
			kind = "output_text"
		}
		msg := responsesMessage{Type: "message", Role: string(m.Role)}
		if m.Text != "" || len(m.Images) == 0 {
			msg.Content = append(msg.Content, responsesPart{Type: kind, Text: m.Text})
		}
		for _, img := range m.Images {
			msg.Content = append(msg.Content, responsesPart{Type: "input_image", ImageURL: dataURL(img)})
		}
		out.Input = append(out.Input, msg)
	}
	return encodeJSON(out)
}

type responsesEvent struct {
	Type     str             `json:"type"`
	Seq      count           `json:"sequence_number"`
	Delta    json.RawMessage `json:"delta"`
	Item     *responsesItem  `json:"item"`
	Response *responsesBody  `json:"response"`
}

type responsesBody struct {
	ID          str                        `json:"id"`
	Model       str                        `json:"model"`
	ServiceTier str                        `json:"service_tier"`
	Error       json.RawMessage            `json:"error"`
	Incomplete  lenient[incompleteDetails] `json:"incomplete_details"`
	Output      []responsesItem            `json:"output"`
	Usage       lenient[openAIUsage]       `json:"usage"`
}

type incompleteDetails struct {
	Reason str `json:"reason"`
}

type responsesItem struct {
	Type    str `json:"type"`
	Content []struct {
		Type str  `json:"type"`
		Text text `json:"text"`
	} `json:"content"`
}

func (responses) decoder(out *output) decoder { return &responsesDecoder{out: out} }

type responsesDecoder struct {
	out      *output
	last     []byte // the numbered event before
	refused  bool
	finished bool
}

func (d *responsesDecoder) ended() bool { return d.finished }

func (d *responsesDecoder) event(data []byte) (bool, error) {
	if string(data) == doneMark {
		return false, nil // not of this API, but some proxies add it
	}
	if bytes.Equal(d.last, data) {
		return false, nil
	}
	var e responsesEvent
	if json.Unmarshal(data, &e) != nil {
		return false, fail(wire.CodeModelStreamInvalid, "event has fields of another type")
	}
	d.last = d.last[:0]
	if e.Seq.set {
		d.last = append(d.last, data...)
	}
	if e.Response != nil {
		d.out.identify(e.Response.ID, e.Response.Model)
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed":
		return true, d.finish(&e)
	case "response.output_item.added", "response.output_item.done":
		if e.Item != nil {
			d.item(e.Item)
		}
		return false, nil
	}
	return false, d.delta(&e)
}

// delta takes the events that carry a piece of text; all others mean nothing
// to us.
func (d *responsesDecoder) delta(e *responsesEvent) error {
	add := d.out.addText
	switch e.Type {
	case "response.output_text.delta":
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		add = d.out.addReasoning
	case "response.reasoning_summary_part.added":
		if d.out.size > d.out.textSize {
			return d.out.addReasoning(text("\n\n"))
		}
		return nil
	case "response.refusal.delta", "response.refusal.done":
		d.refused = true
		return nil
	default:
		return nil
	}
	var piece text
	if len(e.Delta) == 0 || json.Unmarshal(e.Delta, &piece) != nil {
		return fail(wire.CodeModelStreamInvalid, "delta holds no text")
	}
	return add(piece)
}

// item notes calls of tools that the caller would have to run. Those that the
// provider runs itself (web search, code interpreter, MCP) do not count.
func (d *responsesDecoder) item(it *responsesItem) {
	switch it.Type {
	case "function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call",
		"apply_patch_call", "mcp_approval_request":
		d.out.result.ToolCall = true
	}
}

func (d *responsesDecoder) finish(e *responsesEvent) error {
	body := e.Response
	if body == nil {
		body = &responsesBody{}
	}
	if u := body.Usage.value.report(); u != nil {
		if d.out.isName(string(body.ServiceTier)) {
			u.ServiceTier = string(body.ServiceTier)
		}
		d.out.result.Usage = u
	}
	if e.Type == "response.failed" {
		return reported(body.Error)
	}
	for i := range body.Output {
		d.item(&body.Output[i])
		if err := d.whole(&body.Output[i]); err != nil {
			return err
		}
	}
	d.finished = true
	d.out.result.Finish = d.reason(e, body)
	return nil
}

// whole takes an item from the finished response. Its text counts only if no
// delta of text came before: some servers send the answer in one piece.
func (d *responsesDecoder) whole(it *responsesItem) error {
	if it.Type != "message" {
		return nil
	}
	streamed := d.out.textSize > 0
	for _, part := range it.Content {
		if part.Type == "refusal" {
			d.refused = true
		}
		if part.Type != "output_text" || streamed {
			continue
		}
		if err := d.out.addText(part.Text); err != nil {
			return err
		}
	}
	return nil
}

func (d *responsesDecoder) reason(e *responsesEvent, body *responsesBody) Finish {
	if e.Type == "response.incomplete" {
		if in := body.Incomplete.value; in != nil && in.Reason == "content_filter" {
			return FinishFiltered
		}
		return FinishLength
	}
	if d.refused {
		return FinishRefused
	}
	if d.out.result.ToolCall {
		return FinishToolCall
	}
	return FinishStop
}
