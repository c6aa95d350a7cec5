package provider_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/relay/provider"
)

// Transcripts are lists of events as the three APIs send them. Each function
// gives one piece of a stream in the words of one API.

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func data(format string, args ...any) string { return "data: " + fmt.Sprintf(format, args...) + "\n\n" }

func named(kind, fields string) string {
	return "event: " + kind + "\n" + data(`{"type":%q%s}`, kind, fields)
}

func opening(api provider.API) string {
	switch api {
	case provider.APIChat:
		return data(`{"id":"r1","model":"m1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)
	case provider.APIResponses:
		return named("response.created", `,"sequence_number":0,"response":{"id":"r1","model":"m1","status":"in_progress","error":null,"usage":null}`)
	}
	return named("message_start", `,"message":{"id":"r1","model":"m1","content":[],"usage":{"input_tokens":3,"output_tokens":1}}`) +
		named("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
}

// say is one delta of the answer; raw is the inside of a JSON string.
func say(api provider.API, raw string) string {
	switch api {
	case provider.APIChat:
		return data(`{"id":"r1","choices":[{"index":0,"delta":{"content":"%s"}}]}`, raw)
	case provider.APIResponses:
		return named("response.output_text.delta", `,"item_id":"i","output_index":0,"content_index":0,"delta":"`+raw+`"`)
	}
	return named("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"`+raw+`"}`)
}

func think(api provider.API, s string) string {
	switch api {
	case provider.APIChat:
		return data(`{"choices":[{"delta":{"content":null,"reasoning_content":%s}}]}`, quote(s))
	case provider.APIResponses:
		return named("response.reasoning_text.delta", `,"delta":`+quote(s))
	}
	return named("content_block_delta", `,"index":0,"delta":{"type":"thinking_delta","thinking":`+quote(s)+`}`)
}

func call(api provider.API) string {
	switch api {
	case provider.APIChat:
		return data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"rm","arguments":"{}"}}]}}]}`)
	case provider.APIResponses:
		return named("response.output_item.added", `,"output_index":1,"item":{"type":"function_call","name":"rm","arguments":""}`)
	}
	return named("content_block_start", `,"index":1,"content_block":{"type":"tool_use","id":"t","name":"rm","input":{}}`) +
		named("content_block_delta", `,"index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}`)
}

// ownTool is a tool that the provider runs itself.
func ownTool(api provider.API) string {
	switch api {
	case provider.APIChat:
		return data(`{"choices":[{"index":0,"delta":{"executed_tools":[{"type":"search"}]}}]}`)
	case provider.APIResponses:
		return named("response.output_item.added", `,"output_index":1,"item":{"type":"web_search_call","id":"ws"}`)
	}
	return named("content_block_start", `,"index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web_fetch","input":{}}`) +
		named("content_block_delta", `,"index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}`) +
		named("content_block_start", `,"index":2,"content_block":{"type":"web_fetch_tool_result","content":{"type":"x","text":"not the answer"}}`)
}

// reasons names the finish reasons of the APIs in our words.
var reasons = map[provider.Finish][2]string{ // chat, messages
	provider.FinishStop:      {"stop", "end_turn"},
	provider.FinishLength:    {"length", "max_tokens"},
	provider.FinishToolCall:  {"tool_calls", "tool_use"},
	provider.FinishRefused:   {"refusal", "refusal"},
	provider.FinishFiltered:  {"content_filter", "refusal"},
	provider.FinishUndefined: {"novelty", "novelty"},
}

// finish is the finish with usage, without what closes the stream after it.
func finish(api provider.API, f provider.Finish) string {
	switch api {
	case provider.APIChat:
		return data(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, reasons[f][0]) +
			data(`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`)
	case provider.APIResponses:
		return responsesFinish(f)
	}
	return named("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q},"usage":{"output_tokens":2}`, reasons[f][1]))
}

func responsesFinish(f provider.Finish) string {
	usage := `,"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}`
	kind, more := "response.completed", ""
	switch f {
	case provider.FinishLength:
		kind, more = "response.incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`
	case provider.FinishFiltered:
		kind, more = "response.incomplete", `,"incomplete_details":{"reason":"content_filter"}`
	case provider.FinishRefused:
		return named("response.refusal.delta", `,"delta":"I will not"`) +
			named(kind, `,"response":{"id":"r1"`+usage+`}`)
	}
	return named(kind, `,"response":{"id":"r1"`+more+usage+`}`)
}

// closing is what the API sends after the finish.
func closing(api provider.API) string {
	switch api {
	case provider.APIChat:
		return data("[DONE]")
	case provider.APIMessages:
		return named("message_stop", "")
	}
	return ""
}

// whole is a complete stream around these events.
func whole(api provider.API, f provider.Finish, events ...string) string {
	return opening(api) + strings.Join(events, "") + finish(api, f) + closing(api)
}

// trouble is an error event, as the API itself sends it.
func trouble(api provider.API, kind string) string {
	msg := quote("key " + canary + " at the provider")
	switch api {
	case provider.APIChat:
		return data(`{"error":{"type":%q,"code":%q,"message":%s}}`, kind, kind, msg)
	case provider.APIResponses:
		return named("response.failed", fmt.Sprintf(`,"response":{"id":"r1","error":{"code":%q,"message":%s}}`, kind, msg))
	}
	return named("error", fmt.Sprintf(`,"error":{"type":%q,"message":%s}`, kind, msg))
}
