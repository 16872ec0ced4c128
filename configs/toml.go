package configs

import (
	"errors"
	"sort"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML turns a TOML document into nodes. The syntax tree gives every value its place, the decoder afterwards judges
// what the tree does not (a table written twice, a table over a value), so that both kinds of mistakes are told together.
func parseTOML(data []byte, base Place) (*node, []Problem) {
	b := tomlBuilder{base: base, lines: lineStarts(data)}
	b.parser.Reset(data)
	root := &node{place: base, kind: mapNode}
	table := root
	for b.parser.NextExpression() && len(b.problems) == 0 {
		switch e := b.parser.Expression(); e.Kind {
		case unstable.Table:
			table = b.open(root, e.Key(), false)
		case unstable.ArrayTable:
			table = b.open(root, e.Key(), true)
		case unstable.KeyValue:
			b.assign(table, e, 0)
		}
	}
	if err := b.parser.Error(); err != nil {
		return nil, []Problem{b.syntax(err)}
	}
	if len(b.problems) > 0 {
		return nil, b.problems
	}
	var decoded map[string]any
	if err := toml.Unmarshal(data, &decoded); err != nil {
		return root, []Problem{b.syntax(err)}
	}
	return root, nil
}

type tomlBuilder struct {
	parser   unstable.Parser
	base     Place
	lines    []int // the offset at which each line begins; the parser's own Shape counts lines from the start each time
	nodes    int
	problems []Problem
}

func (b *tomlBuilder) place(n *unstable.Node) Place {
	p := b.base
	at := int(n.Raw.Offset)
	p.Line = sort.Search(len(b.lines), func(i int) bool { return b.lines[i] > at })
	p.Col = 1 + at - b.lines[p.Line-1]
	return p
}

func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

func (b *tomlBuilder) syntax(err error) Problem {
	place := b.base
	place.Line, place.Col = 1, 1
	text := strings.TrimPrefix(err.Error(), "toml: ")
	var syntax *unstable.ParserError
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &syntax):
		if len(syntax.Highlight) > 0 {
			start := b.parser.Shape(b.parser.Range(syntax.Highlight)).Start
			place.Line, place.Col = start.Line, start.Column
		}
		text = syntax.Message
	case errors.As(err, &decode):
		place.Line, place.Col = decode.Position()
	}
	return Problem{place, "not valid TOML: " + text}
}

// open returns the table of a [header] or, for a [[header]], the new last item of that list.
func (b *tomlBuilder) open(root *node, keys unstable.Iterator, list bool) *node {
	table := root
	for keys.Next() {
		key := keys.Node()
		table = b.descend(table, key, list && keys.IsLast())
	}
	return table
}

// descend returns the mapping under a key, made where it does not exist; of a list, its last item (a new one for append).
// A key that holds a value is answered by a mapping of no tree: the decoder tells that problem.
func (b *tomlBuilder) descend(table *node, key *unstable.Node, list bool) *node {
	b.count(key)
	for i := range table.entries {
		e := &table.entries[i]
		if e.key != string(key.Data) {
			continue
		}
		switch {
		case e.value.kind == listNode && list:
			item := &node{place: b.place(key), kind: mapNode}
			e.value.items = append(e.value.items, item)
			return item
		case e.value.kind == listNode && len(e.value.items) > 0:
			return e.value.items[len(e.value.items)-1]
		case e.value.kind == mapNode:
			return e.value
		}
		return &node{place: b.place(key), kind: mapNode}
	}
	value := &node{place: b.place(key), kind: mapNode}
	inner := value
	if list {
		value = &node{place: value.place, kind: listNode, items: []*node{inner}}
	}
	table.entries = append(table.entries, entry{key: string(key.Data), place: value.place, value: value})
	return inner
}

// assign puts a key = value into a table; a dotted key makes the mappings between.
func (b *tomlBuilder) assign(table *node, kv *unstable.Node, depth int) {
	keys := kv.Key()
	for keys.Next() {
		key := keys.Node()
		if !keys.IsLast() {
			table = b.descend(table, key, false)
			continue
		}
		place := b.place(key)
		table.entries = append(table.entries, entry{string(key.Data), place, b.value(kv.Value(), place, depth)})
	}
}

// value converts one value. Lists have no range of their own in the syntax tree and get the place of their key.
func (b *tomlBuilder) value(v *unstable.Node, place Place, depth int) *node {
	if v.Raw.Length > 0 {
		place = b.place(v)
	}
	n := &node{place: place, text: string(v.Data)}
	if !b.count(v) || depth > maxDepth {
		n.kind = nullNode
		return n
	}
	switch v.Kind {
	case unstable.Array:
		n.kind = listNode
		for items := v.Children(); items.Next(); {
			n.items = append(n.items, b.value(items.Node(), place, depth+1))
		}
	case unstable.InlineTable:
		n.kind = mapNode
		for items := v.Children(); items.Next(); {
			b.assign(n, items.Node(), depth+1)
		}
	case unstable.Integer:
		n.scalar = intScalar
	case unstable.Float:
		n.scalar = floatScalar
	case unstable.Bool:
		n.scalar = boolScalar
	case unstable.String:
		n.scalar = textScalar
	default:
		n.scalar = specialScalar
	}
	return n
}

// count bounds the tree; false once it is too large.
func (b *tomlBuilder) count(n *unstable.Node) bool {
	b.nodes++
	if b.nodes == maxNodes {
		b.problems = append(b.problems, Problem{b.place(n), tooMuch})
	}
	return b.nodes < maxNodes
}
