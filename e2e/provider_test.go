package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// providerKey is the credential of the scripted provider; a test looks for it
// in everything that leaves the program.
const providerKey = "sk-canary-5f1d0c9a7b"

// recordings holds recorded streams of real providers.
const recordings = "../relay/provider/testdata/recordings"

// provider stands in for a chat-completions API. The upstream model name says
// what it answers: count:N streams "0 " to "N-1 ", count:N+delay=2ms paces it,
// hang sends one word and then nothing until the client goes.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int       // by last user message
	gone  map[string]time.Time // when a client left an unfinished answer
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{calls: map[string]int{}, gone: map[string]time.Time{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

func (p *provider) requests(prompt string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[prompt]
}

func (p *provider) leftAt(prompt string) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.gone[prompt]
	return at, ok
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model           string
		Messages, Input []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	messages := append(body.Messages, body.Input...)
	if len(messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	prompt := textOf(messages[len(messages)-1].Content)
	p.mu.Lock()
	p.calls[prompt]++
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	if name, ok := strings.CutPrefix(body.Model, "fixture:"); ok {
		replay(w, strings.HasSuffix(r.URL.Path, "/chat/completions"), name)
		return
	}
	source, delay := parseModel(body.Model)
	if !p.stream(w, r, source, delay) {
		p.mu.Lock()
		p.gone[prompt] = time.Now()
		p.mu.Unlock()
	}
}

// replay sends a recorded stream, framed as its API frames it.
func replay(w http.ResponseWriter, chat bool, name string) {
	for _, payload := range recording(name) {
		var head struct{ Type string }
		_ = json.Unmarshal([]byte(payload), &head)
		if !chat {
			fmt.Fprintf(w, "event: %s\n", head.Type)
		}
		fmt.Fprintf(w, "data: %s\n\n", payload)
		w.(http.Flusher).Flush()
	}
	if chat {
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

// recording is the payloads of a recorded stream, one a line.
func recording(name string) []string {
	raw, err := os.ReadFile(filepath.Join(recordings, filepath.Base(name)+".chunks.txt"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// stream answers, and tells whether the client stayed until the end.
func (p *provider) stream(w http.ResponseWriter, r *http.Request, source string, delay time.Duration) bool {
	flush := w.(http.Flusher).Flush
	chunk := func(delta, finish string) {
		fmt.Fprintf(w, "data: {\"id\":\"r1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":%s}]}\n\n", delta, finish)
		flush()
	}
	if source == "hang" {
		chunk("thinking ", "null")
		<-r.Context().Done()
		return false
	}
	kind, count, _ := strings.Cut(source, ":")
	n, _ := strconv.Atoi(count)
	for i := range n {
		word := strconv.Itoa(i)
		if kind == "stamp" {
			word = strconv.FormatInt(time.Now().UnixNano(), 10)
		}
		chunk(word+" ", "null")
		select {
		case <-r.Context().Done():
			return false
		case <-time.After(delay):
		}
	}
	chunk("", `"stop"`)
	fmt.Fprintf(w, "data: {\"id\":\"r1\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", n)
	flush()
	return true
}

func parseModel(name string) (source string, delay time.Duration) {
	source, rest, _ := strings.Cut(name, "+")
	if d, ok := strings.CutPrefix(rest, "delay="); ok {
		delay, _ = time.ParseDuration(d)
	}
	return source, delay
}

func textOf(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts)
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(part.Text)
	}
	return b.String()
}

// counted is the whole answer of count:n.
func counted(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i))
		b.WriteByte(' ')
	}
	return b.String()
}

// number reads a count from the environment, so that a long run uses the same
// test as a short one.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	given := os.Getenv(name)
	if given == "" {
		return otherwise
	}
	n, err := strconv.Atoi(given)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
