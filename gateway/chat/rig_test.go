package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/gateway/chat"
	"github.com/fairlead/fairlead/gateway/gatewaysql"
	"github.com/fairlead/fairlead/gateway/gatewaytest"
	"github.com/fairlead/fairlead/relay/wire"
)

const hostID = "host-1"

// tb is what testing.TB and rapid.T share.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Error(args ...any)
}

// rig is a chat on a real store, with a host and routes that the test moves by
// hand and a clock that stands still.
type rig struct {
	tb
	t testing.TB // of the whole test
	*chat.Service
	ctx     context.Context
	place   *gatewaytest.Place
	sql     *gatewaysql.Store
	store   gateway.ChatStore // what the service sees
	wrap    func(gateway.ChatStore) gateway.ChatStore
	bus     *gatewaytest.Bus
	routes  *gatewaytest.Routes
	host    *gatewaytest.Host
	wakes   *wakes
	limits  chat.Limits
	mu      sync.Mutex
	time    time.Time
	log     *slog.Logger
	blocks  func() chat.Splitter
	render  func(string) string
	config  func(*chat.Config) // more of what the service works with
	stopped bool
}

// under makes failures those of another test, until the returned function runs.
func (r *rig) under(t tb) (back func()) {
	was := r.tb
	r.tb = t
	return func() { r.tb = was }
}

// wakes counts the wake-ups of runs.
type wakes struct {
	mu   sync.Mutex
	runs map[string]int
}

func (w *wakes) Wake(runID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[runID]++
}

var (
	ann = gateway.Actor{AccountID: "acc-ann", OrgID: "org-1", Role: gateway.RoleAdmin}
	bob = gateway.Actor{AccountID: "acc-bob", OrgID: "org-1", Role: gateway.RoleMember}
	eve = gateway.Actor{AccountID: "acc-eve", OrgID: "org-2", Role: gateway.RoleAdmin}
)

func newRig(t testing.TB, with ...func(*rig)) *rig {
	t.Helper()
	r := &rig{
		tb: t, t: t, ctx: context.Background(),
		routes: gatewaytest.NewRoutes(hostID, "alpha", "beta"), host: gatewaytest.NewHost(hostID),
		time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		// Sweeps are called by the test; routes are final at once.
		limits: chat.Limits{SweepEvery: time.Hour, RouteGrace: time.Nanosecond},
	}
	for _, f := range with {
		f(r)
	}
	if r.place == nil {
		on(gatewaytest.Database{Name: gatewaytest.SQLite3})(r)
	}
	r.open()
	t.Cleanup(r.close)
	return r
}

// on puts the rig on an empty database of a kind.
func on(d gatewaytest.Database) func(*rig) {
	return func(r *rig) { r.place = d.New(r.t) }
}

// everywhere runs a test on each kind of database that there is.
func everywhere(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	for _, d := range gatewaytest.Databases(t, gatewaytest.SQLite3, gatewaytest.Postgres) {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, on(d)))
		})
	}
}

func (r *rig) open() {
	r.Helper()
	r.sql = r.place.Open(r.t)
	r.seed()
	r.begin()
}

// seed makes the orgs that the actors are of.
func (r *rig) seed() {
	r.Helper()
	for _, id := range []string{ann.OrgID, eve.OrgID} {
		err := r.sql.Accounts().CreateOrg(r.ctx, gateway.Org{ID: id, Name: id, CreatedAt: r.now()}, gateway.AuditEntry{ID: uuid.NewString(), At: r.now()})
		if err != nil && !errors.Is(err, gateway.ErrOrgTaken) {
			r.Fatal(err)
		}
	}
}

// begin starts a process of the chat on the open database.
func (r *rig) begin() {
	r.Helper()
	r.store = r.sql.Chat()
	if r.wrap != nil {
		r.store = r.wrap(r.store)
	}
	r.bus, r.wakes = gatewaytest.NewBus(), &wakes{runs: make(map[string]int)}
	c := chat.Config{
		Store: r.store, Routes: r.routes, Bus: r.bus, Dispatcher: r.wakes, Now: r.now, Limits: r.limits,
		NewSplitter: r.blocks, Render: r.render, Logger: r.log,
	}
	if r.config != nil {
		r.config(&c)
	}
	r.Service = chat.New(c)
	r.must(r.Start(r.ctx))
	r.tick(time.Millisecond)
	r.stopped = false
}

func (r *rig) close() {
	if r.stopped {
		return
	}
	r.stopped = true
	r.Stop()
	if err := r.sql.Close(); err != nil {
		r.Error(err)
	}
}

// restart ends the process in good order and begins another on the same file.
func (r *rig) restart() {
	r.Helper()
	r.close()
	r.open()
}

// respawn begins another process on the database as the last one left it.
func (r *rig) respawn() {
	r.Helper()
	r.Stop()
	r.begin()
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.time
}

// tick moves the clock.
func (r *rig) tick(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.time = r.time.Add(d)
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// until waits for what happens in the background.
func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	deadline := time.Now().Add(time.Minute) // for a machine that has much else to do
	for !ok() {
		if time.Now().After(deadline) {
			r.Fatalf("did not happen: %s", what)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// published gives what was published so far to a topic, or is about to be.
func (r *rig) published(topic string, types ...string) []gateway.Push {
	r.Helper()
	r.until("all is told", r.Told)
	return r.bus.Pushes(topic, types...)
}

func id() string { return uuid.NewString() }

func text(s string) gateway.UserMessage {
	return gateway.UserMessage{Version: 1, Parts: []gateway.Part{{Type: "text", Text: s}}}
}

// say sends a message of ann; threadID may be "".
func (r *rig) say(threadID, prompt string, with ...func(*gateway.SendRequest)) gateway.SendReply {
	r.Helper()
	req := gateway.SendRequest{ThreadID: threadID, ClientEventID: id(), UserMessage: text(prompt)}
	for _, f := range with {
		f(&req)
	}
	reply, err := r.Send(r.ctx, ann, req)
	r.must(err)
	return reply
}

func mode(m gateway.Mode) func(*gateway.SendRequest) {
	return func(q *gateway.SendRequest) { q.Mode = m }
}

// events gives the whole log of a thread, checked.
func (r *rig) events(threadID string) []gateway.Event {
	r.Helper()
	var all []gateway.Event
	r.must(r.sql.Chat().View(r.ctx, func(tx gateway.ChatTx) error {
		after := int64(0)
		for {
			events, more, err := tx.Events(r.ctx, gateway.EventQuery{ThreadID: threadID, After: after, Limit: 100, MaxBytes: 1 << 30})
			if err != nil {
				return err
			}
			all = append(all, events...)
			if !more {
				return nil
			}
			after = events[len(events)-1].SeqID
		}
	}))
	if err := gatewaytest.CheckLog(all); err != nil {
		r.Fatalf("log of %s: %v", threadID, err)
	}
	return all
}

// story is the log of a thread in short.
func (r *rig) story(threadID string) string {
	r.Helper()
	var b strings.Builder
	for _, e := range r.events(threadID) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		switch {
		case e.EventType == gateway.EventInputPrompt && e.TurnID != "" && e.Mode == gateway.ModeSteer:
			b.WriteString("steer:" + e.UserMessage.Parts[0].Text)
		case e.EventType == gateway.EventInputPrompt && e.Reason != "":
			b.WriteString("input:" + e.UserMessage.Parts[0].Text + "?" + e.Reason)
		case e.EventType == gateway.EventInputPrompt && e.TurnID != "":
			b.WriteString("start:" + e.UserMessage.Parts[0].Text)
		case e.EventType == gateway.EventInputPrompt:
			b.WriteString("input:" + e.UserMessage.Parts[0].Text)
		case e.Content != nil:
			b.WriteString(string(e.EventType) + ":" + *e.Content)
		case e.Error != "":
			b.WriteString(string(e.EventType) + "!" + string(e.Error))
		default:
			b.WriteString(string(e.EventType))
		}
	}
	return b.String()
}

func (r *rig) wantLog(threadID, want string) {
	r.Helper()
	if got := r.story(threadID); got != want {
		r.Fatalf("log\n got %s\nwant %s", got, want)
	}
}

// turn reads a turn of ann.
func (r *rig) turn(turnID string) gateway.Turn {
	r.Helper()
	t, err := r.Turn(r.ctx, ann, gateway.TurnRequest{TurnID: turnID})
	r.must(err)
	return t
}

// thread reads a thread of ann.
func (r *rig) thread(threadID string) gateway.Thread {
	r.Helper()
	reply, err := r.Open(r.ctx, ann, gateway.OpenRequest{ThreadID: threadID})
	r.must(err)
	return reply.Thread
}

// runOf gives the run of a turn.
func (r *rig) runOf(turnID string) string {
	r.Helper()
	rows, err := r.AdminTurns(r.ctx, ann, gateway.Page{TurnID: turnID})
	r.must(err)
	if len(rows.Rows) != 1 {
		r.Fatalf("%d rows of turn %s", len(rows.Rows), turnID)
	}
	return rows.Rows[0].RunID
}

// accept lets the host take what it was told and answer it.
func (r *rig) accept() {
	r.Helper()
	r.must(r.host.Fetch(r.ctx, r.Service))
	r.must(r.host.Answer(r.ctx, r.Service))
}

// deliver lets the host send all it has, and waits until it is durable.
func (r *rig) deliver() {
	r.Helper()
	r.must(r.host.Deliver(r.ctx, r.Service, -1))
	r.until("envelopes are durable", r.host.Settled)
}

// streaming starts a turn that has said something.
func (r *rig) streaming(prompt string, deltas ...string) (threadID, turnID string) {
	r.Helper()
	reply := r.say("", prompt)
	r.accept()
	for _, d := range deltas {
		r.host.Say(r.runOf(*reply.TurnID), d)
	}
	r.deliver()
	return reply.ThreadID, *reply.TurnID
}

// end lets the host end a turn.
func (r *rig) end(turnID string, p wire.CompletedPayload) {
	r.Helper()
	r.host.End(r.runOf(turnID), p)
	r.deliver()
}

// wantTurn waits until the turn of a message starts.
func (r *rig) wantTurn(threadID, prompt string) string {
	r.Helper()
	turnID := ""
	r.until("the turn of "+prompt+" starts", func() bool {
		for _, e := range r.events(threadID) {
			if e.EventType == gateway.EventInputPrompt && e.TurnID != "" && e.UserMessage.Parts[0].Text == prompt {
				turnID = e.TurnID
			}
		}
		return turnID != ""
	})
	return turnID
}

func wantCode(t tb, err error, code wire.Code) {
	t.Helper()
	if got := wire.CodeOf(err); got != code {
		t.Fatalf("error %v has code %q, want %q", err, got, code)
	}
}

func wantField(t tb, err error, path, rule string) {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.CodeBadRequest || len(e.Fields) != 1 || e.Fields[0] != (wire.Field{Path: path, Rule: rule}) {
		t.Fatalf("error %v is not bad_request for %s (%s)", err, path, rule)
	}
}

func asJSON(t tb, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
