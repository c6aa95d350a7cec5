package wire_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/relay/wire"
)

func TestCanonical_Form(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, raw, want string }{
		{"keys are sorted bytewise at every level", `{"b":{"z":1,"B":2},"a":1,"é":3,"A":0}`, `{"A":0,"a":1,"b":{"B":2,"z":1},"é":3}`},
		{"keys above the basic plane follow those below", `{"😀":1,"` + "\uffee" + `":2}`, `{"` + "\uffee" + `":2,"😀":1}`},
		{"arrays keep their order", `[ 3 , 1 , 2 ]`, `[3,1,2]`},
		{"nulls, booleans and empties stay", `{"a":null,"b":[],"c":{},"d":true}`, `{"a":null,"b":[],"c":{},"d":true}`},
		{"only the needed escapes", `"\u0000\u001f\u007f\u2028\u2029\/\"\\\b\t\n\f\r<>&"`, "\"\\u0000\\u001f\u007f\u2028\u2029/\\\"\\\\\\b\\t\\n\\f\\r<>&\""},
		{"no normalisation", `"e\u0301"`, "\"e\u0301\""},
		{"pairs become one character", `"\ud83c\udf00"`, `"🌀"`},
		{"integers of any size", `[0,-0,-7,18446744073709551616]`, `[0,0,-7,18446744073709551616]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.CanonicalJSON([]byte(c.raw))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestCanonical_RefusesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`1.0`, `1e3`, `[0.5]`, `{"a":1,"a":1}`, `"\ud800"`, "\"\xff\"", `1 2`, ``} {
		if got, err := wire.CanonicalJSON([]byte(raw)); err == nil {
			t.Errorf("%q gave %s", raw, got)
		}
	}
	for _, v := range []any{"\xff", map[string]string{"\xff": ""}, []any{&struct{ A string }{"\xc3"}}, 1.5, func() {}} {
		if got, err := wire.Canonical(v); err == nil {
			t.Errorf("%#v gave %s", v, got)
		}
	}
}

// jsonValue makes any JSON value whose numbers are integers.
func jsonValue() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any { return drawJSON(t, 3) })
}

func drawJSON(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return float64(rapid.Int32().Draw(t, "int"))
	case 3:
		return rapid.String().Draw(t, "text")
	case 4:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "len"))
		for i := range list {
			list[i] = drawJSON(t, depth-1)
		}
		return list
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "len") {
			object[rapid.String().Draw(t, "key")] = drawJSON(t, depth-1)
		}
		return object
	}
}

func TestCanonical_RoundTripsAndIsStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := jsonValue().Draw(t, "value")
		text, err := wire.Canonical(v)
		if err != nil {
			t.Fatal(err)
		}
		var back any
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s does not read back: %v", text, err)
		}
		if !reflect.DeepEqual(back, v) {
			t.Fatalf("%s reads back as %#v, was %#v", text, back, v)
		}
		again, err := wire.CanonicalJSON(text)
		if err != nil || string(again) != string(text) {
			t.Fatalf("%s becomes %s, %v", text, again, err)
		}
	})
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[null,true,"\u0001\ud83c\udf00"]}`, `-0`, `"\ud800"`, `[[[[]]]]`, `{"a":1,"a":2}`, `1e5`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		text, err := wire.CanonicalJSON(raw)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q is not JSON but was taken", raw)
		}
		again, err := wire.CanonicalJSON(text)
		if err != nil || string(again) != string(text) {
			t.Fatalf("%s becomes %s, %v", text, again, err)
		}
		var a, b any
		da, db := json.NewDecoder(strings.NewReader(string(raw))), json.NewDecoder(strings.NewReader(string(text)))
		da.UseNumber()
		db.UseNumber()
		if da.Decode(&a) != nil || db.Decode(&b) != nil {
			t.Fatalf("%q or %s does not decode", raw, text)
		}
		if !reflect.DeepEqual(a, b) && !strings.Contains(string(raw), "-0") {
			t.Fatalf("%q and %s differ", raw, text)
		}
	})
}

func FuzzDecodeStrict(f *testing.F) {
	for _, seed := range []string{`{"clientId":"a","count":1}`, `{"clientId":"a","count":1,"parts":[{"text":"x"}],"any":{"a":[1]}}`, `{"Count":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var strict, loose frame
		if wire.DecodeStrict(raw, &strict) != nil {
			return
		}
		if err := json.Unmarshal(raw, &loose); err != nil {
			t.Fatalf("%q was taken, but encoding/json says %v", raw, err)
		}
		if !reflect.DeepEqual(strict, loose) {
			t.Fatalf("%q: strict %+v, encoding/json %+v", raw, strict, loose)
		}
	})
}
