// Package account holds the pages about a person: those of somebody who is not
// logged in yet (the first run of an installation, an invitation, the login), and
// the settings of somebody who is.
package account

import (
	"strconv"

	"github.com/fairlead/fairlead/views"
)

// SetupPage makes the first admin of an installation. It is reached once, by the
// link that the program prints when it starts.
//
// The form posts the fields setup, name, email and password to Action.
type SetupPage struct {
	Site views.Site
	// Action is the path that the form posts to, Base excluded.
	Action string
	// Token is the one-time token of the link, sent back as the field "setup".
	Token string
	// Name and Email are what was typed before, on a page shown again.
	Name, Email string
	// Errors says what is wrong with a field, by its name ("name", "email",
	// "password").
	Errors map[string]string
	// Error says what is wrong with the whole.
	Error string
	// MinPassword is the least number of characters of a password; 0 leaves the
	// hint out.
	MinPassword int
}

func (p SetupPage) fields() []views.FieldModel {
	return []views.FieldModel{
		{
			Name: "name", Label: "Your name", Type: "text", Value: p.Name, Autocomplete: "name",
			Error: p.Errors["name"], Autofocus: p.first() == "name",
		},
		{
			Name: "email", Label: "Email", Type: "email", Value: p.Email, Autocomplete: "username",
			Error: p.Errors["email"], Autofocus: p.first() == "email",
		},
		{
			Name: "password", Label: "Password", Type: "password", Autocomplete: "new-password",
			Error: p.Errors["password"], Hint: passwordHint(p.MinPassword, p.Errors["password"]), MinLength: p.MinPassword,
			Autofocus: p.first() == "password",
		},
	}
}

// passwordHint says how long a password must be, unless a fault already does.
func passwordHint(least int, fault string) string {
	if least == 0 || fault != "" {
		return ""
	}
	return "At least " + strconv.Itoa(least) + " characters. A few words in a row are easiest to remember."
}

// first is the field to start in: the first wrong one.
func (p SetupPage) first() string {
	for _, name := range []string{"name", "email", "password"} {
		if p.Errors[name] != "" {
			return name
		}
	}
	return "name"
}
