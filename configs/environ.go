package configs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// envPrefix begins the name of every variable that is a setting.
const envPrefix = "PG_KINETIC_"

// serviceVariable matches what container platforms set in every process for a service named pg-kinetic (or pg-kinetic-…):
// PG_KINETIC_SERVICE_HOST, PG_KINETIC_PORT_6432_TCP_ADDR and so on. They are nobody's typing error. PG_KINETIC_PORT itself
// is told from a setting by its value, a URL.
var (
	serviceVariable = regexp.MustCompile(`^PG_KINETIC_([A-Z0-9]+_)*(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	servicePort     = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// variables returns the environment by name; the last of two wins, as in the C library's putenv.
func variables(environ []string) map[string]string {
	byName := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			byName[name] = value
		}
	}
	return byName
}

// environment judges every variable with our prefix. Those whose names are in passwords hold a password for an entry and
// are no settings.
func (c *checker) environment(byName map[string]string, passwords map[string]bool) map[string]any {
	tree := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		value := byName[name]
		if !strings.HasPrefix(name, envPrefix) || passwords[name] || isServiceVariable(name, value) {
			continue
		}
		place := Place{Source: SourceEnv, Name: name}
		if list := listOfEnv(name); list != "" {
			if entries, ok := c.jsonList(list, value, place); ok {
				tree[list] = entries
			}
			continue
		}
		o := optionOfEnv(name)
		if o == nil {
			c.problem(place, "no such setting; nearest known variable: %s", Nearest(name, envNames()))
			continue
		}
		c.assign(tree, o, []string{value}, place)
	}
	return tree
}

func isServiceVariable(name, value string) bool {
	if strings.Contains(name, "__") {
		return false
	}
	return serviceVariable.MatchString(name) || strings.HasSuffix(name, "_PORT") && servicePort.MatchString(value)
}

func listOfEnv(name string) string {
	for _, section := range sections {
		if isList(section) && name == envName(section) {
			return section
		}
	}
	return ""
}

func optionOfEnv(name string) *Option {
	for _, o := range processOptions() {
		if o.Env() == name {
			return o
		}
	}
	return nil
}

func envNames() []string {
	var names []string
	for _, o := range processOptions() {
		names = append(names, o.Env())
	}
	for _, section := range sections {
		if isList(section) {
			names = append(names, envName(section))
		}
	}
	return names
}

// processOptions are the rows that have a flag and a variable of their own.
func processOptions() []*Option {
	var rows []*Option
	for _, section := range sections {
		if !isList(section) {
			rows = append(rows, table.rows[section]...)
		}
	}
	return rows
}

// jsonList judges the JSON of a list variable. With problems it returns what is sound, and false.
func (c *checker) jsonList(section, text string, place Place) ([]any, bool) {
	n, err := parseJSON(text, place)
	if err != nil {
		c.problem(place, "%s %s: it takes a list of objects, such as [{\"name\":\"app\"}]", section, err)
		return nil, false
	}
	before := len(c.problems)
	return c.list(section, n), len(c.problems) == before
}

// assign judges a value that came as text and puts it into a layer. A list of texts may be given several times, with
// commas, or as JSON.
func (c *checker) assign(tree map[string]any, o *Option, texts []string, place Place) {
	n := &node{place: place, scalar: rawScalar, text: texts[len(texts)-1]}
	if o.Kind == KindStrings {
		n = &node{place: place, kind: listNode}
		for _, text := range texts {
			items, err := rawList(text, place)
			if err != nil {
				c.problem(place, "%s %s: it takes texts with commas between them, or a JSON list", o.Path(), err)
				return
			}
			n.items = append(n.items, items...)
		}
	}
	v, ok := c.value(o, o.Path(), n)
	if !ok {
		return
	}
	section, _ := tree[o.Section].(map[string]any)
	if section == nil {
		section = map[string]any{}
		tree[o.Section] = section
	}
	section[o.Key] = v
	c.origins[o.Path()] = place
}

// rawList splits a list of texts. A text that begins with [" is JSON; "[::1]:6432" is not.
func rawList(text string, place Place) ([]*node, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(text, `["`) || text == "[]" {
		n, err := parseJSON(text, place)
		if err != nil {
			return nil, err
		}
		return n.items, nil
	}
	var items []*node
	for _, part := range strings.Split(text, ",") {
		items = append(items, &node{place: place, scalar: rawScalar, text: strings.TrimSpace(part)})
	}
	return items, nil
}
