package console

import (
	"fmt"
	"go/ast"
	goparser "go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgkinetic/admin/view"
)

const page = "../../docs/console.md"

// TestDocumentation: the tables of commands, views and columns in the documentation
// are those of the code.
func TestDocumentation(t *testing.T) {
	documented(t, "commands", commandTable())
	documented(t, "views", viewTable(t))
	documented(t, "columns", columnTables(t))
	documented(t, "parameters", parameterTable())
}

// documented fails unless the page has want in the place of that name.
func documented(t *testing.T, place, want string) {
	t.Helper()
	begin, end := "<!-- "+place+" -->\n", "<!-- /"+place+" -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no place for %s", page, place)
	case got == want:
	case !*update:
		t.Errorf("%s: %s differ from the code: go test ./admin/console -update", page, place)
	default:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func commandTable() string {
	var b strings.Builder
	b.WriteString("| command | who | what it does |\n|---|---|---|\n")
	for _, c := range commands {
		who := "admin"
		if c.stats {
			who = "admin, stats"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.ReplaceAll(c.usage, "\n", "`<br>`"), who, c.about)
	}
	return b.String()
}

func viewTable(t *testing.T) string {
	theirs, err := os.ReadFile("testdata/pgbouncer-1.25.txt")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| view | what it shows | PgBouncer has it |\n|---|---|---|\n")
	for _, v := range views {
		has := ""
		if strings.Contains("\n"+string(theirs), "\n"+v.name+":") {
			has = "yes"
		}
		fmt.Fprintf(&b, "| [`SHOW %s`](#show-%s) | %s | %s |\n", v.name, strings.ToLower(v.name), v.about, has)
	}
	return b.String()
}

func columnTables(t *testing.T) string {
	explained := explanations(t)
	names := [...]string{view.Text: "text", view.Integer: "int8", view.Number: "float8", view.Bool: "bool", view.Time: "text"}
	var b strings.Builder
	for _, v := range views {
		about := explained[strings.Join(namesOf(v), " ")]
		if about == nil {
			t.Fatalf("SHOW %s: no struct has its columns", v.name)
		}
		fmt.Fprintf(&b, "\n#### SHOW %s\n\n%s%s.\n\n| column | type | |\n|---|---|---|\n", v.name, strings.ToUpper(v.about[:1]), v.about[1:])
		for _, c := range v.columns {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Name, names[c.Kind], about[c.Name])
		}
	}
	return b.String() + "\n"
}

// explanations are the comments of the fields of row structs: by their columns, then
// by the column. What is said of a connection's column once holds for its others.
func explanations(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	connection := map[string]string{}
	files, _ := filepath.Glob("../view/*.go")
	for _, file := range append(files, "rows.go") {
		parsed, err := goparser.ParseFile(gotoken.NewFileSet(), file, nil, goparser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			of, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			shared := slices.Contains([]string{"Client", "Server", "Socket"}, spec.Name.Name)
			columns, about := explained(of)
			for _, c := range columns {
				if shared && about[c] == "" {
					about[c] = connection[c]
				}
				if shared && connection[c] == "" {
					connection[c] = about[c]
				}
			}
			all[strings.Join(columns, " ")] = about
			return true
		})
	}
	return all
}

// explained are the columns of one struct and the comments beside them.
func explained(of *ast.StructType) (columns []string, about map[string]string) {
	about = map[string]string{}
	for _, f := range of.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		column := reflect.StructTag(tag).Get("col")
		columns = append(columns, column)
		about[column] = strings.TrimSpace(f.Comment.Text())
	}
	return columns, about
}

func parameterTable() string {
	var changeable, fixed []string
	for _, p := range parametersOf(&Session{}) {
		if p.fixed {
			fixed = append(fixed, "`"+p.name+"`")
		} else {
			changeable = append(changeable, "`"+p.name+"`")
		}
	}
	return "Kept, shown and reported, without effect: " + strings.Join(changeable, ", ") + ".\n\nFixed: " + strings.Join(fixed, ", ") + ".\n"
}

// TestUsageIsWhole: SHOW HELP names every view and command, and the dialogues of the
// tests use every one.
func TestUsageIsWhole(t *testing.T) {
	text := usage()
	var dialogues []byte
	for _, name := range []string{"views", "commands"} {
		part, err := os.ReadFile("testdata/dialogues/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		dialogues = append(dialogues, part...)
	}
	_, forStats, _ := strings.Cut(string(dialogues), "== statistics users may not")
	for _, v := range views {
		if !strings.Contains(strings.NewReplacer("\n", "|", " ", "|", "\t", "|").Replace(text)+"|", "|"+v.name+"|") {
			t.Errorf("SHOW HELP does not name %s", v.name)
		}
		if !strings.Contains(string(dialogues), "\nQ SHOW "+v.name+"\n") {
			t.Errorf("no dialogue has SHOW %s", v.name)
		}
	}
	for _, c := range commands {
		if !strings.Contains(text, c.word) || !strings.Contains(string(dialogues), "\nQ "+c.word) {
			t.Errorf("SHOW HELP or the dialogues do not have %s", c.word)
		}
		if !c.stats && !strings.Contains(forStats, "\nQ "+c.word) {
			t.Errorf("no user of statistics tries %s", c.word)
		}
	}
}
