package account

import "github.com/fairlead/fairlead/views"

// JoinPage makes an account by an invitation. Opening it uses nothing up.
//
// The form posts the fields invitation, name and password to Action.
type JoinPage struct {
	Site views.Site
	// Action is the path that the form posts to, Base excluded.
	Action string
	// Token is the one-time token of the link, sent back as the field "invitation".
	Token string
	// Org is what one joins, Email the address that was invited, Admin its role.
	Org, Email string
	Admin      bool
	Form       views.FormState
	// MinPassword is as in SetupPage.
	MinPassword int
}

func (p JoinPage) fields() []views.FieldModel {
	first := p.Form.Errors["name"] != "" || p.Form.Errors["password"] == ""
	return []views.FieldModel{
		{
			Name: "name", Label: "Your name", Type: "text", Value: p.Form.Or("name", ""), Autocomplete: "name",
			Error: p.Form.Errors["name"], Autofocus: first, MaxLength: maxName,
		},
		{
			Name: "password", Label: "Password", Type: "password", Autocomplete: "new-password",
			Error: p.Form.Errors["password"], Hint: passwordHint(p.MinPassword, p.Form.Errors["password"]),
			MinLength: p.MinPassword, Autofocus: !first,
		},
	}
}
