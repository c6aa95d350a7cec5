package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// origins tells where each setting comes from: fairlead.yaml:12, a variable, a
// flag. A path without an entry has that of the nearest one above it.
type origins map[string]string

const originDefault = "default"

// of finds the origin of a setting.
func (o origins) of(path string) string {
	for path != "" {
		if at, ok := o[path]; ok {
			return at
		}
		path = parent(path)
	}
	return originDefault
}

func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// replace makes origin the one of a setting and of all within it.
func (o origins) replace(path, origin string) {
	for p := range o {
		if strings.HasPrefix(p, path+".") || strings.HasPrefix(p, path+"[") {
			delete(o, p)
		}
	}
	o[path] = origin
}

// file applies the settings file: the one that is named, else the default one
// if it is there.
func (l *loader) file(name string, environ []string) error {
	named := name != ""
	if !named {
		name, named = variable(environ, envConfigFile)
	}
	if !named || name == "" {
		name, named = defaultConfigFile, false
	}
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return &configError{[]fault{{name, "", "cannot be read: " + reason(err)}}}
	}
	tree, err := l.parse(name, raw)
	if err != nil {
		return err
	}
	return l.k.Load(layer(tree), nil)
}

// reason is the system's word for a failed call, without the path.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// variable finds a variable in an environment; the last of a name counts.
func variable(environ []string, name string) (value string, ok bool) {
	for _, e := range environ {
		if v, found := strings.CutPrefix(e, name+"="); found {
			value, ok = v, true
		}
	}
	return value, ok
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// parse reads YAML and notes on which line each setting stands.
func (l *loader) parse(name string, raw []byte) (map[string]any, error) {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil // empty
	}
	if err == nil {
		err = dec.Decode(&more)
		if err == nil {
			return nil, &configError{[]fault{{at(name, more.Line), "", "a settings file holds one document"}}}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, &configError{[]fault{notYAML(name, err)}}
	}
	ix := indexer{name: name, loader: l}
	v := ix.value("", doc.Content[0])
	tree, ok := v.(map[string]any)
	if v != nil && !ok {
		l.faults = append(l.faults, fault{at(name, doc.Content[0].Line), "", "settings are written name: value"})
	}
	return tree, nil
}

func at(file string, line int) string { return file + ":" + strconv.Itoa(line) }

func notYAML(name string, err error) fault {
	text := err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		return fault{name + ":" + m[1], "", "is not valid YAML: " + text[len(m[0]):]}
	}
	return fault{name, "", "is not valid YAML: " + strings.TrimPrefix(text, "yaml: ")}
}

// indexer turns nodes into values and keeps their lines. Keys without a value
// are left out, as if they were not there.
type indexer struct {
	name   string
	loader *loader
	seen   int // nodes so far
	depth  int // of the node at hand
	full   bool
}

// Bounds of what aliases can blow a file up to.
const (
	maxNodes = 10_000
	maxDepth = 16
)

func (ix *indexer) value(path string, n *yaml.Node) any {
	ix.seen++
	ix.depth++
	defer func() { ix.depth-- }()
	if ix.seen > maxNodes || ix.depth > maxDepth {
		if !ix.full {
			ix.fault(n, path, "goes too deep, or the settings are too many")
		}
		ix.full = true
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return ix.mapping(path, n)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			p := fmt.Sprintf("%s[%d]", path, i)
			ix.loader.origins[p] = at(ix.name, item.Line)
			out = append(out, ix.value(p, item))
		}
		return out
	case yaml.AliasNode:
		return ix.value(path, n.Alias)
	}
	var v any
	if err := n.Decode(&v); err != nil {
		ix.fault(n, path, "cannot be read")
	}
	return v
}

func (ix *indexer) mapping(path string, n *yaml.Node) map[string]any {
	out := map[string]any{}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		p := key.Value
		if path != "" {
			p = path + "." + key.Value
		}
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			ix.fault(key, path, "a setting's name is a plain word")
			continue
		}
		if line, double := seen[key.Value]; double {
			ix.fault(key, p, fmt.Sprintf("stands twice, first on line %d", line))
			continue
		}
		seen[key.Value] = key.Line
		ix.loader.origins[p] = at(ix.name, key.Line)
		if v := ix.value(p, val); v != nil {
			out[key.Value] = v
		}
	}
	return out
}

func (ix *indexer) fault(n *yaml.Node, path, problem string) {
	ix.loader.faults = append(ix.loader.faults, fault{at(ix.name, n.Line), path, problem})
}
