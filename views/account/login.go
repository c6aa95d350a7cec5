package account

import "github.com/fairlead/fairlead/views"

// LoginPage asks for email and password.
//
// The form posts the fields email, password and next to Action.
type LoginPage struct {
	Site views.Site
	// Action is the path that the form posts to, Base excluded.
	Action string
	// Next is the local path to go to afterwards, Base excluded.
	Next string
	// Email is what was typed before.
	Email string
	// Error says why the last try failed, without telling whether the account
	// exists.
	Error string
	// Notice says why the page is shown: "Your session ended. Log in to go on."
	Notice string
}

func (p LoginPage) fields() []views.FieldModel {
	return []views.FieldModel{
		{
			Name: "email", Label: "Email", Type: "email", Value: p.Email, Autocomplete: "username",
			Autofocus: p.Email == "",
		},
		{
			Name: "password", Label: "Password", Type: "password", Autocomplete: "current-password",
			Autofocus: p.Email != "",
		},
	}
}
