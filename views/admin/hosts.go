package admin

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/views"
)

// Forms of the pages of hosts: the field "do" of what they post.
const (
	DoHostInvite       = "host-invite"
	DoHostInviteRevoke = "host-invite-revoke"
	DoHostRename       = "host-rename"
	DoHostLabels       = "host-labels"
	DoHostDrain        = "host-drain"
	DoHostResume       = "host-resume"
	DoHostRevoke       = "host-revoke"
)

// HostPath is the local path of the page of a host, Base excluded.
func HostPath(id string) string { return HostsPath + "/" + url.PathEscape(id) }

// Hosts is /admin/hosts.
type Hosts struct {
	Frame
	Hosts []HostRow
	// Manages tells whether the admin who looks may change hosts.
	Manages bool
	Invites []HostInviteRow
	// Command joins a host by the invitation just made, until CommandEnds; shown this
	// once.
	Command     string
	CommandEnds time.Time
}

// HostInviteRow is an invitation that can still be used.
type HostInviteRow struct {
	ID, Name string
	Labels   []string
	// By is who made it, as shown.
	By                   string
	CreatedAt, ExpiresAt time.Time
}

func (i HostInviteRow) title() string {
	if i.Name == "" {
		return "A host that names itself"
	}
	return i.Name
}

// Host is /admin/hosts/{id}.
type Host struct {
	Frame
	Host    HostRow
	Routes  []RouteRow
	Manages bool
}

// HostRow is one relay host.
type HostRow struct {
	HostID, Name string
	// TargetRef is what runs are addressed to.
	TargetRef string
	Embedded  bool
	// State is online, draining, offline, lost or revoked.
	State string
	// Draining tells that it takes no new turns, linked or not.
	Draining bool
	Version  string
	// Inflight of Max parallel provider requests are taken.
	Inflight, Max int
	// OpenRuns counts the runs that the host still owes something.
	OpenRuns     int
	Capabilities []string
	Generations  []int
	Labels       []string
	// Routes counts its catalog entries, Ready those that can be used now.
	Routes, Ready int
	// Since is when the state began, SeenAt when the host was last heard.
	Since, SeenAt time.Time
	JoinedAt      time.Time
	// JoinedBy is who invited it, as shown.
	JoinedBy string
	// ClockOffset is how far its clock is ahead, RoundTrip how long a heartbeat takes
	// there and back; where Measured.
	ClockOffset, RoundTrip time.Duration
	Measured               bool
	// Links counts its links since the gateway started, LastError is why the last one
	// ended.
	Links     int
	LastError string
	// DetailPath is the address of its page, Base included; "" leaves the link out.
	DetailPath string
}

// ElementID is the id of the row's element.
func (r HostRow) ElementID() string { return "host-" + r.HostID }

// clockLimit is beyond what a clock is said to be off.
const clockLimit = 2 * time.Second

func (r HostRow) state() views.State {
	switch r.State {
	case "online":
		return views.State{Tone: views.ToneDone, Word: r.State}
	case "draining":
		return views.State{Tone: views.ToneQueued, Word: r.State}
	case "lost":
		return views.State{Tone: views.ToneFailed, Word: r.State}
	case "revoked":
		return views.State{Tone: views.ToneRefused, Word: r.State}
	}
	return views.State{Tone: views.ToneStopped, Word: r.State}
}

// linked tells whether there is a link to measure.
func (r HostRow) linked() bool { return r.State == "online" || r.State == "draining" }

// away tells that it was told to drain and is not there: the state does not say so.
func (r HostRow) away() bool { return r.Draining && !r.linked() && r.State != "revoked" }

func (r HostRow) running() string {
	if r.Max == 0 {
		return strconv.Itoa(r.Inflight)
	}
	return strconv.Itoa(r.Inflight) + " of " + strconv.Itoa(r.Max)
}

func (r HostRow) runs() string {
	if r.OpenRuns == 1 {
		return "1 run open"
	}
	return strconv.Itoa(r.OpenRuns) + " runs open"
}

func (r HostRow) kind() string {
	if r.Embedded {
		return "built in"
	}
	return "joined"
}

func (r HostRow) routes() string {
	if r.Routes == 0 {
		return "none"
	}
	return strconv.Itoa(r.Ready) + " of " + strconv.Itoa(r.Routes) + " ready"
}

func (r HostRow) trip() string {
	if !r.Measured || !r.linked() {
		return "–"
	}
	return spell(r.RoundTrip)
}

func (r HostRow) clockOff() bool {
	return r.Measured && r.linked() && r.ClockOffset.Abs() > clockLimit
}

// clock says how the host's clock stands against the gateway's.
func (r HostRow) clock() string {
	switch {
	case !r.Measured || !r.linked():
		return "not measured"
	case r.ClockOffset.Abs() < time.Millisecond:
		return "in step"
	case r.ClockOffset > 0:
		return spell(r.ClockOffset) + " ahead"
	}
	return spell(-r.ClockOffset) + " behind"
}

func (r HostRow) links() string {
	if r.Links == 1 {
		return "1 link since start"
	}
	return strconv.Itoa(r.Links) + " links since start"
}

func (r HostRow) generations() string {
	if len(r.Generations) == 0 {
		return "none"
	}
	words := make([]string, len(r.Generations))
	for i, n := range r.Generations {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ", ")
}

// spell is a short span in words.
func spell(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "under 1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return d.Round(time.Second).String()
}

// revokeWarning says what a revocation does.
func (r HostRow) revokeWarning() string {
	return "Revoke " + r.Name + "? Its link is cut at once, and what it sends from then on is refused. " +
		"Turns that wait or run there end, and say so; what they wrote stays. " +
		"It cannot link again until you invite it and it joins anew."
}

func (p Hosts) inviteFields() []views.FieldModel {
	f := p.Form.Of(DoHostInvite)
	return []views.FieldModel{
		{
			Name: "name", Label: "Name", Type: "text", Value: f.Or("name", ""), Optional: true, Autocomplete: "off", MaxLength: 100,
			Error: f.Errors["name"], Hint: "Empty leaves it to the host.",
		},
		labelsField("labels", f.Or("labels", ""), f.Errors["labels"]),
	}
}

func labelsField(id, value, fault string) views.FieldModel {
	return views.FieldModel{
		Name: "labels", ID: id, Label: "Labels", Type: "text", Value: value, Optional: true, Autocomplete: "off",
		Error: fault, Hint: "Words for placement, with spaces between them: gpu site=berlin",
	}
}

func (p Host) nameField() views.FieldModel {
	f := p.Form.Of(DoHostRename)
	return views.FieldModel{
		Name: "name", Label: "Name", Type: "text", Value: f.Or("name", p.Host.Name), Autocomplete: "off", MaxLength: 100,
		Error: f.Errors["name"],
	}
}

func (p Host) labelsField() views.FieldModel {
	f := p.Form.Of(DoHostLabels)
	return labelsField("labels", f.Or("labels", strings.Join(p.Host.Labels, " ")), f.Errors["labels"])
}

// may tells whether the admin can change this host.
func (p Host) may() bool {
	return p.Manages && !p.Host.Embedded && p.Host.State != "revoked"
}

// query is its id as a value of a query.
func (r HostRow) query() string { return url.QueryEscape(r.HostID) }
