package socket_test

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// The tests of this file hold docs/protocol.md against the code: a table that is
// out of date fails here.

// page is the reference, cut into what the tests look at.
type page struct {
	text   string
	tables [][][]string // cells, the heading row first
}

func readPage(t *testing.T) page {
	t.Helper()
	raw, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	p := page{text: string(raw)}
	inTable := false
	for line := range strings.Lines(p.text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		if strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !inTable {
			p.tables = append(p.tables, nil)
		}
		inTable = true
		last := len(p.tables) - 1
		p.tables[last] = append(p.tables[last], cells)
	}
	return p
}

// table gives the rows of the one table with this heading row, without it.
func (p page) table(t *testing.T, heading ...string) [][]string {
	t.Helper()
	for _, rows := range p.tables {
		if slices.Equal(rows[0], heading) {
			return rows[1:]
		}
	}
	t.Fatalf("no table with the columns %q", heading)
	return nil
}

var (
	quoted  = regexp.MustCompile("`([^`]+)`")
	keyName = regexp.MustCompile(`^[a-z][A-Za-z]*\??$`)
)

// keys are the names in backticks of a cell; those in JSON beside them are not.
func keys(cell string) []string {
	var names []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		if keyName.MatchString(m[1]) && m[1] != "null" {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

// names are the names of a table's first column.
func names(rows [][]string) []string {
	var list []string
	for _, row := range rows {
		list = append(list, strings.Trim(row[0], "`"))
	}
	slices.Sort(list)
	return list
}

// keysOf lists the JSON keys of a struct, "?" behind those that may be missing: in
// a request those that are not required, in a reply those that are left out.
func keysOf(v any, request bool) []string {
	if v == nil {
		return nil
	}
	var list []string
	for f := range reflect.TypeOf(v).Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		optional := strings.Contains(options, "omitempty")
		if request {
			optional = !strings.HasPrefix(f.Tag.Get("validate"), "required")
		}
		switch {
		case name == "-":
			continue
		case optional:
			name += "?"
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func same(t *testing.T, what string, documented, real []string) {
	t.Helper()
	if !slices.Equal(documented, real) {
		t.Errorf("%s: documented %q, real %q", what, documented, real)
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
		if !ok {
			return true
		}
		name := ""
		switch kind := spec.Type.(type) {
		case *ast.Ident:
			name = kind.Name
		case *ast.SelectorExpr:
			name = kind.Sel.Name
		}
		if name == typeName {
			values = append(values, literals(spec)...)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants of %s", file, typeName)
	}
	slices.Sort(values)
	return values
}

// literals gives the strings in a piece of source.
func literals(n ast.Node) []string {
	var values []string
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				values = append(values, s)
			}
		}
		return true
	})
	return values
}

// exchange is the request and the reply of a command.
type exchange struct{ request, reply any }

type (
	noFields    struct{}
	threadNamed struct {
		ThreadID string `json:"threadId" validate:"required"`
	}
	turnAsked struct {
		TurnID      string `json:"turnId" validate:"required"`
		PartialFrom *int64 `json:"partialFrom,omitempty"`
	}
	turnTold struct {
		Turn        gateway.Turn `json:"turn"`
		PartialNext *int64       `json:"partialNext,omitempty"`
	}
	adminAsked struct {
		View   string        `json:"view" validate:"required"`
		Filter *gateway.Page `json:"filter,omitempty"`
	}
	adminTold struct {
		View string `json:"view"`
	}
)

func exchanges() map[string]exchange {
	return map[string]exchange{
		"ping": {noFields{}, struct {
			ServerTime gateway.Time `json:"serverTime"`
		}{}},
		"models.list": {noFields{}, struct {
			Models []gateway.Model `json:"models"`
		}{}},
		"threads.list":   {gateway.ListRequest{}, gateway.ListReply{}},
		"threads.follow": {gateway.FollowRequest{}, gateway.FollowReply{}},
		"thread.open":    {gateway.OpenRequest{}, gateway.OpenReply{}},
		"thread.close":   {threadNamed{}, nil},
		"thread.create":  {gateway.CreateThreadRequest{}, gateway.CreateThreadReply{}},
		"thread.rename":  {gateway.RenameThreadRequest{}, nil},
		"thread.delete":  {gateway.DeleteThreadRequest{}, nil},
		"thread.read":    {gateway.MarkReadRequest{}, nil},
		"thread.model":   {gateway.SetModelRequest{}, nil},
		"message.send":   {gateway.SendRequest{}, gateway.SendReply{}},
		"message.recall": {gateway.RecallRequest{}, gateway.SendReply{}},
		"message.steer":  {gateway.SteerRequest{}, gateway.SendReply{}},
		"turn.interrupt": {gateway.InterruptRequest{}, gateway.SendReply{}},
		"turn.get":       {turnAsked{}, turnTold{}},
		"agents.list":    {noFields{}, gateway.AgentsReply{}},
		"agent.get":      {gateway.AgentRequest{}, gateway.AgentReply{}},
		"agent.create":   {gateway.CreateAgentRequest{}, gateway.AgentReply{}},
		"agent.update":   {gateway.UpdateAgentRequest{}, gateway.AgentReply{}},
		"agent.delete":   {gateway.AgentRequest{}, nil},
		"admin.follow":   {adminAsked{}, adminTold{}},
	}
}

func commandRows(t *testing.T) map[string][]string {
	t.Helper()
	rows := make(map[string][]string)
	for _, row := range readPage(t).table(t, "command", "does", "fields", "reply") {
		rows[strings.Trim(row[0], "`")] = row
	}
	return rows
}

func TestDocs_CommandsAreThoseOfTheServer(t *testing.T) {
	t.Parallel()
	parsed, err := parser.ParseFile(token.NewFileSet(), "commands.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var real []string
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && (f.Name.Name == "table" || f.Name.Name == "agentTable") {
			real = append(real, slices.DeleteFunc(literals(f.Body), func(s string) bool { return strings.HasPrefix(s, "json:") })...)
		}
	}
	slices.Sort(real)
	rows := commandRows(t)
	same(t, "commands", slices.Sorted(maps.Keys(rows)), real)
	same(t, "commands of this test", slices.Sorted(maps.Keys(exchanges())), real)
}

func TestDocs_FieldsOfCommandsAndReplies(t *testing.T) {
	t.Parallel()
	known := exchanges()
	for name, row := range commandRows(t) {
		same(t, name, keys(row[2]), keysOf(known[name].request, true))
		if row[3] != "as `message.send`" {
			same(t, name+"'s reply", keys(row[3]), keysOf(known[name].reply, false))
		}
	}
}

func TestDocs_Shapes(t *testing.T) {
	t.Parallel()
	shapes := map[string]any{
		"event": gateway.Event{}, "thread": gateway.Thread{}, "`turn` of `thread.open`": gateway.LiveTurn{},
		"`turn` of `turn.get`": gateway.Turn{}, "entry of `usage`": gateway.UsageRow{},
		"entry of `timeline`": gateway.TurnMoment{}, "model": gateway.Model{}, "feed entry": gateway.FeedEvent{},
		"assistant": gateway.Agent{},
	}
	rows := readPage(t).table(t, "shape", "keys")
	if len(rows) != len(shapes) {
		t.Errorf("%d shapes are documented, %d known", len(rows), len(shapes))
	}
	for _, row := range rows {
		same(t, row[0], keys(row[1]), keysOf(shapes[row[0]], false))
	}
}

func TestDocs_Words(t *testing.T) {
	t.Parallel()
	p := readPage(t)
	same(t, "event types", names(p.table(t, "event type", "meaning")), constants(t, "../event.go", "EventType"))
	same(t, "dispositions", names(p.table(t, "`disposition`", "meaning")), constants(t, "../event.go", "Disposition"))
	for _, word := range slices.Concat(
		constants(t, "../event.go", "FeedKind"), constants(t, "../event.go", "TurnStatus"), constants(t, "../event.go", "Mode"),
		constants(t, "../agent.go", "Visibility"),
	) {
		if !strings.Contains(p.text, "`"+word+"`") {
			t.Errorf("%s is not told of", word)
		}
	}
	for _, row := range p.table(t, "terminal event", "when", "text that was streamed") {
		status := gateway.TurnStatus(strings.TrimPrefix(strings.Trim(row[0], "`"), "turn."))
		if !status.Final() {
			t.Errorf("%s ends no turn", row[0])
		}
	}
}

func TestDocs_ErrorCodes(t *testing.T) {
	t.Parallel()
	p := readPage(t)
	told := make(map[string]bool)
	for _, row := range p.table(t, "code", "HTTP", "retryable", "when", "cure") {
		code := wire.Code(strings.Trim(row[0], "`"))
		told[string(code)] = true
		if got := strconv.Itoa(gateway.HTTPStatus(code)); got != row[1] {
			t.Errorf("%s: documented %s, real %s", code, row[1], got)
		}
		// The route table marks its error as retryable by itself.
		if want := wire.NewError(code, "").Retryable || code == gateway.CodeRouteUnavailable; want != (row[2] == "yes") {
			t.Errorf("%s: documented as retryable: %s", code, row[2])
		}
	}
	for _, name := range names(p.table(t, "`error` of a turn", "cause", "cure")) {
		told[name] = true
	}
	_, elsewhere, _ := strings.Cut(p.text, "Defined, but of other places: ")
	elsewhere, _, _ = strings.Cut(elsewhere, "\n")
	for _, m := range quoted.FindAllStringSubmatch(elsewhere, -1) {
		told[m[1]] = true
	}
	real := slices.Concat(constants(t, "../codes.go", "Code"), constants(t, "../../relay/wire/codes.go", "Code"))
	for _, code := range real {
		if !told[code] && !strings.HasPrefix(code, "relay_") { // those are between host and gateway
			t.Errorf("%s is not told of", code)
		}
		delete(told, code)
	}
	for code := range told {
		t.Errorf("%s does not exist", code)
	}
}

func TestDocs_GoClientIsFormatted(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(readPage(t).text)
	if m == nil {
		t.Fatal("there is no client in Go")
	}
	if got, err := format.Source([]byte(m[1])); err != nil || string(got) != m[1] {
		t.Errorf("not as gofmt writes it: %v", err)
	}
}

func TestDocs_LinksLead(t *testing.T) {
	t.Parallel()
	text := readPage(t).text
	anchors := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		anchors[strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(m[1], ",", "")), " ", "-")] = true
	}
	for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
		anchor, here := strings.CutPrefix(m[1], "#")
		if here && !anchors[anchor] {
			t.Errorf("no heading for %s", m[1])
		}
		if _, err := os.Stat(filepath.Join("../../docs", m[1])); !here && err != nil {
			t.Error(fmt.Errorf("link: %w", err))
		}
	}
}
