package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"
)

// shown is a setting as `fairlead config` prints it.
type shown struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// shown lists the settings in force, without the optional ones of a provider
// that are not set. Last stands for each provider whether its key is there; the
// key itself is not shown.
func (c *config) shown() []shown {
	var out []shown
	for _, s := range settings(reflect.ValueOf(*c), "") {
		v := s.value
		if v.IsZero() && strings.HasPrefix(s.path, "host.providers[") {
			continue
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		out = append(out, shown{s.path, plain(v), c.source(s.path)})
	}
	for i := range c.Host.Providers {
		out = append(out, c.shownKey(i))
	}
	return out
}

// source is where the value of a setting comes from. A default that a section of the
// file leaves in force is not the file's; what is in a list comes with the list.
func (c *config) source(path string) string {
	if _, named := c.origins[path]; !named && !strings.Contains(path, "[") {
		return originDefault
	}
	return c.origins.of(path)
}

// shownKey tells of the key of one provider.
func (c *config) shownKey(i int) shown {
	p := &c.Host.Providers[i]
	out := shown{Name: fmt.Sprintf("host.providers[%d] (key)", i), Source: "-"}
	switch {
	case p.APIKeyEnv != "":
		out.Source = "$" + p.APIKeyEnv
	case p.APIKeyFile != "":
		out.Source = p.APIKeyFile
	}
	switch cred := p.credential(c.environ); {
	case !cred.Ready():
		out.Value = "not ready: " + cred.Reason
	case cred.Key.IsZero():
		out.Value = "none needed"
	default:
		out.Value = cred.Key.String()
	}
	return out
}

// plain is a value as it would stand in the file.
func plain(v reflect.Value) any {
	if d, ok := v.Interface().(time.Duration); ok {
		return trimDuration(d)
	}
	if u, ok := v.Interface().(databaseURL); ok {
		return u.String()
	}
	if v.Kind() == reflect.Slice && v.IsNil() {
		return []string{}
	}
	return v.Interface()
}

// trimDuration writes 10m, not 10m0s.
func trimDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (c *config) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, s := range c.shown() {
		value := fmt.Sprint(s.Value)
		if value == "" {
			value = "-"
		}
		if _, err := fmt.Fprintf(tw, "%s\t%s\t%s\n", s.Name, value, s.Source); err != nil {
			return err
		}
	}
	return tw.Flush()
}

func (c *config) printJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Settings []shown `json:"settings"`
	}{c.shown()})
}
