package accounts

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/fairlead/fairlead/gateway"
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
	cleanName = faults.name(name)
	cleanEmail, ok := normaliseEmail(email)
	switch {
	case strings.TrimSpace(email) == "":
		faults.add("email", "required")
	case !ok:
		faults.add("email", "type")
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
type faultList []wire.Field

func (f *faultList) add(path, rule string) { *f = append(*f, wire.Field{Path: path, Rule: rule}) }

func (f *faultList) name(name string) string {
	name = strings.TrimSpace(norm.NFC.String(name))
	switch {
	case name == "":
		f.add("name", "required")
	case utf8.RuneCountInString(name) > MaxNameRunes:
		f.add("name", "max")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		f.add("name", "utf8")
	}
	return name
}

func (f *faultList) password(password string) {
	switch {
	case password == "":
		f.add("password", "required")
	case len(password) > MaxPasswordBytes:
		f.add("password", "max")
	case !utf8.ValidString(password):
		f.add("password", "utf8")
	case utf8.RuneCountInString(normalisePassword(password)) < MinPasswordRunes:
		f.add("password", "min")
	}
}

// checkLimits checks the limits of an org or of a member.
func checkLimits(l gateway.Limits) error {
	var faults faultList
	if l.ConcurrentTurns < 0 || l.ConcurrentTurns > MaxLimit {
		faults.add("concurrentTurns", "range")
	}
	if l.DailyTurns < 0 || l.DailyTurns > MaxLimit {
		faults.add("dailyTurns", "range")
	}
	return faults.err()
}

func (f faultList) err() error {
	if len(f) == 0 {
		return nil
	}
	messages := make([]string, len(f))
	for i, field := range f {
		messages[i] = FieldMessage(field)
	}
	e := wire.NewError(wire.CodeBadRequest, strings.Join(messages, " "))
	e.Fields = f
	return e
}

func fieldError(path, rule string) error { return faultList{{Path: path, Rule: rule}}.err() }

// FieldMessage says in words what is wrong with a field that this package
// refused.
func FieldMessage(f wire.Field) string {
	switch f {
	case wire.Field{Path: "name", Rule: "required"}:
		return "Enter a name."
	case wire.Field{Path: "name", Rule: "max"}:
		return "A name may have at most 100 characters."
	case wire.Field{Path: "name", Rule: "utf8"}:
		return "The name holds characters that cannot be shown."
	case wire.Field{Path: "name", Rule: "unique"}:
		return "Another org has this name."
	case wire.Field{Path: "name", Rule: "limit"}:
		return "There are 100 sessions and tokens already. Revoke some first."
	case wire.Field{Path: "email", Rule: "required"}:
		return "Enter an email address."
	case wire.Field{Path: "email", Rule: "type"}:
		return "This is not an email address."
	case wire.Field{Path: "email", Rule: "unique"}:
		return "Another account uses this email address."
	case wire.Field{Path: "password", Rule: "required"}:
		return "Enter a password."
	case wire.Field{Path: "password", Rule: "min"}:
		return "The password needs at least 10 characters."
	case wire.Field{Path: "password", Rule: "max"}:
		return "A password may have at most 1,024 bytes."
	case wire.Field{Path: "password", Rule: "utf8"}:
		return "The password is not valid text."
	case wire.Field{Path: "role", Rule: "enum"}:
		return "The role is member or admin."
	case wire.Field{Path: "scopes", Rule: "required"}:
		return "Choose at least one scope."
	case wire.Field{Path: "scopes", Rule: "enum"}:
		return "The scopes are chat, relay:control and, for the token of an admin, admin."
	case wire.Field{Path: "targets", Rule: "required"}:
		return "The scope relay:control needs the targets that the token may reach."
	case wire.Field{Path: "targets", Rule: "unknown"}:
		return "Targets go with the scope relay:control."
	case wire.Field{Path: "targets", Rule: "max"}:
		return "A token reaches at most 64 targets."
	case wire.Field{Path: "targets", Rule: "type"}:
		return "A target is the id of a relay host, such as target_1f2e."
	case wire.Field{Path: "status", Rule: "enum"}:
		return "The status is active or suspended."
	case wire.Field{Path: "credits", Rule: "range"}:
		return "Credits are a whole number from 0, or left empty for no limit."
	case wire.Field{Path: "ttl", Rule: "min"}:
		return "The lifetime cannot be negative."
	}
	if f.Rule == "range" {
		return "A limit is a whole number from 0 to 1,000,000; 0 is no limit."
	}
	return "The " + f.Path + " cannot be used like this."
}
