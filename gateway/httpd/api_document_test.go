package httpd_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// document is the description that the server gives of its API, with as much of
// JSON Schema as it uses.
type document struct {
	Paths      map[string]map[string]described
	Components struct {
		Schemas map[string]any
	}
	raw map[string]any
}

type described struct {
	OperationID string
	Summary     string
	Parameters  []struct {
		Name, In string
		Required bool
		Schema   any
	}
	RequestBody *struct {
		Required bool
		Content  map[string]struct {
			Schema   any
			Examples map[string]struct{ Value any }
		}
	}
	Responses map[string]struct {
		Headers map[string]any
		Content map[string]struct {
			Schema   any
			Examples map[string]struct{ Value any }
		}
	}
}

func readDocument(t testing.TB, text string) *document {
	t.Helper()
	d := &document{}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &d.raw); err != nil {
		t.Fatal(err)
	}
	return d
}

// find gives the operation that a request is for, nil for none.
func (d *document) find(method, path string) *described {
	path, _, _ = strings.Cut(path, "?")
	for pattern, item := range d.Paths {
		expression := "^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(pattern), "[^/]+") + "$"
		if op, ok := item[strings.ToLower(method)]; ok && regexp.MustCompile(expression).MatchString(path) {
			return &op
		}
	}
	return nil
}

// check holds an answer against the description.
func (d *document) check(t testing.TB, method, path string, r reply) {
	t.Helper()
	op := d.find(method, path)
	if op == nil {
		if r.StatusCode != http.StatusNotFound && r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %s answers %s and is not described", method, path, r.Status)
		}
		return
	}
	told, ok := op.Responses[strconv.Itoa(r.StatusCode)]
	if !ok {
		t.Errorf("%s: nothing is said of %s: %s", op.OperationID, r.Status, r.body)
		return
	}
	for name := range told.Headers {
		if r.Header.Get(name) == "" && name != "Retry-After" {
			t.Errorf("%s: %s without %s", op.OperationID, r.Status, name)
		}
	}
	media, ok := told.Content["application/json"]
	if !ok {
		if r.body != "" {
			t.Errorf("%s: %s with a body: %s", op.OperationID, r.Status, r.body)
		}
		return
	}
	var body any
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Errorf("%s: %v in %s", op.OperationID, err, r.body)
		return
	}
	if err := d.fits(media.Schema, body, ""); err != nil {
		t.Errorf("%s: %s: %v in %s", op.OperationID, r.Status, err, r.body)
	}
}

// fits tells where a value is not as a schema says. It refuses keywords that it
// does not know, and keys that the schema does not name.
func (d *document) fits(schema, v any, at string) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %v is no schema", at, schema)
	}
	for keyword, arg := range s {
		if err := d.keyword(s, keyword, arg, v, at); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) keyword(s map[string]any, keyword string, arg, v any, at string) error {
	wrong := func() error { return fmt.Errorf("%s: %v breaks %s %v", at, v, keyword, arg) }
	holds := true
	switch keyword {
	case "description", "additionalProperties", "required":
	case "$ref":
		target, known := d.Components.Schemas[strings.TrimPrefix(arg.(string), "#/components/schemas/")]
		if !known {
			return wrong()
		}
		return d.fits(target, v, at)
	case "allOf":
		for _, part := range arg.([]any) {
			if err := d.fits(part, v, at); err != nil {
				return err
			}
		}
	case "oneOf":
		holds = slices.ContainsFunc(arg.([]any), func(part any) bool { return d.fits(part, v, at) == nil })
	case "type":
		holds = d.typed(arg, v)
	case "enum":
		holds = slices.Contains(arg.([]any), v)
	case "properties":
		return d.properties(s, arg.(map[string]any), v, at)
	case "items":
		for i, item := range v.([]any) {
			if err := d.fits(arg, item, at+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
	default:
		holds = bounded(keyword, arg, v)
	}
	if !holds {
		return wrong()
	}
	return nil
}

func (d *document) properties(s, properties map[string]any, v any, at string) error {
	o, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: no object", at)
	}
	_, whole := s["type"] // a part of an allOf names some keys only
	for key, value := range o {
		schema, known := properties[key]
		if !known && whole {
			return fmt.Errorf("%s.%s is not described", at, key)
		}
		if known {
			if err := d.fits(schema, value, at+"."+key); err != nil {
				return err
			}
		}
	}
	required, _ := s["required"].([]any)
	for _, key := range required {
		if _, there := o[key.(string)]; !there {
			return fmt.Errorf("%s.%s is missing", at, key)
		}
	}
	return nil
}

func (d *document) typed(arg, v any) bool {
	if list, ok := arg.([]any); ok {
		return slices.ContainsFunc(list, func(kind any) bool { return d.typed(kind, v) })
	}
	switch arg {
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "integer":
		n, ok := v.(float64)
		return ok && n == math.Trunc(n)
	case "null":
		return v == nil
	}
	return false
}

// bounded checks the keywords of strings, numbers and arrays; null passes.
func bounded(keyword string, arg, v any) bool {
	if keyword == "format" {
		text, ok := v.(string)
		return !ok || wellFormed(arg.(string), text)
	}
	limit, ok := arg.(float64)
	if !ok {
		return false
	}
	size := 0.0
	switch value := v.(type) {
	case nil:
		return true
	case string:
		size = float64(utf8.RuneCountInString(value))
	case []any:
		size = float64(len(value))
	case float64:
		size = value
	}
	switch keyword {
	case "minimum", "minLength", "minItems":
		return size >= limit
	case "maximum", "maxLength", "maxItems":
		return size <= limit
	}
	return false
}

func wellFormed(format, text string) bool {
	var err error
	switch format {
	case "uuid":
		_, err = uuid.Parse(text)
	case "date-time":
		_, err = time.Parse("2006-01-02T15:04:05.000Z", text)
	default:
		return false
	}
	return err == nil
}
