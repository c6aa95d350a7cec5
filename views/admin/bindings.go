package admin

import (
	"net/url"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/views"
)

// Forms of the page of a binding: the field "do" of what they post.
const (
	DoTurnEnd     = "turn-end"
	DoTurnRelease = "turn-release"
)

// BindingPath is the local path of the page of a binding, Base excluded.
func BindingPath(id string) string { return BindingsPath + "/" + url.PathEscape(id) }

// Bindings is /admin/bindings.
type Bindings struct {
	Frame
	Filter   BindingFilter
	Hosts    []views.Option // all hosts, by id
	Bindings []BindingRow
	// Offset is how many newer ones were left out, Limit how many are shown at most;
	// More tells that there are older ones.
	Offset, Limit int
	More          bool
}

// BindingFilter is what narrows the list; "" does not.
type BindingFilter struct {
	Thread, Host, State string
	// ThreadError says what is wrong with Thread.
	ThreadError string
}

// fields is the filter as admin.follow takes it.
func (p Bindings) fields() map[string]any {
	f := map[string]any{"limit": p.Limit}
	if p.Offset > 0 {
		f["offset"] = p.Offset
	}
	for name, value := range map[string]string{"threadId": p.Filter.Thread, "hostId": p.Filter.Host, "binding": p.Filter.State} {
		if value != "" {
			f[name] = value
		}
	}
	return f
}

// follows is what the page follows: nothing where its filter names nothing.
func (p Bindings) follows() []follow {
	if p.Filter.ThreadError != "" {
		return []follow{}
	}
	return []follow{{View: ViewBindings, Filter: p.fields()}}
}

func (f BindingFilter) set() bool { return f.Thread != "" || f.Host != "" || f.State != "" }

// at is the address of the list from an offset on.
func (p Bindings) at(offset int) string {
	q := url.Values{}
	for name, value := range map[string]string{"thread": p.Filter.Thread, "host": p.Filter.Host, "state": p.Filter.State} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if offset > 0 {
		q.Set("offset", strconv.Itoa(offset))
	}
	if len(q) == 0 {
		return BindingsPath
	}
	return BindingsPath + "?" + q.Encode()
}

func (p Bindings) span() string {
	if len(p.Bindings) == 0 {
		return ""
	}
	return strconv.Itoa(p.Offset+1) + " to " + strconv.Itoa(p.Offset+len(p.Bindings))
}

func (p Bindings) filterFields() []views.FieldModel {
	hosts := append([]views.Option{{Value: "", Label: "Any host"}}, p.Hosts...)
	return []views.FieldModel{
		{
			Name: "thread", Label: "Thread", Type: "text", Value: p.Filter.Thread, Optional: true, Autocomplete: "off",
			Error: p.Filter.ThreadError,
		},
		{Name: "host", Label: "Host", Value: p.Filter.Host, Options: hosts, Optional: true},
		{
			Name: "state", Label: "State", Value: p.Filter.State, Optional: true,
			Options: []views.Option{
				{Value: "", Label: "Any state"},
				{Value: "open", Label: "Open: a turn is not settled"},
				{Value: "settled", Label: "Settled"},
				{Value: "unanswered", Label: "Unanswered: its host never had it"},
			},
		},
	}
}

func (p Bindings) table() tableModel {
	t := bindingsTable(0)
	t.Short = true
	if p.Filter.set() {
		t.Empty = "No binding is like this."
	}
	return t
}

// Binding is /admin/bindings/{id}.
type Binding struct {
	Frame
	Binding BindingRow
	// TargetRef and SessionID are the scope of its run.
	TargetRef, SessionID string
	// Host is where it lives; HostGone tells that nobody knows that host any more.
	Host         HostRow
	HostGone     bool
	Reservations []Reservation
	Commands     []CommandRow
	Events       []EventRow
}

// Reservation is a turn that was reserved in a binding.
type Reservation struct {
	Turn TurnRow
	// Command is the state of the prompt's command, Delivery that of a steer at the
	// host without an answer.
	Command, Delivery string
	// Recovering tells that it holds its thread closed, until RecoverBy at least;
	// Overdue that this is over.
	Recovering, Overdue bool
	RecoverBy           time.Time
}

// final tells whether the turn has ended.
func (r Reservation) final() bool { return !r.Turn.EndedAt.IsZero() }

func (r Reservation) delivery() string { return "steer " + r.Delivery }

func (r Reservation) endWarning() string {
	return "End this turn? It stops at once for its owner, and what it wrote so far stays. " +
		"Its thread takes the next message when the host has told the end, or after two minutes."
}

func (r Reservation) releaseWarning() string {
	return "Open the thread? The steer that the host never answered goes back to the queue and is asked again. " +
		"If the host took it after all, the model has seen it twice."
}

// CommandRow is one thing that the host was told.
type CommandRow struct {
	Seq       uint64
	Kind      string
	TurnID    string
	State     string
	Error     string
	CreatedAt time.Time
}

func (c CommandRow) state() views.State {
	switch c.State {
	case "acked":
		return views.State{Tone: views.ToneDone, Word: "answered"}
	case "sent":
		return views.State{Tone: views.ToneRunning, Word: c.State}
	case "failed":
		return views.State{Tone: views.ToneFailed, Word: c.State}
	case "dropped":
		return views.State{Tone: views.ToneStopped, Word: "taken back"}
	case "parked":
		return views.State{Tone: views.ToneQueued, Word: "waits for the org"}
	}
	return views.State{Tone: views.ToneQueued, Word: c.State}
}

// EventRow is an event of the thread without its content.
type EventRow struct {
	SeqID     int64
	Type      string
	TurnID    string
	Size      int64
	CreatedAt time.Time
}

func (r BindingRow) state() views.State {
	switch {
	case r.Unsettled > 0:
		return views.State{Tone: views.ToneRunning, Word: "open"}
	case !r.Applied:
		return views.State{Tone: views.ToneStopped, Word: "unanswered"}
	}
	return views.State{Tone: views.ToneDone, Word: "settled"}
}

func (r BindingRow) reservations() string {
	if r.Turns == 1 {
		return "1 turn"
	}
	return strconv.Itoa(r.Turns) + " turns"
}

func (r BindingRow) settled() string {
	if r.Unsettled > 0 {
		return strconv.Itoa(r.Unsettled) + " open"
	}
	return "all settled"
}

func (r BindingRow) cursor() string { return strconv.FormatUint(r.Cursor, 10) }
