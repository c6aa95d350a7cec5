package httpd_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/static"
)

// asset is the address of a static file, base path excluded.
func (b *bench) asset(name string) string {
	version, err := static.Version(static.FS)
	if err != nil {
		panic(err)
	}
	return "/static/" + version + "/" + name
}

func TestStaticFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{public: "http://127.0.0.1/chat"})
	br := b.browser(t)
	login := br.get("/login")
	if !strings.Contains(login.body, `href="/chat`+b.asset("css/app.css")+`"`) {
		t.Errorf("the page does not name its style sheet under the base path: %s", login.body)
	}
	res := br.get(b.asset("css/app.css"))
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/css") ||
		!strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	again := br.get(b.asset("css/app.css"), "If-None-Match", res.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("with the ETag: %s", again.Status)
	}
	if old := br.get("/static/0123456789ab/css/app.css"); old.StatusCode != http.StatusOK || old.Header.Get("Cache-Control") != "no-cache" || old.body != res.body {
		t.Errorf("another version: %s %v", old.Status, old.Header)
	}
	for _, bad := range []string{b.asset(""), b.asset("css"), b.asset("css/"), b.asset("../embed.go"), b.asset("css/%2e%2e/%2e%2e/embed.go"), "/static/"} {
		if res := br.get(bad); res.StatusCode == http.StatusOK {
			t.Errorf("%s: %s", bad, res.Status)
		}
	}
}

func TestStaticFilesFromDiskMayChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.css"), []byte("a{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, options{static: dir})
	version, err := static.Version(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	br := b.browser(t)
	for _, content := range []string{"a{}", "b{color:red}"} {
		if err := os.WriteFile(filepath.Join(dir, "a.css"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		res := br.get("/static/" + version + "/a.css")
		if res.body != content || res.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s %q %v", res.Status, res.body, res.Header)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	fault := error(nil)
	b := newBench(t, options{checks: []httpd.Check{
		{Name: "database", Run: func(context.Context) error { return nil }},
		{Name: "host", Run: func(context.Context) error { mu.Lock(); defer mu.Unlock(); return fault }},
	}})
	br := b.browser(t)
	want := func(path string, status int, parts ...string) {
		t.Helper()
		res := br.get(path)
		if res.StatusCode != status {
			t.Errorf("%s: %s", path, res.Status)
		}
		for _, part := range parts {
			if !strings.Contains(res.body, part) {
				t.Errorf("%s: %s lacks %s", path, res.body, part)
			}
		}
		if strings.Contains(res.body, "canary") {
			t.Errorf("the reason is told to anybody: %s", res.body)
		}
	}
	want("/readyz", 200, `"ready":true`, `"database":"ok"`, `"host":"ok"`)
	mu.Lock()
	fault = errors.New("canary-reason")
	mu.Unlock()
	want("/readyz", 503, `"ready":false`, `"host":"failed"`, `"database":"ok"`)
	if !strings.Contains(b.log.String(), "canary-reason") {
		t.Error("the operator is not told the reason")
	}
	b.httpd.Drain()
	want("/readyz", 503, `"serving":"shutting_down"`)
	want("/livez", 200, `"live":true`)
	if res := br.get("/metrics", "Accept", "*/*"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("metrics for a stranger: %s", res.Status)
	}
}

// metrics remembers the routes that it was told of.
type metrics struct {
	mu   sync.Mutex
	seen []string
}

func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }

func (m *metrics) ObserveRequest(route, method string, status int, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, method+" "+route+" "+http.StatusText(status))
}

func TestMetricsNameRoutesNotPaths(t *testing.T) {
	t.Parallel()
	m := &metrics{}
	b := newBench(t, options{metrics: m, public: "http://127.0.0.1/base"})
	b.people(t)
	br := b.as(t, memberEmail)
	br.get("/chats/" + aThread)
	br.get("/canary/path")
	b.browser(t).do("POST", "/logout", nil, "Origin", "https://evil.example")
	m.mu.Lock()
	defer m.mu.Unlock()
	got := strings.Join(m.seen, "\n")
	for _, want := range []string{"POST /login See Other", "GET /chats/{id} OK", "GET none Not Found", "POST /logout Forbidden"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among\n%s", want, got)
		}
	}
}

func TestPanicIsAnAnswerAndALine(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{chats: panicking{}})
	b.people(t)
	br := b.as(t, memberEmail)
	res := br.get("/")
	if res.StatusCode != http.StatusInternalServerError || !strings.Contains(res.body, res.Header.Get("X-Request-Id")) || strings.Contains(res.body, "canary-panic") {
		t.Errorf("%s: %s", res.Status, res.body)
	}
	if log := b.log.String(); !strings.Contains(log, "canary-panic") || !strings.Contains(log, res.Header.Get("X-Request-Id")) {
		t.Error("the panic is not in the log")
	}
	if res := br.get("/livez"); res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s", res.Status)
	}
}

type panicking struct{ chats }

func (panicking) List(context.Context, gateway.Actor, gateway.ListRequest) (gateway.ListReply, error) {
	panic("canary-panic")
}

func TestServeEndsInOrder(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	b := newBench(t, options{checks: []httpd.Check{{Name: "slow", Run: func(context.Context) error {
		close(entered)
		<-leave
		return nil
	}}}})
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- b.httpd.Serve(ctx, ln) }()

	br := b.browser(t)
	slow := make(chan answer, 1)
	go func() { slow <- br.get("http://" + ln.Addr().String() + "/readyz") }()
	<-entered
	cancel()
	select {
	case err := <-served:
		t.Fatalf("Serve ended before its request did: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if res := <-slow; !strings.Contains(res.body, "shutting_down") {
		t.Errorf("the running request got %s: %s", res.Status, res.body)
	}
}
