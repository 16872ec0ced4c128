package configs

import (
	"slices"
	"strings"
)

// The option table: one row per setting. Validation, the flags and variables, the printed settings, the sample file and
// the reference page all follow from it. The rows are in options_rows.go and the other options_*.go; nothing changes them after initialisation.

// Kind is the type of a setting's value.
type Kind uint8

// The kinds. Size is a number of bytes or a text such as "256MiB"; Octal a file mode; SQLState five of 0-9 A-Z; Strings a
// list of texts; Map texts by name; Group a mapping of settings that have rows of their own, in the section named
// "section.key".
const (
	KindInt Kind = iota
	KindBool
	KindString
	KindEnum
	KindSize
	KindOctal
	KindSQLState
	KindStrings
	KindMap
	KindGroup
)

// Scope is a set of the levels at which a setting may be written.
type Scope uint8

// The levels: once for the process, per entry of databases, of users, of routes.
const (
	ScopeProcess Scope = 1 << iota
	ScopeDatabase
	ScopeUser
	ScopeRoute
)

// Option is one row of the table.
type Option struct {
	Section  string // server, databases, …
	Key      string
	Kind     Kind
	Default  any   // in the type of the Config field; nil: not set
	Min, Max int64 // KindInt and KindSize: the bounds, both included
	MaxLen   int   // texts and the texts of a list: bytes
	MaxItems int   // KindStrings and KindMap
	Enum     []string
	OneText  bool // KindStrings: a single text stands for a list of it
	Scope    Scope
	Since    string // the version that brought it
	Required bool   // in each entry of its list
	Secret   bool   // its value is never printed
	Doc      string // what it means, one or two sentences without a full stop at the end

	// check judges one text, or each text of a list; its error continues "path …" and does not repeat the text.
	check func(string) error
}

const (
	sectionServer    = "server"
	sectionDatabases = "databases"
	sectionUsers     = "users"
	sectionCapacity  = "capacity"
	sectionAdmission = "admission"
	sectionRoutes    = "routes"
	sectionMatch     = sectionRoutes + ".match" // a group
	sectionAuth      = "auth"
	sectionTLS       = "tls"
	sectionAdmin     = "admin"
	sectionLog       = "log"
	sectionReload    = "reload"
	sectionDrain     = "drain"
	sectionReaper    = "reaper"
)

// sections is the order in which they are printed and documented.
var sections = []string{
	sectionServer, sectionDatabases, sectionUsers, sectionCapacity, sectionAdmission, sectionRoutes,
	sectionAuth, sectionTLS, sectionAdmin, sectionLog, sectionReload, sectionDrain, sectionReaper,
}

// isList reports whether a section is a list of entries, which has no flags and one variable.
func isList(section string) bool { return slices.Contains(lists, section) }

// lists are the sections that are lists.
var lists = []string{sectionDatabases, sectionUsers, sectionRoutes}

// Path returns the setting's full name, such as server.max_clients, databases[].name or routes[].match.user.
func (o *Option) Path() string {
	section, group, nested := strings.Cut(o.Section, ".")
	if isList(section) {
		section += "[]"
	}
	if nested {
		section += "." + group
	}
	return section + "." + o.Key
}

// Flag returns the name of the setting's flag without dashes, such as server.max-clients.
func (o *Option) Flag() string { return strings.ReplaceAll(o.Path(), "_", "-") }

// Env returns the name of the setting's environment variable.
func (o *Option) Env() string { return envName(o.Path()) }

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "__"))
}

// table holds every row, those of capacity also under the lists that may override them.
var table = newOptionTable()

type optionTable struct {
	rows  map[string][]*Option          // by section, in order
	byKey map[string]map[string]*Option // by section and key
}

func newOptionTable() *optionTable {
	t := &optionTable{rows: map[string][]*Option{}, byKey: map[string]map[string]*Option{}}
	for _, group := range [][]Option{serverOptions, databaseOptions, userOptions, capacityOptions, admissionOptions, routeOptions, matchOptions, authOptions, tlsOptions, adminOptions, operationOptions} {
		for i := range group {
			t.add(&group[i])
		}
	}
	for i := range capacityOptions {
		o := &capacityOptions[i]
		if o.Scope&ScopeDatabase != 0 {
			t.add(o.overrideIn(sectionDatabases))
		}
		if o.Scope&ScopeUser != 0 {
			t.add(o.overrideIn(sectionUsers))
		}
		if o.Scope&ScopeRoute != 0 {
			t.add(o.overrideIn(sectionRoutes))
		}
	}
	return t
}

func (t *optionTable) add(o *Option) {
	if o.Since == "" {
		o.Since = firstVersion
	}
	t.rows[o.Section] = append(t.rows[o.Section], o)
	if t.byKey[o.Section] == nil {
		t.byKey[o.Section] = map[string]*Option{}
	}
	t.byKey[o.Section][o.Key] = o
}

// overrideIn returns the row of a capacity setting as it stands in an entry of a list: the same, but not set by default.
func (o *Option) overrideIn(list string) *Option {
	row := *o
	row.Section = list
	row.Default = nil
	return &row
}

// firstVersion is the version that brought every setting which does not say otherwise.
const firstVersion = "0.1.0"

// Options returns the table's rows in the order of the documentation, those of a group behind it. The rows are shared: read
// only.
func Options() []*Option {
	var all []*Option
	for _, section := range sections {
		for _, o := range table.rows[section] {
			all = append(all, o)
			if o.Kind == KindGroup {
				all = append(all, table.rows[o.group()]...)
			}
		}
	}
	return all
}

// group returns the section that has the rows of a group's settings.
func (o *Option) group() string { return o.Section + "." + o.Key }

// defaults returns the lowest layer: every process-wide setting at its default. Lists are added after layering, because
// an entry's defaults apply to entries from any layer.
func defaults() map[string]any {
	tree := map[string]any{}
	for _, section := range sections {
		if isList(section) {
			continue
		}
		values := map[string]any{}
		for _, o := range table.rows[section] {
			values[o.Key] = o.Default
		}
		tree[section] = values
	}
	return tree
}

// defaultDatabases stands for databases where no layer has any.
func defaultDatabases() []any { return []any{map[string]any{"name": AnyDatabase}} }

// fillEntry gives an entry of a list the defaults of what it does not set.
func fillEntry(section string, entry map[string]any) {
	for _, o := range table.rows[section] {
		if _, set := entry[o.Key]; !set && o.Default != nil {
			entry[o.Key] = o.Default
		}
	}
}
