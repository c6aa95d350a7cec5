// Package views holds what all pages share: the shell around a page, the small
// parts they are built of, and the error page. Pages stand in the packages
// below it, one templ file per page with its view model beside it.
//
// A view model holds what is shown and renders itself: page.View() is a
// templ.Component. Its fields are chosen, authorised and formatted by
// gateway/httpd. Components ask nobody, compute nothing and read no context, so
// each can be rendered alone in a test. Pages obey a content security policy of
// script-src 'self' and style-src 'self': no inline script, handler or style;
// data for scripts stands in data attributes or in a JSON script element.
package views

import (
	"strings"
	"time"

	"github.com/a-h/templ"
)

// Site is what every page knows about where it stands.
type Site struct {
	// Base is the public path prefix without a slash at its end; "" at the root.
	Base string
	// Assets is the path under which static files are served, without a slash at
	// its end, Base and the version of the files included: /base/static/3f2a….
	Assets string
	// Version is the program's own, shown in the foot of plain pages.
	Version string
}

// Path gives the address of a page of this site; path starts with a slash.
func (s Site) Path(path string) templ.SafeURL {
	return templ.SafeURL(s.Base + path)
}

// Asset gives the address of a static file, such as "css/app.css".
func (s Site) Asset(name string) string {
	return s.Assets + "/" + name
}

// Shell describes the frame around a page.
type Shell struct {
	Site Site
	// Title is the page's own; the brand is put behind it.
	Title string
	// Styles and Modules are static files that the page needs beside the shared
	// ones.
	Styles  []string
	Modules []string
	// Plain is set on pages with a single card in the middle.
	Plain bool
}

func (s Shell) fullTitle() string {
	if s.Title == "" || s.Title == "Fairlead" {
		return "Fairlead"
	}
	return s.Title + " · Fairlead"
}

// Tone is a state's colour. A word always stands beside it.
type Tone string

// The tones.
const (
	ToneRunning Tone = "running"
	ToneQueued  Tone = "queued"
	ToneDone    Tone = "done"
	ToneFailed  Tone = "failed"
	ToneStopped Tone = "stopped"
	ToneRefused Tone = "refused"
)

// State is a state as it is shown: a colour and its word.
type State struct {
	Tone Tone
	Word string
}

// TurnState gives the state shown for a turn's status on the wire.
func TurnState(status string) State {
	switch status {
	case "completed":
		return State{ToneDone, "done"}
	case "failed", "timeout":
		return State{ToneFailed, status}
	case "cancelled":
		return State{ToneStopped, "stopped"}
	case "running":
		return State{ToneRunning, status}
	}
	return State{ToneQueued, status}
}

const (
	machineTime = "2006-01-02T15:04:05.000Z07:00"
	exactTime   = "2006-01-02 15:04:05.000 MST"
	shortTime   = "2006-01-02 15:04 MST"
)

func timeIn(at time.Time, layout string) string {
	return at.UTC().Format(layout)
}

// ShortID keeps the head and the tail of an id, which is where the ids of this
// program differ: a prefix or a time in front, random digits behind.
func ShortID(id string) string {
	head, tail := 8, 6
	if at := strings.IndexByte(id, '_'); at > 0 && at < 16 {
		head = at + 5
	}
	runes := []rune(id)
	if len(runes) <= head+tail+2 {
		return id
	}
	return string(runes[:head]) + "…" + string(runes[len(runes)-tail:])
}
