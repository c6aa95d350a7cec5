package wire

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-playground/validator/v10"
)

// shapes is the module's one validator: it caches what it learns of a type, so
// it is made once and warmed with the types of this package.
var shapes = sync.OnceValue(newValidator)

// embedded stands for an embedded struct in the validator's paths; JSON has no
// level there.
const embedded = "\x00"

// Validator tags of this package, beside those of the library. "present" means
// that the key must be there whatever its value (see DecodeStrict); "maxbytes"
// counts bytes where "max" counts runes.
func customTags() map[string]func(string) bool {
	return map[string]func(string) bool{
		"relayid":     ValidRelayID,
		"opkey":       ValidOperationKey,
		"owner":       ValidOwnerComponent,
		"nativeid":    ValidNativeID,
		"vthread":     ValidVirtualThreadID,
		"vturn":       ValidVirtualTurnID,
		"challenge":   ValidChallenge,
		"fingerprint": ValidFingerprint,
		"modelid":     ValidModelID,
		"routeid":     ValidRouteID,
		"utf8":        utf8.ValidString,
		"nonul":       func(s string) bool { return !strings.Contains(s, "\x00") },
		"notblank":    func(s string) bool { return strings.TrimSpace(s) != "" },
		"effort": func(s string) bool {
			_, ok := NormalizeEffort(s)
			return ok
		},
	}
}

func newValidator() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			return embedded
		}
		return name
	})
	for tag, valid := range customTags() {
		mustRegister(v, tag, func(fl validator.FieldLevel) bool { return valid(fl.Field().String()) })
	}
	mustRegister(v, "present", func(validator.FieldLevel) bool { return true })
	mustRegister(v, "maxbytes", func(fl validator.FieldLevel) bool {
		limit, err := strconv.Atoi(fl.Param())
		return err == nil && fl.Field().Len() <= limit
	})
	for _, warm := range [...]any{PromptRequest{Images: []Image{{}}}, RunControl{}, HostJoin{}, Hello{}, Attach{}, CommandMessage{}, CursorMessage{}, Steer{}, Receipt{}} {
		_ = v.Struct(warm)
	}
	return v
}

// mustRegister panics on a tag that cannot be registered: a fault of this file.
// A nil value is validated too, so that "present" works on every kind.
func mustRegister(v *validator.Validate, tag string, fn validator.Func) {
	if err := v.RegisterValidation(tag, fn, true); err != nil {
		panic(err)
	}
}

// ValidateStruct checks the shape that the validate tags of v, a struct or a
// pointer to one, demand. It gives the faults in the order of the struct's
// fields, nil for none.
func ValidateStruct(v any) []Field {
	err := shapes().Struct(v)
	if err == nil {
		return nil
	}
	var faults validator.ValidationErrors
	if !errors.As(err, &faults) {
		return []Field{{Path: "", Rule: "type"}}
	}
	fields := make([]Field, 0, len(faults))
	for _, f := range faults {
		_, path, _ := strings.Cut(f.Namespace(), ".")
		path = strings.ReplaceAll(path, embedded+".", "")
		fields = append(fields, Field{Path: path, Rule: ruleOf(f.Tag())})
	}
	return fields
}

// CheckStruct is ValidateStruct as an *Error with CodeBadRequest, nil for none.
func CheckStruct(v any) error {
	fields := ValidateStruct(v)
	if len(fields) == 0 {
		return nil
	}
	e := NewError(CodeBadRequest, describeFields(fields))
	e.Fields = fields
	return e
}

// ruleOf maps a validator tag to the rule names of Field.
func ruleOf(tag string) string {
	switch tag {
	case "required", "present", "required_with", "required_without", "required_if":
		return "required"
	case "excluded_with", "excluded_without", "excluded_if":
		return "unknown"
	case "uuid", "uuid4", "uuid_rfc4122":
		return "uuid"
	case "oneof", "eq", "ne", "eqfield", "nefield", "effort":
		return "enum"
	case "min", "gt", "gte":
		return "min"
	case "max", "lt", "lte", "len", "maxbytes":
		return "max"
	case "utf8":
		return "utf8"
	case "nonul":
		return "nul"
	case "notblank":
		return "blank"
	}
	return "type"
}
