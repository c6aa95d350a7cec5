package provider_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/relay/provider"
	"github.com/fairlead/fairlead/relay/wire"
)

// outcomeCase is one row of the table of outcomes in docs/providers.md: what
// the provider did, and a script that does it.
type outcomeCase struct {
	row    string
	script func(api provider.API) func(*exchange)
}

func stream(parts func(api provider.API) string) func(api provider.API) func(*exchange) {
	return func(api provider.API) func(*exchange) { return play(parts(api)) }
}

func outcomeCases() []outcomeCase {
	return append(append(endings(), breaks()...), refusals()...)
}

// endings are streams that reach the terminal marker.
func endings() []outcomeCase {
	return []outcomeCase{
		{"Answer, regular end", stream(func(a provider.API) string {
			return whole(a, provider.FinishStop, say(a, "Hi"))
		})},
		{"Answer, finish reason that is not known", stream(func(a provider.API) string {
			return whole(a, provider.FinishUndefined, say(a, "Hi"))
		})},
		{"Answer cut off by the output limit", stream(func(a provider.API) string {
			return whole(a, provider.FinishLength, say(a, "Hi"))
		})},
		{"Call of a tool cut off by the output limit", stream(func(a provider.API) string {
			return whole(a, provider.FinishLength, say(a, "Hi"), call(a))
		})},
		{"Answer and a call of a tool", stream(func(a provider.API) string {
			return whole(a, provider.FinishToolCall, say(a, "Hi"), call(a))
		})},
		{"Call of a tool, no answer", stream(func(a provider.API) string {
			return whole(a, provider.FinishToolCall, call(a))
		})},
		{"Answer and a tool that the provider ran itself", stream(func(a provider.API) string {
			return whole(a, provider.FinishStop, say(a, "Hi"), ownTool(a))
		})},
		{"Refusal or content filter, no answer", stream(func(a provider.API) string {
			return whole(a, provider.FinishRefused)
		})},
		{"Answer, then refusal or content filter", stream(func(a provider.API) string {
			return whole(a, provider.FinishFiltered, say(a, "Hi"))
		})},
		{"Reasoning and no answer, or nothing at all", stream(func(a provider.API) string {
			return whole(a, provider.FinishStop, think(a, "hmm"))
		})},
		{"Event sent twice", stream(func(a provider.API) string {
			return whole(a, provider.FinishStop, say(a, "Hi"), say(a, "Hi"))
		})},
	}
}

// breaks are streams that do not.
func breaks() []outcomeCase {
	cut := func(x *exchange) { x.cut() }
	stay := func(x *exchange) { x.stay() }
	return []outcomeCase{
		{"Connection ends before the terminal marker", func(a provider.API) func(*exchange) {
			return then(cut, opening(a), say(a, "Hi"))
		}},
		{"Regular end of the stream without the terminal marker", stream(func(a provider.API) string {
			return opening(a) + say(a, "Hi")
		})},
		{"Damaged JSON in an event", stream(func(a provider.API) string {
			return opening(a) + say(a, "Hi") + "data: {\"cho\n\n" + finish(a, provider.FinishStop) + closing(a)
		})},
		{"Event over 16 MiB, or answer over 8 MiB", stream(func(a provider.API) string {
			return whole(a, provider.FinishStop, say(a, strings.Repeat("x", 8<<20+1)))
		})},
		{"JSON or a web page in place of a stream", func(provider.API) func(*exchange) {
			return status(200, `{"choices":[{"message":{"content":"Hi"}}]}`)
		}},
		{"Silence before the first token", func(a provider.API) func(*exchange) {
			return then(stay, opening(a))
		}},
		{"Silence in mid-answer", func(a provider.API) func(*exchange) {
			return then(stay, opening(a), say(a, "Hi"))
		}},
		{"Error within the stream: kind unknown", stream(func(a provider.API) string {
			return opening(a) + say(a, "Hi") + trouble(a, "server_error")
		})},
		{"Error within the stream: overloaded", stream(func(a provider.API) string {
			return opening(a) + trouble(a, "overloaded_error")
		})},
		{"Error within the stream: rate limit or quota", stream(func(a provider.API) string {
			return opening(a) + trouble(a, "insufficient_quota")
		})},
		{"Error within the stream: key refused", stream(func(a provider.API) string {
			return opening(a) + trouble(a, "authentication_error")
		})},
		{"Error within the stream: model not found", stream(func(a provider.API) string {
			return opening(a) + trouble(a, "model_not_found")
		})},
		{"Error within the stream: bad request or context too long", stream(func(a provider.API) string {
			return opening(a) + trouble(a, "context_length_exceeded")
		})},
	}
}

// refusals are answers that are no stream, or none at all.
func refusals() []outcomeCase {
	rows := map[string]int{
		"HTTP 400, 413, 422 and other 4xx": 422, "HTTP 401, 403": 403, "HTTP 404": 404,
		"HTTP 402, 429": 429, "HTTP 503, 529": 529, "HTTP 500, 502, 504 and other 5xx, 408": 502,
		"HTTP 3xx (redirects are not followed)": 307,
	}
	cases := []outcomeCase{{"Connection cannot be made, or TLS fails", nil}}
	for row, code := range rows {
		cases = append(cases, outcomeCase{row, func(provider.API) func(*exchange) {
			return status(code, `{"error":{"message":"your key `+canary+`"}}`, "Location: http://elsewhere.test/")
		}})
	}
	return cases
}

// documented is a row of the table in the documentation.
type documented struct{ status, code, finish string }

func documentedOutcomes(t *testing.T) map[string]documented {
	t.Helper()
	out := map[string]documented{}
	for _, cells := range docTable(t, "outcomes") {
		if _, double := out[cells[0]]; double {
			t.Errorf("row %q stands twice", cells[0])
		}
		out[cells[0]] = documented{cells[1], unticked(cells[2]), unticked(cells[3])}
	}
	return out
}

func unticked(cell string) string { return strings.Trim(cell, "`") }

// docTable reads the Markdown table after <!-- table: name -->.
func docTable(t *testing.T, name string) [][]string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "<!-- table: "+name+" -->\n")
	if !ok {
		t.Fatalf("docs/providers.md has no table %q", name)
	}
	var rows [][]string
	for i, line := range strings.Split(strings.TrimLeft(rest, "\n"), "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i < 2 {
			continue
		}
		var cells []string
		for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		rows = append(rows, cells)
	}
	return rows
}

// TestOutcomesAreAsDocumented holds docs/providers.md against the code: every
// row has a script that does it, and it ends in every API as the row says.
func TestOutcomesAreAsDocumented(t *testing.T) {
	t.Parallel()
	doc := documentedOutcomes(t)
	seen := map[string]bool{}
	for _, c := range outcomeCases() {
		want, ok := doc[c.row]
		if !ok {
			t.Errorf("docs/providers.md does not tell of %q", c.row)
			continue
		}
		seen[c.row] = true
		if c.script == nil {
			continue // TestConnectionCannotBeMade
		}
		for _, api := range httpAPIs {
			t.Run(c.row+"/"+string(api), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					checkOutcome(t, run(t, api, c.script(api)), want)
				})
			})
		}
	}
	for row := range doc {
		if !seen[row] {
			t.Errorf("documented, but not tested: %q", row)
		}
	}
}

func checkOutcome(t *testing.T, r reply, want documented) {
	t.Helper()
	got := r.outcome()
	if got.Status != want.status || string(got.Code) != want.code || got.Finish != want.finish {
		t.Errorf("ended %+v, documented %+v (err %v)", got, want, r.err)
	}
	if s := fmt.Sprintf("%v %+v %+v", r.err, r.err, r.res); strings.Contains(s, canary) {
		t.Errorf("the key leaks: %s", s)
	}
	if r.text != "" && !strings.HasPrefix(r.text, "Hi") && len(r.text) < 100 {
		t.Errorf("answer = %q", r.text)
	}
}

// TestEveryModelCodeIsDocumented holds the table of codes against the family.
func TestEveryModelCodeIsDocumented(t *testing.T) {
	t.Parallel()
	want := []wire.Code{
		wire.CodeModelFailed, wire.CodeModelUnreachable, wire.CodeModelRateLimited, wire.CodeModelOverloaded,
		wire.CodeModelCredentialInvalid, wire.CodeModelNotFound, wire.CodeModelRequestRefused,
		wire.CodeModelRefused, wire.CodeModelStreamCut, wire.CodeModelStreamInvalid, wire.CodeModelStalled,
		wire.CodeModelOutputIncomplete, wire.CodeModelOutputEmpty, wire.CodeModelToolCallUnsupported,
	}
	have := map[string]bool{}
	for _, row := range docTable(t, "codes") {
		have[unticked(row[0])] = true
		for _, cell := range row[1:] {
			if cell == "" {
				t.Errorf("row of %s has an empty cell", row[0])
			}
		}
	}
	for _, c := range want {
		if !have[string(c)] {
			t.Errorf("%s is not documented", c)
		}
		delete(have, string(c))
	}
	for c := range have {
		t.Errorf("%s is documented, but is no such code", c)
	}
}

func TestConnectionCannotBeMade(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		tr := provider.NewTransport()
		tr.Proxy = nil
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}
		c, err := provider.New(provider.Config{API: api, BaseURL: "http://upstream.test", Transport: tr})
		if err != nil {
			t.Fatal(err)
		}
		r := collect(t.Context(), c, question)
		if f := r.failure(t); f.Code != wire.CodeModelUnreachable {
			t.Errorf("code = %s", f.Code)
		}
	})
}

func TestTLSToAServerThatSpeaksNone(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(*exchange) {})
	r := ask(t.Context(), t, u, provider.Config{API: provider.APIChat, BaseURL: "https://upstream.test/v1"}, question)
	if f := r.failure(t); f.Code != wire.CodeModelUnreachable {
		t.Errorf("code = %s", f.Code)
	}
}

func TestConnectionThatDiesAfterTheRequestIsCut(t *testing.T) {
	t.Parallel()
	eachAPI(t, func(t *testing.T, api provider.API) {
		u := newUpstream(t, func(x *exchange) { x.cut() })
		r := ask(t.Context(), t, u, provider.Config{API: api}, question)
		if f := r.failure(t); f.Code != wire.CodeModelStreamCut {
			t.Errorf("code = %s, want a cut: the request may have run", f.Code)
		}
		if n := len(u.seen()); n != 1 {
			t.Errorf("%d requests were made", n)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, header string
		want         time.Duration // 0 is no time
	}{
		{"seconds", "Retry-After: 7", 7 * time.Second},
		{"fraction", "Retry-After: 1.5", 1500 * time.Millisecond},
		{"date", "Retry-After: Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"milliseconds", "Retry-After-Ms: 250", 250 * time.Millisecond},
		{"past", "Retry-After: Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"zero", "Retry-After: 0", 0},
		{"nonsense", "Retry-After: soon", 0},
		{"absurd", "Retry-After: 99999999999999", 24 * time.Hour},
		{"none", "X-Other: 1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, status(429, `{}`, c.header))
			r := ask(t.Context(), t, u, provider.Config{
				API: provider.APIChat, Now: func() time.Time { return now },
			}, question)
			var want time.Time
			if c.want > 0 {
				want = now.Add(c.want)
			}
			if f := r.failure(t); !f.RetryAt.Equal(want) {
				t.Errorf("RetryAt = %v, want %v", f.RetryAt, want)
			}
		})
	}
}

func TestBadRequestOfAnUnknownModel(t *testing.T) {
	t.Parallel()
	r := run(t, provider.APIChat, status(400, `{"error":{"code":"model_not_found","message":"x"}}`))
	if f := r.failure(t); f.Code != wire.CodeModelNotFound {
		t.Errorf("code = %s", f.Code)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		res     provider.Result
		err     error
		sawText bool
		want    provider.Outcome
	}{
		{
			"decision 35: incomplete wins over a tool call",
			provider.Result{Finish: provider.FinishLength, ToolCall: true},
			nil, true,
			provider.Outcome{Status: "failed", Code: wire.CodeModelOutputIncomplete},
		},
		{
			"F34 finish tool_calls without a call",
			provider.Result{Finish: provider.FinishToolCall},
			nil, false,
			provider.Outcome{Status: "failed", Code: wire.CodeModelToolCallUnsupported},
		},
		{
			"F34 a call although the reason was stop",
			provider.Result{Finish: provider.FinishStop, ToolCall: true},
			nil, true,
			provider.Outcome{Status: "completed", Finish: wire.FinishToolCallIgnored},
		},
		{
			"filtered in part",
			provider.Result{Finish: provider.FinishFiltered},
			nil, true,
			provider.Outcome{Status: "completed", Finish: wire.FinishRefusedInPart},
		},
		{
			"failure after text",
			provider.Result{Finish: provider.FinishStop},
			&provider.Failure{Code: wire.CodeModelStalled}, true,
			provider.Outcome{Status: "failed", Code: wire.CodeModelStalled},
		},
		{
			"other error",
			provider.Result{},
			errors.New("disk"), true,
			provider.Outcome{Status: "failed", Code: wire.CodeInternal},
		},
		{
			"error with a code",
			provider.Result{},
			wire.NewError(wire.CodeStorageUnavailable, "x"), true,
			provider.Outcome{Status: "failed", Code: wire.CodeStorageUnavailable},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := provider.Settle(c.res, c.err, c.sawText); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
