package views

// ErrorPage tells what went wrong and what to do, in place of the page asked for.
type ErrorPage struct {
	Site Site
	// Status is the HTTP status.
	Status int
	// Title names the cause, Cure what the reader can do; both in plain words.
	Title, Cure string
	// RequestID lets an admin find the request in the log.
	RequestID string
	// BackPath and BackLabel are the way on; "/" when empty.
	BackPath, BackLabel string
}

func (p ErrorPage) backPath() string {
	if p.BackPath == "" {
		return "/"
	}
	return p.BackPath
}

func (p ErrorPage) backLabel() string {
	if p.BackLabel == "" {
		return "Back to your threads"
	}
	return p.BackLabel
}
