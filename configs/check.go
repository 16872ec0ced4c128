package configs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// checker judges the nodes of one layer against the option table. It turns them into plain values for layering, writes
// down where each came from, and collects the problems. It belongs to one call of Load.
type checker struct {
	origins  map[string]Place
	problems []Problem
}

// entryAt returns one index of a list as it stands in paths.
func entryAt(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func (c *checker) problem(at Place, format string, args ...any) {
	c.problems = append(c.problems, Problem{at, fmt.Sprintf(format, args...)})
}

// document judges a whole file.
func (c *checker) document(root *node) map[string]any {
	tree := map[string]any{}
	if root == nil || root.kind == nullNode {
		return tree
	}
	if root.kind != mapNode {
		c.problem(root.place, "the file must be a mapping of sections (%s), not %s", quoteAll(sections), root.describe())
		return tree
	}
	for _, e := range c.distinct("the file", root.entries) {
		switch {
		case !slices.Contains(sections, e.key):
			c.problem(e.place, "unknown section %s; nearest known: %s", show(e.key), c.nearestSection(e.key))
		case e.value.kind == nullNode: // every line of the section commented out
		case isList(e.key):
			tree[e.key] = c.list(e.key, e.value)
		default:
			tree[e.key] = c.section(e.key, e.value)
		}
	}
	return tree
}

// nearestSection also helps with a setting written outside its section.
func (c *checker) nearestSection(key string) string {
	if home := homeOf(foldKey(key)); home != "" {
		return `"` + table.byKey[home][foldKey(key)].Path() + `"`
	}
	return `"` + Nearest(key, sections) + `"`
}

// homeOf returns the section that a key belongs to: one of the process before a list, whose overrides repeat capacity's.
func homeOf(key string) string {
	home := ""
	for _, section := range sections {
		if table.byKey[section][key] != nil && (home == "" || isList(home)) {
			home = section
		}
	}
	return home
}

// distinct tells keys that are written twice and returns the first of each.
func (c *checker) distinct(where string, entries []entry) []entry {
	first := map[string]Place{}
	var kept []entry
	for _, e := range entries {
		if at, twice := first[e.key]; twice {
			before := ""
			if at.Line > 0 {
				before = fmt.Sprintf(", first on line %d", at.Line)
			}
			c.problem(e.place, "%s is written twice in %s%s: keep one", show(e.key), where, before)
			continue
		}
		first[e.key] = e.place
		kept = append(kept, e)
	}
	return kept
}

func (c *checker) section(section string, n *node) map[string]any {
	if n.kind != mapNode {
		c.problem(n.place, "%s must be a mapping of settings, not %s", section, n.describe())
		return nil
	}
	return c.settings(section, section, n)
}

// list judges databases, users or routes, each of whose entries is a mapping.
func (c *checker) list(section string, n *node) []any {
	if n.kind != listNode {
		c.problem(n.place, "%s must be a list of entries, not %s", section, n.describe())
		return nil
	}
	if most := maxEntries(section); len(n.items) > most {
		c.problem(n.place, "%s has %d entries; at most %d", section, len(n.items), most)
		return nil
	}
	c.origins[section] = n.place
	entries := make([]any, 0, len(n.items))
	names := map[string]Place{}
	for i, item := range n.items {
		path := entryAt(section, i)
		if item.kind != mapNode {
			c.problem(item.place, "%s must be a mapping of settings, not %s", path, item.describe())
			continue
		}
		c.origins[path] = item.place
		before := len(c.problems)
		values := c.settings(section, path, item)
		c.required(section, path, item, values)
		if section == sectionRoutes && len(c.problems) == before {
			c.hasPurpose(path, item, values)
		}
		if name, _ := values["name"].(string); name != "" {
			if at, twice := names[name]; twice {
				c.problem(c.origins[path+".name"], "%s has a second entry for %s (the first: %s): keep one", section, show(name), at)
			} else {
				names[name] = c.origins[path+".name"]
			}
		}
		entries = append(entries, values)
	}
	return entries
}

// maxEntries bounds a list. Rules are tried one after the other, so there are fewer of them.
func maxEntries(section string) int {
	if section == sectionRoutes {
		return 1000
	}
	return 10_000
}

// hasPurpose tells a route rule that says neither what it is for nor what it is called.
func (c *checker) hasPurpose(path string, n *node, values map[string]any) {
	name, _ := values["name"].(string)
	match, _ := values["match"].(map[string]any)
	for _, part := range match {
		if texts, ok := part.([]any); ok && len(texts) > 0 {
			return
		}
	}
	if name == "" {
		c.problem(n.place, "%s has neither a match nor a name: name what it is for; settings for every route stand in capacity", path)
	}
}

func (c *checker) required(section, path string, n *node, values map[string]any) {
	for _, o := range table.rows[section] {
		if !o.Required {
			continue
		}
		written := slices.ContainsFunc(n.entries, func(e entry) bool { return e.key == o.Key })
		if _, ok := values[o.Key]; !ok && !written {
			c.problem(n.place, "%s has no %s: every entry needs one", path, o.Key)
		}
	}
}

// settings judges the keys of one section or entry.
func (c *checker) settings(section, path string, n *node) map[string]any {
	values := map[string]any{}
	for _, e := range c.distinct(path, n.entries) {
		o := table.byKey[section][e.key]
		if o == nil {
			c.unknownKey(section, path, e)
			continue
		}
		full := path + "." + e.key
		if v, ok := c.value(o, full, e.value); ok {
			values[e.key] = v
			c.origins[full] = e.value.place
		}
	}
	return values
}

func (c *checker) unknownKey(section, path string, e entry) {
	key := foldKey(e.key)
	if o := table.byKey[sectionCapacity][key]; o != nil && isList(section) && table.byKey[section][key] == nil {
		if o.Scope == ScopeProcess {
			c.problem(e.place, "%s holds for the whole process and cannot be set in %s: set capacity.%s", key, path, key)
		} else {
			c.problem(e.place, "%s holds for whole pools and cannot be set in %s: set it in capacity, databases or users", key, path)
		}
		return
	}
	if home := nestedHome(section, path, key); home != "" {
		c.problem(e.place, "unknown key %s in %s; it belongs to %s", show(e.key), path, home)
		return
	}
	if home := homeOf(key); home != "" && table.byKey[section][key] == nil {
		c.problem(e.place, "unknown key %s in %s; it belongs to %s", show(e.key), path, home)
		return
	}
	known := slices.Sorted(maps.Keys(table.byKey[section]))
	c.problem(e.place, "unknown key %s in %s; nearest known key: %q", show(e.key), path, Nearest(e.key, known))
}

// nestedHome returns the path that a key belongs to which stands beside its group instead of inside, or inside instead of
// beside; empty when that is not its mistake.
func nestedHome(section, path, key string) string {
	if list, group, nested := strings.Cut(section, "."); nested && table.byKey[list][key] != nil {
		return strings.TrimSuffix(path, "."+group)
	}
	for _, o := range table.rows[section] {
		if o.Kind == KindGroup && table.byKey[section][key] == nil && table.byKey[o.group()][key] != nil {
			return path + "." + o.Key
		}
	}
	return ""
}
