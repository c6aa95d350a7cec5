package views

import (
	"strconv"
	"strings"

	"github.com/a-h/templ"
)

// FieldModel is one labelled input of a form.
type FieldModel struct {
	Name, Label, Type, Value string
	// ID is the element's; "" is Name, which serves while a page has one such field.
	ID string
	// Autocomplete is the token that password managers go by.
	Autocomplete string
	// Hint helps before, Error after a try; both are tied to the input for screen
	// readers.
	Hint, Error string
	// MinLength is the least number of characters, MaxLength the most; 0 for none.
	MinLength, MaxLength int
	// Min and Max bound a number; "" for none.
	Min, Max  string
	Optional  bool
	Autofocus bool
	// Rows above 0 make it a text of so many lines, Options a choice.
	Rows    int
	Options []Option
}

// Option is one choice of a field.
type Option struct {
	Value, Label string
}

func (f FieldModel) id() string {
	if f.ID == "" {
		return f.Name
	}
	return f.ID
}

func (f FieldModel) rows() string { return strconv.Itoa(f.Rows) }

// attributes are those that inputs, texts and choices share; unset ones are left
// out.
func (f FieldModel) attributes() templ.OrderedAttributes {
	var list templ.OrderedAttributes
	text := func(name, value string) {
		if value != "" {
			list = append(list, templ.KeyValue[string, any]{Key: name, Value: value})
		}
	}
	flag := func(name string, on bool) {
		list = append(list, templ.KeyValue[string, any]{Key: name, Value: on})
	}
	number := func(name string, n int) {
		if n > 0 {
			text(name, strconv.Itoa(n))
		}
	}
	text("autocomplete", f.Autocomplete)
	flag("required", !f.Optional)
	flag("autofocus", f.Autofocus)
	number("minlength", f.MinLength)
	number("maxlength", f.MaxLength)
	text("min", f.Min)
	text("max", f.Max)
	if f.Error != "" {
		text("aria-invalid", "true")
	}
	text("aria-describedby", f.describedBy())
	return list
}

func (f FieldModel) describedBy() string {
	var ids []string
	if f.Error != "" {
		ids = append(ids, f.id()+"-error")
	}
	if f.Hint != "" {
		ids = append(ids, f.id()+"-hint")
	}
	return strings.Join(ids, " ")
}

// FormState is what a page knows of a form that was sent and refused. The zero
// value is that of a page that is shown for the first time.
type FormState struct {
	// Name is the form's: what it posts as "do".
	Name string
	// Values holds what was typed, Errors what is wrong with a field; by field name.
	Values, Errors map[string]string
	// Error says what is wrong with the whole.
	Error string
}

// Of gives the state for the form with a name: the zero value if another failed.
func (f FormState) Of(name string) FormState {
	if f.Name != name {
		return FormState{Name: name}
	}
	return f
}

// Or gives what was typed into a field, else a value.
func (f FormState) Or(field, value string) string {
	if typed, ok := f.Values[field]; ok {
		return typed
	}
	return value
}
