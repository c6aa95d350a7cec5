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
//
// With E2E_PROVIDER_URL another server stands in its place that knows the same
// model names; E2E_PROVIDER_REQUESTS is where it lists the requests that it had, as
// a JSON array of {body, outcome}.
type provider struct {
	URL      string
	external bool
	mu       sync.Mutex
	calls    map[string]int       // by last user message
	gone     map[string]time.Time // when a client left an unfinished answer
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{calls: map[string]int{}, gone: map[string]time.Time{}}
	if p.URL = os.Getenv("E2E_PROVIDER_URL"); p.URL != "" {
		p.external = true
		return p
	}
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	p.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// requests counts the requests whose last message was prompt.
func (p *provider) requests(t testing.TB, prompt string) int {
	t.Helper()
	if !p.external {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.calls[prompt]
	}
	return len(p.told(t, prompt))
}

// toldRequest is a request as another server tells it.
type toldRequest struct {
	Body    json.RawMessage `json:"body"`
	Outcome string          `json:"outcome"`
}

func (p *provider) told(t testing.TB, prompt string) (matching []toldRequest) {
	t.Helper()
	res, err := http.Get(os.Getenv("E2E_PROVIDER_REQUESTS"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all []toldRequest
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if strings.Contains(string(r.Body), prompt) {
			matching = append(matching, r)
		}
	}
	return matching
}

// leftAt is when the client of an unfinished answer went, or was first seen to
// have gone.
func (p *provider) leftAt(t testing.TB, prompt string) (time.Time, bool) {
	t.Helper()
	if p.external {
		for _, r := range p.told(t, prompt) {
			if r.Outcome == "client_gone" {
				return time.Now(), true
			}
		}
		return time.Time{}, false
	}
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
	// What the gateway tells the model beside the prompt stands before it.
	if _, said, ok := strings.Cut(prompt, "</context>"); ok {
		prompt = strings.TrimSpace(said)
	}
	p.mu.Lock()
	p.calls[prompt]++
	p.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	if name, ok := strings.CutPrefix(body.Model, "fixture:"); ok {
		replay(w, strings.HasSuffix(r.URL.Path, "/chat/completions"), name)
		return
	}
	if !p.stream(w, r, parseModel(body.Model)) {
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
func (p *provider) stream(w http.ResponseWriter, r *http.Request, source source) bool {
	flush := w.(http.Flusher).Flush
	chunk := func(delta, finish string) {
		fmt.Fprintf(w, "data: {\"id\":\"r1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":%s}]}\n\n", delta, finish)
		flush()
	}
	for i := range source.n {
		word := strconv.Itoa(i)
		if source.kind == "stamp" {
			word = strconv.FormatInt(time.Now().UnixNano(), 10)
		}
		if source.stall > 0 && i == source.stall {
			<-r.Context().Done()
			return false
		}
		chunk(word+" ", "null")
		select {
		case <-r.Context().Done():
			return false
		case <-time.After(source.delay):
		}
	}
	chunk("", `"stop"`)
	fmt.Fprintf(w, "data: {\"id\":\"r1\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", source.n)
	flush()
	return true
}

// source is a parsed model name.
type source struct {
	kind  string
	n     int
	delay time.Duration
	stall int
}

func parseModel(name string) (s source) {
	words := strings.Split(name, "+")
	kind, count, _ := strings.Cut(words[0], ":")
	s.kind = kind
	s.n, _ = strconv.Atoi(count)
	for _, fault := range words[1:] {
		key, value, _ := strings.Cut(fault, "=")
		switch key {
		case "delay":
			s.delay, _ = time.ParseDuration(value)
		case "stall":
			s.stall, _ = strconv.Atoi(value)
		}
	}
	return s
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
