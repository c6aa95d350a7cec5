package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

func newDemo(t *testing.T, delay time.Duration) provider.Client {
	t.Helper()
	c, err := provider.New(provider.Config{API: provider.APIDemo, DemoDelay: delay})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDemoTellsWhatItReceived(t *testing.T) {
	t.Parallel()
	c := newDemo(t, -1)
	req := provider.Request{System: "be brief", Messages: []provider.Message{
		{Role: provider.RoleUser, Text: "Hello **there**\nfriend", Images: make([]wire.Image, 2)},
	}}
	r := collect(t.Context(), c, req)
	for _, want := range []string{"1 message in this conversation, 1 of them yours", "> Hello **there**\n> friend\n", "2 images", "```yaml\nhost:\n  providers:"} {
		if !strings.Contains(r.text, want) {
			t.Errorf("answer lacks %q:\n%s", want, r.text)
		}
	}
	if got := r.outcome(); got != (provider.Outcome{Status: wire.NativeCompleted}) {
		t.Errorf("ended %+v", got)
	}
	if u := r.res.Usage; u.InputTokens != 5 || u.OutputTokens != uint64(len(r.deltas)) {
		t.Errorf("usage = %+v of %d words", u, len(r.deltas))
	}
	if again := collect(t.Context(), c, req); again.text != r.text {
		t.Error("the same question got another answer")
	}
	req.Messages = append(req.Messages, provider.Message{Role: provider.RoleAssistant, Text: r.text}, provider.Message{Role: provider.RoleUser})
	if r := collect(t.Context(), c, req); !strings.Contains(r.text, "3 messages in this conversation, 2 of them yours") {
		t.Errorf("second answer:\n%s", r.text)
	}
}

func TestDemoCounts(t *testing.T) {
	t.Parallel()
	c := newDemo(t, -1)
	ask := func(s string, limit uint32) reply {
		return collect(t.Context(), c, provider.Request{
			MaxOutputTokens: limit, ReasoningEffort: "off",
			Messages: []provider.Message{{Role: provider.RoleUser, Text: s}},
		})
	}
	if r := ask("Count to 5, please", 0); r.text != "1 2 3 4 5" {
		t.Errorf("answer = %q", r.text)
	}
	if r := ask("<context>\ncount to 9\n</context>\n\ncount to 2", 0); r.text != "1 2" {
		t.Errorf("with context: %q", r.text)
	}
	if r := ask("count to 999999999", 0); len(r.deltas) != 2000 {
		t.Errorf("%d words", len(r.deltas))
	}
	if r := ask("count to 5", 3); r.text != "1 2 3" || r.outcome().Code != wire.CodeModelOutputIncomplete {
		t.Errorf("limited: %q, %+v", r.text, r.outcome())
	}
}

func TestDemoReasonsWhenAsked(t *testing.T) {
	t.Parallel()
	r := collect(t.Context(), newDemo(t, -1), provider.Request{ReasoningEffort: "high", Messages: question.Messages})
	if !strings.Contains(r.reasoning, "effort high") || strings.Contains(r.text, "effort high") {
		t.Errorf("reasoning = %q", r.reasoning)
	}
}

func TestDemoQuotesWholeRunes(t *testing.T) {
	t.Parallel()
	r := collect(t.Context(), newDemo(t, -1), provider.Request{Messages: []provider.Message{{Role: provider.RoleUser, Text: strings.Repeat("你", 500)}}})
	if !utf8.ValidString(r.text) || !strings.Contains(r.text, "你 …") {
		t.Errorf("answer = %q", r.text)
	}
}

// TestDemoIsPacedAndStops: words come one by one, and none after the stop.
func TestDemoIsPacedAndStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newDemo(t, 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		from, n := time.Now(), 0
		res, err := c.Stream(ctx, question, func(provider.Delta) error {
			if n++; n == 10 {
				cancel(stopped)
			}
			return nil
		})
		if n != 10 || !errors.Is(err, stopped) || res.Usage.OutputTokens != 10 {
			t.Errorf("%d words, err %v, usage %+v", n, err, res.Usage)
		}
		if took := time.Since(from); took != 10*provider.DefaultDemoDelay {
			t.Errorf("took %v", took)
		}
	})
}

func TestDemoErrorOfEmit(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	if _, err := newDemo(t, -1).Stream(t.Context(), question, func(provider.Delta) error { return full }); err != full { //nolint:errorlint // as it is
		t.Errorf("err = %v", err)
	}
}
