package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// parseJSON turns the JSON of a variable or flag into nodes, each with the place of the whole. Its errors do not repeat
// the text, which may hold passwords.
func parseJSON(text string, place Place) (*node, error) {
	if !json.Valid([]byte(text)) {
		var syntax *json.SyntaxError
		var v any
		if err := json.Unmarshal([]byte(text), &v); errors.As(err, &syntax) {
			return nil, fmt.Errorf("is not valid JSON at byte %d", syntax.Offset)
		}
		return nil, errors.New("is not valid JSON")
	}
	b := jsonBuilder{decoder: json.NewDecoder(strings.NewReader(text)), place: place}
	b.decoder.UseNumber()
	root, err := b.value(0)
	if err != nil {
		return nil, err
	}
	return root, nil
}

type jsonBuilder struct {
	decoder *json.Decoder
	place   Place
	nodes   int
}

func (b *jsonBuilder) value(depth int) (*node, error) {
	if b.nodes++; b.nodes > maxNodes || depth > maxDepth {
		return nil, errors.New("is " + tooMuch)
	}
	token, err := b.decoder.Token()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New("is not valid JSON")
	}
	n := &node{place: b.place}
	switch t := token.(type) {
	case json.Delim:
		return n, b.inside(n, t, depth)
	case string:
		n.text = t
	case json.Number:
		n.text, n.scalar = t.String(), intScalar
		if strings.ContainsAny(n.text, ".eE") {
			n.scalar = floatScalar
		}
	case bool:
		n.text, n.scalar = fmt.Sprint(t), boolScalar
	default:
		n.kind = nullNode
	}
	return n, nil
}

// inside reads a list or mapping up to its closing delimiter.
func (b *jsonBuilder) inside(n *node, opening json.Delim, depth int) error {
	n.kind = listNode
	if opening == '{' {
		n.kind = mapNode
	}
	for b.decoder.More() {
		key := ""
		if n.kind == mapNode {
			token, err := b.decoder.Token()
			if err != nil {
				return errors.New("is not valid JSON")
			}
			key, _ = token.(string)
		}
		v, err := b.value(depth + 1)
		if err != nil {
			return err
		}
		if n.kind == mapNode {
			n.entries = append(n.entries, entry{key, b.place, v})
		} else {
			n.items = append(n.items, v)
		}
	}
	_, err := b.decoder.Token()
	return err
}
