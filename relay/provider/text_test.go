package provider

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestF28_JoinerProperty: however a text is cut, as bytes or as escapes, what
// comes out is the text, in whole runes.
func TestF28_JoinerProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text")
		units := cutUnits(t, want)
		var j joiner
		var got strings.Builder
		for len(units) > 0 {
			n := rapid.IntRange(1, len(units)).Draw(t, "n")
			var piece text
			if err := json.Unmarshal([]byte(`"`+strings.Join(units[:n], "")+`"`), &piece); err != nil {
				t.Fatalf("piece: %v", err)
			}
			out := j.push(piece)
			if !utf8.ValidString(out) {
				t.Fatalf("delta %q is not whole", out)
			}
			got.WriteString(out)
			units = units[n:]
		}
		if rest := j.flush(); rest != "" || got.String() != want {
			t.Fatalf("got %q and %q, want %q", got.String(), rest, want)
		}
	})
}

// cutUnits gives the smallest pieces that a JSON string can be cut into: raw
// bytes, or escapes of one code unit.
func cutUnits(t *rapid.T, s string) (units []string) {
	const digits = "0123456789abcdef"
	escape := func(u rune) string {
		return `\u` + string([]byte{digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15]})
	}
	for _, r := range s {
		if r >= ' ' && r != '"' && r != '\\' && rapid.Bool().Draw(t, "raw") {
			for _, b := range []byte(string(r)) {
				units = append(units, string([]byte{b}))
			}
			continue
		}
		if r < 0x10000 {
			units = append(units, escape(r))
			continue
		}
		r -= 0x10000
		units = append(units, escape(0xd800|r>>10), escape(0xdc00|r&0x3ff))
	}
	return units
}

func FuzzTextIsNeverBroken(f *testing.F) {
	f.Add(`"\ud83d"`, `"\ude00"`)
	f.Add("\"\xe4\xbd\"", "\"\xa0\"")
	f.Add(`null`, `"\\u12"`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var j joiner
		for _, s := range []string{a, b} {
			var piece text
			if json.Unmarshal([]byte(s), &piece) == nil {
				if out := j.push(piece); !utf8.ValidString(out) {
					t.Fatalf("%q gives %q", s, out)
				}
			}
		}
		if len(j.held) > 5 {
			t.Fatalf("holds %q", j.held)
		}
	})
}

func FuzzF31_DecodersTakeAnything(f *testing.F) {
	f.Add([]byte(`{"choices":[],"usage":{"prompt_tokens":1}}`))
	f.Add([]byte(`{"type":"response.completed","response":{"output":[{"type":"message","content":null}]}}`))
	f.Add([]byte(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}`))
	f.Add([]byte(`{"type":"error","error":{"code":5e300}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		for _, api := range []dialect{chat{}, responses{}, messages{}} {
			out := &output{emit: func(d Delta) error {
				if d.Text == "" || !utf8.ValidString(d.Text) {
					t.Fatalf("delta %q", d.Text)
				}
				return nil
			}}
			s := &stream{out: out, dec: api.decoder(out)}
			_, _ = s.take(event{data: data})
			_, _ = s.take(event{data: data, name: "error"})
		}
	})
}
