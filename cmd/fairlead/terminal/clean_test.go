package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
)

// canaries are texts that would do something to a terminal.
func canaries() map[string]string {
	return map[string]string{
		"colour": "\x1b[31mred\x1b[0m", "title": "\x1b]0;owned\x07", "title, C1": "\u009d0;owned\u009c",
		"CSI, C1": "\u009b2Jgone", "clipboard": "\x1b]52;c;ZXZpbA==\x07", "link": "\x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\",
		"device query": "\x1b[6n\x1b[c\x1bP$q\"p\x1b\\", "back": "good\b\b\b\bevil", "return": "good\revil", "delete": "a\x7f",
		"bell": "\a", "shift": "\x0e\x0f", "feed": "a\vb\fc", "nul": "a\x00b", "turned": "a\u202egnp.exe", "isolate": "\u2066x\u2069",
		"broken": "a\xff\xc3(", "raw C1 byte": "a\x9b31m", "tags": "a\U000e0041b", "paste end": "\x1b[201~rm -rf /\r",
	}
}

// harmful finds what must not reach a terminal.
func harmful(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || turns(r)
	})
}

func TestNoControlCharacterGetsThrough(t *testing.T) {
	t.Parallel()
	for name, canary := range canaries() {
		if !harmful(canary) && name != "broken" && name != "raw C1 byte" {
			t.Errorf("%s does no harm to begin with", name)
		}
		for _, got := range []string{Clean(canary), Line(canary), short(canary, 10)} {
			if harmful(got) || !json.Valid([]byte(`"`+strings.NewReplacer("\n", " ", "\t", " ", `"`, "'", `\`, "/").Replace(got)+`"`)) {
				t.Errorf("%s comes out as %q", name, got)
			}
		}
	}
}

func TestCleanKeepsText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n\ttext": "plain\n\ttext", "日本語 é 👩‍👩‍👧": "日本語 é 👩‍👩‍👧", "שלום": "שלום", "a\r\nb": "a\nb", "a\u2028b": "a\nb", "\x1b": "␛",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
	if got := Line("a\nb\tc"); got != "a b c" {
		t.Errorf("a line: %q", got)
	}
}

func TestJSONLinesAreHarmlessAndExact(t *testing.T) {
	t.Parallel()
	for name, canary := range canaries() {
		canary = strings.ToValidUTF8(canary, "?")
		var out bytes.Buffer
		(&jsonSink{out: &out}).text("t", "u", 0, 1, canary, true)
		line := strings.TrimSuffix(out.String(), "\n")
		var back struct{ Text string }
		if err := json.Unmarshal([]byte(line), &back); err != nil || harmful(line) || back.Text != canary {
			t.Errorf("%s: %v, %q", name, err, line)
		}
	}
}

func TestNoFaceLetsACanaryThrough(t *testing.T) {
	t.Parallel()
	for name, canary := range canaries() {
		var out, errs bytes.Buffer
		p := &plainSink{out: &out, err: &errs}
		p.write(canary)
		p.event(&client.Event{EventType: "output.error", Content: &canary}, true, "")
		p.event(&client.Event{EventType: client.TurnFailed, Error: canary, RetryAt: canary}, true, "")
		p.state("", "", "", canary, "")
		p.note("", canary)
		if harmful(out.String()) || harmful(errs.String()) {
			t.Errorf("%s: %q %q", name, out.String(), errs.String())
		}
		out.Reset()
		talkOf(&out, canary)
		if harmful(out.String()) {
			t.Errorf("%s in a talk: %q", name, out.String())
		}
	}
}

// talkOf shows everything that a talk can be told, with one text in every field.
func talkOf(out *bytes.Buffer, canary string) {
	k := &talk{Talk: Talk{Screen: NewScreen(out)}}
	k.session = client.NewSession(client.Tell{})
	k.session.New()
	message := client.Text(canary)
	for _, kind := range []string{"input.prompt", "input.rejected", "output.error", "output.message", "turn.queued", client.TurnFailed, client.TurnCompleted} {
		for _, turn := range []string{"", "t"} {
			k.event(nil, &client.Event{
				EventType: kind, TurnID: turn, UserMessage: message, Content: &canary, Error: canary, Reason: canary, Finish: canary, RetryAt: canary,
			}, canary, false)
		}
	}
	k.note(canary)
	k.welcome(client.Account{Name: canary}, true)
	k.opened(&client.Thread{ID: canary, Info: client.ThreadInfo{Title: &canary}}, true)
	k.Screen.Para(Plain, threadList([]client.ThreadInfo{{ID: canary, Title: &canary, UpdatedAt: canary}}, 80))
	k.Screen.Para(Plain, modelList([]client.Model{{ID: canary, Name: canary, Reason: canary}}))
	k.Screen.Status(canary)
	k.Screen.Prompt("> ", []rune(canary), 1)
}
