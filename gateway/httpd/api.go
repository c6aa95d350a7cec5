package httpd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// apiBase is where the API begins below the base path.
const apiBase = "/api/v1"

// maxOpenBody is what is read of a request without a credential.
const maxOpenBody = 8 << 10

// commandTimeout is how long something that changes may take.
const commandTimeout = 30 * time.Second

// APIChat is what the API asks of the chat; *chat.Service is one. It is what
// sockets ask too: the API has no rules of its own.
type APIChat interface {
	Send(ctx context.Context, actor gateway.Actor, req gateway.SendRequest) (gateway.SendReply, error)
	Recall(ctx context.Context, actor gateway.Actor, req gateway.RecallRequest) (gateway.SendReply, error)
	Steer(ctx context.Context, actor gateway.Actor, req gateway.SteerRequest) (gateway.SendReply, error)
	Interrupt(ctx context.Context, actor gateway.Actor, req gateway.InterruptRequest) (gateway.SendReply, error)
	CancelTurn(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) (gateway.SendReply, error)
	Turn(ctx context.Context, actor gateway.Actor, req gateway.TurnRequest) (gateway.Turn, error)
	OrgQueue(ctx context.Context, actor gateway.Actor) (gateway.OrgQueueReply, error)

	CreateThread(ctx context.Context, actor gateway.Actor, req gateway.CreateThreadRequest) (gateway.CreateThreadReply, error)
	RenameThread(ctx context.Context, actor gateway.Actor, req gateway.RenameThreadRequest) error
	DeleteThread(ctx context.Context, actor gateway.Actor, req gateway.DeleteThreadRequest) error
	MarkRead(ctx context.Context, actor gateway.Actor, req gateway.MarkReadRequest) error
	SetModel(ctx context.Context, actor gateway.Actor, req gateway.SetModelRequest) error
	List(ctx context.Context, actor gateway.Actor, req gateway.ListRequest) (gateway.ListReply, error)
	Open(ctx context.Context, actor gateway.Actor, req gateway.OpenRequest) (gateway.OpenReply, error)

	Agents(ctx context.Context, actor gateway.Actor) (gateway.AgentsReply, error)
	Agent(ctx context.Context, actor gateway.Actor, req gateway.AgentRequest) (gateway.AgentReply, error)
	CreateAgent(ctx context.Context, actor gateway.Actor, req gateway.CreateAgentRequest) (gateway.AgentReply, error)
	UpdateAgent(ctx context.Context, actor gateway.Actor, req gateway.UpdateAgentRequest) (gateway.AgentReply, error)
	DeleteAgent(ctx context.Context, actor gateway.Actor, req gateway.AgentRequest) error
}

// APIModels lists what an account may use; gateway.Routes is one.
type APIModels interface {
	Models(ctx context.Context, actor gateway.Actor) ([]gateway.Model, error)
}

// APIConfig is what the HTTP JSON API works with. Chat, Models and Bus are
// required.
type APIConfig struct {
	Chat   APIChat
	Models APIModels
	Bus    gateway.Bus
	// CommandsPerSecond is how many requests one credential may make in the long
	// run, and twice that at once; InFlight how many at the same time. Zero fields
	// are 50 and 32, as on a socket.
	CommandsPerSecond, InFlight int
}

func (c *APIConfig) complete() bool { return c.Chat != nil && c.Models != nil && c.Bus != nil }

// operation is one line of the API's table: a route, and what its description
// (openapi.json) is made of.
//
// A request is one struct: its keys that stand in the path come from there, the
// others from the query of a GET or DELETE and the JSON body of any other method.
// All of it goes through the strict decoder of the socket's commands.
type operation struct {
	method, path string // below apiBase
	id           string // operationId
	summary      string
	about        string // further rules, "" for none
	status       int    // of success
	// without are keys of the request that this route does not take.
	without []string
	// who may use it beside everybody who may chat: admins alone, or anybody.
	admin, open bool
	// errors are the codes beside those that every route may answer with.
	errors []wire.Code

	request, reply reflect.Type // of structs; reply is nil for 204
	serve          func(s *Server, w http.ResponseWriter, r *http.Request, actor gateway.Actor) error
}

// nothing is the request or reply of operations that have none.
type nothing struct{}

// does gives an operation its handler and its types.
func does[Q, A any](op operation, run func(ctx context.Context, s *Server, actor gateway.Actor, q Q) (A, error)) operation {
	return answers(op, func(ctx context.Context, s *Server, _ string, actor gateway.Actor, q Q) (A, error) {
		return run(ctx, s, actor, q)
	})
}

// answers is does for an operation that asks where the request comes from.
func answers[Q, A any](op operation, run func(ctx context.Context, s *Server, address string, actor gateway.Actor, q Q) (A, error)) operation {
	op.request, op.reply = reflect.TypeFor[Q](), reflect.TypeFor[A]()
	if op.reply == reflect.TypeFor[nothing]() {
		op.reply, op.status = nil, http.StatusNoContent
	}
	if op.status == 0 {
		op.status = http.StatusOK
	}
	_ = wire.ValidateStruct(new(Q)) // the validator learns the type now
	op.serve = func(s *Server, w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
		var q Q
		if err := op.read(r, &q); err != nil {
			return err
		}
		ctx := r.Context()
		if !safeMethod(r.Method) {
			// What was received whole is carried out, also when the client hangs up.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
			defer cancel()
		}
		a, err := run(ctx, s, s.gate.ClientAddress(r), actor, q)
		switch {
		case err != nil:
			return err
		case op.reply == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			s.writeJSON(w, r, op.status, a)
		}
		return nil
	}
	return op
}

// changes is does for an operation that answers with nothing.
func changes[Q any](op operation, run func(ctx context.Context, s *Server, actor gateway.Actor, q Q) error) operation {
	return does(op, func(ctx context.Context, s *Server, actor gateway.Actor, q Q) (nothing, error) {
		return nothing{}, run(ctx, s, actor, q)
	})
}

// apiRoutes are the API's lines of the table.
func (s *Server) apiRoutes() []route {
	routes := []route{
		{"GET", apiBase + "/openapi.json", accessOpen, kindAPI, s.getOpenAPI},
	}
	for _, op := range s.operations {
		routes = append(routes, route{
			op.method, apiBase + op.path, op.access(), kindAPI,
			func(w http.ResponseWriter, r *http.Request, actor gateway.Actor) error {
				return s.serveOperation(w, r, actor, op)
			},
		})
	}
	return routes
}

func (op *operation) access() access {
	switch {
	case op.open:
		return accessOpen
	case op.admin:
		return accessAdmin
	}
	return accessChat
}

func (s *Server) serveOperation(w http.ResponseWriter, r *http.Request, actor gateway.Actor, op operation) error {
	caller := actor.CredentialID
	if op.open {
		caller = "address " + s.gate.ClientAddress(r)
		// A stranger is read no more of than such a request can be: JSON takes far more
		// memory than its text.
		r.Body = http.MaxBytesReader(w, r.Body, maxOpenBody)
		// Whatever credential a page sends along, it acts for nobody here.
		if !s.gate.origins.check(r) {
			s.auditRefusal(r)
			return originRefused()
		}
	}
	done, err := s.callers.enter(caller)
	if err != nil {
		return err
	}
	defer done()
	err = op.serve(s, w, r, actor)
	var media *mediaError
	if errors.As(err, &media) {
		s.writeErrorAs(w, r, kindAPI, http.StatusUnsupportedMediaType, wire.AsError(err))
		return nil
	}
	return err
}

// mediaError is the cause of a bad_request that HTTP has a status of its own for.
type mediaError struct{ got string }

func (e *mediaError) Error() string { return "content type " + strconv.Quote(e.got) }

// inAPI tells whether a request is for an address of the API, known or not:
// answers to programs are JSON whatever they say they accept.
func (s *Server) inAPI(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, s.site.Base+"/api")
	return ok && (rest == "" || rest[0] == '/')
}

// kindOf is how refusals look for requests that no route has been found for.
func (s *Server) kindOf(r *http.Request) kind {
	if s.inAPI(r) {
		return kindAPI
	}
	return kindPage
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

// params are the names in the path.
func (op *operation) params() []string {
	var names []string
	for _, m := range pathParam.FindAllStringSubmatch(op.path, -1) {
		names = append(names, m[1])
	}
	return names
}

// inQuery tells whether what stands not in the path stands in the query.
func (op *operation) inQuery() bool {
	return op.method == http.MethodGet || op.method == http.MethodDelete
}

// read fills a request from path, query and body.
func (op *operation) read(r *http.Request, into any) error {
	keys := make(map[string]json.RawMessage)
	var faults []wire.Field
	if !op.inQuery() {
		raw, err := readBody(r)
		if err != nil {
			return err
		}
		if len(raw) > 0 {
			if err := wire.DecodeStrict(raw, &keys); err != nil {
				return err
			}
		}
	}
	faults = append(faults, op.foreign(keys)...)
	faults = append(faults, op.readQuery(r, keys)...)
	for _, name := range op.params() {
		keys[name] = text(r.PathValue(name))
	}
	if len(faults) > 0 {
		return fieldError(faults)
	}
	whole, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	if err := wire.DecodeStrict(whole, into); err != nil {
		return err
	}
	return wire.CheckStruct(into)
}

// foreign finds the keys of a body that the route takes from elsewhere, or not at
// all.
func (op *operation) foreign(keys map[string]json.RawMessage) (faults []wire.Field) {
	for _, name := range slices.Concat(op.params(), op.without) {
		if _, there := keys[name]; there {
			faults = append(faults, wire.Field{Path: name, Rule: "unknown"})
		}
	}
	return faults
}

// readQuery takes up the query as the decoder wants it: numbers as numbers.
func (op *operation) readQuery(r *http.Request, keys map[string]json.RawMessage) (faults []wire.Field) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return []wire.Field{{Path: "", Rule: "type"}}
	}
	for name, list := range values {
		switch {
		case !op.inQuery() || len(list) > 1 || slices.Contains(op.params(), name):
			faults = append(faults, wire.Field{Path: name, Rule: "unknown"})
		case !utf8.ValidString(list[0]):
			faults = append(faults, wire.Field{Path: name, Rule: "utf8"})
		default:
			keys[name] = text(list[0])
			if n, err := strconv.ParseInt(list[0], 10, 64); err == nil && numeric(op.request, name) {
				keys[name] = strconv.AppendInt(nil, n, 10)
			}
		}
	}
	slices.SortFunc(faults, func(a, b wire.Field) int { return strings.Compare(a.Path, b.Path) })
	return faults
}

// numeric tells whether a field of a request holds an integer.
func numeric(request reflect.Type, name string) bool {
	for _, f := range reflect.VisibleFields(request) {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key == name {
			return f.Type.Kind() >= reflect.Int && f.Type.Kind() <= reflect.Uint64
		}
	}
	return false
}

func text(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a string always encodes
	return raw
}

func fieldError(faults []wire.Field) error {
	e := wire.NewError(wire.CodeBadRequest, "The field "+strconv.Quote(faults[0].Path)+" is not known here, or stands there twice.")
	if faults[0].Rule != "unknown" {
		e.Message = "The query is not well formed."
	}
	e.Fields = faults
	return e
}

// readBody reads a body whole. One that is not said to be JSON is not looked at:
// forms of other sites cannot say it.
func readBody(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, wire.WrapError(wire.CodeBadRequest, "The body broke off.", err)
	case len(raw) == 0:
		return nil, nil
	}
	got := r.Header.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(got)
	if err != nil || kind != "application/json" || !strings.EqualFold(cmp.Or(params["charset"], "utf-8"), "utf-8") {
		return nil, wire.WrapError(wire.CodeBadRequest, "The body must be JSON in UTF-8: send Content-Type: application/json.", &mediaError{got})
	}
	return raw, nil
}
