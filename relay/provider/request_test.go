package provider_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

var conversation = provider.Request{
	Model:  "vendor/model:1",
	System: "Be <brief> & kind.",
	Messages: []provider.Message{
		{Role: provider.RoleUser, Text: "What is this?", Images: []wire.Image{{Mime: "image/png", DataBase64: "aGk="}}},
		{Role: provider.RoleAssistant, Text: "A cat.", Reasoning: "whiskers"},
		{Role: provider.RoleUser, Text: "Sure?"},
	},
	ReasoningEffort: "high",
	MaxOutputTokens: 500,
}

// TestRequests holds the bodies byte for byte against what the APIs define.
func TestRequests(t *testing.T) {
	t.Parallel()
	const chatMessages = `"messages":[{"role":"system","content":"Be <brief> & kind."},` +
		`{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]},` +
		`{"role":"assistant","content":"A cat."},{"role":"user","content":"Sure?"}],"stream":true`
	const anthropicMessages = `"system":"Be <brief> & kind.","messages":[{"role":"user","content":[` +
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},{"type":"text","text":"What is this?"}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"A cat."}]},{"role":"user","content":[{"type":"text","text":"Sure?"}]}],"stream":true`
	for _, c := range []struct {
		name string
		cfg  provider.Config
		edit func(*provider.Request)
		path string
		body string
	}{
		{
			name: "chat", cfg: provider.Config{API: provider.APIChat, BaseURL: "http://h/api/v1/"},
			path: "/api/v1/chat/completions",
			body: `{"model":"vendor/model:1",` + chatMessages + `,"stream_options":{"include_usage":true},"reasoning_effort":"high","max_tokens":500}`,
		},
		{
			name: "chat at OpenAI", cfg: provider.Config{API: provider.APIChat, BaseURL: "http://api.openai.com/v1"},
			path: "/v1/chat/completions",
			body: `{"model":"vendor/model:1",` + chatMessages + `,"stream_options":{"include_usage":true},"reasoning_effort":"high","max_completion_tokens":500}`,
		},
		{
			name: "chat at Mistral", cfg: provider.Config{API: provider.APIChat, BaseURL: "http://api.mistral.ai/v1"},
			path: "/v1/chat/completions",
			body: `{"model":"vendor/model:1",` + chatMessages + `,"reasoning_effort":"high","max_tokens":500}`,
		},
		{
			name: "F34 chat with reasoning handed back", path: "/v1/chat/completions",
			cfg:  provider.Config{API: provider.APIChat, ReplayReasoning: true, LimitField: provider.LimitMaxCompletionTokens},
			edit: func(r *provider.Request) { r.ReasoningEffort = "off" },
			body: `{"model":"vendor/model:1",` + strings.Replace(chatMessages, `"content":"A cat."`, `"content":"A cat.","reasoning_content":"whiskers"`, 1) +
				`,"stream_options":{"include_usage":true},"reasoning_effort":"none","max_completion_tokens":500}`,
		},
		{
			name: "chat without options", path: "/v1/chat/completions", cfg: provider.Config{API: provider.APIChat, OmitStreamOptions: true},
			edit: func(r *provider.Request) { *r = provider.Request{Model: "m", Messages: r.Messages[2:]} },
			body: `{"model":"m","messages":[{"role":"user","content":"Sure?"}],"stream":true}`,
		},
		{
			name: "responses", path: "/v1/responses", cfg: provider.Config{API: provider.APIResponses},
			body: `{"model":"vendor/model:1","instructions":"Be <brief> & kind.","input":[` +
				`{"type":"message","role":"user","content":[{"type":"input_text","text":"What is this?"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]},` +
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"A cat."}]},` +
				`{"type":"message","role":"user","content":[{"type":"input_text","text":"Sure?"}]}],` +
				`"stream":true,"store":false,"max_output_tokens":500,"reasoning":{"effort":"high"}}`,
		},
		{
			name: "responses without options", path: "/v1/responses", cfg: provider.Config{API: provider.APIResponses},
			edit: func(r *provider.Request) {
				*r = provider.Request{Model: "m", Messages: r.Messages[2:], ReasoningEffort: "auto"}
			},
			body: `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Sure?"}]}],"stream":true,"store":false}`,
		},
		{
			name: "messages", path: "/v1/messages", cfg: provider.Config{API: provider.APIMessages, BaseURL: "http://h"},
			body: `{"model":"vendor/model:1","max_tokens":500,` + anthropicMessages + `,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`,
		},
		{
			name: "messages, version in the address", path: "/v1/messages", cfg: provider.Config{API: provider.APIMessages, BaseURL: "http://h/v1/"},
			edit: func(r *provider.Request) { r.ReasoningEffort, r.MaxOutputTokens = "", 0 },
			body: `{"model":"vendor/model:1","max_tokens":16384,` + anthropicMessages + `}`,
		},
		{
			name: "messages with a budget", path: "/v1/messages",
			cfg:  provider.Config{API: provider.APIMessages, Thinking: provider.ThinkingBudget, MaxOutputTokens: 1000},
			edit: func(r *provider.Request) { r.MaxOutputTokens = 0 },
			body: `{"model":"vendor/model:1","max_tokens":17384,` + anthropicMessages + `,"thinking":{"type":"enabled","budget_tokens":16384}}`,
		},
		{
			name: "messages, thinking off", path: "/v1/messages", cfg: provider.Config{API: provider.APIMessages},
			edit: func(r *provider.Request) { r.ReasoningEffort = "off" },
			body: `{"model":"vendor/model:1","max_tokens":500,` + anthropicMessages + `,"thinking":{"type":"disabled"}}`,
		},
		{
			name: "messages, nothing empty", path: "/v1/messages", cfg: provider.Config{API: provider.APIMessages},
			edit: func(r *provider.Request) {
				*r = provider.Request{Model: "m", MaxOutputTokens: 1, Messages: []provider.Message{
					{Role: provider.RoleUser, Text: "Sure?"}, {Role: provider.RoleAssistant},
				}}
			},
			body: `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"Sure?"}]}],"stream":true}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := conversation
			if c.edit != nil {
				c.edit(&req)
			}
			u := newUpstream(t, play(whole(c.cfg.API, provider.FinishStop, say(c.cfg.API, "Hi"))))
			wantText(t, ask(t.Context(), t, u, c.cfg, req), "Hi")
			got := u.seen()[0]
			if got.path != c.path {
				t.Errorf("path = %s, want %s", got.path, c.path)
			}
			if compact([]byte(got.body)) != c.body {
				t.Errorf("body\n%s, want\n%s", got.body, c.body)
			}
			if !json.Valid([]byte(got.body)) || bytes.Contains([]byte(got.body), []byte("tools")) {
				t.Errorf("body = %s", got.body)
			}
		})
	}
}

func TestEffortNamesOfAnthropic(t *testing.T) {
	t.Parallel()
	for effort, want := range map[string]string{
		"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "ultra": "max", "max": "max", "auto": "",
	} {
		u := newUpstream(t, play(closing(provider.APIMessages)))
		req := question
		req.ReasoningEffort = effort
		ask(t.Context(), t, u, provider.Config{API: provider.APIMessages}, req)
		var body struct {
			Thinking struct{ Type string }
			Output   struct{ Effort string } `json:"output_config"`
		}
		if err := json.Unmarshal([]byte(u.seen()[0].body), &body); err != nil {
			t.Fatal(err)
		}
		if body.Output.Effort != want || body.Thinking.Type != "adaptive" {
			t.Errorf("%s: %+v", effort, body)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		u := newUpstream(t, play(""))
		ask(t.Context(), t, u, provider.Config{API: api}, question)
		h := u.seen()[0].header
		want := map[string]string{
			"Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json",
			"User-Agent": "fairlead", "Authorization": "Bearer " + canary,
		}
		if api == provider.APIMessages {
			want["Authorization"], want["X-Api-Key"], want["Anthropic-Version"] = "", canary, "2023-06-01"
		}
		for k, v := range want {
			if h.Get(k) != v {
				t.Errorf("%s = %q", k, h.Get(k))
			}
		}
	})
}

func TestNoKeyNoHeader(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		u := newUpstream(t, play(""))
		c, err := provider.New(provider.Config{API: api, BaseURL: "http://upstream.test", Transport: u.transport()})
		if err != nil {
			t.Fatal(err)
		}
		collect(t.Context(), c, question)
		h := u.seen()[0].header
		if _, ok := h["Authorization"]; ok || h.Get("X-Api-Key") != "" {
			t.Errorf("headers = %v", h)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		cfg   provider.Config
		field string
	}{
		{"no API", provider.Config{}, "api"},
		{"unknown API", provider.Config{API: "smoke-signals"}, "api"},
		{"no scheme", provider.Config{API: provider.APIChat, BaseURL: "localhost:11434/v1"}, "base_url"},
		{"other scheme", provider.Config{API: provider.APIChat, BaseURL: "ftp://h/v1"}, "base_url"},
		{"password", provider.Config{API: provider.APIChat, BaseURL: "http://u:" + canary + "@h/v1"}, "base_url"},
		{"query", provider.Config{API: provider.APIChat, BaseURL: "http://h/v1?key=" + canary}, "base_url"},
		{"whole path", provider.Config{API: provider.APIChat, BaseURL: "http://h/v1/chat/completions"}, "base_url"},
		{"key with a line end", provider.Config{API: provider.APIChat, APIKey: provider.NewKey(canary + "\n")}, "api_key"},
		{"negative wait", provider.Config{API: provider.APIChat, IdleTimeout: -1}, "idle_timeout"},
		{"negative first wait", provider.Config{API: provider.APIChat, FirstTokenTimeout: -1}, "first_token_timeout"},
		{"limit field", provider.Config{API: provider.APIChat, LimitField: "max"}, "output_limit_field"},
		{"thinking", provider.Config{API: provider.APIMessages, Thinking: "hard"}, "thinking"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := provider.New(c.cfg)
			var ce *provider.ConfigError
			if !errors.As(err, &ce) || ce.Field != c.field {
				t.Fatalf("err = %v, want one of %s", err, c.field)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the key leaks: %v", err)
			}
		})
	}
}

func TestKeyPrintsNothing(t *testing.T) {
	t.Parallel()
	if k := provider.NewKey(""); !k.IsZero() || k.String() != "" {
		t.Errorf("no key = %v", k)
	}
	if got := marshal(t, map[string]provider.Key{"k": provider.NewKey(canary)}); got != `{"k":"[redacted]"}` {
		t.Errorf("JSON = %s", got)
	}
}
