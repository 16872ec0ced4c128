package configs

// A node is a value as it was written, whatever the format, with its place. YAML, TOML, variables and flags all become
// nodes, so that one checker judges them all.

type nodeKind uint8

const (
	scalarNode nodeKind = iota
	nullNode
	listNode
	mapNode
)

// scalarType is what the format took a scalar for. A raw scalar comes from a variable or a flag, which have no types.
type scalarType uint8

const (
	textScalar scalarType = iota
	intScalar
	floatScalar
	boolScalar
	specialScalar
	rawScalar
)

func (t scalarType) String() string {
	return [...]string{"a text", "a whole number", "a fraction", "true or false", "a date or other special value", "a text"}[t]
}

type node struct {
	place   Place
	kind    nodeKind
	scalar  scalarType // scalarNode
	text    string     // scalarNode: the value of a text, else the source text
	items   []*node    // listNode
	entries []entry    // mapNode, in the order of the file, duplicates included
}

type entry struct {
	key   string
	place Place
	value *node
}

// describe names a node's type for a message.
func (n *node) describe() string {
	switch n.kind {
	case nullNode:
		return "nothing"
	case listNode:
		return "a list"
	case mapNode:
		return "a mapping"
	default:
		return n.scalar.String()
	}
}
