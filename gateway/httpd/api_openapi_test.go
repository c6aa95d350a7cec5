package httpd_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/httpd"
	"github.com/fairlead/fairlead/relay/wire"
)

func TestOpenAPI_IsForAnybodyAndNamesThisServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{public: "https://chat.example.com/team"})
	p := b.program(t, "")
	if p.doc.raw["openapi"] != "3.1.0" {
		t.Errorf("openapi %v", p.doc.raw["openapi"])
	}
	servers, _ := p.doc.raw["servers"].([]any)
	if len(servers) != 1 || servers[0].(map[string]any)["url"] != "https://chat.example.com/team/api/v1" {
		t.Errorf("servers %v", servers)
	}
	text := p.get("/openapi.json").body
	if !strings.Contains(text, `"name":"__Secure-fairlead-team"`) {
		t.Error("the cookie is not named")
	}
}

// TestOpenAPI_DescribesTheRoutesAndNoOthers holds the document against the table
// that requests go through.
func TestOpenAPI_DescribesTheRoutesAndNoOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{})
	p := b.program(t, "")
	var routed, told []string
	for _, line := range b.httpd.Table() {
		if path, ok := strings.CutPrefix(line.Path, "/api/v1"); ok {
			routed = append(routed, line.Method+" "+path)
		}
	}
	ids := map[string]bool{}
	for path, item := range p.doc.Paths {
		for method, op := range item {
			told = append(told, strings.ToUpper(method)+" "+path)
			if ids[op.OperationID] || op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s %s: id %q, summary %q", method, path, op.OperationID, op.Summary)
			}
			ids[op.OperationID] = true
			var named []string
			for _, param := range op.Parameters {
				if param.In == "path" {
					named = append(named, "{"+param.Name+"}")
				}
			}
			if inPath := regexp.MustCompile(`\{\w+\}`).FindAllString(path, -1); !slices.Equal(named, inPath) {
				t.Errorf("%s %s: parameters %v", method, path, named)
			}
		}
	}
	slices.Sort(routed)
	slices.Sort(told)
	if !slices.Equal(routed, told) || len(told) < 20 {
		t.Errorf("routed %q\ntold   %q", routed, told)
	}
}

// TestDocs_APIOperations holds the table of docs/api.md against the description.
func TestDocs_APIOperations(t *testing.T) {
	t.Parallel()
	doc := newBench(t, options{}).program(t, "").doc
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	var real, told []string
	for path, item := range doc.Paths {
		for method := range item {
			real = append(real, strings.ToUpper(method)+" "+path)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(string(page), -1) {
		told = append(told, m[1])
	}
	slices.Sort(real)
	slices.Sort(told)
	if !slices.Equal(real, told) {
		t.Errorf("documented %q\nreal       %q", told, real)
	}
	if limit := strconv.Itoa(gateway.MaxFrameBytes); !strings.Contains(string(page), limit+" bytes") {
		t.Errorf("the page does not tell of %s bytes", limit)
	}
}

// constants gives the values of the string constants of a type in a source file.
func constants(t *testing.T, file, typeName string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasSuffix(typeString(spec.Type), typeName) || spec.Type == nil {
			return true
		}
		for _, v := range spec.Values {
			if lit, ok := v.(*ast.BasicLit); ok {
				s, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, s)
			}
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants of %s", file, typeName)
	}
	slices.Sort(values)
	return values
}

func typeString(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return "." + e.Name
	case *ast.SelectorExpr:
		return "." + e.Sel.Name
	}
	return ""
}

// walk visits every schema of the document.
func (d *document) walk(visit func(schema map[string]any)) {
	var down func(v any)
	down = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			visit(v)
			for _, part := range v {
				down(part)
			}
		case []any:
			for _, part := range v {
				down(part)
			}
		}
	}
	down(d.raw)
}

func TestOpenAPI_WordsAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	doc := newBench(t, options{}).program(t, "").doc
	enums := map[string]bool{}
	doc.walk(func(s map[string]any) {
		if list, ok := s["enum"].([]any); ok {
			var words []string
			for _, w := range list {
				if w != nil {
					words = append(words, fmt.Sprint(w))
				}
			}
			slices.Sort(words)
			enums[strings.Join(words, " ")] = true
		}
	})
	for kind, file := range map[string]string{
		"Mode": "../event.go", "Disposition": "../event.go", "TurnStatus": "../event.go", "EventType": "../event.go",
		"Visibility": "../agent.go", "Role": "../account.go", "Scope": "../account.go", "Support": "../../relay/wire/catalog.go",
	} {
		if want := strings.Join(constants(t, file, kind), " "); kind != "Mode" && !enums[want] {
			t.Errorf("no enumeration of %s: %s", kind, want)
		}
	}
	if !enums["auto interrupt queue steer"] {
		t.Error("no enumeration of Mode")
	}
}

// TestOpenAPI_ErrorCodes: whatever code a route can answer with is in the document
// under the status that HTTP gives it, and docs/protocol.md tells of it.
func TestOpenAPI_ErrorCodes(t *testing.T) {
	t.Parallel()
	doc := newBench(t, options{}).program(t, "").doc
	told := map[string]bool{}
	for path, item := range doc.Paths {
		for _, op := range item {
			for status, response := range op.Responses {
				for _, code := range codesOf(response.Content["application/json"].Schema) {
					told[code] = true
					if want := strconv.Itoa(gateway.HTTPStatus(wire.Code(code))); want != status && status != "415" {
						t.Errorf("%s: %s under %s, is %s", path, code, status, want)
					}
				}
			}
		}
	}
	reference, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, elsewhere, _ := strings.Cut(string(reference), "Defined, but of other places: ")
	elsewhere, _, _ = strings.Cut(elsewhere, "\n")
	_, table, _ := strings.Cut(string(reference), "| code | HTTP | retryable | when | cure |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, code := range constants(t, "../codes.go", "Code") {
		if !told[code] && !strings.Contains(elsewhere, "`"+code+"`") {
			t.Errorf("%s is under no route", code)
		}
	}
	for code := range told {
		if !strings.Contains(table, "| `"+code+"` |") {
			t.Errorf("docs/protocol.md does not tell of %s", code)
		}
	}
}

func codesOf(schema any) (codes []string) {
	s, _ := schema.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	e, _ := properties["error"].(map[string]any)
	for _, part := range list(e["allOf"]) {
		inner, _ := part.(map[string]any)["properties"].(map[string]any)
		code, _ := inner["code"].(map[string]any)
		for _, word := range list(code["enum"]) {
			codes = append(codes, word.(string))
		}
	}
	return codes
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// TestOpenAPI_WordsOfFieldsAreRead: each sentence about a field stands where a
// reader sees it, so that none is about a field that is gone.
func TestOpenAPI_WordsOfFieldsAreRead(t *testing.T) {
	t.Parallel()
	doc := newBench(t, options{}).program(t, "").doc
	seen := map[string]bool{}
	doc.walk(func(s map[string]any) {
		if words, ok := s["description"].(string); ok {
			seen[words] = true
		}
	})
	for field, words := range httpd.FieldWords() {
		if !seen[words] {
			t.Errorf("%s: %q stands nowhere", field, words)
		}
	}
}

// sample gives a value that a schema allows.
func (d *document) sample(schema any) any {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return d.sample(d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")])
	}
	if one := list(s["oneOf"]); one != nil {
		return d.sample(one[0])
	}
	if enum := list(s["enum"]); enum != nil {
		return enum[0]
	}
	switch kind := kindOf(s); kind {
	case "string":
		if s["format"] == "uuid" {
			return newID()
		}
		return "x"
	case "integer":
		return max(1, number(s["minimum"], 0))
	case "boolean":
		return true
	case "array":
		return []any{d.sample(s["items"])}
	default:
		o := fields{}
		properties, _ := s["properties"].(map[string]any)
		for _, key := range list(s["required"]) {
			o[key.(string)] = d.sample(properties[key.(string)])
		}
		return o
	}
}

func kindOf(s map[string]any) any {
	if kinds := list(s["type"]); kinds != nil {
		return kinds[0]
	}
	return s["type"]
}

func number(v any, otherwise float64) float64 {
	if n, ok := v.(float64); ok {
		return n
	}
	return otherwise
}

// violations are values that a schema does not allow, and the rules that they
// break.
func violations(s map[string]any) map[string]any {
	broken := map[string]any{"type": fields{"x": 1}}
	if kindOf(s) == nil || kindOf(s) == "object" {
		broken["type"] = "x"
	}
	switch {
	case s["format"] == "uuid":
		broken["uuid"] = "x"
	case list(s["enum"]) != nil:
		broken["enum"] = "no such word"
	}
	if n := number(s["maxLength"], 0); n > 0 {
		broken["max"] = strings.Repeat("x", int(n)+1)
	}
	if n := number(s["minLength"], 0); n > 0 {
		broken["min blank required"] = ""
	}
	if n := number(s["maximum"], 0); n > 0 {
		broken["max type"] = n + 1
	}
	if n := number(s["minimum"], math.Inf(-1)); !math.IsInf(n, -1) && n >= 0 {
		broken["min type"] = -1
	}
	return broken
}

// TestOpenAPI_RequestsAreRefusedAsDescribed asks the server itself: what a request
// schema allows is of good shape, and what it forbids is refused for that field.
func TestOpenAPI_RequestsAreRefusedAsDescribed(t *testing.T) {
	t.Parallel()
	b := newBench(t, options{api: func(c *httpd.APIConfig) { c.CommandsPerSecond = 1 << 20 }})
	b.people(t)
	p := b.program(t, adminEmail, gateway.ScopeChat, gateway.ScopeAdmin)
	tried := 0
	for pattern, item := range p.doc.Paths {
		for method, op := range item {
			if op.RequestBody == nil {
				continue
			}
			path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(pattern, newID())
			schema := op.RequestBody.Content["application/json"].Schema.(map[string]any)
			properties := schema["properties"].(map[string]any)
			good, _ := p.doc.sample(schema).(fields)
			say := func(change func(fields)) reply {
				body := maps.Clone(good)
				change(body)
				tried++
				return p.call(strings.ToUpper(method), path, body)
			}
			if r := say(func(fields) {}); r.Error != nil && len(r.Error.Fields) > 0 &&
				!strings.HasPrefix(r.Error.Fields[0].Path, "userMessage") && r.Error.Fields[0].Path != "publicKey" {
				t.Errorf("%s: a body of good shape: %s", op.OperationID, r.body)
			}
			expectFault(t, op.OperationID, say(func(b fields) { b["zzz"] = 1 }), "zzz", "unknown")
			for _, key := range list(schema["required"]) {
				expectFault(t, op.OperationID, say(func(b fields) { delete(b, key.(string)) }), key.(string), "required")
			}
			for key, property := range properties {
				for rules, value := range violations(property.(map[string]any)) {
					expectFault(t, op.OperationID, say(func(b fields) { b[key] = value }), key, rules)
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d requests", tried)
	}
}

func expectFault(t *testing.T, operation string, r reply, path, rules string) {
	t.Helper()
	if r.StatusCode == http.StatusBadRequest && r.Error != nil {
		for _, fault := range r.Error.Fields {
			if fault.Path == path && slices.Contains(strings.Fields(rules), fault.Rule) {
				return
			}
		}
	}
	raw, _ := json.Marshal(r.Error)
	t.Errorf("%s: %s with %s: %s %s", operation, path, rules, r.Status, raw)
}

// TestOpenAPI_ExamplesFitTheirSchemas holds the examples in the document against
// the schemas beside them.
func TestOpenAPI_ExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	doc := newBench(t, options{}).program(t, "").doc
	seen := 0
	for _, item := range doc.Paths {
		for _, op := range item {
			check := func(schema any, examples map[string]struct{ Value any }) {
				for name, e := range examples {
					seen++
					if err := doc.fits(schema, e.Value, ""); err != nil {
						t.Errorf("%s, %s: %v", op.OperationID, name, err)
					}
				}
			}
			if op.RequestBody != nil {
				media := op.RequestBody.Content["application/json"]
				check(media.Schema, media.Examples)
			}
			for _, response := range op.Responses {
				media := response.Content["application/json"]
				check(media.Schema, media.Examples)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d examples", seen)
	}
}
