package terminal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
	"github.com/fairlead/fairlead/relay/wire"
)

const promptMark = "> "

// Talk is a conversation with a person.
type Talk struct {
	Server client.Options
	// Thread is the thread to begin with, Last, or "" for a new one.
	Thread string
	// Draft holds the model, until another is chosen, and the options of every message.
	Draft     client.Command
	Assistant string
	Screen    *Screen
	// Keys is what the terminal sends; it is closed at its end.
	Keys <-chan []byte
	// Plain: Keys are finished lines, and nothing is drawn below the text.
	Plain bool
}

// talk is a Talk at work. Owned by the goroutine of its loop.
type talk struct {
	Talk
	session *client.Session
	keys    *Keys
	editor  Editor
	begun   bool
	down    string // why there is no connection
	leave   bool   // the next Ctrl-C or Ctrl-D leaves
	halting string // the turn that is being stopped
	listed  []client.ThreadInfo
	queue   []*client.Message // as they were listed
	model   string            // that /model chose for a thread that is not there yet
	agentID string
	leaving bool // as soon as nothing runs
	fault   error
}

// Run talks until the person leaves. Errors as for Once.
func (k Talk) Run(ctx context.Context) error {
	t := &talk{Talk: k, keys: NewKeys()}
	t.session = client.NewSession(t.tells())
	l := &loop{
		session: t.session, line: client.NewLine(k.Server), keys: k.Keys,
		down: t.lost, press: t.press, settled: t.settled, stop: t.stop,
	}
	t.draw()
	err := l.run(ctx)
	t.Screen.Close()
	if t.leaving {
		return nil
	}
	return err
}

func (t *talk) tells() client.Tell {
	return client.Tell{
		Welcome: t.welcome, Opened: t.opened, Event: t.event, Retract: t.retract,
		Text: func(_ *client.Thread, _ string, _, _ int64, text string) { t.Screen.Write(Plain, text) },
		Gone: func(*client.Thread) {
			t.note("This thread does not exist, or no longer does. A new one begins with the next message.")
			t.session.New()
		},
		PutOff: func(_ string, e *wire.Error, pause time.Duration) {
			t.note(fmt.Sprintf("the server asks to wait (%s), again in %s", e.Code, pause.Round(100*time.Millisecond)))
		},
	}
}

func (t *talk) note(text string) { t.Screen.Para(Dim, "· "+Clean(text)) }

func (t *talk) welcome(a client.Account, lost bool) {
	t.down = ""
	if lost {
		t.note("The server was restored from a backup: what stands above may be missing there.")
	}
	if t.begun {
		return
	}
	t.begun = true
	t.note("You are " + Line(a.Name) + ". /help lists the commands.")
	switch t.Thread {
	case "":
		t.begin()
	case Last:
		newest(t.session, func(info *client.ThreadInfo, _ *wire.Error) {
			if info == nil {
				t.begin()
				return
			}
			t.session.Open(info.ID)
		})
	default:
		t.session.Open(t.Thread)
	}
}

// begin starts a new thread, with the assistant that was asked for.
func (t *talk) begin() {
	t.queue = nil
	t.session.New()
	t.note("A new thread begins with your next message.")
	if t.Assistant == "" || t.agentID != "" {
		return
	}
	assistant(t.session, t.Assistant, func(id string, err error) {
		t.agentID = id
		if err != nil {
			t.fault = err
		}
	})
}

func (t *talk) opened(th *client.Thread, first bool) {
	if first {
		t.note("Thread " + title(th.Info) + ", " + th.ID)
	}
}

func (t *talk) lost(err error, again time.Duration) {
	t.down = fmt.Sprintf("no connection (%s), again in %s", Line(err.Error()), again.Round(100*time.Millisecond))
}

// event shows an entry of the log.
func (t *talk) event(_ *client.Thread, e *client.Event, text string, _ bool) {
	switch {
	case e.EventType == "input.prompt" && e.TurnID != "":
		t.Screen.Fresh()
		t.Screen.Para(Bold, quote(e))
	case e.EventType == "input.prompt" && e.Reason != "":
		t.note(explain(e.Reason))
	case e.EventType == "input.rejected":
		t.Screen.Para(Warn, "! refused: "+explain(e.Error)+": "+short(e.UserMessage.String(), 60))
	case e.EventType == "output.error":
		t.Screen.Para(Warn, "! "+e.Body())
	case e.EventType == "turn.queued":
		t.note(e.Body())
	case e.Ends():
		t.Screen.Fresh()
		if said := ending(e); said != "" {
			t.Screen.Para(Warn, "! "+said)
		}
	default:
		t.Screen.Write(Plain, text)
	}
}

// quote is a person's message as it stands in the text.
func quote(e *client.Event) string {
	mark := promptMark
	if e.Mode == "steer" {
		mark = "» "
	}
	return mark + strings.ReplaceAll(Clean(e.UserMessage.String()), "\n", "\n  ")
}

func (t *talk) retract(*client.Thread, string) {
	t.Screen.Para(Warn, "! the text above does not stand")
}

// settled draws what stands below the text anew.
func (t *talk) settled() error {
	if t.fault != nil {
		return t.fault
	}
	if th := t.session.Thread(); t.leaving && (th == nil || th.Active() == nil) {
		return errLeave
	}
	t.draw()
	return nil
}

func (t *talk) draw() {
	if t.Plain {
		return
	}
	t.Screen.Status(t.status())
	text, cursor := t.editor.Text()
	t.Screen.Prompt(promptMark, text, cursor)
}

// status says in a line what is going on.
func (t *talk) status() string {
	var parts []string
	add := func(s string) { parts = append(parts, s) }
	switch {
	case t.down != "":
		add(t.down)
	case !t.session.Live():
		add("connecting")
	}
	if th := t.session.Thread(); th != nil {
		if turn := th.Active(); turn != nil {
			add(t.doing(turn))
		}
		if n := len(th.Waiting()); n > 0 {
			add(fmt.Sprintf("%d waiting (/queue)", n))
		}
	}
	if n := t.session.Unanswered(); n > 0 && t.down != "" {
		add(fmt.Sprintf("%d not sent yet", n))
	}
	if t.leave {
		add("once more leaves")
	}
	return strings.Join(parts, " · ")
}

func (t *talk) doing(turn *client.Turn) string {
	switch {
	case t.halting == turn.ID:
		return "stopping"
	case turn.Reason != "":
		return explain(turn.Reason)
	case turn.Status == "pending" || turn.Status == "queued":
		return "waiting to start"
	}
	return "answering, Ctrl-C stops"
}

// press takes what the terminal sent.
func (t *talk) press(p []byte) error {
	if p == nil {
		return errLeave
	}
	if t.Plain {
		return t.line(strings.TrimRight(string(p), "\r\n"))
	}
	for _, key := range t.keys.Feed(p) {
		if err := t.key(key); err != nil {
			return err
		}
	}
	return nil
}

func (t *talk) key(key Key) error {
	switch {
	case key.Name == KeyInterrupt:
		return t.interrupt()
	case key.Name == KeyEOF && t.editor.Empty():
		return t.away()
	case key.Name == KeyRedraw:
		t.Screen.Reset()
		return nil
	}
	t.leave = false
	line, done := t.editor.Press(key)
	if !done {
		return nil
	}
	return t.line(line)
}

// interrupt stops the running turn, else takes the typed line away; pressed once
// more it leaves.
func (t *talk) interrupt() error {
	if t.leave {
		return errLeave
	}
	t.leave = true
	if th := t.session.Thread(); th != nil && th.Active() != nil {
		t.halt()
		return nil
	}
	t.editor.Clear()
	return nil
}

// away leaves, but not silently while messages are not at the server.
func (t *talk) away() error {
	if t.session.Unanswered() == 0 || t.leave {
		return errLeave
	}
	t.leave = true
	t.note("There are messages that the server has not got.")
	return nil
}

// stop leaves. Where Ctrl-C is a signal, it stops the running turn first.
func (t *talk) stop() error {
	if th := t.session.Thread(); !t.Plain || th == nil || th.Active() == nil {
		return errLeave
	}
	t.leaving = true
	t.halt()
	return nil
}

// line takes a finished line: a command or a message.
func (t *talk) line(line string) error {
	text := strings.TrimSpace(line)
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "//"):
		line = strings.Replace(line, "//", "/", 1)
	case strings.HasPrefix(text, "/"):
		return t.command(text)
	}
	t.send(line, "", false)
	return nil
}

// send sends a message. Without a mode the account's preference says what becomes
// of it while a turn runs: by default it waits.
func (t *talk) send(text, mode string, now bool) {
	if t.session.Thread() == nil {
		t.session.New()
	}
	draft := t.Draft
	draft.UserMessage, draft.Mode, draft.Now = client.Text(text), mode, now
	draft.AgentID = t.agentID // of a thread that is there, Send takes it away
	if !t.session.Thread().Exists() && t.model != "" {
		draft.Model = t.model
	}
	t.session.Send(draft, func(_ client.Receipt, e *wire.Error) {
		if e != nil {
			t.Screen.Para(Warn, "! not sent: "+refusal(e)+": "+short(text, 60))
		}
	})
}
