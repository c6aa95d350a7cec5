package socket_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

// chatDouble is a chat in memory that keeps the real one's promises about order:
// events are published in the order of their commits, after them; text is
// published in the moment in which it becomes part of a turn; Open reads log and
// text one after the other and begins again if they do not belong together.
type chatDouble struct {
	bus gateway.Bus

	// during is called while Open runs: before it reads the log, between log and
	// text, and after it.
	during func(step int)
	// calls counts commands by name; block, if set, holds them up.
	calls map[string]int
	block chan struct{}
	fail  error
	panic bool

	order   sync.Mutex // held from a commit to its publication
	mu      sync.Mutex // guards the rest
	threads map[string]*threadDouble
	agents  []gateway.Agent
	turn    *gateway.Turn
}

type threadDouble struct {
	owner  string
	events []gateway.Event
	turn   *gateway.LiveTurn
	text   string
	blocks []gateway.Block
}

func newChatDouble(b gateway.Bus) *chatDouble {
	return &chatDouble{bus: b, threads: make(map[string]*threadDouble), calls: make(map[string]int)}
}

func notFound() error { return wire.NewError(wire.CodeNotFound, "There is no such thing.") }

func (d *chatDouble) called(name string) error {
	d.mu.Lock()
	d.calls[name]++
	block, fail, bad := d.block, d.fail, d.panic
	d.mu.Unlock()
	if block != nil {
		<-block
	}
	if bad {
		panic("as told")
	}
	return fail
}

func (d *chatDouble) count(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[name]
}

func (d *chatDouble) newThread(owner string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := newID()
	d.threads[id] = &threadDouble{owner: owner}
	return id
}

// append stores events and publishes them. With live the turn in progress
// becomes that one, nil for none.
func (d *chatDouble) append(threadID string, events ...gateway.Event) {
	d.commit(threadID, func(*threadDouble) {}, events...)
}

func (d *chatDouble) commit(threadID string, change func(*threadDouble), events ...gateway.Event) {
	d.order.Lock()
	defer d.order.Unlock()
	d.mu.Lock()
	th := d.threads[threadID]
	for i := range events {
		events[i].ID, events[i].ThreadID = newID(), threadID
		events[i].SeqID = int64(len(th.events)) + 1
		events[i].CreatedAt = gateway.Time{Time: noon}
		th.events = append(th.events, events[i])
	}
	change(th)
	d.mu.Unlock()
	first, last := events[0].SeqID, events[len(events)-1].SeqID
	p := gateway.Push{Type: "thread.events", ThreadID: threadID, FirstSeq: first, LastSeq: last, Raw: eventsRaw(threadID, events)}
	html := append([]gateway.Event(nil), events...)
	for i := range html {
		if html[i].Content != nil {
			html[i].HTML = "<p>" + *html[i].Content + "</p>"
			p.RawHTML = eventsRaw(threadID, html)
		}
	}
	d.bus.Publish(gateway.ThreadTopic(threadID), p)
}

func eventsRaw(threadID string, events []gateway.Event) json.RawMessage {
	return mustJSON(fields{
		"type": "thread.events", "threadId": threadID, "events": events, "latestSeq": events[len(events)-1].SeqID,
	})
}

// start begins a turn.
func (d *chatDouble) start(threadID string) string {
	turnID := newID()
	d.commit(threadID, func(th *threadDouble) {
		th.turn, th.text, th.blocks = &gateway.LiveTurn{TurnID: turnID, Status: gateway.TurnRunning}, "", nil
	}, gateway.Event{EventType: gateway.EventInputPrompt, TurnID: turnID})
	d.bus.Publish(gateway.ThreadTopic(threadID), gateway.Push{
		Type: "turn.state", ThreadID: threadID, TurnID: turnID,
		Raw: mustJSON(fields{"type": "turn.state", "threadId": threadID, "turnId": turnID, "status": "running"}),
	})
	return turnID
}

// delta adds text to the turn in progress; every full stop ends a block.
func (d *chatDouble) delta(threadID, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	th := d.threads[threadID]
	if th.turn == nil {
		return
	}
	offset := int64(len(th.text))
	th.text += text
	next := int64(len(th.text))
	topic, turnID := gateway.ThreadTopic(threadID), th.turn.TurnID
	d.bus.Publish(topic, gateway.Push{
		Type: "turn.delta", ThreadID: threadID, TurnID: turnID, Offset: offset, Next: next, Text: text,
		Raw: mustJSON(fields{
			"type": "turn.delta", "threadId": threadID, "turnId": turnID, "offset": offset, "next": next, "text": text,
		}),
	})
	if strings.HasSuffix(text, ".") {
		b := gateway.Block{To: next, HTML: "<p>block</p>"}
		if n := len(th.blocks); n > 0 {
			b.From = th.blocks[n-1].To
		}
		th.blocks = append(th.blocks, b)
		d.bus.Publish(topic, gateway.Push{
			Type: "turn.block", ThreadID: threadID, TurnID: turnID, Offset: b.From, Next: b.To,
			RawHTML: mustJSON(fields{
				"type": "turn.block", "threadId": threadID, "turnId": turnID, "from": b.From, "to": b.To, "html": b.HTML,
			}),
		})
	}
}

// finish ends the turn in progress and keeps its text.
func (d *chatDouble) finish(threadID string) {
	d.mu.Lock()
	th := d.threads[threadID]
	turn, text := th.turn, th.text
	d.mu.Unlock()
	if turn == nil {
		return
	}
	d.commit(threadID, func(th *threadDouble) { th.turn = nil },
		gateway.Event{EventType: gateway.EventOutputMessage, TurnID: turn.TurnID, Content: &text},
		gateway.Event{EventType: gateway.EventTurnCompleted, TurnID: turn.TurnID})
}

// delete removes a thread.
func (d *chatDouble) delete(owner, threadID string, seq int64) {
	d.mu.Lock()
	delete(d.threads, threadID)
	d.mu.Unlock()
	d.feed(owner, gateway.FeedEvent{SeqID: seq, Kind: gateway.FeedDeleted, ThreadID: threadID})
}

func (d *chatDouble) feed(owner string, e gateway.FeedEvent) {
	e.CreatedAt = gateway.Time{Time: noon}
	d.bus.Publish(gateway.AccountTopic(owner), gateway.Push{
		Type: "threads.events", ThreadID: e.ThreadID, FirstSeq: e.SeqID, LastSeq: e.SeqID,
		Raw: mustJSON(struct {
			Type   string              `json:"type"`
			Events []gateway.FeedEvent `json:"events"`
		}{"threads.events", []gateway.FeedEvent{e}}),
	})
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func (d *chatDouble) step(n int) {
	if d.during != nil {
		d.during(n)
	}
}

func (d *chatDouble) Open(_ context.Context, actor gateway.Actor, req gateway.OpenRequest) (gateway.OpenReply, error) {
	if err := d.called("open"); err != nil {
		return gateway.OpenReply{}, err
	}
	defer d.step(2)
	for try := 0; ; try++ {
		if try == 0 {
			d.step(0)
		}
		reply, err := d.log(actor, req)
		if err != nil {
			return gateway.OpenReply{}, err
		}
		if try == 0 {
			d.step(1)
		}
		if reply.Thread.Turn == nil || req.Before > 0 || req.SinceSeq != nil && reply.More {
			return reply, nil
		}
		if d.live(&reply, req) {
			return reply, nil
		}
	}
}

func (d *chatDouble) log(actor gateway.Actor, req gateway.OpenRequest) (gateway.OpenReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	th := d.threads[req.ThreadID]
	if th == nil || th.owner != actor.AccountID {
		return gateway.OpenReply{}, notFound()
	}
	reply := gateway.OpenReply{
		Thread: gateway.Thread{
			ID: req.ThreadID, CreatedAt: gateway.Time{Time: noon}, UpdatedAt: gateway.Time{Time: noon}, LatestSeq: int64(len(th.events)),
		},
		LatestSeq: int64(len(th.events)),
	}
	if th.turn != nil {
		reply.Thread.Turn = &gateway.TurnRef{TurnID: th.turn.TurnID, Status: th.turn.Status}
	}
	from, to := 0, len(th.events)
	switch window := max(req.Window, 1); {
	case req.SinceSeq != nil:
		from = min(int(*req.SinceSeq), to)
		to = min(to, from+20)
		reply.More = to < len(th.events)
	case req.Before > 0:
		to = min(to, int(req.Before)-1)
		from = max(0, to-window)
		reply.More = from > 0
	default:
		from = max(0, to-window)
		reply.More = from > 0
	}
	reply.Events = append(reply.Events, th.events[from:to]...)
	return reply, nil
}

// live adds the turn of the snapshot; false if it ended since.
func (d *chatDouble) live(reply *gateway.OpenReply, req gateway.OpenRequest) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	th := d.threads[req.ThreadID]
	if th == nil || th.turn == nil || th.turn.TurnID != reply.Thread.Turn.TurnID {
		return false
	}
	turn := *th.turn
	if req.Turn != nil && req.Turn.TurnID == turn.TurnID {
		turn.Offset = req.Turn.Offset
	}
	if turn.Offset > int64(len(th.text)) {
		turn.Offset, turn.Resync = 0, true
	}
	const most = 12 // bytes in the reply; the rest follows
	end := min(int64(len(th.text)), turn.Offset+most)
	for end < int64(len(th.text)) && !utf8.RuneStart(th.text[end]) {
		end--
	}
	turn.Next, turn.Text = end, th.text[turn.Offset:end]
	reply.ThenNext = int64(len(th.text))
	if reply.ThenNext > end {
		rest := th.text[end:]
		reply.Then = append(reply.Then, gateway.Push{
			Type: "turn.delta", ThreadID: req.ThreadID, TurnID: turn.TurnID, Offset: end, Next: reply.ThenNext, Text: rest,
			Raw: mustJSON(fields{
				"type": "turn.delta", "threadId": req.ThreadID, "turnId": turn.TurnID, "offset": end, "next": reply.ThenNext, "text": rest,
			}),
		})
	}
	if req.HTML {
		turn.Blocks = th.blocks
		if n := len(th.blocks); n > 0 {
			reply.BlocksTo = th.blocks[n-1].To
		}
	}
	reply.Turn = &turn
	return true
}

func (d *chatDouble) Send(_ context.Context, actor gateway.Actor, req gateway.SendRequest) (gateway.SendReply, error) {
	if err := d.called("send"); err != nil {
		return gateway.SendReply{}, err
	}
	if req.ThreadID == "" {
		req.ThreadID = d.newThread(actor.AccountID)
	}
	if d.threads[req.ThreadID] == nil {
		return gateway.SendReply{}, notFound()
	}
	d.append(req.ThreadID, gateway.Event{EventType: gateway.EventInputPrompt, UserMessage: &req.UserMessage})
	return gateway.SendReply{ThreadID: req.ThreadID, EventID: req.ClientEventID, Disposition: gateway.DispositionQueued}, nil
}

func (d *chatDouble) Recall(_ context.Context, _ gateway.Actor, req gateway.RecallRequest) (gateway.SendReply, error) {
	return gateway.SendReply{ThreadID: req.ThreadID, Disposition: gateway.DispositionRecalled}, d.called("recall")
}

func (d *chatDouble) Steer(_ context.Context, _ gateway.Actor, req gateway.SteerRequest) (gateway.SendReply, error) {
	return gateway.SendReply{ThreadID: req.ThreadID, EventID: req.EventID, Disposition: gateway.DispositionSteering}, d.called("steer")
}

func (d *chatDouble) Interrupt(_ context.Context, _ gateway.Actor, req gateway.InterruptRequest) (gateway.SendReply, error) {
	return gateway.SendReply{ThreadID: req.ThreadID, TurnID: &req.TurnID, Disposition: gateway.DispositionInterrupted}, d.called("interrupt")
}

func (d *chatDouble) CreateThread(_ context.Context, actor gateway.Actor, req gateway.CreateThreadRequest) (gateway.CreateThreadReply, error) {
	if err := d.called("create"); err != nil {
		return gateway.CreateThreadReply{}, err
	}
	if req.ClientThreadID == "" {
		req.ClientThreadID = newID()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.threads[req.ClientThreadID] = &threadDouble{owner: actor.AccountID}
	return gateway.CreateThreadReply{ThreadID: req.ClientThreadID}, nil
}

func (d *chatDouble) RenameThread(context.Context, gateway.Actor, gateway.RenameThreadRequest) error {
	return d.called("rename")
}

func (d *chatDouble) DeleteThread(context.Context, gateway.Actor, gateway.DeleteThreadRequest) error {
	return d.called("delete")
}

func (d *chatDouble) MarkRead(context.Context, gateway.Actor, gateway.MarkReadRequest) error {
	return d.called("read")
}

func (d *chatDouble) SetModel(context.Context, gateway.Actor, gateway.SetModelRequest) error {
	return d.called("model")
}

func (d *chatDouble) List(_ context.Context, actor gateway.Actor, _ gateway.ListRequest) (gateway.ListReply, error) {
	if err := d.called("list"); err != nil {
		return gateway.ListReply{}, err
	}
	return gateway.ListReply{}, nil
}

func (d *chatDouble) Follow(_ context.Context, _ gateway.Actor, req gateway.FollowRequest) (gateway.FollowReply, error) {
	if err := d.called("follow"); err != nil {
		return gateway.FollowReply{}, err
	}
	defer d.step(2)
	d.step(0)
	reply := gateway.FollowReply{LatestSeq: 10}
	if req.SinceSeq != nil && *req.SinceSeq < 5 {
		reply.More = true
	}
	return reply, nil
}

func (d *chatDouble) Turn(_ context.Context, _ gateway.Actor, req gateway.TurnRequest) (gateway.Turn, error) {
	if err := d.called("turn"); err != nil {
		return gateway.Turn{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turn != nil {
		return *d.turn, nil
	}
	return gateway.Turn{TurnID: req.TurnID, ThreadID: "t", Status: gateway.TurnCompleted, Model: "demo", Route: "demo", CreatedAt: gateway.Time{Time: noon}}, nil
}

// tell sets the one turn that there is.
func (d *chatDouble) tell(t gateway.Turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn = &t
}

// agent is the one assistant of the double.
func agent(id string) gateway.AgentReply {
	at := gateway.Time{Time: noon}
	return gateway.AgentReply{Agent: gateway.Agent{
		ID: id, DisplayName: "Tutor", Description: "Explains", Instructions: "Be brief.", Model: "demo",
		Visibility: gateway.VisibilityPrivate, Mine: true, CreatedAt: at, UpdatedAt: at,
	}}
}

func (d *chatDouble) Agents(context.Context, gateway.Actor) (gateway.AgentsReply, error) {
	err := d.called("agents")
	d.mu.Lock()
	defer d.mu.Unlock()
	return gateway.AgentsReply{Agents: d.agents}, err
}

// offer sets the assistants that there are.
func (d *chatDouble) offer(agents []gateway.Agent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.agents = agents
}

func (d *chatDouble) Agent(_ context.Context, _ gateway.Actor, req gateway.AgentRequest) (gateway.AgentReply, error) {
	return agent(req.AgentID), d.called("agent")
}

func (d *chatDouble) CreateAgent(context.Context, gateway.Actor, gateway.CreateAgentRequest) (gateway.AgentReply, error) {
	return agent(goldenTurn), d.called("createAgent")
}

func (d *chatDouble) UpdateAgent(_ context.Context, _ gateway.Actor, req gateway.UpdateAgentRequest) (gateway.AgentReply, error) {
	return agent(req.AgentID), d.called("updateAgent")
}

func (d *chatDouble) DeleteAgent(context.Context, gateway.Actor, gateway.AgentRequest) error {
	return d.called("deleteAgent")
}

// tick is a small wait that a test needs to tell two moments apart.
func tick() { time.Sleep(time.Millisecond) }

// expand makes a text of many deltas.
func expand(n int) []string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf("part %d 你🌍 ", i)
	}
	return parts
}
