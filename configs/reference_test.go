package configs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
	"name":               `"app"`,
	"pool_mode":          "session",
	"max_clients":        "500",
	"startup_parameters": `{search_path: "app, public"}`,
}

func renderSample() string {
	var b strings.Builder
	b.WriteString(`# pg-kinetic, every setting at its default. What is commented out has no default; the values there are examples.
# Meaning, bounds, variables and flags: docs/configuration.md. Check a file with: pg-kinetic check --config FILE
# Written from the option table by "go generate ./configs".
`)
	for _, section := range sections {
		b.WriteByte('\n')
		if !isList(section) {
			fmt.Fprintf(&b, "%s:\n", section)
			for _, o := range table.rows[section] {
				comment(&b, "  ", o.Doc+".")
				fmt.Fprintf(&b, "  %s: %s\n", o.Key, defaultText(o))
			}
			continue
		}
		renderSampleList(&b, section)
	}
	return b.String()
}

// renderSampleList writes databases with the entry that holds without any, and users, which are none, as an example.
func renderSampleList(b *strings.Builder, section string) {
	live := section == sectionDatabases
	if live {
		fmt.Fprintf(b, "%s:\n", section)
	} else {
		fmt.Fprintf(b, "%s: []\n  # An entry:\n", section)
	}
	dash, overrides := "- ", []string{}
	for _, o := range table.rows[section] {
		if table.byKey[sectionCapacity][o.Key] != nil {
			overrides = append(overrides, o.Key)
			continue
		}
		if live {
			comment(b, "    ", o.Doc+".")
		} else {
			comment(b, "  # ", o.Doc+".")
		}
		switch {
		case !live:
			fmt.Fprintf(b, "  # %s%s: %s\n", dash, o.Key, entryExamples[o.Key])
		case o.Required:
			fmt.Fprintf(b, "  %s%s: \"*\"\n", dash, o.Key)
		case o.Default != nil:
			fmt.Fprintf(b, "  %s%s: %s\n", dash, o.Key, defaultText(o))
		default:
			fmt.Fprintf(b, "  %s# %s: %s\n", dash, o.Key, entryExamples[o.Key])
		}
		dash = "  "
	}
	indent := "    "
	if !live {
		indent = "  # "
	}
	comment(b, indent, "These settings of capacity may stand here too and go before it: "+strings.Join(overrides, ", ")+".")
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
		for _, o := range table.rows[section] {
			if isList(section) && table.byKey[sectionCapacity][o.Key] != nil {
				continue
			}
			text := defaultText(o)
			if text != "" {
				text = "`" + text + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s | %s |\n",
				o.Key, kindText(o), text, allowedText(o), scopeText(o.Scope), o.Since, strings.ReplaceAll(o.Doc, "|", `\|`))
		}
		if isList(section) {
			fmt.Fprintf(&b, "\nBeside these, every setting of `capacity` whose levels name %s.\n", strings.TrimSuffix(section, "s"))
		}
	}
	return b.String()
}

func kindText(o *Option) string {
	return [...]string{"integer", "boolean", "text", "word", "size", "octal mode", "SQLSTATE", "list of texts", "mapping of texts"}[o.Kind]
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
	case KindStrings, KindMap:
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
	}{{ScopeProcess, "process"}, {ScopeDatabase, "database"}, {ScopeUser, "user"}} {
		if s&level.scope != 0 {
			levels = append(levels, level.name)
		}
	}
	return strings.Join(levels, ", ")
}
