package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay/wire"
)

func ptr[T any](v T) *T { return &v }

func validPrompt() *wire.PromptRequest {
	return &wire.PromptRequest{
		Type: wire.TypePromptRequest, RunID: "run_fixture", TurnID: "local_turn_" + strings.Repeat("b", 24),
		OperationKey: "operation-1", RuntimeBindingID: "binding_fixture",
		RuntimeThreadID: "local_thread_" + strings.Repeat("a", 24), Prompt: "look",
		Model: "deepseek-v4", ModelProvider: "deepseek", ModelProviderID: "deepseek",
		AllowedTools: []string{}, Mode: "chat", RequestedMode: "chat",
		Workspace: wire.Workspace{ID: "workspace_fixture", TargetRef: "target_fixture"},
	}
}

func validControl() *wire.RunControl {
	return &wire.RunControl{
		Type: wire.TypeRunControl, RunID: "run_fixture", Action: "interrupt", Reason: "stopped by a person",
		TurnID: "local_turn_" + strings.Repeat("b", 24), RuntimeBindingID: "binding_fixture",
		RuntimeThreadID: "local_thread_" + strings.Repeat("a", 24),
	}
}

// promptFault breaks one thing of a valid prompt. field is what the error names,
// "" for none.
type promptFault struct {
	name   string
	break_ func(*wire.PromptRequest)
	code   wire.Code
	field  string
}

// promptFaults stand in the order of RH11.
func promptFaults() []promptFault {
	const invalid = wire.CodeCommandInvalid
	return []promptFault{
		{"pictures", func(p *wire.PromptRequest) { p.Images = []wire.Image{{Mime: "image/png", DataBase64: "AAAA"}} }, wire.CodeImageInvalid, "images[0]"},
		{"type", func(p *wire.PromptRequest) { p.Type = "prompt" }, invalid, "type"},
		{"run", func(p *wire.PromptRequest) { p.RunID = "a b" }, invalid, ""},
		{"turn", func(p *wire.PromptRequest) { p.TurnID = "local_turn_x" }, invalid, ""},
		{"operation key", func(p *wire.PromptRequest) { p.OperationKey = strings.Repeat("k", 129) }, invalid, ""},
		{"binding", func(p *wire.PromptRequest) { p.RuntimeBindingID = "" }, invalid, ""},
		{"thread", func(p *wire.PromptRequest) { p.RuntimeThreadID = "thr_1" }, invalid, ""},
		{"binding to go on from", func(p *wire.PromptRequest) { p.ContinueFrom = ptr("../x") }, invalid, ""},
		{"model", func(p *wire.PromptRequest) { p.Model = "sk-live" }, invalid, ""},
		{"provider", func(p *wire.PromptRequest) { p.ModelProvider = "a/b" }, invalid, ""},
		{"provider id", func(p *wire.PromptRequest) { p.ModelProviderID = "workspace" }, invalid, ""},
		{"prompt", func(p *wire.PromptRequest) { p.Prompt = " \n " }, invalid, "prompt"},
		{"system prompt", func(p *wire.PromptRequest) { p.SystemPrompt = ptr("") }, invalid, "systemPrompt"},
		{"context", func(p *wire.PromptRequest) { p.Context = ptr("a\x00") }, invalid, "context"},
		{"tools", func(p *wire.PromptRequest) { p.AllowedTools = []string{"shell"} }, invalid, "allowedTools"},
		{"mode", func(p *wire.PromptRequest) { p.Mode = "agent" }, invalid, "mode"},
		{"requested mode", func(p *wire.PromptRequest) { p.RequestedMode = "work" }, invalid, "requestedMode"},
		{"effort", func(p *wire.PromptRequest) { p.ReasoningEffort = ptr("extra-high") }, wire.CodeReasoningInvalid, "reasoningEffort"},
		{"workspace", func(p *wire.PromptRequest) { p.Workspace.ID = "a b" }, invalid, ""},
		{"target", func(p *wire.PromptRequest) { p.Workspace.TargetRef = "" }, invalid, ""},
	}
}

func checkFault(t *testing.T, err error, want promptFault) {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: got %v", want.name, err)
	}
	field := ""
	if len(e.Fields) > 0 {
		field = e.Fields[0].Path
	}
	if e.Code != want.code || field != want.field || e.Retryable {
		t.Errorf("%s: got %s for %q, want %s for %q", want.name, e.Code, field, want.code, want.field)
	}
}

func TestRH11_EachFaultIsRefused(t *testing.T) {
	t.Parallel()
	if err := validPrompt().Validate(); err != nil {
		t.Fatalf("a valid prompt is refused: %v", err)
	}
	for _, f := range promptFaults() {
		t.Run("RH11 "+f.name, func(t *testing.T) {
			t.Parallel()
			p := validPrompt()
			f.break_(p)
			checkFault(t, p.Validate(), f)
		})
	}
}

func TestRH11_TheFirstFaultInOrderAnswers(t *testing.T) {
	t.Parallel()
	faults := promptFaults()
	for i, first := range faults {
		for _, second := range faults[i+1:] {
			p := validPrompt()
			second.break_(p)
			first.break_(p)
			checkFault(t, p.Validate(), first)
		}
	}
}

func TestRH11_IDFaultsAreOneAnswerThatEchoesNothing(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, f := range promptFaults() {
		if f.field != "" {
			continue
		}
		p := validPrompt()
		f.break_(p)
		body, err := json.Marshal(wire.AsError(p.Validate()).Body())
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(body))
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("%s differs from %s", text, texts[0])
		}
		if strings.Contains(text, "sk-live") {
			t.Errorf("%s echoes the value", text)
		}
	}
}

func TestRH11_PicturesNeedAnExactModel(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"auto", " AUTO ", "Auto"} {
		p := validPrompt()
		p.Images, p.Model, p.Type = []wire.Image{pngImage(t, 1, 1)}, model, "wrong too"
		checkFault(t, p.Validate(), promptFault{name: model, code: wire.CodeImageInvalid, field: "model"})
	}
}

func TestRH11_LimitsAreInclusive(t *testing.T) {
	t.Parallel()
	at := func(set func(*wire.PromptRequest)) error {
		p := validPrompt()
		set(p)
		return p.Validate()
	}
	for _, c := range []struct {
		name string
		max  int
		set  func(*wire.PromptRequest, string)
	}{
		{"prompt", wire.MaxPromptBytes, func(p *wire.PromptRequest, s string) { p.Prompt = s }},
		{"system prompt", wire.MaxSystemPromptBytes, func(p *wire.PromptRequest, s string) { p.SystemPrompt = &s }},
		{"context", wire.MaxContextBytes, func(p *wire.PromptRequest, s string) { p.Context = &s }},
		{"operation key", wire.MaxOperationKeyBytes, func(p *wire.PromptRequest, s string) { p.OperationKey = s }},
		{"run", wire.MaxRelayIDBytes, func(p *wire.PromptRequest, s string) { p.RunID = s }},
		{"model", wire.MaxModelIDBytes, func(p *wire.PromptRequest, s string) { p.Model = s }},
		{"route", wire.MaxRouteIDBytes, func(p *wire.PromptRequest, s string) { p.ModelProvider = s }},
	} {
		if err := at(func(p *wire.PromptRequest) { c.set(p, strings.Repeat("a", c.max)) }); err != nil {
			t.Errorf("%s at its limit: %v", c.name, err)
		}
		if err := at(func(p *wire.PromptRequest) { c.set(p, strings.Repeat("a", c.max+1)) }); err == nil {
			t.Errorf("%s above its limit is taken", c.name)
		}
	}
	if err := at(func(p *wire.PromptRequest) { p.Prompt = strings.Repeat("é", wire.MaxPromptBytes/2+1) }); err == nil {
		t.Error("the prompt's limit counts characters, not bytes")
	}
	if err := at(func(p *wire.PromptRequest) { p.MaxOutputTokens = ptr(uint32(0)) }); wire.CodeOf(err) != wire.CodeCommandInvalid {
		t.Errorf("an output limit of 0: %v", err)
	}
	if err := at(func(p *wire.PromptRequest) { p.MaxOutputTokens = ptr(^uint32(0)) }); err != nil {
		t.Errorf("the greatest output limit: %v", err)
	}
}

func TestRH13_EffortNames(t *testing.T) {
	t.Parallel()
	for canonical, names := range map[string][]string{
		"off": {"off", "disabled", "none", "false"}, "minimal": {"minimal"}, "low": {"low", "minimum", "light"},
		"medium": {"medium", "mid"}, "high": {"high", " HIGH\n"}, "xhigh": {"xhigh", "XHigh"},
		"ultra": {"ultra", "ultracode"}, "max": {"max", "maximum"}, "auto": {"auto", "automatic"},
	} {
		for _, name := range names {
			if got, ok := wire.NormalizeEffort(name); !ok || got != canonical {
				t.Errorf("%q: %q, %v; want %q", name, got, ok, canonical)
			}
		}
	}
	for _, name := range []string{"", " ", "extra-high", "x high", "0", "true"} {
		if got, ok := wire.NormalizeEffort(name); ok {
			t.Errorf("%q is taken as %q", name, got)
		}
	}
}

func TestRH14_EveryFieldIsBoundAsReceived(t *testing.T) {
	t.Parallel()
	fingerprint := func(p *wire.PromptRequest) string {
		fp, err := p.RequestFingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return fp
	}
	base := fingerprint(validPrompt())
	seen := map[string]string{base: "nothing"}
	for name, change := range map[string]func(*wire.PromptRequest){
		"type": func(p *wire.PromptRequest) { p.Type += "x" }, "run": func(p *wire.PromptRequest) { p.RunID += "x" },
		"turn": func(p *wire.PromptRequest) { p.TurnID += "x" }, "key": func(p *wire.PromptRequest) { p.OperationKey += "x" },
		"binding": func(p *wire.PromptRequest) { p.RuntimeBindingID += "x" }, "thread": func(p *wire.PromptRequest) { p.RuntimeThreadID += "x" },
		"prompt": func(p *wire.PromptRequest) { p.Prompt += " " }, "system prompt": func(p *wire.PromptRequest) { p.SystemPrompt = ptr("") },
		"model": func(p *wire.PromptRequest) { p.Model += "x" }, "provider": func(p *wire.PromptRequest) { p.ModelProvider += "x" },
		"provider id":            func(p *wire.PromptRequest) { p.ModelProviderID += "x" },
		"effort":                 func(p *wire.PromptRequest) { p.ReasoningEffort = ptr("high") },
		"effort cased otherwise": func(p *wire.PromptRequest) { p.ReasoningEffort = ptr(" HIGH ") },
		"output limit":           func(p *wire.PromptRequest) { p.MaxOutputTokens = ptr(uint32(1)) },
		"tools":                  func(p *wire.PromptRequest) { p.AllowedTools = []string{"x"} },
		"mode":                   func(p *wire.PromptRequest) { p.Mode += "x" }, "requested mode": func(p *wire.PromptRequest) { p.RequestedMode += "x" },
		"workspace": func(p *wire.PromptRequest) { p.Workspace.ID += "x" }, "target": func(p *wire.PromptRequest) { p.Workspace.TargetRef += "x" },
		"pictures":      func(p *wire.PromptRequest) { p.Images = []wire.Image{{}} },
		"continue from": func(p *wire.PromptRequest) { p.ContinueFrom = ptr("binding_0") },
		"context":       func(p *wire.PromptRequest) { p.Context = ptr("today") },
	} {
		p := validPrompt()
		change(p)
		fp := fingerprint(p)
		if other, dup := seen[fp]; dup {
			t.Errorf("a changed %s and a changed %s have one fingerprint", name, other)
		}
		seen[fp] = name
	}
	empty := validPrompt()
	empty.Images, empty.AllowedTools = []wire.Image{}, nil
	if fingerprint(empty) != base {
		t.Error("empty pictures change the fingerprint")
	}
}

func TestRH14_InvalidTextIsNeverHashed(t *testing.T) {
	t.Parallel()
	p := validPrompt()
	p.Prompt = "\xff"
	if fp, err := p.RequestFingerprint(); wire.CodeOf(err) != wire.CodeCommandInvalid {
		t.Errorf("got %q, %v", fp, err)
	}
}

func marshal(t testing.TB, v any) map[string]json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func parseMap(t testing.TB, m map[string]json.RawMessage) (wire.Command, error) {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return wire.ParseCommand(raw)
}

func TestRH51_CommandsHaveExactlyTheirKeys(t *testing.T) {
	t.Parallel()
	optional := map[string]bool{"images": true, "systemPrompt": true, "reasoningEffort": true, "maxOutputTokens": true, "continueFrom": true, "context": true}
	for name, valid := range map[string]any{"prompt.request": validPrompt(), "run.control": validControl()} {
		t.Run("RH51 "+name, func(t *testing.T) {
			t.Parallel()
			cmd, err := parseMap(t, marshal(t, valid))
			if err != nil || cmd.Validate() != nil {
				t.Fatalf("the valid command is refused: %v, %v", err, cmd.Validate())
			}
			for key := range marshal(t, valid) {
				m := marshal(t, valid)
				delete(m, key)
				if _, err := parseMap(t, m); wire.CodeOf(err) != wire.CodeCommandInvalid && !optional[key] {
					t.Errorf("without %s: %v", key, err)
				}
				m[strings.ToUpper(key)] = marshal(t, valid)[key]
				if _, err := parseMap(t, m); wire.CodeOf(err) != wire.CodeCommandInvalid {
					t.Errorf("with %s cased wrongly: %v", key, err)
				}
			}
			m := marshal(t, valid)
			m["extra"] = json.RawMessage(`1`)
			if _, err := parseMap(t, m); wire.CodeOf(err) != wire.CodeCommandInvalid {
				t.Errorf("with one key more: %v", err)
			}
		})
	}
}

func TestRH51_OtherCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"the work prompt of four keys": `{"type":"prompt.request","runId":"r","turnId":"t","prompt":"p"}`,
		"work control of four keys":    `{"type":"run.control","runId":"r","action":"cancel","turnId":"t"}`,
		"an approval":                  `{"type":"approval.decision","runId":"r","gate":"g","decision":"approved"}`,
		"no type":                      `{"runId":"r"}`,
		"a type that is no text":       `{"type":1}`,
		"no object":                    `["type"]`,
		"no JSON":                      `{`,
		"images null":                  `{"type":"prompt.request","images":null}`,
	} {
		if _, err := wire.ParseCommand([]byte(raw)); wire.CodeOf(err) != wire.CodeCommandInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRH51_InterruptValues(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(*wire.RunControl){
		"action": func(c *wire.RunControl) { c.Action = "cancel" }, "blank reason": func(c *wire.RunControl) { c.Reason = " " },
		"NUL in the reason": func(c *wire.RunControl) { c.Reason = "a\x00" }, "long reason": func(c *wire.RunControl) { c.Reason = strings.Repeat("r", 801) },
		"run": func(c *wire.RunControl) { c.RunID = "" }, "turn": func(c *wire.RunControl) { c.TurnID = "turn_1" },
		"binding": func(c *wire.RunControl) { c.RuntimeBindingID = "a b" }, "thread": func(c *wire.RunControl) { c.RuntimeThreadID = "t" },
		"type": func(c *wire.RunControl) { c.Type = "run" },
	} {
		c := validControl()
		break_(c)
		if err := c.Validate(); wire.CodeOf(err) != wire.CodeCommandInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := validControl()
	c.Reason = strings.Repeat("r", wire.MaxReasonBytes)
	if err := c.Validate(); err != nil {
		t.Errorf("a reason of 800 bytes: %v", err)
	}
}

func TestEscapeElement(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(</?(context|CONTEXT|b)>|[a-zİ<&/ ]){0,12}`).Draw(t, "text")
		got := wire.EscapeElement(text, "context")
		if strings.Contains(strings.ToLower(got), "</context") {
			t.Fatalf("%q still ends the element", got)
		}
		if !strings.Contains(strings.ToLower(text), "</context") && got != text {
			t.Fatalf("%q was changed to %q for nothing", text, got)
		}
	})
}

func FuzzParseCommand(f *testing.F) {
	for _, v := range loadVectors(f).Request {
		f.Add([]byte(v.Command))
	}
	control, _ := json.Marshal(validControl())
	f.Add(control)
	f.Fuzz(func(t *testing.T, raw []byte) {
		cmd, err := wire.ParseCommand(raw)
		if err != nil {
			if wire.CodeOf(err) != wire.CodeCommandInvalid {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		_ = cmd.Validate()
		if cmd.Prompt == nil {
			return
		}
		text, err := wire.Canonical(cmd.Prompt)
		if err != nil {
			t.Fatalf("%q parses but has no canonical form: %v", raw, err)
		}
		again, err := wire.ParseCommand(text)
		if err != nil {
			t.Fatalf("the canonical %s does not parse: %v", text, err)
		}
		if back, err := wire.Canonical(again.Prompt); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("%s becomes %s, %v", text, back, err)
		}
	})
}
