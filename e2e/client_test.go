package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

const replyLimit = 20 * time.Second

var errRefused = errors.New("refused")

// event is one entry of a thread's log as a client reads it.
type event struct {
	ID               string  `json:"id"`
	SeqID            int64   `json:"seqId"`
	EventType        string  `json:"eventType"`
	Content          *string `json:"content"`
	TurnID           string  `json:"turnId"`
	RevokesEventID   string  `json:"revokesEventId"`
	InterruptsTurnID string  `json:"interruptsTurnId"`
	From             int64   `json:"from"`
	To               int64   `json:"to"`
	Error            string  `json:"error"`
	Finish           string  `json:"finish"`
	Reason           string  `json:"reason"`
}

// frame is any message of the server.
type frame struct {
	Re          string          `json:"re"`
	OK          bool            `json:"ok"`
	Error       json.RawMessage `json:"error"`
	Type        string          `json:"type"`
	ThreadID    string          `json:"threadId"`
	EventID     string          `json:"eventId"`
	TurnID      *string         `json:"turnId"`
	Status      string          `json:"status"`
	Disposition string          `json:"disposition"`
	Replayed    bool            `json:"replayed"`
	Events      []event         `json:"events"`
	LatestSeq   int64           `json:"latestSeq"`
	More        bool            `json:"more"`
	Offset      int64           `json:"offset"`
	Next        int64           `json:"next"`
	Text        string          `json:"text"`
	Turn        json.RawMessage `json:"turn"`
	raw         string
}

type liveTurn struct {
	TurnID string `json:"turnId"`
	Status string `json:"status"`
	Offset int64  `json:"offset"`
	Next   int64  `json:"next"`
	Text   string `json:"text"`
	Resync bool   `json:"resync"`
}

// client is one socket. Pushes are given to onPush in order while a call waits
// or next is called; there is no goroutine.
type client struct {
	conn   *websocket.Conn
	nextID int
	onPush func(frame)
}

func dial(ctx context.Context, url, token string) (*client, error) {
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	conn, res, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1)+"/ws", &websocket.DialOptions{
		Subprotocols: []string{"fairlead.client.v1"},
		HTTPHeader:   http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		if res != nil && res.Body != nil {
			_ = res.Body.Close()
		}
		return nil, err
	}
	conn.SetReadLimit(8 << 20)
	return &client{conn: conn, onPush: func(frame) {}}, nil
}

func (c *client) close() { _ = c.conn.CloseNow() }

// call sends a command and waits for its reply.
func (c *client) call(ctx context.Context, command map[string]any) (frame, error) {
	c.nextID++
	id := strconv.Itoa(c.nextID)
	command["id"] = id
	raw, err := json.Marshal(command)
	if err != nil {
		return frame{}, err
	}
	if err := c.conn.Write(ctx, websocket.MessageText, raw); err != nil {
		return frame{}, err
	}
	for {
		f, err := c.next(ctx)
		if err != nil {
			return frame{}, err
		}
		if f.Re != id {
			continue
		}
		if !f.OK {
			return f, fmt.Errorf("%v: %w: %s", command["type"], errRefused, f.raw)
		}
		return f, nil
	}
}

// next reads one message and hands pushes on.
func (c *client) next(ctx context.Context) (frame, error) { return c.nextWithin(ctx, replyLimit) }

func (c *client) nextWithin(ctx context.Context, limit time.Duration) (frame, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, raw, err := c.conn.Read(ctx)
	if err != nil {
		return frame{}, err
	}
	var f frame
	if err := json.Unmarshal(raw, &f); err != nil {
		return frame{}, fmt.Errorf("frame %q: %w", raw, err)
	}
	f.raw = string(raw)
	if f.Re == "" && f.Type != "" {
		c.onPush(f)
	}
	return f, nil
}

func (c *client) send(ctx context.Context, threadID, clientThreadID, clientEventID, text, model string) (frame, error) {
	command := map[string]any{
		"type": "message.send", "clientEventId": clientEventID,
		"userMessage": map[string]any{"version": 1, "parts": []any{map[string]any{"type": "text", "text": text}}},
	}
	if model != "" {
		command["model"] = model
	}
	if threadID != "" {
		command["threadId"] = threadID
	} else {
		command["clientThreadId"] = clientThreadID
	}
	return c.call(ctx, command)
}

// view is what a reader of one thread holds: the log by sequence number and the
// text of the turn that runs. It fails on any gap or overlap.
type view struct {
	threadID string
	events   []event
	lastSeq  int64
	turnID   string
	offset   int64 // known end of the running turn's text
	text     strings.Builder
	fault    error
}

func (v *view) apply(f frame) {
	if f.ThreadID != v.threadID {
		return
	}
	switch f.Type {
	case "thread.events":
		v.add(f.Events)
	case "turn.delta":
		v.delta(*f.TurnID, f.Offset, f.Next, f.Text)
	}
}

func (v *view) add(events []event) {
	for _, e := range events {
		if e.SeqID <= v.lastSeq {
			v.fail("event %d came again after %d", e.SeqID, v.lastSeq)
			continue
		}
		v.lastSeq = e.SeqID
		v.events = append(v.events, e)
	}
}

func (v *view) delta(turnID string, offset, next int64, text string) {
	if v.turnID != turnID {
		v.turnID, v.offset = turnID, 0
		v.text.Reset()
	}
	if offset != v.offset || next != offset+int64(len(text)) {
		v.fail("delta [%d,%d) of %d bytes does not continue %d", offset, next, len(text), v.offset)
		return
	}
	v.offset = next
	v.text.WriteString(text)
}

func (v *view) fail(format string, args ...any) {
	if v.fault == nil {
		v.fault = fmt.Errorf(format, args...)
	}
}

// open subscribes where the view stands, as a client does after a reconnect.
func (v *view) open(ctx context.Context, c *client) error {
	c.onPush = v.apply
	command := map[string]any{"type": "thread.open", "threadId": v.threadID, "sinceSeq": v.lastSeq}
	if v.turnID != "" {
		command["turn"] = map[string]any{"turnId": v.turnID, "offset": v.offset}
	}
	for {
		f, err := c.call(ctx, command)
		if err != nil {
			return err
		}
		v.add(f.Events)
		if !f.More {
			return v.resume(f)
		}
		delete(command, "id")
		command["sinceSeq"] = v.lastSeq
	}
}

func (v *view) resume(f frame) error {
	if len(f.Turn) == 0 {
		return v.fault
	}
	var t liveTurn
	if err := json.Unmarshal(f.Turn, &t); err != nil {
		return err
	}
	if t.TurnID != v.turnID || t.Resync {
		v.turnID, v.offset = t.TurnID, 0
		v.text.Reset()
	}
	if t.Text != "" {
		v.delta(t.TurnID, t.Offset, t.Next, t.Text)
	}
	return v.fault
}

// terminal gives the turn's terminal event, nil while it runs.
func (v *view) terminal(turnID string) *event {
	for i, e := range v.events {
		switch e.EventType {
		case "turn.completed", "turn.failed", "turn.cancelled", "turn.timeout":
			if e.TurnID == turnID {
				return &v.events[i]
			}
		}
	}
	return nil
}

// answer is the text that the log holds for a turn.
func (v *view) answer(turnID string) string {
	var b strings.Builder
	for _, e := range v.events {
		if e.TurnID == turnID && (e.EventType == "output.message" || e.EventType == "output.partial") && e.Content != nil {
			b.WriteString(*e.Content)
		}
	}
	return b.String()
}

// turnOf finds the turn that an input event became.
func (v *view) turnOf(eventID string) string {
	for _, e := range v.events {
		if e.EventType == "input.prompt" && e.RevokesEventID == eventID && e.TurnID != "" {
			return e.TurnID
		}
	}
	return ""
}

// follow reads until done says so, dialling again whenever the socket ends.
func follow(ctx context.Context, in *install, token string, v *view, done func() bool) error {
	for !done() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("thread %s did not get there: %w\n%s", v.threadID, err, describe(v))
		}
		c, err := dial(ctx, in.url, token)
		if err != nil {
			continue
		}
		err = v.open(ctx, c)
		for err == nil && !done() {
			_, err = c.next(ctx)
		}
		c.close()
		if v.fault != nil {
			return fmt.Errorf("thread %s: %w", v.threadID, v.fault)
		}
		if errors.Is(err, errRefused) {
			return err
		}
	}
	return nil
}

func describe(v *view) string {
	var b strings.Builder
	for _, e := range v.events {
		fmt.Fprintf(&b, "  %d %s turn=%s revokes=%s error=%s\n", e.SeqID, e.EventType, e.TurnID, e.RevokesEventID, e.Error)
	}
	return b.String()
}

func newID() string { return uuid.NewString() }
