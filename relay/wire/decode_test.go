package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/wire"
)

type inner struct {
	Text string `json:"text" validate:"required"`
	N    int8   `json:"n,omitempty"`
}

type embedded struct {
	ClientID string `json:"clientId" validate:"required,uuid"`
}

type frame struct {
	embedded
	Parts   []inner           `json:"parts,omitempty" validate:"omitempty,max=2,dive"`
	One     inner             `json:"one,omitempty"`
	Opt     *string           `json:"opt,omitempty"`
	Count   uint32            `json:"count" validate:"present"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Ratio   float64           `json:"ratio,omitempty"`
	On      bool              `json:"on,omitempty"`
	Any     any               `json:"any,omitempty"`
	Ignored string            `json:"-"`
}

func fieldsOf(t *testing.T, err error) []wire.Field {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is not a wire error", err)
	}
	return e.Fields
}

func TestDecodeStrict_Refuses(t *testing.T) {
	t.Parallel()
	const head = `{"clientId":"a","count":1`
	deep := strings.Repeat("[", wire.MaxJSONDepth+1) + strings.Repeat("]", wire.MaxJSONDepth+1)
	for _, c := range []struct {
		name, raw string
		want      wire.Field
	}{
		{"an unknown key", head + `,"x":1}`, wire.Field{Path: "x", Rule: "unknown"}},
		{"an unknown key deep down", head + `,"parts":[{"text":"a"},{"text":"b","y":1}]}`, wire.Field{Path: "parts[1].y", Rule: "unknown"}},
		{"a wrongly cased key", `{"clientId":"a","Count":1}`, wire.Field{Path: "Count", Rule: "unknown"}},
		{"a key of a field that has none", head + `,"Ignored":"x"}`, wire.Field{Path: "Ignored", Rule: "unknown"}},
		{"a repeated key", head + `,"count":1}`, wire.Field{Rule: "unknown"}},
		{"a key repeated by an escape", head + `,"c\u006funt":1}`, wire.Field{Rule: "unknown"}},
		{"a missing required key", `{"count":1}`, wire.Field{Path: "clientId", Rule: "required"}},
		{"a missing present key", `{"clientId":"a"}`, wire.Field{Path: "count", Rule: "required"}},
		{"a missing key deep down", head + `,"one":{}}`, wire.Field{Path: "one.text", Rule: "required"}},
		{"null for a text", head + `,"parts":[{"text":null}]}`, wire.Field{Path: "parts[0].text", Rule: "type"}},
		{"null for a list", head + `,"parts":null}`, wire.Field{Path: "parts", Rule: "type"}},
		{"null for an object", head + `,"one":null}`, wire.Field{Path: "one", Rule: "type"}},
		{"a number for a text", `{"clientId":5,"count":1}`, wire.Field{Path: "clientId", Rule: "type"}},
		{"a text for a number", `{"clientId":"a","count":"1"}`, wire.Field{Path: "count", Rule: "type"}},
		{"a fraction for an integer", `{"clientId":"a","count":1.0}`, wire.Field{Path: "count", Rule: "type"}},
		{"an exponent for an integer", `{"clientId":"a","count":1e2}`, wire.Field{Path: "count", Rule: "type"}},
		{"a negative unsigned number", `{"clientId":"a","count":-1}`, wire.Field{Path: "count", Rule: "type"}},
		{"a number out of range", head + `,"one":{"text":"a","n":128}}`, wire.Field{Path: "one.n", Rule: "type"}},
		{"a boolean by another word", head + `,"on":1}`, wire.Field{Path: "on", Rule: "type"}},
		{"a list for an object", head + `,"labels":[]}`, wire.Field{Path: "labels", Rule: "type"}},
		{"a list for the frame", `[]`, wire.Field{Rule: "type"}},
		{"invalid UTF-8", head + ",\"raw\":\"\xff\"}", wire.Field{Rule: "utf8"}},
		{"an overlong encoding", head + ",\"raw\":\"\xc0\x80\"}", wire.Field{Rule: "utf8"}},
		{"an encoded surrogate", head + ",\"raw\":\"\xed\xa0\x80\"}", wire.Field{Rule: "utf8"}},
		{"a lone high surrogate", head + `,"raw":"\ud800"}`, wire.Field{Rule: "utf8"}},
		{"a lone low surrogate", head + `,"raw":"\udc00x"}`, wire.Field{Rule: "utf8"}},
		{"two high surrogates", head + `,"raw":"\ud800\ud800"}`, wire.Field{Rule: "utf8"}},
		{"text after the object", head + `}{}`, wire.Field{Rule: "type"}},
		{"nothing", ``, wire.Field{Rule: "type"}},
		{"a cut object", head, wire.Field{Rule: "type"}},
		{"a trailing comma", head + `,}`, wire.Field{Rule: "type"}},
		{"a raw control character", head + ",\"raw\":\"\n\"}", wire.Field{Rule: "type"}},
		{"a leading zero", `{"clientId":"a","count":01}`, wire.Field{Rule: "type"}},
		{"a byte order mark", "\ufeff" + head + `}`, wire.Field{Rule: "type"}},
		{"deep nesting", head + `,"any":` + deep + `}`, wire.Field{Rule: "max"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var f frame
			err := wire.DecodeStrict([]byte(c.raw), &f)
			if wire.CodeOf(err) != wire.CodeBadRequest {
				t.Fatalf("got %v, want bad_request", err)
			}
			if got := fieldsOf(t, err); len(got) == 0 || got[0] != c.want {
				t.Errorf("fields %v, want first %v", got, c.want)
			}
		})
	}
}

func TestDecodeStrict_Takes(t *testing.T) {
	t.Parallel()
	raw := ` { "clientId" : "a\"\\\/\b\f\n\r\t\u00e9\ud83c\udf00", "count":4294967295, "parts":[{"text":"雪","n":-128}],` +
		`"opt":null, "raw":{"b":[1,2.5]}, "labels":{"k":"v"}, "ratio":-1.5e3, "on":true, "any":[null,"x"], "one":{"text":""} } `
	var f frame
	if err := wire.DecodeStrict([]byte(raw), &f); err != nil {
		t.Fatal(err)
	}
	want := frame{
		embedded: embedded{ClientID: "a\"\\/\b\f\n\r\té🌀"},
		Count:    4294967295, Parts: []inner{{Text: "雪", N: -128}}, Raw: json.RawMessage(`{"b":[1,2.5]}`),
		Labels: map[string]string{"k": "v"}, Ratio: -1500, On: true, Any: []any{nil, "x"},
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v, want %+v", f, want)
	}
}

func TestDecodeStrict_BoundsItsReport(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"clientId":"a","count":1`)
	for i := range 100 {
		b.WriteString(`,"` + strings.Repeat("k", 1000) + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":1`)
	}
	b.WriteString(`}`)
	var f frame
	got := fieldsOf(t, wire.DecodeStrict([]byte(b.String()), &f))
	if len(got) != 16 {
		t.Errorf("%d fields, want 16", len(got))
	}
	for _, field := range got {
		if len(field.Path) > 80 {
			t.Errorf("path of %d bytes", len(field.Path))
		}
	}
}

func TestValidateStruct_EmbeddedStructsAddNoPath(t *testing.T) {
	t.Parallel()
	want := []wire.Field{{Path: "clientId", Rule: "uuid"}}
	if got := wire.ValidateStruct(frame{embedded: embedded{ClientID: "x"}, One: inner{Text: "a"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestValidateStruct_RulesAndPaths(t *testing.T) {
	t.Parallel()
	type shape struct {
		ID    string  `json:"id" validate:"required,uuid"`
		Mode  string  `json:"mode,omitempty" validate:"omitempty,oneof=a b"`
		Text  string  `json:"text,omitempty" validate:"omitempty,utf8,nonul,notblank,maxbytes=4"`
		Limit int     `json:"limit,omitempty" validate:"omitempty,min=2,max=3"`
		Parts []inner `json:"parts,omitempty" validate:"omitempty,dive"`
		Ref   string  `json:"ref,omitempty" validate:"omitempty,relayid"`
	}
	const id = "0190a0b0-0000-7000-8000-000000000000"
	for _, c := range []struct {
		name string
		v    shape
		want []wire.Field
	}{
		{"nothing wrong", shape{ID: id, Text: "éé"}, nil},
		{"required", shape{}, []wire.Field{{Path: "id", Rule: "required"}}},
		{"uuid", shape{ID: "x"}, []wire.Field{{Path: "id", Rule: "uuid"}}},
		{"enum", shape{ID: id, Mode: "c"}, []wire.Field{{Path: "mode", Rule: "enum"}}},
		{"min", shape{ID: id, Limit: 1}, []wire.Field{{Path: "limit", Rule: "min"}}},
		{"max", shape{ID: id, Limit: 4}, []wire.Field{{Path: "limit", Rule: "max"}}},
		{"max counts bytes", shape{ID: id, Text: "ééé"}, []wire.Field{{Path: "text", Rule: "max"}}},
		{"utf8", shape{ID: id, Text: "\xff"}, []wire.Field{{Path: "text", Rule: "utf8"}}},
		{"nul", shape{ID: id, Text: "a\x00"}, []wire.Field{{Path: "text", Rule: "nul"}}},
		{"blank", shape{ID: id, Text: " \u2003"}, []wire.Field{{Path: "text", Rule: "blank"}}},
		{"type", shape{ID: id, Ref: "a b"}, []wire.Field{{Path: "ref", Rule: "type"}}},
		{"in order, with paths", shape{Parts: []inner{{Text: "x"}, {}}}, []wire.Field{{Path: "id", Rule: "required"}, {Path: "parts[1].text", Rule: "required"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := wire.ValidateStruct(&c.v); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if err := wire.CheckStruct(c.v); (err != nil) != (c.want != nil) {
				t.Errorf("CheckStruct gives %v", err)
			}
		})
	}
}
