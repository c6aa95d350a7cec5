package admin

import "github.com/fairlead/fairlead/views"

// The scripts of the pages with a frame: one of a list, one of a single thing.
const (
	listScript   = "js/admin.js"
	detailScript = "js/admin-detail.js"
)

// Frame is what stands around the page of a host or a binding, and around their lists.
type Frame struct {
	Site       views.Site
	Name, Org  string
	SocketPath string // Base excluded
	// LogoutPath is where a form is posted to log out, Base excluded.
	LogoutPath string
	// Notice says what the last form did, Form is the one that was refused.
	Notice string
	Form   views.FormState
}

// follow is a view that a page follows, as admin.follow names it.
type follow struct {
	View   string         `json:"view"`
	Filter map[string]any `json:"filter,omitempty"`
}

// bootData is what the script of a live page starts from.
type bootData struct {
	Socket string   `json:"socket"`
	Base   string   `json:"base"`
	Views  []follow `json:"views"`
}

func boot(site views.Site, socketPath string, views ...follow) bootData {
	return bootData{Socket: site.Base + socketPath, Base: site.Base, Views: views}
}

// action is a form of one button.
type action struct {
	Path, Do, ID string
	// Label is the button's, About says for screen readers what it is about.
	Label, About string
	// Confirm asks before; "" for none.
	Confirm string
	Danger  bool
}

// upLabel names the list that a page belongs to.
func upLabel(path string) string {
	if path == HostsPath {
		return "Hosts"
	}
	return "Bindings"
}
