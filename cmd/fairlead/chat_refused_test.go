package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// doorWith is a server that answers each command, by its type, with what comes after
// its id; what it has no answer for ends the connection with a close code.
func doorWith(t *testing.T, answers map[string]string, otherwise websocket.StatusCode) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"fairlead.client.v1"}})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		_ = conn.Write(context.Background(), websocket.MessageText, []byte(`{"type":"welcome","epoch":"e","account":{"name":"Ada"}}`))
		for {
			_, raw, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			var c struct{ ID, Type string }
			if err := json.Unmarshal(raw, &c); err != nil {
				t.Error(err)
			}
			answer, ok := answers[c.Type]
			if !ok {
				_ = conn.Close(otherwise, "because")
				return
			}
			_ = conn.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, `{"re":%q,%s}`, c.ID, answer))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestARefusedMessageEndsAsRefused: whoever reads the lines finds at the end what the
// exit code says, and why.
func TestARefusedMessageEndsAsRefused(t *testing.T) {
	t.Parallel()
	refusal := func(code string) string { return `"ok":false,"error":{"code":"` + code + `","message":"No."}` }
	agents := `"ok":true,"agents":[]`
	shut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error":{"code":"forbidden","message":"This token is not for chats."}}`))
	}))
	t.Cleanup(shut.Close)
	for name, tt := range map[string]struct {
		url  string
		args []string
		end  map[string]any // what the last line holds beside its type and thread
	}{
		"the message":   {doorWith(t, map[string]string{"message.send": refusal("model_unknown")}, 0), nil, map[string]any{"outcome": "refused", "code": "model_unknown"}},
		"the thread":    {doorWith(t, map[string]string{"thread.open": refusal("not_found")}, 0), []string{"--thread", "t1"}, map[string]any{"outcome": "refused", "code": "not_found"}},
		"the list":      {doorWith(t, map[string]string{"threads.list": refusal("forbidden")}, 0), []string{"--thread", "last"}, map[string]any{"outcome": "refused", "code": "forbidden"}},
		"the assistant": {doorWith(t, map[string]string{"agents.list": agents}, 0), []string{"--assistant", "Bob"}, map[string]any{"outcome": "refused", "code": "not_found"}},
		"at the door":   {shut.URL, nil, map[string]any{"outcome": "refused", "code": "forbidden"}},
		"cut before the message": {
			doorWith(t, nil, 4403), []string{"--assistant", "Bob"}, map[string]any{"outcome": "refused"},
		},
		"cut with the message open": {doorWith(t, nil, 4403), nil, map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := chatAs(t, []string{"FAIRLEAD_TOKEN=fl_one"}, "", append(tt.args, "--json", "--url", tt.url, "hi")...)
			if code != chatRefused || errs == "" {
				t.Errorf("exit code %d, %q", code, errs)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var end map[string]any
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil || end["type"] != "end" {
				t.Fatalf("%q ends without an end: %v", out, err)
			}
			for _, key := range []string{"outcome", "code"} {
				if end[key] != tt.end[key] {
					t.Errorf("%s is %v, want %v", key, end[key], tt.end[key])
				}
			}
		})
	}
}
