package configs

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// value judges one value by its row and returns it in the type of the Config field's layer: int64, bool, string, []any of
// strings, map[string]any of strings, or (a group) map[string]any of such values.
func (c *checker) value(o *Option, path string, n *node) (any, bool) {
	if n.kind == nullNode {
		c.problem(n.place, "%s has no value: give it one or remove the line", path)
		return nil, false
	}
	switch o.Kind {
	case KindStrings:
		return c.strings(o, path, n)
	case KindMap:
		return c.texts(o, path, n)
	case KindGroup:
		return c.group(o, path, n)
	}
	if n.kind != scalarNode {
		c.problem(n.place, "%s must be %s, not %s", path, o.expects(), n.describe())
		return nil, false
	}
	v, err := o.scalar(n)
	if err != nil {
		c.problem(n.place, "%s %s", path, err)
		return nil, false
	}
	return v, true
}

// expects names what a value of the row must be.
func (o *Option) expects() string {
	switch o.Kind {
	case KindInt:
		if strings.HasSuffix(o.Key, "_ms") {
			return "a whole number of milliseconds"
		}
		return "a whole number"
	case KindBool:
		return "true or false"
	case KindEnum:
		return "one of " + quoteAll(o.Enum)
	case KindSize:
		return `a size such as "256MiB" or a number of bytes`
	case KindOctal:
		return `an octal mode such as "0777"`
	case KindSQLState:
		return `five of 0-9 and A-Z, such as "53300"`
	case KindStrings:
		if o.OneText {
			return "a text or a list of texts"
		}
		return "a list of texts"
	case KindMap:
		return "a mapping of names to texts"
	case KindGroup:
		return "a mapping of settings"
	default:
		return "a text"
	}
}

// scalar judges a scalar. The error continues "path …".
func (o *Option) scalar(n *node) (any, error) {
	switch o.Kind {
	case KindInt:
		return o.integer(n)
	case KindSize:
		return o.size(n)
	case KindBool:
		if n.text == "true" || n.text == "false" {
			if n.scalar == boolScalar || n.scalar == rawScalar {
				return n.text == "true", nil
			}
		}
		return nil, fmt.Errorf("must be true or false, not %s", o.shown(n))
	case KindEnum:
		for _, v := range o.Enum {
			if n.text == v {
				return v, nil
			}
		}
		return nil, o.notAmong(n.text)
	case KindOctal:
		if !octalMode.MatchString(n.text) {
			return nil, fmt.Errorf("must be %s, not %s", o.expects(), o.shown(n))
		}
		return n.text, nil
	case KindSQLState:
		if !sqlState.MatchString(n.text) {
			return nil, fmt.Errorf("must be %s, not %s", o.expects(), o.shown(n))
		}
		return n.text, nil
	default:
		return o.oneText(n)
	}
}

var (
	octalMode = regexp.MustCompile(`^0?[0-7]{3}$`)
	sqlState  = regexp.MustCompile(`^[0-9A-Z]{5}$`)
	decimal   = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*(_[0-9]+)*)$`)
	byteSize  = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]+)$`)
)

func (o *Option) integer(n *node) (any, error) {
	if n.scalar == textScalar || n.scalar == boolScalar || n.scalar == specialScalar || !decimal.MatchString(n.text) {
		if d, err := time.ParseDuration(n.text); err == nil && strings.HasSuffix(o.Key, "_ms") {
			return nil, fmt.Errorf("must be %s: write %d, not %s", o.expects(), d.Milliseconds(), o.shown(n))
		}
		if n.scalar == textScalar && decimal.MatchString(n.text) {
			return nil, fmt.Errorf("must be %s: write %s without quotes", o.expects(), n.text)
		}
		return nil, fmt.Errorf("must be %s in decimal digits, not %s", o.expects(), o.shown(n))
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.text, "_", ""), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("must be from %d to %d, not %s", o.Min, o.Max, o.shown(n))
	}
	return o.bounded(v)
}

func (o *Option) bounded(v int64) (any, error) {
	if v < o.Min || v > o.Max {
		return nil, fmt.Errorf("must be from %d to %d, not %d", o.Min, o.Max, v)
	}
	return v, nil
}

// units are powers of 1024 only: MB means two things, and PostgreSQL's is not everybody's.
var units = map[string]int64{"B": 1, "KiB": kib, "MiB": mib, "GiB": gib, "TiB": tib}

func (o *Option) size(n *node) (any, error) {
	if decimal.MatchString(n.text) && n.scalar != boolScalar && n.scalar != specialScalar {
		v, err := strconv.ParseInt(strings.ReplaceAll(n.text, "_", ""), 10, 64)
		if err != nil {
			v = math.MaxInt64
		}
		return o.boundedSize(v, n)
	}
	m := byteSize.FindStringSubmatch(n.text)
	if m == nil || n.scalar != textScalar && n.scalar != rawScalar {
		return nil, fmt.Errorf("must be %s, not %s", o.expects(), o.shown(n))
	}
	unit, ok := units[m[2]]
	if !ok {
		return nil, fmt.Errorf("has an unknown unit in %s: use B, KiB, MiB, GiB or TiB", o.shown(n))
	}
	v, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || v > math.MaxInt64/unit {
		v, unit = math.MaxInt64, 1
	}
	return o.boundedSize(v*unit, n)
}

func (o *Option) boundedSize(v int64, n *node) (any, error) {
	if v < o.Min || v > o.Max {
		return nil, fmt.Errorf("must be from %s to %s, not %s", formatSize(o.Min), formatSize(o.Max), o.shown(n))
	}
	return v, nil
}

// formatSize writes bytes in the largest unit that needs no fraction.
func formatSize(v int64) string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if v >= units[unit] && v%units[unit] == 0 {
			return strconv.FormatInt(v/units[unit], 10) + unit
		}
	}
	return strconv.FormatInt(v, 10)
}

// oneText judges a text. A number is none: quotes make it one, and keep 0123 or 1e3 as they are.
func (o *Option) oneText(n *node) (any, error) {
	if n.kind != scalarNode || n.scalar != textScalar && n.scalar != rawScalar {
		return nil, fmt.Errorf("must be a text, not %s: put it in quotes", n.describe())
	}
	if err := o.text(n.text); err != nil {
		return nil, err
	}
	return n.text, nil
}

func (o *Option) text(s string) error {
	if o.MaxLen > 0 && len(s) > o.MaxLen {
		return fmt.Errorf("has %d bytes; at most %d", len(s), o.MaxLen)
	}
	if !utf8.ValidString(s) {
		return errors.New("is not valid UTF-8")
	}
	if strings.ContainsRune(s, 0) {
		return errors.New("has a NUL byte, which PostgreSQL's protocol and the system's paths cannot carry")
	}
	if o.Enum != nil && !slices.Contains(o.Enum, s) {
		return o.notAmong(s)
	}
	if o.check == nil {
		return nil
	}
	return o.check(s)
}

// notAmong is the error for a word that is none of the row's.
func (o *Option) notAmong(word string) error {
	return fmt.Errorf("must be one of %s, not %s; nearest: %q", quoteAll(o.Enum), show(word), Nearest(word, o.Enum))
}

func (c *checker) strings(o *Option, path string, n *node) (any, bool) {
	if o.OneText && n.kind == scalarNode {
		v, err := o.oneText(n)
		if err != nil {
			c.problem(n.place, "%s %s", path, err)
		}
		return []any{v}, err == nil
	}
	if n.kind != listNode {
		remedy := ""
		if n.kind == scalarNode {
			remedy = ": put it in [ ]"
		}
		c.problem(n.place, "%s must be %s, not %s%s", path, o.expects(), n.describe(), remedy)
		return nil, false
	}
	if len(n.items) > o.MaxItems {
		c.problem(n.place, "%s has %d entries; at most %d", path, len(n.items), o.MaxItems)
		return nil, false
	}
	values, sound := make([]any, 0, len(n.items)), true
	seen := map[any]bool{}
	for i, item := range n.items {
		v, err := o.oneText(item)
		switch {
		case err != nil:
			c.problem(item.place, "%s %s", entryAt(path, i), err)
			sound = false
		case seen[v]:
			c.problem(item.place, "%s is there twice: keep one", entryAt(path, i))
			sound = false
		default:
			seen[v] = true
			values = append(values, v)
		}
	}
	return values, sound
}

func (c *checker) texts(o *Option, path string, n *node) (any, bool) {
	if n.kind != mapNode {
		c.problem(n.place, "%s must be %s, not %s", path, o.expects(), n.describe())
		return nil, false
	}
	if len(n.entries) > o.MaxItems {
		c.problem(n.place, "%s has %d entries; at most %d", path, len(n.entries), o.MaxItems)
		return nil, false
	}
	values, sound := map[string]any{}, true
	for _, e := range c.distinct(path, n.entries) {
		v, err := o.oneText(e.value)
		if err == nil {
			err = checkParameter(e.key)
		}
		if err != nil {
			c.problem(e.place, "%s.%s %s", path, cut(e.key), err)
			sound = false
			continue
		}
		values[e.key] = v
	}
	return values, sound
}

// group judges the settings of a mapping inside an entry. What is sound of them stays.
func (c *checker) group(o *Option, path string, n *node) (any, bool) {
	if n.kind != mapNode {
		c.problem(n.place, "%s must be %s, not %s", path, o.expects(), n.describe())
		return nil, false
	}
	return c.settings(o.group(), path, n), true
}

// shown returns a value for a message, or its type where the row or the value itself is secret.
func (o *Option) shown(n *node) string {
	if o.Secret {
		return n.describe()
	}
	return show(n.text)
}

// show quotes a text for a message: cut, and masked when it looks like a URL with a password in it.
func show(s string) string {
	if strings.Contains(s, "@") || strings.Contains(s, "://") {
		return `"` + mask + `"`
	}
	return strconv.Quote(cut(s))
}

func cut(s string) string {
	const longest = 60
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return strings.Join(quoted, ", ")
}
