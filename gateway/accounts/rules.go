package accounts

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/fairlead/fairlead/relay/wire"
)

// Limits of what people type about themselves.
const (
	MinPasswordRunes = 10
	MaxPasswordBytes = 1024
	MaxEmailBytes    = 254
	MaxNameRunes     = 100
)

// normaliseEmail gives the one form under which an email is stored and looked
// up, or false if it is none.
func normaliseEmail(email string) (string, bool) {
	email = strings.ToLower(norm.NFC.String(strings.TrimSpace(email)))
	if len(email) > MaxEmailBytes || !utf8.ValidString(email) {
		return "", false
	}
	parsed, err := mail.ParseAddress(email)
	if err != nil || parsed.Address != email || parsed.Name != "" {
		return "", false
	}
	return email, true
}

// normalisePassword makes a password the same whichever keyboard typed it.
func normalisePassword(password string) string { return norm.NFC.String(password) }

// checkPerson checks and normalises what an account is made of; the faults of
// all fields are reported together.
func checkPerson(name, email, password string) (cleanName, cleanEmail string, err error) {
	var faults faultList
	cleanName = strings.TrimSpace(norm.NFC.String(name))
	switch {
	case cleanName == "":
		faults.add("name", "required", "Enter a name.")
	case utf8.RuneCountInString(cleanName) > MaxNameRunes:
		faults.add("name", "max", "The name may have at most 100 characters.")
	case !utf8.ValidString(cleanName) || strings.ContainsFunc(cleanName, unicode.IsControl):
		faults.add("name", "utf8", "The name contains characters that cannot be shown.")
	}
	cleanEmail, ok := normaliseEmail(email)
	switch {
	case strings.TrimSpace(email) == "":
		faults.add("email", "required", "Enter an email address.")
	case !ok:
		faults.add("email", "type", "This is not an email address.")
	}
	faults.password(password)
	return cleanName, cleanEmail, faults.err()
}

func checkPassword(password string) error {
	var faults faultList
	faults.password(password)
	return faults.err()
}

// faultList gathers the faults of a form.
type faultList struct {
	fields   []wire.Field
	messages []string
}

func (f *faultList) add(path, rule, message string) {
	f.fields = append(f.fields, wire.Field{Path: path, Rule: rule})
	f.messages = append(f.messages, message)
}

func (f *faultList) password(password string) {
	switch {
	case password == "":
		f.add("password", "required", "Enter a password.")
	case len(password) > MaxPasswordBytes:
		f.add("password", "max", "The password may have at most 1,024 bytes.")
	case !utf8.ValidString(password):
		f.add("password", "utf8", "The password is not valid text.")
	case utf8.RuneCountInString(normalisePassword(password)) < MinPasswordRunes:
		f.add("password", "min", "The password needs at least 10 characters.")
	}
}

func (f *faultList) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	e := wire.NewError(wire.CodeBadRequest, strings.Join(f.messages, " "))
	e.Fields = f.fields
	return e
}
