package httpd_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
)

var update = flag.Bool("update", false, "write what the server answers into api_examples.json")

const examplesFile = "api_examples.json"

// exampleCall is one exchange of api_examples.json.
type exampleCall struct {
	Operation string            `json:"operation"`
	Name      string            `json:"name"`
	Path      map[string]string `json:"path,omitempty"`
	Query     map[string]string `json:"query,omitempty"`
	Body      any               `json:"body,omitempty"`
	Status    int               `json:"status"`
	Reply     any               `json:"reply,omitempty"`
}

// cast translates between the ids of the file and those of a run.
type cast struct {
	real, told map[string]string
	made       int
	tokens     int
}

// as gives the id in a run for one of the file.
func (c *cast) as(id string) string {
	if real, ok := c.real[id]; ok {
		return real
	}
	return id
}

func (c *cast) bind(told, real string) {
	c.real[told], c.told[real] = real, told
}

// request gives what an example says in this run.
func (c *cast) request(v any) any {
	switch v := v.(type) {
	case string:
		if uuid.Validate(v) == nil && c.real[v] == "" {
			c.bind(v, v) // an id of the client's own
		}
		return c.as(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.request(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = c.request(v[k])
		}
		return out
	}
	return v
}

// hidden are the parts of strings that are new in each run: tokens of hosts, nonces,
// and the id of the gateway.
var (
	hostToken = regexp.MustCompile(`fh_[\w-]{43}`)
	hidden    = regexp.MustCompile(`fh_[\w-]{43}|^[\w-]{75}$|^gateway_[0-9a-f-]{36}$`)
)

var moment = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// same tells where an answer is not as told: other ids and moments may stand for
// those of the file, each always for the same; a timeline may have other stages
// and a context other words.
func (c *cast) same(told, real any, at string) error {
	switch told := told.(type) {
	case map[string]any:
		real, ok := real.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(real))) {
			return fmt.Errorf("%s: told %v, real %v", at, told, real)
		}
		for key := range told {
			if key == "timeline" || key == "context" {
				continue
			}
			if err := c.same(told[key], real[key], at+"."+key); err != nil {
				return err
			}
		}
		return nil
	case []any:
		real, ok := real.([]any)
		if !ok || len(told) != len(real) {
			return fmt.Errorf("%s: told %v, real %v", at, told, real)
		}
		for i := range told {
			if err := c.same(told[i], real[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	case string:
		text, _ := real.(string)
		bound := c.real[told] != "" || c.told[text] != ""
		if !bound && (uuid.Validate(told) == nil && uuid.Validate(text) == nil || hostToken.FindString(told) == told && hostToken.FindString(text) == text) {
			c.bind(told, text)
		}
		if c.as(told) == text || hidden.ReplaceAllString(told, "") == hidden.ReplaceAllString(text, "") || moment.MatchString(told) && moment.MatchString(text) {
			return nil
		}
	}
	if told != real {
		return fmt.Errorf("%s: told %v, real %v", at, told, real)
	}
	return nil
}

// tell gives an answer with the ids and moments of the file.
func (c *cast) tell(v any) any {
	switch v := v.(type) {
	case string:
		if moment.MatchString(v) {
			return "2026-01-02T12:00:00.000Z"
		}
		if told, ok := c.told[v]; ok {
			return told
		}
		if hostToken.MatchString(v) {
			return hostToken.ReplaceAllStringFunc(v, c.tellToken)
		}
		if uuid.Validate(v) == nil && c.real[v] == "" {
			c.made++
			told := fmt.Sprintf("0198c0de-0000-7000-8000-%012d", 900+c.made)
			c.bind(told, v)
			return told
		}
	case []any:
		for i := range v {
			v[i] = c.tell(v[i])
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = c.tell(v[k])
		}
	}
	return v
}

// tellToken gives the token of the file for one of a run.
func (c *cast) tellToken(real string) string {
	if c.told[real] == "" {
		c.tokens++
		c.bind(fmt.Sprintf("fh_%043d", c.tokens), real)
	}
	return c.told[real]
}

// TestAPI_ExamplesAreSpoken says the examples of the description to a server over
// a real store, one after the other, and compares what it answers. With -update
// the file is written anew.
func TestAPI_ExamplesAreSpoken(t *testing.T) {
	t.Parallel()
	p := newProgram(t, options{public: "https://chat.example.com", limits: chat.Limits{OrgConcurrentTurns: 1}})
	admin := p.b.program(t, adminEmail, gateway.ScopeAdmin)
	raw, err := os.ReadFile(examplesFile)
	if err != nil {
		t.Fatal(err)
	}
	var list []exampleCall
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	c := &cast{real: map[string]string{}, told: map[string]string{}}
	spoken := map[string]bool{}
	for i := range list {
		if _, path := p.doc.named(list[i].Operation); strings.HasPrefix(path, "/hosts") {
			admin.speak(t, c, &list[i])
		} else {
			p.speak(t, c, &list[i])
		}
		spoken[list[i].Operation] = true
		p.b.move(t)
	}
	for pattern, item := range p.doc.Paths {
		for method, op := range item {
			if !spoken[op.OperationID] && pattern != "/openapi.json" {
				t.Errorf("%s %s has no example", method, pattern)
			}
		}
	}
	if *update && !t.Failed() {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(list); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(examplesFile, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *program) speak(t *testing.T, c *cast, e *exampleCall) {
	t.Helper()
	method, path := p.doc.named(e.Operation)
	if method == "" {
		t.Errorf("%s is not described", e.Operation)
		return
	}
	for name, value := range e.Path {
		path = regexp.MustCompile(`\{`+name+`\}`).ReplaceAllLiteralString(path, c.as(value))
	}
	query := url.Values{}
	for name, value := range e.Query {
		query.Set(name, c.as(value))
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	r := p.call(method, path, c.request(e.Body))
	if r.StatusCode != e.Status {
		t.Errorf("%s (%s): %s: %s", e.Operation, e.Name, r.Status, r.body)
		return
	}
	var real any
	if r.body != "" {
		if err := json.Unmarshal([]byte(r.body), &real); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		e.Reply = c.tell(real)
		return
	}
	if err := c.same(e.Reply, real, ""); err != nil {
		t.Errorf("%s (%s): %v", e.Operation, e.Name, err)
	}
}

// named finds an operation.
func (d *document) named(id string) (method, path string) {
	for path, item := range d.Paths {
		for method, op := range item {
			if op.OperationID == id {
				return strings.ToUpper(method), path
			}
		}
	}
	return "", ""
}
