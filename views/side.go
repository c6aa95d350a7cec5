package views

// SideModel is the side of a page that is not a chat: where one can go, and who one
// is.
type SideModel struct {
	Site Site
	// Label names the navigation for screen readers.
	Label     string
	Name, Org string
	Items     []SideItem
	// Links stand at the foot: to the chat, to the settings.
	Links []SideItem
	// LogoutPath is where a form is posted to log out, Base excluded; "" leaves the
	// button out.
	LogoutPath string
}

// SideItem is one place to go; Path is local, Base excluded.
type SideItem struct {
	Path, Label string
	Current     bool
}
