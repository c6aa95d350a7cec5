package httpd

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// object is a JSON object of the description.
type object = map[string]any

// apiExamples are exchanges of a real session, one after the other. A test says
// them to a server and compares what it answers.
//
//go:embed api_examples.json
var apiExamples []byte

// example is one exchange.
type example struct {
	Operation string            `json:"operation"`
	Name      string            `json:"name"`
	Path      map[string]string `json:"path,omitempty"`
	Query     map[string]string `json:"query,omitempty"`
	Body      any               `json:"body,omitempty"`
	Status    int               `json:"status"`
	Reply     any               `json:"reply,omitempty"`
}

func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request, _ gateway.Actor) error {
	s.writeJSON(w, r, http.StatusOK, s.openAPI)
	return nil
}

const apiAbout = `Threads, messages and turns over plain HTTP, for programs: the same services, ids and errors as on the WebSocket (docs/protocol.md).

Send ` + "`Authorization: Bearer …`" + ` with a token that has the scope chat, or admin where an operation says so. The session cookie of a browser works as well, but then whatever changes something must come from a page of this site (Origin), as a form must.

Bodies are JSON objects in UTF-8, with Content-Type application/json. Unknown, repeated and wrongly cased keys are refused. Within v1 there may come new operations, keys, codes and words of an enumeration: ignore what you do not know.

Every answer carries X-Request-Id, which names the request in the server's log.`

// describe makes the OpenAPI document of the table.
func (s *Server) describe() (json.RawMessage, error) {
	var examples []example
	if err := json.Unmarshal(apiExamples, &examples); err != nil {
		return nil, fmt.Errorf("api_examples.json: %w", err)
	}
	d := &describer{schemas: object{}, examples: examples}
	paths := object{}
	for i := range s.operations {
		op := &s.operations[i]
		item, _ := paths[op.path].(object)
		if item == nil {
			item = object{}
			paths[op.path] = item
		}
		item[strings.ToLower(op.method)] = d.operation(op)
	}
	paths["/openapi.json"] = object{"get": openAPIOperation()}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Fairlead", "version": "v1", "description": apiAbout,
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": s.gate.public.String() + apiBase}},
		"security": []any{object{"token": []any{}}, object{"session": []any{}}},
		"paths":    paths,
		"components": object{
			"securitySchemes": object{
				"token":   object{"type": "http", "scheme": "bearer", "description": "A token with the scope chat, or admin where an operation says so."},
				"session": object{"type": "apiKey", "in": "cookie", "name": s.gate.cookie, "description": "The cookie of a browser that logged in."},
			},
			"headers": object{
				"RequestId":  object{"description": "Names the request in the server's log.", "schema": object{"type": "string", "format": "uuid"}},
				"RetryAfter": object{"description": "Seconds to wait, where the server knows.", "schema": object{"type": "integer", "minimum": 1}},
			},
			"schemas": d.schemas,
		},
	})
}

func openAPIOperation() object {
	return object{
		"operationId": "getOpenAPI", "summary": "This document", "security": []any{},
		"responses": object{"200": object{
			"description": "OK", "headers": requestIDHeader(),
			"content": object{"application/json": object{"schema": object{"type": "object"}}},
		}},
	}
}

func requestIDHeader() object {
	return object{headerID: object{"$ref": "#/components/headers/RequestId"}}
}

// describer gathers the schemas that operations refer to.
type describer struct {
	schemas  object
	examples []example
}

func (d *describer) operation(op *operation) object {
	o := object{"operationId": op.id, "summary": op.summary, "responses": d.responses(op)}
	if op.about != "" {
		o["description"] = op.about
	}
	if op.open {
		o["security"] = []any{}
	}
	request := d.object(op.request)
	properties, _ := request["properties"].(object)
	required, _ := request["required"].([]string)
	var params []any
	for _, name := range op.params() {
		params = append(params, object{"name": name, "in": "path", "required": true, "schema": properties[name]})
	}
	if op.inQuery() {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if !slices.Contains(op.params(), name) {
				params = append(params, object{"name": name, "in": "query", "required": slices.Contains(required, name), "schema": properties[name]})
			}
		}
	} else {
		o["requestBody"] = d.body(op, request)
	}
	if params != nil {
		o["parameters"] = params
	}
	return o
}

// body describes what of a request stands in the body.
func (d *describer) body(op *operation, request object) object {
	elsewhere := slices.Concat(op.params(), op.without)
	properties, required := object{}, []string{}
	all, _ := request["properties"].(object)
	for name, schema := range all {
		if !slices.Contains(elsewhere, name) {
			properties[name] = schema
		}
	}
	must, _ := request["required"].([]string)
	for _, name := range must {
		if !slices.Contains(elsewhere, name) {
			required = append(required, name)
		}
	}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	media := object{"schema": schema}
	if shown := d.shown(op, func(e example) any { return e.Body }, op.status); len(shown) > 0 {
		media["examples"] = shown
	}
	return object{"required": len(required) > 0, "content": object{"application/json": media}}
}

// shown are the examples of an operation that were answered with a status.
func (d *describer) shown(op *operation, part func(example) any, status int) object {
	shown := object{}
	for _, e := range d.examples {
		if v := part(e); e.Operation == op.id && v != nil && e.Status == status {
			shown[strings.ReplaceAll(e.Name, " ", "-")] = object{"summary": e.Name, "value": v}
		}
	}
	return shown
}

// responses are the success and, by status, the errors of an operation.
func (d *describer) responses(op *operation) object {
	success := object{"description": http.StatusText(op.status), "headers": requestIDHeader()}
	if op.reply != nil {
		media := object{"schema": d.schema(op.reply, nil)}
		if shown := d.shown(op, func(e example) any { return e.Reply }, op.status); len(shown) > 0 {
			media["examples"] = shown
		}
		success["content"] = object{"application/json": media}
	}
	all := object{strconv.Itoa(op.status): success}
	for status, codes := range errorsByStatus(op) {
		all[strconv.Itoa(status)] = d.failure(op, status, codes)
	}
	return all
}

func (d *describer) failure(op *operation, status int, codes []wire.Code) object {
	headers := requestIDHeader()
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		headers["Retry-After"] = object{"$ref": "#/components/headers/RetryAfter"}
	}
	media := object{"schema": object{
		"type": "object", "required": []string{"error"}, "additionalProperties": false,
		"properties": object{"error": object{"allOf": []any{
			d.schema(typeOf[wire.ErrorBody](), nil),
			object{"properties": object{"code": object{"enum": codes}}},
		}}},
	}}
	if shown := d.shown(op, func(e example) any { return e.Reply }, status); len(shown) > 0 {
		media["examples"] = shown
	}
	return object{"description": http.StatusText(status), "headers": headers, "content": object{"application/json": media}}
}

// errorsByStatus are the codes with which an operation may answer: its own, and
// those of every one.
func errorsByStatus(op *operation) map[int][]wire.Code {
	codes := append([]wire.Code{
		wire.CodeBadRequest, wire.CodeUnauthorized, wire.CodeForbidden, wire.CodeRateLimited, wire.CodeInternal,
		wire.CodeStorageUnavailable, wire.CodeShuttingDown,
	}, op.errors...)
	by := make(map[int][]wire.Code)
	if !op.inQuery() {
		codes = append(codes, wire.CodeFrameTooLarge)
		by[http.StatusUnsupportedMediaType] = []wire.Code{wire.CodeBadRequest}
	}
	slices.Sort(codes)
	for _, code := range slices.Compact(codes) {
		status := gateway.HTTPStatus(code)
		by[status] = append(by[status], code)
	}
	return by
}
