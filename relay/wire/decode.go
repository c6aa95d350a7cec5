package wire

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// maxFields bounds how many faults one decoding reports.
const maxFields = 16

// DecodeStrict decodes one JSON object into the struct that into points at. All
// commands of the product go through it. It refuses unknown, repeated and
// wrongly cased keys, text after the object, invalid UTF-8, lone surrogates,
// values of another type, null for anything but a pointer, numbers out of range
// or with a fraction for an integer, nesting beyond MaxJSONDepth, and objects
// that lack a key whose validate tag says "required" or "present".
//
// The error is an *Error with CodeBadRequest and at most 16 Fields; on an error
// into may be partly set. Values are not validated: see ValidateStruct.
func DecodeStrict(raw []byte, into any) error {
	n, err := parseJSON(raw)
	if err != nil {
		return syntaxFault(CodeBadRequest, err)
	}
	return decodeNode(CodeBadRequest, n, into)
}

func decodeNode(code Code, n *node, into any) error { return decodeWith(decoder{}, code, n, into) }

func decodeWith(d decoder, code Code, n *node, into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return NewError(CodeInternal, "The decoding target is not a pointer.")
	}
	if n.kind != nodeObject && target.Elem().Kind() == reflect.Struct {
		e := NewError(code, "A JSON object was expected.")
		e.Fields = []Field{{Path: "", Rule: "type"}}
		return e
	}
	d.value(n, target.Elem(), "")
	if len(d.faults) == 0 {
		return nil
	}
	e := NewError(code, describeFields(d.faults))
	e.Fields = d.faults
	return e
}

type decoder struct {
	faults []Field
	// open lets unknown keys pass, and null in place of a list.
	open bool
}

func (d *decoder) fault(path, rule string) {
	if len(d.faults) < maxFields {
		d.faults = append(d.faults, Field{Path: path, Rule: rule})
	}
}

func (d *decoder) value(n *node, v reflect.Value, path string) {
	if v.Kind() == reflect.Pointer {
		if n.kind == nodeNull {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
		return
	}
	if v.CanAddr() {
		if u, ok := v.Addr().Interface().(json.Unmarshaler); ok {
			if u.UnmarshalJSON(n.raw) != nil {
				d.fault(path, "type")
			}
			return
		}
	}
	if !d.scalar(n, v, path) {
		d.compound(n, v, path)
	}
}

// scalar sets v if it holds a single value; false means that it does not.
func (d *decoder) scalar(n *node, v reflect.Value, path string) bool {
	var want nodeKind
	var err error
	switch v.Kind() {
	case reflect.String:
		want = nodeString
		if n.kind == want {
			v.SetString(n.text)
		}
	case reflect.Bool:
		want = nodeBool
		v.SetBool(n.kind == want && n.raw[0] == 't')
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		want = nodeNumber
		var i int64
		if i, err = strconv.ParseInt(string(n.raw), 10, v.Type().Bits()); err == nil {
			v.SetInt(i)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		want = nodeNumber
		var u uint64
		if u, err = strconv.ParseUint(string(n.raw), 10, v.Type().Bits()); err == nil {
			v.SetUint(u)
		}
	case reflect.Float32, reflect.Float64:
		want = nodeNumber
		var f float64
		if f, err = strconv.ParseFloat(string(n.raw), v.Type().Bits()); err == nil {
			v.SetFloat(f)
		}
	default:
		return false
	}
	if n.kind != want || err != nil {
		d.fault(path, "type")
	}
	return true
}

func (d *decoder) compound(n *node, v reflect.Value, path string) {
	switch {
	case d.open && v.Kind() == reflect.Slice && n.kind == nodeNull:
		v.SetZero()
	case v.Kind() == reflect.Struct && n.kind == nodeObject:
		d.object(n, v, path)
	case v.Kind() == reflect.Slice && n.kind == nodeArray:
		v.Set(reflect.MakeSlice(v.Type(), len(n.elems), len(n.elems)))
		for i := range n.elems {
			d.value(&n.elems[i], v.Index(i), path+"["+strconv.Itoa(i)+"]")
		}
	case v.Kind() == reflect.Map && n.kind == nodeObject && v.Type().Key().Kind() == reflect.String:
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.members)))
		for i := range n.members {
			elem := reflect.New(v.Type().Elem()).Elem()
			d.value(&n.members[i].value, elem, join(path, n.members[i].key))
			v.SetMapIndex(reflect.ValueOf(n.members[i].key).Convert(v.Type().Key()), elem)
		}
	case v.Kind() == reflect.Interface && v.NumMethod() == 0:
		if json.Unmarshal(n.raw, v.Addr().Interface()) != nil {
			d.fault(path, "type")
		}
	default:
		d.fault(path, "type")
	}
}

func (d *decoder) object(n *node, v reflect.Value, path string) {
	fields := jsonFields(v, nil)
	for i := range n.members {
		m := &n.members[i]
		f := findField(fields, m.key)
		if f == nil && d.open {
			continue
		}
		if f == nil {
			d.fault(join(path, m.key), "unknown")
			continue
		}
		d.value(&m.value, f.value, join(path, m.key))
	}
	for _, f := range fields {
		if f.required && n.get(f.name) == nil {
			d.fault(join(path, f.name), "required")
		}
	}
}

// jsonField is one key that a struct knows.
type jsonField struct {
	name     string
	required bool
	value    reflect.Value
}

// jsonFields lists the keys of a struct, those of embedded structs among them.
func jsonFields(v reflect.Value, into []jsonField) []jsonField {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			into = jsonFields(v.Field(i), into)
			continue
		case name == "-" || !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		into = append(into, jsonField{name: name, required: mustBePresent(f.Tag.Get("validate")), value: v.Field(i)})
	}
	return into
}

func mustBePresent(tag string) bool {
	first, _, _ := strings.Cut(tag, ",")
	return first == "required" || first == "present"
}

func findField(fields []jsonField, name string) *jsonField {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// join writes a path. A key that nobody here chose is cut, so that an error
// stays small.
func join(path, key string) string {
	const maxKey = 64
	if len(key) > maxKey {
		key = strings.ToValidUTF8(key[:maxKey], "") + "…"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// describeFields says in one sentence what is wrong with the first field.
func describeFields(faults []Field) string {
	f := faults[0]
	at := "The field " + strconv.Quote(f.Path)
	switch f.Rule {
	case "required":
		return at + " is missing."
	case "unknown":
		return at + " is not known."
	case "type":
		return at + " has the wrong type or form."
	case "uuid":
		return at + " must be a UUID."
	case "enum":
		return at + " has a value that is not allowed."
	case "min":
		return at + " is below its least value or length."
	case "max":
		return at + " is above its greatest value or length."
	case "utf8":
		return at + " is not valid UTF-8."
	case "nul":
		return at + " must not contain a NUL character."
	case "blank":
		return at + " must not be blank."
	}
	return at + " is not valid."
}
