package views

import (
	"strconv"
	"strings"
)

// FieldModel is one labelled input of a form.
type FieldModel struct {
	Name, Label, Type, Value string
	// Autocomplete is the token that password managers go by.
	Autocomplete string
	// Hint helps before, Error after a try; both are tied to the input for screen
	// readers.
	Hint, Error string
	// MinLength is the least number of characters; 0 for none.
	MinLength int
	Autofocus bool
}

func (f FieldModel) minLength() string { return strconv.Itoa(f.MinLength) }

func (f FieldModel) describedBy() string {
	var ids []string
	if f.Error != "" {
		ids = append(ids, f.Name+"-error")
	}
	if f.Hint != "" {
		ids = append(ids, f.Name+"-hint")
	}
	return strings.Join(ids, " ")
}
