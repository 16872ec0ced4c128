package configs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The reference page and the annotated sample are written from the option table by this test with -update (go generate),
// and compared with it by every other run.
var update = flag.Bool("update", false, "write the generated files instead of comparing them")

const (
	samplePath    = "pg-kinetic.yaml"
	minimalPath   = "pg-kinetic.minimal.yaml"
	referencePath = "../docs/configuration.md"
)

func TestGeneratedFiles(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		path = filepath.FromSlash(path)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s does not match the option table: run go generate ./configs", path)
		}
	}
	f(samplePath, renderSample())
	f(referencePath, renderReference(t))
}

// entryExamples are values for settings of entries that have no default; the sample shows them commented out.
var entryExamples = map[string]string{
	"databases[].pool_mode":           "session",
	"databases[].max_clients":         "500",
	"databases[].startup_parameters":  `{search_path: "app, public"}`,
	"users[].name":                    `"app"`,
	"users[].pool_mode":               "session",
	"users[].max_clients":             "500",
	"routes[].name":                   `"api"`,
	"routes[].match.database":         `"app"`,
	"routes[].match.user":             `["web", "web_*"]`,
	"routes[].match.application_name": `"api-*"`,
	"routes[].match.client_addr":      `["10.0.0.0/8", "unix"]`,
	"routes[].match.query_class":      `["read", "default"]`,
	"routes[].split_by":               `["client_addr"]`,
}

// sampleValues are settings that are not at their default in the sample, which is to work as it is.
var sampleValues = map[string]struct{ value, why string }{
	"auth.method": {string(AuthTrust), "The default is `scram-sha-256`, which needs `users_file` or `auth_query`. This file has neither, so that it can be tried as it is: whoever reaches a `listen` address comes in."},
}

// examples are the lists that have no entry in the sample, each with the line above its example, and the overrides in it.
var examples = map[string]struct{ intro, overrides string }{
	sectionUsers: {"An entry:", ""},
	sectionRoutes: {
		"An entry, by which at most 8 requests of the whole API run at the same time in each pool and 4 more wait, whichever of its clients they come from:",
		"max_route_in_flight: 8\nmax_route_waiters: 4",
	},
}

// aside are the settings that the example of a route leaves out: shown as comments within it.
var aside = map[string]bool{
	"routes[].match.database": true, "routes[].match.user": true, "routes[].match.client_addr": true,
	"routes[].match.query_class": true, "routes[].split_by": true,
}

func renderSample() string {
	var b strings.Builder
	b.WriteString(`# pg-kinetic, every setting at its default, auth.method excepted. What is commented out has no default; the values there are examples.
# Meaning, bounds, variables and flags: docs/configuration.md. Check a file with: pg-kinetic check --config FILE
# Written from the option table by "go generate ./configs".
`)
	for _, section := range sections {
		b.WriteByte('\n')
		if !isList(section) {
			fmt.Fprintf(&b, "%s:\n", section)
			for _, o := range table.rows[section] {
				value := defaultText(o)
				comment(&b, "  ", o.Doc+".")
				if other, ok := sampleValues[o.Path()]; ok {
					value = other.value
					comment(&b, "  ", other.why)
				}
				fmt.Fprintf(&b, "  %s: %s\n", o.Key, value)
			}
			continue
		}
		renderSampleList(&b, section)
	}
	return b.String()
}

// renderSampleList writes databases with the entry that holds without any, and the other lists, which are empty, with an
// entry as an example.
func renderSampleList(b *strings.Builder, section string) {
	if section != sectionDatabases {
		fmt.Fprintf(b, "%s: []\n", section)
		var example strings.Builder
		renderExample(&example, section)
		comment(b, "  ", examples[section].intro)
		for line := range strings.Lines(example.String()) {
			b.WriteString("  # " + line)
		}
		return
	}
	fmt.Fprintf(b, "%s:\n", section)
	dash := "- "
	for _, o := range entryRows(section) {
		comment(b, "    ", o.Doc+".")
		switch {
		case o.Required:
			fmt.Fprintf(b, "  %s%s: \"*\"\n", dash, o.Key)
		case o.Default != nil:
			fmt.Fprintf(b, "  %s%s: %s\n", dash, o.Key, defaultText(o))
		default:
			fmt.Fprintf(b, "  %s# %s: %s\n", dash, o.Key, entryExamples[o.Path()])
		}
		dash = "  "
	}
	comment(b, "    ", overridesText(section))
}

// renderExample writes an entry as it would stand in the file.
func renderExample(b *strings.Builder, section string) {
	indent, dash := "", "- "
	for _, o := range entryRows(section) {
		comment(b, indent, o.Doc+".")
		renderExampleRow(b, o, dash)
		indent, dash = "  ", "  "
		if o.Kind == KindGroup {
			for _, inner := range table.rows[o.group()] {
				comment(b, "    ", inner.Doc+".")
				renderExampleRow(b, inner, "    ")
			}
		}
	}
	comment(b, indent, overridesText(section))
	for line := range strings.Lines(examples[section].overrides) {
		b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
}

func renderExampleRow(b *strings.Builder, o *Option, indent string) {
	value := entryExamples[o.Path()]
	if value == "" {
		value = defaultText(o)
	}
	key := o.Key + ":"
	if aside[o.Path()] {
		key = "# " + key
	}
	b.WriteString(strings.TrimRight(indent+key+" "+value, " ") + "\n")
}

// entryRows returns the rows of a list without the overrides of capacity.
func entryRows(section string) []*Option {
	return slices.DeleteFunc(slices.Clone(table.rows[section]), isOverride)
}

func isOverride(o *Option) bool {
	return isList(o.Section) && table.byKey[sectionCapacity][o.Key] != nil
}

func overridesText(section string) string {
	var keys []string
	for _, o := range table.rows[section] {
		if isOverride(o) {
			keys = append(keys, o.Key)
		}
	}
	return "These settings of capacity may stand here too and go before it: " + strings.Join(keys, ", ") + "."
}

// comment writes a text as comment lines of at most 110 columns.
func comment(b *strings.Builder, indent, text string) {
	line := indent + "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 110 && line != indent+"#" {
			b.WriteString(line + "\n")
			line = indent + "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// defaultText writes a row's default as a YAML value; empty without one.
func defaultText(o *Option) string {
	switch v := o.Default.(type) {
	case nil:
		return ""
	case []any:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = fmt.Sprintf("%q", v[i])
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case int64:
		if o.Kind == KindSize {
			return fmt.Sprintf("%q", formatSize(v))
		}
		return fmt.Sprint(v)
	case string:
		if o.Kind == KindEnum {
			return v
		}
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprint(v)
	}
}

func renderReference(t *testing.T) string {
	t.Helper()
	intro, err := os.ReadFile(filepath.Join("testdata", "reference_intro.md"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(intro)
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n", section)
		b.WriteString("| setting | type | default | allowed | levels | since | meaning |\n|---|---|---|---|---|---|---|\n")
		for _, o := range entryRows(section) {
			renderRow(&b, o.Key, o)
			if o.Kind == KindGroup {
				for _, inner := range table.rows[o.group()] {
					renderRow(&b, o.Key+"."+inner.Key, inner)
				}
			}
		}
		if isList(section) {
			fmt.Fprintf(&b, "\nBeside these, every setting of `capacity` whose levels name %s.\n", strings.TrimSuffix(section, "s"))
		}
	}
	return b.String()
}

func renderRow(b *strings.Builder, key string, o *Option) {
	text := defaultText(o)
	if text != "" {
		text = "`" + text + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s | %s |\n",
		key, kindText(o), text, allowedText(o), scopeText(o.Scope), o.Since, strings.ReplaceAll(o.Doc, "|", `\|`))
}

func kindText(o *Option) string {
	if o.OneText {
		return "text or list of texts"
	}
	return [...]string{"integer", "boolean", "text", "word", "size", "octal mode", "SQLSTATE", "list of texts", "mapping of texts", "mapping of settings"}[o.Kind]
}

func allowedText(o *Option) string {
	switch o.Kind {
	case KindInt:
		return fmt.Sprintf("%d to %d", o.Min, o.Max)
	case KindSize:
		return formatSize(o.Min) + " to " + formatSize(o.Max)
	case KindBool:
		return "true, false"
	case KindEnum:
		return strings.Join(o.Enum, ", ")
	case KindGroup:
		return "the settings below"
	case KindStrings, KindMap:
		if o.Enum != nil {
			return "any of " + strings.Join(o.Enum, ", ")
		}
		return fmt.Sprintf("at most %d, each at most %d bytes", o.MaxItems, o.MaxLen)
	case KindOctal:
		return "three octal digits, with or without a 0 before them"
	case KindSQLState:
		return "five of 0-9 A-Z"
	default:
		if o.check != nil && o.check("") != nil {
			return fmt.Sprintf("1 to %d bytes", o.MaxLen)
		}
		return fmt.Sprintf("at most %d bytes", o.MaxLen)
	}
}

func scopeText(s Scope) string {
	var levels []string
	for _, level := range []struct {
		scope Scope
		name  string
	}{{ScopeProcess, "process"}, {ScopeDatabase, "database"}, {ScopeUser, "user"}, {ScopeRoute, "route"}} {
		if s&level.scope != 0 {
			levels = append(levels, level.name)
		}
	}
	return strings.Join(levels, ", ")
}

// What the sample shows as an example works when its comment signs are taken away.
func TestSampleExamplesAreValid(t *testing.T) {
	sample, err := os.ReadFile(samplePath)
	if err != nil {
		t.Fatal(err)
	}
	f := func(section string) *Config {
		t.Helper()
		_, text, found := strings.Cut(string(sample), "\n"+section+": []\n")
		text, _, _ = strings.Cut(text, "\n\n")
		var lines []string
		for line := range strings.Lines(text + "\n") {
			lines = append(lines, strings.TrimPrefix(line, "  # "))
		}
		entry := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "- ") })
		if !found || entry < 0 {
			t.Fatalf("no example of %s in the sample", section)
		}
		c, o := mustLoad(t, write(t, "example.yaml", section+":\n"+strings.Join(lines[entry:], "")), nil, nil)
		if warnings := Warnings(c, o, 0); len(warnings) > 0 {
			t.Errorf("%s: %v", section, warnings)
		}
		return c
	}
	if c := f(sectionUsers); len(c.Users) != 1 || c.Users[0].PoolMode != PoolModeSession {
		t.Errorf("users: %+v", c.Users)
	}
	c := f(sectionRoutes)
	if len(c.Routes) != 1 || *c.Routes[0].MaxRouteInFlight != 8 || !slices.Equal(c.Routes[0].Match.ApplicationName, []string{"api-*"}) {
		t.Errorf("routes: %+v", c.Routes)
	}
}

// The files that the reference page shows are valid and have no warning.
func TestReferenceExamplesAreValid(t *testing.T) {
	page, err := os.ReadFile(filepath.FromSlash(referencePath))
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, block := range regexp.MustCompile("(?ms)^ *```(yaml|toml)\n(.*?)^ *```$").FindAllSubmatch(page, -1) {
		text := string(block[2])
		if indent := len(text) - len(strings.TrimLeft(text, " ")); indent > 0 { // within a list of the page
			text = strings.ReplaceAll("\n"+text, "\n"+strings.Repeat(" ", indent), "\n")
		}
		c, o := mustLoad(t, write(t, "example."+string(block[1]), text), nil, nil)
		if warnings := Warnings(c, o, 0); len(warnings) > 0 {
			t.Errorf("%v in\n%s", warnings, text)
		}
		examples++
	}
	if examples < 5 {
		t.Errorf("%d examples found", examples)
	}
}
