package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of a file. They keep a small file with nested aliases from becoming a large tree.
const (
	maxNodes = 100_000
	maxDepth = 32
)

var tooMuch = fmt.Sprintf("too much: at most %d values, %d deep (an alias counts as what it stands for)", maxNodes, maxDepth)

// parseYAML turns one YAML document into nodes. An empty document is nil without a problem. The base place carries the
// source and name; lines and columns are filled in.
func parseYAML(data []byte, base Place) (*node, []Problem) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, []Problem{yamlProblem(err, base)}
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		place := base
		place.Line, place.Col = second.Line, second.Column
		return nil, []Problem{{place, "a second document begins here: keep one document per file"}}
	} else if !errors.Is(err, io.EOF) {
		return nil, []Problem{yamlProblem(err, base)}
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	b := yamlBuilder{base: base}
	root := b.build(document.Content[0], 0)
	if b.problem != nil {
		return nil, []Problem{*b.problem}
	}
	return root, nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlProblem turns a syntax error into a problem. The library's text is kept only where it is about syntax: it repeats
// the name of an unknown anchor, which may be a password that begins with '*'.
func yamlProblem(err error, base Place) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	place := base
	place.Line, place.Col = 1, 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			place.Line = line
		}
		text = strings.Replace(text, m[0], "", 1)
	}
	if strings.Contains(text, "anchor") {
		text = `an alias without its anchor; a text that begins with '*' or '&' must be in quotes`
	}
	return Problem{place, "not valid YAML: " + text}
}

type yamlBuilder struct {
	base    Place
	nodes   int
	problem *Problem
}

func (b *yamlBuilder) place(y *yaml.Node) Place {
	p := b.base
	p.Line, p.Col = y.Line, y.Column
	return p
}

func (b *yamlBuilder) build(y *yaml.Node, depth int) *node {
	b.nodes++
	if b.nodes > maxNodes || depth > maxDepth {
		if b.problem == nil {
			b.problem = &Problem{b.place(y), tooMuch}
		}
		return &node{place: b.place(y), kind: nullNode}
	}
	n := &node{place: b.place(y)}
	switch y.Kind {
	case yaml.AliasNode:
		n = b.build(y.Alias, depth+1)
		n.place = b.place(y)
	case yaml.SequenceNode:
		n.kind = listNode
		for _, item := range y.Content {
			n.items = append(n.items, b.build(item, depth+1))
		}
	case yaml.MappingNode:
		n.kind = mapNode
		for i := 0; i+1 < len(y.Content) && b.problem == nil; i += 2 {
			n.entries = append(n.entries, b.entry(y.Content[i], y.Content[i+1], depth))
		}
	default:
		b.scalar(n, y)
	}
	return n
}

func (b *yamlBuilder) entry(key, value *yaml.Node, depth int) entry {
	name := key.Value
	if key.Kind == yaml.AliasNode {
		name = key.Alias.Value
	}
	return entry{key: name, place: b.place(key), value: b.build(value, depth+1)}
}

func (b *yamlBuilder) scalar(n *node, y *yaml.Node) {
	n.text = y.Value
	switch y.ShortTag() {
	case "!!null":
		n.kind = nullNode
	case "!!int":
		n.scalar = intScalar
	case "!!float":
		n.scalar = floatScalar
	case "!!bool":
		n.scalar = boolScalar
	case "!!str":
		n.scalar = textScalar
	default: // a timestamp, or a tag that would mean more than the text, such as !!binary
		n.scalar = specialScalar
	}
}
