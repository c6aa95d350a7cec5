package httpd

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/gateway"
	"github.com/fairlead/fairlead/relay/wire"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// words are the values of the types that are enumerations on the wire.
func words() map[reflect.Type][]any {
	return map[reflect.Type][]any{
		typeOf[gateway.Mode](): {gateway.ModeAuto, gateway.ModeQueue, gateway.ModeSteer, gateway.ModeInterrupt},
		typeOf[gateway.Disposition](): {
			gateway.DispositionStarted, gateway.DispositionQueued, gateway.DispositionOrgQueued, gateway.DispositionSteering,
			gateway.DispositionRefused, gateway.DispositionFailed, gateway.DispositionRecalled, gateway.DispositionInterrupted,
		},
		typeOf[gateway.TurnStatus](): {
			gateway.TurnQueued, gateway.TurnPending, gateway.TurnRunning, gateway.TurnCompleted, gateway.TurnFailed,
			gateway.TurnCancelled, gateway.TurnTimeout,
		},
		typeOf[gateway.EventType](): {
			gateway.EventInputPrompt, gateway.EventInputRejected, gateway.EventInputDeadline, gateway.EventControlInterrupt,
			gateway.EventControlRevoke, gateway.EventOutputMessage, gateway.EventOutputPartial, gateway.EventOutputError,
			gateway.EventTurnQueued, gateway.EventTurnDequeued, gateway.EventTurnCompleted, gateway.EventTurnFailed,
			gateway.EventTurnCancelled, gateway.EventTurnTimeout,
		},
		typeOf[gateway.Visibility](): {gateway.VisibilityOrg, gateway.VisibilityPrivate},
		typeOf[gateway.Role]():       {gateway.RoleAdmin, gateway.RoleMember},
		typeOf[gateway.Scope]():      {gateway.ScopeChat, gateway.ScopeAdmin, gateway.ScopeControl},
		typeOf[wire.Support]():       {wire.Supported, wire.Unsupported, wire.Unknown},
		typeOf[gateway.HostState](): {
			gateway.HostOnline, gateway.HostOffline, gateway.HostLost, gateway.HostDraining, gateway.HostRevoked,
		},
	}
}

// schema describes a Go type as it stands on the wire. tags are the validate tags
// of the field that holds it. Structs become components and are referred to.
func (d *describer) schema(t reflect.Type, tags []string) object {
	switch {
	case t == typeOf[gateway.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return nullable(d.schema(t.Elem(), tags))
	case t.Kind() == reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, known := d.schemas[name]; !known {
			d.schemas[name] = object{} // a type may hold itself
			d.schemas[name] = d.object(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	o := object{}
	switch t.Kind() {
	case reflect.String:
		o["type"] = "string"
		if known := words()[t]; known != nil {
			o["enum"] = known
		}
	case reflect.Bool:
		o["type"] = "boolean"
	case reflect.Slice:
		o["type"], o["items"] = "array", d.schema(t.Elem(), nil)
	case reflect.Int64:
		o["type"], o["format"] = "integer", "int64"
	case reflect.Uint32:
		o["type"], o["minimum"], o["maximum"] = "integer", 0, math.MaxUint32
	default:
		o["type"] = "integer"
	}
	limits(o, tags)
	return o
}

// object describes a struct: a property for each key, required where a request
// must hold it and a reply always does.
func (d *describer) object(t reflect.Type) object {
	properties, required := object{}, []string{}
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "-" {
			continue
		}
		tag, checked := f.Tag.Lookup("validate")
		tags := strings.Split(tag, ",")
		schema := d.schema(f.Type, tags)
		omits := strings.Contains(options, "omitempty")
		if f.Type.Kind() == reflect.Pointer && omits && !strings.HasPrefix(tag, "omit") {
			schema = d.schema(f.Type.Elem(), tags) // left out of a reply, not null in it
		}
		if words := fieldWords()[t.Name()+"."+key]; words != "" {
			schema = described(schema, words)
		}
		properties[key] = schema
		if checked && (tags[0] == "required" || strings.HasPrefix(tags[0], "eq=")) || !checked && !omits {
			required = append(required, key)
		}
	}
	o := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

// described adds words to a schema; a reference takes them beside it (3.1).
func described(schema object, words string) object {
	schema["description"] = words
	return schema
}

// nullable allows null beside what a schema allows.
func nullable(schema object) object {
	if kind, ok := schema["type"].(string); ok {
		schema["type"] = []string{kind, "null"}
		if enum, ok := schema["enum"].([]any); ok {
			schema["enum"] = append(slices.Clone(enum), nil)
		}
		return schema
	}
	return object{"oneOf": []any{schema, object{"type": "null"}}}
}

// limits writes validate tags as the keywords of JSON Schema that say the same.
func limits(o object, tags []string) {
	for _, tag := range tags {
		name, param, _ := strings.Cut(tag, "=")
		n, err := strconv.Atoi(param)
		switch {
		case name == "uuid":
			o["format"] = "uuid"
		case name == "oneof" && o["enum"] == nil:
			var enum []any
			for word := range strings.FieldsSeq(param) {
				enum = append(enum, word)
			}
			o["enum"] = enum
		case name == "eq" && err == nil:
			o["enum"] = []any{n}
		case name == "notblank":
			o["minLength"] = 1
		case (name == "min" || name == "max") && err == nil:
			o[keyword(name, o["type"])] = n
		case name == "maxbytes" && err == nil:
			o["maxLength"] = n
		}
	}
	if slices.Contains(tags, "required") && o["type"] == "string" && o["minLength"] == nil && o["format"] == nil && o["enum"] == nil {
		o["minLength"] = 1
	}
}

// keyword is min or max for a type.
func keyword(name string, kind any) string {
	switch kind {
	case "string":
		return name + "Length"
	case "array":
		return name + "Items"
	}
	return name + "imum"
}
