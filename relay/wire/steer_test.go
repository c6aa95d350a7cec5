package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay/wire"
)

// envelope is what SQ42 measures, as encoding/json writes it, but for U+2028 and
// U+2029: JSON does not demand that they are escaped.
func envelope(t interface{ Fatal(...any) }, deliveryID, text string) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Type       string `json:"type"`
		DeliveryID string `json:"deliveryId"`
		Text       string `json:"text"`
	}{"active-input", deliveryID, text})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(buf.String(), "\n")
}

// steerSize is the size of that envelope. encoding/json escapes the two separators
// to six bytes, which in UTF-8 are three; so it is asked without them.
func steerSize(t interface{ Fatal(...any) }, deliveryID, text string) int {
	separators := strings.Count(text, "\u2028") + strings.Count(text, "\u2029")
	rest := strings.NewReplacer("\u2028", "", "\u2029", "").Replace(text)
	return len(envelope(t, deliveryID, rest)) + 3*separators
}

const someDelivery = "0b2c3d4e-5f60-4718-9a2b-3c4d5e6f7081"

func TestSQ42_SizeOfASteer(t *testing.T) {
	t.Parallel()
	empty := len(`{"type":"active-input","deliveryId":"` + someDelivery + `","text":""}`)
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"SQ42 empty", "", 0},
		{"SQ42 ASCII", "plain", 5},
		{"SQ42 what JSON demands", "\"\\\b\f\n\r\t", 14},
		{"SQ42 control characters", "\x00\x01\x1f", 18},
		{"SQ42 DEL is none", "\x7f", 1},
		{"SQ42 what HTML would", "<>&", 3},
		{"SQ42 the separators of lines stay raw", "\u2028\u2029", 6},
		{"SQ42 UTF-8", "é你🌍", 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := wire.SteerSize(someDelivery, tt.text) - empty; got != tt.want {
				t.Errorf("%d bytes, want %d", got, tt.want)
			}
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Draw(rt, "text")
		if got, want := wire.SteerSize(someDelivery, text), steerSize(rt, someDelivery, text); got != want {
			rt.Fatalf("%q takes %d bytes, want %d", text, got, want)
		}
	})
}

func FuzzSQ42_SizeOfASteer(f *testing.F) {
	for _, seed := range []string{"", "<\u2028\u2029>", "\x00\x1f\x7f\"\\", "🌍é\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip() // no message has such text
		}
		if got, want := wire.SteerSize(someDelivery, text), steerSize(t, someDelivery, text); got != want {
			t.Fatalf("%q takes %d bytes, want %d", text, got, want)
		}
	})
}

func TestSteer_Shape(t *testing.T) {
	t.Parallel()
	good := wire.Steer{RunID: "run_1", TurnID: "local_turn_0123456789abcdef01234567", DeliveryID: someDelivery, Text: "more"}
	for _, tt := range []struct {
		name   string
		change func(*wire.Steer)
		field  string
	}{
		{"as it should be", func(*wire.Steer) {}, ""},
		{"no run", func(m *wire.Steer) { m.RunID = "" }, "runId"},
		{"a native turn", func(m *wire.Steer) { m.TurnID = "turn_1" }, "turnId"},
		{"no UUID", func(m *wire.Steer) { m.DeliveryID = "1" }, "deliveryId"},
		{"blank", func(m *wire.Steer) { m.Text = " \n" }, "text"},
		{"NUL", func(m *wire.Steer) { m.Text = "a\x00" }, "text"},
		{"bad UTF-8", func(m *wire.Steer) { m.Text = "a\xff" }, "text"},
		{"too long", func(m *wire.Steer) { m.Text = strings.Repeat("x", wire.MaxSteerBytes+1) }, "text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := good
			tt.change(&m)
			faults := wire.ValidateStruct(m)
			if tt.field == "" && len(faults) == 0 {
				return
			}
			if len(faults) != 1 || faults[0].Path != tt.field {
				t.Errorf("faults %+v, want one of %q", faults, tt.field)
			}
		})
	}
}

// TestSteer_Frames are the messages of a steer, byte for byte, as peers of other
// versions write them.
func TestSteer_Frames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		message wire.LinkMessage
		frame   string
	}{
		{
			wire.Steer{RunID: "r", TurnID: "t", DeliveryID: "d", Text: "<b>", Now: true},
			`{"runId":"r","turnId":"t","deliveryId":"d","text":"<b>","now":true}`,
		},
		{wire.Steer{RunID: "r", TurnID: "t", DeliveryID: "d", Text: "x"}, `{"runId":"r","turnId":"t","deliveryId":"d","text":"x"}`},
		{
			wire.Receipt{RunID: "r", TurnID: "t", DeliveryID: "d", Outcome: wire.ReceiptDelivered, At: 3, Cut: true},
			`{"runId":"r","turnId":"t","deliveryId":"d","outcome":"delivered","at":3,"cut":true}`,
		},
		{
			wire.Receipt{RunID: "r", TurnID: "t", DeliveryID: "d", Outcome: wire.ReceiptRejected, Reason: wire.ReasonTurnOver},
			`{"runId":"r","turnId":"t","deliveryId":"d","outcome":"rejected","reason":"turn_over","at":0}`,
		},
	} {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(tt.message); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(buf.String()); got != tt.frame {
			t.Errorf("%T is\n%s, want\n%s", tt.message, got, tt.frame)
		}
	}
}

func TestValidUUID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		someDelivery: true, strings.ToUpper(someDelivery): false, "": false, someDelivery + "0": false,
		strings.Replace(someDelivery, "-", "0", 1): false, strings.Replace(someDelivery, "b", "-", 1): false,
		strings.Replace(someDelivery, "b", "g", 1): false,
	} {
		if got := wire.ValidUUID(id); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}
