// Package admin holds the pages of admins: the overview, which is live tables of
// bindings, turns, catalog routes and hosts; the hosts and the bindings with a page for
// each of them; and the members of the org.
//
// Each row of a live table is a component of its own with a stable element id, so that the
// socket can patch it:
//
//	admin.patch {view: "turns", target: row.ElementID(),  op: "replace", html: row.View()}
//	admin.patch {view: "turns", target: RowsID("turns"),  op: "append",  html: row.View()}
//	admin.patch {view: "turns", target: row.ElementID(),  op: "remove"}
//
// Replacing a row that is not there appends it, appending one that is there
// replaces it, and rows keep their order by themselves (newest first), so a
// patch may come twice or late.
package admin

import (
	"time"

	"github.com/fairlead/fairlead/views"
)

// Names of the tables, as admin.follow and admin.patch call them.
const (
	ViewBindings = "bindings"
	ViewTurns    = "turns"
	ViewQueue    = "queue"
	ViewRoutes   = "routes"
	ViewHosts    = "hosts"
)

// RowsID is the element id of the rows of a view: the target of op "append".
func RowsID(view string) string { return view + "-rows" }

// Page is /admin.
type Page struct {
	Site       views.Site
	Name, Org  string
	SocketPath string // Base excluded
	// LogoutPath is where a form is posted to log out, Base excluded; "" leaves the
	// button out.
	LogoutPath string
	Bindings   []BindingRow
	Turns      []TurnRow
	Queue      []QueueRow
	Routes     []RouteRow
	Hosts      []HostRow
	// Limit is how many bindings, turns and messages are shown at most; 0 leaves the note
	// out.
	Limit int
}

// BindingRow is one native conversation that a host keeps for a run.
type BindingRow struct {
	BindingID string
	RunID     string
	// HostName is where it lives, ThreadID the chat thread that it serves.
	HostName string
	ThreadID string
	// Account is whose it is, as shown.
	Account string
	// VirtualThreadID is the id that the control plane knows.
	VirtualThreadID string
	// Provider, ProviderID and Model are the route it is pinned to for life.
	Provider, ProviderID, Model string
	// Turns counts its reservations, Unsettled those that have no end yet.
	Turns, Unsettled int
	// Applied tells that its host said that it has it.
	Applied bool
	// Cursor is how far the run's events are kept here.
	Cursor uint64
	// CreatedAt orders the table, newest first.
	CreatedAt, UsedAt time.Time
	// DetailPath is the address of its page, Base included.
	DetailPath string
}

// ElementID is the id of the row's element.
func (r BindingRow) ElementID() string { return "binding-" + r.BindingID }

// TurnRow is one turn.
type TurnRow struct {
	TurnID string
	// Status is the turn's on the wire; Reason, Error say why it is in it.
	Status, Reason, Error string
	ThreadID, ThreadTitle string
	Account               string
	Model                 string
	HostName              string
	// BindingID and Reservation (the native turn id) are "" until the host has
	// reserved the turn.
	BindingID, Reservation string
	// Bytes is how much of the answer is published.
	Bytes     int64
	CreatedAt time.Time
	// StartedAt and EndedAt are zero until it started and ended.
	StartedAt, EndedAt time.Time
	// DetailPath is the address of the turn's page, Base included; "" leaves the link
	// out.
	DetailPath string
}

// ElementID is the id of the row's element.
func (r TurnRow) ElementID() string { return "turn-" + r.TurnID }

// QueueRow is one message that waits in its thread, or for the answer of the host
// that it was handed to as a steer.
type QueueRow struct {
	// OriginID is the id under which its writer sent it; it stays when the message
	// is put elsewhere.
	OriginID              string
	ThreadID, ThreadTitle string
	Account               string
	// Disabled tells that the account is: the message waits until it is enabled.
	Disabled bool
	// Position counts from 1 within the thread.
	Position int
	// Steer tells that it is for the running turn; Delivery is reserved or held
	// once it was handed to the host of the turn TurnID.
	Steer            bool
	Delivery, TurnID string
	CreatedAt        time.Time
}

// ElementID is the id of the row's element.
func (r QueueRow) ElementID() string { return "queued-" + r.OriginID }

// RouteRow is one catalog entry: a model that a provider of a host serves.
type RouteRow struct {
	HostID, HostName string
	// Model is the public name; Provider is its display name; ProviderID and
	// Family are the ids on the wire (modelProviderId, provider).
	Model, Provider, ProviderID, Family string
	// Credential is the state of the provider's key: configured, local, no_auth.
	Credential string
	Ready      bool
	// Reason says why it is not ready; AvailableAt when it will be, zero if that
	// is not known.
	Reason      string
	AvailableAt time.Time
	Default     bool
	// Capabilities are words such as "images", "reasoning: low, high", "output
	// limit".
	Capabilities []string
}

// ElementID is the id of the row's element.
func (r RouteRow) ElementID() string {
	return "route-" + r.HostID + "-" + r.ProviderID + "-" + r.Model
}
