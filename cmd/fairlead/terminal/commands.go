package terminal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/fairlead/fairlead/cmd/fairlead/terminal/client"
	"github.com/fairlead/fairlead/relay/wire"
)

// Help is the list of what can be typed.
const Help = `A line is a message; while an answer runs, it waits in line.
/steer TEXT     hand TEXT to the running answer; /steer N a waiting message
/now TEXT       the same, cutting what is being written; /now N
/first TEXT     stop the answer and send TEXT
/queue          list the waiting messages; /queue recall N takes one back
/stop           stop the running answer
/threads        list your threads; /open N or /open ID goes to one
/new            begin a new thread
/model [NAME]   list the models, or choose this thread's; "default" unsets
/help, /quit
//…             a message that begins with /
Alt-Enter adds a line, Up and Down go through what you typed.
Ctrl-C stops the answer, twice leaves; Ctrl-D leaves.`

// threadsListed is how many threads /threads and --list show.
const threadsListed = 50

// command runs a line that begins with a slash.
func (t *talk) command(line string) error {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/help":
		t.Screen.Para(Dim, Help)
	case "/quit", "/exit":
		return t.away()
	case "/steer":
		t.steer(rest, false)
	case "/now":
		t.steer(rest, true)
	case "/first":
		t.first(rest)
	case "/stop":
		t.halt()
	case "/queue":
		t.queued(rest)
	case "/threads":
		t.threads()
	case "/open":
		t.open(rest)
	case "/new":
		t.begin()
	case "/model":
		t.models(rest)
	default:
		t.note("There is no command " + short(name, 30) + "; /help lists them, // begins a message with a slash.")
	}
	return nil
}

// done says what a command that failed was refused for.
func (t *talk) done(_ client.Reply, e *wire.Error) {
	if e != nil {
		t.Screen.Para(Warn, "! "+refusal(e))
	}
}

func (t *talk) steer(rest string, now bool) {
	m, named := t.waiting(rest)
	switch {
	case m != nil:
		t.session.Call(client.Command{Type: "message.steer", ThreadID: t.session.Thread().ID, EventID: m.ID, Now: now}, t.done)
	case named:
		t.note("There is no such waiting message; /queue lists them.")
	case rest == "":
		t.note("Say what to hand to the answer, or the number of a waiting message.")
	default:
		t.send(rest, "steer", now)
	}
}

func (t *talk) first(rest string) {
	if rest == "" {
		t.note("Say what to send.")
		return
	}
	t.send(rest, "interrupt", false)
}

// waiting finds a waiting message by its number in the list that was shown last.
func (t *talk) waiting(number string) (m *client.Message, named bool) {
	n, err := strconv.Atoi(number)
	th := t.session.Thread()
	if err != nil || th == nil {
		return nil, false
	}
	list := t.queue
	if list == nil {
		list = th.Waiting()
	}
	if n < 1 || n > len(list) || list[n-1].Fate != client.Waiting {
		return nil, true
	}
	return list[n-1], true
}

func (t *talk) halt() {
	th := t.session.Thread()
	if th == nil || th.Active() == nil {
		t.note("Nothing runs.")
		return
	}
	t.halting = th.Active().ID
	t.session.Call(client.Command{
		Type: "turn.interrupt", ThreadID: th.ID, TurnID: t.halting, ClientEventID: uuid.NewString(),
	}, t.done)
}

func (t *talk) queued(rest string) {
	th := t.session.Thread()
	if th == nil {
		return
	}
	if rest == "" {
		t.listQueue(th)
		return
	}
	verb, number, _ := strings.Cut(rest, " ")
	m, _ := t.waiting(strings.TrimSpace(number))
	if verb != "recall" || m == nil {
		t.note("Say /queue recall N, with a number of the list.")
		return
	}
	t.session.Call(client.Command{
		Type: "message.recall", ThreadID: th.ID, RevokesEventID: m.ID, ClientEventID: uuid.NewString(),
	}, func(r client.Reply, e *wire.Error) {
		if t.done(r, e); e == nil {
			t.note("taken back: " + short(m.Text, 60))
		}
	})
}

func (t *talk) listQueue(th *client.Thread) {
	t.queue = th.Waiting()
	if len(t.queue) == 0 {
		t.note("Nothing waits.")
		return
	}
	var b strings.Builder
	for i, m := range t.queue {
		mode := ""
		if m.Mode == "steer" {
			mode = "(steer) "
		}
		fmt.Fprintf(&b, "%3d  %s%s\n", i+1, mode, short(m.Text, t.Screen.columns()-16))
	}
	t.Screen.Para(Plain, b.String())
}

func (t *talk) threads() {
	t.session.Call(client.Command{Type: "threads.list", Limit: threadsListed}, func(r client.Reply, e *wire.Error) {
		if t.done(r, e); e != nil {
			return
		}
		var list struct {
			Threads []client.ThreadInfo `json:"threads"`
		}
		r.Into(&list)
		t.listed = list.Threads
		if len(t.listed) == 0 {
			t.note("There are no threads yet.")
			return
		}
		t.Screen.Para(Plain, threadList(t.listed, t.Screen.columns()))
	})
}

// threadList is a list of threads with their numbers.
func threadList(list []client.ThreadInfo, columns int) string {
	var b strings.Builder
	for i, th := range list {
		state := ""
		if th.Turn != nil {
			state = "  [" + Line(th.Turn.Status) + "]"
		}
		fmt.Fprintf(&b, "%3d  %s  %s%s\n", i+1, when(th.UpdatedAt), short(title(th), max(columns-40, 20)), state)
	}
	return b.String()
}

// when is a moment of the server as people read it; what is none stays harmless.
func when(at string) string {
	day, clock, _ := strings.Cut(at, "T")
	return short(day+" "+strings.SplitN(clock+".", ".", 2)[0], 19)
}

func (t *talk) open(rest string) {
	id := rest
	if n, err := strconv.Atoi(rest); err == nil {
		if n < 1 || n > len(t.listed) {
			t.note("There is no such number; /threads lists them.")
			return
		}
		id = t.listed[n-1].ID
	}
	if uuid.Validate(id) != nil {
		t.note("Say /open N, with a number of /threads, or /open ID.")
		return
	}
	t.queue = nil
	t.session.Open(id)
}

func (t *talk) models(rest string) {
	if rest != "" {
		t.choose(rest)
		return
	}
	t.session.Call(client.Command{Type: "models.list"}, func(r client.Reply, e *wire.Error) {
		if t.done(r, e); e != nil {
			return
		}
		var list struct {
			Models []client.Model `json:"models"`
		}
		r.Into(&list)
		t.Screen.Para(Plain, modelList(list.Models))
	})
}

func modelList(models []client.Model) string {
	if len(models) == 0 {
		return "There are no models."
	}
	var b strings.Builder
	for _, m := range models {
		state := ""
		switch {
		case !m.Ready:
			state = "  (not ready: " + Line(m.Reason) + ")"
		case m.Default:
			state = "  (default)"
		}
		fmt.Fprintf(&b, "  %s  %s%s\n", Line(m.ID), Line(m.Name), state)
	}
	return b.String()
}

// choose sets the model of the thread, or of the one that the next message makes.
func (t *talk) choose(name string) {
	if name == "default" {
		name = ""
	}
	t.Draft.Model = ""
	th := t.session.Thread()
	if th == nil || !th.Exists() {
		t.model = name
		t.note("The new thread will use " + short(modelName(name), 60) + ".")
		return
	}
	t.session.Call(client.Command{Type: "thread.model", ThreadID: th.ID, Model: name}, func(r client.Reply, e *wire.Error) {
		if t.done(r, e); e == nil {
			t.note("This thread uses " + short(modelName(name), 60) + ".")
		}
	})
}

func modelName(name string) string {
	if name == "" {
		return "the default model"
	}
	return name
}
