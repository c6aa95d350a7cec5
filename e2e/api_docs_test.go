package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestDocs_APIExamplesWork says what docs/api.md shows to the built binary, in
// order. It reads just as much of a shell as the page uses, so that nothing needs
// to be installed.
func TestDocs_APIExamplesWork(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	in := newInstall(t, p.URL, model{"counter", "count:300+delay=5ms"})
	in.start()
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	sh := &shell{t: t, in: in, vars: map[string]string{}}
	for _, block := range shellBlock.FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				sh.line(line)
			}
		}
	}
	if sh.requests < 12 {
		t.Errorf("only %d requests", sh.requests)
	}
}

// shell runs lines of the form NAME=value and command | command, with quotes,
// $NAME and $(…), for the commands that it knows.
type shell struct {
	t        *testing.T
	in       *install
	vars     map[string]string
	requests int
}

func (sh *shell) line(line string) {
	sh.t.Helper()
	name, value, assigns := strings.Cut(line, "=")
	if assigns && strings.ToUpper(name) == name && !strings.ContainsAny(name, " \"'$") {
		words := sh.words(value)
		sh.vars[name] = strings.Join(words, " ")
		if name == "API" {
			sh.vars[name] = sh.in.url + "/api/v1"
		}
		return
	}
	sh.pipe(line)
}

// pipe runs commands, each on what the one before it said.
func (sh *shell) pipe(line string) (out string) {
	sh.t.Helper()
	for _, command := range strings.Split(line, " | ") {
		out = sh.run(sh.words(command), out)
	}
	return out
}

func (sh *shell) run(words []string, stdin string) string {
	sh.t.Helper()
	switch words[0] {
	case "bin/fairlead":
		return sh.in.command("a long enough password\n", words[1:]...)
	case "curl":
		return sh.curl(words[1:])
	case "echo":
		return strings.Join(words[1:], " ")
	case "uuidgen":
		return uuid.NewString()
	case "jq":
		return sh.pick(words[len(words)-1], stdin)
	}
	sh.t.Fatalf("nobody runs %q", words)
	return ""
}

// words splits a command and fills in what it names.
func (sh *shell) words(line string) (words []string) {
	sh.t.Helper()
	var word strings.Builder
	started := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ':
			if started {
				words = append(words, word.String())
				word.Reset()
			}
			started = false
			continue
		case '\'':
			end := i + 1 + strings.IndexByte(line[i+1:], '\'')
			word.WriteString(line[i+1 : end])
			i = end
		case '"':
			end := i + 1 + strings.IndexByte(line[i+1:], '"')
			word.WriteString(os.Expand(line[i+1:end], sh.value))
			i = end
		case '$':
			n, value := sh.substitute(line[i:])
			word.WriteString(value)
			i += n - 1
		default:
			word.WriteByte(c)
		}
		started = true
	}
	if started {
		words = append(words, word.String())
	}
	return words
}

// substitute gives what stands for the $NAME or $(…) at the beginning of a text,
// and how long that is.
func (sh *shell) substitute(text string) (length int, value string) {
	sh.t.Helper()
	if strings.HasPrefix(text, "$(") {
		end := closing(text[1:]) + 1
		return end + 1, sh.pipe(text[2:end])
	}
	end := 1
	for end < len(text) && (text[end] >= 'A' && text[end] <= 'Z') {
		end++
	}
	return end, sh.value(text[1:end])
}

// closing finds the bracket that closes the one at the beginning, past quotes.
func closing(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\'', '"':
			i += 1 + strings.IndexByte(text[i+1:], c)
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(text) - 1
}

func (sh *shell) value(name string) string {
	sh.t.Helper()
	value, ok := sh.vars[name]
	if !ok {
		sh.t.Fatalf("$%s is not set", name)
	}
	return value
}

func (sh *shell) curl(words []string) string {
	sh.t.Helper()
	header, method, url, body := http.Header{}, http.MethodGet, "", ""
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "-sH", "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-X":
			i++
			method = words[i]
		case "--json":
			i++
			body = words[i]
			header.Set("Content-Type", "application/json")
			if method == http.MethodGet {
				method = http.MethodPost
			}
		default:
			url = words[i]
		}
	}
	sh.requests++
	req, err := http.NewRequestWithContext(sh.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		sh.t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		sh.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		sh.t.Fatal(err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		sh.t.Errorf("%s %s: %s %s", method, req.URL.Path, res.Status, text)
	}
	return strings.TrimSpace(string(text))
}

// pick is jq -r with a path of keys.
func (sh *shell) pick(path, text string) string {
	sh.t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		sh.t.Fatalf("%v in %s", err, text)
	}
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		object, _ := v.(map[string]any)
		if v = object[key]; v == nil {
			sh.t.Fatalf("no %s in %s", path, text)
		}
	}
	return fmt.Sprint(v)
}
