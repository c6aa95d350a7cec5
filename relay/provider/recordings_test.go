package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// recording plays a file of testdata/recordings as its provider sent it.
func recording(t *testing.T, name string, api provider.API) func(*exchange) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "recordings", name+".chunks.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for _, line := range lines(string(raw)) {
		events = append(events, data("%s", line))
	}
	if api == provider.APIChat {
		events = append(events, data("[DONE]"))
	}
	return play(events...)
}

func u64(n uint64) *uint64 { return &n }

// TestRecordings holds the decoders against what real providers sent.
func TestRecordings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		api       provider.API
		text      string // "…" stands for what is left out
		reasoning string
		outcome   provider.Outcome
		usage     *wire.Usage
	}{
		{
			name: "anthropic-messages-text", api: provider.APIMessages, text: "Hello! I'm doing well, thank you for asking…",
			outcome: provider.Outcome{Status: "completed"},
			usage: &wire.Usage{
				InputTokens: 12, OutputTokens: 30, PromptCacheHitTokens: u64(0), PromptCacheWrite: u64(0),
				ServiceTier: "standard",
			},
		},
		{
			name: "anthropic-messages-tool", api: provider.APIMessages, text: "I'll fetch the content from that Wikipedia page…",
			outcome: provider.Outcome{Status: "completed"}, // a server tool is no call
			usage: &wire.Usage{
				InputTokens: 4230, OutputTokens: 446, PromptCacheHitTokens: u64(0), PromptCacheWrite: u64(0),
				ServiceTier: "standard",
			},
		},
		{
			name: "mistral-chat-text", api: provider.APIChat, text: "Hello, world! This is a test response.",
			outcome: provider.Outcome{Status: "completed"},
			usage:   &wire.Usage{InputTokens: 13, OutputTokens: 8},
		},
		{
			name: "xai-chat-text", api: provider.APIChat, text: "Grok", reasoning: "First, the user…",
			outcome: provider.Outcome{Status: "completed"},
			usage: &wire.Usage{
				InputTokens: 12, OutputTokens: 2, PromptCacheHitTokens: u64(11), ReasoningTokens: u64(340),
				ReasoningOutside: true,
			},
		},
		{
			name: "deepseek-chat-tool-call", api: provider.APIChat, reasoning: "The user…",
			outcome: provider.Outcome{Status: "failed", Code: wire.CodeModelToolCallUnsupported},
			usage: &wire.Usage{
				InputTokens: 339, OutputTokens: 83, PromptCacheHitTokens: u64(320), PromptCacheMissTokens: u64(19),
				ReasoningTokens: u64(39),
			},
		},
		{
			name: "openai-responses-error", api: provider.APIResponses,
			outcome: provider.Outcome{Status: "failed", Code: wire.CodeModelRateLimited},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, c.api, recording(t, c.name, c.api))
			if got := r.outcome(); got != c.outcome {
				t.Errorf("ended %+v (%v)", got, r.err)
			}
			like(t, "answer", r.text, c.text)
			like(t, "reasoning", r.reasoning, c.reasoning)
			sameUsage(t, r.res.Usage, c.usage)
			if r.res.ResponseID == "" || r.res.Model == "" {
				t.Errorf("names: %+v", r.res)
			}
		})
	}
}

func like(t *testing.T, what, got, want string) {
	t.Helper()
	head, cut := strings.CutSuffix(want, "…")
	if got != head && (!cut || !strings.HasPrefix(got, head)) {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
}

func sameUsage(t *testing.T, got, want *wire.Usage) {
	t.Helper()
	if g, w := marshal(t, got), marshal(t, want); g != w {
		t.Errorf("usage = %s, want %s", g, w)
	}
}
