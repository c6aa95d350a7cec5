package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

func marshal(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return compact(b)
}

// TestCancelClosesTheConnection: before the head of the answer, before the
// first byte of it, and in mid-answer; the cause comes back as it is.
func TestCancelClosesTheConnection(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped by the person")
	eachAPI(t, func(t *testing.T, api provider.API) {
		for _, at := range []string{"before the head", "before the answer", "in mid-answer"} {
			ctx, cancel := context.WithCancelCause(t.Context())
			there, closed := newGate(), newGate()
			u := newUpstream(t, func(x *exchange) {
				if at != "before the head" {
					x.head(200)
				}
				if at == "in mid-answer" {
					x.send(opening(api) + say(api, "Hi"))
				}
				there.open()
				x.stay()
				closed.open()
			})
			go func() {
				<-there.c
				cancel(stopped)
			}()
			r := ask(ctx, t, u, provider.Config{API: api}, question)
			if !errors.Is(r.err, stopped) {
				t.Errorf("%s: err = %v, want the cause", at, r.err)
			}
			closed.wait(t, "closing "+at)
		}
	})
}

// TestCancelDropsWhatIsBuffered: after the stop nothing more is emitted, though
// the rest of the answer has arrived already.
func TestCancelDropsWhatIsBuffered(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		u := newUpstream(t, play(whole(api, provider.FinishStop, say(api, "One"), say(api, "Two"))))
		c, err := provider.New(provider.Config{API: api, BaseURL: "http://upstream.test", Transport: u.transport()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, err = c.Stream(ctx, question, func(provider.Delta) error {
			n++
			cancel()
			return nil
		})
		if n != 1 || !errors.Is(err, context.Canceled) {
			t.Errorf("%d deltas, err %v", n, err)
		}
	})
}

func TestErrorOfEmitComesBackAsItIs(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	eachAPI(t, func(t *testing.T, api provider.API) {
		closed := newGate()
		u := newUpstream(t, then(func(x *exchange) { x.stay(); closed.open() }, opening(api), say(api, "Hi")))
		c, err := provider.New(provider.Config{API: api, BaseURL: "http://upstream.test", Transport: u.transport()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Stream(t.Context(), question, func(provider.Delta) error { return full })
		if err != full { //nolint:errorlint // as it is, not wrapped
			t.Errorf("err = %v", err)
		}
		closed.wait(t, "closing")
	})
}

// TestSilence: a token's wait is long before the first and short after it; a
// comment is life; a slow receiver is no silent provider.
func TestSilence(t *testing.T) {
	t.Parallel()
	cfg := provider.Config{FirstTokenTimeout: 300 * time.Second, IdleTimeout: 120 * time.Second}
	for _, api := range httpAPIs {
		cfg.API = api
		for _, c := range []struct {
			name   string
			script func(*exchange)
			code   wire.Code // "" is a finished stream
			after  time.Duration
		}{
			{"no head", func(x *exchange) { x.stay() }, wire.CodeModelStalled, 300 * time.Second},
			{"no event", then(func(x *exchange) { x.stay() }), wire.CodeModelStalled, 300 * time.Second},
			{"no token", then(func(x *exchange) { x.stay() }, opening(api)), wire.CodeModelStalled, 300 * time.Second},
			{"after a token", then(func(x *exchange) { x.stay() }, opening(api), say(api, "Hi")), wire.CodeModelStalled, 120 * time.Second},
			{"after reasoning", then(func(x *exchange) { x.stay() }, opening(api), think(api, "Hm")), wire.CodeModelStalled, 120 * time.Second},
			{"slow, but alive", slowly(api, 100*time.Second, ": still here\n\n"), "", 1000 * time.Second},
		} {
			t.Run(string(api)+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					from := time.Now()
					r := ask(t.Context(), t, newUpstream(t, c.script), cfg, question)
					if c.code == "" && r.err != nil {
						t.Errorf("err = %v", r.err)
					}
					if c.code != "" && r.failure(t).Code != c.code {
						t.Errorf("err = %v", r.err)
					}
					if took := time.Since(from); took != c.after {
						t.Errorf("took %v, want %v", took, c.after)
					}
				})
			})
		}
	}
}

// slowly sends an answer with ten pauses, filled with comments.
func slowly(api provider.API, pause time.Duration, comment string) func(*exchange) {
	return func(x *exchange) {
		x.head(200)
		x.send(opening(api) + say(api, "Hi"))
		for range 10 {
			time.Sleep(pause)
			x.send(comment)
		}
		x.send(finish(api, provider.FinishStop) + closing(api))
		x.end()
	}
}

func TestSlowReceiverIsNoSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := provider.APIChat
		u := newUpstream(t, play(whole(api, provider.FinishStop, say(api, "Hi"))))
		c, _ := provider.New(provider.Config{API: api, BaseURL: "http://upstream.test", Transport: u.transport()})
		_, err := c.Stream(t.Context(), question, func(provider.Delta) error {
			time.Sleep(time.Hour)
			return nil
		})
		if err != nil {
			t.Errorf("err = %v", err)
		}
	})
}

// TestChatThatStaysOpenAfterItsFinish ends soon, with all that it said.
func TestChatThatStaysOpenAfterItsFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, from := provider.APIChat, time.Now()
		u := newUpstream(t, then(func(x *exchange) { x.stay() }, say(api, "Hi"), finish(api, provider.FinishStop)))
		r := ask(t.Context(), t, u, provider.Config{API: api}, question)
		wantText(t, r, "Hi")
		if took := time.Since(from); took > 10*time.Second || r.res.Usage == nil {
			t.Errorf("took %v, usage %v", took, r.res.Usage)
		}
	})
}

func TestErrorBodyThatNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(t, func(x *exchange) { x.head(429, "Retry-After: 3"); x.send("{"); x.stay() })
		r := ask(t.Context(), t, u, provider.Config{API: provider.APIChat}, question)
		if f := r.failure(t); f.Code != wire.CodeModelRateLimited || f.RetryAt.IsZero() {
			t.Errorf("failure = %+v", f)
		}
	})
}

// TestExactlyOneRequest, whatever the answer is.
func TestExactlyOneRequest(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		scripts := map[string]func(*exchange){
			"fine":     play(whole(api, provider.FinishStop, say(api, "Hi"))),
			"redirect": status(307, "", "Location: http://elsewhere.test/v1"),
			"failure":  status(500, `{}`),
			"limit":    status(429, `{}`, "Retry-After: 0"),
			"cut":      func(x *exchange) { x.cut() },
			"kept":     func(x *exchange) { x.head(503); x.end(); x.stay() },
		}
		for name, script := range scripts {
			u := newUpstream(t, script)
			ask(t.Context(), t, u, provider.Config{API: api}, question)
			if n := len(u.seen()); n != 1 {
				t.Errorf("%s: %d requests", name, n)
			}
		}
	})
}

// TestDuplicatedEvent: Responses events have numbers, so a repetition is known;
// where there are none the text stands as it was sent.
func TestDuplicatedEvent(t *testing.T) {
	t.Parallel()
	delta := named("response.output_text.delta", `,"sequence_number":4,"delta":"ha"`)
	next := named("response.output_text.delta", `,"sequence_number":5,"delta":"ha"`)
	end := finish(provider.APIResponses, provider.FinishStop)
	wantText(t, run(t, provider.APIResponses, play(delta, delta, next, next, end)), "haha")
	// A server that never counts up still loses nothing.
	wantText(t, run(t, provider.APIResponses, play(delta, strings.Replace(delta, "ha", "!", 1), end)), "ha!")
	for _, api := range []provider.API{provider.APIChat, provider.APIMessages} {
		wantText(t, run(t, api, play(whole(api, provider.FinishStop, say(api, "ha"), say(api, "ha")))), "haha")
	}
}

func TestResponsesAnswerInOnePiece(t *testing.T) {
	t.Parallel()
	end := named("response.completed", `,"response":{"output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":"Hi"}]}]}`)
	wantText(t, run(t, provider.APIResponses, play(end)), "Hi")
	wantText(t, run(t, provider.APIResponses, play(say(provider.APIResponses, "Hi"), end)), "Hi")
}

func TestResponsesDeltaWithoutText(t *testing.T) {
	t.Parallel()
	s := named("response.output_text.delta", `,"delta":{"text":"Hi"}`) + finish(provider.APIResponses, provider.FinishStop)
	if f := run(t, provider.APIResponses, play(s)).failure(t); f.Code != wire.CodeModelStreamInvalid {
		t.Errorf("code = %s", f.Code)
	}
}

func TestAnthropicMarkerIsMessageStop(t *testing.T) {
	t.Parallel()
	api := provider.APIMessages
	cut := run(t, api, play(opening(api)+say(api, "Hi")+finish(api, provider.FinishStop)))
	if f := cut.failure(t); f.Code != wire.CodeModelStreamCut || f.Partial.Usage.OutputTokens != 2 {
		t.Errorf("without message_stop: %+v", f)
	}
	r := run(t, api, play(opening(api)+say(api, "Hi")+closing(api)))
	wantText(t, r, "Hi")
	if r.res.Finish != provider.FinishUndefined {
		t.Errorf("finish = %s", r.res.Finish)
	}
}

func TestChatFinishReasonsThatAreFailures(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]wire.Code{
		"error": wire.CodeModelFailed, "insufficient_system_resource": wire.CodeModelOverloaded, "abort": wire.CodeModelStreamCut,
	} {
		s := say(provider.APIChat, "Hi") + data(`{"choices":[{"finish_reason":%q}]}`, reason)
		if f := run(t, provider.APIChat, play(s)).failure(t); f.Code != want {
			t.Errorf("%s: %s", reason, f.Code)
		}
	}
}

func TestChatRefusalIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := data(`{"choices":[{"delta":{"refusal":"I will not"}}]}`) + finish(provider.APIChat, provider.FinishStop)
	r := run(t, provider.APIChat, play(s))
	if got := r.outcome(); got.Code != wire.CodeModelRefused || r.text != "" {
		t.Errorf("%+v, answer %q", got, r.text)
	}
}

func TestOtherChoicesAreNoPartOfTheAnswer(t *testing.T) {
	t.Parallel()
	s := data(`{"choices":[{"index":1,"delta":{"content":"No"}},{"index":0,"delta":{"content":"Yes"}}]}`) + finish(provider.APIChat, provider.FinishStop)
	wantText(t, run(t, provider.APIChat, play(s)), "Yes")
}

func TestAnthropicUsageAddsTheCache(t *testing.T) {
	t.Parallel()
	s := named("message_start", `,"message":{"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":5,"output_tokens":1,"service_tier":"priority"}}`) +
		say(provider.APIMessages, "Hi") + named("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}`) + closing(provider.APIMessages)
	r := run(t, provider.APIMessages, play(s))
	sameUsage(t, r.res.Usage, &wire.Usage{
		InputTokens: 115, OutputTokens: 7, PromptCacheHitTokens: u64(100),
		PromptCacheWrite: u64(5), ServiceTier: "priority",
	})
}

// TestKeyNeverAppears: not in what is returned, printed in any way, whatever
// the provider does with it.
func TestKeyNeverAppears(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		echo := `{"error":{"message":"` + canary + `","type":"` + canary + `","code":"` + canary + `"}}`
		named := strings.NewReplacer(`"r1"`, quote(canary), `"m1"`, quote("m-"+canary)).Replace(whole(api, provider.FinishStop, say(api, "Hi")))
		for name, script := range map[string]func(*exchange){
			"status": status(401, echo), "stream": play(data("%s", echo)), "names": play(named), "bare": play(echo + "\n"),
			"no http": func(x *exchange) { _, _ = fmt.Fprintf(x.conn, "%s\r\n\r\n", canary); x.cut() },
			"damaged": play("data: {" + canary + "\n\n"),
		} {
			u := newUpstream(t, script)
			cfg := provider.Config{API: api, APIKey: provider.NewKey(canary), BaseURL: "http://upstream.test", Transport: u.transport()}
			c, err := provider.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			r := collect(t.Context(), c, question)
			printed := fmt.Sprintf("%v %+v %#v %v %+v %#v %+v %#v", cfg, cfg, cfg, c, c, c, r, r)
			if r.err != nil {
				printed += fmt.Sprintf("%+v %#v %s", r.err, r.err, marshal(t, r.failure(t).Partial))
			}
			if strings.Contains(printed, canary) {
				t.Errorf("%s: the key appears in %s", name, printed)
			}
			if h := u.seen()[0].header; !strings.Contains(h.Get("Authorization")+h.Get("X-Api-Key"), canary) {
				t.Errorf("%s: the key was not sent: %v", name, h)
			}
		}
	})
}
