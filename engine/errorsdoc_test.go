package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// expectations gives what looks like a SQLSTATE in the string literals of each test function of a package.
func expectations(t *testing.T, directory string) map[string]map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			codes := map[string]bool{}
			ast.Inspect(fn, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, _ := strconv.Unquote(lit.Value)
					if s = strings.TrimPrefix(s, "FATAL "); sqlstate.MatchString(s) {
						codes[s] = true
					}
				}
				return true
			})
			all[fn.Name.Name] = codes
		}
	}
	return all
}

// sqlstate matches the classes that occur.
var sqlstate = regexp.MustCompile(`^(08|0A|22|25|28|3D|42|53|54|57)[0-9A-Z]{3}$`)

// TestErrorsDocument: each row of docs/errors.md names a test that expects its SQLSTATEs, and each SQLSTATE that a test of
// this package expects stands in a row.
func TestErrorsDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := expectations(t, ".")
	whole := maps.Clone(tests) // with those of the whole process
	for _, directory := range []string{"../internal/e2e", "../internal/guide"} {
		maps.Copy(whole, expectations(t, directory))
	}
	documented := map[string]bool{}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "event" {
			continue
		}
		rows++
		name := strings.Trim(strings.TrimSpace(cells[4]), "`")
		codes, ok := whole[name]
		if !ok {
			t.Errorf("no test %q: %s", name, line)
		}
		for _, word := range strings.FieldsFunc(cells[2], func(r rune) bool { return r == ' ' || r == ',' }) {
			if !sqlstate.MatchString(word) {
				continue
			}
			documented[word] = true
			if !codes[word] {
				t.Errorf("%s does not expect %s: %s", name, word, line)
			}
		}
	}
	if rows < 40 {
		t.Errorf("%d rows were read", rows)
	}
	for name, codes := range tests {
		for code := range codes {
			if !documented[code] {
				t.Errorf("%s expects %s, which no row tells", name, code)
			}
		}
	}
}
