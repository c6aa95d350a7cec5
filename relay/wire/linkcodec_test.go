package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/relay/wire"
)

// linkFrame is one entry of testdata/link-frames.json.
type linkFrame struct {
	Name  string          `json:"name"`
	From  string          `json:"from"`
	Frame json.RawMessage `json:"frame"`
}

func linkFrames(t testing.TB) []linkFrame {
	t.Helper()
	raw, err := os.ReadFile("testdata/link-frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []linkFrame
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLinkFrames_AreReadAndWrittenByteForByte(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range linkFrames(t) {
		m, err := wire.DecodeLink(g.Frame)
		if err != nil || m == nil {
			t.Errorf("%s: %v, %v", g.Name, m, err)
			continue
		}
		seen[wire.LinkType(m)] = true
		frame, err := wire.EncodeLink(m)
		if err != nil || !bytes.Equal(frame, g.Frame) {
			t.Errorf("%s: %v\nwritten %s\nwant    %s", g.Name, err, frame, g.Frame)
		}
	}
	for _, name := range []string{
		"hello", "welcome", "attach", "attached", "refused", "command", "ack", "event", "cursor", "detach", "steer",
		"receipt", "room", "catalog", "catalog.request", "heartbeat", "draining", "offline", "drain", "revoked", "goaway",
	} {
		if !seen[name] {
			t.Errorf("no frame of type %s", name)
		}
	}
}

// Additive changes stay within a version.
func TestLinkFrames_OfANewerVersionPass(t *testing.T) {
	t.Parallel()
	for _, g := range linkFrames(t) {
		want, err := wire.DecodeLink(g.Frame)
		if err != nil {
			t.Fatal(err)
		}
		newer := `{"newer":{"type":["x",{}]},` + string(g.Frame[1:])
		if got, err := wire.DecodeLink([]byte(newer)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s with a key more: %+v, %v", g.Name, got, err)
		}
	}
	for _, frame := range []string{`{"type":"newer"}`, `{"type":"newer","runId":7}`} {
		if m, err := wire.DecodeLink([]byte(frame)); m != nil || err != nil {
			t.Errorf("%s: %v, %v", frame, m, err)
		}
	}
	m, err := wire.DecodeLink([]byte(`{"type":"welcome","protocol":"p","capabilities":null,"heartbeatMs":1}`))
	if err != nil || m.(wire.Welcome).Capabilities != nil {
		t.Errorf("null in place of a list: %+v, %v", m, err)
	}
}

func TestLinkFrames_MalformedOnesAreRefused(t *testing.T) {
	t.Parallel()
	for _, frame := range []string{
		``, `null`, `[]`, `"hello"`, `{}`, `{"type":7}`, `{"type":""}`, `{"type":"cursor"}`, `{"type":"room","inflight":-1,"max":1}`,
		`{"type":"cursor","runId":"run_1"}`, `{"type":"cursor","runId":"run_1","cursor":"1"}`, `{"type":"cursor","runId":"run_1","cursor":1.5}`,
		`{"type":"cursor","runId":"run_1","cursor":-1}`, `{"type":"cursor","runId":"run_1","cursor":9007199254740992}`,
		`{"type":"cursor","runId":"run 1","cursor":1}`, `{"type":"cursor","RunId":"run_1","cursor":1}`, `{"type":"cursor","runId":null,"cursor":1}`,
		`{"type":"cursor","runId":"run_1","cursor":1,"cursor":2}`, `{"type":"cursor","runId":"run_1","cursor":1}{}`,
		`{"type":"event","runId":"run_1"}`, `{"type":"event","runId":"run_1","envelope":{"seq":0}}`, `{"type":"event","runId":"run_1","envelope":[]}`,
		`{"type":"command","runId":"run_1","seq":0,"command":{}}`, `{"type":"command","runId":"run_1","seq":1}`,
		`{"type":"ack","runId":"run_1","commandSeq":1,"commandType":"x","status":"accepted"}`, `{"type":"refused","runId":"run_1","error":null}`,
		`{"type":"hello","hostId":"h","name":"n","version":"1","protocols":[],"capabilities":[],"clockMs":"now"}`,
		`{"type":"offline","reason":"` + strings.Repeat("x", 801) + `"}`, `{"type":"offline","reason":"\ud800"}`, "{\"type\":\"offline\",\"reason\":\"\xff\"}",
		`{"type":"goaway","reason":"","retryAfterMs":-1}`,
	} {
		if m, err := wire.DecodeLink([]byte(frame)); wire.CodeOf(err) != wire.CodeBadRequest {
			t.Errorf("%s: %+v, %v", frame, m, err)
		}
	}
}

func TestLinkFrames_AreBoundedInBytesAndInValues(t *testing.T) {
	t.Parallel()
	large := wire.CommandMessage{RunID: "run_1", Seq: 1, Command: json.RawMessage(`"` + strings.Repeat("x", wire.MaxLinkFrame) + `"`)}
	if _, err := wire.EncodeLink(large); wire.CodeOf(err) != wire.CodeFrameTooLarge {
		t.Errorf("writing a large frame: %v", err)
	}
	large.Command = large.Command[:wire.MaxLinkFrame-200]
	large.Command[len(large.Command)-1] = '"'
	frame, err := wire.EncodeLink(large)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.DecodeLink(frame); err != nil {
		t.Errorf("reading a frame of %d bytes: %v", len(frame), err)
	}
	if _, err := wire.DecodeLink(append(frame, make([]byte, wire.MaxLinkFrame)...)); wire.CodeOf(err) != wire.CodeFrameTooLarge {
		t.Errorf("reading a large frame: %v", err)
	}
	many := `{"type":"newer","list":[` + strings.Repeat("0,", 1<<20) + `0]}`
	if _, err := wire.DecodeLink([]byte(many)); wire.CodeOf(err) != wire.CodeBadRequest {
		t.Errorf("a frame of a million values: %v", err)
	}
	if frame, err := wire.EncodeLink(largestCatalog()); err != nil {
		t.Errorf("the largest catalog: %v", err)
	} else if _, err := wire.DecodeLink(frame); err != nil {
		t.Errorf("the largest catalog, %d bytes: %v", len(frame), err)
	}
}

// largestCatalog has 10,000 models that can do everything.
func largestCatalog() wire.CatalogMessage {
	levels := []string{"minimal", "low", "medium", "high", "xhigh", "max"}
	m := wire.CatalogMessage{Challenge: wire.NewChallenge()}
	provider := wire.CatalogProvider{ID: "provider", ModelProviderID: "provider"}
	for i := range 10_000 {
		id := fmt.Sprintf("a-model-with-a-rather-long-name-%05d", i)
		provider.Models = append(provider.Models, wire.CatalogModel{ID: id, ImageInput: wire.Supported, ReasoningEffortLevels: levels})
		m.Routes = append(m.Routes, wire.Route{
			ModelProvider: "provider", ModelProviderID: "provider", DisplayName: id, Model: id, Family: "family",
			ImageInput: wire.Supported, OutputLimit: wire.Supported, Reasoning: wire.Supported, ReasoningLevels: levels,
		})
	}
	m.Catalog.Providers = []wire.CatalogProvider{provider}
	return m
}

func TestLinkFrames_ListsAreNeverNull(t *testing.T) {
	t.Parallel()
	for _, m := range []wire.LinkMessage{wire.Hello{}, wire.Welcome{}, wire.CatalogMessage{}} {
		if frame, err := wire.EncodeLink(m); err != nil || bytes.Contains(frame, []byte("null")) {
			t.Errorf("%s, %v", frame, err)
		}
	}
	if _, err := wire.EncodeLink(nil); err == nil {
		t.Error("nothing is a message")
	}
}

// What is read is written and read again the same.
func FuzzDecodeLink(f *testing.F) {
	for _, g := range linkFrames(f) {
		f.Add([]byte(g.Frame))
	}
	f.Add([]byte(`{"type":"newer"}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := wire.DecodeLink(frame)
		if err != nil {
			if code := wire.CodeOf(err); code != wire.CodeBadRequest && code != wire.CodeFrameTooLarge {
				t.Fatalf("%q: %v", frame, err)
			}
			return
		}
		if m == nil {
			return
		}
		written, err := wire.EncodeLink(m)
		if err != nil {
			t.Fatalf("%q is read and cannot be written: %v", frame, err)
		}
		again, err := wire.DecodeLink(written)
		if err != nil {
			t.Fatalf("%q is written as %q: %v", frame, written, err)
		}
		rewritten, err := wire.EncodeLink(again)
		if err != nil || !bytes.Equal(written, rewritten) {
			t.Fatalf("%q is written as %q and then as %q, %v", frame, written, rewritten, err)
		}
	})
}
