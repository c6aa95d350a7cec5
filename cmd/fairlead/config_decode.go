package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"
)

var durationType = reflect.TypeFor[time.Duration]()

// decode puts the layers into the config, strictly: names and types must be
// exactly those of the struct.
func (l *loader) decode(cfg *config) {
	l.unknown(l.k.Raw(), reflect.TypeOf(*cfg), "")
	err := l.k.UnmarshalWithConf("", cfg, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		TagName:    "koanf",
		DecodeHook: strictly,
		MatchName:  func(a, b string) bool { return a == b },
	}})
	l.decodeFaults(err)
	slices.SortFunc(l.faults, func(a, b fault) int {
		return cmp.Or(compareOrigins(a.origin, b.origin), cmp.Compare(a.path, b.path))
	})
}

// unknown finds names that no setting has. (The metadata of mapstructure would
// leave out those that stand beside a wrong value.)
func (l *loader) unknown(v any, t reflect.Type, path string) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if t.Kind() == reflect.Slice {
				l.unknown(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return
		}
		for name, inner := range v {
			p := name
			if path != "" {
				p = path + "." + name
			}
			field, ok := t.FieldByNameFunc(func(f string) bool {
				sf, _ := t.FieldByName(f)
				return sf.Tag.Get("koanf") == name
			})
			if !ok || name == "" {
				l.faults = append(l.faults, fault{l.origins.of(p), p, unknownSetting(p)})
				continue
			}
			l.unknown(inner, field.Type, p)
		}
	}
}

// unknownSetting has a word for what people try most.
func unknownSetting(path string) string {
	if name := path[strings.LastIndexByte(path, '.')+1:]; name == "api_key" || name == "key_env" {
		return "there is no such setting: a key never stands in this file, name api_key_env or api_key_file"
	}
	return "there is no such setting"
}

// decodeFaults takes the error of mapstructure apart.
func (l *loader) decodeFaults(err error) {
	if err == nil {
		return
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			l.decodeFaults(e)
		}
		return
	}
	var de *mapstructure.DecodeError
	if !errors.As(err, &de) {
		l.faults = append(l.faults, fault{originDefault, "", "cannot be read"})
		return
	}
	var inner *mapstructure.DecodeError
	if errors.As(de.Unwrap(), &inner) {
		l.decodeFaults(de.Unwrap())
		return
	}
	problem := "has a value of the wrong type"
	var wrong wrongType
	if errors.As(de, &wrong) {
		problem = wrong.Error()
	}
	l.faults = append(l.faults, fault{l.origins.of(de.Name()), de.Name(), problem})
}

// wrongType says what a setting's value must be.
type wrongType string

func (w wrongType) Error() string { return "must be " + string(w) }

// strictly is a decode hook that lets through only values of the type wanted;
// mapstructure alone would cut a fraction off or match a list with a map.
func strictly(from, to reflect.Value) (any, error) {
	for to.Kind() == reflect.Pointer {
		to = reflect.New(to.Type().Elem()).Elem()
	}
	have := from.Kind()
	if to.Type() == durationType {
		if d, err := time.ParseDuration(fmt.Sprint(from.Interface())); have == reflect.String && err == nil {
			return d, nil
		}
		return nil, wrongType("a duration such as 90s or 10m")
	}
	want, fits := "", true
	switch to.Kind() {
	case reflect.Struct:
		want, fits = "written name: value", have == reflect.Map || have == reflect.Struct
	case reflect.Slice:
		want, fits = "a list", have == reflect.Slice
	case reflect.String:
		want, fits = "text (put it in quotes)", have == reflect.String
	case reflect.Bool:
		want, fits = "true or false", have == reflect.Bool
	case reflect.Int, reflect.Int64, reflect.Uint32:
		want, fits = "a whole number", wholeNumber(from, to)
	}
	if !fits {
		return nil, wrongType(want)
	}
	return from.Interface(), nil
}

func wholeNumber(from, to reflect.Value) bool {
	if !from.CanInt() {
		return false
	}
	n := from.Int()
	if to.CanUint() {
		return n >= 0 && !to.OverflowUint(uint64(n))
	}
	return !to.OverflowInt(n)
}

// compareOrigins orders lines of the file before all else, by number.
func compareOrigins(a, b string) int { return cmp.Compare(lineOf(a), lineOf(b)) }

func lineOf(origin string) int {
	n, err := strconv.Atoi(origin[strings.LastIndexByte(origin, ':')+1:])
	if err != nil {
		return int(^uint(0) >> 1)
	}
	return n
}

// setting is one setting with its value.
type setting struct {
	path  string
	value reflect.Value
}

// settings lists the fields of a struct by their names in the settings, in the
// order of the struct; a list of structs is followed item by item.
func settings(v reflect.Value, path string) []setting {
	var out []setting
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("koanf")
		if name == "" {
			continue
		}
		if path != "" {
			name = path + "." + name
		}
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			out = append(out, settings(f, name)...)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && f.Len() > 0:
			for j := range f.Len() {
				out = append(out, settings(f.Index(j), fmt.Sprintf("%s[%d]", name, j))...)
			}
		default:
			out = append(out, setting{name, f})
		}
	}
	return out
}

// settable gives the settings that a variable or a flag can name, and whether
// their value is text.
func settable() map[string]bool {
	out := map[string]bool{}
	for _, s := range settings(reflect.ValueOf(defaultConfig()), "") {
		out[s.path] = s.value.Kind() == reflect.String || s.value.Type() == durationType
	}
	return out
}
