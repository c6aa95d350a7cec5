package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// usage is what turn.get must say of a recording.
type usage map[string]int64

// recorded says how a recorded stream must end; its text is taken from the
// recording itself.
var recorded = []struct {
	name, api, end, code, finish string
	usage                        usage
}{
	{"openai-chat-text", "openai-chat", "turn.completed", "", "", usage{"tokens.input": 16, "tokens.output": 300}},
	{"mistral-chat-text", "openai-chat", "turn.completed", "", "", usage{"tokens.input": 13, "tokens.output": 8}},
	{"xai-chat-text", "openai-chat", "turn.completed", "", "", usage{"tokens.input": 1, "tokens.cache_read": 11, "tokens.output": 2, "tokens.reasoning": 340}},
	{"deepseek-chat-reasoning", "openai-chat", "turn.completed", "", "", usage{"tokens.input": 18, "tokens.output": 219}},
	{"deepseek-chat-tool-call", "openai-chat", "turn.failed", "model_tool_call_unsupported", "", usage{"tokens.input": 19, "tokens.cache_read": 320, "tokens.output": 83}},
	{"lmstudio-responses-text", "openai-responses", "turn.completed", "", "", nil},
	{"xai-responses-reasoning", "openai-responses", "turn.completed", "", "", nil},
	{"openai-responses-error", "openai-responses", "turn.failed", "model_rate_limited", "", usage{}},
	{"anthropic-messages-text", "anthropic-messages", "turn.completed", "", "", usage{"tokens.input": 12, "tokens.output": 30}},
	{"anthropic-messages-tool", "anthropic-messages", "turn.completed", "", "", usage{"tokens.input": 4230, "tokens.output": 446}},
}

// TestF34_EveryRecordingEndsAsRecorded sends one prompt to each recorded stream
// and compares the thread's log and the booked usage with the recording.
// E2E_PROVIDER_URL names another server that replays the same recordings.
func TestF34_EveryRecordingEndsAsRecorded(t *testing.T) {
	t.Parallel()
	base := newProvider(t).URL
	byAPI := map[string][]model{}
	for _, r := range recorded {
		byAPI[r.api] = append(byAPI[r.api], model{r.name, "fixture:" + r.name})
	}
	in := installWith(t,
		route{"chat", "openai-chat", base + "/v1", byAPI["openai-chat"]},
		route{"responses", "openai-responses", base + "/v1", byAPI["openai-responses"]},
		route{"messages", "anthropic-messages", base, byAPI["anthropic-messages"]})
	in.start()
	token := in.user("recordings@example.com")
	for _, r := range recorded {
		t.Run(r.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			v, turn, booked := oneTurn(ctx, t, in, token, r.name)
			end := v.terminal(turn)
			if end.EventType != r.end || end.Error != r.code || end.Finish != r.finish {
				t.Errorf("ended as %s %q %q", end.EventType, end.Error, end.Finish)
			}
			if got, want := v.answer(turn), recordedText(t, r.name); got != want {
				t.Errorf("the log holds %q, the recording %q", got, want)
			}
			want := r.usage
			if want == nil {
				want = responsesUsage(t, r.name)
			}
			if fmt.Sprint(booked) != fmt.Sprint(want) {
				t.Errorf("booked %v, reported %v", booked, want)
			}
		})
	}
}

func oneTurn(ctx context.Context, t *testing.T, in *install, token, modelID string) (*view, string, usage) {
	t.Helper()
	c, err := dial(ctx, in.url, token)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	v := &view{threadID: newID()}
	sent, err := c.send(ctx, "", v.threadID, newID(), "say "+modelID, modelID)
	if err != nil {
		t.Fatal(err)
	}
	turn := *sent.TurnID
	if err := v.open(ctx, c); err != nil {
		t.Fatal(err)
	}
	for v.terminal(turn) == nil {
		if _, err := c.next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	f, err := c.call(ctx, map[string]any{"type": "turn.get", "turnId": turn})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Usage []struct {
			Category string
			Quantity int64
		}
	}
	if err := json.Unmarshal(f.Turn, &got); err != nil {
		t.Fatal(err)
	}
	booked := usage{}
	for _, row := range got.Usage {
		booked[row.Category] += row.Quantity
	}
	return v, turn, booked
}

// recordedText joins the answer deltas of a recording, of whichever API.
func recordedText(t *testing.T, name string) string {
	t.Helper()
	payloads := recording(name)
	if len(payloads) == 0 {
		t.Fatalf("no recording %s in %s", name, filepath.Clean(recordings))
	}
	var b strings.Builder
	for _, payload := range payloads {
		var p struct {
			Type    string
			Delta   json.RawMessage
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(payload), &p); err != nil {
			t.Fatal(err)
		}
		for _, choice := range p.Choices {
			b.WriteString(choice.Delta.Content)
		}
		switch p.Type {
		case "response.output_text.delta":
			var text string
			_ = json.Unmarshal(p.Delta, &text)
			b.WriteString(text)
		case "content_block_delta":
			var delta struct{ Type, Text string }
			_ = json.Unmarshal(p.Delta, &delta)
			if delta.Type == "text_delta" {
				b.WriteString(delta.Text)
			}
		}
	}
	return b.String()
}

// responsesUsage reads the usage that the last frame of a Responses recording
// reports.
func responsesUsage(t *testing.T, name string) usage {
	t.Helper()
	payloads := recording(name)
	var last struct {
		Response struct {
			Usage struct {
				Input   int64 `json:"input_tokens"`
				Output  int64 `json:"output_tokens"`
				Details struct {
					Cached int64 `json:"cached_tokens"`
				} `json:"input_tokens_details"`
			}
		}
	}
	if err := json.Unmarshal([]byte(payloads[len(payloads)-1]), &last); err != nil {
		t.Fatal(err)
	}
	u := last.Response.Usage
	booked := usage{"tokens.input": u.Input - u.Details.Cached, "tokens.output": u.Output}
	if u.Details.Cached > 0 {
		booked["tokens.cache_read"] = u.Details.Cached
	}
	return booked
}
