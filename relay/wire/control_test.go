package wire_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/wire"
)

// goldenFrame is one entry of testdata/control.json, which the tests of the client in
// JavaScript read too: a frame of a control plane, with the code and the fields of its
// refusal if it has one, or a push of a gateway.
type goldenFrame struct {
	Name   string          `json:"name"`
	From   string          `json:"from"`
	Frame  json.RawMessage `json:"frame"`
	Text   *string         `json:"text"`
	Code   wire.Code       `json:"code"`
	Fields []wire.Field    `json:"fields"`
}

func goldenFrames(t *testing.T, from string) []goldenFrame {
	t.Helper()
	raw, err := os.ReadFile("testdata/control.json")
	if err != nil {
		t.Fatal(err)
	}
	var all, list []goldenFrame
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		if g.From == from {
			list = append(list, g)
		}
	}
	if len(list) < 5 {
		t.Fatalf("%d golden frames only", len(list))
	}
	return list
}

func TestRH51_FramesOfAControlPlane(t *testing.T) {
	t.Parallel()
	for _, g := range goldenFrames(t, "control") {
		raw := []byte(g.Frame)
		if g.Text != nil {
			raw = []byte(*g.Text)
		}
		f, err := wire.DecodeControl(raw)
		if err == nil {
			err = f.Validate()
		}
		if wire.CodeOf(err) != g.Code {
			t.Errorf("%s: %v, want code %q", g.Name, err, g.Code)
			continue
		}
		if err != nil {
			if e := wire.AsError(err); !reflect.DeepEqual(e.Fields, g.Fields) {
				t.Errorf("%s: fields %v, want %v", g.Name, e.Fields, g.Fields)
			}
			continue
		}
		again, err := wire.EncodeControl(f)
		if err != nil || !equalJSON(t, again, raw) {
			t.Errorf("%s: becomes %s, %v", g.Name, again, err)
		}
	}
}

func TestRH51_NoFaultOfAFrameEchoesAnId(t *testing.T) {
	t.Parallel()
	const secret = "../secret-value"
	for _, raw := range []string{
		`{"type":"detach","runId":"` + secret + `"}`,
		`{"type":"attach","targetRef":"t","sessionId":"s","accountRef":"a","runId":"r","workspaceId":"` + secret + `","cursor":0,"challenge":"0123456789abcdef0123456789abcdef"}`,
	} {
		f, err := wire.DecodeControl([]byte(raw))
		if err == nil {
			err = f.Validate()
		}
		e := wire.AsError(err)
		if e == nil || e.Code != wire.CodeCommandInvalid || len(e.Fields) > 0 || strings.Contains(e.Error(), "secret") {
			t.Errorf("%s: %v, fields %v", raw, err, e.Fields)
		}
	}
}

func TestPushesToAControlPlane(t *testing.T) {
	t.Parallel()
	for _, g := range goldenFrames(t, "gateway") {
		var head struct{ Type string }
		if err := json.Unmarshal(g.Frame, &head); err != nil {
			t.Fatal(err)
		}
		push := map[string]any{
			"attached": &wire.ControlAttached{}, "refused": &wire.ControlRefused{}, "ack": &wire.ControlAck{},
			"event": &wire.ControlEvent{}, "goaway": &wire.ControlGoaway{},
		}[head.Type]
		if err := wire.DecodeStrict(g.Frame, push); err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		if faults := wire.ValidateStruct(push); len(faults) > 0 {
			t.Errorf("%s: %v", g.Name, faults)
		}
		again, err := wire.EncodeControl(push)
		if err != nil || !equalJSON(t, again, g.Frame) || strings.Contains(string(again), `\u003c`) {
			t.Errorf("%s: becomes %s, %v", g.Name, again, err)
		}
	}
}

func equalJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

// TestRH51_AFrameOfManyValuesIsRefusedBeforeItFillsMemory: 8 MiB of small values would be
// 2 GiB in memory.
func TestRH51_AFrameOfManyValuesIsRefusedBeforeItFillsMemory(t *testing.T) {
	t.Parallel()
	frame := []byte(`{"type":"command","runId":"r","seq":1,"command":{"x":[` + strings.Repeat("0,", 100_000) + `0]}}`)
	if _, err := wire.DecodeControl(frame); wire.CodeOf(err) != wire.CodeBadRequest {
		t.Errorf("%v", err)
	}
}
