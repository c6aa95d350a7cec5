package provider_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// hard is text that breaks wherever bytes are taken for characters.
const hard = "a你好, wörld 🌍👩‍👩‍👧‍👦 é e\u0301 \U0001F600!"

func wantText(t *testing.T, r reply, want string) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("err = %v", r.err)
	}
	if r.text != want {
		t.Errorf("answer = %q, want %q", r.text, want)
	}
	for _, d := range r.deltas {
		if !utf8.ValidString(d.Text) || d.Text == "" || strings.ContainsRune(d.Text, utf8.RuneError) {
			t.Errorf("delta %q is not whole", d.Text)
		}
	}
}

// TestF28_CutAtEveryByteOffset: the stream arrives in two reads, cut at every
// byte of it in turn, and then byte by byte.
func TestF28_CutAtEveryByteOffset(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		s := whole(api, provider.FinishStop, say(api, hard))
		for i := 1; i < len(s); i++ {
			wantText(t, run(t, api, play(s[:i], s[i:])), hard)
		}
		wantText(t, run(t, api, play(strings.Split(s, "")...)), hard)
	})
}

// TestF28_TokensThatAreHalfARune: the provider itself cuts a character between
// two deltas, as raw bytes and as halves of a surrogate pair.
func TestF28_TokensThatAreHalfARune(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		for i := 1; i < len(hard); i++ {
			s := whole(api, provider.FinishStop, say(api, hard[:i]), say(api, hard[i:]))
			wantText(t, run(t, api, play(s)), hard)
		}
		for _, pieces := range [][]string{
			{`\ud83d\ude00`}, {`\ud83d`, `\ude00`}, {`\uD83D`, ``, `\uDE00`}, {`x\ud83d`, `\ude00y`},
		} {
			var events []string
			for _, p := range pieces {
				events = append(events, say(api, p))
			}
			r := run(t, api, play(whole(api, provider.FinishStop, events...)))
			wantText(t, r, strings.NewReplacer(`\ud83d`, "", `\uD83D`, "", `\ude00`, "😀", `\uDE00`, "😀").Replace(strings.Join(pieces, "")))
		}
	})
}

// TestF28_WhatNothingCompletes becomes one replacement character, and never
// swallows what comes after it.
func TestF28_WhatNothingCompletes(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		for _, c := range []struct {
			pieces []string
			want   string
		}{
			{[]string{"a\xe4\xbd"}, "a\ufffd"},
			{[]string{"a\xe4", "b"}, "a\ufffdb"},
			{[]string{`\ud83d`, "b"}, "\ufffdb"},
			{[]string{`\ud83d`, `\ud83d\ude00`}, "\ufffd😀"},
			{[]string{`\ude00`, "b"}, "\ufffdb"},
			{[]string{`b\ud83d`}, "b\ufffd"},
			{[]string{`\\ud83d\ude00`}, "\\ud83d\ufffd"},
			{[]string{"\xff", `\u00e9\n\t\/\"`}, "\ufffdé\n\t/\""},
		} {
			var events []string
			for _, p := range c.pieces {
				events = append(events, say(api, p))
			}
			r := run(t, api, play(whole(api, provider.FinishStop, events...)))
			if r.err != nil || r.text != c.want {
				t.Errorf("%q: answer %q (err %v), want %q", c.pieces, r.text, r.err, c.want)
			}
			for _, d := range r.deltas {
				if !utf8.ValidString(d.Text) {
					t.Errorf("%q: delta %q", c.pieces, d.Text)
				}
			}
		}
	})
}

// frame writes a transcript anew in another framing.
func frame(s, eol, space, between string) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(s, "\n") {
		line = strings.TrimSuffix(line, "\n")
		for _, field := range []string{"data: ", "event: "} {
			if rest, ok := strings.CutPrefix(line, field); ok {
				line = strings.TrimSuffix(field, " ") + space + rest
			}
		}
		b.WriteString(line + eol)
		if line == "" {
			b.WriteString(strings.ReplaceAll(between, "\n", eol))
		}
	}
	return b.String()
}

// TestF29_EveryFramingGivesTheSame: one transcript in every combination of line
// ends, spaces and frames that mean nothing, whole and byte by byte.
func TestF29_EveryFramingGivesTheSame(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		s := whole(api, provider.FinishStop, say(api, "One"), say(api, ", two"))
		for _, eol := range []string{"\n", "\r\n", "\r"} {
			for _, space := range []string{" ", ""} {
				for _, between := range []string{
					"", ": PROCESSING\n\n", ":\n", "data: : keepalive\n\n", "data:\n\n", "data\n\n",
					"event: ping\ndata: 1\n\n", "id: 7\nretry: 10\nnonsense: x\n\n", "event: novelty\ndata: {\"type\":\"novelty\"}\n\n",
					"data: null\n\ndata: \"word\"\n\n",
				} {
					framed := frame(s, eol, space, between)
					wantText(t, run(t, api, play(framed)), "One, two")
					wantText(t, run(t, api, play(strings.Split(framed, "")...)), "One, two")
				}
			}
		}
		mixed := strings.NewReplacer("\n\n", "\r\n\r").Replace(s)
		wantText(t, run(t, api, play("\ufeff"+mixed)), "One, two")
		wantText(t, run(t, api, play(strings.SplitAfter(frame(s, "\r\n", " ", ""), "\r")...)), "One, two")
	})
}

func TestF29_DataInSeveralLines(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		s := strings.Replace(whole(api, provider.FinishStop, say(api, "Hi")), "data: {", "data: {\ndata:", 1)
		wantText(t, run(t, api, play(s)), "Hi")
	})
}

func TestF29_EventsOverSixtyFourKiB(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		long := strings.Repeat("0123456789", 200_000)
		wantText(t, run(t, api, play(whole(api, provider.FinishStop, say(api, long)))), long)
	})
}

func TestF29_GzipThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(whole(api, provider.FinishStop, say(api, hard))))
		_ = z.Close()
		zipped := b.String()
		send := func(body string) func(*exchange) {
			return func(x *exchange) {
				x.head(200, "Content-Type: text/event-stream", "Content-Encoding: gzip")
				if x.send(body) {
					x.end()
				}
			}
		}
		wantText(t, run(t, api, send(zipped)), hard)
		if f := run(t, api, send(zipped[:len(zipped)/2])).failure(t); f.Code != wire.CodeModelStreamCut {
			t.Errorf("half of it: %s", f.Code)
		}
		if f := run(t, api, send("no gzip at all")).failure(t); f.Code != wire.CodeModelStreamInvalid {
			t.Errorf("none of it: %s", f.Code)
		}
	})
}

const usageA = `{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}`

// TestF31_UsageWhereverItComes: nothing of a frame is taken for granted, and
// the last usage counts once.
func TestF31_UsageWhereverItComes(t *testing.T) {
	t.Parallel()
	text := data(`{"choices":[{"delta":{"content":"Hi"}}]}`)
	stop := data(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
	usage := func(choices string) string { return data(`{%s"usage":%s}`, choices, usageA) }
	for _, c := range []struct {
		name    string
		stream  string
		outputs uint64 // 0 is no usage
	}{
		{"F31 choices empty, first", usage(`"choices":[],`) + text + stop, 1},
		{"F31 choices empty, in the middle", text + usage(`"choices":[],`) + stop, 1},
		{"F31 choices empty, last", text + stop + usage(`"choices":[],`), 1},
		{"F31 choices missing", text + stop + usage(""), 1},
		{"F31 choices null", text + stop + usage(`"choices":null,`), 1},
		{"F31 null, then set", data(`{"choices":[],"usage":null}`) + text + stop + usage(""), 1},
		{"F31 set, then null", usage("") + text + stop + data(`{"usage":null}`), 1},
		{"F31 twice, last wins", usage("") + text + stop + data(`{"usage":{"prompt_tokens":1,"completion_tokens":9}}`), 9},
		{"F31 with the text", data(`{"choices":[{"delta":{"content":"Hi"}}],"usage":%s}`, usageA) + stop, 1},
		{"F31 within a choice", text + data(`{"choices":[{"finish_reason":"stop","usage":%s}]}`, usageA), 1},
		{"F31 at Groq's place", text + stop + data(`{"x_groq":{"usage":%s}}`, usageA), 1},
		{"F31 never", text + stop, 0},
		{"F31 of another type", text + stop + data(`{"usage":"many"}`) + data(`{"usage":[]}`), 0},
		{"F31 without counts", text + stop + data(`{"usage":{}}`), 0},
		{"F31 odd fields", data(`{"id":7,"model":null,"service_tier":[],"x_groq":3,"choices":[{"index":null,"delta":null},{"index":"x"}]}`) + text + stop + usage(""), 1},
		{"F31 no done mark, no blank line", text + stop + usage("") + "data: [DONE]", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, provider.APIChat, play(c.stream))
			wantText(t, r, "Hi")
			switch u := r.res.Usage; {
			case c.outputs == 0 && u != nil:
				t.Errorf("usage = %+v", u)
			case c.outputs > 0 && (u == nil || u.OutputTokens != c.outputs):
				t.Errorf("usage = %+v, want %d tokens of output", u, c.outputs)
			}
		})
	}
}

func TestF31_TypesThatWouldHideText(t *testing.T) {
	t.Parallel()
	for _, chunk := range []string{
		`{"choices":{}}`, `{"choices":[7]}`, `{"choices":[{"delta":"Hi"}]}`,
		`{"choices":[{"delta":{"content":7}}]}`, `{"choices":[{"delta":{"content":{"text":"Hi"}}}]}`,
	} {
		s := data(`{"choices":[{"delta":{"content":"Hi"}}]}`) + data("%s", chunk) + data(`{"choices":[{"finish_reason":"stop"}]}`)
		if f := run(t, provider.APIChat, play(s)).failure(t); f.Code != wire.CodeModelStreamInvalid {
			t.Errorf("%s: %s, want damaged: it may have held text", chunk, f.Code)
		}
	}
}

// TestF32_ErrorWithinTheStream: wherever an error stands and however it is
// written, the turn fails, what came before is kept, nothing leaks.
func TestF32_ErrorWithinTheStream(t *testing.T) {
	t.Parallel()
	msg := quote("bad key " + canary)
	eachAPI(t, func(t *testing.T, api provider.API) {
		for _, c := range []struct {
			name, event string
			want        wire.Code
		}{
			{"F32 the API's own", trouble(api, "overloaded_error"), wire.CodeModelOverloaded},
			{"F32 event: error", "event: error\n" + data(`{"message":%s,"code":"rate_limit_exceeded"}`, msg), wire.CodeModelRateLimited},
			{"F32 event: error with prose", "event: error\n" + data("it broke, %s", canary), wire.CodeModelFailed},
			{"F32 error is a string", data(`{"error":%s}`, msg), wire.CodeModelFailed},
			{"F32 numeric code", data(`{"error":{"code":429,"message":%s},"choices":[{"finish_reason":"error"}]}`, msg), wire.CodeModelRateLimited},
			{"F32 numeric code as text", data(`{"object":"error","message":%s,"code":"503"}`, msg), wire.CodeModelOverloaded},
			{"F32 bare body", `{"error":{"type":"invalid_request_error","message":` + msg + "}}\n\n", wire.CodeModelRequestRefused},
			{"F32 bare body, no line end", `{"error":{"type":"authentication_error","message":` + msg + "}}", wire.CodeModelCredentialInvalid},
			{"F32 bare body, indented", "{\n  \"error\": {\n    \"status\": \"RESOURCE_EXHAUSTED\",\n    \"message\": " + msg + "\n  }\n}\n", wire.CodeModelRateLimited},
			{"F32 bare body, list", `[{"error":{"code":503,"message":` + msg + "}}]\n", wire.CodeModelOverloaded},
			{"F32 bare body of FastAPI", `{"detail":` + msg + "}\n", wire.CodeModelFailed},
			{"F32 bare NDJSON is no stream", "{\"message\":{\"content\":\"Hi\"}}\n", wire.CodeModelStreamInvalid},
			{"F32 bare and broken", `{"error":{"mess`, wire.CodeModelStreamInvalid},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				first := run(t, api, play(c.event))
				later := run(t, api, play(opening(api), say(api, "Hi"), c.event))
				for _, r := range []reply{first, later} {
					f := r.failure(t)
					if f.Code != c.want {
						t.Errorf("code = %s, want %s", f.Code, c.want)
					}
					if s := fmt.Sprintf("%v%+v%#v%+v", f, *f, r.res, f.Cause); strings.Contains(s, canary) || strings.Contains(s, "bad key") {
						t.Errorf("leaks: %s", s)
					}
				}
				if later.text != "Hi" {
					t.Errorf("what was shown before = %q", later.text)
				}
				if f := later.failure(t); f.Partial.ResponseID != "r1" {
					t.Errorf("partial result = %+v", f.Partial)
				}
			})
		}
	})
}

// TestF34_ReasoningIsNeverTheAnswer: under each of its names.
func TestF34_ReasoningIsNeverTheAnswer(t *testing.T) {
	t.Parallel()
	stop := data(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
	for name, delta := range map[string]string{
		"F34 reasoning_content": `{"reasoning_content":"hmm","content":null}`,
		"F34 reasoning":         `{"reasoning":"hmm","content":""}`,
		"F34 thinking":          `{"thinking":"hmm"}`,
		"F34 both names":        `{"reasoning_content":"hmm","reasoning":"hmm"}`,
		"F34 parts":             `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hmm"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, provider.APIChat, play(data(`{"choices":[{"delta":%s}]}`, delta)+stop))
			if r.text != "" || r.reasoning != "hmm" {
				t.Errorf("answer %q, reasoning %q", r.text, r.reasoning)
			}
			if got := r.outcome().Code; got != wire.CodeModelOutputEmpty {
				t.Errorf("ends %q", got)
			}
		})
	}
	eachAPI(t, func(t *testing.T, api provider.API) {
		r := run(t, api, play(whole(api, provider.FinishStop, think(api, "hm"), think(api, "m"), say(api, "Hi"))))
		if r.text != "Hi" || r.reasoning != "hmm" {
			t.Errorf("answer %q, reasoning %q", r.text, r.reasoning)
		}
	})
}

// TestF34_UninvitedToolCalls: the outcome is defined for each form of a call.
func TestF34_UninvitedToolCalls(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		for _, c := range []struct {
			name   string
			stream string
			want   provider.Outcome
		}{
			{
				"F34 call without text", whole(api, provider.FinishToolCall, call(api)),
				provider.Outcome{Status: "failed", Code: wire.CodeModelToolCallUnsupported},
			},
			{
				"F34 call after text, reason stop", whole(api, provider.FinishStop, say(api, "Hi"), call(api)),
				provider.Outcome{Status: "completed", Finish: wire.FinishToolCallIgnored},
			},
			{
				"F34 tools that the provider ran", whole(api, provider.FinishStop, say(api, "Hi"), ownTool(api)),
				provider.Outcome{Status: "completed"},
			},
		} {
			r := run(t, api, play(c.stream))
			if got := r.outcome(); got != c.want {
				t.Errorf("%s: %+v (%v)", c.name, got, r.err)
			}
			if strings.Contains(r.text+r.reasoning, "rm") || strings.Contains(r.text, "not the answer") {
				t.Errorf("%s: the call is shown: %q", c.name, r.text)
			}
		}
	})
	for name, delta := range map[string]string{
		"F34 function_call": `{"function_call":{"name":"rm","arguments":"{}"}}`,
		"F34 no calls":      `{"content":""}`,
		"F34 empty list":    `{"tool_calls":[]}`,
	} {
		r := run(t, provider.APIChat, play(data(`{"choices":[{"delta":%s,"finish_reason":"tool_calls"}]}`, delta)))
		if got := r.outcome().Code; got != wire.CodeModelToolCallUnsupported {
			t.Errorf("%s: %s", name, got)
		}
	}
}
