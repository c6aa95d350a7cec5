// Package chat holds the page on which people talk to models. The server renders
// its frame; what changes comes over the socket and is folded in the browser
// (static/js/fold.js), so that the page is the fold of the thread's log at any
// moment.
package chat

import (
	"encoding/json"

	"github.com/fairlead/fairlead/views"
)

// Page is the chat page, at "/" for a new thread and at "/chats/{id}".
type Page struct {
	Site    views.Site
	Account Account
	// SocketPath is the path of the browser's socket, Base excluded: "/ws".
	SocketPath string
	// ThreadID is the thread to open; "" for a new one.
	ThreadID string
	// Title is that thread's, where it is known.
	Title string
	// LogoutPath is where a form is posted to log out, Base excluded; "" leaves the
	// button out.
	LogoutPath string
	// Threads is the reply of threads.list, as JSON: {"threads":[…],"next":…}.
	Threads json.RawMessage
}

// Account is who is logged in, as shown in the corner.
type Account struct {
	ID    string
	Name  string
	Org   string
	Admin bool
}

// boot is what the page's script starts from.
type boot struct {
	Base      string          `json:"base"`
	Socket    string          `json:"socket"`
	AccountID string          `json:"accountId"`
	ThreadID  string          `json:"threadId,omitempty"`
	Threads   json.RawMessage `json:"threads,omitempty"`
}

func (p Page) boot() boot {
	return boot{
		Base: p.Site.Base, Socket: p.Site.Base + p.SocketPath,
		AccountID: p.Account.ID, ThreadID: p.ThreadID, Threads: p.Threads,
	}
}

func (p Page) heading() string {
	if p.Title == "" {
		return "New thread"
	}
	return p.Title
}

// way is what Enter can do with a message while an answer runs.
type way struct{ value, word, title string }

func ways() []way {
	return []way{
		{"queue", "Queue", "The message waits in line and gets an answer of its own"},
		{"steer", "Steer", "The message joins the answer that runs"},
		{"interrupt", "Stop and send", "The answer is stopped, and the message goes first"},
	}
}
