package admin

import (
	"strconv"
	"time"

	"github.com/fairlead/fairlead/views"
)

// tableModel is what stands around the rows of a view.
type tableModel struct {
	View, Title, About, Empty, Note string
	Columns                         []string
	// Short leaves the filter out, Rows is how many there are.
	Short bool
	Rows  int
}

// with says how many rows there are.
func (t tableModel) with(rows int) tableModel {
	t.Rows = rows
	return t
}

func turnsTable(limit int) tableModel {
	return tableModel{
		View: ViewTurns, Title: "Turns", Note: limitNote(limit),
		About:   "Every answer, asked for, running or ended.",
		Empty:   "No turn yet. Ask something in the chat and it appears here at once.",
		Columns: []string{"State", "Turn", "Thread", "Model", "Host and reservation", "Sent", "Started", "Ended"},
	}
}

func queueTable(limit int) tableModel {
	return tableModel{
		View: ViewQueue, Title: "Waiting messages", Note: limitNote(limit),
		About:   "Messages that wait for their turn, and steers on their way into one. Turns that wait for the org stand above, as queued.",
		Empty:   "Nothing waits.",
		Columns: []string{"State", "Message", "Thread", "Place", "Sent"},
	}
}

func bindingsTable(limit int) tableModel {
	return tableModel{
		View: ViewBindings, Title: "Bindings", Note: limitNote(limit),
		About:   "Native conversations on hosts, each pinned to one route for life.",
		Empty:   "No binding yet. A thread gets one when its first turn reaches a host.",
		Columns: []string{"Binding", "Pinned route", "Thread", "Host", "Reservations", "Used"},
	}
}

func routesTable() tableModel {
	return tableModel{
		View: ViewRoutes, Title: "Catalog routes",
		About:   "Models that hosts offer; where two offer one name, the first ready one serves it.",
		Empty:   "No route. No host has published a catalog: check that one is online and has a provider.",
		Columns: []string{"State", "Model", "Provider", "Host", "Key", "Can do"},
	}
}

func hostsTable() tableModel {
	return tableModel{
		View: ViewHosts, Title: "Hosts",
		About:   "Programs that hold the provider keys and run the turns.",
		Empty:   "No host. Turns fail with no_host until one has joined: invite one on the page Hosts.",
		Columns: []string{"Host", "Running", "Routes", "Link", "Version and labels", "Last heard"},
	}
}

func hostRoutesTable() tableModel {
	return tableModel{
		View: ViewRoutes, Title: "Its routes", Short: true,
		About:   "Models that this host offers, by its last catalog.",
		Empty:   "It offers no model at the moment: it is away, or no provider of it is ready.",
		Columns: []string{"State", "Model", "Provider", "Host", "Key", "Can do"},
	}
}

func limitNote(limit int) string {
	if limit == 0 {
		return ""
	}
	return "Shows the newest " + strconv.Itoa(limit) + "."
}

// order is the key by which rows are kept in order in the browser, greatest first.
func order(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

func (r TurnRow) state() views.State { return views.TurnState(r.Status) }

// why is the reason beside the state: the error where there is one.
func (r TurnRow) why() string {
	if r.Error != "" {
		return r.Error
	}
	return r.Reason
}

func (r TurnRow) bytes() string {
	if r.Bytes == 0 {
		return ""
	}
	return strconv.FormatInt(r.Bytes, 10) + " bytes"
}

func (r QueueRow) state() views.State {
	switch {
	case r.Delivery == "held":
		return views.State{Tone: views.ToneStopped, Word: "held"}
	case r.Delivery != "":
		return views.State{Tone: views.ToneRunning, Word: "handed over"}
	case r.Disabled:
		return views.State{Tone: views.ToneStopped, Word: "account disabled"}
	case r.Steer:
		return views.State{Tone: views.ToneQueued, Word: "steer"}
	}
	return views.State{Tone: views.ToneQueued, Word: "waits"}
}

func (r RouteRow) state() views.State {
	if r.Ready {
		return views.State{Tone: views.ToneDone, Word: "ready"}
	}
	if !r.AvailableAt.IsZero() {
		return views.State{Tone: views.ToneQueued, Word: "cooling down"}
	}
	return views.State{Tone: views.ToneFailed, Word: "not ready"}
}

func (r RouteRow) credential() string {
	switch r.Credential {
	case "configured":
		return "set"
	case "local", "no_auth":
		return "not needed"
	case "":
		return "–"
	}
	return r.Credential
}
