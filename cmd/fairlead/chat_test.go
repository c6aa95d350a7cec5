package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// doorOf is a server that greets whoever has the token and answers everything.
func doorOf(t *testing.T, token string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"fairlead.client.v1"}})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		_ = conn.Write(context.Background(), websocket.MessageText, []byte(`{"type":"welcome","epoch":"e","account":{"name":"Ada\u001b[31m"}}`))
		for {
			if _, _, err := conn.Read(context.Background()); err != nil {
				return
			}
			_ = conn.Write(context.Background(), websocket.MessageText, []byte(`{"re":"1","ok":true,"threads":[{"id":"x","title":"a\u001b]0;b\u0007","updatedAt":"2026-01-02T03:04:05.000Z"}]}`))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func chatAs(t *testing.T, environ []string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"chat"}, args...), stdio{In: strings.NewReader(stdin), Out: &out, Err: &errs, Environ: environ})
	return code, out.String(), errs.String()
}

func TestALoginIsKeptForItsOwnerAndItsServer(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	environ := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "conf")}
	one, other := doorOf(t, "fl_one"), doorOf(t, "fl_other")
	file := filepath.Join(home, "conf", "fairlead", "logins.json")
	if code, _, _ := chatAs(t, environ, "fl_wrong\n", "--login", one); code != chatLogin {
		t.Errorf("a wrong token: %d", code)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a token that does not work is kept")
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for url, token := range map[string]string{one: "fl_one", other: "fl_other"} {
		code, out, errs := chatAs(t, environ, token+"\n", "--login", url+"/")
		if code != exitDone || strings.Contains(out+errs, token) || strings.Contains(errs, "\x1b") {
			t.Fatalf("login: %d %q %q", code, out, errs)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kept as %v, %v", info.Mode(), err)
	}
	for _, url := range []string{one, other} {
		code, out, errs := chatAs(t, environ, "", "--list", "--url", url)
		if code != exitDone || !strings.Contains(out, "x  2026-01-02 03:04:05  a␛]0;b␇") {
			t.Errorf("%d %q %q", code, out, errs)
		}
	}
	if code, _, _ := chatAs(t, environ, "", "--list", "--url", doorOf(t, "fl_one")); code != chatLogin {
		t.Errorf("a stored token went to another server: %d", code)
	}
}

func TestATokenOfTheEnvironmentOrAFile(t *testing.T) {
	t.Parallel()
	url := doorOf(t, "fl_one")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("fl_one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		environ, args []string
	}{
		{[]string{"FAIRLEAD_TOKEN=fl_one", "FAIRLEAD_URL=" + url}, []string{"--list"}},
		{[]string{"FAIRLEAD_TOKEN=fl_two"}, []string{"--list", "--url", url, "--token-file", file}},
	} {
		if code, _, errs := chatAs(t, c.environ, "", c.args...); code != exitDone {
			t.Errorf("%v: %d %s", c, code, errs)
		}
	}
}

func TestVariablesOfChatAreNoSettings(t *testing.T) {
	t.Parallel()
	if _, err := loadConfig("", []string{"FAIRLEAD_TOKEN=fl_one", "FAIRLEAD_URL=http://x", "FAIRLEAD_DATA_DIR=" + t.TempDir()}, nil); err != nil {
		t.Error(err)
	}
}

func TestWrongCallsOfChat(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--url", "x", "hi"},
		{"--url", "http://user:pass@host", "hi"},
		{"--new", "--thread", "a", "hi"},
		{"--list", "--login", "http://x"},
		{"--login", "http://x"},
		{"--token", "fl_one", "hi"},
	} {
		if code, _, errs := chatAs(t, []string{"FAIRLEAD_TOKEN=t", "HOME=" + t.TempDir()}, "two words", args...); code != exitUsage {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	if code, _, errs := chatAs(t, []string{"FAIRLEAD_TOKEN=t"}, "", "--url", "http://127.0.0.1:1", "hi"); code != chatUnreachable {
		t.Errorf("%d %s", code, errs)
	}
}
